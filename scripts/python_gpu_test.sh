#!/usr/bin/env bash
# The Python package's GPU tests on a machine that has no compiler and no network: packed here, run there.
#   scripts/python_gpu_test.sh build PYTHON [BUILD_FOLDER]   builds the module with CUDA for that Python (build/cuda)
#   scripts/python_gpu_test.sh pack PYTHON FOLDER [BUILD_FOLDER]  module, libraries, tests and pytest, in a folder to be carried
#   scripts/python_gpu_test.sh run PYTHON FOLDER [PYTEST_ARGUMENT...]  there: PYTHON of the same version, with numpy, and
#                                                            torch as far as it is installed
# A folder of sources made for the GPU of that machine: CMAKE_CUDA_ARCHITECTURES (90a-real: H100, H200) and CROSSTALK_ARCH (x86-64-v3)
# of the environment are taken. What has no GPU there fails, it is not skipped.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."

usage() { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }

[ $# -ge 2 ] || usage
what=$1 python=$2
shift 2
case $what in
  build)
    build=${1:-build/cuda}
    cmake --preset cuda -B "$build" -DCROSSTALK_TESTS=OFF -DCROSSTALK_PYTHON_MODULE=ON -DPython_EXECUTABLE="$python" \
      -DCMAKE_CUDA_ARCHITECTURES="${CMAKE_CUDA_ARCHITECTURES:-90a-real}" -DCROSSTALK_ARCH="${CROSSTALK_ARCH:-x86-64-v3}"
    ninja -C "$build" _core crosstalk
    ;;
  pack)
    [ $# -ge 1 ] || usage
    folder=$1 build=${2:-build/cuda}
    rm -rf "$folder"
    mkdir -p "$folder/lib" "$folder/site" "$folder/python"
    cp -rL "$build/python/crosstalk" "$folder/python/crosstalk"
    cp "$build/crosstalk" "$folder/"
    # What the module needs beside the C and C++ libraries and OpenMP's, which torch brings.
    ldd "$folder"/python/crosstalk/_core*.so | awk '/lib(fmt|boost)[^ ]* => \//{print $3}' | xargs -r cp -Lt "$folder/lib"
    mkdir -p "$folder/tests/python"
    cp -r python/tests "$folder/tests/python/tests"
    "$python" -m pip install --quiet --target "$folder/site" pytest
    du -sh "$folder"
    ;;
  run)
    [ $# -ge 1 ] || usage
    folder=$(cd "$1" && pwd)
    shift
    export LD_LIBRARY_PATH="$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" PYTHONPATH="$folder/python"
    export CROSSTALK_PROGRAM="$folder/crosstalk" CROSSTALK_REQUIRE_CUDA=1 OMP_NUM_THREADS=4 PYTHONDONTWRITEBYTECODE=1
    # pytest that was carried stands behind what is installed there.
    "$python" -c 'import sys; sys.path.append(sys.argv.pop(1)); import pytest; sys.exit(pytest.main(sys.argv[1:]))' \
      "$folder/site" -q -rs -s -p no:cacheprovider "$folder/tests/python/tests/test_cuda.py" "$@"
    ;;
  *) usage ;;
esac

#!/usr/bin/env bash
# The Python package over libraries under AddressSanitizer and UndefinedBehaviorSanitizer (preset asan): its tests in a Python that is not.
#   scripts/python_asan_test.sh [PYTHON [PYTEST_ARGUMENT...]]   PYTHON has nanobind, numpy and pytest; without it one is made
# Leaks are not looked for: an interpreter ends with much that is not freed. python/tests/test_leaks.py does.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

python=${1:-$(module_python)}
if [ $# -gt 0 ]; then shift; fi
configure asan -DCROSSTALK_TESTS=OFF -DCROSSTALK_PYTHON_MODULE=ON -DPython_EXECUTABLE="$python"
build asan --target _core crosstalk
if [ $# -eq 0 ]; then
  for name in wrong_calls memories tasks stores torch layers vmap; do set -- "$@" "python/tests/test_$name.py"; done
fi
export PYTHONPATH="$root/build/asan/python" CROSSTALK_PROGRAM="$root/build/asan/crosstalk" OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1
# The interpreter is not instrumented, so that the libraries have to be there before it.
libraries="$("${CXX:-g++}" -print-file-name=libasan.so) $("${CXX:-g++}" -print-file-name=libubsan.so)"
LD_PRELOAD="$libraries" "$python" -m pytest -q -rs -p no:cacheprovider "$@"

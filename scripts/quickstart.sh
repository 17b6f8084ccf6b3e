#!/usr/bin/env bash
# From a fresh clone to a capacity curve: set-up, build, a small study, its figure. Prints the figure's files.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'HELP'
usage: bash scripts/quickstart.sh [--minimal] [--print]

Installs what is missing, builds Crosstalk (for the GPU too where nvcc and a GPU are found), runs the study
experiments/quickstart.toml into runs/quickstart and draws figures/quickstart. A second call builds and trains
only what is not there yet. The paths of the figure come on stdout, everything else on stderr.

  --minimal leaves out what only tests need, and the tests
  --print   only list what it would install and do
  --help    this text
HELP
}

print_only=false minimal=() without_tests=()
for argument in "$@"; do
  case $argument in
    --minimal) minimal=(--minimal) without_tests=(-DCROSSTALK_TESTS=OFF) ;;
    --print) print_only=true ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; die "unknown argument '$argument'" ;;
  esac
done

preset=cpu
if has_cuda_sources && has_gpu && find_nvcc >/dev/null; then preset=cuda; fi

if $print_only; then
  bash "$root/scripts/install-deps.sh" --print ${minimal[@]+"${minimal[@]}"}
  echo
  echo "cmake --preset cpu${without_tests[*]+ ${without_tests[*]}} && cmake --build --preset cpu --target crosstalk"
  if [ $preset = cuda ]; then echo "cmake --preset cuda && cmake --build --preset cuda --target crosstalk"; fi
  echo "build/$preset/crosstalk run experiments/quickstart.toml --out runs/quickstart"
  echo "build/$preset/crosstalk plot capacity runs/quickstart --out figures/quickstart"
  exit 0
fi

bash "$root/scripts/install-deps.sh" ${minimal[@]+"${minimal[@]}"}
if [ -z "${CROSSTALK_PYTHON:-}" ] && python=$(figure_python); then export CROSSTALK_PYTHON=$python; fi

step "Building for the CPU ($(job_count) jobs)"
configure cpu ${without_tests[@]+"${without_tests[@]}"}
build cpu --target crosstalk
if [ $preset = cuda ]; then
  step "Building for the GPU"
  if ! { configure cuda ${without_tests[@]+"${without_tests[@]}"} && build cuda --target crosstalk; }; then
    say "quickstart: the CUDA build failed (see above); going on with the CPU."
    preset=cpu
  fi
fi
crosstalk="$root/build/$preset/crosstalk"

step "Training the quickstart study"
cd "$root"
"$crosstalk" run experiments/quickstart.toml --out runs/quickstart >&2

step "Drawing its figure"
mkdir -p figures
"$crosstalk" plot capacity "$root/runs/quickstart" --out "$root/figures/quickstart"
say ""
say "Done. The study's results: build/$preset/crosstalk export runs/quickstart --format csv"
say "What else there is:        build/$preset/crosstalk --help"

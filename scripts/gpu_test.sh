#!/usr/bin/env bash
# Runs the GPU tests of a build folder, then the small ones under compute-sanitizer.
#   scripts/gpu_test.sh [BUILD_FOLDER] [SECONDS]      (build/cuda, 600 s for everything)
# Prints one line a step and what failed. Exit status: 0 when all passed, 1 otherwise.
# SPDX-License-Identifier: Apache-2.0
set -u
cd "$(dirname "$0")/.." || exit 1
build=${1:-build/cuda}
folder=$build/kernels
seconds=${2:-600}
start=$SECONDS
export CROSSTALK_REQUIRE_CUDA=1 OMP_NUM_THREADS=1
log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=0

step() { # step NAME SECONDS_AT_MOST COMMAND...
  local name=$1 most=$2 left=$((seconds - (SECONDS - start))) from=$SECONDS status
  shift 2
  if [ "$left" -lt 5 ]; then
    echo "$name: not run, out of time"
    failed=1
    return
  fi
  timeout "$((left < most ? left : most))" "$@" >"$log" 2>&1
  status=$?
  if [ "$status" -eq 0 ]; then
    echo "$name: passed in $((SECONDS - from)) s; $(grep -c '^\[       OK' "$log") cases"
    return
  fi
  failed=1
  if [ "$status" -eq 124 ]; then echo "$name: cut off after $((SECONDS - from)) s"; else echo "$name: FAILED ($status)"; fi
  grep -E '^\[  FAILED|: error|Failure|are off|bits differ|written past|=========|scoped|gpu_test|CUDA|trace' "$log" |
    head -60
  tail -3 "$log"
}

sanitize() { # sanitize TOOL SECONDS FILTER BINARY
  if ! command -v compute-sanitizer >/dev/null; then
    echo "$1: compute-sanitizer is not installed"
    return
  fi
  step "$1 $(basename "$4") ($3)" "$2" compute-sanitizer --tool "$1" --error-exitcode 9 --print-limit 10 \
    "$4" --gtest_filter="$3"
}

step "ops, CUDA against CPU" 260 "$folder/kernels_ops_test" --gtest_filter='*Cuda*'
step "copies" 20 "$folder/kernels_base_test" --gtest_filter='*Cuda*'
for more in tasks/tasks_cuda_test experiments/training/experiments_training_cuda_test; do
  if [ -x "$build/$more" ]; then step "$(basename "$more")" 120 "$build/$more"; fi
done
export CROSSTALK_FEW_REPLICAS=1
sanitize memcheck 200 '*Cuda*' "$folder/kernels_ops_test"
sanitize racecheck 300 '*Cuda*' "$folder/kernels_ops_test"
exit "$failed"

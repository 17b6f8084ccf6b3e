#!/usr/bin/env bash
# The whole test suite, from a fresh clone: set-up, build, tests, layering, format, scripts.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'HELP'
usage: bash scripts/test.sh [--asan] [--slow] [--faults [SEED]]

Installs what is missing, builds everything (preset cpu) and runs the test suite, then checks format and
scripts. Where nvcc is found the CUDA code is compiled too, and tested where there is a GPU. Exit code 0: all
passed.

  --asan    the suite under AddressSanitizer and UndefinedBehaviorSanitizer as well (preset asan)
  --slow    the tests labelled slow as well
  --faults  instead of the suite: faults of every kind thrown at the program (scripts/fault_test.py), in less than
            half an hour; prints its SEED and, of each kind, how many were tried and survived
  --help    this text
HELP
}

asan=false slow=false faults=false seed=()
for argument in "$@"; do
  case $argument in
    --asan) asan=true ;;
    --slow) slow=true ;;
    --faults) faults=true ;;
    [0-9]*) seed=(--seed "$argument") ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; die "unknown argument '$argument'" ;;
  esac
done

# Each check adds a line to the summary; the script goes on after a failure, so that one run shows them all.
summary=() failed=0
begin=$SECONDS
record() { # record STATE NAME [DETAIL]
  summary+=("$(printf '%-8s %-28s %s' "$1" "$2" "${3:-}")")
  if [ "$1" = FAILED ]; then failed=$((failed + 1)); fi
}
check() { # check NAME COMMAND...; the command may set `detail`
  local name=$1 start=$SECONDS state=passed
  shift
  step "$name"
  detail=""
  "$@" || state=FAILED
  record $state "$name" "$((SECONDS - start)) s${detail:+: $detail}"
  [ $state = passed ]
}

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
suite() { # suite TEST_PRESET
  local log="$logs/$1.log" junit="$logs/$1.xml" code=0
  (cd "$root" && ctest --preset "$1" -j "$(nproc)" --output-junit "$junit" --test-output-size-passed 100000) 2>&1 |
    tee "$log" >&2 || code=$?
  detail=$(grep -E '[0-9]+% tests passed' "$log" || echo "ctest ended without a summary")
  local strict=()
  if [ "${CI:-}" = true ]; then strict=(--strict); fi # a test that every machine skips is no test
  python3 "$root/scripts/skips.py" "$junit" ${strict[@]+"${strict[@]}"} || code=1
  return $code
}

format_check() {
  local tool="" candidate version
  for candidate in clang-format-14 clang-format; do
    if command -v "$candidate" >/dev/null 2>&1 && "$candidate" --version | grep -q 'version 14\.'; then
      tool=$candidate
      break
    fi
  done
  if [ -z "$tool" ]; then
    version=$(clang-format --version 2>/dev/null || echo none)
    say "needs clang-format 14 (others break lines differently); found: $version"
    return 1
  fi
  project_files .h .cpp .cu .cuh | (cd "$root" && xargs -0 -r "$tool" --dry-run -Werror) >&2
}

script_check() { (cd "$root" && shellcheck -x --source-path=SCRIPTDIR scripts/*.sh .ci/run) >&2; }

warnings=()
if [ "${CI:-}" = true ]; then warnings=(-DCROSSTALK_WERROR=ON); fi
build_everything() { # build_everything PRESET [-DOPTION=VALUE ...]
  local preset=$1
  shift
  configure "$preset" -DCROSSTALK_TESTS=ON ${warnings[@]+"${warnings[@]}"} "$@" && build "$preset"
}

bash "$root/scripts/install-deps.sh"
given_python=${CROSSTALK_PYTHON:-}
if [ -z "$given_python" ] && python=$(figure_python); then export CROSSTALK_PYTHON=$python; fi

if $faults; then
  build_everything cpu
  exec python3 "$root/scripts/fault_test.py" --build "$root/build/cpu" ${seed[@]+"${seed[@]}"}
fi

if module=$(module_python); then
  python_module=(-DCROSSTALK_PYTHON_MODULE=ON "-DPython_EXECUTABLE=$module")
  # The one that has numpy, pandas and matplotlib: tests of pages and figures skip nothing then.
  if [ -z "$given_python" ]; then export CROSSTALK_PYTHON=$module; fi
else
  python_module=(-DCROSSTALK_PYTHON_MODULE=OFF)
  record skipped "Python package" "no Python has headers, nanobind, numpy and pytest"
fi

test_preset=cpu ctest_line=""
if $slow; then test_preset=all; fi
if check "build (preset cpu)" build_everything cpu "${python_module[@]}"; then
  check "tests (preset $test_preset)" suite $test_preset || true
  ctest_line=$detail
else
  record skipped "tests (preset $test_preset)" "the build failed"
fi

if ! has_cuda_sources; then
  record skipped "CUDA" "there are no CUDA sources"
elif ! find_nvcc >/dev/null; then
  record skipped "CUDA" "nvcc was not found"
elif check "build (preset cuda)" build_everything cuda; then
  if has_gpu; then
    export CROSSTALK_REQUIRE_CUDA=1 # a GPU test that skips itself now fails
    check "tests (preset cuda)" suite cuda || true
    unset CROSSTALK_REQUIRE_CUDA
  else
    record skipped "tests (preset cuda)" "there is no GPU"
  fi
fi

if $slow; then # for other machines, without the libraries of the build
  check "release" bash "$root/scripts/release.sh" --out "$logs/release" python3 || true
fi

if $asan; then
  if check "build (preset asan)" build_everything asan; then
    check "tests (preset asan)" suite asan || true
  fi
fi

check "layering" python3 "$root/cmake/check_layering.py" "$root" >&2 || true
check "format" format_check || true
if command -v shellcheck >/dev/null 2>&1; then
  check "scripts (shellcheck)" script_check || true
else
  record skipped "scripts (shellcheck)" "shellcheck is not installed"
fi

printf '\nSummary after %d s\n' $((SECONDS - begin))
printf '  %s\n' "${summary[@]}"
if [ -n "$ctest_line" ]; then printf '%s\n' "$ctest_line"; fi
if [ "$failed" -gt 0 ]; then
  printf 'FAILED: %d of the checks above\n' "$failed"
  exit 1
fi

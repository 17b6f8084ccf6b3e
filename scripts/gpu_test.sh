#!/usr/bin/env bash
# Runs the GPU tests of a build folder: at the shared memory of three kinds of GPU, then under compute-sanitizer.
#   scripts/gpu_test.sh [BUILD_FOLDER]              every step (build/cuda)
#   scripts/gpu_test.sh [BUILD_FOLDER] STEP...      these steps, none of which takes more than nine minutes
#   scripts/gpu_test.sh [BUILD_FOLDER] sanitizers   all steps of the tools, side by side on all GPUs: some eight minutes on four
#   scripts/gpu_test.sh list                        the names of all steps
#   scripts/gpu_test.sh [BUILD_FOLDER] forms        the automatic form of a memory against the fastest, at 16 to 256 tokens (one minute)
# A step is WHAT:TESTS[:I/N], such as 99:ops, racecheck:ops:2/6 or memcheck:models:1/8 (part I of N). WHAT is the shared
# memory of a block in KiB (227 is an H100's, 163 an A100's, 99 a 4090's), `plain` (no op has a form, as if kernels/fused/*_form.cu
# were deleted) or a tool of compute-sanitizer, with fewer cases. TESTS are base, ops, models, graphs, rules, tasks or training.
# $LIMIT: seconds that a step may take (530). $GPUS, $PER_GPU: how many GPUs (all), and how many steps on each (4), `sanitizers`
# uses; $TOOLS: which tools (all four). $LOGS: a folder that keeps what each step printed.
# Prints one line a step and what failed. Exit status: 0 when all passed, 1 otherwise.
# SPDX-License-Identifier: Apache-2.0
set -u
cd "$(dirname "$0")/.." || exit 1
export CROSSTALK_REQUIRE_CUDA=1 OMP_NUM_THREADS=1 PATH=$PATH:/usr/local/cuda/bin
unset CROSSTALK_SHARED_LIMIT CROSSTALK_FEW_REPLICAS CROSSTALK_WITHOUT_FORMS
limit=${LIMIT:-530}
failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if [ -n "${LOGS:-}" ]; then mkdir -p "$LOGS" || exit 1; fi

# Kernels that a tool (2025.3) misjudges, and why they are right all the same (kernels/README.md, "What the tools say").
unjudged() { # unjudged TOOL
  case $1 in
    racecheck)
      printf -- '--kernel-name-exclude kernel_substring=%s ' 15chunked_forwardIfLi1E 15chunked_forwardIdLi1E \
        16chunked_backwardIfLi1E 16chunked_backwardIdLi1E
      ;;
    synccheck) printf -- '--kernel-name-exclude kernel_substring=%s ' fwm_forward_chunked fwm_backward_chunked ;;
  esac
}

# How many parts a tool wants of each group of tests, so that each ends in time.
parts_of() { # parts_of WHAT TESTS
  case $1:$2 in
    racecheck:ops) echo 32 ;;
    plain:*) echo 1 ;;
    [a-z]*:ops) echo 8 ;;
    [a-z]*:models) echo 4 ;;
    *:models) echo 2 ;;
    *) echo 1 ;;
  esac
}

all_steps() {
  local what tests parts part
  for what in 227 163 99 plain memcheck racecheck initcheck synccheck; do
    for tests in base ops models graphs rules tasks training; do
      # Rules are compiled while they run, and training repeats what models do, thousands of times: too slow for the tools.
      case $what:$tests in *check:rules | *check:training | plain:training | plain:tasks) continue ;; esac
      parts=$(parts_of "$what" "$tests")
      for ((part = 1; part <= parts; ++part)); do
        if [ "$parts" -gt 1 ]; then echo "$what:$tests:$part/$parts"; else echo "$what:$tests"; fi
      done
    done
  done
}

# The programs of a group that have GPU tests.
programs_of() { # programs_of TESTS
  local program
  case $1 in
    base) set -- kernels/kernels_base_test ;;
    ops) set -- kernels/kernels_ops_test ;;
    models) set -- models/models_memories_test ;;
    graphs) set -- models/models_graph_test ;;
    rules) set -- models/models_rules_test models/models_laws_test ;;
    tasks) set -- tasks/tasks_cuda_test ;;
    training) set -- experiments/training/experiments_training_cuda_test ;;
    *) return 1 ;;
  esac
  for program in "$@"; do
    if [ -x "$build/$program" ]; then echo "$program"; fi
  done
}

run_step() { # run_step WHAT:TESTS[:I/N]
  local step=$1 what tests part=1 parts=1 start=$SECONDS status=0 code program left cases=0 skipped=0 filter='*Cuda*'
  IFS=: read -r what tests part <<<"$step"
  if [ -n "$part" ]; then parts=${part#*/} part=${part%/*}; else part=1; fi
  local command=() without=()
  case $what in
    99 | 163 | 227) export CROSSTALK_SHARED_LIMIT=$what ;;
    plain) export CROSSTALK_WITHOUT_FORMS=1 ;;
    memcheck | racecheck | initcheck | synccheck)
      if ! command -v compute-sanitizer >/dev/null; then
        echo "$step: FAILED (compute-sanitizer is not installed)"
        failed=1
        return
      fi
      command=(compute-sanitizer --tool "$what" --error-exitcode 9 --print-limit 10)
      read -r -a without <<<"$(unjudged "$what")"
      command+=(${without[@]+"${without[@]}"})
      export CROSSTALK_FEW_REPLICAS=1
      # Models whose kernels have no op test of their own size: those that round.
      if [ "$tests" = models ]; then filter='*Cuda*Rounded*:*Cuda*Forms*'; fi
      ;;
    *)
      echo "$step: FAILED (there is no such step; '$0 list' prints them)"
      failed=1
      return
      ;;
  esac
  local programs
  if ! programs=$(programs_of "$tests") || [ -z "$programs" ]; then
    echo "$step: FAILED (no program of it is built in $build)"
    failed=1
    return
  fi
  : >"$log"
  for program in $programs; do
    left=$((limit - (SECONDS - start)))
    if [ "$left" -lt 5 ]; then status=124 && break; fi
    GTEST_TOTAL_SHARDS=$parts GTEST_SHARD_INDEX=$((part - 1)) timeout -k 10 "$left" \
      ${command[@]+"${command[@]}"} "$build/$program" --gtest_filter="$filter" >>"$log" 2>&1
    code=$?
    if [ "$code" -ne 0 ]; then status=$code; fi
    if [ "$code" -eq 124 ] || [ "$code" -eq 137 ]; then break; fi
  done
  unset CROSSTALK_SHARED_LIMIT CROSSTALK_FEW_REPLICAS CROSSTALK_WITHOUT_FORMS
  if [ -n "${LOGS:-}" ]; then cp "$log" "$LOGS/${step//[:\/]/.}.log"; fi
  cases=$(grep -c '^\[       OK' "$log")
  skipped=$(grep -c '^\[  SKIPPED \] .*(.* ms)' "$log")
  if [ "$status" -eq 0 ] && [ "$cases" -gt 0 ]; then
    echo "$step: passed in $((SECONDS - start)) s; $cases cases, $skipped skipped"
    return
  fi
  failed=1
  case $status in
    0) echo "$step: FAILED (no test ran)" ;;
    124 | 137) echo "$step: FAILED: cut off after $((SECONDS - start)) s, $cases cases had passed; the last was $(grep '^\[ RUN' "$log" | tail -1)" ;;
    *) echo "$step: FAILED ($status) after $((SECONDS - start)) s; $cases cases had passed" ;;
  esac
  grep -E '^\[  FAILED|: error|Failure|are off|bits differ|written past|=========|Expected|actual|scoped|gpu_test|CUDA|trace' "$log" |
    head -60
  tail -3 "$log"
}

# The tools' steps, the slowest tool first; each step is this script once more, on one GPU.
sanitizers() {
  local tool gpus=${GPUS:-$(nvidia-smi -L 2>/dev/null | wc -l)}
  # shellcheck disable=SC2016  # the inner shell expands them
  for tool in ${TOOLS:-racecheck initcheck memcheck synccheck}; do all_steps | grep "^$tool:"; done |
    xargs -P $((gpus * ${PER_GPU:-4})) --process-slot-var=SLOT -n 1 bash -c \
      'out=$(CUDA_VISIBLE_DEVICES=$((SLOT % $2)) "$0" "$1" "$3"); code=$?; printf "%s\n" "$out"; exit $code' \
      "scripts/gpu_test.sh" "$build" "$gpus" || failed=1
}

# Times, which other work on the GPU would spoil; wants a build with CROSSTALK_BENCHMARKS.
forms() {
  local shapes=() size tokens
  for size in 16 32 64 128; do
    for tokens in 16 32 64 128 256; do shapes+=("$((65536 / tokens))x${tokens}x2x$size"); done
  done
  "$build/crosstalk_forms_benchmark" --device cuda --memory delta gated_delta retnet linear_attention \
    --form automatic parallel chunk --format bf16 fp32 --repeats 4 --shape "${shapes[@]}" >"${LOGS:-$(dirname "$log")}/forms.csv" &&
    python3 benchmarks/report.py forms "${LOGS:-$(dirname "$log")}/forms.csv" 1.1 || failed=1
}

build=build/cuda
if [ "${1:-}" = list ]; then
  all_steps
  exit 0
fi
if [ $# -gt 0 ] && [ -d "$1" ]; then
  build=$1
  shift
fi
if [ $# -eq 0 ]; then
  mapfile -t steps < <(all_steps)
  set -- "${steps[@]}"
fi
for one in "$@"; do
  case $one in
    sanitizers) sanitizers ;;
    forms) forms ;;
    *) run_step "$one" ;;
  esac
done
exit "$failed"

#!/usr/bin/env bats
# Processes that know nothing of each other share a store: no run is trained twice, none is lost. Run by ctest, or:
# CROSSTALK=build/cpu/crosstalk bats experiments/program/sharing.bats
# SPDX-License-Identifier: Apache-2.0

bats_require_minimum_version 1.5.0

setup_file() {
  source=${CROSSTALK_SOURCE:-$(cd "$BATS_TEST_DIRNAME/../.." && pwd)}
  export source
  crosstalk=$(realpath "${CROSSTALK:-$source/build/cpu/crosstalk}")
  export crosstalk
  [ -x "$crosstalk" ] || { echo "no program at $crosstalk" >&2; return 1; }
  export OMP_NUM_THREADS=1
  unset NO_COLOR CLICOLOR_FORCE  # of whoever runs the tests
}

setup() {
  mkdir "$BATS_TEST_TMPDIR/work"
  cd "$BATS_TEST_TMPDIR/work"
  cat >s.toml <<'TOML'
[study]
name  = "s"
seeds = { range = [1, 10] }

[base]
task.name       = "recall"
model.d_key     = 8
train.max_steps = 400
train.stop_loss = 0
train.patience  = 100000
eval.every      = 50
eval.sequences  = 8

[memories.softmax]
name = "softmax"
[memories.delta]
name = "delta"

[[grid]]
"task.associations" = [4, 6, 8]
TOML
}

steps() { sed -i "s/^train.max_steps .*/train.max_steps = $1/" s.toml; } # steps N: of every run
records() { cat "$1"/shards/*.jsonl 2>/dev/null | wc -l; }               # records STORE: also those that are double
wait_for_records() { # wait_for_records STORE N
  for _ in $(seq 1200); do
    if [ "$(records "$1")" -ge "$2" ]; then return; fi
    sleep 0.02
  done
  return 1
}

# run_many N WORDS...: N processes at once; their stderr is in err.1, err.2, ...; all must exit with 0.
run_many() {
  local n=$1 pids=()
  shift
  for i in $(seq "$n"); do
    "$crosstalk" "$@" >"out.$i" 2>"err.$i" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || { tail err.*; return 1; }; done
}

@test "two processes on one store train nothing twice, and both end when all is done" {
  "$crosstalk" run s.toml --out one --quiet
  run_many 2 run s.toml --out two --threads 2
  [ "$(records two)" -eq 60 ]
  cmp <("$crosstalk" export one) <("$crosstalk" export two)
  cmp <("$crosstalk" export one --curves) <("$crosstalk" export two --curves)
  cat err.*
  # Both worked, and together they trained all.
  [ "$(find two/shards -name '*.jsonl' | wc -l)" -eq 2 ]
  grep -h -o 'trained [0-9]* runs' err.* | awk '{ sum += $2 } END { exit sum != 60 }'
  grep -q 'by other processes' err.1
  [ ! -e two/claims ]
}

@test "eight processes on one store, started at once in an empty place" {
  steps 100
  run_many 8 run s.toml --threads 1 --quiet
  [ "$(records runs/s)" -eq 60 ]
  [ "$("$crosstalk" export runs/s 2>err | wc -l)" -eq 61 ]
  [ ! -s err ]
}

@test "a process that is killed is replaced at once, and its runs alone are trained again" {
  steps 2000
  "$crosstalk" run s.toml --out one --quiet
  "$crosstalk" run s.toml --out two --threads 2 --quiet >out.1 2>err.1 &
  victim=$!
  wait_for_records two 5
  "$crosstalk" run s.toml --out two --threads 1 >out.2 2>err.2 &
  pid=$!
  wait_for_records two 15
  kill -9 "$victim"
  wait "$pid"
  cmp <("$crosstalk" export one) <("$crosstalk" export two)
  [ "$(records two)" -le 62 ]  # a record may have been written before the claim was given back
}

@test "a process that is held up loses its runs after the lease, and goes on without training them twice" {
  steps 3000
  "$crosstalk" run s.toml --out one --quiet --set seeds=1,2
  "$crosstalk" run s.toml --out two --set seeds=1,2 --threads 2 --lease 1 --quiet >out.1 2>err.1 &
  held=$!
  wait_for_records two 2
  kill -STOP "$held"
  run -0 --separate-stderr "$crosstalk" run s.toml --out two --set seeds=1,2 --threads 2 --lease 1
  kill -CONT "$held"
  wait "$held"
  cmp <("$crosstalk" export one) <("$crosstalk" export two)
  [ "$(records two)" -eq 12 ]
}

@test "claims may be deleted at any time" {
  steps 1000
  "$crosstalk" run s.toml --out one --quiet
  run_many 2 run s.toml --out two --threads 1 --quiet &
  all=$!
  for _ in $(seq 20); do
    rm -rf two/claims
    sleep 0.05
  done
  wait "$all"
  cmp <("$crosstalk" export one) <("$crosstalk" export two)
}

@test "where claims cannot be kept this is told, and everything is trained" {
  steps 20
  "$crosstalk" run s.toml --quiet --set seeds=1
  echo >runs/s/claims
  run -0 --separate-stderr "$crosstalk" run s.toml
  [[ $stderr == *"warning: "*"claims cannot be kept"*"other processes may train the same runs"* ]]
  [ "$(records runs/s)" -eq 60 ]
}

@test "a stopped process leaves its saved runs to the others, which go on from there" {
  steps 20000
  "$crosstalk" run s.toml --out one --quiet --set seeds=1
  "$crosstalk" run s.toml --out two --quiet --set seeds=1 --threads 2 2>err.1 >out.1 &
  first=$!
  wait_for_records two 1
  "$crosstalk" run s.toml --out two --quiet --set seeds=1 --threads 1 2>err.2 >out.2 &
  second=$!
  wait_for_records two 2
  kill -TERM "$first"
  wait "$first" || [ $? -eq 75 ]
  ls two/checkpoints/*.state
  wait "$second"
  [ "$(records two)" -eq 6 ]
  cmp <("$crosstalk" export one) <("$crosstalk" export two)
  [ -z "$(ls two/checkpoints)" ]
}

@test "retry shared by two processes tries each failed run once" {
  large="--set task.associations=4,50000 --set seeds=1,2,3"
  # Not enough memory for the larger load.
  # shellcheck disable=SC2086
  (ulimit -v 4000000; run -1 "$crosstalk" run s.toml --quiet $large)
  before=$(records runs/s)
  # shellcheck disable=SC2086
  for i in 1 2; do
    (ulimit -v 4000000; "$crosstalk" retry s.toml $large --threads 1 2>"err.$i" >/dev/null) &
  done
  wait
  cat err.*
  [ "$(records runs/s)" -eq $((before + 6)) ]
}

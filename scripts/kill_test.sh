#!/usr/bin/env bash
# Kills a run at random moments (kill -9), lets it go on, and compares its export with an undisturbed one.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

usage() {
  cat <<'HELP'
usage: bash scripts/kill_test.sh [--kills N] [--seed S] [--crosstalk PATH]

Trains a study of 60 runs undisturbed, then again with N kill -9 at random moments (default 20), each followed
by the same command. Exit code 0: no finished run was lost on the way, and both exports are equal to the byte.

  --kills N         kills that must hit a living process (default 20)
  --seed S          of the random moments (default: the time; printed)
  --crosstalk PATH  the program (default build/cpu/crosstalk)
HELP
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
kills=20 seed=$(date +%s) crosstalk=$root/build/cpu/crosstalk
while [ $# -gt 0 ]; do
  case $1 in
    --kills) kills=$2; shift 2 ;;
    --seed) seed=$2; shift 2 ;;
    --crosstalk) crosstalk=$2; shift 2 ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; echo "unknown argument '$1'" >&2; exit 2 ;;
  esac
done
RANDOM=$((seed % 32768))
echo "kill_test: seed $seed, $kills kills"

folder=$(mktemp -d)
child=""
cleanup() {
  if [ -n "$child" ]; then kill -9 "$child" 2>/dev/null || true; fi
  rm -rf "$folder"
}
trap cleanup EXIT
cd "$folder"

cat >study.toml <<'TOML'
[study]
name  = "kill_test"
seeds = { range = [1, 5] }

[base]
task.name       = "recall"
model.d_key     = 8
train.max_steps = 400
train.stop_loss = 0
train.patience  = 1000
eval.every      = 50
eval.sequences  = 8

[memories.softmax]
name = "softmax"
[memories.linear]
name = "linear_attention"
[memories.delta]
name = "delta"

[[grid]]
"task.associations" = [6, 10, 14, 18]
TOML

train() { "$crosstalk" run study.toml --out "$1" --quiet >/dev/null; }
now_ms() { echo $(($(date +%s%N) / 1000000)); }
done_runs() { # done_runs STORE: finished runs, 0 if there is no store yet
  if [ -e "$1/store.json" ]; then
    "$crosstalk" status "$1" --json 2>/dev/null | tr -d ' \n' | sed 's/.*"states":{"done":\([0-9]*\).*/\1/'
  else
    echo 0
  fi
}

begin=$(now_ms)
train undisturbed
whole=$(($(now_ms) - begin))
"$crosstalk" export undisturbed >expected.csv
"$crosstalk" export undisturbed --curves >expected_curves.csv
rows=$(($(wc -l <expected.csv) - 1))
if [ "$rows" -ne 60 ]; then echo "kill_test: the undisturbed study has $rows rows, not 60" >&2; exit 1; fi

compare() { # compare STORE
  "$crosstalk" export "$1" >got.csv 2>export.log
  "$crosstalk" export "$1" --curves >got_curves.csv 2>>export.log
  if cmp expected.csv got.csv && cmp expected_curves.csv got_curves.csv; then return; fi
  echo "kill_test: FAILED: the export differs from the undisturbed one (seed $seed)" >&2
  exit 1
}

# A store that is complete before all kills are spent is compared, and a new one begun.
hits=0 round=1 before=0
while [ "$hits" -lt "$kills" ]; do
  store=store$round
  train "$store" 2>>run.log &
  child=$!
  # 0 .. a fifth of the whole study: start, middle and end of runs are all met.
  pause=$((RANDOM % (whole / 5 + 1)))
  sleep "$((pause / 1000)).$(printf %03d $((pause % 1000)))"
  kill -9 "$child" 2>/dev/null || true
  code=0
  wait "$child" 2>/dev/null || code=$?
  child=""
  if [ "$code" -eq 137 ]; then hits=$((hits + 1)); fi
  if [ "$code" -ne 0 ] && [ "$code" -ne 137 ]; then
    cat run.log >&2
    echo "kill_test: FAILED: exit code $code after a kill (seed $seed)" >&2
    exit 1
  fi
  after=$(done_runs "$store")
  if [ "$after" -lt "$before" ]; then
    echo "kill_test: FAILED: $before finished runs became $after (seed $seed)" >&2
    exit 1
  fi
  before=$after
  if [ "$code" -eq 0 ]; then
    compare "$store"
    round=$((round + 1)) before=0
  fi
done
train "store$round"
compare "store$round"
echo "kill_test: passed: $hits kills, $round store(s), exports equal"

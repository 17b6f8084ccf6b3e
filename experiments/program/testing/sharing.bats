#!/usr/bin/env bats
# Processes that know nothing of each other share a store: no run is trained twice, none is lost.
# SPDX-License-Identifier: Apache-2.0

load common

setup() {
  work_in
  two_memories '[1, 10]' 400
}

steps() { sed -i "s/^train.max_steps .*/train.max_steps = $1/" s.toml; } # steps N: of every run

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
    rm -rf two/claims 2>/dev/null || true  # somebody may put a claim into it at this moment
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

@test "a process that comes when all is begun waits for what others train" {
  steps 20000
  sed -i 's/\[1, 10\]/[1, 2]/; s/\[4, 6, 8\]/[6]/' s.toml
  "$crosstalk" run s.toml --out one --quiet --threads 4
  "$crosstalk" run s.toml --out two --threads 4 --lease 3 2>err.1 >out.1 &
  first=$!
  for _ in $(seq 500); do
    if [ "$(find two/claims -type l 2>/dev/null | wc -l)" -eq 4 ]; then break; fi
    sleep 0.02
  done
  "$crosstalk" run s.toml --out two --threads 4 --lease 3 2>err.2 >out.2
  wait "$first"
  cat err.1 err.2
  grep -q "trained 0 runs in .*, 4 runs by other processes" err.2
  [ "$(records two)" -eq 4 ]
  cmp <("$crosstalk" export one) <("$crosstalk" export two)
  cmp <("$crosstalk" export one --curves) <("$crosstalk" export two --curves)
  [ ! -e two/claims ]
  [ -z "$(ls two/checkpoints)" ]
}

@test "retry shared by two processes tries each failed run once" {
  without_sanitizer
  large="--set task.associations=4,50000 --set seeds=1,2,3"
  # Not enough memory for the larger load.
  # shellcheck disable=SC2086
  (ulimit -v 4000000; run -1 "$crosstalk" run s.toml --quiet $large)
  before=$(records runs/s)
  # Both have seen what failed before one of them tries again: later the other would find six runs that failed anew, and try them
  # as it should. So somebody else holds these runs until both wait.
  ids=$("$crosstalk" export runs/s | python3 -c 'import csv, sys
print(*(row["id"] for row in csv.DictReader(sys.stdin) if row["status"] == "failed"))')
  [ "$(wc -w <<<"$ids")" -eq 6 ]
  mkdir runs/s/claims
  for id in $ids; do ln -s "somebody-1-0.worker" "runs/s/claims/$id"; done
  # shellcheck disable=SC2086
  for i in 1 2; do
    (ulimit -v 4000000; "$crosstalk" retry s.toml $large --threads 1 2>"err.$i" >/dev/null) &
  done
  for i in 1 2; do
    for _ in $(seq 1000); do grep -q 'waiting for 6 runs' "err.$i" && break; sleep 0.02; done
  done
  for id in $ids; do rm "runs/s/claims/$id"; done
  wait
  cat err.*
  [ "$(records runs/s)" -eq $((before + 6)) ]
}

@test "workers need the store alone, and train all that was asked of it" {
  steps 300
  "$crosstalk" run s.toml --out one --quiet
  "$crosstalk" run s.toml --out one --quiet --set seeds=11,12
  # Asked for, and stopped at once.
  for extra in "--set seeds=1,2,3,4,5,6,7,8,9,10" "--set seeds=11,12"; do
    # shellcheck disable=SC2086
    "$crosstalk" run s.toml --out two --quiet --time-limit 0.01 $extra || [ $? -eq 75 ]
  done
  before=$(records two)
  rm s.toml
  run_many 3 work two --threads 1
  [ "$(records two)" -eq 72 ]
  cat err.*
  [ "$(grep -h -o 'trained [0-9]* runs\? here' err.* | awk '{ sum += $2 } END { print sum }')" -eq $((72 - before)) ]
  cmp <("$crosstalk" export one) <("$crosstalk" export two)
  run -0 --separate-stderr "$crosstalk" work two
  [[ $stderr == *"nothing is left; trained 0 runs here"* ]]
}

@test "a worker trains what is asked for while it works" {
  steps 1500
  "$crosstalk" run s.toml --out two --quiet --threads 1 --time-limit 0.01 || [ $? -eq 75 ]
  "$crosstalk" work two --threads 1 2>err.1 &
  worker=$!
  wait_for_records two 5
  sed 's/^name  = "s"/name = "t"/; s/\[1, 10\]/[31, 33]/' s.toml >t.toml
  "$crosstalk" run t.toml --out two --quiet --threads 1 --time-limit 0.01 || [ $? -eq 75 ]
  [ "$(records two)" -lt 60 ]
  wait "$worker"
  cat err.1
  [ "$(records two)" -eq 78 ]
  [ "$("$crosstalk" status t.toml --out two --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["states"]["missing"])')" -eq 0 ]
  grep -q 's + t: nothing is left; trained [0-9]* runs here' err.1
}

@test "a worker that waits for others trains what is asked for meanwhile" {
  steps 100000000
  sed 's/\[1, 10\]/[1, 1]/; s/\[4, 6, 8\]/[4]/; /memories.delta/,+1d' s.toml >one.toml
  "$crosstalk" run one.toml --out two --quiet --threads 1 2>err.0 &
  first=$!
  for _ in $(seq 200); do [ -n "$(ls two/claims 2>/dev/null)" ] && break; sleep 0.05; done
  "$crosstalk" work two --threads 1 2>err.1 &
  second=$!
  for _ in $(seq 200); do grep -q waiting err.1 && break; sleep 0.05; done
  steps 50
  sed 's/^name  = "s"/name = "t"/' s.toml >t.toml
  before=$(records two)
  "$crosstalk" run t.toml --out two --quiet --threads 1 --time-limit 0.01 || [ $? -eq 75 ]
  wait_for_records two $((before + 60))
  kill -0 "$first"
  kill "$first" "$second"
  wait "$first" || [ $? -eq 75 ]
  wait "$second" || [ $? -eq 75 ]
  cat err.*
}

@test "weights that are asked for while a worker trains without them are kept in the end" {
  steps 1500
  "$crosstalk" run s.toml --out two --quiet --threads 1 --time-limit 0.01 || [ $? -eq 75 ]
  rm -r two/shards # the worker knows each run as missing, then as one without weights
  "$crosstalk" work two --threads 1 2>err.1 &
  worker=$!
  wait_for_records two 5
  "$crosstalk" run s.toml --set train.keep_weights=true --out two --quiet --threads 1 --time-limit 0.01 || [ $? -eq 75 ]
  wait "$worker"
  cat err.1
  [ "$(find two/weights -name '*.npz' | wc -l)" -eq 60 ]
}

@test "a device that trained something is not left out for a study that fails" {
  without_sanitizer
  ulimit -v 4000000 # not enough for 50,000 associations
  steps 1500
  "$crosstalk" run s.toml --out two --quiet --threads 1 --time-limit 0.01 || [ $? -eq 75 ]
  "$crosstalk" work two --threads 1 2>err.1 &
  worker=$!
  wait_for_records two 5
  python3 - <<'PY'
import glob, json, os
request = json.load(open(glob.glob("two/studies/s.request-*.json")[0]))
text = request["text"].replace('name  = "s"', 'name = "t"').replace("[4, 6, 8]", "[50000]").replace("[1, 10]", "[1, 5]")
json.dump({**request, "study": "t", "text": text}, open("two/studies/.t", "w"))
os.rename("two/studies/.t", "two/studies/t.request-00000000.json")
PY
  status=0
  wait "$worker" || status=$?
  cat err.1
  [ "$status" -eq 1 ]
  [ "$(records two)" -eq 70 ]
}

@test "a request may be withdrawn at any time" {
  steps 3000
  for delay in $(seq 0 3 60); do # worker processes read it up to some 10 ms after their parent
    "$crosstalk" run s.toml --out "two$delay" --quiet --threads 1 --time-limit 0.01 || [ $? -eq 75 ]
    "$crosstalk" work "two$delay" --device cpu:all:2 2>"err.$delay" &
    worker=$!
    sleep "0.$(printf %03d "$delay")"
    rm "two$delay"/studies/s.request-*.json
    status=0
    wait "$worker" || status=$?
    echo "$delay ms: $status"
    cat "err.$delay"
    if [ "$status" -ne 0 ]; then
      [ "$status" -eq 2 ]
      grep -q "nothing was asked" "err.$delay"
    fi
  done
}

@test "a study that cannot be read here is left out, and the others are trained" {
  steps 50
  "$crosstalk" run s.toml --out two --quiet --time-limit 0.01 || [ $? -eq 75 ]
  cp two/studies/s.request-*.json request
  python3 - <<'PY'
import json
request = json.load(open("request"))
request["study"], request["text"] = "f", request["text"].replace('name  = "s"', 'name = "f"').replace('"recall"', '"no task"')
json.dump(request, open("two/studies/f.request-00000000.json", "w"))
PY
  run -1 --separate-stderr "$crosstalk" work two
  [[ $stderr == *"warning: "*"f.toml:"*"no task"* ]]
  [[ $stderr == *"nothing is left"*"one study cannot be read here and was left out"* ]]
  [ "$(records two)" -eq 60 ]
  rm two/studies/s.request-*.json
  run -2 --separate-stderr "$crosstalk" work two
  [[ $stderr == *"warning: "*"f.toml:"*"no task"*"error: nothing that was asked of 'two' can be read here"* ]]
}

@test "shards of processes with equal names and pids differ" {
  steps 50
  for i in 1 2; do "$crosstalk" run s.toml --shard $i/2 --out "part$i" --quiet; done
  name=$(hostname | tr -c 'A-Za-z0-9.\n-' _)
  for i in 1 2; do find "part$i/shards" -name '*.jsonl' -printf '%f\n'; done | tee names
  [ "$(grep -cxE -- "$name-[0-9]+-[0-9a-f]{8}-0.jsonl" names)" -eq 2 ]
  [ "$(sed -E 's/.*-([0-9a-f]{8})-0.jsonl/\1/' names | sort -u | wc -l)" -eq 2 ]
}

@test "an edited study asks for what it says now" {
  steps 100000
  "$crosstalk" run s.toml --out two --quiet --time-limit 0.01 || [ $? -eq 75 ]
  steps 50
  sed -i 's/\[1, 10\]/[1, 2]/' s.toml
  "$crosstalk" run s.toml --out two --quiet --time-limit 0.01 || [ $? -eq 75 ]
  "$crosstalk" work two --quiet
  [ "$("$crosstalk" plan s.toml --out two --json | grep -c '"state": "missing"')" -eq 0 ]
  [ "$(records two)" -lt 30 ]
}

@test "shards make the whole, each run once, also in stores of their own" {
  steps 50
  "$crosstalk" run s.toml --out one --quiet
  for i in 1 2 3; do "$crosstalk" run s.toml --shard $i/3 --out "part$i" --quiet; done
  [ "$(cat part*/shards/*.jsonl | wc -l)" -eq 60 ]
  for i in 1 2 3; do [ "$(records "part$i")" -ge 15 ]; done
  # Parts are put together by copying them.
  cp -r part2/shards part3/shards part1
  cmp <("$crosstalk" export one) <("$crosstalk" export part1)
  for wrong in 0/3 4/3 1 a/3 1/x 1/3x; do
    run -2 --separate-stderr "$crosstalk" run s.toml "--shard=$wrong" --out none
    [[ $stderr == *"--shard takes I/N"* ]]
  done
  [ ! -e none ]
}

@test "work says what is wrong" {
  run -2 --separate-stderr "$crosstalk" work nowhere
  [[ $stderr == *"'nowhere' does not exist"* ]]
  mkdir empty
  run -2 --separate-stderr "$crosstalk" work empty
  [[ $stderr == *"is not a store"* ]]
  echo '{"format":1}' >empty/store.json
  run -2 --separate-stderr "$crosstalk" work empty
  [[ $stderr == *"nothing was asked of 'empty' yet"* ]]
}

@test "several workers of one launch share with another launch" {
  steps 500
  "$crosstalk" run s.toml --out one --quiet
  "$crosstalk" run s.toml --out two --quiet --time-limit 0.01 || [ $? -eq 75 ]
  before=$(records two)
  "$crosstalk" work two --device cpu:all:2 --share 1/2 2>err.1 &
  first=$!
  "$crosstalk" work two --threads 1 --share 2/2 2>err.2
  wait "$first"
  cat err.*
  [ "$(records two)" -eq 60 ]
  cmp <("$crosstalk" export one) <("$crosstalk" export two)
  [ "$(grep -h -o 'trained [0-9]* runs\? here' err.* | awk '{ sum += $2 } END { print sum }')" -ge $((60 - before)) ]
}

@test "status shows who works, and watches until all is done" {
  steps 12000
  sed -i 's/\[1, 10\]/[1, 3]/' s.toml
  "$crosstalk" run s.toml --out two --quiet --threads 1 2>err.1 >out.1 &
  first=$!
  wait_for_records two 1
  "$crosstalk" work two --quiet --threads 1 2>err.2 >out.2 &
  second=$!
  wait_for_records two 2
  for _ in $(seq 100); do
    run -0 --separate-stderr "$crosstalk" status two
    [[ $output == *"2 workers: "*" runs/s, "*" steps/s; "*" runs left, about "* ]] && break
    sleep 0.1
  done
  [[ $output == *"$(hostname)"*" cpu "*" works "* ]]
  [[ $output == *"2 workers: "*" runs left, about "* ]]
  "$crosstalk" status s.toml --out two --json | python3 -c '
import json, sys
status = json.load(sys.stdin)
workers = status["workers"]
assert len(workers) == 2 and all(w["lives"] and w["claims"] <= 1 and w["device"] == "cpu" for w in workers), workers
assert status["seconds_left"] > 0 and status["states"]["missing"] > 0, status'
  run -0 --separate-stderr timeout 120 "$crosstalk" status s.toml --out two --watch --every 0.2
  [ "$(grep -c '^store: /.*/two$' <<<"$output")" -ge 2 ]
  [[ $output =~ total\ +18\ +18 ]]
  wait "$first" "$second"
  run -0 "$crosstalk" status two
  [[ $output != *workers* ]]
}

@test "status knows the job of Slurm, and who is silent" {
  steps 200000
  SLURM_ARRAY_JOB_ID=7 SLURM_ARRAY_TASK_ID=2 "$crosstalk" run s.toml --out two --quiet --threads 1 --lease 8 2>err.1 >out.1 &
  worker=$!
  for _ in $(seq 100); do
    if "$crosstalk" status two 2>/dev/null | grep -qE '^7_2 +.* cpu +works'; then break; fi
    sleep 0.1
  done
  "$crosstalk" status two | grep -qE '^7_2 +.* cpu +works'
  kill -STOP "$worker"
  timeout 6 "$crosstalk" status two --watch --every 0.5 >seen || true
  kill -KILL "$worker"
  grep -qE '^7_2 +.* cpu +silent [0-9]+' seen
  grep -q '^0 workers: 0 runs/s' seen
}

@test "work says which runs the Python package trains" {
  echo 'class Mine: pass' >mine.py
  cat >own.toml <<'TOML'
[study]
name  = "own"
seeds = [1]

[base]
task.name       = "mqar"
task.vocabulary = 32
task.length     = 16
task.pairs      = 2
model.name      = "language"
model.width     = 8
train.max_steps = 2
train.batch     = 2
eval.sequences  = 4

[memories.mine]
name = "python"
source = "mine.py:Mine"

[memories.linear]
name = "linear_attention"
TOML
  "$crosstalk" run own.toml --out "my store" --set seeds=1,2 --quiet
  run -0 --separate-stderr "$crosstalk" work "my store" --python none
  [[ $stderr == *"own: nothing of the program's own memories is left; trained 0 runs here, 0 by other processes; 2 runs of PyTorch models are left, "* ]]
  [[ $stderr == *"where there is one: python -m crosstalk train 'my store'" ]]
  run -0 --separate-stderr "$crosstalk" export "my store"
  run -0 --separate-stderr "$crosstalk" plan own.toml
  echo "$output"
  grep -q '^mine  *python  *-  *-  *-  *1 ' <<<"$output"  # neither layer, nor d_dot, nor a state that is known
}

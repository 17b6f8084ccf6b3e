#!/usr/bin/env bats
# Several worker processes over one store, on the CPU; verify, doctor and bench from outside.
# SPDX-License-Identifier: Apache-2.0

load common

setup() {
  work_in
  two_memories '[1, 4]' 1000
}

# start STORE WORDS...: 3 workers in the background; their parent is $pid.
start() {
  local store=$1
  shift
  "$crosstalk" run s.toml --out "$store" --device cpu:all:3 "$@" 2>err >out &
  pid=$!
  wait_for_records "$store" 1
}

workers_of() { # workers_of PID: the processes whose parent it is
  for status in /proc/[0-9]*/stat; do
    awk -v parent="$1" '{ pid = $1; sub(/.*\) /, ""); if ($2 == parent) print pid }' "$status" 2>/dev/null || true
  done
}

# ends CODE: the program in the background does, with it.
ends() {
  local code=0
  wait "$pid" || code=$?
  cat err
  [ "$code" -eq "$1" ]
}

@test "three workers leave what one process leaves" {
  "$crosstalk" run s.toml --out one --quiet
  run -0 --separate-stderr "$crosstalk" run s.toml --out three --device cpu:all:3
  [ "$output" = three ]
  [[ $stderr == *"24 runs to train into $PWD/three"* ]]
  [[ $stderr == *"trained 24 runs"*"(24 done)"* ]]
  cmp <("$crosstalk" export one) <("$crosstalk" export three)
  cmp <("$crosstalk" export one --curves) <("$crosstalk" export three --curves)
  # All of them worked, and provenance tells what the user called.
  [ "$(find three/shards -name '*.jsonl' | sed 's/-[0-9]*\.jsonl$//' | sort -u | wc -l)" -eq 3 ]
  run -0 "$crosstalk" export three --provenance
  [[ $output == *"run s.toml --out three --device cpu:all:3"* ]]
  [[ $output != *"--worker"* ]]
  run -0 --separate-stderr "$crosstalk" run s.toml --out three --device cpu:all:3
  [[ $stderr == *"nothing to train"* ]]
}

@test "one of three workers is killed: the study completes, the export is the same" {
  sed -i 's/= 1000$/= 8000/' s.toml
  "$crosstalk" run s.toml --out one --quiet
  start three
  worker=$(workers_of "$pid" | head -1)
  kill -9 "$worker"
  ends 0
  grep -q "worker . (cpu) was killed by signal 9; the others take over its runs" err
  grep -q "trained 24 runs" err
  cmp <("$crosstalk" export one) <("$crosstalk" export three)
  [ "$(cat out)" = three ]
}

@test "all workers killed: exit 4, and the same command goes on" {
  sed -i 's/= 1000$/= 100000/' s.toml
  "$crosstalk" run s.toml --out three --device cpu:all:3 2>err >out &
  pid=$!
  for _ in $(seq 600); do
    [ "$(workers_of "$pid" | wc -l)" -eq 3 ] && break
    sleep 0.02
  done
  # shellcheck disable=SC2046
  kill -9 $(workers_of "$pid")
  ends 4
  grep -q "every worker was lost; 24 of 24 runs are not in the store" err
  [ ! -s out ]
  sed -i 's/= 100000$/= 20/' s.toml
  run -0 "$crosstalk" run s.toml --out three --device cpu:all:2 --quiet
}

@test "a signal before the program has read its arguments ends it as a stop does" {
  command -v cc >/dev/null || skip "no C compiler"
  # When the system has loaded the program, and nothing of it has run.
  cat >early.c <<'C'
#include <signal.h>
__attribute__((constructor)) static void early(void) { raise(SIGTERM); }
C
  cc -shared -fPIC early.c -o early.so
  for words in "run s.toml" "work runs/s" "retry s.toml"; do
    # shellcheck disable=SC2086
    run -75 --separate-stderr env LD_PRELOAD="$PWD/early.so" "$crosstalk" $words
    [[ $stderr == "crosstalk: stopped before anything was trained; the same command trains it" ]]
  done
  code=0
  LD_PRELOAD=$PWD/early.so "$crosstalk" plan s.toml || code=$?
  [ "$code" -eq 143 ]
}

@test "signals and time limits reach the workers, which save; then all goes on" {
  sed -i 's/= 1000$/= 4000/' s.toml
  "$crosstalk" run s.toml --out one --quiet
  start three
  kill -INT "$pid"
  ends 75
  grep -q "stopped by SIGINT after" err
  [ ! -s out ]
  run -75 --separate-stderr "$crosstalk" run s.toml --out three --device cpu:all:3 --time-limit 0.3
  [[ $stderr == *"stopped by the time limit"* ]]
  ls three/checkpoints/*.state
  run -0 "$crosstalk" run s.toml --out three --device cpu:all:2
  cmp <("$crosstalk" export one) <("$crosstalk" export three)
}

@test "a parent that is killed takes its workers along" {
  sed -i 's/= 1000$/= 4000/' s.toml
  start three
  workers=$(workers_of "$pid")
  kill -9 "$pid"
  wait "$pid" || true
  for worker in $workers; do
    for _ in $(seq 500); do
      # A zombie that nobody reaps has ended, too.
      if ! grep -q '^State:.[^Z]' "/proc/$worker/status" 2>/dev/null; then continue 2; fi
      sleep 0.02
    done
    return 1
  done
}

@test "failed runs are told and counted, and retry trains them with workers, too" {
  without_sanitizer
  ulimit -v 4000000  # not enough for the larger load
  large="--set task.associations=4,50000 --set seeds=1"
  # shellcheck disable=SC2086
  run -1 --separate-stderr "$crosstalk" run s.toml --out three --device cpu:all:2 $large
  [[ $stderr == *"(delta, seed 1) failed: out of memory"* ]]
  [[ $stderr == *"(2 done, 2 failed)"* ]]
  # shellcheck disable=SC2086
  run -1 --separate-stderr "$crosstalk" retry s.toml --out three --device cpu:all:2 $large
  [[ $stderr == *"trained 2 runs"*"(0 done, 2 failed)"* ]]
  # shellcheck disable=SC2086
  run -1 --separate-stderr "$crosstalk" retry s.toml --out three --device cpu:all:2 $large --max-failures 1
  run -0 "$crosstalk" retry s.toml --out three --device cpu:all:2
  [[ $output == *"no failed runs"* ]]
}

@test "workers cannot be had everywhere" {
  run -2 --separate-stderr "$crosstalk" run s.toml --device cpu:all:0
  [[ $stderr == *"--device takes"* ]]
  run -2 --separate-stderr "$crosstalk" run s.toml --worker 0/2:9
  [[ $stderr == *"for crosstalk itself"* ]]
  [ ! -e runs ]
  run -0 "$crosstalk" run --help
  [[ $output != *"--worker"* ]]
  [[ $output == *"cuda:all"* ]]
}

# Changes the loss of one record and seals it again, as no accident could.
tamper() { # tamper SHARD FACTOR
  python3 - "$@" <<'PY'
import re, sys
def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF
lines = open(sys.argv[1], encoding="utf-8").read().splitlines()
body = lines[0][: lines[0].rindex(',"crc":"')] + "}"
body = re.sub(r'"eval_loss":([0-9.e-]+)', lambda m: f'"eval_loss":{float(m[1]) * float(sys.argv[2])!r}', body, count=1)
lines[0] = body[:-1] + f',"crc":"{crc32c(body.encode()):08x}"' + "}"
open(sys.argv[1], "w", encoding="utf-8").write("\n".join(lines) + "\n")
PY
}

@test "verify trains a sample again and finds what was changed" {
  sed -i 's/= 1000$/= 50/' s.toml
  "$crosstalk" run s.toml --quiet
  find runs -type f -exec cksum {} + | sort >files
  run -0 "$crosstalk" verify runs/s -n 5
  [[ $output == *"5 identical, 0 within tolerance, none differs"* ]]
  [ "$("$crosstalk" verify runs/s -n 5)" = "$output" ]
  find runs -type f -exec cksum {} + | sort | diff files -
  run -0 "$crosstalk" verify s.toml
  [[ $output == *"20 identical"* ]]

  tamper runs/s/shards/*.jsonl 1.000001
  run -0 --separate-stderr "$crosstalk" export runs/s
  [ -z "$stderr" ]
  run -1 --separate-stderr "$crosstalk" verify runs/s -n 100
  [[ $output == *"DIFFERS"* ]]
  [[ $output == *"23 identical, 0 within tolerance, 1 DIFFER"* ]]
  "$crosstalk" verify runs/s -n 100 --json >verify.json || [ $? -eq 1 ]
  python3 -c 'import json
v = json.load(open("verify.json"))
assert v["checked"] == 24 and v["differ"] == 1 and sum(r["result"] == "DIFFERS" for r in v["runs"]) == 1, v'
  run -2 "$crosstalk" verify absent
}

@test "records of another device agree within the tolerance" {
  sed -i 's/= 1000$/= 50/' s.toml
  "$crosstalk" run s.toml --quiet --set seeds=1
  python3 - runs/s/shards/*.jsonl <<'PY'
import sys
text = open(sys.argv[1], encoding="utf-8").read()
assert '"device":"cpu"' in text
open(sys.argv[1], "w", encoding="utf-8").write(text.replace('"device":"cpu"', '"device":"abc"'))
PY
  for _ in 1 2 3 4 5 6; do  # seals each line
    tamper runs/s/shards/*.jsonl 1.0001
    sed -i '1{h;d};${p;x}' runs/s/shards/*.jsonl
  done
  run -0 "$crosstalk" verify runs/s
  [[ $output == *"0 identical, 6 within tolerance, none differs"* ]]
  [[ $output == *"6 were recorded by another device or compiler"* ]]
  run -1 "$crosstalk" verify runs/s --tolerance 0
}

# one_foreign: s.toml has a PyTorch model, too.
one_foreign() {
  printf 'class Mine: pass\n' >mine.py
  sed -i 's/= 1000$/= 50/; s/^seeds = .*/seeds = [1]/; s/^task.name .*/task.name = "mqar"\ntask.vocabulary = 16\ntask.length = 8/' s.toml
  sed -i 's/^model.d_key.*/model.name = "language"\nmodel.width = 8/; /^\[\[grid/,$d' s.toml
  printf '[[grid]]\n"task.pairs" = [1, 2]\n[memories.mine]\nname = "python"\nsource = "mine.py:Mine"\n' >>s.toml
}

# a_python CODE [COMMANDS]: an executable that stands for a Python with torch and crosstalk: it notes its calls and ends with CODE.
a_python() {
  cat >python <<SH
#!/bin/bash
case \$2 in *find_spec*) printf '%s\ntorch 9.9\ncrosstalk 9\n' "$PWD/python"; exit ;; esac
shift 2
echo "\$@" >>"$PWD/calls"
$2
exit $1
SH
  chmod +x python
}

@test "a worker leaves PyTorch models where no Python has torch, and says how" {
  one_foreign
  run -0 --separate-stderr "$crosstalk" run s.toml --set seeds=1
  [[ $stderr == *"2 runs of PyTorch models are left out"*"python -m crosstalk train s.toml --out runs/s --set seeds=1"* ]]
  CROSSTALK_PYTHON=/nowhere/python run -0 --separate-stderr "$crosstalk" work runs/s
  [[ $stderr == *"2 runs of PyTorch models are left, for no Python with torch and crosstalk (/nowhere/python cannot be called)"* ]]
  [[ $stderr == *"pip install torch"*"where there is one: python -m crosstalk train runs/s"* ]]
  run -0 --separate-stderr "$crosstalk" work runs/s --python none
  [[ $stderr == *"for no Python (--python none)"* ]]
  refused "--python: no Python with torch and crosstalk" "$crosstalk" work runs/s --python /nowhere/python
  refused "--python: no Python with torch and crosstalk" "$crosstalk" submit slurm s.toml --cpus 1 --time 1h --dry-run --python /nowhere/python
  # They are known everywhere, with a size and a time that nobody knows.
  run -0 "$crosstalk" status s.toml
  [[ $output == *"PyTorch models: 2 of the missing; 'crosstalk work $PWD/runs/s' or 'python -m crosstalk train s.toml' trains them"* ]]
  run -0 "$crosstalk" plan s.toml
  [[ $output == *"without 2 runs of PyTorch models"* ]]
  "$crosstalk" plan s.toml --json | python3 -c 'import json, sys
mine = [r for r in json.load(sys.stdin)["runs"] if r["label"] == "mine"]
assert len(mine) == 2 and all(r["d_dot"] is None and r["state_size"] is None for r in mine), mine'
  run -0 --separate-stderr "$crosstalk" pilot s.toml
  [[ $stderr == *"pilot: PyTorch models are left out"* ]]
}

@test "a study of PyTorch models alone has a store for workers, too" {
  one_foreign
  run -0 --separate-stderr "$crosstalk" run s.toml --set memory=mine --set task.pairs=1
  [[ $stderr == *"1 run of PyTorch models is left out"*"no run of a built-in memory is left to train into $PWD/runs/s"* ]]
  a_python 0
  CROSSTALK_PYTHON=./python run --separate-stderr "$crosstalk" work runs/s --device cpu
  [[ $stderr == *"1 run of PyTorch models by $PWD/python"* ]]
}

@test "a worker calls the Python that has torch, once, with what it was told, and says what went wrong there" {
  one_foreign
  "$crosstalk" run s.toml --quiet
  a_python 0
  CROSSTALK_PYTHON=./python run -1 --separate-stderr "$crosstalk" work runs/s --device cpu --threads 1 --lease 9
  [[ $stderr == *"2 runs of PyTorch models by $PWD/python (torch 9.9, crosstalk 9)"* ]]
  [[ $stderr == *"for Python did not train them; by hand: python -m crosstalk train runs/s"* ]]
  [ "$(cat calls)" = "train runs/s --keep-going --device cpu --threads 1 --lease 9" ]
  a_python 3
  run -1 --separate-stderr "$crosstalk" work runs/s --python ./python
  [[ $stderr == *"for Python ended with exit code 3, see above; once that is mended"* ]]
  run -0 "$crosstalk" submit slurm s.toml --gpus 2 --time 1h --dry-run --python ./python
  [[ $output == *" work $PWD/runs/s --python $PWD/python --time-limit"* ]]
  sed -i '/memories.mine/,$d' s.toml
  refused "the study has no PyTorch models" "$crosstalk" submit slurm s.toml --gpus 2 --time 1h --dry-run --python ./python
}

@test "a signal and the time limit reach the Python that a worker called" {
  one_foreign
  "$crosstalk" run s.toml --quiet
  a_python 0 'trap "echo stopped >>calls; exit 75" TERM; touch begun; for _ in {1..600}; do sleep 0.1; done'
  "$crosstalk" work runs/s --python ./python 2>err &
  pid=$!
  for _ in $(seq 600); do if [ -e begun ]; then break; fi; sleep 0.05; done
  kill -TERM "$pid"
  ends 75
  grep -q "stopped by SIGTERM after 0 runs; to resume: crosstalk work $PWD/runs/s" err
  run -75 --separate-stderr "$crosstalk" work runs/s --python ./python --time-limit 2
  [[ $stderr == *"stopped by the time limit"* ]]
  [ "$(grep -c stopped calls)" -eq 2 ]
}

@test "doctor looks and leaves nothing" {
  run -0 --separate-stderr "$crosstalk" doctor
  echo "$output"
  [ -z "$stderr" ]
  for word in version build cores memory gpu nvcc store python pytorch; do [[ $output == *"$word"* ]]; done
  [ ! -e runs ]
  "$crosstalk" doctor --json | python3 -c 'import json, sys
d = json.load(sys.stdin)
assert d["problems"] == 0 and all(f["level"] == "ok" or f["remedy"] for f in d["findings"]), d'
  echo text >file
  run -1 "$crosstalk" doctor file
  [[ $output == *"problem"*"store"* ]]
  CROSSTALK_PYTHON=/nowhere run -0 "$crosstalk" doctor
  [[ $output == *"no Python with matplotlib (tried /nowhere, from \$CROSSTALK_PYTHON)"* ]]
}

@test "bench has nothing to time of a probe, and says what does" {
  sed -e 's/^model.d_key/model.name = "probe"\nmodel.d_key/' -e 's/= 1000$/= 0/' -e '/^train.stop_loss\|^train.patience\|^eval.every/d' s.toml >probe.toml
  run -2 --separate-stderr "$crosstalk" bench probe.toml
  [[ $stderr == *"a probe "*" has none; "*"crosstalk run probe.toml"* ]]
  [ -z "$output" ]
}

@test "bench measures shapes and the study, and records nothing" {
  run -0 --separate-stderr "$crosstalk" bench s.toml --set task.associations=4 --replicas 1,2 --steps 200
  [[ $output == *"model-steps/s"* ]]
  [ "$(grep -c '^softmax\|^delta' <<<"$output")" -eq 4 ]
  [[ $stderr == *"4 shapes to measure, 2400 steps each"* ]]
  [[ $stderr == *"model-steps/s (1 of 4, about "*" left)"*"(4 of 4)"* ]]
  for steps in 200 2000 20000; do  # on a busy machine a repeat may be too short to be timed
    "$crosstalk" bench s.toml --replicas 2 --streams 2 --steps $steps --floor-tflops 1 --json >bench.json
    if ! grep -q '"share_of_floor": *null' bench.json; then break; fi
  done
  python3 -c 'import json
rows = json.load(open("bench.json"))["rows"]
assert len(rows) == 6 and all(r["in_flight"] == 4 and r["parameters"] > 0 and not r["problem"] for r in rows), rows
for r in rows:
  share = r["model_steps_per_second"] * r["flop_per_step"] / 1e12
  assert abs(r["share_of_floor"] - share) <= 1e-9 * abs(share), r'
  for seconds in 0.3 3 30; do  # on a busy machine nothing may be trained in a third of a second
    "$crosstalk" bench s.toml --study-packs --seconds $seconds --set train.max_steps=1000000 --json >bench.json
    if ! grep -q '"model_steps": 0' bench.json; then break; fi
  done
  python3 -c 'import json
b = json.load(open("bench.json"))
assert b["model_steps"] > 0 and b["packs_in_flight"] >= 1 and b["ended"] == 0 and b["seconds"] >= 0.3, b'
  [ ! -e runs ]
  run -2 --separate-stderr "$crosstalk" bench s.toml --replicas 1,x
  [[ $stderr == *"--replicas takes whole numbers"* ]]
  run -2 --separate-stderr "$crosstalk" bench s.toml --seconds 5
  [[ $stderr == *"--seconds belongs to --study-packs"* ]]
}

#!/usr/bin/env bats
# Files, folders and machines that somebody else made or damaged: nothing is believed, waited for or executed that
# should not be.
# SPDX-License-Identifier: Apache-2.0

load common

setup() {
  work_in
  cat >tiny.toml <<'TOML'
[study]
name  = "tiny"
seeds = [1, 2]

[base]
task.name         = "recall"
task.associations = 4
model.d_key       = 4
train.max_steps   = 20
eval.every        = 10
eval.sequences    = 4

[memories.softmax]
name = "softmax"
TOML
  sed -e 's/20$/40000/' -e 's/^eval.every .*/eval.every = 500\ntrain.stop_loss = 0\ntrain.patience = 1000000/' \
    tiny.toml >longer.toml
}

# stop_half_way STORE: both runs of longer.toml are saved in STORE/checkpoints.
stop_half_way() {
  run -75 "$crosstalk" run longer.toml --out "$1" --threads 1 --pack 2 --time-limit 0.5
  [ "$(find "$1/checkpoints" -name '*.state' | wc -l)" -eq 2 ]
}

@test "two saved runs that were swapped do not go on as each other" {
  "$crosstalk" run longer.toml --out undisturbed --quiet
  stop_half_way store
  read -r -d '' first second < <(printf '%s ' store/checkpoints/*.state; printf '\0') || true
  mv "$first" kept && mv "$second" "$first" && mv kept "$second"
  run -0 --separate-stderr "$crosstalk" run longer.toml --out store --quiet
  echo "$stderr"
  [ "$(grep -c 'trained from its start' <<<"$stderr")" -eq 2 ]
  cmp <("$crosstalk" export undisturbed) <("$crosstalk" export store)
  cmp <("$crosstalk" export undisturbed --curves) <("$crosstalk" export store --curves)
  [ "$(find store/quarantine -name '*.state' | wc -l)" -eq 2 ]
}

@test "a saved run that is damaged, a pipe or a device is set aside" {
  "$crosstalk" run longer.toml --out undisturbed --quiet
  stop_half_way store
  set -- store/checkpoints/*.state
  printf X | dd of="$1" bs=1 seek=300 conv=notrunc status=none
  rm "$2" && mkfifo "$2"
  run -0 --separate-stderr timeout 60 "$crosstalk" run longer.toml --out store --quiet
  echo "$stderr"
  [[ $stderr == *"checksum does not match"* && $stderr == *"no regular file"* ]]
  cmp <("$crosstalk" export undisturbed --curves) <("$crosstalk" export store --curves)
}

# refused_as CODE PATTERN COMMAND...: that exit code, a message with the pattern, and no sign of a crash.
refused_as() {
  local code=$1 pattern=$2
  shift 2
  run --separate-stderr "$@"
  echo "exit code $status, stderr: ${stderr:0:2000}"
  [ "$status" -eq "$code" ]
  [[ $stderr =~ $pattern ]]
  [[ $stderr != *"internal error"* && $stderr != *"terminate called"* && $stderr != *libgomp* ]]
}

@test "threads that cannot be made: exit 4 and what to do" {
  without_sanitizer
  # Address space for the program, but not for the stacks of 200 threads.
  for command in "run tiny.toml" "bench tiny.toml --study-packs --seconds 1" "bench tiny.toml --steps 10"; do
    # shellcheck disable=SC2016,SC2086
    refused_as 4 '--threads|ulimit' bash -c 'ulimit -v 1000000; exec "$@"' - "$crosstalk" $command --threads 200
  done
  [ "$(id -u)" -eq 0 ] || skip "only root can become somebody else who has no other processes"
  chmod 777 . && chmod a+rx "$BATS_TEST_TMPDIR" "$BATS_RUN_TMPDIR" "$BATS_FILE_TMPDIR" 2>/dev/null || true
  for limit in 1 2 3; do
    refused_as 4 'ulimit -u' setpriv --reuid=65533 --clear-groups prlimit --nproc=$limit \
      "$crosstalk" run tiny.toml --threads 4 --out "limited$limit"
  done
}

@test "memory that does not suffice ends no process by a signal" {
  without_sanitizer
  for limit in 200000 250000 307200 400000; do
    for _ in 1 2 3; do
      rm -rf store
      run --separate-stderr bash -c "ulimit -v $limit"'; exec "$@"' - "$crosstalk" run tiny.toml --set seeds="range(1,40)" \
        --threads 16 --out store -q
      [[ $status == [014] ]] || { echo "$limit KiB: exit code $status, ${stderr:0:500}"; false; }
      "$crosstalk" retry tiny.toml --set seeds="range(1,40)" --out store -q
      run -0 "$crosstalk" run tiny.toml --set seeds="range(1,40)" --out store -q
      [ "$("$crosstalk" export store 2>err | wc -l)" -eq 41 ]
      [ ! -s err ]
    done
  done
}

@test "a worker process that cannot be made: exit 4 and what to do" {
  without_sanitizer
  [ "$(id -u)" -eq 0 ] || skip "only root can become somebody else who has no other processes"
  chmod 777 . && chmod a+rx "$BATS_TEST_TMPDIR" "$BATS_RUN_TMPDIR" "$BATS_FILE_TMPDIR" 2>/dev/null || true
  refused_as 4 'ulimit -u' setpriv --reuid=65533 --clear-groups prlimit --nproc=1 \
    "$crosstalk" run tiny.toml --device cpu:all:2
}

@test "Python files of the current folder are not executed, whatever a figure is named" {
  "$crosstalk" run tiny.toml --quiet
  for module in matplotlib csv textwrap os sys site; do echo "open('$PWD/executed', 'w')" >$module.py; done
  mkdir -p .venv/bin && printf '#!/bin/sh\ntouch "%s/executed"\n' "$PWD" >.venv/bin/python && chmod +x .venv/bin/python
  "$crosstalk" plot capacity runs/tiny --out figures/a
  "$crosstalk" doctor
  CROSSTALK_PYTHON=python3 "$crosstalk" doctor
  [ ! -e executed ]
  for name in csv matplotlib textwrap; do
    run -0 --separate-stderr "$crosstalk" plot capacity runs/tiny --out figures/$name
    [[ $stderr != *"could not be rendered"* ]]
  done
  run -0 --separate-stderr "$crosstalk" plot capacity runs/tiny --out figures/a
  [[ $stderr != *"could not be rendered"* ]]
}

# forge STORE: rewrites every record of a store with names that act on a terminal, and seals them again.
forge() {
  python3 - "$1" <<'PY'
import glob, json, sys

def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF

evil = "\x1b[2J\x1b]0;owned\x07\u009b31m\u202eabc\u2066\r\nfaked: line\x7f"
for path in glob.glob(sys.argv[1] + "/shards/*.jsonl"):
    lines = []
    for i, line in enumerate(open(path, encoding="utf-8")):
        record = json.loads(line)
        del record["crc"]
        for key in ("id", "study", "label", "message"):
            record[key] += evil
        record["config"]["task." + evil] = evil
        record["metrics"][evil] = 1.5
        record["provenance"]["finished"] = "9999" + evil
        if i == 0:
            record["status"] = evil  # a bad line: told in a warning
        for double in (0, 1):  # the same id with two results: told in a warning
            record["steps"] += double
            text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
            lines.append(f'{text[:-1]},"crc":"{crc32c(text.encode()):08x}"}}\n')
    open(path, "w", encoding="utf-8").writelines(lines)
PY
}

# harmless FILE...: no byte in it acts on a terminal.
harmless() {
  python3 - "$@" <<'PY'
import re, sys
for name in sys.argv[1:]:
    text = open(name, "rb").read().decode("utf-8")
    found = re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]", text)
    assert not found, f"{name}: {text[max(0, found.start() - 40):found.start() + 20]!r}"
    table = text.startswith("id,")  # CSV has its lines in quotes
    assert table or not re.search("^faked", text, re.M), name
PY
}

@test "names in somebody's store or study do not act on the terminal" {
  "$crosstalk" run tiny.toml --quiet >/dev/null
  forge runs/tiny
  sed -e 's/^seeds .*/&\ntitle = "red \xe2\x80\xae x\xc2\x9b31m"/' tiny.toml >titled.toml
  printf '[study]\nname = "x"\n"\\u001b[2J\\u202e" = 1\n' >keyed.toml
  printf '[study]\nname = "\\u009b31m"\n[base]\ntask.name = "\\u001b[2J"\n' >named.toml
  mkdir studies && cp keyed.toml named.toml studies
  n=0
  for words in "status runs/tiny" "status runs/tiny --json" "status tiny.toml --out runs/tiny" "plan tiny.toml" \
    "plan titled.toml" "plan titled.toml --json" "plan keyed.toml" "plan named.toml" "export runs/tiny" \
    "export runs/tiny --format jsonl --provenance" "export runs/tiny --curves" "verify runs/tiny" \
    "verify runs/tiny --json" "plot capacity runs/tiny --out figure" "compare runs/tiny" "retry tiny.toml --out runs/tiny" \
    "run titled.toml --out runs/tiny" "list studies studies" "list studies . --json" "run tiny.toml --set task.x=$(printf '\x1b[2J')" \
    "$(printf '\x1b[2J')" "describe $(printf '\xc2\x9b')" "export $(printf '\x1b[2J')"; do
    n=$((n + 1))
    # shellcheck disable=SC2086
    timeout 60 "$crosstalk" $words >out.$n 2>err.$n || true
    cat out.$n err.$n | head -c 300 | cat -v
    harmless out.$n err.$n
    [[ $words != *--json* ]] || [ ! -s out.$n ] || python3 -m json.tool out.$n >/dev/null
  done
  "$crosstalk" export runs/tiny --out file.csv 2>/dev/null
  harmless file.csv
  python3 - <<'PY'
import json, subprocess, os
out = subprocess.run([os.environ["crosstalk"], "status", "runs/tiny", "--json"], capture_output=True).stdout
labels = list(json.loads(out)["labels"])
assert any("u202e" in label for label in labels), "the label is there"
assert all(label.isprintable() for label in labels), "under the name that every table and figure gives it"
PY
}

@test "an error about something endless is a line that can be read" {
  python3 - <<'PY'
text = open("tiny.toml").read()
open("blocks.toml", "w").write(text + '[[grid]]\n"task.associations" = [3, 4]\n' * 50000)
open("key.toml", "w").write(text + "x" * 1000000 + " = 1\n")
PY
  for study in blocks key; do
    run -2 --separate-stderr timeout "$(patient 20)" "$crosstalk" plan $study.toml
    [ "${#stderr}" -lt 10000 ]
  done
}

@test "sample and plot on a full disk: exit 3, and nothing half-written stays" {
  "$crosstalk" run tiny.toml --quiet >/dev/null
  refused_as 3 'space|too large' bash -c 'ulimit -f 8; exec "$@"' - "$crosstalk" sample recall -n 1000 --out sample
  [ ! -e sample ]
  "$crosstalk" sample recall -n 2 --out sample
  find sample -type f -exec cksum {} + >before
  refused_as 3 'space|too large' bash -c 'ulimit -f 8; exec "$@"' - "$crosstalk" sample recall -n 1000 --out sample
  find sample -type f -exec cksum {} + | cmp - before
  refused_as 3 'space|too large' bash -c 'ulimit -f 1; exec "$@"' - "$crosstalk" plot capacity runs/tiny --out figure
  [ -z "$(find . -name 'figure*')" ]
  [ "$(id -u)" -eq 0 ] && mkdir small && mount -t tmpfs -o size=64k tmpfs small 2>/dev/null || skip "no small disk"
  head -c 61000 /dev/zero >small/fill
  refused_as 3 'full|space' "$crosstalk" sample recall -n 1000 --out small/s
  refused_as 3 'full|space' "$crosstalk" plot capacity runs/tiny --out small/figure
  rm small/fill
  left=$(ls -A small)
  umount small
  [ -z "$left" ]
}

@test "a store that is moved or deleted during a run: exit 3, nothing in its old place" {
  for how in "mv store moved" "rm -rf store"; do
    "$crosstalk" run longer.toml --set train.max_steps=100000000 --out store 2>err &
    pid=$!
    for _ in $(seq 600); do [ -e store/shards ] && break; sleep 0.05; done
    sleep 0.5
    $how
    kill -TERM $pid
    code=0
    wait $pid || code=$?
    cat err
    [ "$code" -eq 3 ]
    grep -q "moved or deleted" err
    [ ! -e store ]
    rm -rf moved
    # and while records come
    "$crosstalk" run longer.toml --set train.max_steps=2000 --set seeds="range(1,400)" --out store 2>err &
    pid=$!
    for _ in $(seq 600); do [ -n "$(find store/shards -size +8k 2>/dev/null)" ] && break; sleep 0.02; done
    $how
    code=0
    wait $pid || code=$?
    cat err
    [ "$code" -eq 3 ]
    [ ! -e store ]
    rm -rf moved
  done
}

@test "a file in the place of a folder, a pipe in the place of a file: refused, never waited for" {
  "$crosstalk" run tiny.toml --quiet >/dev/null
  cp -r runs/tiny store
  rm -r store/shards && echo text >store/shards
  for command in "status store" "export store" "plot capacity store" "run tiny.toml --out store"; do
    # shellcheck disable=SC2086
    refused_as 2 "shards' is not a folder" "$crosstalk" $command
  done
  mkfifo pipe.toml pipe.csv
  for command in "plan pipe.toml" "plan /dev/zero" "compare runs/tiny --published pipe.csv" "status pipe.toml" \
    "compare runs/tiny --published /dev/zero" "plot capacity runs/tiny --published pipe.csv"; do
    # shellcheck disable=SC2086
    refused_as 2 "no regular file|no such file" timeout 20 "$crosstalk" $command
  done
  rm runs/tiny/store.json && mkfifo runs/tiny/store.json
  for command in "status runs/tiny" "run tiny.toml" "export runs/tiny"; do
    # shellcheck disable=SC2086
    refused_as 3 "no regular file" timeout 20 "$crosstalk" $command
  done
  rm runs/tiny/store.json && cp store/store.json runs/tiny
  mkfifo runs/tiny/shards/pipe.jsonl && ln -s /dev/zero runs/tiny/shards/zero.jsonl
  run -0 --separate-stderr timeout 20 "$crosstalk" run tiny.toml
  [[ $stderr == *"no regular file"* ]]
}

@test "new and export on a full disk: exit 3, what is wrong, and nothing half-written" {
  refused_as 3 'too large' bash -c 'ulimit -f 1; exec "$@"' - "$crosstalk" new mine.toml
  [ ! -e mine.toml ]
  "$crosstalk" run tiny.toml --quiet >/dev/null
  refused_as 3 'runs.csv: could not be written whole, and is as it was: File too large' \
    bash -c 'ulimit -f 1; exec "$@"' - "$crosstalk" export runs/tiny --out runs.csv
  refused_as 3 'No space left on device' "$crosstalk" export runs/tiny --out /dev/full
  [ -z "$(find . -maxdepth 1 -name '*.csv*')" ]
}

@test "line ends of keys are spelled out in messages" {
  printf '[study]\nname = "x"\n"a\\nfaked: line" = 1\n' >key.toml
  printf '[study]\nname = "x"\n[base]\n"task.\\nfaked: line" = "\\nfaked: line"\n' >base.toml
  for study in key base; do
    run -2 --separate-stderr "$crosstalk" plan $study.toml
    echo "$stderr"
    [ "$(wc -l <<<"$stderr")" -eq 1 ]
  done
  run -2 --separate-stderr "$crosstalk" plan key.toml
  [[ $stderr == "key.toml:3:1: unknown key a\\u000afaked: line"* ]]
}

@test "a request of blanks is left out at once" {
  "$crosstalk" run tiny.toml --quiet >/dev/null
  python3 - <<'PY'
open("runs/tiny/studies/z.request-00000000.json", "w").write("{" + " " * 70_000_000 + "}")
PY
  run -0 --separate-stderr timeout "$(patient 5)" "$crosstalk" status runs/tiny
  [[ $stderr == *"z.request-00000000.json"*"larger than"* ]]
}

@test "numbers of a study that do not fit are refused where they stand" {
  printf '%s\n' '[study]' 'name = "m"' '[base]' 'task.name = "mqar"' 'task.length = 16' 'task.pairs = 2' \
    'model.name = "language"' 'model.width = 8' 'train.max_steps = 2' 'eval.every = 2' 'eval.sequences = 2' \
    '[memories.softmax]' 'name = "softmax"' >mixture.toml
  for count in 4294967297 4294967296 2147483648; do
    refused_as 2 'test_segments.*16:2:' "$crosstalk" run mixture.toml --set task.test_segments="16:2:$count"
  done
  run -0 "$crosstalk" run mixture.toml --set task.test_segments=16:2:3 -q
}

@test "bench refuses seconds that are none" {
  for seconds in x nan -1 0; do
    refused_as 2 'seconds needs a number' "$crosstalk" bench tiny.toml --study-packs --seconds "$seconds"
    refused_as 2 'seconds needs a number' "$crosstalk" bench tiny.toml --seconds "$seconds"
  done
}

@test "a study of many labels is planned in seconds" {
  python3 - <<'PY'
text = open("tiny.toml").read()
open("labels.toml", "w").write(text + "".join(f'[memories.l{i}]\nname = "softmax"\n' for i in range(60000)))
PY
  ulimit -t 60  # of the processor's: a loaded machine has as many
  "$crosstalk" plan labels.toml --set seeds=1 --json >plan.json
  "$crosstalk" plan labels.toml --set seeds=1 >plan.txt
}

@test "what kills leave of finished runs is swept, of others it stays" {
  "$crosstalk" run tiny.toml --quiet >/dev/null
  stop_half_way store
  mkdir -p runs/tiny/checkpoints
  cp store/checkpoints/*.state runs/tiny/checkpoints
  id=$("$crosstalk" export runs/tiny | sed -n '2s/,.*//p')
  echo x >"runs/tiny/checkpoints/$id.state"
  echo x >"runs/tiny/checkpoints/.$id.state.host-1-0.tmp"
  "$crosstalk" run tiny.toml --quiet >/dev/null
  [ "$(ls -A runs/tiny/checkpoints | sort)" = "$(ls store/checkpoints | sort)" ]
}

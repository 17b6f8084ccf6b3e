#!/usr/bin/env bats
# Files, folders and machines that somebody else made or damaged: nothing is believed, waited for or executed that
# should not be. CROSSTALK names the binary, CROSSTALK_SOURCE the repository. Run by ctest, or:
# CROSSTALK=build/cpu/crosstalk bats experiments/program/hostile.bats
# SPDX-License-Identifier: Apache-2.0

bats_require_minimum_version 1.5.0

setup_file() {
  source=${CROSSTALK_SOURCE:-$(cd "$BATS_TEST_DIRNAME/../.." && pwd)}
  export source
  crosstalk=$(realpath "${CROSSTALK:-$source/build/cpu/crosstalk}")
  export crosstalk
  [ -x "$crosstalk" ] || { echo "no program at $crosstalk" >&2; return 1; }
  export OMP_NUM_THREADS=1
}

setup() {
  mkdir "$BATS_TEST_TMPDIR/work"
  cd "$BATS_TEST_TMPDIR/work"
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

@test "a worker process that cannot be made: exit 4 and what to do" {
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

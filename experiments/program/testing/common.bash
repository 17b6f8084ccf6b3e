# What every *.bats file here begins with: `load common`. CROSSTALK names the binary, CROSSTALK_SOURCE the repository.
# Run by ctest, or: CROSSTALK=build/cpu/crosstalk bats experiments/program/testing/cli.bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash

bats_require_minimum_version 1.5.0

setup_file() {
  source=${CROSSTALK_SOURCE:-$(cd "$BATS_TEST_DIRNAME/../../.." && pwd)}
  export source
  crosstalk=$(realpath "${CROSSTALK:-$source/build/cpu/crosstalk}")
  export crosstalk
  [ -x "$crosstalk" ] || { echo "no program at $crosstalk" >&2; return 1; }
  export OMP_NUM_THREADS=1
  unset NO_COLOR CLICOLOR_FORCE # of whoever runs the tests
}

# work_in [NAME]: a new folder below the test's; bats keeps files of its own in the folder above.
work_in() {
  mkdir "$BATS_TEST_TMPDIR/${1:-work}"
  cd "$BATS_TEST_TMPDIR/${1:-work}" || return
}

sanitized() { ASAN_OPTIONS=help=1 "$crosstalk" --version 2>&1 | grep -q AddressSanitizer; }

# patient SECONDS: for how long a test waits; ten times as long under AddressSanitizer.
patient() { if sanitized; then echo $(($1 * 10)); else echo "$1"; fi; }

# without_sanitizer: for tests that limit memory or processes.
without_sanitizer() {
  if sanitized; then
    skip "AddressSanitizer reserves terabytes of addresses and starts a thread at its end: with a limit on these it ends by itself"
  fi
}

# refused PATTERN COMMAND...: exit 2, the message on stderr matches, nothing on stdout, no new file.
refused() {
  local pattern=$1 before after
  shift
  before=$(find . | sort)
  run -2 --separate-stderr "$@"
  echo "stderr: $stderr"
  [[ $stderr =~ $pattern ]]
  [ -z "$output" ]
  after=$(find . | sort)
  [ "$before" = "$after" ]
}

# two_memories SEEDS STEPS: s.toml, six runs a seed, which nothing ends before their last step.
two_memories() {
  cat >s.toml <<TOML
[study]
name  = "s"
seeds = { range = $1 }

[base]
task.name       = "recall"
model.d_key     = 8
train.max_steps = $2
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

records() { cat "$1"/shards/*.jsonl 2>/dev/null | wc -l; } # records STORE: also those that are double
wait_for_records() { # wait_for_records STORE N
  for _ in $(seq 1200); do
    if [ "$(records "$1")" -ge "$2" ]; then return; fi
    sleep 0.02
  done
  return 1
}

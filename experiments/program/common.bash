# What every *.bats file here begins with: `load common`. CROSSTALK names the binary, CROSSTALK_SOURCE the repository.
# Run by ctest, or: CROSSTALK=build/cpu/crosstalk bats experiments/program/cli.bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash

bats_require_minimum_version 1.5.0

setup_file() {
  source=${CROSSTALK_SOURCE:-$(cd "$BATS_TEST_DIRNAME/../.." && pwd)}
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

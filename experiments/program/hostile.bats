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

#!/usr/bin/env bats
# Looking inside: weights that are kept, and runs that start from them. Run by ctest, or:
# CROSSTALK=build/cpu/crosstalk bats experiments/program/inside.bats
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
seeds = [1, 2]

[base]
task.name         = "recall"
task.associations = 4
model.d_key       = 4
train.max_steps   = 40
eval.every        = 10
eval.sequences    = 4

[memories.softmax]
name = "softmax"
[memories.delta]
name = "delta"
TOML
}

# python_with MODULE: sets python to one that has it, or skips.
python_with() {
  for python in ${CROSSTALK_PYTHON:-python3 /usr/bin/python3}; do
    if "$python" -c "import $1" 2>/dev/null; then return; fi
  done
  skip "no python with $1"
}

@test "keep_weights: a file a run, which numpy reads in one line, with the names that describe prints" {
  python_with numpy
  "$crosstalk" run s.toml --set train.keep_weights=true --quiet
  [ "$(ls runs/s/weights | wc -l)" -eq 4 ]
  id=$("$crosstalk" plan s.toml --json | python3 -c 'import json, sys
print([r["id"] for r in json.load(sys.stdin)["runs"] if r["label"] == "delta"][0])')
  "$crosstalk" describe delta --json >delta.json
  "$python" - "runs/s/weights/$id.npz" <<'PY'
import json, sys, numpy
weights = numpy.load(sys.argv[1])
assert sorted(weights) == sorted(p["name"] for p in json.load(open("delta.json"))["parameters"]), list(weights)
assert weights["key_projection.key"].shape[0] == 4 and weights["key_embedding"].dtype == numpy.float32
assert all(numpy.isfinite(weights[name]).all() for name in weights)
PY
}

@test "keep_weights switched on later trains again for the weights, to the same records, and then no more" {
  "$crosstalk" run s.toml --quiet
  "$crosstalk" export runs/s >before.csv
  run -0 "$crosstalk" plan s.toml --set train.keep_weights=true
  [[ $output =~ "to train: 0 runs" ]]
  [[ $output =~ "without the weights that train.keep_weights wants, 'run' trains them again: 4 runs" ]]
  [ ! -e runs/s/weights ]
  run -0 --separate-stderr "$crosstalk" run s.toml --set train.keep_weights=true
  [[ $stderr =~ "4 runs were recorded without weights" ]]
  [ "$(ls runs/s/weights | wc -l)" -eq 4 ]
  "$crosstalk" export runs/s >after.csv
  cmp before.csv after.csv
  run -0 --separate-stderr "$crosstalk" run s.toml --set train.keep_weights=true
  [[ $stderr =~ "nothing to train" ]]
  run -0 --separate-stderr "$crosstalk" run s.toml
  [[ $stderr =~ "nothing to train" ]]
  "$crosstalk" compact runs/s
  [ "$(ls runs/s/weights | wc -l)" -eq 4 ]
  "$crosstalk" export runs/s >after.csv
  cmp before.csv after.csv
}

@test "weights that cannot be written leave the run missing" {
  "$crosstalk" run s.toml --quiet --set seeds=1
  touch runs/s/weights
  run -3 --separate-stderr "$crosstalk" run s.toml --set train.keep_weights=true --quiet
  [[ $stderr =~ weights ]]
  rm runs/s/weights
  "$crosstalk" run s.toml --set train.keep_weights=true --quiet
  [ "$(ls runs/s/weights | wc -l)" -eq 4 ]
}

@test "workers keep weights too" {
  "$crosstalk" run s.toml --set train.keep_weights=true --set seeds=1 --time-limit 0.001 --quiet || [ $? -eq 75 ]
  "$crosstalk" work runs/s --quiet
  [ "$(ls runs/s/weights | wc -l)" -eq 2 ]
}

@test "init_from: a run of another store, whose path may change, or an error that names what differs" {
  "$crosstalk" run s.toml --set train.keep_weights=true --quiet
  id=$("$crosstalk" export runs/s --format csv | grep ',delta,' | head -1 | cut -d, -f1)
  "$crosstalk" run s.toml --set memory=delta --set train.init_from="runs/s:$id" --out runs/warm --quiet
  "$crosstalk" export runs/warm >warm.csv
  [ "$(grep -c "$id" warm.csv)" -eq 2 ]
  mv runs/s moved
  run -0 --separate-stderr "$crosstalk" run s.toml --set memory=delta --set train.init_from="moved:${id:0:12}" --out runs/warm
  [[ $stderr =~ "nothing to train" ]]
  run -2 --separate-stderr "$crosstalk" run s.toml --set train.init_from="moved:$id" --out runs/wrong
  [[ $stderr =~ "train.init_from" ]]
  [[ $stderr =~ "has gate.bias, gate.key, gate.value, which this model has not" ]]
  [ ! -e runs/wrong ]
}

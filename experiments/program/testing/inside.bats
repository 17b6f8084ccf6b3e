#!/usr/bin/env bats
# Looking inside: weights that are kept, and runs that start from them.
# SPDX-License-Identifier: Apache-2.0

load common

setup() {
  work_in
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
  [[ $output =~ ", 0 to train" ]]
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

@test "inspect: arrays with a list of them, and figures as scripts" {
  python_with numpy
  "$crosstalk" run s.toml --set train.keep_weights=true --quiet
  run -0 --separate-stderr env CROSSTALK_PYTHON=/absent "$crosstalk" inspect runs/s --where label=delta --where seed=2 --positions 1,3 --out inside
  echo "$output" | grep -qx inside/read_weights.py
  [[ $stderr =~ "no Python with matplotlib" ]]
  "$python" - <<'PY'
import numpy, re
load = lambda name: numpy.load(f"inside/{name}.npy")
listed = re.findall(r"^(\S+) +\[.*\] +(\[.*\])$", open("inside/README.txt").read(), re.M)
assert len(listed) > 15
for name, shape in listed:
    assert list(load(name).shape) == eval(shape), name
w, values, output = load("read_weights"), load("values"), load("output")
assert numpy.allclose(numpy.einsum("hqm,mv->qv", w, numpy.eye(output.shape[1])[values]), output)
assert load("state_S").shape[0] == 2 and numpy.isclose(load("effective_rank")[0, 0], 1)
PY
  run -0 "$crosstalk" inspect runs/s --where label=softmax --where seed=2 --figures off --out inside
  [ ! -e inside/state_S.npy ]
  [ -e inside/read_weights.npy ]
}

@test "inspect without weights says how to get them, and does" {
  "$crosstalk" run s.toml --quiet
  refused "the weights of run ct-[0-9a-f]* \(delta, seed 1\) are not kept; .* trains it again" \
    "$crosstalk" inspect runs/s --where label=delta --where seed=1
  [[ $stderr =~ \'(.*)\'\ trains ]]
  eval "$(sed 's/^crosstalk/"$crosstalk"/' <<<"${BASH_REMATCH[1]}") --quiet"
  "$crosstalk" inspect runs/s --where label=delta --where seed=1 --figures off
  [ -e inside/read_weights.npy ]
}

@test "inspect refuses what it cannot do, and writes nothing" {
  "$crosstalk" run s.toml --set train.keep_weights=true --quiet
  refused "4 runs keep their weights; name one with --run" "$crosstalk" inspect runs/s
  refused "no such run" "$crosstalk" inspect runs/s --run ct-x
  refused "the sequence has positions 1 to 4" "$crosstalk" inspect runs/s --where label=delta --where seed=1 --positions 9
  refused "runs/s is a store, which holds nothing but runs" "$crosstalk" inspect runs/s --where label=delta --where seed=1 --out runs/s
  refused "runs/s is a store" "$crosstalk" inspect runs/s --where label=delta --where seed=1 --out runs/s/weights
  refused "needs numbers of tokens" "$crosstalk" inspect runs/s --where label=delta --where seed=1 --positions a
  refused "is a retrieval model, which is one memory without layers; leave --layer out" \
    "$crosstalk" inspect runs/s --where label=delta --where seed=1 --layer 0
  refused "head 1: delta has one head, 0" "$crosstalk" inspect runs/s --where label=delta --where seed=1 --head 1
  sed -e 's/^task.name/model.name = "probe"\ntask.name/' -e 's/= 40/= 0/' -e '/^eval.every/d' s.toml >probe.toml
  "$crosstalk" run probe.toml --out probe --set memory=delta --set seeds=1 --quiet
  refused "is a probe, .* crosstalk plot probe probe" "$crosstalk" inspect probe
  mkdir mine && echo hello >mine/README.txt
  refused "README.txt of something else" "$crosstalk" inspect runs/s --where label=delta --where seed=1 --out mine
  printf x >"$(ls runs/s/weights/*.npz | head -1)"
  for id in $(ls runs/s/weights); do
    "$crosstalk" inspect runs/s --run "${id%.npz}" --figures off --out "look-$id" || [ $? -eq 2 ]
  done
  [ "$(ls -d look-* | wc -l)" -eq 3 ]
}

@test "inspect of a language model: arrays and figures of a layer and a head, which errors name" {
  python_with numpy
  sed -e '/^task.associations/d' -e 's/^task.name .*/task.name = "mqar"\nmodel.name = "language"/' \
    -e 's/^model.d_key.*/model.width = 16\nmodel.heads = 2\nmodel.layers = 3\nmodel.stack = "base_conv softmax memory"/' \
    -e 's/= 40/= 2/' -e '/^eval.every/d' s.toml >language.toml
  "$crosstalk" run language.toml --out language --set memory=delta --set seeds=1 --set train.keep_weights=true --quiet
  run -0 --separate-stderr env CROSSTALK_PYTHON=/absent "$crosstalk" inspect language --out first
  grep -q "test sequence 0, layer 1, head 0" first/README.txt
  grep -q 'TITLE = ".*, layer 1, head 0"' first/read_weights.py
  [ ! -e first/state_S.npy ]
  run -0 "$crosstalk" inspect language --layer 2 --head all --figures off --out all
  run -0 "$crosstalk" inspect language --layer 2 --head 1 --figures off --out one
  grep -q "layer 2$" <(sed -n 3p all/README.txt)
  "$python" - <<'PY'
import numpy, re
for folder in ("first", "all", "one"):
    for name, shape in re.findall(r"^(\S+) +\[.*\] +(\[.*\])$", open(f"{folder}/README.txt").read(), re.M):
        assert list(numpy.load(f"{folder}/{name}.npy").shape) == eval(shape), name
load = lambda folder, name: numpy.load(f"{folder}/{name}.npy")
T = len(load("first", "tokens"))
assert numpy.allclose(load("first", "read_weights").sum(-1), numpy.ones((1, T)))
assert load("all", "read_weights").shape == (2, T, T) and numpy.isfinite(load("all", "output")).all()
assert numpy.allclose(numpy.einsum("htm,mhv->thv", load("all", "read_weights"), load("all", "v")), load("all", "retrieved"))
assert numpy.array_equal(load("one", "read_weights"), load("all", "read_weights")[1:])
assert numpy.array_equal(load("one", "beta"), load("all", "beta")[:, 1:])
PY
  refused "layer 0: base_conv is no memory; layers with a memory: 1 .softmax., 2 .delta." "$crosstalk" inspect language --layer 0
  refused "layer 7: there is none; layers with a memory: 1" "$crosstalk" inspect language --layer 7
  refused "head 2: delta has heads 0 to 1" "$crosstalk" inspect language --layer 2 --head 2
  refused "--head" "$crosstalk" inspect language --layer 2 --head x
  refused "--layer" "$crosstalk" inspect language --layer -1
}

@test "inspect draws a language model" {
  python_with matplotlib
  sed -e '/^task.associations/d' -e 's/^task.name .*/task.name = "mqar"\nmodel.name = "language"/' \
    -e 's/= 40/= 2/' -e '/^eval.every/d' s.toml >language.toml
  "$crosstalk" run language.toml --out language --set memory=delta --set seeds=1 --set train.keep_weights=true --quiet
  run -0 --separate-stderr env CROSSTALK_PYTHON="$python" "$crosstalk" inspect language
  for figure in read_weights key_overlap state gates; do [ -s "inside/$figure.pdf" ]; done
  [ -z "$stderr" ]
}

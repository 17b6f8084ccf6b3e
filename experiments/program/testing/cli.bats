#!/usr/bin/env bats
# The program from outside: exit codes, streams, files, signals.
# SPDX-License-Identifier: Apache-2.0

load common

setup() {
  work_in
  cat >tiny.toml <<'TOML'
[study]
name  = "tiny"
title = "Tiny"
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
[memories.linear]
name = "linear_attention"

[[grid]]
"task.associations" = [3, 6]
TOML
}

# A study that no test waits for.
long_study() {
  sed -e 's/20$/100000000/' -e 's/^name  = "tiny"/name = "long"/' -e 's/^eval.every .*/eval.every = 1000\ntrain.stop_loss = 0\ntrain.patience = 1000000/' tiny.toml >long.toml
}

# study SED_SCRIPT: tiny.toml, changed.
study() { sed "$1" tiny.toml >wrong.toml; }

# Until the run in the background trains: until it has claimed a run. What it claims it gives back when it stops.
wait_for_start() { # wait_for_start STORE
  for _ in $(seq 1200); do
    if compgen -G "$1/claims/ct-*" >/dev/null; then return; fi
    sleep 0.05
  done
  return 1
}

@test "help teaches, at every door" {
  for words in "" "--help" "-h" "help"; do
    # shellcheck disable=SC2086
    run -0 --separate-stderr "$crosstalk" $words
    [[ $output == *"crosstalk run experiments/quickstart.toml"* ]]
    [ -z "$stderr" ]
  done
  for command in run plan status retry work submit compact verify export plot report atlas list describe check sample bench doctor version; do
    run -0 "$crosstalk" "$command" --help
    [[ $output == *"Example"* ]]
    with_help=$output
    run -0 "$crosstalk" help "$command"
    [ "$output" = "$with_help" ]
  done
}

@test "an unknown command or option names the nearest" {
  refused "did you mean 'run'" "$crosstalk" rnu tiny.toml
  refused "did you mean --threads" "$crosstalk" run tiny.toml --thread 2
  refused "did you mean 'describe'" "$crosstalk" help describ
  refused "did you mean 'capacity'" "$crosstalk" plot capacty store
  refused "did you mean memories" "$crosstalk" list memmories
  refused "did you mean 'delta'" "$crosstalk" describe delt
  refused "did you mean 'train.patience'" "$crosstalk" describe model.patience
  refused "did you mean 'train.learning_rate'" "$crosstalk" describe lr
  refused "did you mean 'recall'" "$crosstalk" sample recal
  refused "did you mean task.associations" "$crosstalk" sample recall --set task.asociations=3
  refused "options stand after the command" "$crosstalk" --json list
  refused "'crosstalk describe delta' explains it" "$crosstalk" list delta
  refused "all tasks are listed; 'crosstalk describe NAME' explains one" "$crosstalk" list tasks mqar
  refused "is a study, and this wants a task; what its first run sees, shows: crosstalk sample recall --set task.associations=3" \
    "$crosstalk" sample tiny.toml
}

@test "a study or a store that does not exist names the nearest" {
  sed 's/^name  = "tiny"/name = "rates"/' tiny.toml >rates.toml
  refused "'rates' does not exist; did you mean rates.toml\?" "$crosstalk" status rates
  "$crosstalk" run rates.toml --set train.max_steps=1 --set eval.every=1 --quiet >/dev/null
  refused "did you mean rates.toml or runs/rates\?" "$crosstalk" status rates
  refused "did you mean rates.toml or runs/rates\?" "$crosstalk" status rates.tom
  refused "'runs/rate/' does not exist; did you mean runs/rates\?" "$crosstalk" export runs/rate/
  refused "^rate.toml: no such file; did you mean rates.toml\?" "$crosstalk" status rate.toml
  refused "^rate: no such file; did you mean rates.toml\?" "$crosstalk" run rate
  refused "'zzzzzz' does not exist; give a store" "$crosstalk" status zzzzzz
  refused "'runs' is not a store: it has no store.json; stores in it: runs/rates" "$crosstalk" status runs
  refused "^zzzzzz.toml: no such file; a study is" "$crosstalk" plan zzzzzz.toml
}

@test "names of other programs and papers are understood" {
  study 's/^train.max_steps .*/train.optimizer = "AdamW"/'
  refused '^wrong.toml:10:[0-9]+: .*did you mean "adamw"' "$crosstalk" plan wrong.toml
  study 's/^train.max_steps .*/train.precision = "fp16"/'
  refused 'did you mean "bf16"' "$crosstalk" plan wrong.toml
  study 's/^train.max_steps .*/device = "cuda"/'
  refused '^wrong.toml:10:1: unknown key device: .*crosstalk run STUDY.toml --device cuda:0' "$crosstalk" plan wrong.toml
  study 's/name = "softmax"/name = "Mamba"/'
  refused 'did you mean mamba2' "$crosstalk" plan wrong.toml
  study 's/name = "softmax"/name = "attention"/'
  refused 'did you mean softmax' "$crosstalk" plan wrong.toml
  refused '[-][-]set seeds=1,2,3' "$crosstalk" run tiny.toml --seeds 3
  refused '[-][-]device cuda:0' "$crosstalk" run tiny.toml --gpu 0
  refused 'nothing is needed to resume' "$crosstalk" run tiny.toml --resume
  refused '[-][-]set train.learning_rate=VALUE' "$crosstalk" run tiny.toml --lr 1e-3
  refused '[-][-]set train.batch=VALUE' "$crosstalk" run tiny.toml --batch-size 64
  run -0 "$crosstalk" describe DeltaNet  # in any case
  refused "crosstalk export STORE" "$crosstalk" describe python
  refused 'mad_recall .*experiments/mad.toml.* tokens' "$crosstalk" describe mad
  refused "crosstalk run tiny.toml" "$crosstalk" tiny.toml
  refused "'crosstalk describe delta' explains it" "$crosstalk" delta
  refused "did you mean 'run'" "$crosstalk" train tiny.toml
  run -0 "$crosstalk" help intervals
  [ "$output" = "$("$crosstalk" describe intervals)" ]
  refused "crosstalk describe zzzzzz" "$crosstalk" help zzzzzz
}

@test "describe finds keys without their table, values of keys and layers" {
  run -0 "$crosstalk" describe patience
  [[ $output == "train.patience (option)"* ]]
  run -0 "$crosstalk" describe adamw
  [[ $output == "adamw is a value of train.optimizer (option)"* ]]
  run -0 "$crosstalk" describe learning-rate
  [[ $output == "train.learning_rate (option)"* ]]
  run -0 "$crosstalk" describe published_csv
  run -0 "$crosstalk" describe beta_max
  [[ $output == "memory.beta_max (option)"*"Of memories "*"delta"* ]]
  run -0 "$crosstalk" describe Mamba
  [[ $output == "The memory is mamba2: 'crosstalk describe mamba2'."*"value of memory.decay"* ]]
  run -0 "$crosstalk" describe Linear Attention
  [[ $output == "linear_attention (memory)"* ]]
  run -2 "$crosstalk" describe Gated DeltaNet
  [[ $output == *"nothing is called 'Gated DeltaNet'; did you mean 'gated_delta'?"* ]]
  run -2 "$crosstalk" describe python
  [[ $output == *"import crosstalk"* ]]
  run -0 "$crosstalk" describe columns
  [[ $output == "Columns of an export"*"error_never: share of test queries answered with something"* ]]
  run -0 "$crosstalk" describe base_conv
  [[ $output == "base_conv: a layer of model.stack"* ]]
  "$crosstalk" describe patience --json | python3 -c 'import json, sys; assert json.load(sys.stdin)["key"] == "train.patience"'
}

@test "numbers on the command line are checked" {
  refused "threads needs a whole number" "$crosstalk" run tiny.toml --threads x
  refused "pack needs a whole number" "$crosstalk" run tiny.toml --pack 0
  refused "max-runs needs a whole number" "$crosstalk" run tiny.toml --max-runs -1
  refused "-n needs a whole number" "$crosstalk" sample recall -n 0
  refused "--count needs a whole number" "$crosstalk" sample recall --count 0
  refused "color is auto, always or never" "$crosstalk" run tiny.toml --color sometimes
}

@test "wrong studies: exit 2, path:line:col, nothing created" {
  study 's/^task.associations = 4/task.asociations = 4/'
  refused '^wrong.toml:8:1: .*task.associations' "$crosstalk" run wrong.toml
  study 's/^train.max_steps .*/train.max_steps = "many"/'
  refused '^wrong.toml:10:[0-9]+: ' "$crosstalk" run wrong.toml
  study 's/^model.d_key .*/model.d_key = -4/'
  refused '^wrong.toml:9:[0-9]+: ' "$crosstalk" run wrong.toml
  study 's/^eval.every .*/train.max_steps = 3/'
  refused '^wrong.toml:11:[0-9]+: ' "$crosstalk" run wrong.toml
  study 's/\[3, 6\]/[]/'
  refused '^wrong.toml:20:[0-9]+: ' "$crosstalk" run wrong.toml
  study '$a [[grid.zip]]\n"model.d_key" = [4, 8]\n"train.learning_rate" = [1e-3]'
  refused '^wrong.toml:2[1-3]:[0-9]+: ' "$crosstalk" run wrong.toml
  study 's/\[study\]/[study/'
  refused '^wrong.toml:1:[0-9]+: ' "$crosstalk" run wrong.toml
  study 's/name = "softmax"/name = "sotfmax"/'
  refused '^wrong.toml:15:[0-9]+: .*softmax' "$crosstalk" run wrong.toml
  refused 'max-runs|8 runs|= 8' "$crosstalk" run tiny.toml --max-runs 7
  refused '^--set .*train.batch' "$crosstalk" run tiny.toml --set train.bacth=3
  refused 'no such file' "$crosstalk" run absent.toml
  mkdir folder.toml
  refused 'directory' "$crosstalk" run folder.toml
  refused 'needs a study file' "$crosstalk" run
}

@test "wrong places for a store: exit 2, nothing created" {
  echo text >file
  refused 'file' "$crosstalk" run tiny.toml --out file
  refused 'file' "$crosstalk" run tiny.toml --out file/below
  mkdir foreign
  echo text >foreign/thesis.tex
  refused 'thesis.tex' "$crosstalk" run tiny.toml --out foreign
  refused 'proc' "$crosstalk" run tiny.toml --quiet --out /proc/no/store
  ln -s nowhere link
  refused 'link' "$crosstalk" run tiny.toml --out link
  if [ "$(id -u)" -ne 0 ]; then
    mkdir locked
    chmod 555 locked
    refused 'written' "$crosstalk" run tiny.toml --out locked/store
    chmod 755 locked
  fi
  refused "does not exist" "$crosstalk" export absent
  refused "not a store" "$crosstalk" export foreign
  refused "has no store at runs/tiny yet" "$crosstalk" export tiny.toml
}

@test "a study is trained once; its export is the same whatever the threads and packs" {
  run -0 --separate-stderr "$crosstalk" run tiny.toml
  [ "$output" = runs/tiny ]
  [[ $stderr == *"trained 8 runs"* ]]
  "$crosstalk" export runs/tiny >first.csv
  [ "$(wc -l <first.csv)" -eq 9 ]
  find runs -type f -exec cksum {} + | sort >files

  run -0 --separate-stderr "$crosstalk" run tiny.toml
  [ "$output" = runs/tiny ]
  [[ $stderr == *"nothing to train"* ]]
  find runs -type f -exec cksum {} + | sort | diff files -
  "$crosstalk" export tiny.toml | cmp first.csv -

  "$crosstalk" run tiny.toml --out again --threads 1 --pack 5 --quiet
  "$crosstalk" export again --out again.csv
  cmp first.csv again.csv
  cmp <("$crosstalk" export runs/tiny --curves --format jsonl) <("$crosstalk" export again --curves --format jsonl)
  "$crosstalk" export again --provenance | head -1 | grep -q provenance.host
}

@test "a larger study trains only what is new" {
  "$crosstalk" run tiny.toml --quiet
  run -0 --separate-stderr "$crosstalk" run tiny.toml --set seeds=1,2,3
  [[ $stderr == *"4 runs to train, 8 already"* ]]
  run -0 "$crosstalk" status tiny.toml
  [[ $output == *"the store has 4 runs more"* ]]
}

@test "a study's store may lie elsewhere, and messages name the place that was looked in" {
  "$crosstalk" run tiny.toml --quiet --set seeds=1 --out runs/elsewhere
  mkdir -p runs/tiny && cp runs/elsewhere/store.json runs/tiny
  refused 'no records in runs/tiny \(the store of tiny.toml; --store PATH names another\)' "$crosstalk" table final tiny.toml
  for command in "table final" "export"; do
    # shellcheck disable=SC2086
    run -0 --separate-stderr "$crosstalk" $command tiny.toml --set seeds=1 --store runs/elsewhere
    [ "$(grep -ci linear <<<"$output")" -gt 0 ]
  done
  refused 'no study' "$crosstalk" export runs/elsewhere --store runs/tiny
}

@test "--best and --metric suggest the name of this program" {
  "$crosstalk" run tiny.toml --quiet --set seeds=1 --set train.learning_rate=1e-3,1e-2
  refused '[-][-]best lr: no record has the key "lr"; did you mean "train.learning_rate"' \
    "$crosstalk" table final runs/tiny --best lr
  refused '[-][-]metric acc: no record has it; did you mean eval_accuracy' "$crosstalk" table final runs/tiny --metric acc
  refused '[-][-]where lr=1: .*did you mean "train.learning_rate"' "$crosstalk" export runs/tiny --where lr=1
  refused '[-][-]by d_key: no record has the key "d_key"; did you mean "model.d_key"' \
    "$crosstalk" table final runs/tiny --by d_key
  refused '[-][-]facet d_key: no record .*did you mean "model.d_key"' "$crosstalk" plot capacity runs/tiny --facet d_key
  refused '[-][-]best label: it chooses among values of a key' "$crosstalk" table final runs/tiny --best label
}

@test "labels come from the study that asks; one configuration is one run" {
  cat >labels.toml <<'TOML'
[study]
name  = "labels"
seeds = [1, 2]
[base]
task.name         = "recall"
task.associations = 4
model.d_key       = 4
train.max_steps   = 20
eval.every        = 10
eval.sequences    = 4
[memories.first]
name = "linear_attention"
[memories.second]
name = "linear_attention"
TOML
  "$crosstalk" plan labels.toml --json >plan.json
  python3 - <<'PY'
import json
plan = json.load(open("plan.json"))
assert plan["count"] == 2 and [run["labels"] for run in plan["runs"]] == [["first", "second"]] * 2, plan
PY
  run -0 --separate-stderr "$crosstalk" run labels.toml
  [[ $stderr == *"trained 2 runs"* ]]
  for source in labels.toml runs/labels; do
    "$crosstalk" export $source >rows.csv
    [ "$(grep -c ,labels,first, rows.csv)" -eq 2 ]
    [ "$(grep -c ,labels,second, rows.csv)" -eq 2 ]
  done
  run -0 "$crosstalk" plot capacity runs/labels --out both
  grep -q ^first, both.csv
  grep -q ^second, both.csv

  # Relabelled, nothing is trained and nothing is lost, of the study as of its store.
  sed -i -e 's/memories.first/memories.new/' -e '/memories.second/,$d' labels.toml
  run -0 --separate-stderr "$crosstalk" run labels.toml
  [[ $stderr == *"nothing to train"* ]]
  for source in labels.toml runs/labels; do
    "$crosstalk" export $source --where 'label=ne*' >rows.csv
    [ "$(grep -c ,labels,new, rows.csv)" -eq 2 ]
    [ "$(wc -l <rows.csv)" -eq 3 ]
  done
}

@test "a study exports what it asks for, a store everything, told apart" {
  "$crosstalk" run tiny.toml --quiet >/dev/null
  sed -e 's/^train.max_steps .*/train.max_steps = 10/' tiny.toml >changed.toml
  "$crosstalk" run changed.toml --quiet >/dev/null
  run -0 --separate-stderr "$crosstalk" export changed.toml
  [ "$(echo "$output" | wc -l)" -eq 9 ]
  [[ $stderr == *"8 runs in runs/tiny that this study does not ask for"* ]]
  "$crosstalk" export tiny.toml --set seeds=2 2>/dev/null >part.csv
  [ "$(wc -l <part.csv)" -eq 5 ]
  "$crosstalk" export runs/tiny >all.csv
  [ "$(wc -l <all.csv)" -eq 17 ]
  python3 - <<'PY'
import csv
versions = {}
for row in csv.DictReader(open("all.csv")):
    versions.setdefault(row["study_version"], set()).add(row["train.max_steps"])
assert sorted(map(sorted, versions.values())) == [["10"], ["20"]], versions
PY
  "$crosstalk" export runs/tiny changed.toml --where 'label=lin*' --where seed=1,2 2>/dev/null >some.csv
  [ "$(wc -l <some.csv)" -eq 9 ]
  refused 'no record matches; there are' "$crosstalk" export runs/tiny --where 'label=x*'
  refused 'did you mean "train.batch"' "$crosstalk" export runs/tiny --where train.bacth=3
}

@test "plan counts, creates nothing, and follows the store" {
  run -0 --separate-stderr "$crosstalk" plan tiny.toml
  [[ $output == *"= 8 runs"* ]]
  [[ $output == *", 8 to train"* ]]
  [ ! -e runs ]
  dry=$("$crosstalk" run tiny.toml --dry-run)
  [ "$(grep -v '^time:\|^the time' <<<"$dry")" = "$(grep -v '^time:\|^the time' <<<"$output")" ]
  [ "$(sed -n 1p <<<"$output")" = "tiny: 8 runs of 2 models, 8 to train" ]
  [[ $(sed -n 2p <<<"$output") == "time: about "*" on one H100 or H200 if every run takes its train.max_steps"* ]]
  [[ $(sed -n 3p <<<"$output") == "look at: "*"crosstalk pilot"* ]]
  "$crosstalk" run tiny.toml --quiet --set seeds=1
  "$crosstalk" plan tiny.toml --json >plan.json
  python3 - <<'PY'
import json
plan = json.load(open("plan.json"))
assert plan["count"] == 8 == len(plan["runs"]), plan["count"]
states = sorted(run["state"] for run in plan["runs"])
assert states == ["done"] * 4 + ["missing"] * 4, states
for run in plan["runs"]:
    assert run["id"].startswith("ct-") and run["label"] in ("softmax", "linear")
    assert run["config"]["task.associations"] in (3, 6) and run["config"]["seed"] == run["seed"], run
PY
}

@test "all --json output is JSON" {
  "$crosstalk" run tiny.toml --quiet
  for words in "plan tiny.toml" "status tiny.toml" "status runs/tiny" "list tasks" "list memories" "list feature-maps" \
    "list figures" "list studies ." "describe delta" "describe recall" "describe dpfp" "describe capacity" \
    "describe train" "describe memory.nu" "version"; do
    # shellcheck disable=SC2086
    "$crosstalk" $words --json | python3 -m json.tool >/dev/null || { echo "crosstalk $words --json"; return 1; }
  done
}

@test "every registered name can be described and sampled" {
  for kind in tasks memories feature-maps figures; do
    for name in $("$crosstalk" list $kind --json | python3 -c 'import json, sys; print(*[x["name"] for x in json.load(sys.stdin)])'); do
      run -0 --separate-stderr "$crosstalk" describe "$name"
      [ -n "$output" ]
    done
  done
  for name in $("$crosstalk" list tasks --json | python3 -c 'import json, sys; print(*[x["name"] for x in json.load(sys.stdin)])'); do
    case $name in file | tokens | text) continue ;; esac  # have no sequences of their own
    run -0 --separate-stderr "$crosstalk" sample "$name" -n 2 --split eval
    [ -n "$output" ]
  done
}

@test "steps that epochs decide are not set by train.max_steps; plan says when runs stop early" {
  study=$source/experiments/deltaformer2025_table1.toml
  run -2 "$crosstalk" plan "$study" --set train.max_steps=5
  [[ $output == *"--set train.max_steps=5: train.epochs = 24 decides the steps here"*"--set train.epochs=0"* ]]
  run -2 "$crosstalk" run "$study" --set train.max_steps=5 --out none
  [ ! -e none ]
  run -0 "$crosstalk" plan "$study" --set train.max_steps=5 --set train.epochs=0 --set seeds=1 --set eval.every=1 --set train.patience=1
  [[ $output == *"early stop: a run ends after 2 steps without a new best loss (eval.every x (train.patience + 1)) or at a validation accuracy of 0.999"* ]]
  [[ $output == *" on one H100 or H200 if every run takes"* ]]
}

@test "compare says what a shrunk run does otherwise than the study that replays the numbers" {
  study=$source/experiments/deltaformer2025_table1.toml
  table=$source/results/published/literature/deltaformer2025_table1.csv
  "$crosstalk" run "$study" --set task.examples=32 --set train.batch=16 --set train.epochs=1 --set eval.sequences=16 --set eval.every=1 \
    --set seeds=1,2 --set memory=softmax --out shrunk --quiet
  run -2 "$crosstalk" compare shrunk --published "$table" --allow train.epochs
  [[ $output == *"differ in train.learning_rate (0.001, 0.003), and a comparison pools over seeds only: --best train.learning_rate"* ]]
  run -0 --separate-stderr "$crosstalk" compare shrunk --published "$table" --allow train.epochs --best train.learning_rate
  [[ $output == *"| trained otherwise |"*"0 of 1 points agree ("*"), 1 cannot"* ]]
  [[ $output == *"Otherwise than experiments/deltaformer2025_table1.toml: "*"task.examples 32 (100000); train.batch 16 (512)."* ]]
  [[ $output == *"Trained: 2 steps of 16 sequences, width 32, 32 sequences over and over; read on 16 sequences."* ]]
  [[ $output == *"Of the published numbers: DeltaFormer"* ]]
  run -0 --separate-stderr "$crosstalk" compare shrunk --published "$table" --best train.learning_rate \
    --allow train.epochs,task.examples,train.batch,eval.sequences,eval.every
  [[ $output != *"trained otherwise"* ]]
  [[ $output == *"Otherwise than experiments/deltaformer2025_table1.toml: "* ]]
  for column in model.wdth=model.width train.bacth=train.batch d_key=model.d_key; do # a misspelt column would hide what differs
    printf 'label,task.name,%s,eval_accuracy\nsoftmax,mqar,32,0.9\n' "${column%=*}" >points.csv
    run -2 "$crosstalk" compare shrunk --published points.csv --best train.learning_rate
    [[ $output == *"column ${column%=*}: "*"did you mean ${column#*=}?"* ]]
  done
  printf 'label,task.name,memory.window,eval_accuracy\nsoftmax,mqar,4,0.9\n' >points.csv
  run -0 --separate-stderr "$crosstalk" compare shrunk --published points.csv --best train.learning_rate
  [[ $output == *"Not compared, for no run here has it: memory.window (4)."* ]]
  run -2 "$crosstalk" compare shrunk --published "$table" --allow model.lyers --best train.learning_rate
  [[ $output == *"--allow model.lyers: unknown key model.lyers; did you mean model.layers?"* ]]
  run -2 "$crosstalk" compare shrunk --published "$table" --best train.batch
  [[ $output == *"--best train.batch: it is 16 in all runs, so there is nothing to choose"* ]]
  run -0 --separate-stderr "$crosstalk" report shrunk --published "$table" --out page.html
  grep -q "Not the published training" page.html
}

@test "plan estimates the time before anything is recorded, by a try of two seconds" {
  long_study
  sed -i 's/^train.max_steps .*/train.max_steps = 20000/' long.toml
  start=$EPOCHREALTIME
  run -0 --separate-stderr "$crosstalk" plan long.toml
  seconds=$(python3 -c "print($EPOCHREALTIME - $start)")
  [[ $output == *"time: about "*" like these, about "*" on one H100 or H200 if every run takes its train.max_steps"* ]]
  [[ $output == *"the time is an estimate: here 2 of 2 memories just tried for "* ]]
  python3 -c "assert $seconds < $(patient 10), $seconds"  # three on an idle machine
  [ ! -e runs ]
  "$crosstalk" plan long.toml --json | python3 -c 'import json, sys
time = json.load(sys.stdin)["time"]
assert time["seconds"] > 0 and "just tried" in time["basis"], time'
  run -0 --separate-stderr "$crosstalk" plan long.toml --set train.patience=3
  [[ $output == *"early stop: a run ends after 4000 steps without a new best loss"* ]]
  [[ $output == *"train.max_steps, less where runs stop early (here "*" if all stop by step 5000)"* ]]
  # A GPU need not be here.
  run -0 --separate-stderr "$crosstalk" plan long.toml --device cuda
  [[ $output == *"time: about "*" on one H100 or H200 if every run takes its train.max_steps"* ]]
  # Where it is asked for, also by --dry-run, and whatever is recorded.
  for command in plan "run --dry-run"; do
    # shellcheck disable=SC2086
    run -0 --separate-stderr "$crosstalk" $command long.toml --device cpu --threads 1
    [[ $output == *"time: about "*" on 1 idle core like these"* ]]
  done
  run -2 "$crosstalk" plan long.toml --threads 0
  run -2 "$crosstalk" plan long.toml --device tpu
  [ ! -e runs ]
  # Of long sequences, and thousands of them in every evaluation.
  timeout "$(patient 60)" "$crosstalk" plan "$source/experiments/based2024_fig2.toml" --set memory=attention,deltanet >plan.txt
  grep -q "^time: about .* if every run takes its train.max_steps" plan.txt
  run -0 --separate-stderr "$crosstalk" plan "$source/experiments/probe.toml" --set memory=sum,mesa
  [[ $output == *"time: about "*" like these"* && $output == *"here 2 of 2 memories just tried for "* ]]
}

@test "plan says when so many keys leave no capacity" {
  run -0 --separate-stderr "$crosstalk" plan tiny.toml --set task.keys=24 --set task.values=24
  [[ $stderr == *"linear: task.keys = 24 is above d_dot = 4, "*"set task.values alone"* ]]
  run -0 --separate-stderr "$crosstalk" plan tiny.toml --set task.values=24
  [[ $stderr != *task.keys* ]]
}

@test "plan tells the time by what is recorded, and what memory cannot do" {
  run -0 --separate-stderr "$crosstalk" plan tiny.toml
  [[ $output == *"store: $PWD/runs/tiny"* ]]
  run -0 --separate-stderr "$crosstalk" plan tiny.toml --set task.keys=1000000 --set task.values=1000000
  [[ $stderr == *"cannot be trained here: the parameters of "*" need "*" GB at least, there are "*" GB"* ]]
}

@test "samples are written as .npy" {
  run -0 --separate-stderr "$crosstalk" sample recall -n 3 --seed 1 --set task.associations=5 --out sample
  [ "$output" = sample ]
  for file in keys.npy values.npy query.npy answer.npy README.txt; do [ -s "sample/$file" ]; done
  run -0 --separate-stderr "$crosstalk" sample recall --out absent/below
  [ "$output" = absent/below ]
  [ -s absent/below/keys.npy ]
}

@test "list studies shows the repository's, and every one of them can be planned" {
  cd "$source"
  run -0 --separate-stderr "$crosstalk" list studies
  echo "$stderr"
  [ -z "$(grep -vE '^experiments/(text_kjv|schlag2021_wikitext).toml:.* is no folder' <<<"$stderr")" ] # their texts are the user's
  [[ $output == *"experiments/quickstart.toml"* ]]
  cd "$BATS_TEST_TMPDIR" && mkdir elsewhere && cd elsewhere # the sources' own, by a path that can be run
  run -0 --separate-stderr "$crosstalk" list studies --json
  [ -s "$(jq -r '.[] | select(.name == "quickstart").path' <<<"$output")" ]
}

@test "SIGTERM stops with 75, and the same command goes on" {
  long_study
  for signal in TERM INT USR1 USR2 HUP; do
    "$crosstalk" run long.toml --out store 2>err >out &
    pid=$!
    wait_for_start store
    kill -$signal $pid
    code=0
    wait $pid || code=$?
    cat err
    [ "$code" -eq 75 ]
    grep -q "stopped by SIG$signal after 0 of 8 runs" err
    [ ! -s out ]
  done
  # Other runs into the same store: what the stops left is sound.
  run -0 "$crosstalk" run tiny.toml --out store --quiet
}

@test "a second SIGINT ends the run at once" {
  long_study
  "$crosstalk" run long.toml --grace 1000 2>err &
  pid=$!
  wait_for_start runs/long
  kill -STOP $pid  # so that both signals surely meet a run that has not left yet
  kill -INT $pid
  kill -CONT $pid
  kill -INT $pid
  code=0
  wait $pid || code=$?
  # 75 if it was quicker than the second signal
  [ "$code" -eq 130 ] || [ "$code" -eq 75 ]
}

@test "a time limit stops with 75" {
  long_study
  run -75 --separate-stderr "$crosstalk" run long.toml --time-limit 0.5
  [[ $stderr == *"stopped by the time limit"* ]]
}

@test "status of a store counts what is missing and half-way" {
  long_study
  run -75 "$crosstalk" run long.toml --time-limit 0.5
  for what in runs/long long.toml; do
    run -0 --separate-stderr "$crosstalk" status "$what"
    [[ ${lines[1]} == *"missing"* ]]
    [[ $output == *"half-way: "*" of the missing, saved; 'crosstalk "*"' resumes them"* ]]
    "$crosstalk" status "$what" --json | python3 -c '
import json, sys
status = json.load(sys.stdin)
missing = status["states"]["missing"]
assert status["half_way"] > 0 and missing >= status["half_way"], status
assert missing == sum(label["missing"] for label in status["labels"].values()), status
assert status["count"] == sum(status["states"].values()) - (0 if "study" in status else missing), status'
  done
  # The same where nothing was written down of what the request asks for.
  "$crosstalk" status runs/long >with
  python3 - <<'PYTHON'
import glob, json
for path in glob.glob("runs/long/studies/*.request-*.json"):
    request = json.load(open(path))
    assert request.pop("version"), request
    json.dump(request, open(path, "w"))
PYTHON
  "$crosstalk" status runs/long | diff with -
}

@test "all seeds are trained at the rates that one seed chose" {
  study 's/^seeds = .*/seeds = [1, 2, 3]/'
  rates=(--set train.learning_rate=1e-3,1e-2 --out store --device cpu --quiet)
  "$crosstalk" run wrong.toml "${rates[@]}" --set seeds=1
  chosen=(--chosen-of store --best train.learning_rate)
  run --separate-stderr "$crosstalk" plan wrong.toml --set train.learning_rate=1e-3,1e-2 --out store "${chosen[@]}"
  [[ $output =~ ", 8 to train" ]]
  "$crosstalk" run wrong.toml "${rates[@]}" "${chosen[@]}"
  [ $("$crosstalk" export store --format csv | wc -l) -eq 17 ] # 8 of the first seed, 8 of the others
  "$crosstalk" run wrong.toml "${rates[@]}" "${chosen[@]}"
  [ $("$crosstalk" export store --format csv | wc -l) -eq 17 ]
  "$crosstalk" export store --format csv >rates.csv # an export serves as well
  "$crosstalk" run wrong.toml "${rates[@]}" --chosen-of rates.csv --best train.learning_rate
  [ $("$crosstalk" export store --format csv | wc -l) -eq 17 ]
  refused "needs --chosen-of STORE" "$crosstalk" plan tiny.toml --best train.learning_rate
  refused "needs --best KEY" "$crosstalk" run tiny.toml --chosen-of store
  refused "no run of the study has the key" "$crosstalk" run tiny.toml --chosen-of store --best train.rate
}

@test "rates are chosen in short runs of one seed in the same command" {
  rates=(--set train.learning_rate=1e-2,1e-3 --out store)
  refused "nothing to choose" "$crosstalk" run tiny.toml --rates-short 0.5
  refused "is for one" "$crosstalk" run tiny.toml "${rates[@]}" --rates-short 0.5 --only ct-1
  refused "at most 1" "$crosstalk" run tiny.toml "${rates[@]}" --rates-short 2
  [ ! -e store ] && [ ! -e store-rates ]
  run -0 "$crosstalk" run tiny.toml "${rates[@]}" --rates-short 0.5 --quiet
  run -0 "$crosstalk" export store-rates --out rates.csv
  [ "$(grep -c ^ct- rates.csv)" = 8 ] # 2 memories, 2 loads, 2 rates, the first seed
  run -0 "$crosstalk" export store --out chosen.csv
  [ "$(grep -c ^ct- chosen.csv)" = 8 ] # one rate, both seeds
  run -0 "$crosstalk" plan tiny.toml "${rates[@]}" --set train.share=0.5 --set seeds=1 --json
  [[ $output == *'"train.max_steps": 10'* || $output == *'"train.max_steps":10'* ]]
  run -0 "$crosstalk" run tiny.toml "${rates[@]}" --rates-short 0.5
  [[ $output == *"nothing to train"* ]]
}

@test "a part of a study is planned and trained" {
  study 's/^seeds = .*/seeds = [1, 2, 3]/'
  part=(--set train.learning_rate=1e-3,1e-2 --where train.learning_rate=0.001 --where seed=1,3 --out store)
  run --separate-stderr "$crosstalk" plan wrong.toml "${part[@]}"
  [[ $output =~ ", 8 to train" ]]
  "$crosstalk" run wrong.toml "${part[@]}" --device cpu --quiet
  [ $("$crosstalk" export store --where train.learning_rate=0.001 --where seed=1,3 --format csv | wc -l) -eq 9 ]
  [ $("$crosstalk" export store --format csv | wc -l) -eq 9 ]
  refused 'no run matches; there are 1, 2, 3' "$crosstalk" run wrong.toml --where seed=4
  refused 'no run has the key "train.bach"; did you mean "train.batch"?' "$crosstalk" plan wrong.toml --where train.bach=4
}

@test "a seed of a table counts once, and unequal rows of it are refused" {
  printf '%s\n' 'label;seed;task.name;task.associations;eval_loss' 'mine;1.0;recall;4;0.25' 'mine;2.0;recall;4;0.5' >half.csv
  { cat half.csv; tail -n 2 half.csv; tail -n 2 half.csv; } >mine.csv
  run -0 --separate-stderr "$crosstalk" table final mine.csv
  [[ $stderr == *"mine.csv:4 repeats mine.csv:2, and 3 more rows repeat others"* ]]
  [ "$output" = "$("$crosstalk" table final half.csv)" ]
  echo 'mine;2.0;recall;4;0.75' >>mine.csv
  refused 'are of one label \("mine"\), configuration and seed \(2\), and differ' "$crosstalk" table final mine.csv
  refused 'mine.csv:3 and .*mine.csv:8' "$crosstalk" export mine.csv
  tail -n 1 mine.csv | cat <(head -n 1 mine.csv) - >other.csv
  refused 'are of one label' "$crosstalk" plot capacity half.csv other.csv
}

@test "a run of two sources counts once, and unequal results of it are refused whatever the order" {
  printf '%s\n' '[study]' 'name = "two"' 'seeds = [1, 2]' '[base]' 'task.name = "recall"' 'task.associations = 4' 'model.d_key = 4' \
    'train.learning_rate = 1e-2' 'train.max_steps = 4' 'eval.every = 2' 'eval.sequences = 4' '[memories.delta]' 'name = "delta"' >two.toml
  "$crosstalk" run two.toml --threads 1 -q >/dev/null
  "$crosstalk" export runs/two --out ids.csv >/dev/null
  cut -d, -f2- ids.csv >plain.csv
  once=$("$crosstalk" table final runs/two --format csv)
  for sources in "runs/two ids.csv" "ids.csv runs/two" "runs/two plain.csv" "plain.csv runs/two" "ids.csv plain.csv"; do
    run -0 --separate-stderr "$crosstalk" table final $sources --format csv
    [ "$output" = "$once" ]
  done
  awk -F, -v OFS=, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "eval_loss") at = i } NR > 1 { $at = 0.9 } 1' ids.csv >else.csv
  for command in "table final" export; do
    refused 'run ct-[0-9a-f]* in runs/two and .*else.csv:[23] are both the run' "$crosstalk" $command runs/two else.csv
    refused 'else.csv:[23] and run ct-[0-9a-f]* in runs/two are both the run' "$crosstalk" $command else.csv runs/two
  done
}

@test "what became of training is counted, exported and chosen by" {
  printf '%s\n' '[study]' 'name = "ends"' '[base]' 'task.name = "recall"' 'task.associations = 4' 'model.d_key = 4' \
    'train.learning_rate = 1e-2' 'train.stop_loss = 0' 'train.patience = 1000' 'eval.sequences = 4' '[memories.delta]' 'name = "delta"' \
    '[[grid]]' '"train.max_steps" = [80]' '"eval.every" = [10, 40]' >ends.toml
  "$crosstalk" run ends.toml --quiet
  [[ $("$crosstalk" status ends.toml --json | tr -d '\n ') == *'"verdicts":{"still_falling":1,"out_of_steps":1}'* ]]
  run -0 --separate-stderr "$crosstalk" status ends.toml
  [[ $output == *"still falling  out of steps"* ]]
  run -0 --separate-stderr "$crosstalk" plan ends.toml
  [[ $output == *"still falling  out of steps"* ]]
  [[ $("$crosstalk" plan ends.toml --json | tr -d '\n ') == *'"verdicts":{"still_falling":1,"out_of_steps":1}'* ]]
  cp -r runs/ends elsewhere # a store that --out names, and not the study's own
  for command in status plan; do
    run -0 --separate-stderr "$crosstalk" "$command" ends.toml --out elsewhere
    [[ $output == *"still falling  out of steps"* ]]
  done
  run -0 --separate-stderr "$crosstalk" export ends.toml --where verdict=out_of_steps
  [ "${#lines[@]}" -eq 2 ]
  [[ ${lines[0]} == *,steps,verdict,eval_loss,* && ${lines[1]} == *,80,out_of_steps,* ]]
  "$crosstalk" export ends.toml --curves | grep -q ',40,gradient_norm_largest,'
}

@test "status says when the best learning rate lies at the edge of its grid, as tables do" {
  printf '%s\n' '[study]' 'name = "rates"' '[base]' 'task.name = "recall"' 'task.associations = 4' 'model.d_key = 4' \
    'train.max_steps = 20' 'eval.sequences = 4' '[memories.delta]' 'name = "delta"' \
    '[[grid]]' '"train.learning_rate" = [1e-6, 1e-5, 1e-3]' >rates.toml
  "$crosstalk" run rates.toml --quiet
  "$crosstalk" table final rates.toml --best train.learning_rate 2>table.txt >/dev/null
  sentence='The best learning rate is the largest tried for delta (1 of 1 points): a better one may lie beyond.'
  grep -qi "$sentence" table.txt
  for what in rates.toml runs/rates; do
    run -0 --separate-stderr "$crosstalk" status "$what"
    [[ $output == *"$sentence" ]]
    [[ $("$crosstalk" status "$what" --json | tr -d '\n ') == *'"rate_edges":[{"label":"delta","choices":1,"smallest":0,"largest":1}]'* ]]
  done
  run -0 "$crosstalk" status rates.toml --set seeds=1,2
  [[ $output == *"$sentence So far: runs are missing." ]]
  run -0 "$crosstalk" status rates.toml --set 'train.learning_rate=1e-3'
  [[ $output != *"learning rate"* ]]
}

@test "while a large study expands, a signal and the time limit end at once what has not begun" {
  cat >large.toml <<'TOML'
[study]
name = "large"
seeds = { range = [1, 1250] }
[base]
task.name = "recall"
model.d_key = 8
[memories.softmax]
name = "softmax"
[memories.delta]
name = "delta"
[[grid]]
"task.associations" = { range = [4, 400, 4] }
TOML
  "$crosstalk" run large.toml --out store --max-runs 250000 2>err &
  pid=$!
  sleep 0.5  # it takes seconds
  kill -TERM $pid
  code=0
  wait $pid || code=$?
  [ "$code" -eq 75 ]
  grep -q "stopped before anything was trained; the same command trains it" err
  [ ! -e store ]
  # Within two seconds more, by which a quick machine has begun.
  # And while its runs are laid out, which takes seconds more.
  "$crosstalk" run large.toml --out store --max-runs 250000 2>err &
  pid=$!
  until grep -q "to train into" err; do sleep 0.02; done
  kill -TERM $pid
  code=0
  wait $pid || code=$?
  [ "$code" -eq 75 ]
  grep -q "stopped before anything was trained" err
  [ ! -e store ]
  run -75 --separate-stderr "$crosstalk" run large.toml --out store --max-runs 250000 --time-limit 0.1
  [[ $stderr == *"stopped before anything was trained"* || $stderr == *"stopped by the time limit"* ]]
}

@test "a killed run goes on: 5 kill -9" {
  bash "$source/scripts/kill_test.sh" --kills 5 --crosstalk "$crosstalk"
}

@test "a damaged store exports its good rows, and run mends it" {
  "$crosstalk" run tiny.toml --quiet
  "$crosstalk" export runs/tiny >whole.csv
  shard=$(ls runs/tiny/shards/*.jsonl)
  sed -i '3s/"status"/"stutas"/' "$shard"
  truncate -s -20 "$shard"
  run -0 --separate-stderr "$crosstalk" export runs/tiny
  [ -n "$stderr" ]
  [ "$(echo "$output" | wc -l)" -lt 9 ]
  run -0 --separate-stderr "$crosstalk" run tiny.toml
  "$crosstalk" export runs/tiny 2>/dev/null | cmp whole.csv -
}

@test "a full disk is exit 3, and what was written stays" {
  code=0
  (ulimit -f 4; "$crosstalk" run tiny.toml --threads 1 2>err >/dev/null) || code=$?
  cat err
  [ "$code" -eq 3 ]
  run -0 "$crosstalk" run tiny.toml --quiet
  "$crosstalk" run tiny.toml --quiet --out other
  cmp <("$crosstalk" export runs/tiny) <("$crosstalk" export other)
  run -3 "$crosstalk" export runs/tiny --out /dev/full
  echo old >table.csv
  (ulimit -f 1; trap '' XFSZ; "$crosstalk" export runs/tiny --out table.csv 2>err) || code=$?
  [ "$code" -eq 3 ]
  [ "$(cat table.csv)" = old ]  # whole or not at all, and nothing is left lying about
  [ -z "$(find . -maxdepth 1 -name '*.tmp')" ]
  code=0
  "$crosstalk" export runs/tiny >/dev/full 2>err || code=$?
  [ "$code" -eq 3 ]
  grep -q "cannot write to standard output" err
}

@test "readers that leave early do no harm" {
  "$crosstalk" run tiny.toml --quiet >/dev/null
  set -o pipefail
  "$crosstalk" export runs/tiny | head -1 >/dev/null
  "$crosstalk" plan tiny.toml --json | head -1 >/dev/null
  "$crosstalk" --help | true
  # Nobody reads stderr: progress and notes are lost, results are not.
  "$crosstalk" run tiny.toml --out other 2> >(true) >/dev/null
  cmp <("$crosstalk" export runs/tiny) <("$crosstalk" export other)
}

@test "closed descriptors never end up in the store" {
  "$crosstalk" run tiny.toml <&- >&- 2>&-
  "$crosstalk" run tiny.toml --out other --quiet </dev/null
  cmp <("$crosstalk" export runs/tiny) <("$crosstalk" export other)
  run -0 --separate-stderr "$crosstalk" status runs/tiny
  [ -z "$stderr" ]
}

@test "colour and redrawing only on a terminal" {
  "$crosstalk" run tiny.toml 2>err >/dev/null
  run ! grep -q $'\x1b' err
  run ! grep -q $'\r' err
  run -2 --separate-stderr "$crosstalk" rnu
  [[ $stderr != *$'\x1b'* ]]
  run -2 --separate-stderr "$crosstalk" describe delt --color always
  [[ $stderr == *$'\x1b'* ]]
  command -v script >/dev/null || skip "no script(1) to make a terminal"
  TERM=xterm script -qec "\"$crosstalk\" describe delt" /dev/null </dev/null >typed || true
  grep -q $'\x1b' typed
  NO_COLOR=1 TERM=xterm script -qec "\"$crosstalk\" describe delt" /dev/null </dev/null >typed || true
  run ! grep -q $'\x1b' typed
  TERM=dumb script -qec "\"$crosstalk\" run tiny.toml --out other" /dev/null </dev/null >typed
  run ! grep -q $'\x1b' typed
  TERM=xterm script -qec "\"$crosstalk\" run tiny.toml --out third" /dev/null </dev/null >typed
  grep -q $'\x1b\\[K' typed
}

@test "plot writes its figure and prints the paths" {
  "$crosstalk" run tiny.toml --quiet >/dev/null
  run -0 --separate-stderr "$crosstalk" plot capacity runs/tiny --out figures/a.pdf
  [ -s figures/a.csv ] && [ -s figures/a.py ]
  [[ $output == *"figures/a.csv"* ]]
  for path in $output; do [ -s "$path" ]; done
  run -0 --separate-stderr "$crosstalk" plot capacity runs/tiny --where label=linear --no-theory --out b
  grep -q linear b.csv
  run ! grep -q softmax b.csv
  refused 'where' "$crosstalk" plot capacity runs/tiny --where label
  refused 'no such file' "$crosstalk" plot capacity runs/tiny --published absent.csv
}

@test "report writes one page of a study and of a store, the same each time" {
  "$crosstalk" run tiny.toml --quiet >/dev/null
  run -0 --separate-stderr "$crosstalk" report tiny.toml --out page.html
  [ "$output" = page.html ]
  grep -q 'This study trains' page.html
  grep -q 'crosstalk plot capacity tiny.toml --out figures/capacity' page.html
  grep -q '<pre id="study">' page.html
  "$crosstalk" report runs/tiny && mv report.html first.html
  "$crosstalk" report runs/tiny && cmp report.html first.html
  run -0 "$crosstalk" report runs/tiny --figure curves --where label=linear --out curves.html
  run ! grep -q '<option>softmax' curves.html
  refused 'did you mean' "$crosstalk" report runs/tiny --figure curve
  refused 'no folder' "$crosstalk" report runs/tiny --out absent/page.html
  refused 'tracking' "$crosstalk" report runs/tiny --figure tracking
  refused 'is a folder' "$crosstalk" report runs/tiny --published runs
  "$crosstalk" export runs/tiny --out runs.csv
  sed 's/"Tiny"/"A named study"/; s/^\[memories.linear\]/&\ntitle = "Sum of outer products"/' tiny.toml >titled.toml
  "$crosstalk" report runs.csv --titles titled.toml --out titled.html
  grep -q '<h1>A named study' titled.html
  grep -q 'This study trains .*Sum of outer products' titled.html
}

@test "figures by keys, of the best value, in panels, and from a table" {
  "$crosstalk" run tiny.toml --set train.learning_rate=1e-3,1e-2 --quiet >/dev/null
  refused 'differ in train.learning_rate .*--best KEY' "$crosstalk" plot capacity runs/tiny
  run -0 "$crosstalk" plot capacity runs/tiny --best train.learning_rate --width 3.25 --footnote off --out best
  grep -q 'selected$' best.csv
  grep -q 'train.learning_rate=0.0' best.csv
  "$crosstalk" export runs/tiny >runs.csv
  sed 's/^name = "linear_attention"/&\ntitle = "Linear, sums"/' tiny.toml >titled.toml
  run -0 "$crosstalk" plot capacity runs.csv --best train.learning_rate --titles titled.toml --out titled
  grep -q '"Linear, sums' titled.py
  sed 's/,tiny,[a-z]*,/,tiny,mine,/' runs.csv >renamed.csv
  refused 'titled.toml: it has none of the labels here, mine' "$crosstalk" plot capacity renamed.csv --titles titled.toml
  run -0 "$crosstalk" plot capacity runs/tiny --by train.learning_rate --out by
  grep -q 'linear, train.learning_rate = 0.01' by.csv
  run -0 "$crosstalk" plot capacity runs/tiny --facet train.learning_rate --log y --venue icml --out facet
  head -1 facet.csv | grep -q train.learning_rate
  "$crosstalk" export runs/tiny --out runs.csv
  "$crosstalk" export runs.csv | cmp runs.csv -
  run -0 "$crosstalk" plot capacity runs.csv --where 'train.learning_rate=1e-3' --out table
  grep -q ^linear table.csv
  refused 'did you mean icml' "$crosstalk" plot capacity runs/tiny --venue imcl
  refused '[-][-]width 8cm: inches' "$crosstalk" plot capacity runs/tiny --by train.learning_rate --width 8cm
  refused '[-][-]width nan: inches' "$crosstalk" plot capacity runs/tiny --by train.learning_rate --width nan
  run -0 "$crosstalk" plot capacity runs/tiny --by train.learning_rate --width 3.25in --out inches
  refused 'below train.stop_loss' "$crosstalk" plot capacity-vs-ddot runs/tiny --by train.learning_rate --threshold 1e-6
  refused '144 of 144 published points have no run here' "$crosstalk" compare runs/tiny
}

@test "what would be taken and not used is refused, and nothing is written over" {
  "$crosstalk" run tiny.toml --quiet >/dev/null
  for command in "table final" status export report inspect; do
    refused '[-][-]set replaces keys of a study, but no study' "$crosstalk" $command runs/tiny --set seeds=1
  done
  refused 'the luckiest of the repeats' "$crosstalk" table final runs/tiny --best seed
  refused 'final does not ask what is solved' "$crosstalk" table final runs/tiny --threshold 1
  refused 'accuracy does not ask what is solved' "$crosstalk" plot accuracy runs/tiny --threshold 1
  refused 'capacity has fixed columns' "$crosstalk" table capacity runs/tiny --x nosuch
  refused 'label alone' "$crosstalk" table final runs/tiny --label tab:x
  refused 'its name says latex, --format csv' "$crosstalk" table final runs/tiny --out x.tex --format csv
  refused 'its name says csv, --format jsonl' "$crosstalk" export runs/tiny --out x.csv --format jsonl
  refused 'leave one out' "$crosstalk" plot capacity runs/tiny --by model.d_key --best model.d_key
  refused '[-][-]every: seconds between' "$crosstalk" status runs/tiny --every -1
  refused 'no record has the key "semanticss"; did you mean' "$crosstalk" table final runs/tiny --where semanticss=5
  for condition in status=done verdict=diverged semantics=5; do
    refused "known of records" "$crosstalk" run tiny.toml --out empty --where $condition
    refused "known of records" "$crosstalk" plan tiny.toml --where $condition
  done
  echo mine >notes.html
  refused 'it exists and is no report' "$crosstalk" report runs/tiny --out notes.html
  refused 'not .toml' "$crosstalk" report runs/tiny --out tiny.toml
  [ "$(cat notes.html)" = mine ]
  "$crosstalk" report runs/tiny --out r.html && "$crosstalk" report runs/tiny --out r.html
  "$crosstalk" run tiny.toml --set seeds=1,2,3 --out more --quiet >/dev/null
  run -0 --separate-stderr "$crosstalk" verify tiny.toml --out more
  [[ $output == *"8 runs trained again"* ]]
  [[ $("$crosstalk" plan tiny.toml --set train.stop_loss=1 2>&1) == *"the loss of answering nothing"* ]]
}

@test "pandas reads the export in two lines" {
  python=python3
  python3 -c 'import pandas' 2>/dev/null || python=/usr/bin/python3
  $python -c 'import pandas' 2>/dev/null || skip "no pandas"
  "$crosstalk" run tiny.toml --quiet >/dev/null
  "$crosstalk" export runs/tiny >runs.csv
  "$crosstalk" export runs/tiny --format jsonl >runs.jsonl
  $python -c 'import pandas
assert pandas.read_csv("runs.csv").groupby("label").eval_loss.median().notna().all()'
  $python -c 'import pandas
assert list(pandas.read_json("runs.jsonl", lines=True).id) == list(pandas.read_csv("runs.csv").id)'
}

@test "runs at chance, labels that differ in more than is swept, and missing runs are told wherever results are" {
  sed 's/^name = "softmax"/name = "deltanet"/; s/^name = "linear_attention"/name = "gated_delta"/' tiny.toml >doubt.toml
  run -0 --separate-stderr "$crosstalk" plan doubt.toml
  [[ $output == *"labels differ in feature_map: identity (linear), silu (softmax)"* ]]
  [[ $stderr == *"8 of 8 runs have only 2 evaluations"* ]]
  run -0 --separate-stderr "$crosstalk" run doubt.toml --where task.associations=3
  [[ $stderr == *"Chance: accuracy 0."*" within its noise."* ]]
  run -0 --separate-stderr "$crosstalk" table final doubt.toml
  [[ $output == *"= 3 | "*"= 6 |"* ]]
  [[ $output == *"Not whole yet: 4 of 8 runs are missing. Chance: accuracy 0."* ]]
  "$crosstalk" run doubt.toml --quiet >/dev/null
  run -0 --separate-stderr "$crosstalk" table final runs/tiny --format csv
  [[ $output == label,d_dot,associations,n,median,lo,hi,at_chance* ]]
  [[ $stderr == *"Chance: accuracy 0."* ]]
  run -0 --separate-stderr "$crosstalk" status doubt.toml
  [[ $output == *"Chance: accuracy 0."* ]]
  "$crosstalk" status runs/tiny --json | jq -e '.chance.runs == 8 and .chance.within_noise >= 0'
  "$crosstalk" plot updates runs/tiny --out fig
  grep -q 'Chance: accuracy' fig.caption.txt
  grep -q 'Labels differ in feature_map: identity (Linear), silu (Softmax)' fig.caption.txt
  "$crosstalk" report doubt.toml --out page.html
  grep -q 'Labels differ in feature_map: identity (.*), silu (.*)' page.html
  grep -q 'Chance: accuracy' page.html
  run -0 --separate-stderr "$crosstalk" table final doubt.toml --protocol
  [[ $output == *"Labels differ in feature\\_map: identity (linear), silu (softmax)"* ]]
  run -0 --separate-stderr "$crosstalk" plan doubt.toml --set model.parts=equal
  [[ $output != *"labels differ"* ]]
  run -0 --separate-stderr "$crosstalk" plan doubt.toml --set model.heads=2
  [[ $output == *"4 in 2 heads"* ]]
  printf '%s\n' '[study]' 'name = "odd"' '[base]' 'task.name = "mqar"' 'model.name = "language"' 'model.heads = 2' \
    'model.width = 15' '[memories.delta]' 'name = "deltanet"' >odd.toml
  refused 'model.heads = 2 does not divide model.width = 15' "$crosstalk" plan odd.toml
  run -0 "$crosstalk" describe comparable
  [[ $output == *deltanet*silu*gated_delta*identity* ]]
}

@test "tables in three formats" {
  "$crosstalk" run tiny.toml --quiet >/dev/null
  run -0 --separate-stderr "$crosstalk" table capacity runs/tiny --format latex
  [[ $output == *'\toprule'* && $output == *booktabs* ]]
  run -0 --separate-stderr "$crosstalk" table final runs/tiny
  [[ $output == "| Memory | "* ]]
  run -0 --separate-stderr "$crosstalk" table final tiny.toml --format csv --where label=linear
  [[ $output == label,d_dot,associations,n,median,lo,hi* ]]
  [[ $output != *softmax* ]]
  refused "did you mean 'tracking'" "$crosstalk" table traking runs/tiny
  run -0 --separate-stderr "$crosstalk" table capacity runs/tiny --out capacity.tex --label tab:tiny
  [ "$output" = capacity.tex ]
  grep -q '^.label{tab:tiny}$' capacity.tex
  refused 'letters, digits' "$crosstalk" table capacity runs/tiny --format latex --label '}.input{x}'
  refused 'tables are LaTeX' "$crosstalk" table capacity runs/tiny --out capacity.html
  refused 'a figure is fig.pdf, .png' "$crosstalk" plot capacity runs/tiny --out fig.svg
  refused 'exports are CSV' "$crosstalk" export runs/tiny --out runs.parquet
  refused 'tables are LaTeX' "$crosstalk" table capacity runs/tiny --out capacity.pdf
  refused 'a report is HTML' "$crosstalk" report runs/tiny --out report.pdf
  [ ! -e runs.parquet ] && [ ! -e capacity.html ]
  run -0 --separate-stderr "$crosstalk" export runs/tiny --out runs.jsonl
  [ "$output" = runs.jsonl ]
  "$crosstalk" export runs/tiny --format jsonl | cmp runs.jsonl -
  "$crosstalk" export runs/tiny --out plain.json --format csv
  "$crosstalk" export runs/tiny | cmp plain.json -
  refused 'there is no folder "away"' "$crosstalk" table capacity runs/tiny --out away/capacity.tex
}

@test "A against B: table, figure, report and the seeds that it takes" {
  run -0 --separate-stderr "$crosstalk" plan tiny.toml --detect 0.05
  [[ $output == *'detect: nothing is recorded yet'* ]]
  "$crosstalk" run tiny.toml --quiet >/dev/null
  run -0 --separate-stderr "$crosstalk" table difference tiny.toml --against linear --format csv
  [[ $output == label,d_dot,task.associations,n,median,lo,hi,against,wins,p,p_holm,told*softmax,,3,2,*,linear,* ]]
  refused "did you mean \"linear\"" "$crosstalk" table difference tiny.toml --against linar
  refused 'capacity holds no label against another' "$crosstalk" plot capacity tiny.toml --against linear
  run -0 "$crosstalk" plot difference tiny.toml --against linear --out difference
  grep -q '"Equal to Linear"' difference.py
  "$crosstalk" report tiny.toml && grep -q 'crosstalk plot difference tiny.toml' report.html
  run -0 --separate-stderr "$crosstalk" plan tiny.toml --detect 0.001
  [[ $output == *'detect: a difference of 0.001 in '*' needs about '*'by the spread of 2 seeds: a rough estimate'* ]]
  refused 'leave --json out' "$crosstalk" plan tiny.toml --detect 0.05 --json
  refused 'detect -0.05: the size of a difference, above 0' "$crosstalk" plan tiny.toml --detect -0.05
  grep -q '<strong>Finding.</strong> Held against' report.html
  refused 'no label of that name; there are linear, softmax' "$crosstalk" report tiny.toml --against absent
  run -0 --separate-stderr "$crosstalk" table final tiny.toml --format csv --where memory=linear
  [[ $output != *softmax* ]]
  refused 'there are the labels linear, softmax' "$crosstalk" table final tiny.toml --where memory=Lineal
  refused 'detect SIZE' "$crosstalk" plan tiny.toml --metric eval_loss
}

@test "rows of others are drawn and printed, or refused by the column that they lack" {
  "$crosstalk" run tiny.toml --quiet >/dev/null
  printf 'label,seed,task.name,task.associations,eval_accuracy\nmine,1,recall,4,0.5\nmine,2,recall,4,0.5\n' >mine.csv
  CROSSTALK_PYTHON=/bin/false "$crosstalk" plot accuracy runs/tiny mine.csv --x task.associations --out beside
  grep -q '^mine,,4,2,0.5,0.5,0.5$' beside.csv
  refused 'mine.csv:2 .* has no eval_loss' "$crosstalk" table final runs/tiny mine.csv
  printf 'label,seed,task.name,task.associations,eval_loss\nmine,1,recall,4,0.0001\nmine,2,recall,4,0.0001\n' >mine.csv
  run -0 "$crosstalk" table capacity runs/tiny mine.csv
  [[ $output == *"| mine"*"| -- | -- |"* ]]
  refused 'has no state_size .or state_bytes.' "$crosstalk" plot capacity-vs-state runs/tiny mine.csv
  CROSSTALK_PYTHON=/bin/false run -0 "$crosstalk" plot capacity runs/tiny --published mine.csv --out behind
  [ "$(grep -c '^published: mine,,4,1,0.0001,,$' behind.csv)" = 2 ]
}

@test "the reference is current; completions, man page and a new study are right" {
  "$crosstalk" reference >reference.md
  diff reference.md "$source/docs/reference.md" || {
    echo "docs/reference.md is old: crosstalk reference > docs/reference.md"
    return 1
  }
  "$crosstalk" completion bash >completion.bash
  bash -n completion.bash
  run bash -c 'source completion.bash; COMP_WORDS=(crosstalk pl); COMP_CWORD=1; _crosstalk; echo "${COMPREPLY[*]}"
    COMP_WORDS=(crosstalk plot up); COMP_CWORD=2; _crosstalk; echo "${COMPREPLY[*]}"
    COMP_WORDS=(crosstalk plot x --venu); COMP_CWORD=3; _crosstalk; echo "${COMPREPLY[*]}"'
  [ "$output" = $'plan plot\nupdates\n--venue' ]
  "$crosstalk" completion zsh | grep -q bashcompinit
  "$crosstalk" completion fish | grep -q "seen_subcommand_from plot' -l venue"
  "$crosstalk" man | grep -q '^.SH NAME'
  run -0 --separate-stderr "$crosstalk" new "my study.toml"
  run -0 "$crosstalk" plan "my study.toml"
  [[ $output == *"= 24 runs"* ]]
  refused 'it exists, and is not written over; give another name, or edit what is there' "$crosstalk" new "my study.toml"
  for task in recall reassign swap mqar words induction; do
    "$crosstalk" new "of_$task.toml" --task $task
    run -0 "$crosstalk" plan "of_$task.toml"
    [[ $(<"of_$task.toml") == *"task.name           = \"$task\""* && $(<"of_$task.toml") != *"@"* ]]
    # It trains, and what it says to draw can be drawn.
    run -0 --separate-stderr "$crosstalk" new "again_$task.toml" --task $task
    show=${stderr##*; }
    "$crosstalk" run "again_$task.toml" --set train.max_steps=2 --set eval.every=2 --set seeds=1 --set eval.sequences=8 --quiet
    while IFS= read -r -d, words; do
      CROSSTALK_PYTHON=/bin/false PATH="$(dirname "$crosstalk"):$PATH" bash -c "$words"
    done <<<"$show,"
  done
  refused 'did you mean words' "$crosstalk" new other.toml --task word
  refused 'its sequences stand in a folder of yours' "$crosstalk" new other.toml --task file
  refused 'task.name = "mad_recall"' "$crosstalk" new other.toml --task mad_recall
  refused 'ends in .toml; name it study.toml' "$crosstalk" new study
  refused 'name it study.toml' "$crosstalk" new study.tml
  refused 'name it study.v2.toml' "$crosstalk" new study.v2
  refused 'name it mine.toml' "$crosstalk" new ""
  for topic in study grid zip skip seeds record loss intervals best threshold comparable published-csv test_loss provenance.host \
    Intervals DELTANET Train.Patience; do
    run -0 --separate-stderr "$crosstalk" describe $topic
    [ -n "$output" ]
  done
  run -0 "$crosstalk" describe Capacity-vs-State
  [[ $output == *"label, d_dot, state_size, n, median, lo, hi, censored, unsolved"* ]]
  study 's/^train.max_steps .*/model.layers = 2/'
  refused 'model.layers belongs to the language model' "$crosstalk" plan wrong.toml
  study 's/^.memories.linear/[memory.linear/'
  refused 'unknown table memory; did you mean memories' "$crosstalk" plan wrong.toml
  study 's/^task.associations = 4/associatios = 4/'
  refused 'did you mean task.associations' "$crosstalk" plan wrong.toml
  study 's/^train.max_steps .*/train.max_steps = 2e1/'
  run -0 "$crosstalk" plan wrong.toml
}

@test "check says what a law is, what runs it, and where it is wrong" {
  run -0 --separate-stderr "$crosstalk" check "b = 2 sigmoid(token); e = v - S k; S += b e k^T; read S q"
  [[ $output == *"b     a number"*"learned, token"* && $output == *"e     a vector over V"* ]]
  [[ $output == *"  S = S + (2 * sigmoid(b) * (v - S k)) k^T"* && $output == *"recurrence: key k, value v"* ]]
  [[ $output == *"operations a token: 6 V K + 2 V with the state, 2 before"* ]]
  [[ $output == *"\\mathbf{S}_t &= \\mathbf{S}_{t-1} + b_t \\mathbf{e}_t \\mathbf{k}_t^{\\top} \\\\"* ]]
  [ -z "$stderr" ]
  refused 'step 1, column 10: product of a vector over V and a vector over K' "$crosstalk" check "S += (v) k; read S q"
  run -2 --separate-stderr "$crosstalk" check "S += v k^T;  read S x"
  [[ $stderr == *$'\n  read S x\n         ^' ]]
  run -0 --separate-stderr "$crosstalk" check "S = tanh(S) + v k^T; read S q"
  [[ $output == *"token after token: it is not linear in S"* ]]
  local many=""
  for i in {1..30}; do many+="x$i = token(V); S += x$i tanh(S k)^T S; "; done
  run -2 --separate-stderr "$crosstalk" check "$many read S q"
  [[ $stderr == *"nothing can run this law"* ]]
  refused 'put quotes around it' "$crosstalk" check S += "v k^T"
  run -0 "$crosstalk" check "S += v k^T; read S k"
  [[ $output == *"nothing in read asks"* ]]
  run -0 "$crosstalk" check "S += v k^T; read S q"
  [[ $output != *"nothing in read asks"* ]]
  run -0 "$crosstalk" check kda
  [[ $output == *"decay = token(K, rank = d, bias = inverse_softplus(0.001, 0.1))"* && $output == *"log_decay"* ]]

  run -0 --separate-stderr "$crosstalk" new law.toml --memory rule
  run -0 "$crosstalk" plan law.toml
  [[ $output == *"= 24 runs"* ]]
  run -0 "$crosstalk" check law.toml
  [[ $output == *"memory.c"* && $output == *"numbers a sequence"* ]]
  run -0 "$crosstalk" check law.toml mine
  # The file's own names: beta is the gate, not what the token gives before the sigmoid.
  [[ $output == *'\beta_t &= '*'\sigma('* && $output != *'\sigma(\beta_t)'* ]]
  refused 'did you mean mine' "$crosstalk" check law.toml mime
  refused 'gated of law.toml is gated_delta' "$crosstalk" check law.toml gated
  refused 'has no memory with a law [(]name = "rule"[)]; .*describe NAME' "$crosstalk" check tiny.toml
  refused "softmax is no law; the memory softmax is explained by 'crosstalk describe softmax'" "$crosstalk" check softmax
  refused 'mine.tml is neither a law nor a study file' "$crosstalk" check mine.tml
  "$crosstalk" run law.toml --set train.max_steps=2 --set eval.every=2 --set seeds=1 --set eval.sequences=8 --quiet
  for task in reassign swap mqar words induction; do
    "$crosstalk" new "law_$task.toml" --task $task --memory rule
    run -0 "$crosstalk" check "law_$task.toml"
  done
  for memory in deltanet gla softmax rwkv4 titans_mlp linear_attention; do
    for task in recall swap mqar; do
      "$crosstalk" new "${memory}_$task.toml" --task $task --memory $memory
      run -0 "$crosstalk" plan "${memory}_$task.toml"
      [[ $output == *" $memory "* ]]
    done
  done
  refused 'new: --memory DeltaNet: did you mean deltanet' "$crosstalk" new delta.toml --memory DeltaNet
  sed -i 's/v - S k) k^T/v - S k) k/' law.toml
  refused '^law.toml:[0-9]+:[0-9]+: S [+]= beta' "$crosstalk" check law.toml
}

@test "pilot finds steps and rates, and the study takes them" {
  study 's/^train.max_steps .*/train.max_steps = 300/'
  run -0 --separate-stderr "$crosstalk" pilot wrong.toml --set task.associations=2,3 --set train.learning_rate=0.01,0.03 \
    --set memory=softmax --device cpu
  [[ $output == *"easiest  softmax"*"hardest  softmax"*"budget: "*" steps, an evaluation every "* ]]
  [ -e runs/tiny_pilot/store.json ]
  [ ! -e runs/tiny ]
  command=$(tail -1 <<<"$output")
  [[ $command == *" run wrong.toml "*"--set train.max_steps="*"--set eval.every="*"--set train.learning_rate="* ]]
  eval "$command --quiet --device cpu"
  python3 -c 'import json, subprocess, sys
verdicts = json.loads(subprocess.check_output([sys.argv[1], "status", "runs/tiny", "--json"]))["verdicts"]
assert set(verdicts) == {"solved"}, verdicts' "$crosstalk"
  refused "needs a study file" "$crosstalk" pilot
  # What the user sets is not in its way.
  run -0 --separate-stderr "$crosstalk" pilot wrong.toml --set task.associations=2,3 --set train.learning_rate=1e-2,3e-2 \
    --set seeds=1,2 --set train.max_steps=300 --set memory=softmax --device cpu --json
  python3 -c 'import json, sys
pilot = json.load(sys.stdin)
assert [point["point"] for point in pilot["points"]] == ["easiest", "hardest"] and pilot["points"][0]["solved"], pilot
assert pilot["command"].count("train.max_steps=") == pilot["command"].count("train.learning_rate=") == 1, pilot
assert "--set seeds=1,2" in pilot["command"] and pilot["time"]["seconds"] > 0 and pilot["runs"] > 0, pilot' <<<"$output"
}

@test "a plan says what of it fits into a budget, and the command trains that" {
  study 's/^seeds = .*/seeds = [1, 2, 3]/; s/^train.max_steps .*/train.max_steps = 2000/'
  run -0 --separate-stderr "$crosstalk" plan wrong.toml --budget 1000h --device cpu
  [[ $output == *"budget: all "*" runs fit into 1000h"* ]]
  run -0 --separate-stderr "$crosstalk" plan wrong.toml --budget 0.000001s --device cpu
  [[ $output == *"budget: nothing fits into 0.000001s: "*" with seed = 1"* ]]
  part=("$source/experiments/mqar.toml" --device cuda --out part)
  most=$("$crosstalk" plan "${part[@]}" --json | python3 -c 'import json, sys; print(0.7 * json.load(sys.stdin)["time"]["seconds"])')
  run -0 --separate-stderr "$crosstalk" plan "${part[@]}" --budget "$most"
  [[ $output =~ budget:\ into\ $most\ fit\ ([0-9]+)\ of\ ([0-9]+)\ runs\ with\ seed\ =\ 1 ]]
  fits=${BASH_REMATCH[1]} command=$(tail -1 <<<"$output")
  [[ $command == *" run "*"/mqar.toml --out part --where seed=1"* ]]
  run -0 --separate-stderr bash -c "$command --dry-run"
  [[ $output == *", $fits to train"* ]]
  refused "budget takes seconds" "$crosstalk" plan wrong.toml --budget soon
  refused "leave --json out" "$crosstalk" plan wrong.toml --budget 1h --json
}

@test "curves of runs that train: status, report, TensorBoard; and time left before any of them ends" {
  two_memories "[1, 1]" 100000000
  "$crosstalk" run s.toml --out store --device cpu >out 2>err &
  training=$!
  for _ in $(seq 600); do
    [ "$("$crosstalk" status store --json 2>/dev/null | grep -c '"eval_loss": {')" -ge 1 ] && break
    sleep 0.1
  done
  "$crosstalk" export store --follow tensorboard --out events >followed &
  following=$!
  for _ in $(seq 600); do
    [ "$("$crosstalk" status store --json | python3 -c 'import json, sys
print(max(len(run["eval_loss"]["step"]) for run in json.load(sys.stdin)["training"]))')" -ge 2 ] && break
    sleep 0.1
  done
  run -0 --separate-stderr "$crosstalk" status store
  [[ $output == *"training"*"validation loss"*"softmax"*"100000000"* ]]
  run -0 --separate-stderr "$crosstalk" report store --out page.html
  grep -q "Training now" page.html
  grep -q "<polyline" page.html
  "$crosstalk" status store --json | python3 -c 'import json, sys
assert json.load(sys.stdin)["seconds_left"] > 0'
  kill "$following"
  wait "$following"
  kill "$training"
  code=0
  wait "$training" || code=$?
  [ "$code" -eq 75 ]
  ls events/softmax/seed_1_ct-*/events.out.tfevents.*
  [ ! -e store/live ]
}

@test "import reads what others logged" {
  printf 'Name;State;num_kv_pairs;valid/accuracy\nbased;finished;16;0.97\nbased;running;64;0.1\n' >wandb.csv
  run -0 --separate-stderr "$crosstalk" import wandb.csv --out runs.csv \
    --columns label=Name,status=State,task.pairs=num_kv_pairs,eval_accuracy=valid/accuracy
  [ "$output" = runs.csv ]
  [[ $stderr == *"left out, since they are still going: 1"* ]]
  run -0 --separate-stderr "$crosstalk" table final runs.csv --metric eval_accuracy
  [[ $output == *"0.97"* || $output == *".97"* ]]
  refused "there is no column 'name' for label; there are Name" "$crosstalk" import wandb.csv --columns label=name
  refused "takes OURS=THEIRS" "$crosstalk" import wandb.csv --columns label
}

@test "version knows what it was built from" {
  run -0 "$crosstalk" version
  [[ $output == *"semantics"* ]]
  [ "$("$crosstalk" --version)" = "$output" ]
  "$crosstalk" version --json | python3 -c 'import json, sys
v = json.load(sys.stdin)
assert v["version"].count(".") == 2 and v["compiler"] and (v["commit"] == "unknown" or len(v["commit"]) == 40), v'
}

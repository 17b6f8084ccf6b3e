# A search from outside: what is refused, what lies in its store, and that a stopped one goes on.
# SPDX-License-Identifier: Apache-2.0
load common

search_file() {
  cat >s.toml <<TOML
[search]
name = "s"
start = ["S += v k^T; read S q"]
generation = 6
finalists = 1
fresh_seeds = 2
$1
[base]
model.d_key = 8
task.associations = 6
task.values = 8
train.batch = 8
train.learning_rate = 0.01
train.max_steps = 90
train.stop_loss = 0
eval.every = 15
[[task]]
task.name = "recall"
[memories.delta]
name = "delta"
TOML
}

@test "search: what is wrong with a file is told, and nothing is written" {
  work_in
  refused "none.toml: no such file; a search is a TOML file such as experiments/search/delta.toml" "$crosstalk" search none.toml
  search_file "minutes = 1
floats = 9"
  refused "s.toml:3:.*beyond the limits.*it keeps 64 floats" "$crosstalk" search s.toml
  search_file "minutes = 1"
  refused "s.toml:1:2: this file asks for a search.*: crosstalk search s.toml" "$crosstalk" run s.toml
  printf '[study]\nname = "a"\n' >a.toml
  refused "a.toml:1:2: this is a study; to train it: crosstalk run a.toml" "$crosstalk" search a.toml
  run -0 "$crosstalk" describe search.generation
  [[ $output =~ "laws that are trained side by side" ]]
}

@test "search: its plan, its store, and the study of its front" {
  work_in
  search_file "candidates = 6"
  run -0 --separate-stderr "$crosstalk" search s.toml --plan
  [[ $output =~ recall.*90.*30.*"afresh: up to 1 law, and 1 of [memories.LABEL], by 2 seeds: 4 runs, about" ]]
  [[ $stderr =~ "no [[fresh]] task" ]]
  [ ! -e runs ]
  run -0 --separate-stderr "$crosstalk" search s.toml --threads 1
  [[ $output =~ "runs/s" ]]
  [[ $stderr =~ " 0 of them twice" ]]
  for file in laws.md laws.csv candidates.jsonl s_front.toml s.toml; do [ -s "runs/s/search/$file" ]; done
  grep -q 'begin{aligned}' runs/s/search/laws.md
  run -0 --separate-stderr "$crosstalk" run runs/s/search/s_front.toml --out runs/s
  [[ $stderr =~ "nothing to train" ]]
  run -0 "$crosstalk" status runs/s
  [[ $output =~ "search: 6 laws in 1 generation, 2 of them to the end; best ".*"; its "[0-9]+" runs are not listed" ]]
  grep -q '^| score on | recall |$' runs/s/search/laws.md
  run -0 "$crosstalk" export runs/s --where label=delta
  [ "$(printf '%s\n' "$output" | grep -c '^ct-')" -eq 2 ]
  run -0 "$crosstalk" plot front runs/s/search/s_front.toml --store runs/s --out front
  grep -q '^delta,' front.csv
  sed -i 's/candidates = 6/candidates = 3/' s.toml
  run -0 --separate-stderr "$crosstalk" search s.toml
  [[ $stderr =~ "candidates = 3: 6 laws have been tried here" ]]
  sed -i 's/eval.every = 15/eval.every = 10/' s.toml
  run -2 --separate-stderr "$crosstalk" search s.toml
  [[ $stderr =~ "was asked otherwise" ]]
}

@test "search: one that is stopped goes on to the same laws" {
  work_in
  search_file "candidates = 12"
  "$crosstalk" search s.toml --out whole -q >whole.txt
  local stops=0
  while ! timeout -s TERM "$((stops / 2)).7" "$crosstalk" search s.toml --out parts -q >parts.txt; do
    stops=$((stops + 1))
    [ "$stops" -lt 100 ]
  done
  diff <(head -n -1 whole.txt) <(head -n -1 parts.txt)
  cmp whole/search/laws.csv parts/search/laws.csv
}

@test "search: the files that come with the program are planned" {
  work_in
  local file
  for file in "$source"/experiments/search/*.toml; do
    "$crosstalk" search "$file" --plan >plan.txt
    [[ $(<plan.txt) == *"afresh: up to 4 laws"* ]]
  done
}

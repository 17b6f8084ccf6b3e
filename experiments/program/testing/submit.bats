#!/usr/bin/env bats
# `submit slurm`: the script that it writes, and what it refuses. scripts/slurm_test.py runs it on a real Slurm.
# SPDX-License-Identifier: Apache-2.0

load common

setup() {
  mkdir "$BATS_TEST_TMPDIR/bin"
  work_in "work folder"
  printf '%s\n' '[study]' 'name = "s"' 'seeds = [1, 2]' '[base]' 'task.name = "recall"' 'task.associations = 4' \
    'model.d_key = 4' 'train.max_steps = 20' 'eval.every = 10' 'eval.sequences = 4' '[memories.linear]' \
    'name = "linear_attention"' >s.toml
}

@test "the script is a whole one, and --dry-run makes nothing" {
  run -0 --separate-stderr "$crosstalk" submit slurm s.toml --gpus 16 --at-once 4 --time 4:00:00 --dry-run \
    -- --partition=gpu --mem=8G
  [[ $stderr == *"its store is not made yet"*"runs/s/s.sbatch"* ]]
  [ ! -e runs ]
  bash -n <<<"$output"
  for line in '--array=0-15%4' '--gpus-per-task=1' '--time=4:00:00' '--requeue' '--open-mode=append' \
    '--signal=B:USR1@120' '--partition=gpu' '--mem=8G' "\"--output=$PWD/runs/s/logs/%A_%a.log\""; do
    grep -qxF -- "#SBATCH $line" <<<"$output"
  done
  [[ $output == *"work '$PWD/runs/s' --time-limit 14280s &"* ]]
  run -0 --separate-stderr "$crosstalk" submit slurm s.toml --cpus 2 --cores 3 --time 1-02:00:00 --dry-run
  [[ $output == *"#SBATCH --cpus-per-task=3"*"--device cpu --threads 3 --time-limit 93480s"* ]]
  [[ $output != *gpus* ]]
  run -0 --separate-stderr "$crosstalk" submit slurm s.toml --cpus 2 --time 2-00:00:00 --dry-run
  [[ $output == *"#SBATCH --time=48:00:00"* ]]
}

@test "a node given whole is one task with all of its GPUs" {
  run -0 --separate-stderr "$crosstalk" submit slurm s.toml --nodes 3 --time 1h --dry-run
  for line in '--array=0-2' '--nodes=1' '--ntasks=1' '--exclusive' '--mem=0'; do grep -qxF -- "#SBATCH $line" <<<"$output"; done
  [[ $output == *"work '$PWD/runs/s' --device cuda:all --time-limit 3480s &"* ]]
  [[ $output != *gpus* ]] && [[ $output != *cpus-per-task* ]]
}

@test "it says how many workers are sensible, by the time that plan says" {
  run -0 --separate-stderr "$crosstalk" submit slurm s.toml --gpus 16 --time 1h --dry-run
  [[ $stderr == *": 2 to train"*"for one GPU (H100 or H200): about "*" for each of 16 workers; 1 is sensible: half an hour of work is worth a worker"* ]]
  run -0 --separate-stderr "$crosstalk" submit slurm s.toml --nodes 2 --time 1h --dry-run
  [[ $stderr == *"of the GPUs of all nodes together, 1 is sensible"* ]]
  # No more than there are runs; and with as many as that, what each has to do.
  long=(--set train.max_steps=1000000000 --set eval.every=125000000)
  run -0 --separate-stderr "$crosstalk" submit slurm s.toml --gpus 16 --time 1h --dry-run "${long[@]}"
  [[ $stderr == *"for each of 16 workers; 2 or fewer are sensible"* ]]
  run -0 --separate-stderr "$crosstalk" submit slurm s.toml --cpus 2 --cores 1 --time 1h --dry-run "${long[@]}"
  [[ $stderr == *"for a worker with 1 core like these: about "*" for each of 2 workers, requeued whenever its time is up"* ]]
}

@test "--before is done before the worker starts, and where it fails no worker does" {
  before=("export FOO='a b'  # why" 'fail() { return 3; }; [ "$FOO" = "a b" ] && echo "before: $FOO"')
  "$crosstalk" submit slurm s.toml --cpus 1 --time 1h --before "${before[0]}" --before "${before[1]}" --dry-run 2>/dev/null |
    sed "s|^'*/.*work .*&\$|echo \"worker: \$FOO\" \&|" >script
  bash -n script
  SLURM_ARRAY_JOB_ID=7 SLURM_ARRAY_TASK_ID=2 run -0 bash script
  [ "$output" = $'before: a b\nworker: a b' ]
  for bad in 'false' 'module load "cuda' 'module load cuda' 'exit 3'; do # no such command here, and an open quote
    "$crosstalk" submit slurm s.toml --cpus 1 --time 1h --before "$bad" --dry-run 2>/dev/null |
      sed "s|^'*/.*work .*&\$|echo worker \&|" >script
    code=0
    output=$(SLURM_ARRAY_JOB_ID=7 SLURM_ARRAY_TASK_ID=2 bash script 2>&1) || code=$?
    [ "$code" -ne 0 ]
    [ -z "$(grep -x worker <<<"$output")" ]
    [ "$bad" = 'exit 3' ] || [[ $output == *"no worker starts: --before ended with code"* ]]
  done
}

# words_of_sbatch LINE: as sbatch takes a line that begins with #SBATCH apart.
words_of_sbatch() {
  python3 - "$1" <<'PY'
import sys
line, words, at = sys.argv[1].removeprefix("#SBATCH"), [], 0
while True:
    while at < len(line) and line[at].isspace():
        at += 1
    if at == len(line) or line[at] == "#":
        break
    word, quote, escaped = "", None, False
    while at < len(line) and (quote or not line[at].isspace()):
        c = line[at]
        if escaped:
            word, escaped = word + c, False
        elif c == "\\":
            escaped = True
        elif c == quote:
            quote = None
        elif not quote and c in "'\"":
            quote = c
        elif not quote and c == "#":
            break
        else:
            word += c
        at += 1
    assert not quote, "an unmatched quote"
    words.append(word)
    if at < len(line) and line[at] == "#":
        break
print("\n".join(words))
PY
}

@test "every path and option is one word to bash and to sbatch" {
  for name in "a b" "it's" 'say "x"' 'a#b' '100%A' 'a$(touch OWNED)`touch OWNED`;touch OWNED' 'a&b|c' '~x' '-n' 'ä ö'; do
    run -0 --separate-stderr "$crosstalk" submit slurm s.toml --cpus 1 --time 1h --dry-run --out "$PWD/$name" \
      -- "--comment=it's \"$name\" # 1"
    bash -n <<<"$output"
    [ "$(words_of_sbatch "$(grep -F -- --output= <<<"$output")")" = "--output=${PWD//[%]/%%}/${name//[%]/%%}/logs/%A_%a.log" ]
    [ "$(words_of_sbatch "$(grep -F -- --comment= <<<"$output")")" = "--comment=it's \"$name\" # 1" ]
    # bash sees the words of the worker and nothing else.
    line=$(grep -F " work " <<<"$output" | grep '&$')
    eval "set -- ${line%&}"
    [ "$2" = work ] && [ "$3" = "$PWD/$name" ] && [ "$4" = --device ]
    [ ! -e OWNED ]
  done
}

@test "it asks the store, and hands the script to sbatch" {
  printf '#!/bin/bash\ncp "$1" "%s/got"; echo Submitted batch job 7\n' "$BATS_TEST_TMPDIR" >"$BATS_TEST_TMPDIR/bin/sbatch"
  chmod +x "$BATS_TEST_TMPDIR/bin/sbatch"
  PATH=$BATS_TEST_TMPDIR/bin:$PATH run -0 --separate-stderr "$crosstalk" submit slurm s.toml --cpus 1 --time 1h \
    --set seeds=1,2,3 --out "my store"
  [[ $output == *"Submitted batch job 7"* ]]
  [[ $stderr == *"crosstalk status "*"--watch"* ]]
  cmp "my store/s.sbatch" "$BATS_TEST_TMPDIR/got"
  # What the array would do, here: the script trains everything, whatever its folder.
  cd /
  SLURM_ARRAY_TASK_ID=0 SLURM_ARRAY_TASK_COUNT=1 SLURM_ARRAY_JOB_ID=7 run -0 bash "$BATS_TEST_TMPDIR/got"
  [ "$("$crosstalk" export "$BATS_TEST_TMPDIR/work folder/my store" | wc -l)" -eq 4 ]
  # More seeds need workers, what is recorded needs none.
  cd "$BATS_TEST_TMPDIR/work folder"
  rm "$BATS_TEST_TMPDIR/got"
  PATH=$BATS_TEST_TMPDIR/bin:$PATH run -0 --separate-stderr "$crosstalk" submit slurm s.toml --cpus 1 --time 1h \
    --set seeds=1,2,3 --out "my store"
  [[ $stderr == *": 0 to train"*"no worker is started for it"* ]]
  [ ! -e "$BATS_TEST_TMPDIR/got" ]
  PATH=$BATS_TEST_TMPDIR/bin:$PATH run -0 --separate-stderr "$crosstalk" submit slurm s.toml --cpus 1 --time 1h \
    --set seeds=1,2,3,4,5 --out "my store"
  [[ $stderr == *": 2 to train"* ]]
  [ -e "$BATS_TEST_TMPDIR/got" ]
}

@test "what sbatch refuses is told, with what to do" {
  printf '#!/bin/bash\necho "sbatch: error: no such partition" >&2; exit 1\n' >"$BATS_TEST_TMPDIR/bin/sbatch"
  chmod +x "$BATS_TEST_TMPDIR/bin/sbatch"
  PATH=$BATS_TEST_TMPDIR/bin:$PATH run -2 --separate-stderr "$crosstalk" submit slurm s.toml --cpus 1 --time 1h
  [[ $stderr == *"sbatch refused (exit code 1), so no worker was started."*"/runs/s/s.sbatch and sbatch that"* ]]
}

@test "exit codes of the worker are the job's, and its own limit requeues it" {
  printf '#!/bin/bash\necho "$@" >>"%s/scontrol"\n' "$BATS_TEST_TMPDIR" >"$BATS_TEST_TMPDIR/bin/scontrol"
  chmod +x "$BATS_TEST_TMPDIR/bin/scontrol"
  "$crosstalk" submit slurm s.toml --cpus 1 --time 1h --dry-run >script
  for code in 0 1 4 75 143; do
    sed "s|^'*/.*work .*&\$|(exit $code) \&|" script >changed
    ! cmp script changed
    PATH=$BATS_TEST_TMPDIR/bin:$PATH SLURM_ARRAY_JOB_ID=7 SLURM_ARRAY_TASK_ID=2 run bash changed
    [ "$status" -eq "$code" ]
    if [ "$code" -eq 4 ]; then [[ $output == *"this device is left out"* ]]; fi
  done
  [ "$(cat "$BATS_TEST_TMPDIR/scontrol")" = $'requeue 7_2\nrequeue 7_2' ]
  # Cancelled, it is not requeued; preempted, it is.
  sed "s|^'*/.*work .*&\$|(trap 'exit 75' TERM; while :; do sleep 0.1; done) \&|" script >changed
  chmod +x "$BATS_TEST_TMPDIR/bin/scontrol"
  for state in COMPLETING RUNNING; do
    rm -f "$BATS_TEST_TMPDIR/scontrol"
    printf '#!/bin/bash\necho %s\n' $state >"$BATS_TEST_TMPDIR/bin/squeue"
    chmod +x "$BATS_TEST_TMPDIR/bin/squeue"
    PATH=$BATS_TEST_TMPDIR/bin:$PATH SLURM_ARRAY_JOB_ID=7 SLURM_ARRAY_TASK_ID=2 bash changed &
    sleep 1
    kill -TERM $!
    wait $! || [ $? -eq 75 ]
    if [ $state = RUNNING ]; then grep -qx 'requeue 7_2' "$BATS_TEST_TMPDIR/scontrol"; else [ ! -e "$BATS_TEST_TMPDIR/scontrol" ]; fi
  done
}

@test "what cannot be is refused, and nothing is made" {
  refused() { # refused PATTERN WORDS...
    local pattern=$1
    shift
    run -2 --separate-stderr "$crosstalk" submit "$@"
    [[ $stderr == *$pattern* ]]
    [ ! -e runs ]
  }
  refused "knows the launcher 'slurm', not 'pbs'" pbs s.toml --gpus 1 --time 1h
  refused "needs --gpus N" slurm s.toml --time 1h
  refused "--gpus or --cpus: workers are of one kind" slurm s.toml --gpus 1 --cpus 1 --time 1h
  refused "--gpus or --nodes: workers are of one kind" slurm s.toml --gpus 1 --nodes 1 --time 1h
  refused "a node of --nodes is given whole" slurm s.toml --nodes 1 --cores 2 --time 1h
  refused "did you mean --dry-run?" slurm s.toml --gpus 1 --time 1h --print
  refused "has the control character 0x0a" slurm s.toml --gpus 1 --time 1h --before $'a\nb'
  refused "needs --time" slurm s.toml --gpus 1
  refused "--time 1:00 is 1 min 0 s, of which a worker needs 2 min 0 s at its end; give at least 4 min 0 s" \
    slurm s.toml --gpus 1 --time 1:00
  refused "options of sbatch stand behind '--': ... -- --partition=low" slurm s.toml --gpus 1 --time 1h --partition=low
  refused "--time takes" slurm s.toml --gpus 1 --time 1:x
  refused "is no option of sbatch" slurm s.toml --gpus 1 --time 1h -- gpu
  refused "has the control character 0x0d" slurm s.toml --gpus 1 --time 1h -- $'--comment=a\rb'
  refused "has the control character 0x0a" slurm s.toml --gpus 1 --time 1h -- $'--comment=a\nb'
  for dry in "" --dry-run; do
    refused "has the control character 0x0a" slurm s.toml --gpus 1 --time 1h $dry --out $'p\ntouch OWNED\n#'
    refused "has the control character 0x7f" slurm s.toml --gpus 1 --time 1h $dry --out $'p\x7f'
    refused "has a backslash" slurm s.toml --gpus 1 --time 1h $dry --out 'p\q'
  done
  refused "takes one study file" slurm s.toml t.toml --gpus 1 --time 1h
  refused "s.toml:2:" slurm s.toml --gpus 1 --time 1h --set seeds=x || refused "seeds" slurm s.toml --gpus 1 --time 1h --set seeds=x
}

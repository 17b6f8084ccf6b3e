#!/usr/bin/env bash
# Both studies of 2021 on one, two, four ... GPUs of this host: how long that takes, whether results are the same.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'HELP'
usage: bash scripts/many_gpus.sh [--gpus LIST] [--seeds LIST] [--set KEY=VALUE] [--each] [--side-by-side]
                                 [--crosstalk PATH] [--device cpu]

Asks both studies of 2021 of one store and has `crosstalk work` train them on the GPUs 0 to N-1, once for each N of
LIST; prints seconds from the start of the program to its end, and how many times as fast as on one GPU that is. About
7 minutes on H200s. Exit code 0: every export is the same to the byte.

  --gpus LIST        numbers of GPUs (default: 1, 2, 4 and 8, as far as the host has them)
  --seeds LIST       (default 1,2,3,4,5)
  --set KEY=VALUE    as in `crosstalk run`; may be given many times
  --each             each study in a store of its own as well, with `crosstalk run`; takes as long again
  --side-by-side     one GPU and two at the same time where there are four or more, on GPUs of their own
  --crosstalk PATH   the program (default: build/cuda/crosstalk, else the one on PATH)
  --device cpu       instead of GPUs N worker processes on this machine's cores: to try this script
HELP
}

gpus="" seeds=1,2,3,4,5 sets=() each=false side=false crosstalk="" kind=cuda
while [ $# -gt 0 ]; do
  case $1 in
    --gpus) gpus=${2//,/ }; shift 2 ;;
    --seeds) seeds=$2; shift 2 ;;
    --set) sets+=(--set "$2"); shift 2 ;;
    --each) each=true; shift ;;
    --side-by-side) side=true; shift ;;
    --crosstalk) crosstalk=$2; shift 2 ;;
    --device) kind=$2; shift 2 ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; die "unknown argument '$1'" ;;
  esac
done
if [ -z "$crosstalk" ] && [ -x "$root/build/cuda/crosstalk" ]; then crosstalk=$root/build/cuda/crosstalk; fi
if [ -z "$crosstalk" ]; then crosstalk=$(command -v crosstalk) || die "no program: give --crosstalk PATH"; fi
crosstalk=$(realpath "$crosstalk")
sets+=(--set "seeds=$seeds")

if [ "$kind" = cuda ]; then
  here=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ') || die "there is no GPU here"
else
  here=$(env -u OMP_NUM_THREADS nproc)
fi
if [ -z "$gpus" ]; then
  for n in 1 2 4 8; do if [ "$n" -le "$here" ]; then gpus="$gpus $n"; fi; done
fi
for n in $gpus; do
  if [ "$n" -gt "$here" ]; then die "$n GPUs are asked for, $here are here"; fi
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset SLURM_ARRAY_TASK_ID # inside an array, `work` would take its share of the runs first
mkdir "$work/bin"
printf '#!/bin/sh\n' >"$work/bin/sbatch"
chmod +x "$work/bin/sbatch"

devices() { # devices FIRST N: as --device has it
  local list=$1 i
  if [ "$kind" = cpu ]; then
    if [ "$2" = 1 ]; then echo cpu; else echo "cpu:all:$2"; fi
    return
  fi
  for ((i = $1 + 1; i < $1 + $2; ++i)); do list=$list,$i; done
  echo "cuda:$list"
}
timed() { # timed FILE COMMAND...: its seconds to FILE
  local begin=${EPOCHREALTIME/[.,]/}
  "${@:2}" >"$1.log" 2>&1 || { cat "$1.log" >&2; die "failed: ${*:2}"; }
  awk -v us=$((${EPOCHREALTIME/[.,]/} - begin)) 'BEGIN { printf "%.1f\n", us / 1e6 }' >"$1.seconds"
}
# A store that is asked for both studies, as `submit` makes it before it calls sbatch: here a script that does nothing.
ask() { # ask STORE
  local study
  for study in capacity updates; do
    PATH="$work/bin:$PATH" "$crosstalk" submit slurm "$root/experiments/schlag2021_$study.toml" --gpus 1 --time 1h \
      --out "$1" "${sets[@]}" >"$1.log" 2>&1 || { cat "$1.log" >&2; die "the store could not be made"; }
  done
}
both() { # both FIRST N
  ask "$work/both$2"
  timed "$work/both$2" "$crosstalk" work "$work/both$2" --device "$(devices "$1" "$2")" --quiet
}
one() { # one STUDY N
  timed "$work/$1$2" "$crosstalk" run "$root/experiments/schlag2021_$1.toml" "${sets[@]}" --out "$work/$1$2" \
    --device "$(devices 0 "$2")" --quiet
}

different=0 first="" base="" base_hash=""
report() { # report WHAT N
  local hash seconds
  hash=$({ "$crosstalk" export "$work/$1$2"; "$crosstalk" export "$work/$1$2" --curves; } | sha256sum | cut -c1-16)
  seconds=$(cat "$work/$1$2.seconds")
  if [ "$2" = "$first" ]; then base=$seconds base_hash=$hash; fi
  if [ "$hash" != "$base_hash" ]; then different=$((different + 1)); fi
  printf '%-9s %4d %8s s  %5.2f times  %s\n' "$1" "$2" "$seconds" \
    "$(awk -v a="$base" -v b="$seconds" 'BEGIN { print a / b }')" "$hash"
}

printf 'studies   GPUs  seconds    against the first  export (sha256)\n'
together=""
if $side && [ "$here" -ge 4 ] && [[ " $gpus " == *" 1 "* ]] && [[ " $gpus " == *" 2 "* ]]; then
  both 0 1 &
  pid=$!
  both 1 2
  wait $pid
  together=" 1 2 "
fi
for n in $gpus; do
  first=${first:-$n}
  if [[ $together != *" $n "* ]]; then both 0 "$n"; fi
  report both "$n"
done
if $each; then
  for study in capacity updates; do
    for n in $gpus; do
      one $study "$n"
      report $study "$n"
    done
  done
fi
if [ $different -gt 0 ]; then die "$different exports differ"; fi

#!/usr/bin/env bash
# Measures training of many replicas on this GPU, Crosstalk and JAX in turn, and prints Markdown tables on stdout.
#
#   benchmarks/run_gpu.sh [--rounds N] [--seconds S] [--python PYTHON] [--out FOLDER]
#   benchmarks/run_gpu.sh --memories [--names A,...] [--widths W,...] [--steps N] [--limit S] [--crosstalk PATH] [--out FOLDER]
#
#   --memories       a training step of each memory in a language model instead (memories.toml), without a peer
#   --names A,...    these memories alone (all of memories.toml)
#   --widths W,...   widths of that model, the narrowest first (128,256,512)
#   --steps N        compares N and 2 N steps (20)
#   --limit S        seconds that a memory may take at a width; one that takes more is not tried at the next (120)
#   --rounds N       times that all programs run, one after the other (1)
#   --seconds S      length of one repeat, of 5 a round (1)
#   --crosstalk PATH the program (build/cuda/crosstalk)
#   --python PYTHON  a Python that can import jax and sees the GPU (CROSSTALK_PEER_PYTHON, or python3)
#   --out FOLDER     where JSON files are left (build/benchmarks-gpu)
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

rounds=1 seconds=1 memories=no names='' widths=128,256,512 steps=20 limit=120 out=build/benchmarks-gpu crosstalk=build/cuda/crosstalk
python=${CROSSTALK_PEER_PYTHON:-python3}
say() { printf '%s\n' "$*" >&2; }
usage() {
  sed -n '2,/^# SPDX/{/^# SPDX/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"
  exit "$1"
}
while [ $# -gt 0 ]; do
  case $1 in
    --memories) memories=yes && shift ;;
    --rounds | --seconds | --python | --out | --crosstalk | --names | --widths | --steps | --limit)
      [ $# -ge 2 ] || { say "run_gpu.sh: $1 needs a value"; exit 2; }
      declare "${1#--}=$2"
      shift 2
      ;;
    -h | --help) usage 0 ;;
    *) say "run_gpu.sh: unknown option $1" && usage 2 >&2 ;;
  esac
done

if ! "$crosstalk" doctor >/dev/null 2>&1; then
  say "run_gpu.sh: $crosstalk does not run here; build it with 'cmake --preset cuda && cmake --build --preset cuda', or name it with --crosstalk"
  exit 2
fi
mkdir -p "$out"
rm -f "$out"/*.json "$out"/*.log "$out"/choices.txt # of an earlier call

# A process a memory and width: what cannot be trained, or not within the limit, costs its own rows alone.
if [ "$memories" = yes ]; then
  names=${names//,/ }
  [ -n "$names" ] || names=$("$crosstalk" plan benchmarks/memories.toml --json | python3 benchmarks/report.py labels)
  for width in ${widths//,/ }; do
    for name in $names; do
      say "$name, width $width"
      timeout "$limit" "$crosstalk" bench benchmarks/memories.toml --set "memory=$name" --set "model.width=$width" \
        --replicas 1 --steps "$steps" --device cuda --json \
        >"$out/memory.$name.$width.json" 2>"$out/memory.$name.$width.log" || {
        say "  failed; see $out/memory.$name.$width.log"
        names=$(tr ' ' '\n' <<<"$names" | grep -vx "$name" || true) # the loop at hand has its words already
      }
    done
  done
  exec python3 benchmarks/report.py memories "$out"
fi

peer=benchmarks/peers/jax_replicas.py
if ! "$python" -c 'import jax; assert jax.devices()[0].platform != "cpu"' 2>/dev/null; then
  say "run_gpu.sh: $python cannot import jax, or jax sees no GPU (--python names another one)"
  exit 2
fi
if ! "$python" "$peer" --check >"$out/check.txt" 2>&1; then
  say "The JAX program is wrong on this device; see $out/check.txt"
  exit 1
fi

# Models and numbers of replicas that are compared. R = 1 shows what one model costs alone.
for round in $(seq "$rounds"); do
  say "round $round of $rounds"
  for shape in "linear100 1 16 128" "linear600 1 16" "delta100 1 16 128"; do
    # shellcheck disable=SC2086 # words of a shape are separate arguments
    set -- $shape
    model=$1
    shift
    case $model in
      linear*) study=schlag2021_capacity memory=linear ;;
      *) study=schlag2021_updates memory=dpfp1_delta ;;
    esac
    say "  crosstalk $model, replicas $*"
    "$crosstalk" bench "experiments/$study.toml" --set "memory=$memory" --set "task.associations=${model//[a-z]/}" \
      --replicas "$(tr ' ' , <<<"$*")" --device cuda --json \
      >"$out/crosstalk.$round.$model.json" 2>"$out/crosstalk.$round.$model.log" ||
      say "    failed; see $out/crosstalk.$round.$model.log"
    for precision in default highest; do # TF32 products, where JAX chooses them, and full fp32
      say "  jax $model, replicas $*, products $precision"
      "$python" "$peer" --models "$model" --replicas "$@" --seconds "$seconds" --precision "$precision" --json \
        >"$out/jax.$round.$model.$precision.json" 2>"$out/jax.$round.$model.$precision.log" ||
        say "    failed; see $out/jax.$round.$model.$precision.log"
    done
  done
done
python3 benchmarks/report.py gpu "$out"

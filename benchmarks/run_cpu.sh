#!/usr/bin/env bash
# Measures training on this CPU, Crosstalk and PyTorch in turn, and prints Markdown tables on stdout.
#
#   benchmarks/run_cpu.sh [--rounds N] [--seconds S] [--threads N] [--python PYTHON] [--out FOLDER] [--no-build]
#
#   --rounds N       times that all programs run, one after the other (3)
#   --seconds S      length of one repeat of a peer, of 5 a round (1); ours is what crosstalk bench measures, three times a round
#   --threads N      threads to use at most (all cores of this process)
#   --python PYTHON  a Python that can import torch and numpy (CROSSTALK_PEER_PYTHON, or python3);
#                    without one only Crosstalk is measured
#   --out FOLDER     where JSON files are left (build/benchmarks/timings)
#   --no-build       take the programs in build/benchmarks as they are
#
# Nothing else may run meanwhile: the tables say so if the machine was busy at the start.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

rounds=3 seconds=1 threads=$(nproc) out=build/benchmarks/timings build=yes
python=${CROSSTALK_PEER_PYTHON:-python3}
say() { printf '%s\n' "$*" >&2; }
usage() {
  sed -n '2,/^# SPDX/{/^# SPDX/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"
  exit "$1"
}
while [ $# -gt 0 ]; do
  case $1 in
    --rounds | --seconds | --threads | --python | --out)
      [ $# -ge 2 ] || { say "run_cpu.sh: $1 needs a value"; exit 2; }
      declare "${1#--}=$2"
      shift 2
      ;;
    --no-build) build=no && shift ;;
    -h | --help) usage 0 ;;
    *) say "run_cpu.sh: unknown option $1" && usage 2 >&2 ;;
  esac
done

machine_json() {
  python3 - <<'PYTHON'
import json, os
names = [line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
print(json.dumps({"cpu": names[0] if names else "an unknown CPU", "load_average": os.getloadavg()[0]}))
PYTHON
}
machine=$(machine_json) # before the build makes the machine busy

if [ "$build" = yes ]; then
  cmake --preset cpu -B build/benchmarks -DCROSSTALK_TESTS=OFF >&2
  cmake --build build/benchmarks --target crosstalk >&2
fi
ours=build/benchmarks/crosstalk
mkdir -p "$out"
rm -f "$out"/*.json "$out"/*.log "$out"/choices.txt # of an earlier call
echo "$machine" >"$out/machine.json"
"$ours" --version >"$out/version.txt"

peer=benchmarks/peers/pytorch_cpu.py
if ! "$python" -c 'import torch, numpy' 2>/dev/null; then
  say "$python cannot import torch and numpy: PyTorch is left out (--python names another one)"
  python=
elif ! "$python" "$peer" --check >"$out/check.txt" 2>&1; then
  say "The two PyTorch programs do not agree; see $out/check.txt"
  exit 1
fi

# JSON of one program: measure NAME COMMAND... A peer that fails leaves a gap in the table.
measure() {
  local name=$1
  shift
  say "  $name"
  if ! "$@" --json >"$out/$name.json" 2>"$out/$name.log"; then
    say "    failed; see $out/$name.log"
    rm -f "$out/$name.json"
  fi
}
for round in $(seq "$rounds"); do
  say "round $round of $rounds"
  for model in linear delta softmax; do
    case $model in
      delta) study=schlag2021_updates memory=dpfp1_delta ;;
      *) study=schlag2021_capacity memory=$model ;;
    esac
    bench=("$ours" bench "experiments/$study.toml" --set "memory=$memory" --set task.associations=100 --device cpu
      --threads "$threads")
    for repeat in 1 2 3; do
      measure "ours.one.$round.$model.$repeat" "${bench[@]}"
      [ "$threads" = 1 ] || measure "ours.many.$round.$model.$repeat" "${bench[@]}" --streams "$threads"
    done
    [ -n "$python" ] || continue
    for variant in original expert; do
      arguments=(--model "$model" --variant "$variant" --threads "$threads" --choices "$out/choices.txt" --seconds "$seconds")
      measure "one.$round.$model.$variant" "$python" "$peer" "${arguments[@]}"
      [ "$threads" = 1 ] || measure "many.$round.$model.$variant" "$python" "$peer" "${arguments[@]}" \
        --models "$threads"
    done
  done
done

say "quickstart"
store=$(mktemp -d)
trap 'rm -rf "$store"' EXIT
python3 benchmarks/report.py process "$out/quickstart.json" \
  build/benchmarks/crosstalk run experiments/quickstart.toml --out "$store/quickstart" 2>"$out/quickstart.log" ||
  say "  failed; see $out/quickstart.log"
python3 benchmarks/report.py cpu "$out"

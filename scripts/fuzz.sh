#!/usr/bin/env bash
# Coverage-guided fuzzing of everything that reads a file, or an option with a language of its own.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'HELP'
usage: bash scripts/fuzz.sh [--runs N] [--seconds T] [--seed S] [READER...]

Builds fuzz_any with clang under AddressSanitizer and UndefinedBehaviorSanitizer in build/fuzz, and runs it for each
reader (study, set, record, mark: store.json, state: saved states, stack: model.stack, init: model.init, segments:
task.segments, rule: memory.law, published: CSV, request, claims) until N executions (default 100000) or T seconds
(default 600) are over. Corpora stay in build/fuzz/corpus. Prints the executions of each. Exit code 0: no finding; 77:
there is no clang with its fuzzer (apt install clang libclang-rt-14-dev). An input by hand:
CROSSTALK_READER=mark build/fuzz/fuzz_any FILE.
HELP
}

runs=100000 seconds=600 seed=1 readers=()
while [ $# -gt 0 ]; do
  case $1 in
    --runs) runs=$2; shift 2 ;;
    --seconds) seconds=$2; shift 2 ;;
    --seed) seed=$2; shift 2 ;;
    -h | --help) usage; exit 0 ;;
    study | set | record | mark | state | stack | init | segments | rule | published | request | claims) readers+=("$1"); shift ;;
    *) usage >&2; die "unknown argument '$1'" ;;
  esac
done
if [ ${#readers[@]} -eq 0 ]; then readers=(study set record mark state stack init segments rule published request claims); fi

compiler=""
probe=$(mktemp -d)
trap 'rm -rf "$probe"' EXIT
echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' >"$probe/probe.cpp"
for candidate in clang++ clang++-14 clang++-15 clang++-16 clang++-17 clang++-18; do
  if "$candidate" -fsanitize=fuzzer,address,undefined "$probe/probe.cpp" -o "$probe/probe" 2>/dev/null; then
    compiler=$candidate
    break
  fi
done
if [ -z "$compiler" ]; then
  say "no clang with its fuzzer was found (apt install clang libclang-rt-14-dev)"
  exit 77
fi

build=$root/build/fuzz
cmake -S "$root" -B "$build" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" -DCROSSTALK_FUZZ=ON -DCROSSTALK_TESTS=OFF \
  -DCROSSTALK_CUDA=OFF -DCROSSTALK_WERROR=OFF -DCMAKE_BUILD_TYPE=RelWithDebInfo >"$probe/configure.log" 2>&1 ||
  { cat "$probe/configure.log" >&2; die "configuring failed"; }
ninja -C "$build" fuzz_any >&2

# Something good of each kind to begin with.
seeds() { # seeds READER FOLDER
  mkdir -p "$2"
  case $1 in
    study) cp "$root"/experiments/*.toml "$2" ;;
    set) printf 'train.batch=32,64\0seeds=range(1,3)' >"$2/a"; printf 'memory=linear\0train.learning_rate=logrange(1,8)' >"$2/b" ;;
    record) cat >"$2/a" <<'JSON'
{"v":1,"id":"ct-1","study":"s","label":"l","status":"done","seed":1,"config":{"task.name":"recall"},"d_dot":1,"state_size":1,"steps":9,"eval_loss":0.5,"best_eval_loss":null,"eval_accuracy":1,"metrics":{"m":1e-3},"curves":{"c":{"x":[1],"y":[2.5]}},"profiles":{},"message":"","provenance":{"host":"h"}}
JSON
      truncate -s -1 "$2/a" ;;
    mark) echo '{"format":1,"created_by":"crosstalk"}' >"$2/a" ;;
    state) printf '%s\n%s' '{"version":1,"id":"ct-1","steps":15,"evaluations":1,"strikes":0,"best":[4602678819172646912],"report":[0,0,0,0,0,0,4617315517961601024,0],"bytes":4,"curves":{"eval_loss":{"x":[4621819117588971520],"y":[4602678819172646912]},"eval_accuracy":{"x":[4621819117588971520],"y":[0]},"eval_exact":{"x":[4621819117588971520],"y":[0]},"train_loss":{"x":[4621819117588971520],"y":[0]}}}' abcd >"$2/a" ;;
    stack) printf 'base_conv memory(heads=2, short_conv=qkv) sliding_window(window=16)' >"$2/a" ;;
    init) printf 'gate.bias = 0.5; key_embedding = N(0, 0.1^2); a = U(-1, 1); b = log U(1, 16); c = softplus^-1(exp U(log 0.001, log 0.1))' >"$2/a" ;;
    rule) printf 'beta = token; S += sigmoid(beta) (v - S k) k^T; read S q' >"$2/a"; printf 'state z[K]; z = 0.5 z + k; S = S diag(exp(-softplus(token(K, rank = d)))) + v k^T; e = S k - v; S -= c grad(0.5 sum(e * e), S); read layernorm(S q) / max(abs(z^T q), 1)' >"$2/b" ;;
    segments) printf '64:4:100000 128:8:20000' >"$2/a"; printf '32 64 128' >"$2/b" ;;
    published)
      head -5 "$root/results/published/literature/schlag2021_final_losses.csv" >"$2/a"
      head -5 "$root/results/published/literature/zoology2023_fig2.csv" >"$2/b"
      printf 'label,task.name,task.associations,eval_loss,"a ""b"""\r\nx,recall,8,nan,"1,\n2"\n' >"$2/c" ;;
    request) printf '{"study":"s","set":["seeds=1,2"],"text":"[study]\\nname = \\"s\\"\\n","version":"0123abcd"}' >"$2/a" ;;
    claims)
      printf '{"process":{"host":"h","boot":"b","space":"pid:[1]","pid":7,"started":7},"beat":3,"every":5,"asks":{"worker":"w.worker","ids":["ct-1"],"room":2,"kind":"cpu","load":1.5},"activity":{"device":"cpu"}}' >"$2/a"
      printf 'host-12-0123abcd-4567abcd.worker' >"$2/b" ;;
  esac
}

printf 'reader    executions  seed  corpus\n'
for reader in "${readers[@]}"; do
  corpus=$build/corpus/$reader
  seeds "$reader" "$corpus"
  log=$build/$reader.log
  if ! (cd "$build" && ASAN_OPTIONS=detect_stack_use_after_return=1:allocator_may_return_null=1 \
    UBSAN_OPTIONS=print_stacktrace=1 CROSSTALK_READER="$reader" ./fuzz_any -runs="$runs" -max_total_time="$seconds" -seed="$seed" \
    -max_len=4096 -len_control=20 -timeout=25 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$build/finding-$reader-" "$corpus") >"$log" 2>&1; then
    tail -60 "$log" >&2
    die "$reader: a finding; the input is $build/finding-$reader-*, the log $log"
  fi
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  printf '%-9s %10s  %4s  %s\n' "$reader" "$executions" "$seed" "$(find "$corpus" -type f | wc -l)"
done

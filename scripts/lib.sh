# Shared by the scripts in this folder: source it, do not run it.
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '%s\n' "$*" >&2; }
step() { printf '\n== %s\n' "$*" >&2; }
die() {
  printf '%s: error: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# Compile jobs: one a core, but no more than memory holds at 1.5 GB each. CROSSTALK_JOBS overrides.
job_count() {
  if [ -n "${CROSSTALK_JOBS:-}" ]; then
    echo "$CROSSTALK_JOBS"
    return
  fi
  local cores kilobytes limit by_memory
  cores=$(nproc)
  kilobytes=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo 2>/dev/null)
  kilobytes=${kilobytes:-2000000}
  limit=$(cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null | head -n 1)
  case $limit in
    '' | *[!0-9]*) ;;
    *) if [ ${#limit} -lt 16 ] && [ $((limit / 1024)) -lt "$kilobytes" ]; then kilobytes=$((limit / 1024)); fi ;;
  esac
  by_memory=$((kilobytes / 1500000))
  if [ "$by_memory" -lt 1 ]; then by_memory=1; fi
  if [ "$by_memory" -lt "$cores" ]; then echo "$by_memory"; else echo "$cores"; fi
}

# Prints the first Python that can import matplotlib; fails where there is none.
figure_python() {
  local python
  for python in "${CROSSTALK_PYTHON:-}" python3 /usr/bin/python3 "$root/.venv/bin/python"; do
    if [ -n "$python" ] && command -v "$python" >/dev/null 2>&1 &&
      MPLBACKEND=Agg "$python" -c 'import matplotlib.pyplot' >/dev/null 2>&1; then
      command -v "$python"
      return 0
    fi
  done
  return 1
}

# Prints a Python that can build and test the Python package, in an environment of its own under build/; fails, and says why,
# where there is none: no headers, or no packages to be had.
module_python() {
  local python=$root/build/python-venv/bin/python base
  local can='import nanobind, numpy, pytest, sysconfig, os, sys
sys.exit(not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")))'
  if ! "$python" -c "$can" >/dev/null 2>&1; then
    for base in python3 /usr/bin/python3; do
      rm -rf "$root/build/python-venv"
      if "$base" -m venv "$root/build/python-venv" >&2 &&
        "$python" -m pip install --quiet --disable-pip-version-check --retries 2 \
          nanobind numpy pytest pandas matplotlib >&2 && "$python" -c "$can" >/dev/null 2>&1; then break; fi
    done
  fi
  if ! "$python" -c "$can" >/dev/null 2>&1; then
    say "no Python here has its headers (python3-dev) and can install nanobind, numpy and pytest"
    return 1
  fi
  # The documentation site is built in the same environment, where it can be had.
  if ! "$python" -c 'import material, mkdocs' >/dev/null 2>&1; then
    "$python" -m pip install --quiet --disable-pip-version-check --retries 2 mkdocs-material >&2 ||
      say "mkdocs-material cannot be installed: the documentation site is not built"
  fi
  # Continuous integration tests what needs PyTorch, JAX and type checkers, too: 6.2 GB, most of it CUDA's libraries, which PyTorch
  # from PyPI links even where there is no GPU.
  if [ "${CI:-}" = true ] && ! "$python" -c 'import torch, jax, pyright, mypy, safetensors, pyarrow, datasets, nbclient, ipykernel' >/dev/null 2>&1; then
    "$python" -m pip install --quiet --disable-pip-version-check --retries 2 \
      torch 'jax[cpu]' 'pyright[nodejs]' mypy safetensors pyarrow datasets nbclient ipykernel >&2 ||
      say "PyTorch, JAX and what is tested with them cannot be installed: these tests are skipped"
  fi
  echo "$python"
}

# Prints nvcc's path; looks where cmake/CrosstalkCuda.cmake looks. Fails where there is none.
find_nvcc() {
  local candidate
  for candidate in "${CUDACXX:-}" "${CUDA_HOME:+$CUDA_HOME/bin/nvcc}" "${CUDA_PATH:+$CUDA_PATH/bin/nvcc}" nvcc \
    /usr/local/cuda/bin/nvcc /opt/cuda/bin/nvcc; do
    if [ -n "$candidate" ] && command -v "$candidate" >/dev/null 2>&1 && "$candidate" --version >/dev/null 2>&1; then
      command -v "$candidate"
      return 0
    fi
  done
  return 1
}

has_gpu() { command -v nvidia-smi >/dev/null 2>&1 && nvidia-smi -L 2>/dev/null | grep -q '^GPU '; }

# The project's files whose names end in one of the given suffixes, NUL-separated; git's list where there is one.
project_files() {
  local suffix patterns=()
  if git -C "$root" rev-parse --is-inside-work-tree >/dev/null 2>&1 &&
    [ -n "$(git -C "$root" ls-files CMakeLists.txt 2>/dev/null)" ]; then
    for suffix in "$@"; do patterns+=("*$suffix"); done
    git -C "$root" ls-files -z -- "${patterns[@]}" |
      while IFS= read -r -d '' file; do
        if [ -f "$root/$file" ]; then printf '%s\0' "$file"; fi
      done
  else
    for suffix in "$@"; do patterns+=(-o -name "*$suffix"); done
    (cd "$root" && find . -path ./build -prune -o -path ./.venv -prune -o -type f \( "${patterns[@]:1}" \) -print0)
  fi
}

has_cuda_sources() { [ "$(project_files .cu | tr -d '\0' | wc -c)" -gt 0 ]; }

# Prints CMake's list of the architectures of the GPUs here, if nvcc knows them all: a build for one is three times as
# fast as the default list. Prints nothing where CMake should decide.
local_cuda_architectures() {
  local nvcc known list
  if [ -n "${CUDAARCHS:-}" ] || ! has_gpu || ! nvcc=$(find_nvcc); then return 0; fi
  known=$("$nvcc" --list-gpu-arch 2>/dev/null) || return 0
  list=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d '. ' | sort -un) || return 0
  local architecture
  for architecture in $list; do
    if ! grep -qx "compute_$architecture" <<<"$known"; then return 0; fi
  done
  # Hopper's own instructions are in code for it alone.
  tr '\n' ';' <<<"$list" | sed 's/;*$//; s/^90\(;\|$\)/90a-real\1/; s/;90\(;\|$\)/;90a-real\1/'
}

# configure PRESET [-DOPTION=VALUE ...]. A build folder that was configured elsewhere (a copied or moved checkout)
# is configured anew.
configure() {
  local preset=$1 cache="$root/build/$1/CMakeCache.txt"
  shift
  local fresh=()
  if [ -f "$cache" ] && ! grep -qFx "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$cache"; then fresh=(--fresh); fi
  local architectures=""
  if [ "$preset" = cuda ]; then architectures=$(local_cuda_architectures); fi
  if [ -n "$architectures" ]; then
    set -- "-DCMAKE_CUDA_ARCHITECTURES=$architectures" "$@"
  elif [ "$preset" = cuda ] && [ "${CI:-}" = true ]; then
    set -- -DCROSSTALK_FEW_ARCHITECTURES=ON "$@"
  fi
  (cd "$root" && cmake --preset "$preset" ${fresh[@]+"${fresh[@]}"} "$@") >&2
}

# build PRESET [ARGUMENTS OF cmake --build]
build() {
  local preset=$1
  shift
  (cd "$root" && cmake --build --preset "$preset" -j "$(job_count)" "$@") >&2
}

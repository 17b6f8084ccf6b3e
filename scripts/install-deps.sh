#!/usr/bin/env bash
# Installs what Crosstalk needs to build, test and draw, where it is missing (Debian 12, Ubuntu 24.04).
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'HELP'
usage: bash scripts/install-deps.sh [--minimal] [--print]

Installs missing packages with apt (as root, or through sudo) and makes sure that some Python can import
matplotlib for the figures: $CROSSTALK_PYTHON, python3, /usr/bin/python3 or .venv/bin/python; if none can, it
makes .venv and installs matplotlib there. What is already there is left alone.

  --minimal only what building and drawing need: no tests, no format check, no benchmarks. Configure with
            cmake --preset cpu -DCROSSTALK_TESTS=OFF
  --print   only list what is needed and what is missing; one package a line
  --help    this text

CROSSTALK_SKIP_DEPS=1 skips everything: for machines where the packages come from elsewhere (modules, conda).
HELP
}

print_only=false minimal=false
for argument in "$@"; do
  case $argument in
    --minimal) minimal=true ;;
    --print) print_only=true ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; die "unknown argument '$argument'" ;;
  esac
done

packages=(
  cmake ninja-build g++                                                 # to build
  libeigen3-dev libfmt-dev libboost-program-options-dev nlohmann-json3-dev
  libtomlplusplus-dev libxxhash-dev librandom123-dev
  python3                                                               # to draw
)
if ! $minimal; then
  packages+=(
    git libgtest-dev libgmock-dev librapidcheck-dev                     # to test
    python3-pandas bats clang-format-14
    texlive-latex-base texlive-latex-recommended                        # tables of LaTeX: 48 MB, 151 MB on disk
    ccache                                                              # what two presets share is compiled once
  )
fi

installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

missing=()
if command -v dpkg-query >/dev/null 2>&1; then
  for package in "${packages[@]}"; do
    installed "$package" || missing+=("$package")
  done
else
  missing=("${packages[@]}")
fi

python=$(figure_python) || python=""

if $print_only; then
  for package in "${packages[@]}"; do
    state=installed
    for other in ${missing[@]+"${missing[@]}"}; do
      if [ "$other" = "$package" ]; then state=missing; fi
    done
    printf '%-32s %s\n' "$package" "$state"
  done
  if [ -n "$python" ]; then
    printf '%-32s %s\n' matplotlib "found by $python"
  else
    printf '%-32s %s\n' matplotlib "missing: python3-venv, then .venv with pip install matplotlib"
  fi
  exit 0
fi

if [ -n "${CROSSTALK_SKIP_DEPS:-}" ]; then
  say "install-deps: skipped (CROSSTALK_SKIP_DEPS is set)"
  exit 0
fi

updated=false
apt_install() { # apt_install PACKAGE...
  command -v apt-get >/dev/null 2>&1 ||
    die "this script knows apt only (Debian, Ubuntu). Install these with your own package manager, then run" \
      "again with CROSSTALK_SKIP_DEPS=1: $*"
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null 2>&1 ||
      die "these packages are missing and neither root nor sudo is here to install them. Ask somebody who may:" \
        "apt-get install $*"
    as_root=(sudo)
    if [ ! -t 0 ]; then as_root=(sudo -n); fi
    "${as_root[@]}" true ||
      die "sudo refused. Ask somebody who may: apt-get install $*"
  fi
  as_root+=(env DEBIAN_FRONTEND=noninteractive)
  if ! $updated; then
    "${as_root[@]}" apt-get -o DPkg::Lock::Timeout=300 update -q >&2 ||
      say "install-deps: apt-get update failed; trying with the package lists that are here"
    updated=true
  fi
  "${as_root[@]}" apt-get -o DPkg::Lock::Timeout=300 install -y -q --no-install-recommends "$@" >&2
}

if [ ${#missing[@]} -gt 0 ]; then
  step "Installing ${#missing[@]} packages: ${missing[*]}"
  apt_install "${missing[@]}" ||
    die "apt-get could not install: ${missing[*]}. On Ubuntu they stand in 'universe':" \
      "add-apt-repository universe, then run again."
fi

# Figures are the only part that can do without: the program then writes the CSV and the script that draws it.
make_venv() {
  local base=/usr/bin/python3
  [ -x "$base" ] || base=python3
  if ! "$base" -c 'import venv, ensurepip' >/dev/null 2>&1; then
    (apt_install python3-venv) || return 1
  fi
  "$base" -m venv "$root/.venv" >&2 &&
    "$root/.venv/bin/python" -m pip install --quiet --disable-pip-version-check --retries 2 matplotlib >&2
}
if [ -z "$python" ]; then
  step "No Python here can import matplotlib: making .venv for the figures"
  if ! make_venv; then
    rm -rf "$root/.venv"
    say "install-deps: pip could not install matplotlib; trying the package python3-matplotlib"
    (apt_install python3-matplotlib) || true
  fi
  if python=$(figure_python); then
    say "install-deps: figures are drawn by $python"
  else
    say "install-deps: matplotlib could not be installed. Everything else works; a figure is then a CSV and a"
    say "  Python script. To render it later, on any machine with matplotlib: python3 NAME.py"
  fi
fi

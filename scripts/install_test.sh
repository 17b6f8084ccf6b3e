#!/usr/bin/env bash
# The installed program: moves it, then trains, draws and lists from a folder that has nothing of the sources.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'HELP'
usage: bash scripts/install_test.sh BUILD_FOLDER | TARBALL

Installs what BUILD_FOLDER holds into a temporary prefix (or unpacks TARBALL, and checks that it needs nothing but what every
system has), moves that elsewhere, and uses it from an empty folder.
HELP
}

if [ $# != 1 ] || [ "$1" = --help ]; then usage; exit 2; fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

if [ -f "$1" ]; then
  mkdir "$folder/first"
  tar -xzf "$1" -C "$folder/first" --strip-components=1
  needed=$(objdump -p "$folder/first/bin/crosstalk" | awk '$1 == "NEEDED" { print $2 }')
  for library in $needed; do
    case $library in
      libc.so.6 | libm.so.6 | libpthread.so.0 | libdl.so.2 | librt.so.1 | ld-linux-x86-64.so.2 | libgcc_s.so.1) ;;
      *) die "the packaged program needs $library" ;;
    esac
  done
  newest=$(objdump -T "$folder/first/bin/crosstalk" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
  [ "$(printf '%s\nGLIBC_2.34\n' "$newest" | sort -V | tail -n 1)" = GLIBC_2.34 ] ||
    die "the packaged program needs $newest; RHEL 9 has GLIBC_2.34"
  say "needs $(echo "$needed" | tr '\n' ' ')up to $newest"
else
  cmake --install "$1" --prefix "$folder/first" >/dev/null
fi
mv "$folder/first" "$folder/moved here"
installed="$folder/moved here"
for file in share/man/man1/crosstalk.1 share/bash-completion/completions/crosstalk share/doc/crosstalk/LICENSE; do
  [ -s "$installed/$file" ] || die "$file was not installed"
done

mkdir "$folder/elsewhere"
cd "$folder/elsewhere"
# Nothing of this machine but a Python that draws.
python=$(figure_python || command -v python3)
crosstalk() { env PATH=/nowhere "CROSSTALK_PYTHON=$python" "$installed/bin/crosstalk" "$@"; }
study=$(crosstalk list studies --json | python3 -c '
import json, sys
print(next(study["path"] for study in json.load(sys.stdin) if study["name"] == "quickstart"))')
[ "$study" = "$installed/share/crosstalk/experiments/quickstart.toml" ] || die "list studies names $study"
crosstalk run "$study" --set memory=linear,softmax --set train.max_steps=60 --set eval.every=20 --quiet
crosstalk plot capacity runs/quickstart --out figure >/dev/null
for file in figure.csv figure.py figure.caption.txt figure.pdf figure.png; do
  [ -s $file ] || die "plot left no $file"
done
say "installed, moved, trained and drawn"

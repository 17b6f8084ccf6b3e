#!/usr/bin/env bash
# The installed program: moves it, then trains, draws and lists from a folder that has nothing of the sources.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'HELP'
usage: bash scripts/install_test.sh BUILD_FOLDER [--package]

Installs what BUILD_FOLDER holds into a temporary prefix (with --package: unpacks the tarball that CPack makes of it, and
checks that it needs the C library alone), moves that elsewhere, and uses it from an empty folder.
HELP
}

if [ $# -lt 1 ] || [ "$1" = --help ]; then usage; exit 2; fi
build=$(cd "$1" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

if [ "${2:-}" = --package ]; then
  (cd "$build" && cpack -G TGZ -B "$folder/package" >/dev/null)
  mkdir "$folder/first"
  tar -xzf "$folder"/package/crosstalk-*.tar.gz -C "$folder/first" --strip-components=1
  needed=$(objdump -p "$folder/first/bin/crosstalk" | awk '$1 == "NEEDED" { print $2 }')
  for library in $needed; do
    case $library in
      libc.so.6 | libm.so.6 | libpthread.so.0 | libdl.so.2 | librt.so.1 | ld-linux-x86-64.so.2) ;;
      *) die "the packaged program needs $library" ;;
    esac
  done
  newest=$(objdump -T "$folder/first/bin/crosstalk" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
  [ "$(printf '%s\nGLIBC_2.36\n' "$newest" | sort -V | tail -n 1)" = GLIBC_2.36 ] ||
    die "the packaged program needs $newest; Debian 12 has GLIBC_2.36"
  say "needs $(echo "$needed" | tr '\n' ' ')up to $newest"
else
  cmake --install "$build" --prefix "$folder/first" >/dev/null
fi
mv "$folder/first" "$folder/moved here"
installed="$folder/moved here"
for file in share/man/man1/crosstalk.1 share/bash-completion/completions/crosstalk share/doc/crosstalk/LICENSE; do
  [ -s "$installed/$file" ] || die "$file was not installed"
done

mkdir "$folder/elsewhere"
cd "$folder/elsewhere"
crosstalk="$installed/bin/crosstalk"
study=$("$crosstalk" list studies --json | python3 -c '
import json, sys
print(next(study["path"] for study in json.load(sys.stdin) if study["name"] == "quickstart"))')
[ "$study" = "$installed/share/crosstalk/experiments/quickstart.toml" ] || die "list studies names $study"
"$crosstalk" run "$study" --set memory=linear,softmax --set train.max_steps=60 --set eval.every=20 --quiet
"$crosstalk" plot capacity runs/quickstart --out figure >/dev/null
for file in figure.csv figure.py figure.caption.txt figure.pdf figure.png; do
  [ -s $file ] || die "plot left no $file"
done
say "installed, moved, trained and drawn"

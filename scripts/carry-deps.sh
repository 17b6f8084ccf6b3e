#!/usr/bin/env bash
# The libraries that Crosstalk is built with in one archive, for machines on which nothing can be installed.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case "${1:-}" in
  *.tar.gz) archive=$(realpath -m "$1") ;;
  *) cat >&2 <<'HELP'
usage: bash scripts/carry-deps.sh ARCHIVE.tar.gz

Packs headers, static libraries and CMake files of this machine's packages (scripts/install-deps.sh). On another x86-64 machine, which
has a compiler, CMake and ninja:

  mkdir -p ~/crosstalk-deps && tar -xzf ARCHIVE.tar.gz -C ~/crosstalk-deps
  cmake --preset cuda -DCMAKE_PREFIX_PATH="$HOME/crosstalk-deps/usr"
HELP
    exit 2 ;;
esac

cd /
lib=usr/lib/x86_64-linux-gnu
shopt -s nullglob
wanted=(usr/include/{boost,eigen3/Eigen,fmt,gmock,gtest,nlohmann,rapidcheck,rapidcheck.h,Random123,toml++} usr/include/xxh*.h
  usr/share/eigen3 usr/share/cmake/nlohmann_json* "$lib"/cmake/{Boost-*,BoostDetectToolset*,boost_headers-*,boost_program_options-*}
  "$lib"/cmake/{GTest,fmt,rapidcheck} "$lib"/lib{boost_program_options,fmt,gmock,gmock_main,gtest,gtest_main,xxhash}.* usr/lib/librapidcheck*
  "$lib"/librapidcheck*)
for file in "${wanted[@]}"; do
  [ -e "$file" ] || die "/$file is not here: bash scripts/install-deps.sh"
done
tar -czf "$archive" "${wanted[@]}"
say "$(du -h "$archive" | cut -f1) in $archive"

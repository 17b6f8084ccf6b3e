#!/usr/bin/env bash
# Links kernels_ops_test of a CUDA build with kernels of some files emulated on the CPU.
# Usage: build.sh BUILD OUT FILE.cu ...   from the repository's root; BUILD is a folder where kernels_ops_test was built.
# EMULATE_FLAGS: of the compiler, -O1 by default; "-O1 -fsanitize=alignment -fsanitize-undefined-trap-on-error" ends at a load that a
# GPU would refuse. EMULATE_RACES=1: accesses of one place by two threads that nothing orders are told of, and fail their test
# (race.h); with EMULATE_EVERY=9 as it runs those of each ninth launch only.
# Then run OUT/kernels_ops_test, with CROSSTALK_FEW_REPLICAS=1, in several orders (EMULATE_ORDER, emulate.cpp).
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
build=$(realpath "$1"); out=$2; shift 2
mkdir -p "$out"; out=$(realpath "$out")
here=kernels/testing/emulate
python3 $here/prepare.py . "$out/source"
flags=(-std=c++20 ${EMULATE_FLAGS:--O1} -w -DCROSSTALK_HAVE_CUDA=1 -DEIGEN_DONT_PARALLELIZE -DFMT_SHARED -fno-strict-aliasing -I"$out/source" -I.
       -I"$build/generated" -isystem /usr/include/eigen3 -isystem /usr/local/cuda/include)
objects=(); compiling=(); left=$(cd "$build" && find kernels/CMakeFiles/crosstalk_kernels.dir -name '*.o')
for part in emulate runtime race; do
  object=$out/$part.o; objects+=("$object")
  [ -e "$object" ] && [ -z "$(find $here -newer "$object" -name '*.[ch]*')" ] || g++ "${flags[@]}" -O2 -c $here/$part.cpp -o "$object"
done
[ -z "${EMULATE_RACES-}" ] || flags+=(-fsanitize=thread --param tsan-instrument-func-entry-exit=0 -g1)
for file in $here/broken_test.cu "$@"; do
  object=$out/$(basename "$file").o
  [ -e "$out/source/$file" ] || cp "$build/$file" "$out/source/$file"  # the build made it
  [ "$(jobs -rp | wc -l)" -lt 2 ] || wait -n || true
  ${EMULATE_CACHE-ccache} g++ "${flags[@]}" -include $here/emulate.cuh -x c++ -c "$out/source/$file" -o "$object" &
  compiling+=($!)
  objects+=("$object"); left=$(grep -v "/${file#kernels/}.o" <<< "$left")
done
for job in "${compiling[@]}"; do wait "$job"; done
cd "$build"
# Emulated objects come first: of what several define, theirs is taken.
g++ -no-pie -Wl,--no-relax "${objects[@]}" $left $(find kernels/CMakeFiles/kernels_ops_test.dir -name '*.o') -Wl,-Bstatic -lgtest_main -lgtest -lrapidcheck \
  -Wl,-Bdynamic kernels/libcrosstalk_names.a -lfmt -lgomp -lpthread -ldl -o "$out/kernels_ops_test"

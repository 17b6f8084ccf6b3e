// Who writes one sequence: a thread alone, or the lanes of a warp (tasks/team.cuh). A generator that is written for a
// team draws the same integers with either, since every number has its own place in the stream.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "kernels/base/host_device.h"
#include "kernels/base/random.h"

namespace crosstalk {

/// One thread.
struct Solo {
  CT_HD int lane() const { return 0; }
  CT_HD int lanes() const { return 1; }
  CT_HD void sync() const {}
  /// How many lanes before this one say yes; `all` is how many do.
  CT_HD int rank(bool yes, int& all) const {
    all = yes ? 1 : 0;
    return 0;
  }
  /// Whether no earlier lane holds this number.
  CT_HD bool first_of(std::int32_t) const { return true; }
  CT_HD void set_bits(std::uint32_t* word, std::uint32_t bits) const { *word |= bits; }
};

/// Word `i` of the part of a stream that begins at block `part`.
CT_HD inline std::uint32_t word_of(const RandomStream& stream, std::uint32_t part, std::uint32_t i) {
  const auto four = stream.block(part + i / 4);
  return i % 4 == 0 ? four.v[0] : i % 4 == 1 ? four.v[1] : i % 4 == 2 ? four.v[2] : four.v[3];
}

/// Numbers 0 .. size-1 as bits.
CT_HD inline std::int32_t bitmap_words(std::int32_t size) { return (size + 31) / 32; }

/// out = the first `count` different numbers below `size` of the words of `part`, in the order in which they come:
/// an arrangement without replacement that needs no pool. `seen` holds bitmap_words(size).
template <class Team>
CT_HD void draw_distinct(const Team& team, const RandomStream& stream, std::uint32_t part, std::int32_t size,
                         std::int32_t count, std::int32_t* out, std::int32_t* seen) {
  auto* bits = reinterpret_cast<std::uint32_t*>(seen);
  for (std::int32_t i = team.lane(); i < bitmap_words(size); i += team.lanes()) bits[i] = 0;
  team.sync();
  std::int32_t found = 0;
  for (std::uint32_t i = 0; found < count; i += static_cast<std::uint32_t>(team.lanes())) {
    const auto x = static_cast<std::int32_t>(
        RandomStream::scaled(word_of(stream, part, i + static_cast<std::uint32_t>(team.lane())),
                             static_cast<std::uint32_t>(size)));
    const std::uint32_t bit = 1u << (x % 32);
    const bool fresh = team.first_of(x) && (bits[x / 32] & bit) == 0;
    team.sync();
    int all = 0;
    const std::int32_t place = found + team.rank(fresh, all);
    if (fresh) {
      if (place < count) out[place] = x;
      team.set_bits(bits + x / 32, bit);
    }
    team.sync();
    found += all;
  }
}

/// Sorts in rising order by a bitonic network; `size` is a power of two.
template <class Team>
CT_HD void sort_rising(const Team& team, std::uint64_t* x, std::int32_t size) {
  for (std::int32_t run = 2; run <= size; run *= 2)
    for (std::int32_t step = run / 2; step > 0; step /= 2) {
      for (std::int32_t pair = team.lane(); pair < size / 2; pair += team.lanes()) {
        const std::int32_t i = pair / step * (2 * step) + pair % step, j = i + step;
        const bool rising = (i & run) == 0;
        const std::uint64_t a = x[i], b = x[j];
        if ((a > b) == rising) x[i] = b, x[j] = a;
      }
      team.sync();
    }
}

}  // namespace crosstalk

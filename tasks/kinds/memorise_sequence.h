// memorise: a fixed map of keys to values, learned in the weights (MAD, Poli et al. 2024, arXiv 2403.17844; mad-lab's
// memorization).
//
//   k1 ! k2 ! ..  ; keys are uniform, and at each mark ! the key's value is due, which no sequence ever shows.
//
// The map is one permutation for all data seeds and splits.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "tasks/kinds/file_sequence.h"

namespace crosstalk {

struct MemoriseSpec {
  std::int32_t keys = 0;       ///< ids 0 .. keys - 1
  std::int32_t values = 0;     ///< ids keys .. keys + values - 1; the mark is the next one
  std::uint64_t map = 0;       ///< names the map
  std::uint64_t examples = 0;  ///< training has this many sequences; 0 = no end
  std::int32_t length = 0;     ///< T

  CT_HD std::int32_t mark() const { return keys + values; }
};

CT_HD inline std::int32_t memorise_scratch_size(const MemoriseSpec&) { return 0; }

/// Different keys have different values; values >= keys.
CT_HD inline std::int32_t memorised_value(const MemoriseSpec& spec, std::int32_t key) {
  const RandomStream map(spec.map, RandomDomain::task_train, 0xffffffffu, 0xffffffffu);
  return spec.keys + static_cast<std::int32_t>(shuffled_place(map, static_cast<std::uint32_t>(key),
                                                              static_cast<std::uint32_t>(spec.values)));
}

CT_HD inline void memorise_sequence(const MemoriseSpec& spec, std::uint64_t data_seed, Split split,
                                    std::uint64_t n, const SequenceView& out, std::int32_t*) {
  RandomStream random = stream_of(spec, data_seed, split, n);
  const std::int32_t pairs = out.shape.T / 2, Q = out.shape.Q;
  for (std::int32_t i = 0, q = 0; i < pairs; ++i) {
    const std::int32_t key = draw_below(random, spec.keys);
    put_id(out, 2 * i, Role::pad, key);
    put_id(out, 2 * i + 1, Role::ask, spec.mark());
    if (asked(i, pairs, q, Q)) put_due(out, q++, 2 * i + 1, memorised_value(spec, key));
  }
}

}  // namespace crosstalk

// k_hop: induction k times over (Sanford, Hsu, Telgarsky 2024, arXiv 2402.09268, section 4).
//
//   [k] x_1 .. x_N;  find(i) = max {j <= i : x_(j-1) = x_i},  hop_k(i) = x_(find^k(i)), or "none" where find leads nowhere
//
// hop_0 is the letter itself, hop_1 what induction heads say. Letters are uniform, k is uniform in least .. most.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "tasks/put_labels.h"

namespace crosstalk {

struct KHopSpec {
  std::int32_t letters = 0;          ///< ids behind those of k
  std::int32_t least = 0, most = 0;  ///< k; its id is k
  std::int32_t length = 0;           ///< N
  bool query_every = true;           ///< an answer at every letter, else at the last one only
  std::uint64_t examples = 0;        ///< training has this many sequences; 0 = no end

  CT_HD std::int32_t first_letter() const { return most + 1; }
  CT_HD std::int32_t none() const {
    return most + 1 + letters;
  }  ///< an answer that is no token of a sequence
  CT_HD std::int32_t vocabulary() const { return most + letters + 2; }
};

/// [labels | find | last place of each letter]
CT_HD inline std::int32_t k_hop_scratch_size(const KHopSpec& spec) {
  return 2 * (spec.length + 1) + spec.letters;
}

CT_HD inline void k_hop_sequence(const KHopSpec& spec, std::uint64_t data_seed, Split split, std::uint64_t n,
                                 const SequenceView& out, std::int32_t* labels) {
  RandomStream random = stream_of(spec, data_seed, split, n);
  const std::int32_t N = spec.length, hops = spec.least + draw_below(random, spec.most - spec.least + 1);
  std::int32_t *find = labels + N + 1, *last = find + N + 1;
  for (std::int32_t a = 0; a < spec.letters; ++a) last[a] = 0;  // places are 1 .. N; 0: nowhere
  out.tokens[0] = hops;
  labels[0] = -1;
  for (std::int32_t i = 1; i <= N; ++i) {
    const std::int32_t letter = draw_below(random, spec.letters);
    out.tokens[i] = spec.first_letter() + letter;
    find[i] = last[letter] == 0 ? 0 : last[letter] + 1;
    last[letter] = i;
    std::int32_t at = i;
    for (std::int32_t k = 0; k < hops && at > 0; ++k) at = find[at];
    labels[i] = !spec.query_every && i < N ? -1 : at > 0 ? out.tokens[at] : spec.none();
  }
  put_labels(out, labels, N + 1);
  for (std::int32_t q = 0; out.meta && q < out.shape.Q; ++q) {
    if (out.target[q] < 0) continue;
    std::int32_t* meta = out.meta + static_cast<std::int64_t>(q) * meta_count;
    std::int32_t at = out.query_position[q] - 1;
    for (std::int32_t k = 0; k < hops && at > 0; ++k) at = find[at];
    meta[meta_gap] = at > 0 ? out.query_position[q] - 1 - at : 0;
    meta[meta_touches] = hops < N ? hops : N;
  }
}

}  // namespace crosstalk

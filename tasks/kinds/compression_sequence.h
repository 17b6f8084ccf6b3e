// compression: tokens and a mark, all of which must be told from what is held at the mark (MAD, Poli et al. 2024, arXiv
// 2403.17844; mad-lab's generate_compression_instance).
//
//   x_1 .. x_(T-1) !     x_t is due at place t, for a model whose answers are made of the last token (model.decoder = "last")
//
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "tasks/sequence_common.h"

namespace crosstalk {

struct CompressionSpec {
  std::int32_t vocabulary = 0;  ///< data are 0 .. V - 2, the mark is V - 1
  std::uint64_t examples = 0;   ///< training has this many sequences; 0 = no end

  CT_HD std::int32_t mark() const { return vocabulary - 1; }
};

CT_HD inline std::int32_t compression_scratch_size(const CompressionSpec&) { return 0; }

CT_HD inline void compression_sequence(const CompressionSpec& spec, std::uint64_t data_seed, Split split,
                                       std::uint64_t n, const SequenceView& out, std::int32_t*) {
  if (is_train(split) && spec.examples > 0) n %= spec.examples;
  RandomStream random = sequence_stream(data_seed, split, n);
  const std::int32_t T = out.shape.T, N = T - 1, Q = out.shape.Q;
  for (std::int32_t t = 0, q = 0; t < T; ++t) {
    out.tokens[t] = t < N ? draw_below(random, spec.mark()) : spec.mark();
    if (out.role) out.role[t] = static_cast<std::int32_t>(t < N ? Role::write : Role::pad);
    // Where fewer are wanted they spread evenly, and the last one stays.
    if (t == N || t + 1 != (static_cast<std::int64_t>(q) + 1) * N / Q) continue;
    out.query[q] = out.target[q] = out.tokens[t];
    out.query_position[q] = t + 1;
    if (out.meta)
      for (std::int32_t m = 0; m < meta_count; ++m)
        out.meta[static_cast<std::int64_t>(q) * meta_count + m] = m == meta_gap ? N - t : 0;
    ++q;
  }
}

}  // namespace crosstalk

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
  std::int32_t length = 0;      ///< T
  std::uint64_t examples = 0;   ///< training has this many sequences; 0 = no end

  CT_HD std::int32_t mark() const { return vocabulary - 1; }
};

CT_HD inline std::int32_t compression_scratch_size(const CompressionSpec&) { return 0; }

CT_HD inline void compression_sequence(const CompressionSpec& spec, std::uint64_t data_seed, Split split,
                                       std::uint64_t n, const SequenceView& out, std::int32_t*) {
  RandomStream random = stream_of(spec, data_seed, split, n);
  const std::int32_t T = out.shape.T, N = T - 1, Q = out.shape.Q;
  for (std::int32_t t = 0, q = 0; t < T; ++t) {
    put_id(out, t, t < N ? Role::write : Role::pad, t < N ? draw_below(random, spec.mark()) : spec.mark());
    if (t == N || !asked(t, N, q, Q)) continue;
    if (std::int32_t* meta = put_due(out, q++, t, out.tokens[t])) meta[meta_gap] = N - t;
  }
}

}  // namespace crosstalk

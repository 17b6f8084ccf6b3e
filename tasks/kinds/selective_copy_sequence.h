// selective_copy: data tokens among blanks, to be said in order at the end (Gu and Dao 2023, arXiv 2312.00752; MAD, Poli et
// al. 2024, arXiv 2403.17844).
//
// T = length: L = T - n - 1 tokens with n data tokens among blanks, a copy token, n blanks at which the data tokens are due.
// places = before:  each of the L - n blanks stands before a data token that is drawn uniformly; none comes after the last.
// places = uniform: the n places are a uniform choice out of L.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "tasks/sequence_common.h"

namespace crosstalk {

struct SelectiveCopySpec {
  std::int32_t vocabulary = 0;  ///< V: data 0 .. V - 3, blank V - 2, copy V - 1
  std::int32_t length = 0;      ///< T
  std::int32_t data = 0;        ///< n
  bool uniform = false;
  std::uint64_t examples = 0;  ///< training has this many sequences; 0 = no end

  CT_HD std::int32_t blank() const { return vocabulary - 2; }
  CT_HD std::int32_t copy() const { return vocabulary - 1; }
};

/// [blanks before each data token | data tokens]
CT_HD inline std::int32_t selective_copy_scratch_size(const SelectiveCopySpec& spec) { return 2 * spec.data; }

CT_HD inline void selective_copy_sequence(const SelectiveCopySpec& spec, std::uint64_t data_seed, Split split,
                                          std::uint64_t n, const SequenceView& out, std::int32_t* scratch) {
  RandomStream random = stream_of(spec, data_seed, split, n);
  const std::int32_t N = spec.data, L = spec.length - N - 1, Q = out.shape.Q;
  std::int32_t *blanks = scratch, *data = scratch + N;
  for (std::int32_t i = 0; i < N; ++i) {
    data[i] = draw_below(random, spec.blank());
    blanks[i] = 0;
  }
  if (!spec.uniform)
    for (std::int32_t i = N; i < L; ++i) ++blanks[draw_below(random, N)];
  for (std::int32_t t = 0, i = 0, left = N; t < L; ++t) {
    bool place = false;
    if (spec.uniform) {
      place = draw_below(random, L - t) < left;
    } else {
      place = i < N && blanks[i]-- == 0;
    }
    put_id(out, t, place ? Role::write : Role::pad, place ? data[i++] : spec.blank());
    left -= place;
  }
  for (std::int32_t t = L, q = 0; t < spec.length; ++t) {
    const std::int32_t i = t - L - 1;  // the data token that is due
    put_id(out, t, i < 0 ? Role::pad : Role::ask, i < 0 ? spec.copy() : spec.blank());
    if (i >= 0 && asked(i, N, q, Q)) put_due(out, q++, t, data[i]);
  }
}

}  // namespace crosstalk

// induction: one bigram (trigger, answer) among random tokens; at the end the trigger comes again (Olsson et al. 2022, arXiv
// 2209.11895; as a task in Gu and Dao 2023, arXiv 2312.00752, table 2).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "tasks/sequence_common.h"

namespace crosstalk {

struct InductionSpec {
  std::int32_t vocabulary = 0;  ///< V: the trigger is V - 1, all others are drawn uniformly
  std::int32_t length = 0;      ///< T
};

CT_HD inline std::int32_t induction_scratch_size(const InductionSpec&) { return 0; }

CT_HD inline void induction_sequence(const InductionSpec& spec, std::uint64_t data_seed, Split split,
                                     std::uint64_t n, const SequenceView& out, std::int32_t*) {
  RandomStream random = sequence_stream(data_seed, split, n);
  const std::int32_t T = out.shape.T, trigger = spec.vocabulary - 1, at = draw_below(random, T - 2);
  std::int32_t answer = 0;
  for (std::int32_t t = 0; t < T; ++t) {
    const std::int32_t drawn = draw_below(random, trigger);
    const bool first = t == at, last = t + 1 == T;
    const Role role = last ? Role::ask : first || t == at + 1 ? Role::write : Role::pad;
    put_id(out, t, role, first || last ? trigger : drawn);
    if (t == at + 1) answer = drawn;
  }
  if (std::int32_t* meta = put_due(out, 0, T - 1, answer)) {
    meta[meta_gap] = meta[meta_age] = T - 2 - at;
    meta[meta_writes] = 1;
  }
}

}  // namespace crosstalk

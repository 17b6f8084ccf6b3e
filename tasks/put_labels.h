// Labels beside tokens as query slots, for generators that say at each token what is due there.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "tasks/sequence_common.h"

namespace crosstalk {

/// An answer at each of the first `T` tokens whose label is not below 0, and none elsewhere. Where the slots are fewer they
/// spread evenly, and the last one stays. Tokens are written before; roles that are not set otherwise are pad.
CT_HD inline void put_labels(const SequenceView& out, const std::int32_t* labels, std::int32_t T) {
  std::int64_t all = 0, before = 0;
  for (std::int32_t t = 0; t < T; ++t) all += labels[t] >= 0;
  const std::int64_t Q = all < out.shape.Q ? all : out.shape.Q;
  for (std::int32_t t = 0; t < T; ++t) {
    if (out.role) out.role[t] = static_cast<std::int32_t>(labels[t] >= 0 ? Role::ask : Role::pad);
    if (labels[t] < 0) continue;
    const std::int64_t q = (++before * Q + all - 1) / all;
    if (q * all / Q != before) continue;
    put_due(out, static_cast<std::int32_t>(q - 1), t, labels[t]);
  }
  put_unused_queries(out, static_cast<std::int32_t>(Q));
}

}  // namespace crosstalk

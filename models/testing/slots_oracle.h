// Oracle of attention over slots, with so much kept of each slot at each token as the memory says.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>

#include "models/testing/sequence.h"

namespace crosstalk::checks {

// Slot i holds a key A[i] and a value C[i]: both alpha_i times what they were, and (1 - alpha_i) of the token's.
template <class LogAlpha>
Matrix slot_attention(const Sequence& s, std::size_t slots, const LogAlpha& log_alpha) {
  Matrix keys(slots, Vector(static_cast<std::size_t>(s.K), 0)),
      values(slots, Vector(static_cast<std::size_t>(s.V), 0)), o;
  for (std::size_t i = 0; i < slots; ++i) {
    for (std::size_t c = 0; s.has("a0") && c < keys[i].size(); ++c)
      keys[i][c] = s.input("a0")[0][i * keys[i].size() + c];
    for (std::size_t c = 0; s.has("c0") && c < values[i].size(); ++c)
      values[i][c] = s.input("c0")[0][c * slots + i];
  }
  for (int t = 0; t < s.T; ++t) {
    const Vector kept = log_alpha(t);
    Vector logits;
    for (std::size_t i = 0; i < slots; ++i) {
      const double alpha = std::exp(kept[i]);
      keys[i] = plus(scaled(alpha, keys[i]), 1 - alpha, s.key(t));
      values[i] = plus(scaled(alpha, values[i]), 1 - alpha, s.value(t));
      logits.push_back(dot(keys[i], s.query(t)));
    }
    o.push_back(softmax_average(logits, values, 0, s.V));
  }
  return o;
}

}  // namespace crosstalk::checks

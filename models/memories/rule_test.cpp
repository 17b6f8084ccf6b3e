// A memory whose law is text: the oracle of its default, the delta rule.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::rule_test {
namespace {

// S_t = S_{t-1} + sigmoid(beta_t) (v_t - S_{t-1} k_t) k_t^T
Matrix rule(const Sequence& s) {
  Matrix state = start(s), o;
  for (int t = 0; t < s.T; ++t) {
    const double beta = 1 / (1 + std::exp(-s.number("beta", t)));
    state = plus_outer(state, beta, minus(s.value(t), times(state, s.key(t))), s.key(t));
    o.push_back(times(state, s.query(t)));
  }
  return o;
}
CROSSTALK_MEMORY_ORACLE(rule, rule);

}  // namespace
}  // namespace crosstalk::checks::rule_test

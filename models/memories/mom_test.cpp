// Mixture of memories (Du et al. 2025, arXiv 2502.13685): its oracle and its laws.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "models/testing/memory_test.h"

namespace crosstalk::checks::mom_test {
namespace {

std::vector<std::size_t> picked(const Vector& router, int selected) {
  std::vector<std::size_t> order(router.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return router[a] > router[b]; });
  order.resize(static_cast<std::size_t>(selected));
  return order;
}

// A token visits its memories one after the other, as if there were no others.
Matrix mom(const Sequence& s) {
  const std::size_t E = s.row("router", 0).size(), V = static_cast<std::size_t>(s.V),
                    K = static_cast<std::size_t>(s.K);
  std::vector<Matrix> states(E, zeros(s.V, s.K));
  for (std::size_t i = 0; s.has("m0") && i < E * V * K; ++i)
    states[i / V / K][i / K % V][i % K] = s.input("m0")[0][i];
  Matrix o;
  for (int t = 0; t < s.T; ++t) {
    Matrix reads;
    Vector logits;
    for (const std::size_t e : picked(s.row("router", t), s.integer("selected", 2))) {
      const Matrix faded = times(std::exp(s.number("log_decay", t)), states[e]);
      states[e] = plus_outer(faded, s.number("beta", t), minus(s.value(t), times(faded, s.key(t))), s.key(t));
      reads.push_back(times(states[e], s.query(t)));
      logits.push_back(s.row("router", t)[e]);
    }
    o.push_back(softmax_average(logits, reads, 0, s.V));
  }
  return o;
}
CROSSTALK_MEMORY_ORACLE(mom, mom);
CROSSTALK_GATE_LAW(mom, log_decay, mamba_law(x));
CROSSTALK_GATE_LAW(mom, beta, x.option("beta_max") * sigmoid(x("beta")));
CROSSTALK_HALF_LIFE(mom, 12.32);
CROSSTALK_START(mom, rate_from, "0", 11.18, 0);

Sequence ordinary(const Options& options, std::uint64_t seed) {
  Sequence s = random_sequence(options, 6, 4, 3, seed);
  s.k = unit_rows(s.k);
  s.in["log_decay"] = uniform_rows(6, 1, -1, 0, seed + 1), s.in["beta"] = uniform_rows(6, 1, 0, 1, seed + 2);
  return s;
}

TEST(MomOracle, OneMemoryIsGatedDelta) {
  const Options one = option("memories", 1, option("selected", 1));
  Sequence s = ordinary(one, 1);
  s.in["router"] = normal_rows(6, 1, 5);
  expect_close(read("mom", s), read("gated_delta", with_options(s, no_options())));
}

// The content of one memory neither fades nor changes while tokens go elsewhere.
TEST(MomOracle, TokensThatGoElsewhereLeaveNoTrace) {
  const Options two = option("memories", 2, option("selected", 1));
  Sequence s = ordinary(two, 2);
  s.in["beta"] = constant_rows(6, 1, 1);
  s.in["router"] = {{1, 0}, {0, 1}, {0, 1}, {0, 1}, {0, 1}, {1, 0}};
  s.in["log_decay"][5] = {0}, s.in["beta"][5] = {0}, s.q[5] = s.k[0];
  expect_close(read("mom", s)[5], s.v[0]);
}

}  // namespace
}  // namespace crosstalk::checks::mom_test

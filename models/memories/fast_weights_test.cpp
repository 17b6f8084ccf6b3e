// Fast weights (Ba et al. 2016, arXiv 1610.06258): their oracle and their laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/gate_laws.h"
#include "models/testing/random_sequence.h"

namespace crosstalk::checks::fast_weights_test {
namespace {

Vector settled(const Vector& x) {
  Vector h = layer_norm(x);
  for (double& e : h) e = std::max(e, 0.0);
  return h;
}

// A_t = lambda A_{t-1} + eta k k^T, S_t = lambda S_{t-1} + eta v k^T
// h = relu(LN(q)), then s times h = relu(LN(q + A h)), o = S h
Matrix fast_weights(const Sequence& s) {
  const double lambda = s.real("decay", 0.95), eta = s.real("rate", 0.5);
  const int steps = s.integer("inner_steps", 1);
  Matrix state = start(s), o, a = zeros(s.K, s.K);
  if (s.has("a0")) {
    const Vector& given = s.input("a0").front();
    for (std::size_t i = 0; i < given.size(); ++i) a[i / a.size()][i % a.size()] = given[i];
  }
  for (int t = 0; t < s.T; ++t) {
    a = plus_outer(times(lambda, a), eta, s.key(t), s.key(t));
    state = plus_outer(times(lambda, state), eta, s.value(t), s.key(t));
    Vector h = steps > 0 ? settled(s.query(t)) : s.query(t);
    for (int step = 0; step < steps; ++step) h = settled(plus(s.query(t), 1, times(a, h)));
    o.push_back(times(state, h));
  }
  return o;
}
CROSSTALK_MEMORY_ORACLE(fast_weights, fast_weights);
CROSSTALK_HALF_LIFE(fast_weights, 13.51);

TEST(FastWeightsOracle, WithoutInnerStepsAreRetention) {
  const Options plain = option("inner_steps", std::int64_t{0}, option("rate", 1.0));
  Sequence s = random_sequence(plain, 6, 4, 3, 1);
  s.in["log_decay"] = {{std::log(0.95)}};
  expect_close(read("fast_weights", s), read("retnet", s));
}

// The inner loop completes: a query that shares one channel with a stored key comes to lie along it.
TEST(FastWeightsOracle, TheInnerLoopMovesAQueryTowardsAStoredKey) {
  const Options one = option("inner_steps", std::int64_t{1}), many = option("inner_steps", std::int64_t{9});
  Sequence s = random_sequence(one, 2, 6, 1, 2);
  s.k = {{2, 2, 2, 0, 0, 0}, {0, 0, 0, 2, 2, 2}}, s.v = {{1}, {-1}};
  s.q = {{0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 1}};
  const double once = read("fast_weights", s)[1][0],
               settled = read("fast_weights", with_options(s, many))[1][0];
  EXPECT_LT(once, 0);
  EXPECT_LE(settled, once + 1e-9);
}

}  // namespace
}  // namespace crosstalk::checks::fast_weights_test

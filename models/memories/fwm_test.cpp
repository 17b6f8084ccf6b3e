// Fast weight memory (Schlag, Munkhdalai, Schmidhuber 2021, arXiv 2011.07831): its oracle and its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/gate_laws.h"
#include "models/testing/random_sequence.h"

namespace crosstalk::checks::fwm_test {
namespace {

// S_1 = beta_1 v_1 k_1^T, not rescaled; then
// S' = S_{t-1} + beta_t (v_t - S_{t-1} k_t) k_t^T, S_t = S' / (relu(|S'|_F - 1) + 1)
Matrix fwm(const Sequence& s) {
  Matrix state = start(s), o;
  Vector z(static_cast<std::size_t>(s.K), 0);
  for (int t = 0; t < s.T; ++t) {
    if (t == 0) {
      state = plus_outer(zeros(s.V, s.K), s.number("beta", 0), s.value(0), s.key(0));
    } else {
      state = plus_outer(state, s.number("beta", t), minus(s.value(t), times(state, s.key(t))), s.key(t));
      double square = 0;
      for (const Vector& row : state) square += dot(row, row);
      s.near(std::sqrt(square) - 1);
      state = times(1 / (std::max(0.0, std::sqrt(square) - 1) + 1), state);
    }
    z = plus(z, 1, s.key(t));
    o.push_back(normalised_read(s, times(state, s.query(t)), dot(z, s.query(t)), t));
  }
  s.keeps(state);
  return o;
}
CROSSTALK_MEMORY_ORACLE(fwm, fwm);
CROSSTALK_GATE_LAW(fwm, beta, x.option("beta_max") * sigmoid(x("gate")));

TEST(FwmOracle, ASmallStateFollowsTheDeltaRule) {
  Sequence s = random_sequence(no_options(), 5, 4, 3, 1);
  s.k = unit_rows(s.k);
  for (Vector& v : s.v) v = scaled(0.01, v);
  s.in["beta"] = uniform_rows(5, 1, 0, 1, 2);
  expect_close(read("fwm", s), read("delta", s));
}

TEST(FwmOracle, TheStateIsCutToLengthOneAfterTheFirstToken) {
  Sequence s = random_sequence(no_options(), 2, 4, 3, 3);
  s.k = {unit(4, 0), unit(4, 1)}, s.q = {unit(4, 0), unit(4, 0)}, s.v = {Vector{3, 0, 0}, Vector{0, 4, 0}};
  s.in["beta"] = {{1}, {1}};
  expect_close(read("fwm", s), Matrix{{3, 0, 0}, {0.6, 0, 0}});
}

TEST(FwmOracle, LayerNormOfTheReadHasMeanZeroAndVarianceOne) {
  const Options options = option("read_norm", std::string("layernorm"));
  Sequence s = random_sequence(options, 3, 4, 6, 4);
  s.in["beta"] = constant_rows(3, 1, 1);
  for (Vector& q : s.q) q = scaled(100, q);  // far above LayerNorm's eps
  for (const Vector& o : read("fwm", s)) {
    EXPECT_NEAR(dot(o, Vector(6, 1)), 0, 1e-9);
    EXPECT_NEAR(dot(o, o), 6, 1e-3);
  }
}

}  // namespace
}  // namespace crosstalk::checks::fwm_test

// Random feature attention with a gate (Peng et al. 2021, arXiv 2103.02143): its oracle and its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/gate_laws.h"
#include "models/testing/random_sequence.h"

namespace crosstalk::checks::peng_gate_test {
namespace {

// S_t = (1-beta_t) S_{t-1} + beta_t v_t k_t^T, z_t = (1-beta_t) z_{t-1} + beta_t k_t,
// o_t = S_t q_t [/ (z_t.q_t + eps)]
Matrix peng_gate(const Sequence& s) {
  Matrix state = start(s), o;
  Vector z(static_cast<std::size_t>(s.K), 0);
  for (int t = 0; t < s.T; ++t) {
    const double beta = s.number("beta", t);
    state = plus_outer(times(1 - beta, state), beta, s.value(t), s.key(t));
    z = plus(scaled(1 - beta, z), beta, s.key(t));
    o.push_back(normalised_read(s, times(state, s.query(t)), dot(z, s.query(t)), t));
  }
  s.keeps(state);
  if (divides_reads(s)) s.keeps({z});
  return o;
}
CROSSTALK_MEMORY_ORACLE(peng_gate, peng_gate);
CROSSTALK_GATE_LAW(peng_gate, beta, sigmoid(x("gate")));
CROSSTALK_HALF_LIFE(peng_gate, 1.052);

TEST(PengGateOracle, AWriteFadesWhatItDoesNotTouch) {
  Sequence s = random_sequence(no_options(), 2, 4, 3, 1);
  s.k = {unit(4, 0), unit(4, 1)}, s.q = {unit(4, 0), unit(4, 0)};
  s.in["beta"] = {{1}, {0.3}};
  expect_close(read("peng_gate", s), Matrix{s.v[0], scaled(0.7, s.v[0])});
}

TEST(PengGateOracle, FullGateKeepsTheLastPairAlone) {
  Sequence s = random_sequence(no_options(), 4, 4, 3, 2);
  s.in["beta"] = constant_rows(4, 1, 1);
  expect_close(read("peng_gate", s)[3], scaled(dot(s.k[3], s.q[3]), s.v[3]));
}

TEST(PengGateOracle, DividedReadsAreAverages) {
  const Options divided = option("denominator", true);
  Sequence s = random_sequence(divided, 5, 4, 3, 3);
  s.q = uniform_rows(5, 4, 0.1, 1, 4), s.k = uniform_rows(5, 4, 0.1, 1, 5), s.v = constant_rows(5, 3, -3);
  s.in["beta"] = uniform_rows(5, 1, 0.1, 0.9, 6);
  expect_close(read("peng_gate", s), s.v);
}

}  // namespace
}  // namespace crosstalk::checks::peng_gate_test

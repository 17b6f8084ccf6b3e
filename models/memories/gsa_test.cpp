// Gated slot attention (Zhang et al. 2024, arXiv 2409.07146): its oracle and its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/gate_laws.h"
#include "models/testing/random_sequence.h"

namespace crosstalk::checks::gsa_test {
namespace {

// Slot i holds a key A[i] and a value C[i]: both alpha_i times what they were, and (1 - alpha_i) of the token's.
Matrix gsa(const Sequence& s) {
  const std::size_t slots = s.row("log_decay", 0).size();
  Matrix keys(slots, Vector(static_cast<std::size_t>(s.K), 0)),
      values(slots, Vector(static_cast<std::size_t>(s.V), 0)), o;
  for (std::size_t i = 0; i < slots; ++i) {
    for (std::size_t c = 0; s.has("a0") && c < keys[i].size(); ++c)
      keys[i][c] = s.input("a0")[0][i * keys[i].size() + c];
    for (std::size_t c = 0; s.has("c0") && c < values[i].size(); ++c)
      values[i][c] = s.input("c0")[0][c * slots + i];
  }
  for (int t = 0; t < s.T; ++t) {
    Vector logits;
    for (std::size_t i = 0; i < slots; ++i) {
      const double alpha = std::exp(s.row("log_decay", t)[i]);
      keys[i] = plus(scaled(alpha, keys[i]), 1 - alpha, s.key(t));
      values[i] = plus(scaled(alpha, values[i]), 1 - alpha, s.value(t));
      logits.push_back(dot(keys[i], s.query(t)));
    }
    o.push_back(softmax_average(logits, values, 0, s.V));
  }
  return o;
}
CROSSTALK_MEMORY_ORACLE(gsa, gsa);
CROSSTALK_GATE_LAW(gsa, log_decay, log_sigmoid(x("decay")) / 8);
CROSSTALK_HALF_LIFE(gsa, 7.9615);

TEST(GsaOracle, SlotsThatTakeOneTokenEachAreSoftmaxAttention) {
  const Options five = option("slots", std::int64_t{5});
  Sequence s = random_sequence(five, 5, 4, 3, 1);
  s.in["log_decay"] = zeros(5, 5);
  for (std::size_t t = 0; t < 5; ++t) s.in["log_decay"][t][t] = -800;
  const Matrix o = read("gsa", s);
  Sequence plain = random_sequence(no_options(), 5, 4, 3, 1);
  expect_close(o[4], read("softmax", plain)[4]);
}

TEST(GsaOracle, AConstantValueIsReadOnceAllSlotsAreFull) {
  const Options two = option("slots", std::int64_t{2});
  Sequence s = random_sequence(two, 4, 3, 2, 2);
  s.v = constant_rows(4, 2, 1);
  s.in["log_decay"] = constant_rows(4, 2, -0.5);
  s.in["log_decay"][0] = {-800, -800};
  expect_close(read("gsa", s), s.v);
}

}  // namespace
}  // namespace crosstalk::checks::gsa_test

// sLSTM (Beck et al. 2024, arXiv 2405.04517): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::slstm_test {

Sequence open(int T, int V, std::uint64_t seed) {
  Sequence s = random_sequence(no_options(), T, 1, V, seed);
  for (const char* name : {"forget_gate", "output_gate"}) s.in[name] = constant_rows(T, V, 60);
  s.in["input_gate"] = zeros(T, V);
  for (const char* name : {"u_input", "u_forget", "u_cell", "u_output"}) s.in[name] = zeros(1, V * V);
  return s;
}

TEST(SlstmOracle, OpenGatesAverage) {
  const Sequence s = open(5, 2, 1);
  const Matrix o = read("slstm", s);
  double sum = 0;
  for (std::size_t t = 0; t < 5; ++t) {
    sum += std::tanh(s.v[t][1]);
    EXPECT_NEAR(o[t][1], sum / static_cast<double>(t + 1), 1e-12);
  }
}

TEST(SlstmOracle, AHugeInputGateReplaces) {
  Sequence s = open(5, 2, 2);
  s.in["input_gate"][3] = {900, 900};
  const Matrix o = read("slstm", s);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(o[3][i], std::tanh(s.v[3][i]), 1e-12);
    EXPECT_NEAR(o[4][i], std::tanh(s.v[3][i]), 1e-12);
  }
}

}  // namespace crosstalk::checks::slstm_test

// GRU (Cho et al. 2014, arXiv 1406.1078): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::gru_test {

TEST(GruOracle, AnOpenUpdateGateKeepsAndAShutOneReplaces) {
  Sequence s = random_sequence(no_options(), 4, 1, 3, 1);
  s.in["reset_gate"] = zeros(4, 3);
  s.in["update_gate"] = constant_rows(4, 3, 60);
  s.in["update_gate"][1] = Vector(3, -60);
  for (const char* name : {"u_reset", "u_update", "u_new"}) s.in[name] = zeros(1, 9);
  const Matrix o = read("gru", s);
  expect_close(o[0], Vector(3, 0));
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(o[1][i], std::tanh(s.v[1][i]), 1e-12);
    EXPECT_NEAR(o[3][i], std::tanh(s.v[1][i]), 1e-12);
  }
}

}  // namespace crosstalk::checks::gru_test

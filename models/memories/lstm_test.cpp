// LSTM (Hochreiter and Schmidhuber 1997): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::lstm_test {

Sequence open(int T, int V, std::uint64_t seed) {
  Sequence s = random_sequence(no_options(), T, 1, V, seed);
  for (const char* name : {"input_gate", "forget_gate", "output_gate"}) s.in[name] = constant_rows(T, V, 40);
  for (const char* name : {"u_input", "u_forget", "u_cell", "u_output"}) s.in[name] = zeros(1, V * V);
  return s;
}

TEST(LstmOracle, OpenGatesAddUp) {
  const Sequence s = open(4, 2, 1);
  const Matrix o = read("lstm", s);
  double sum = 0;
  for (std::size_t t = 0; t < 4; ++t) {
    sum += std::tanh(s.v[t][1]);
    EXPECT_NEAR(o[t][1], std::tanh(sum), 1e-12);
  }
}

// What no recurrence that is linear in its state and has positive decays can: the sign of everything so far.
TEST(LstmOracle, KeepsTheParity) {
  const double big = 40;
  Sequence s = open(6, 1, 2);
  s.in["forget_gate"] = constant_rows(6, 1, -big), s.in["u_cell"] = {{-big}};  // flips what it held
  s.v = zeros(6, 1);
  s.v[0] = {big};
  const Matrix o = read("lstm", s);
  for (std::size_t t = 0; t < 6; ++t) EXPECT_NEAR(o[t][0], (t % 2 == 0 ? 1 : -1) * std::tanh(1), 1e-9);
}

}  // namespace crosstalk::checks::lstm_test

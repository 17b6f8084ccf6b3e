// sLSTM (Beck et al. 2024, arXiv 2405.04517): its oracle and its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/gate_laws.h"
#include "models/testing/random_sequence.h"

namespace crosstalk::checks::slstm_test {
namespace {

double bent(const Sequence& s, const char* name, const Vector& h, std::size_t i) {
  double sum = 0;
  for (std::size_t j = 0; j < h.size(); ++j) sum += s.row(name, 0)[i * h.size() + j] * h[j];
  return sum;
}

// c and n as the paper stabilises them, by m_t = max(log f + m_{t-1}, i).
Matrix slstm(const Sequence& s) {
  const auto V = static_cast<std::size_t>(s.V);
  Vector h = s.has("h0") ? s.input("h0").front() : Vector(V, 0), c(V, 0), n(V, 0), m(V, -1e300);
  if (s.has("y0")) c = s.input("y0").front(), m = s.input("l0").front(), n = Vector(V, 1);
  Matrix o;
  for (int t = 0; t < s.T; ++t) {
    Vector next(V);
    for (std::size_t i = 0; i < V; ++i) {
      const double in = s.row("input_gate", t)[i] + bent(s, "u_input", h, i),
                   forget = log_sigmoid(s.row("forget_gate", t)[i] + bent(s, "u_forget", h, i)),
                   out = sigmoid(s.row("output_gate", t)[i] + bent(s, "u_output", h, i));
      const double top = std::max(forget + m[i], in), f = std::exp(forget + m[i] - top),
                   w = std::exp(in - top);
      c[i] = f * c[i] + w * std::tanh(s.value(t)[i] + bent(s, "u_cell", h, i)), n[i] = f * n[i] + w,
      m[i] = top;
      next[i] = out * c[i] / n[i];
    }
    o.push_back(h = next);
  }
  return o;
}
CROSSTALK_MEMORY_ORACLE(slstm, slstm);

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

}  // namespace
}  // namespace crosstalk::checks::slstm_test

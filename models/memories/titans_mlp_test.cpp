// Titans with a network of one hidden layer (Behrouz, Zhong, Mirrokni 2025, arXiv 2501.00663): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::titans_mlp_test {

Sequence sequence(int T, double rate) {
  Sequence s = random_sequence(no_options(), T, 3, 2, 1);
  s.in["w1_0"] = times(0.6, normal_rows(1, 12 * 3, 7)), s.in["w2_0"] = times(0.3, normal_rows(1, 2 * 12, 8));
  s.in["rate"] = constant_rows(T, 1, rate);
  s.in["momentum_gate"] = s.in["forget_gate"] = constant_rows(T, 1, 0);
  return s;
}

TEST(TitansMlpOracle, AStepBringsTheReadNearerToTheValue) {
  Sequence s = sequence(1, 0);
  s.q = s.k;
  const Matrix before = read("titans_mlp", s);
  s.in["rate"] = {{0.05}};
  const Vector was = minus(before[0], s.v[0]), is = minus(read("titans_mlp", s)[0], s.v[0]);
  EXPECT_LT(dot(is, is), dot(was, was));
}

// With momentum 1/2 and values of length 6, the read grows to a thousand and beyond in 8 steps of rate 1/2, not by steps of a tenth of it.
TEST(TitansMlpOracle, LongValuesNeedSmallSteps) {
  const auto largest = [](double rate) {
    Sequence s = sequence(8, rate);
    s.in["momentum_gate"] = constant_rows(8, 1, 0.5);
    for (auto* rows : {&s.k, &s.v})
      for (Vector& row : *rows) row = scaled((rows == &s.v ? 6 : 1) / std::sqrt(dot(row, row)), row);
    double most = 0;
    for (const Vector& read_out : read("titans_mlp", s))
      for (const double x : read_out) most = std::abs(x) <= most ? most : std::abs(x);
    return most;
  };
  EXPECT_FALSE(largest(0.5) < 1e3);
  EXPECT_LT(largest(0.05), 60);
}

TEST(TitansMlpOracle, ForgettingAllLeavesNothing) {
  Sequence s = sequence(3, 0.1);
  s.in["forget_gate"] = {{0.1}, {0.1}, {1}}, s.in["rate"] = {{0.1}, {0.1}, {0}};
  EXPECT_EQ(read("titans_mlp", s)[2], Vector(2, 0));
}

}  // namespace crosstalk::checks::titans_mlp_test

// Attention through a kernel (Zhong et al. 2025, arXiv 2505.19488, and others): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::kernel_attention_test {

Options kernel(const char* name, const char* norm = "none", std::int64_t order = 2) {
  return option("kernel", std::string(name), option("row_norm", std::string(norm), option("order", order)));
}

TEST(KernelAttentionOracle, ExpDividedByTheRowIsSoftmax) {
  const Options options = option("scale", 0.5, kernel("exp", "sum"));
  const Sequence s = random_sequence(options, 6, 4, 3, 1);
  expect_close(read("kernel_attention", s), read("softmax", s));
}

TEST(KernelAttentionOracle, LinearIsLinearAttention) {
  const Sequence s = random_sequence(no_options(), 6, 4, 3, 2);
  expect_close(read("kernel_attention", s), read("linear_attention", s));
}

TEST(KernelAttentionOracle, TaylorAndPowerBeginAlikeAndReachExp) {
  const Options taylor1 = kernel("taylor", "none", 1), power1 = kernel("power", "none", 1);
  const Options taylor = kernel("taylor", "none", 40), power = kernel("power", "none", 1 << 24),
                exp = kernel("exp");
  const Sequence s = random_sequence(exp, 6, 4, 3, 3);
  expect_close(read("kernel_attention", with_options(s, taylor1)),
               read("kernel_attention", with_options(s, power1)));
  expect_close(read("kernel_attention", with_options(s, taylor)), read("kernel_attention", s), 1e-9);
  expect_close(read("kernel_attention", with_options(s, power)), read("kernel_attention", s), 1e-4);
}

TEST(KernelAttentionOracle, EvenTaylorIsTheProductOfItsFeatures) {
  const Options options = kernel("taylor");
  const Sequence s = random_sequence(options, 1, 2, 1, 4);
  const auto features = [](const Vector& x) {
    const double r = 1 / std::sqrt(2.0);
    return Vector{1, x[0], x[1], r * x[0] * x[0], r * x[0] * x[1], r * x[1] * x[0], r * x[1] * x[1]};
  };
  expect_close(read("kernel_attention", s)[0], scaled(dot(features(s.q[0]), features(s.k[0])), s.v[0]));
}

TEST(KernelAttentionOracle, RoundOfSeparatedKeysIsAnIndicator) {
  const Options options = kernel("round");
  Sequence s = random_sequence(options, 4, 4, 3, 5);
  for (int t = 0; t < 4; ++t) s.k[static_cast<std::size_t>(t)] = plus(Vector(4, 0.1), 0.8, unit(4, t));
  for (int t = 0; t < 4; ++t) s.q[static_cast<std::size_t>(t)] = unit(4, t);
  expect_close(read("kernel_attention", s), s.v);
}

TEST(KernelAttentionOracle, CosineLooksAtDirectionsAlone) {
  const Options options = option("tau", 3.0, kernel("cosine_exp"));
  Sequence s = random_sequence(options, 5, 4, 3, 6);
  const Matrix o = read("kernel_attention", s);
  for (Vector& k : s.k) k = scaled(7, k);
  expect_close(read("kernel_attention", s), o);
  s.T = 1, s.k.resize(1), s.v.resize(1);
  s.q = s.k;
  expect_close(read("kernel_attention", s)[0], s.v[0]);
}

TEST(KernelAttentionOracle, ReluSeesNothingOnTheOtherSide) {
  const Options options = kernel("relu2");
  Sequence s = random_sequence(options, 1, 4, 3, 7);
  s.q[0] = s.k[0];
  const double square = dot(s.k[0], s.k[0]);
  expect_close(read("kernel_attention", s)[0], scaled(square * square, s.v[0]));
  s.q[0] = scaled(-1, s.k[0]);
  expect_close(read("kernel_attention", s)[0], Vector(3, 0));
}

}  // namespace crosstalk::checks::kernel_attention_test

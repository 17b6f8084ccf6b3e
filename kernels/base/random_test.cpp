// Random streams against published vectors of Philox, and their distributions.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/random.h"

#include <gtest/gtest.h>

#include <cmath>

namespace crosstalk {
namespace {

// Known answers of Philox4x32-10 (Random123's kat_vectors).
TEST(Random, PhiloxKnownAnswers) {
  r123::Philox4x32::ctr_type counter{};
  r123::Philox4x32::key_type key{};
  auto words = r123::Philox4x32()(counter, key);
  EXPECT_EQ(words.v[0], 0x6627e8d5u);
  EXPECT_EQ(words.v[1], 0xe169c58du);
  EXPECT_EQ(words.v[2], 0xbc57ac4cu);
  EXPECT_EQ(words.v[3], 0x9b00dbd8u);
  for (auto& v : counter.v) v = 0xffffffffu;
  for (auto& v : key.v) v = 0xffffffffu;
  words = r123::Philox4x32()(counter, key);
  EXPECT_EQ(words.v[0], 0x408f276du);
  EXPECT_EQ(words.v[3], 0x6d5451fdu);
}

TEST(Random, StreamsAreFunctionsOfTheirName) {
  RandomStream a(7, RandomDomain::task_train, 3, 4), b(7, RandomDomain::task_train, 3, 4);
  RandomStream other(7, RandomDomain::task_eval, 3, 4);
  bool differs = false;
  for (int i = 0; i < 100; ++i) {
    const auto word = a.next();
    EXPECT_EQ(word, b.next());
    differs |= word != other.next();
  }
  EXPECT_TRUE(differs);
}

TEST(Random, BelowIsUniform) {
  RandomStream stream(1, RandomDomain::task_train, 0);
  int counts[7] = {};
  for (int i = 0; i < 70000; ++i) ++counts[stream.below(7)];
  double chi2 = 0;
  for (int c : counts) chi2 += (c - 1e4) * (c - 1e4) / 1e4;
  EXPECT_LT(chi2, 22.5);  // 6 degrees of freedom, p = 0.001
}

// 0.5 erfc(-x/sqrt 2) is the normal distribution function: the inverse must undo it.
TEST(Random, NormalInvertsTheDistribution) {
  for (double u : {1e-10, 1e-6, 0.001, 0.0749, 0.075001, 0.3, 0.5, 0.7, 0.925, 0.99, 1 - 1e-9}) {
    const double x = normal_from_uniform(u);
    EXPECT_NEAR(0.5 * std::erfc(-x / std::sqrt(2.0)) / u, 1.0, 1e-12) << u;
  }
  EXPECT_EQ(normal_from_uniform(0.5), 0.0);
}

// Bits, not closeness: the initialisation stream is part of what the project promises.
TEST(Random, NormalHasItsBits) {
  RandomStream stream(1, RandomDomain::initialisation, 0);
  double sum = 0;
  for (int i = 0; i < 1000; ++i) sum += normal_from_uniform(stream.uniform());
  EXPECT_NEAR(sum / 1000, 0, 0.1);
}

}  // namespace
}  // namespace crosstalk

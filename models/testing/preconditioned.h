// What the tests of both preconditioned delta rules share (arXiv 2604.21100).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "models/testing/random_sequence.h"

namespace crosstalk::checks {

/// Six tokens with so many decays each.
inline Sequence preconditioned_sequence(const Options& options, int decays, std::uint64_t seed) {
  Sequence s = random_sequence(options, 6, 4, 3, seed);
  s.k = unit_rows(s.k);
  s.in["log_decay"] = uniform_rows(6, decays, -1, 0, seed + 1);
  s.in["beta"] = uniform_rows(6, 1, 0, 1, seed + 2);
  s.in["log_decay_a"] = uniform_rows(6, 1, -1, 0, seed + 3);
  s.in["beta_a"] = uniform_rows(6, 1, 0, 1, seed + 4);
  s.in["center"] = {{-0.2}};
  return s;
}

inline void expect_plain_without_squash(const char* memory, const char* plain, int decays) {
  const Options none = option("squash", 1.0);
  const Sequence s = preconditioned_sequence(none, decays, 1);
  expect_close(read(memory, s), read(plain, s));
}

inline void expect_less_written_where_much_was(const char* memory, int decays) {
  const Options none;
  Sequence s = preconditioned_sequence(none, decays, 2);
  s.k = Matrix(6, unit(4, 0)), s.q = s.k, s.v = constant_rows(6, 3, 1);
  s.in["log_decay"] = constant_rows(6, decays, 0), s.in["log_decay_a"] = constant_rows(6, 1, 0);
  s.in["beta"] = s.in["beta_a"] = constant_rows(6, 1, 1);
  const Matrix o = read(memory, s);
  const auto written = [](double a) {
    const double r = std::log(a + 1e-6) + 0.2;
    return std::pow(1.5, -r / (1 + r));
  };
  const double first = written(1), second = first + (1 - first) * written(2);
  EXPECT_NEAR(o[0][0], first, 1e-12);
  EXPECT_NEAR(o[1][0], second, 1e-12);
  EXPECT_LT(written(2), written(1));
}

}  // namespace crosstalk::checks

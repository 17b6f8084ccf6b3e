// Mamba (Gu and Dao 2023, arXiv 2312.00752): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::mamba1_test {

// One channel whose long steps turn it around (A near -1), and whose short ones leave it: the parity of the long ones. With
// positive eigenvalues a long step leaves nothing.
TEST(Mamba1Oracle, EigenvaluesOfEitherSignKeepAParity) {
  const std::vector<double> steps = {1, 40, 0, 40, 40, 0, 40};
  for (const char* eigenvalues : {"positive", "either"}) {
    const Options options = option("eigenvalues", std::string(eigenvalues));
    Sequence s = random_sequence(options, 7, 1, 1, 4);
    s.k = s.q = constant_rows(7, 1, 1), s.v = constant_rows(7, 1, 0), s.v[0] = {1};
    s.in["log_rate"] = constant_rows(1, 1, 0);
    for (const double step : steps) s.in["step"].push_back({step});
    const Matrix o = read("mamba1", s);
    const bool either = std::string(eigenvalues) == "either";
    const std::vector<double> turned = {1, -1, -1, 1, -1, -1, 1};
    for (std::size_t t = 0; t < 7; ++t)
      EXPECT_NEAR(o[t][0], either ? turned[t] : t == 0 ? 1 : 0, 1e-12) << eigenvalues << " " << t;
  }
}

TEST(Mamba1Oracle, AStepOfZeroNeitherWritesNorFades) {
  Sequence s = random_sequence(no_options(), 2, 4, 3, 3);
  s.in["log_rate"] = normal_rows(1, 12, 4), s.in["step"] = {{0.3, 1, 0.2}, {0, 0, 0}};
  s.q[1] = s.q[0];
  const Matrix o = read("mamba1", s);
  expect_close(o[1], o[0]);
}

}  // namespace crosstalk::checks::mamba1_test

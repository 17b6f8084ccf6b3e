// Softmax attention of normalised queries and keys (Henry et al. 2020, arXiv 2010.04245): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::qk_norm_test {

TEST(QkNormOracle, LengthsDoNotMatter) {
  Sequence s = random_sequence(no_options(), 6, 4, 3, 1);
  const Matrix o = read("qk_norm", s);
  s.k[2] = scaled(70, s.k[2]), s.q[5] = scaled(0.01, s.q[5]);
  expect_close(read("qk_norm", s), o);
}

TEST(QkNormOracle, OfRowsOfTheRightLengthItIsSoftmax) {
  Sequence s = random_sequence(no_options(), 6, 4, 3, 2);
  for (Matrix* rows : {&s.q, &s.k}) {
    *rows = unit_rows(*rows);
    for (Vector& row : *rows) row = scaled(2, row);  // sqrt(K)
  }
  expect_close(read("qk_norm", s), read("softmax", s));
}

}  // namespace crosstalk::checks::qk_norm_test

// Softmax attention of normalised queries and keys (Henry et al. 2020, arXiv 2010.04245): its oracle and its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::qk_norm_test {
namespace {

// logits = scale K sum_c a_c q_c b_c k_c / (|q| |k|), 0 where a length is 0; a, b: gains, 1 where not given.
Matrix qk_norm(const Sequence& s) {
  Matrix o;
  for (int t = 0; t < s.T; ++t) {
    Vector logits;
    for (int j = 0; j <= t; ++j) {
      const Vector &q = s.q.at(static_cast<std::size_t>(t)), &k = s.key(j);
      double product = 0;
      for (std::size_t c = 0; c < q.size(); ++c) {
        product += q[c] * k[c] * (s.has("q_gain") ? s.row("q_gain", t)[c] : 1) *
                   (s.has("k_gain") ? s.row("k_gain", j)[c] : 1);
      }
      const double lengths = std::sqrt(dot(q, q)) * std::sqrt(dot(k, k));
      logits.push_back(lengths > 0 ? s.real("scale", 1) * s.K * product / lengths : 0);
    }
    o.push_back(softmax_average(logits, s.v, 0, s.V));
  }
  return o;
}
CROSSTALK_MEMORY_ORACLE(qk_norm, qk_norm);

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

}  // namespace
}  // namespace crosstalk::checks::qk_norm_test

// PaTH attention (Yang et al. 2025, arXiv 2505.16381): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::path_test {

// x - beta w (w.x)
Vector reflected(const Sequence& s, int t, const Vector& x) {
  const Vector& w = s.row("path_key", t);
  return plus(x, -s.number("beta", t) * dot(w, x), w);
}

Sequence with_path(const Options& options, std::uint64_t seed, double beta) {
  Sequence s = random_sequence(options, 7, 4, 3, seed);
  s.in["path_key"] = unit_rows(normal_rows(7, 4, seed + 50));
  s.in["beta"] = constant_rows(7, 1, beta);
  return s;
}

// Decoding: every new token reflects all cached keys before its own is added.
TEST(PathOracle, IsSoftmaxOverKeysThatTokensReflect) {
  const Sequence s = with_path(no_options(), 3, 0.7);
  Matrix cache;
  for (int t = 0; t < s.T; ++t) {
    for (Vector& k : cache) k = reflected(s, t, k);
    cache.push_back(s.key(t));
    Vector logits;
    for (const Vector& k : cache) logits.push_back(dot(s.query(t), k));
    expect_close(read("path", s)[static_cast<std::size_t>(t)], softmax_average(logits, s.v, 0, 3));
  }
}

}  // namespace crosstalk::checks::path_test

// PaTH-FoX (Yang et al. 2025, arXiv 2505.16381): its oracle and its laws.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "models/testing/memory_test.h"

namespace crosstalk::checks::path_fox_test {
namespace {

// Every new token reflects the cached keys and lowers what they will score.
Matrix path_fox(const Sequence& s) {
  Matrix cache, o;
  Vector faded;
  for (int t = 0; t < s.T; ++t) {
    const Vector& w = s.row("path_key", t);
    for (Vector& k : cache) k = plus(k, -s.number("beta", t) * dot(w, k), w);
    for (double& bias : faded) bias += s.number("log_decay", t);
    cache.push_back(s.key(t)), faded.push_back(0);
    Vector logits = faded;
    for (std::size_t j = 0; j < cache.size(); ++j) logits[j] += dot(s.query(t), cache[j]);
    o.push_back(softmax_average(logits, s.v, 0, s.V));
  }
  return o;
}
CROSSTALK_MEMORY_ORACLE(path_fox, path_fox);
CROSSTALK_GATE_LAW(path_fox, path_key, of_unit(silu_of(x.all("path_key")), x.channel));
CROSSTALK_GATE_LAW(path_fox, beta, x.option("beta_max") * sigmoid(x("beta")));
CROSSTALK_GATE_LAW(path_fox, log_decay,
                   log_sigmoid(x("forget")) /
                       (x.text("gate_scale") == "key" ? std::sqrt(x.all("path_key").size()) : 1));
CROSSTALK_HALF_LIFE(path_fox, 1.033);
CROSSTALK_START(path_fox, gate_scale, "key", 4, 0);

Sequence random_path(std::uint64_t seed) {
  Sequence s = random_sequence(no_options(), 7, 4, 3, seed);
  s.in["path_key"] = unit_rows(normal_rows(7, 4, seed + 50));
  s.in["beta"] = uniform_rows(7, 1, 0, 2, seed + 51);
  s.in["log_decay"] = uniform_rows(7, 1, -2, 0, seed + 52);
  return s;
}

TEST(PathFoxOracle, OpenGatesArePath) {
  Sequence s = random_path(1);
  s.in["log_decay"] = constant_rows(7, 1, 0);
  expect_close(read("path_fox", s), read("path", s));
}

TEST(PathFoxOracle, WithoutBetaItIsFox) {
  Sequence s = random_path(2);
  s.in["beta"] = constant_rows(7, 1, 0);
  expect_close(read("path_fox", s), read("fox", s));
}

}  // namespace
}  // namespace crosstalk::checks::path_fox_test

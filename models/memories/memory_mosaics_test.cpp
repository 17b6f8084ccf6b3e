// Memory Mosaics (Zhang et al. 2024, arXiv 2405.06394): its oracle and its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::memory_mosaics_test {
namespace {

Vector direction(const Vector& x) {
  const double square = dot(x, x);
  return square > 0 ? scaled(1 / std::sqrt(square), x) : x;
}

// mean_t = k_t + e^g mean_{t-1}; a query is mixed with the mean before its token, and sees the tokens before it.
Matrix memory_mosaics(const Sequence& s) {
  const double leak = std::exp(s.number("log_decay")), c = s.real("scale", 1) * s.number("sharpness");
  Vector mean(static_cast<std::size_t>(s.K), 0);
  Matrix kept, o;
  for (int t = 0; t < s.T; ++t) {
    const Vector q = direction(plus(s.q.at(static_cast<std::size_t>(t)), leak, mean));
    Vector logits;
    for (const Vector& k : kept) logits.push_back(c * dot(q, k));
    o.push_back(softmax_average(logits, s.v, 0, s.V));
    mean = plus(s.key(t), leak, mean);
    kept.push_back(direction(mean));
  }
  return o;
}
CROSSTALK_MEMORY_ORACLE(memory_mosaics, memory_mosaics);
CROSSTALK_GATE_LAW(memory_mosaics, log_decay,
                   -(0.5 + 4.5 * x.head / std::max(x.heads - 1, 1)) * std::exp(x("leak")));
CROSSTALK_GATE_LAW(memory_mosaics, sharpness, std::exp(x("log_sharpness")));
CROSSTALK_HALF_LIFE(memory_mosaics, 1.386);

TEST(MemoryMosaicsOracle, WithoutALeakItIsStrictSoftmaxOfDirections) {
  const Options strict = option("strict", true), sharp = option("scale", 3.0, strict);
  Sequence s = random_sequence(no_options(), 6, 4, 3, 1);
  s.q = unit_rows(s.q), s.k = unit_rows(s.k);
  s.in["log_decay"] = {{-800}}, s.in["sharpness"] = {{3}};
  expect_close(read("memory_mosaics", s), read("softmax", with_options(s, sharp)));
}

// The next token repeats the last but two: what followed it then is what it reads, if contexts are sharp.
TEST(MemoryMosaicsOracle, PredictsWhatFollowedTheSameContext) {
  Sequence s = random_sequence(no_options(), 6, 3, 3, 2);
  for (std::size_t t = 0; t < 6; ++t) s.k[t] = s.q[t] = unit(3, static_cast<int>(t % 3));
  s.in["log_decay"] = {{-3}}, s.in["sharpness"] = {{400}};
  expect_close(read("memory_mosaics", s)[5], s.v[2], 1e-9);
  expect_close(read("memory_mosaics", s)[0], Vector(3, 0));
}

}  // namespace
}  // namespace crosstalk::checks::memory_mosaics_test

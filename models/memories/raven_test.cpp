// Raven (fla/layers/raven.py): its oracle and its laws.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "models/testing/gate_laws.h"
#include "models/testing/random_sequence.h"
#include "models/testing/slots_oracle.h"

namespace crosstalk::checks::raven_test {
namespace {

// Scores of the slots that a token goes into, divided by their sum: the others are struck out from the smallest on.
Vector shares(const Vector& router, int selected) {
  Vector scores;
  for (const double x : router) scores.push_back(sigmoid(x));
  for (int n = static_cast<int>(scores.size()); n > selected; --n) {
    std::size_t smallest = scores.size();
    for (std::size_t i = 0; i < scores.size(); ++i) {
      if (scores[i] > 0 && (smallest == scores.size() || scores[i] <= scores[smallest])) smallest = i;
    }
    scores[smallest] = 0;
  }
  double sum = 1e-9;
  for (const double x : scores) sum += x;
  return scaled(1 / sum, scores);
}

Matrix raven(const Sequence& s) {
  return slot_attention(s, s.row("router", 0).size(), [&](int t) {
    return scaled(s.number("log_decay", t), shares(s.row("router", t), s.integer("selected", 32)));
  });
}
CROSSTALK_MEMORY_ORACLE(raven, raven);
CROSSTALK_GATE_LAW(raven, log_decay, mamba_law(x));
CROSSTALK_HALF_LIFE(raven, 14.161);

// A decay of -800 replaces what a slot holds; a router that picks one slot a token fills them in turn.
TEST(RavenOracle, ARouterOfOneSlotATokenIsSoftmaxAttention) {
  const Options one = option("selected", std::int64_t{1}, option("slots", std::int64_t{5}));
  Sequence s = random_sequence(one, 5, 4, 3, 1);
  s.in["log_decay"] = constant_rows(5, 1, -800);
  s.in["router"] = zeros(5, 5);
  for (std::size_t t = 0; t < 5; ++t) s.in["router"][t][t] = 3;
  const Matrix o = read("raven", s);
  expect_close(o[4], read("softmax", random_sequence(no_options(), 5, 4, 3, 1))[4], 1e-8);
}

TEST(RavenOracle, SlotsThatAreNotPickedStayAsTheyAre) {
  const Options one = option("selected", std::int64_t{1}, option("slots", std::int64_t{2}));
  Sequence s = random_sequence(one, 4, 3, 2, 2);
  s.in["log_decay"] = constant_rows(4, 1, -800);
  s.in["router"] = {{1, 0}, {0, 1}, {0, 1}, {0, 1}};
  s.k[0] = {50, 0, 0}, s.q[3] = {5, 0, 0}, s.k[3] = {0, 0, 0};
  expect_close(read("raven", s)[3], s.v[0], 1e-8);
}

}  // namespace
}  // namespace crosstalk::checks::raven_test

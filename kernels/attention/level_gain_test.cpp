// LevelGain against levels read off the binary digits of positions.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/level_gain.h"

#include <algorithm>

#include "kernels/testing/op_fields.h"

namespace crosstalk::checks::level_gain_test {
namespace {

// Q = 0: no positions. The oracle goes through the blocks of the prefix before token i, from the nearest.
OpCase level_case(const std::string& name, int B, int T, int given, int H, int L) {
  OpCase op(name);
  const int Q = given ? given : T;
  op.input("a", {B, H, Q, T}, normal()).input("lambda", {B, Q, H, L}, normal());
  if (given) op.integers("position", {B, Q}, positions(T));
  op.output("y", {B, H, Q, T});
  call<LevelGain>(op, [](auto&) {});
  op.oracle([=](const Values& in, Values& out) {
    for (int n = 0; n < B * H * Q; ++n) {
      const int q = n % Q, h = n / Q % H, b = n / Q / H;
      const int seen = given ? std::clamp(in.integer.at("position")[b * Q + q], 0, T) : q + 1;
      Numbers row(static_cast<std::size_t>(T), 0);
      const auto give = [&](int first, int last, int level) {
        const double gain = in["lambda"][((b * Q + q) * H + h) * L + level];
        for (int j = first; j < last; ++j) row[j] = gain * in["a"][n * T + j];
      };
      if (seen > 0) give(seen - 1, seen, 0);
      int end = seen - 1;  // tokens before the query's own, cut into the powers of two of their number
      for (int level = 1; end > 0; ++level) {
        const int size = 1 << (level - 1);
        if (!(end & size)) continue;
        give(end - size, end, level);
        end -= size;
      }
      out.real["y"].insert(out.real["y"].end(), row.begin(), row.end());
    }
  });
  return op.roundings(2 * T);
}

std::vector<OpCase> cases() {
  return {level_case("LevelsOfOne", 2, 1, 0, 1, 1), level_case("LevelsEverywhere", 2, 13, 0, 2, 5),
          level_case("LevelsAtPositions", 3, 9, 4, 2, 7), level_case("LevelsOfPowers", 1, 16, 0, 1, 5),
          level_case("LevelsOfStrips", 1, 150, 40, 1, 16)};
}

INSTANTIATE_TEST_SUITE_P(LevelGain, OpCheck, ::testing::ValuesIn(cases()), case_name);

TEST(LevelGain, LevelsOfTokens) {
  EXPECT_EQ(levels_of(1), 1);
  EXPECT_EQ(levels_of(2), 2);
  EXPECT_EQ(levels_of(3), 3);
  EXPECT_EQ(levels_of(16), 5);
  EXPECT_EQ(levels_of(17), 6);
}

}  // namespace
}  // namespace crosstalk::checks::level_gain_test

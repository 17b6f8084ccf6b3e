// Memorisation of MAD: one uniform map for all seeds and splits, which no sequence shows.
// SPDX-License-Identifier: Apache-2.0
#include "tasks/kinds/memorise_sequence.h"

#include "tasks/golden.h"

namespace crosstalk::testing::memorise_test {

[[maybe_unused]] const bool pinned =
    pin("memorise", {{"standard", {}, 0x4a624ea85ae92a9bu, 0xcbc26d151b7502a9u}});

TEST(Memorise, OneMapForAllSeedsAndSplitsAndNoValueIsShown) {
  const auto task = make_task("memorise", {{"vocabulary", 16}});
  std::map<int, int> value_of;
  Counts keys(7);
  for (const Split split : {Split::train, Split::eval, Split::test}) {
    SequenceBuffer buffer(*task, split);
    for (std::uint64_t n = 0; n < 300; ++n) {
      const SequenceView s = buffer.draw(n % 5, n);
      for (int q = 0; q < 16; ++q) {
        const int key = s.tokens[2 * q];
        ASSERT_LT(key, 7);
        ASSERT_EQ(s.tokens[2 * q + 1], 15);
        ASSERT_EQ(s.query_position[q], 2 * q + 2);
        ASSERT_TRUE(s.target[q] >= 7 && s.target[q] < 15);
        ASSERT_EQ(value_of.emplace(key, s.target[q]).first->second, s.target[q]);
        ++keys[key];
      }
    }
  }
  expect_uniform({keys});
  std::set<int> values;
  for (const auto& [key, value] : value_of) values.insert(value);
  EXPECT_EQ(values.size(), 7u);
}

TEST(Memorise, MapsAreUniformArrangements) {
  Counts pairs(16);
  for (std::uint64_t map = 0; map < 4000; ++map) {
    const MemoriseSpec spec{4, 4, map, 0};
    ++pairs[4 * (memorised_value(spec, 0) - 4) + memorised_value(spec, 3) - 4];
  }
  for (const std::size_t same : {0u, 5u, 10u, 15u}) EXPECT_EQ(pairs[same], 0);
  std::erase(pairs, 0);
  ASSERT_EQ(pairs.size(), 12u);
  expect_uniform({pairs});
}

TEST(Memorise, LengthsAndRefusals) {
  const auto task = make_task("memorise", {{"examples", 256}});
  EXPECT_EQ(task->sequences(Split::train), 256);
  EXPECT_EQ(task->lengthened(2)->shape(Split::eval), (SequenceShape{64, 1, 32}));
  EXPECT_DOUBLE_EQ(task->baselines().at("chance_accuracy"), 1.0 / 128);
  EXPECT_THROW(make_task("memorise", {{"length", 31}}), OptionError);
}

}  // namespace crosstalk::testing::memorise_test

// Compression of MAD: tokens, the mark and what is due after it, baselines.
// SPDX-License-Identifier: Apache-2.0
#include "tasks/kinds/compression_sequence.h"

#include "tasks/golden.h"

namespace crosstalk::testing::compression_test {

[[maybe_unused]] const bool pinned =
    pin("compression", {{"standard", {}, 0x3c1bec3a4b1273e7u, 0xc098f3e8affb5637u}});

TEST(Compression, UniformTokensAndAMarkEachDueAtItsPlace) {
  const auto task = make_task("compression", {{"vocabulary", 9}, {"length", 7}});
  EXPECT_EQ(task->shape(Split::train), (SequenceShape{7, 1, 6}));
  EXPECT_EQ(task->vocabulary().tokens, 9);
  Counts ids(8), twice(64);
  for (const SequenceView& s : drawn(*task, Split::train, 3, 3000)) {
    ASSERT_EQ(s.tokens[6], 8);
    for (int t = 0; t < 6; ++t) {
      ASSERT_EQ(s.query_position[t], t + 1);
      ASSERT_EQ(s.target[t], s.tokens[t]);
      ASSERT_EQ(s.meta[t * meta_count + meta_gap], 6 - t);
      ++ids[s.tokens[t]];
    }
    ++twice[8 * s.tokens[2] + s.tokens[3]];
  }
  expect_uniform({ids, twice});
}

TEST(Compression, BaselinesLengthsAndSets) {
  const auto task = make_task("compression", {{"examples", 5}});
  const auto numbers = task->baselines();
  EXPECT_DOUBLE_EQ(numbers.at("chance_accuracy"), 1.0 / 15);
  EXPECT_NEAR(numbers.at("baseline_random_in_context_accuracy"), 1.0 / 31 + 30.0 / 31 / 15, 0.004);
  EXPECT_EQ(task->sequences(Split::train), 5);
  EXPECT_EQ(task->lengthened(8)->shape(Split::eval), (SequenceShape{256, 1, 255}));
}

}  // namespace crosstalk::testing::compression_test

// Induction: one trigger and what followed it, baselines, longer forms.
// SPDX-License-Identifier: Apache-2.0
#include "tasks/kinds/induction_sequence.h"

#include "tasks/golden.h"

namespace crosstalk::testing::induction_test {

[[maybe_unused]] const bool pinned =
    pin("induction", {{"standard", {}, 0xe43008631faf458fu, 0x39d6d7da4e4164a6u}});

TEST(Induction, HasOneTriggerBeforeTheEndAndAsksWhatFollowedIt) {
  const auto task = make_task("induction", {{"vocabulary", 6}, {"length", 12}});
  EXPECT_EQ(task->shape(Split::train), (SequenceShape{12, 1, 1}));
  EXPECT_EQ(task->vocabulary().tokens, 6);
  Counts place(10), answer(5), filler(5);
  for (const SequenceView& s : drawn(*task, Split::train, 5, 5000)) {
    ASSERT_EQ(std::count(s.tokens, s.tokens + 12, 5), 2);
    ASSERT_EQ(s.tokens[11], 5);
    const auto at = std::find(s.tokens, s.tokens + 12, 5) - s.tokens;
    ASSERT_LE(at, 9);
    ASSERT_EQ(s.target[0], s.tokens[at + 1]);
    ASSERT_EQ(s.query_position[0], 12);
    ASSERT_EQ(s.meta[meta_gap], 11 - (at + 1));
    ++place[at];
    ++answer[s.target[0]];
    ++filler[s.tokens[at == 0 ? 4 : at - 1]];
  }
  expect_uniform({place, answer, filler});
}

TEST(Induction, ReadsAsText) {
  const auto task = make_task("induction", {{"vocabulary", 4}, {"length", 5}});
  std::int32_t tokens[] = {1, 3, 2, 0, 3}, query[] = {3}, position[] = {5}, target[] = {2};
  const SequenceView view{{5, 1, 1}, tokens, nullptr, query, position, target, nullptr};
  EXPECT_EQ(task->to_text(view), "     1: 1 ! 2 0 !->2\n");
  EXPECT_EQ(task->reference_answer(view, 3, 5), 2);
  EXPECT_EQ(task->reference_answer(view, 3, 1), -1);
}

TEST(Induction, BaselinesAndLengths) {
  const auto task = make_task("induction");
  const auto numbers = task->baselines();
  EXPECT_DOUBLE_EQ(numbers.at("chance_accuracy"), 1.0 / 15);
  // Tokens are uniform, and the answer is one of the 254 that are no trigger.
  EXPECT_NEAR(numbers.at("baseline_random_in_context_accuracy"), 1.0 / 15 + 14.0 / 15 / 254, 0.005);
  EXPECT_EQ(task->lengthened(4)->shape(Split::eval), (SequenceShape{1024, 1, 1}));
  EXPECT_THROW(make_task("induction", {{"length", 2}}), OptionError);
}

}  // namespace crosstalk::testing::induction_test

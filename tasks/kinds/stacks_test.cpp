// Many stacks at once: the law of pushes and pops, baselines, what is refused.
// SPDX-License-Identifier: Apache-2.0
#include "tasks/kinds/stacks_sequence.h"

#include "tasks/golden.h"

namespace crosstalk::testing::stacks_test {

const Settings small = {{"stacks", 4}, {"elements", 5}, {"length", 62}, {"pop", 0.25}};  // 20 operations

[[maybe_unused]] const bool pinned =
    pin("stacks", {{"standard", {}, 0xa4a6e5b0c77e6521u, 0xc77f1d5f5e0fef1fu},
                   {"small", small, 0x98da350efec5102bu, 0x5c6b37c5b563338u}});

TEST(Stacks, OperationsFollowTheirLaw) {
  const auto task = make_task("stacks", small);
  EXPECT_EQ(task->shape(Split::train), (SequenceShape{60, 1, 10}));
  EXPECT_EQ(task->vocabulary().tokens, 11);
  Counts stacks(4), elements(5), among_two(2);
  double pops = 0, chances = 0;
  for (const SequenceView& s : drawn(*task, Split::train, 3, 3000)) {
    std::map<int, std::vector<int>> held;
    int q = 0;
    for (int i = 0; i < 20; ++i) {
      const std::int32_t* op = s.tokens + 3 * i;
      std::vector<int> full;
      for (const auto& [stack, content] : held)
        if (!content.empty()) full.push_back(stack);
      if (!full.empty() && i < 19) pops += op[0] == 1, chances += 1;
      if (i == 19) {
        ASSERT_EQ(op[0], full.empty() ? 0 : 1);
      }
      if (op[0] == 0) {
        ++stacks[op[1] - 2];
        ++elements[op[2] - 6];
        held[op[1]].push_back(op[2]);
        continue;
      }
      ASSERT_FALSE(held[op[1]].empty()) << "a pop from an empty stack";
      ASSERT_EQ(op[2], held[op[1]].back());
      held[op[1]].pop_back();
      if (full.size() == 2) ++among_two[op[1] == full[1] ? 1 : 0];
      ASSERT_EQ(s.query_position[q], 3 * i + 2);
      ASSERT_EQ(s.target[q], op[2]);
      ASSERT_EQ(s.tokens[3 * i + 1 - s.meta[q * meta_count + meta_gap]], op[2]);
      ASSERT_EQ(s.meta[q * meta_count + meta_operations], i);
      ++q;
    }
    for (; q < 10; ++q) ASSERT_EQ(s.target[q], -1);
  }
  for (const auto& counts : {stacks, elements, among_two}) expect_uniform({counts});
  EXPECT_NEAR(pops / chances, 0.25, 4 * std::sqrt(0.25 * 0.75 / chances));
}

TEST(Stacks, BaselinesLengthsAndRefusals) {
  const auto task = make_task("stacks");
  const auto numbers = task->baselines();
  EXPECT_DOUBLE_EQ(numbers.at("chance_accuracy"), 1.0 / 64);
  // The element pushed last on a stack is on top of it unless something was popped since.
  EXPECT_GT(numbers.at("baseline_latest_of_stack_accuracy"), 0.5);
  EXPECT_LT(numbers.at("baseline_latest_of_stack_accuracy"), 0.999);
  EXPECT_EQ(task->shape(Split::eval), (SequenceShape{255, 1, 42}));
  EXPECT_EQ(task->lengthened(4)->shape(Split::eval), (SequenceShape{1020, 1, 170}));
  EXPECT_THROW(make_task("stacks", {{"length", 5}}), OptionError);
}

}  // namespace crosstalk::testing::stacks_test

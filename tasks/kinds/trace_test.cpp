// Programs that assign, swap and print: replayed by name, hidden swaps, what training is asked, what is refused.
// SPDX-License-Identifier: Apache-2.0
#include "tasks/kinds/trace_sequence.h"

#include "tasks/golden.h"

namespace crosstalk::testing::trace_test {

constexpr Split splits[] = {Split::train, Split::eval, Split::test};

[[maybe_unused]] const bool pinned = pin(
    "trace", {{"standard", {}, 0x104c85c0f26ef92cu, 0xb2f08285dd818f48u},
              {"hidden",
               {{"hidden_share", 0.5}, {"reveal_every", 3}, {"assign_share", 0.0}, {"train_labels", "due"}},
               0x436826008f13b497u,
               0x2500df3549caf245u}});

[[maybe_unused]] const bool fitted = [] {
  fit()["trace"] = [](Settings& settings) {
    const auto variables = whole_of(settings, "variables", 5);
    if (const auto values = whole_of(settings, "values", 0); values > 0)
      settings["values"] = static_cast<int>(variables + values);
  };
  return true;
}();

// As a person reads a program: 10,000 of each split.
TEST(Trace, PrintsShowWhatTheProgramLeaves) {
  const auto task = make_task("trace", {{"lines", 10}, {"values", 7}, {"reveal_every", 3}});
  Counts values(7), pairs(20), variables(5);
  int sets = 0;
  for (const Split split : splits) {
    EXPECT_EQ(task->shape(split), (SequenceShape{57, 1, split == Split::train ? 56 : 4}));
    for (const SequenceView& s : drawn(*task, split, 4, 10000)) {
      std::map<int, int> held;
      std::set<int> first;
      int q = 0, lines = 0;
      for (int t = 0; t < 57; t += 3) {
        const std::int32_t *line = s.tokens + t, a = line[1] - 4;
        ASSERT_TRUE(a >= 0 && a < 5);
        if (t < 15) {
          ASSERT_TRUE(line[0] == 0 && a == t / 3 && first.insert(line[2]).second);
        } else if (line[0] == 2) {
          ASSERT_TRUE(lines % 3 == 0 || lines == 10);
          ASSERT_EQ(line[2], held[a]);
          ++variables[a];
          if (split != Split::train) {
            ASSERT_EQ(s.query_position[q], t + 2);
            ASSERT_EQ(s.target[q++], held[a]);
          }
          continue;
        } else {
          ++lines;
        }
        if (line[0] == 1) {
          const int b = line[2] - 4;
          ASSERT_NE(a, b);
          ++pairs[a * 4 + b - (b > a ? 1 : 0)];
          std::swap(held[a], held[b]);
        } else {
          held[a] = line[2];
          if (t >= 15) ++values[line[2] - 9], ++sets;
        }
      }
      ASSERT_EQ(lines, 10);
      for (int t = 0; split == Split::train && t < 56; ++t) ASSERT_EQ(s.target[t], s.tokens[t + 1]);
    }
  }
  for (const auto& counts : {values, pairs, variables}) expect_uniform({counts});
  EXPECT_NEAR(sets / 300000.0, 0.25, 0.004);
}

// The states that can be are those after any swap where one is hidden, less those that a print denies: always some, and in the end few.
TEST(Trace, HiddenSwapsShowInPrintsAlone) {
  const auto task = make_task("trace", {{"variables", 4}, {"hidden_share", 0.3}, {"assign_share", 0.0}});
  int hidden = 0, lines = 0;
  for (const Split split : splits) {
    SequenceBuffer buffer(*task, split);
    for (std::uint64_t n = 0; n < 10000; ++n) {
      const SequenceView s = buffer.draw(4, n);
      std::set<std::vector<int>> can = {{s.tokens[2], s.tokens[5], s.tokens[8], s.tokens[11]}};
      for (int t = 12; t < s.shape.T; t += 3) {
        const std::int32_t* line = s.tokens + t;
        std::set<std::vector<int>> next;
        for (const std::vector<int>& state : can)
          for (std::size_t a = 0; a < 4; ++a)
            for (std::size_t b = 0; b < 4; ++b) {
              const bool said = line[1] == static_cast<int>(4 + a) && line[2] == static_cast<int>(4 + b);
              std::vector<int> after = state;
              if (line[0] == 1 && (said || (line[1] == 3 && a < b)))
                std::swap(after[a], after[b]), next.insert(after);
              if (line[0] == 2 && line[1] == static_cast<int>(4 + a) && line[2] == state[a])
                next.insert(state);
            }
        lines += line[0] == 1, hidden += line[1] == 3;
        ASSERT_EQ(line[1] == 3, line[2] == 3);
        ASSERT_FALSE(next.empty()) << "sequence " << n << ", line " << t / 3;
        can = next;
      }
    }
  }
  EXPECT_NEAR(static_cast<double>(hidden) / lines, 0.3, 0.003);
  EXPECT_LT(task->baselines().at("baseline_hidden_ignored_accuracy"), 0.75);
}

TEST(Trace, BaselinesLengthsAndRefusals) {
  const auto task = make_task("trace", {{"train_labels", "due"}});
  EXPECT_EQ(task->shape(Split::train), (SequenceShape{207, 1, 32}));
  EXPECT_EQ(task->lengthened(4)->shape(Split::eval), (SequenceShape{783, 1, 128}));
  const auto numbers = task->baselines();
  EXPECT_DOUBLE_EQ(numbers.at("chance_accuracy"), 0.2);
  EXPECT_EQ(numbers.count("baseline_hidden_ignored_accuracy"), 0u);
  EXPECT_LT(numbers.at("baseline_unchanged_accuracy"), 0.35);
  EXPECT_GT(numbers.at("baseline_last_shown_accuracy"), numbers.at("baseline_unchanged_accuracy"));
  EXPECT_THROW(make_task("trace", {{"values", 4}}), OptionError);
  EXPECT_THROW(make_task("trace", {{"assign_share", 1.0}, {"hidden_share", 0.5}}), OptionError);
}

}  // namespace crosstalk::testing::trace_test

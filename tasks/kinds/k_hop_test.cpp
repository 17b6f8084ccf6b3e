// k-hop induction against its definition, laws of letters and hops, what is refused.
// SPDX-License-Identifier: Apache-2.0
#include "tasks/kinds/k_hop_sequence.h"

#include "tasks/golden.h"

namespace crosstalk::testing::k_hop_test {

[[maybe_unused]] const bool pinned =
    pin("k_hop", {{"standard", {}, 0xc1b8346ded6f7da7u, 0x811f4d223f0fafb2u},
                  {"end", {{"query_at", "end"}}, 0x9783dbc9fdf8fdfeu, 0x76f61f9455c454c2u}});

TEST(KHop, HopsAsInTheDefinition) {
  const auto task = make_task("k_hop", {{"hops", 3}, {"letters", 3}, {"length", 6}});
  EXPECT_EQ(task->vocabulary().tokens, 8);
  // a b a c b a (letters 4 5 4 6 5 4): find = 0 0 2 0 3 4.
  std::int32_t tokens[] = {0, 4, 5, 4, 6, 5, 4}, zero[6] = {};
  const SequenceView s{{7, 1, 6}, tokens, nullptr, zero, zero, zero, nullptr};
  const int none = 7;
  const std::vector<std::vector<int>> wanted = {{4, 5, 4, 6, 5, 4},
                                                {none, none, 5, none, 4, 6},
                                                {none, none, none, none, 5, none},
                                                {none, none, none, none, none, none}};
  for (int k = 0; k <= 3; ++k) {
    tokens[0] = k;
    for (int i = 0; i < 6; ++i)
      EXPECT_EQ(task->reference_answer(s, 0, i + 2),
                wanted[static_cast<std::size_t>(k)][static_cast<std::size_t>(i)])
          << k << " " << i;
  }
  tokens[0] = 1;
  EXPECT_EQ(task->to_text(SequenceView{{7, 1, 0}, tokens, nullptr, zero, zero, zero, nullptr}),
            "     1: [1] x0 x1 x0 x2 x1 x0\n");
}

TEST(KHop, LettersAndHopsAreUniform) {
  const auto task = make_task("k_hop", {{"least_hops", 2}, {"hops", 5}, {"length", 20}});
  EXPECT_EQ(task->shape(Split::eval), (SequenceShape{21, 1, 20}));
  Counts hops(4), letters(4);
  for (const SequenceView& s : drawn(*task, Split::eval, 3, 2000)) {
    ++hops[s.tokens[0] - 2];
    ++letters[s.tokens[7] - 6];
    for (int q = 0; q < 20; ++q) {
      ASSERT_EQ(s.meta[q * meta_count + meta_touches], s.tokens[0]);
      if (s.target[q] == 10) continue;  // none
      ASSERT_EQ(s.tokens[s.query_position[q] - 1 - s.meta[q * meta_count + meta_gap]], s.target[q]);
    }
  }
  expect_uniform({hops, letters});
}

TEST(KHop, BaselinesLengthsAndRefusals) {
  const auto one = make_task("k_hop", {{"least_hops", 1}, {"hops", 1}})->baselines();
  EXPECT_DOUBLE_EQ(one.at("chance_accuracy"), 0.2);
  EXPECT_DOUBLE_EQ(one.at("baseline_one_hop_accuracy"), 1);
  // The i-th letter was not shown before with probability (3/4)^(i-1).
  EXPECT_NEAR(one.at("baseline_none_accuracy"), 4.0 / 100, 0.005);
  const auto task = make_task("k_hop", {{"query_at", "end"}});
  EXPECT_EQ(task->shape(Split::train), (SequenceShape{101, 1, 1}));
  EXPECT_EQ(task->lengthened(2)->shape(Split::eval), (SequenceShape{201, 1, 1}));
  EXPECT_THROW(make_task("k_hop", {{"least_hops", 17}}), OptionError);
}

}  // namespace crosstalk::testing::k_hop_test

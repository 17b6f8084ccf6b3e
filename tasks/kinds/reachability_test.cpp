// Reachability: two equal trees of uniform parents, baselines, what is refused.
// SPDX-License-Identifier: Apache-2.0
#include "tasks/kinds/reachability_sequence.h"

#include "tasks/golden.h"

namespace crosstalk::testing::reachability_test {

[[maybe_unused]] const bool fitted = [] {
  fit()["reachability"] = [](Settings& settings) {
    const int nodes = 2 * static_cast<int>(whole_of(settings, "nodes", 5));
    settings["nodes"] = nodes;
    const auto more = whole_of(settings, "vocabulary", 0);
    settings["vocabulary"] = more == 0 ? 0 : nodes + static_cast<int>(more);
  };
  return true;
}();

[[maybe_unused]] const bool pinned =
    pin("reachability",
        {{"standard", {}, 0xb6d1decd304cc5abu, 0xd9b1248051d0ed92u},
         {"random", {{"names", "random"}, {"vocabulary", 50}}, 0x3edccaa3b69b02abu, 0x8778b1bdd68eaca2u}});

TEST(Reachability, TwoEqualTreesOfUniformParents) {
  for (const std::string names : {"sorted", "random"}) {
    const auto task = make_task("reachability", {{"nodes", 8}, {"vocabulary", 11}, {"names", names}});
    EXPECT_EQ(task->shape(Split::train), (SequenceShape{16, 1, 8}));
    Counts with_first(7), parent_of_third(2), ids(11);
    for (const SequenceView& s : drawn(*task, Split::train, 3, 4000)) {
      std::map<int, int> root, depth;
      std::map<int, std::vector<int>> tree;
      for (int i = 0; i < 8; ++i) {
        const int parent = s.tokens[2 * i], child = s.tokens[2 * i + 1];
        if (names == "sorted") {
          ASSERT_EQ(child, i);
        }
        ASSERT_EQ(root.count(child), 0u) << "a node comes once";
        ASSERT_TRUE(parent == child || root.count(parent) == 1) << "parents come first";
        root[child] = parent == child ? child : root.at(parent);
        depth[child] = parent == child ? 0 : depth.at(parent) + 1;
        auto& members = tree[root[child]];
        if (members.size() == 2) ++parent_of_third[parent == members[1] ? 1 : 0];
        members.push_back(child);
        ASSERT_EQ(s.target[i], root[child] == s.tokens[1] ? 1 : 0);
        ASSERT_EQ(s.meta[i * meta_count + meta_touches], depth[child]);
        if (i > 0) with_first[i - 1] += s.target[i];
      }
      ASSERT_EQ(tree.size(), 2u);
      ASSERT_EQ(tree.begin()->second.size(), 4u);
      ++ids[s.tokens[1]];
    }
    expect_uniform({with_first, parent_of_third});
    if (names == "random") expect_uniform({ids});
  }
}

TEST(Reachability, BaselinesLengthsAndRefusals) {
  const auto task = make_task("reachability");
  EXPECT_EQ(task->shape(Split::eval), (SequenceShape{64, 1, 32}));
  EXPECT_EQ(task->vocabulary().tokens, 32);
  const auto numbers = task->baselines();
  EXPECT_DOUBLE_EQ(numbers.at("chance_accuracy"), 0.5);
  // Right at the 16 nodes of the other tree, and at the first one and its children: 1 + 1/1 + .. + 1/15 of 16.
  double own = 1;
  for (int i = 1; i < 16; ++i) own += 1.0 / i;
  EXPECT_NEAR(numbers.at("baseline_one_hop_accuracy"), (16 + own) / 32, 0.01);
  EXPECT_THROW(task->lengthened(2), OptionError);
  const auto roomy = make_task("reachability", {{"vocabulary", 64}, {"names", "random"}});
  EXPECT_EQ(roomy->lengthened(2)->shape(Split::eval), (SequenceShape{128, 1, 64}));
  EXPECT_THROW(make_task("reachability", {{"nodes", 7}}), OptionError);
  EXPECT_THROW(make_task("reachability", {{"vocabulary", 31}}), OptionError);
}

}  // namespace crosstalk::testing::reachability_test

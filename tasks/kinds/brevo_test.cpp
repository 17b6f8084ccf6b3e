// Brevo: edges of a graph without circles, what is said goes by them, laws of what is drawn, what is refused.
// SPDX-License-Identifier: Apache-2.0
#include "tasks/kinds/brevo_sequence.h"

#include <algorithm>
#include <map>
#include <set>

#include "tasks/golden.h"

namespace crosstalk::testing {
namespace {

[[maybe_unused]] const bool pinned =
    pin("brevo", {{"standard", {}, 0x702cc9a51969cfcau, 0xca294be2f90a489cu},
                  {"large", {{"nodes", 125}}, 0x49ce5ac7a8268563u, 0xd1056bfc4ab9c1bfu}});

// 10,000 of each split: said is the smallest node that waits for none of those that are left, until none is.
TEST(Brevo, SaysWhatANodeDependsOnByTheEdges) {
  const auto task = make_task("brevo", {{"nodes", 11}});
  EXPECT_EQ(task->shape(Split::train), (SequenceShape{2 * 34 + 13, 1, 11}));
  EXPECT_THROW(task->lengthened(2), OptionError);
  EXPECT_LT(task->baselines().at("baseline_unordered_accuracy"), 0.7);
  for (const Split split : {Split::train, Split::eval, Split::test}) {
    SequenceBuffer buffer(*task, split);
    for (std::uint64_t n = 0; n < 10000; ++n) {
      const SequenceView s = buffer.draw(3, n);
      std::map<int, std::set<int>> needs, needed;
      int t = 0, q = 0;
      for (; s.tokens[t] < 11; t += 2) {
        ASSERT_TRUE(needs[s.tokens[t + 1]].insert(s.tokens[t]).second) << "an edge comes once";
        needed[s.tokens[t]].insert(s.tokens[t + 1]);
      }
      for (const auto& [node, some] : needs) ASSERT_LE(std::max(some.size(), needed[node].size()), 4u);
      std::set<int> left = needs.at(s.tokens[t + 1]);
      for (int round = 0; round < 11; ++round)
        for (const auto& [node, some] : needs)
          if (left.count(node) == 1) left.insert(some.begin(), some.end());
      ASSERT_EQ(left.count(s.tokens[t + 1]), 0u) << "no circle";
      for (t += 2; !left.empty(); ++q) {
        const auto waits = [&](int node) {
          return std::any_of(left.begin(), left.end(), [&](int x) { return needs[node].count(x) == 1; });
        };
        ASSERT_EQ(s.query_position[q], t + 1);
        ASSERT_EQ(s.target[q], *std::find_if_not(left.begin(), left.end(), waits));
        ASSERT_EQ(s.tokens[++t], s.target[q]);
        left.erase(s.target[q]);
      }
      ASSERT_EQ(s.target[q], 12);
      ASSERT_TRUE(q + 1 == s.shape.Q || s.target[q + 1] == -1);
    }
  }
}

}  // namespace
}  // namespace crosstalk::testing

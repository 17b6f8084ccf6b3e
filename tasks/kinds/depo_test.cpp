// Depo: one cycle, its edges and questions, published settings, what is refused.
// SPDX-License-Identifier: Apache-2.0
#include "tasks/kinds/depo_sequence.h"

#include "tasks/golden.h"

namespace crosstalk::testing::depo_test {

/// Ids: blank 0, start 1, "=" 2, k 3 .. 8, letters 9 .. 12, endings 13 .. 16.
const Settings small = {{"nodes", 8},         {"hops", 6},         {"queries", 3},
                        {"shortest_word", 1}, {"longest_word", 3}, {"alphabet", 4}};

[[maybe_unused]] const bool fitted = [] {
  fit()["depo"] = [](Settings& settings) {
    const int shortest = 1 + static_cast<int>(whole_of(settings, "shortest_word", 1)) % 3;
    settings["shortest_word"] = shortest;
    settings["longest_word"] = shortest + static_cast<int>(whole_of(settings, "longest_word", 1)) % 3;
    settings["nodes"] = 3 + static_cast<int>(whole_of(settings, "nodes", 5)) % 9;
    settings["alphabet"] = 24 + static_cast<int>(whole_of(settings, "alphabet", 5));
  };
  return true;
}();

using Word = std::vector<int>;
std::vector<Word> words_in(const std::int32_t* begin, const std::int32_t* end) {
  std::vector<Word> words(1);
  for (; begin != end; ++begin) {
    words.back().push_back(*begin);
    if (*begin >= 13) words.emplace_back();
  }
  words.pop_back();
  return words;
}

[[maybe_unused]] const bool pinned =
    pin("depo", {{"depo1", {}, 0x2a5f4c6db187869au, 0x438a8fabc040a7bbu},
                 {"small", small, 0xe12d329164a9495du, 0xaf613f9270e0bbf1u}});

TEST(Depo, IsOneCycleAskedAtItsLaws) {
  for (const Split split : {Split::train, Split::eval}) {
    const auto task = make_task("depo", small);
    EXPECT_EQ(task->shape(split), (SequenceShape{1 + 2 * 8 * 3 + 3 * 8, 1, 9}));
    Counts sizes(6), hops(7), letters(4);
    for (const SequenceView& s : drawn(*task, split, 3, 3000)) {
      int t = 1;
      ASSERT_EQ(s.tokens[0], 1);
      while (s.tokens[t] >= 9) ++t;
      const std::vector<Word> list = words_in(s.tokens + 1, s.tokens + t);
      std::map<Word, Word> next;
      for (std::size_t i = 0; i < list.size(); i += 2) next[list[i]] = list[i + 1];
      const std::size_t nodes = list.size() / 2;
      ASSERT_EQ(next.size(), nodes) << "every node has one successor";
      std::set<Word> walked;
      for (Word at = list[0]; walked.insert(at).second;) at = next.at(at);
      ASSERT_EQ(walked.size(), nodes) << "all on one cycle";
      ++sizes.at(nodes - 3);
      ++letters[list[0].back() - 13];
      int q = 0;
      std::set<Word> asked;
      while (t < s.shape.T && s.tokens[t] != 0) {
        const int k = s.tokens[t++] - 2;
        ++hops[k];
        const int from = t;
        while (s.tokens[t] != 2) ++t;
        Word at = words_in(s.tokens + from, s.tokens + t).at(0);
        ASSERT_TRUE(asked.insert(at).second) << "asked twice";
        for (int i = 0; i < k; ++i) at = next.at(at);
        ++t;
        for (const int token : at) {
          ASSERT_EQ(s.query_position[q], t);
          ASSERT_EQ(s.target[q], token);
          ASSERT_EQ(s.meta[q * meta_count + meta_touches], k);
          ASSERT_EQ(s.tokens[t++], token);
          ++q;
        }
      }
      ASSERT_EQ(asked.size(), 3u);
      for (; q < s.shape.Q; ++q) ASSERT_EQ(s.target[q], -1);
    }
    expect_uniform({letters});
    hops.erase(hops.begin());
    if (split == Split::train) {
      expect_uniform({hops});
      std::vector<double> expected;
      double sum = 0;
      for (int i = 3; i <= 8; ++i) sum += 1 / (i + std::sqrt(8.0));
      for (int i = 3; i <= 8; ++i) expected.push_back(3000 / (i + std::sqrt(8.0)) / sum);
      EXPECT_LT(std::abs(chi_square_score(sizes, expected)), 4);
    } else {
      EXPECT_EQ(sizes.back(), 3000);
      EXPECT_EQ(hops[2] + hops[4], 0);  // 1, 2, 4 and 6
      EXPECT_LT(std::abs(uniformity_score({hops[0], hops[1], hops[3], hops[5]})), 4);
    }
  }
}

TEST(Depo, PublishedSettingsLengthsAndRefusals) {
  const auto depo1 = make_task("depo");
  EXPECT_EQ(depo1->shape(Split::eval), (SequenceShape{1 + 4 * 225 + 60, 1, 20}));
  EXPECT_EQ(depo1->vocabulary().tokens, 3 + 8 + 100);
  EXPECT_DOUBLE_EQ(depo1->baselines().at("chance_accuracy"), 0.01);
  const Settings depo2 = {
      {"nodes", 75}, {"hops", 16}, {"shortest_word", 5}, {"longest_word", 7}, {"alphabet", 3}};
  const auto task = make_task("depo", depo2);
  EXPECT_EQ(task->lengthened(2)->eval_load(), 150);
  EXPECT_THROW(task->lengthened(100), OptionError);
  EXPECT_THROW(make_task("depo", {{"shortest_word", 3}}), OptionError);
  EXPECT_THROW(make_task("depo", {{"nodes", 1276}}), OptionError);
  EXPECT_NO_THROW(make_task("depo", {{"nodes", 1275}}));
  EXPECT_THROW(make_task("depo", {{"longest_word", 6}}), OptionError);
}

}  // namespace crosstalk::testing::depo_test

// The palindrome: each order is said and its due tokens shown, baselines, what is refused.
// SPDX-License-Identifier: Apache-2.0
#include "tasks/kinds/palindrome_sequence.h"

#include "tasks/golden.h"

namespace crosstalk::testing::palindrome_test {

[[maybe_unused]] const bool pinned =
    pin("palindrome",
        {{"standard", {}, 0x9fc83892d70b52a5u, 0xcd0a8e9f8da04005u},
         {"odds_first", {{"order", "odds_first"}, {"length", 30}}, 0xc59a8a523b805275u, 0x493464250f06e785u},
         {"set", {{"order", "set"}, {"vocabulary", 9}}, 0x6e86ec69329991f7u, 0x17ac9634c2b0d497u}});

// 10,000 of each split.
TEST(Palindrome, SaysEachOrderAndShowsWhatWasDue) {
  const std::map<std::string, std::vector<int>> orders = {
      {"reverse", {4, 3, 2, 1, 0}}, {"same", {0, 1, 2, 3, 4}}, {"odds_first", {0, 2, 4, 1, 3}}};
  for (const auto& [order, source] : orders) {
    const auto task = make_task("palindrome", {{"length", 10}, {"vocabulary", 9}, {"order", order}});
    EXPECT_EQ(task->shape(Split::train), (SequenceShape{10, 1, 5}));
    Counts data(8);
    for (const Split split : {Split::train, Split::eval, Split::test})
      for (const SequenceView& s : drawn(*task, split, 3, 10000)) {
        ASSERT_EQ(s.tokens[5], 8);
        for (int i = 0; i < 5; ++i) {
          ++data[s.tokens[i]];
          const int wanted = s.tokens[source[static_cast<std::size_t>(i)]];
          ASSERT_EQ(s.target[i], wanted) << order;
          ASSERT_EQ(s.query_position[i], 6 + i);
          ASSERT_EQ(s.tokens[s.query_position[i] - 1 - s.meta[i * meta_count + meta_gap]], wanted);
          if (i < 4) {
            ASSERT_EQ(s.tokens[6 + i], wanted);
          }
        }
      }
    expect_uniform({data});
  }
}

// Bucket sort, and the different ones: 10,000 of each split, and what is not asked is not in the way.
TEST(Palindrome, SortsAndSaysEachOnce) {
  for (const bool set : {false, true}) {
    const auto task = make_task(
        "palindrome", {{"length", 12}, {"vocabulary", 6}, {"order", std::string(set ? "set" : "sorted")}});
    for (const Split split : {Split::train, Split::eval, Split::test})
      for (const SequenceView& s : drawn(*task, split, 3, 10000)) {
        std::vector<int> said;
        for (int v = 0; v < 5; ++v)
          for (int t = 0, seen = 0; t < 6; ++t)
            if (s.tokens[t] == v && (!set || seen++ == 0)) said.push_back(v);
        if (set) said.push_back(5);
        for (int i = 0; i < 6; ++i) {
          const bool due = i < std::ssize(said);
          ASSERT_EQ(s.target[i], due ? said[static_cast<std::size_t>(i)] : -1);
          if (due) {
            ASSERT_EQ(s.query_position[i], 7 + i);
          }
          ASSERT_EQ(s.tokens[6 + i], i == 0 || !due ? 5 : said[static_cast<std::size_t>(i - 1)]);
        }
      }
    EXPECT_DOUBLE_EQ(task->baselines().at("chance_accuracy"), set ? 1.0 / 6 : 1.0 / 5);
  }
}

TEST(Palindrome, BaselinesLengthsAndRefusals) {
  const auto task = make_task("palindrome");
  const auto numbers = task->baselines();
  EXPECT_DOUBLE_EQ(numbers.at("chance_accuracy"), 1.0 / 63);
  EXPECT_NEAR(numbers.at("baseline_random_in_context_accuracy"), 1.0 / 128 + 127.0 / 128 / 63, 0.002);
  EXPECT_NEAR(numbers.at("baseline_first_accuracy"), 1.0 / 128 + 127.0 / 128 / 63, 0.004);
  EXPECT_EQ(task->lengthened(8)->shape(Split::eval), (SequenceShape{2048, 1, 1024}));
  EXPECT_THROW(make_task("palindrome", {{"length", 9}}), OptionError);
}

[[maybe_unused]] const bool fitted = [] {
  fit()["palindrome"] = [](Settings& settings) {
    settings["length"] = 2 * static_cast<int>(whole_of(settings, "length", 9));
  };
  return true;
}();

}  // namespace crosstalk::testing::palindrome_test

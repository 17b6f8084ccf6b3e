// Selective copying: data in order, the law of their places, what is refused.
// SPDX-License-Identifier: Apache-2.0
#include "tasks/kinds/selective_copy_sequence.h"

#include "tasks/golden.h"

namespace crosstalk::testing::selective_copy_test {

const Settings uniform = {{"places", "uniform"}, {"length", 40}, {"data", 5}};

[[maybe_unused]] const bool pinned =
    pin("selective_copy", {{"mad", {}, 0x5ad656a171c31645u, 0xac6e0e23ef773449u},
                           {"uniform", uniform, 0xbb1817006a372745u, 0x3665891ceb8e0fc5u}});

[[maybe_unused]] const bool fitted = [] {
  fit()["selective_copy"] = [](Settings& settings) {
    settings["length"] = 2 * static_cast<int>(whole_of(settings, "data", 16)) + 1 +
                         static_cast<int>(whole_of(settings, "length", 9));
  };
  return true;
}();

TEST(SelectiveCopy, DataStandInOrderAndAreDueAtTheEnd) {
  for (const Settings& settings : {Settings{}, uniform}) {
    const auto task = make_task("selective_copy", settings);
    const SequenceShape shape = task->shape(Split::train);
    Counts ids(14);
    for (const SequenceView& s : drawn(*task, Split::train, 3, 500)) {
      const int copy = shape.T - shape.Q - 1;
      ASSERT_EQ(s.tokens[copy], 15);
      ASSERT_EQ(std::count(s.tokens + copy, s.tokens + shape.T, 14), shape.Q);
      int q = 0;
      for (int t = 0; t < copy; ++t) {
        if (s.tokens[t] == 14) continue;
        ASSERT_LT(s.tokens[t], 14);
        ASSERT_EQ(s.target[q], s.tokens[t]);
        ASSERT_EQ(s.query_position[q], copy + 2 + q);
        ++ids[s.tokens[t]];
        ++q;
      }
      ASSERT_EQ(q, shape.Q);
      if (settings.empty()) {
        ASSERT_NE(s.tokens[copy - 1], 14) << "MAD puts no blank behind the last data token";
      }
    }
    expect_uniform({ids});
  }
}

// Three blanks before two data tokens: 0 .. 3 of them before the first, binomially (mad), or any of the ten choices of two
// places out of five (uniform).
TEST(SelectiveCopy, PlacesFollowTheirLaw) {
  for (const bool mad : {true, false}) {
    Counts before(4), choices(25);
    for (const SequenceView& s :
         drawn("selective_copy",
               {{"length", 8}, {"data", 2}, {"places", std::string(mad ? "before" : "uniform")}}, Split::eval,
               3, 8000)) {
      std::vector<int> places;
      for (int t = 0; t < 5; ++t)
        if (s.tokens[t] != 14) places.push_back(t);
      ASSERT_EQ(places.size(), 2u);
      ++before[places[0]];
      ++choices[5 * places[0] + places[1]];
    }
    if (mad) {
      EXPECT_LT(std::abs(chi_square_score(before, {1000, 3000, 3000, 1000})), 4);
    } else {
      std::erase(choices, 0);
      ASSERT_EQ(choices.size(), 10u);
      expect_uniform({choices});
    }
  }
}

TEST(SelectiveCopy, LengthsAndRefusals) {
  const auto task = make_task("selective_copy", {{"examples", 7}});
  EXPECT_EQ(task->sequences(Split::train), 7);
  EXPECT_EQ(task->lengthened(4)->shape(Split::eval), (SequenceShape{1024, 1, 16}));
  EXPECT_DOUBLE_EQ(task->baselines().at("chance_accuracy"), 1.0 / 14);
  EXPECT_THROW(make_task("selective_copy", {{"length", 32}}), OptionError);
  EXPECT_NO_THROW(make_task("selective_copy", {{"length", 33}}));
}

}  // namespace crosstalk::testing::selective_copy_test

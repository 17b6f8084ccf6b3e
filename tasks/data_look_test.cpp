// What is said of sequences that cannot be meant, and of generators that draw few.
// SPDX-License-Identifier: Apache-2.0
#include "tasks/data_look.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tasks/kinds/file_example.h"

namespace crosstalk::data_look_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DataLook : public ::testing::Test {
 protected:
  /// N sequences of T tokens below 7 for each split; labels by `label(inputs, at)` from the second token on.
  template <class Label>
  std::vector<std::string> doubts(Label label) {
    std::uint64_t seed = 1;
    for (const char* split : {"train", "eval", "test"}) {
      testing::ExampleTokens files = testing::example_tokens(seed++, 50, 12);
      for (std::size_t i = 0; i < files.labels.data.size(); ++i)
        files.labels.data[i] = i % 12 == 0 ? -100 : label(files.inputs.data, i);
      change_(split, files);
      testing::write_example(folder_.path(), split, files);
    }
    return doubts_of(*testing::make_task("tokens", {{"folder", folder_.path()}}), "data");
  }
  testing::ExampleFolder folder_;
  std::function<void(const std::string& split, testing::ExampleTokens&)> change_ = [](const std::string&,
                                                                                      auto&) {};
};

std::int64_t sum(const std::vector<std::int64_t>& inputs, std::size_t i) {
  return (inputs[i] + inputs[i - 1]) % 7;
}

TEST_F(DataLook, LabelsThatFollowFromOnePlaceOrAreOne) {
  EXPECT_THAT(doubts(sum), IsEmpty());
  EXPECT_THAT(doubts([](const auto& x, std::size_t i) { return i % 12 == 11 ? -1 : x[i + 1]; }), IsEmpty())
      << "next tokens";
  EXPECT_THAT(doubts([](const auto& x, std::size_t i) { return x[i]; }),
              ElementsAre(HasSubstr(
                  "data: 550 of the 550 answers of training (100 %) are the token at which they are due")));
  EXPECT_THAT(doubts([](const auto& x, std::size_t i) { return x[i - 1]; })[0],
              HasSubstr("are the token before the one at which"));
  EXPECT_THAT(doubts([](const auto&, std::size_t i) { return i == 1 ? 2 : 4; })[0],
              HasSubstr("data: 549 of the 550 answers of training (99.8 %) are 4: saying it always"));
  EXPECT_THAT(doubts([](const auto&, std::size_t i) { return static_cast<std::int64_t>(i % 12 % 5); })[0],
              HasSubstr("all 50 sequences of training have the same answers"));
}

TEST_F(DataLook, SequencesOfTestThatStandInTrainingAndRepeats) {
  change_ = [](const std::string& split, testing::ExampleTokens& files) {
    const testing::ExampleTokens trained = testing::example_tokens(1, 50, 12);
    if (split == "test") std::copy_n(trained.inputs.data.begin() + 120, 36, files.inputs.data.begin());
    if (split == "train") std::copy_n(trained.inputs.data.begin(), 72, files.inputs.data.begin() + 240);
  };
  EXPECT_THAT(
      doubts(sum),
      ElementsAre(HasSubstr("6 of the 50 sequences of training (12 %) are repeats of others there"),
                  HasSubstr("3 of the 50 sequences of test (6 %) stand in training, too: what is learned")));
  change_ = [](const std::string& split, testing::ExampleTokens& files) {
    if (split != "train") files.inputs.data = testing::example_tokens(9, 50, 12).inputs.data;
  };
  EXPECT_THAT(doubts(sum),
              ElementsAre(HasSubstr("50 of the 50 sequences of test (100 %) stand in validation, too")));
}

/// What stands behind the last answer that is due changes nothing: neither padding nor other tokens hide a repeat.
TEST_F(DataLook, ARepeatIsOneWhateverStandsBehindItsLastAnswer) {
  change_ = [](const std::string& split, testing::ExampleTokens& files) {
    for (std::size_t i = 0; i < files.labels.data.size(); ++i)
      if (i % 12 > 8) files.labels.data[i] = -100;
    if (split != "test") return;
    files.inputs.data = testing::example_tokens(1, 50, 12).inputs.data;
    for (std::size_t i = 0; i < files.inputs.data.size(); ++i)
      if (i % 12 > 8) files.inputs.data[i] = static_cast<std::int64_t>(i % 7);
  };
  EXPECT_THAT(doubts([](const auto& x, std::size_t i) { return (x[i] + x[i - 1]) % 7; }),
              ElementsAre(HasSubstr("50 of the 50 sequences of test (100 %) stand in training, too")));
}

TEST_F(DataLook, SequencesWithoutALabelAreCounted) {
  change_ = [](const std::string& split, testing::ExampleTokens& files) {
    for (std::size_t i = 0; split == "train" && i < 12 * 44; ++i) files.labels.data[i] = -100;
  };
  EXPECT_THAT(doubts(sum)[0], ::testing::AllOf(HasSubstr("44 of the 50 sequences of"),
                                               HasSubstr("have no label and are left out")));
}

TEST_F(DataLook, IdsThatTrainingLacksAndIdsFarAboveThoseInUse) {
  change_ = [](const std::string& split, testing::ExampleTokens& files) {
    if (split == "test") files.inputs.data[14] = 200;
  };
  EXPECT_THAT(
      doubts(sum),
      ElementsAre("data: 1 token (200) of test never come in training, so that nothing is learned of them",
                  HasSubstr("data: ids go up to 200, and 8 of them are in use")));
}

// Words of Z2 of 6 bits: 64 sequences. Of 20 random keys and values there is no end.
TEST(Spaces, AreEstimatedByRepeats) {
  const auto few = space_of(*testing::make_task("words", {{"group", "Z2"}, {"length", 6}}), 1e5);
  ASSERT_TRUE(few);
  EXPECT_NEAR(few->different, 64, 1);
  EXPECT_EQ(few->tested, 1);
  const auto more = space_of(*testing::make_task("words", {{"group", "Z2"}, {"length", 18}}), 1 << 18);
  ASSERT_TRUE(more);
  EXPECT_NEAR(more->different, 1 << 18, 0.2 * (1 << 18));
  EXPECT_NEAR(more->tested, 1 - std::exp(-1), 0.1);
  const auto short_training = space_of(*testing::make_task("words", {{"group", "Z2"}, {"length", 16}}), 1600);
  ASSERT_TRUE(short_training);
  EXPECT_NEAR(short_training->tested, 1600. / (1 << 16), 0.02);
  EXPECT_FALSE(space_of(*testing::make_task("recall", {{"associations", 20}}), 1e6));
  // Training repeats its short sequences, test has none of them.
  const auto longer = space_of(
      *testing::make_task("arithmetic", {{"longest", 40}, {"eval_shortest", 30}, {"query_at", "every"}}),
      4e5);
  ASSERT_TRUE(longer);
  EXPECT_LT(longer->tested, 0.01);
}

}  // namespace crosstalk::data_look_test

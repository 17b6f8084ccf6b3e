// Time that a plan estimates before anything is recorded.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/planning/estimate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace crosstalk::program {
namespace {

using ::testing::HasSubstr;

Study study_of(const std::string& base) {
  return parse_study("[study]\nname = \"s\"\nseeds = [1, 2]\n[base]\n" + base +
                         "\n[memories.softmax]\nname = \"softmax\"\n[memories.delta]\nname = \"delta\"\n",
                     "s.toml");
}
std::string recall(int steps) {
  return "task.name = \"recall\"\ntask.associations = 16\ntrain.max_steps = " + std::to_string(steps);
}

TimeForecast estimate(const Study& study, Device device = Device::cpu) {
  std::vector<const Run*> runs;
  for (const Run& run : study.runs) runs.push_back(&run);
  TrainingOptions training;
  training.threads = 1;
  training.device = device;
  return estimate_time(runs, training);
}

TEST(Estimate, GrowsWithTheStepsAndEndsSoon) {
  const auto begin = std::chrono::steady_clock::now();
  const TimeForecast few = estimate(study_of(recall(20000))), many = estimate(study_of(recall(200000)));
  ASSERT_TRUE(few.seconds && many.seconds);
  EXPECT_GT(*few.seconds, 0);
  EXPECT_GT(*many.seconds,
            3 * *few.seconds);  // ten times as much, measured on a machine that does other things too
  EXPECT_LT(*many.seconds, 30 * *few.seconds);
  EXPECT_THAT(many.text, HasSubstr("on 1 idle core like these if every run takes its train.max_steps"));
  EXPECT_THAT(many.text, HasSubstr("if all stop by step 5000) (an estimate: 2 of 2 memories just tried for"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin,
            std::chrono::seconds(20));  // two of two seconds at most
}

// Stages of 4, 6, 8, 16 and 32 tokens, of as many steps each, take .41 of as many steps of 32.
TEST(Estimate, CountsStagesOfACurriculumAsTheScheduleHasThem) {
  const auto operations = [](const std::string& more) {
    const std::string text =
        estimate(study_of("task.name = \"words\"\ntask.length = 32\nmodel.name = \"language\"\n"
                          "train.batch = 1024\ntrain.max_steps = 30000\n" +
                          more),
                 Device::cuda)
            .text;
    const std::string before = "a rough estimate: ";
    return std::stod(text.substr(text.find(before) + before.size()));
  };
  const double whole = operations(""),
               staged = operations("task.curriculum = \"4 6 8 16 32\"\ntrain.promote = \"schedule\"");
  EXPECT_NEAR(staged / whole, 13.2 / 32, 0.03);
  EXPECT_EQ(operations("task.curriculum = \"4 6 8 16 32\""), whole);  // nobody knows how long they last
}

TEST(Estimate, SaysWhatItCannotKnow) {
  EXPECT_EQ(estimate_time({}, {}).text, "none");
  const TimeForecast huge = estimate(study_of(recall(10) + "\ntask.keys = 1000000\ntask.values = 1000000"));
  EXPECT_FALSE(huge.seconds);
  EXPECT_THAT(huge.text, HasSubstr("too large to be tried"));
  const TimeForecast tokens =
      estimate(study_of("task.name = \"mqar\"\nmodel.name = \"language\""), Device::cuda);
  EXPECT_FALSE(tokens.seconds);
  EXPECT_THAT(tokens.text,
              HasSubstr("on one H100 or H200 if every run takes its train.max_steps, a rough estimate: "));
  const TimeForecast here =
      estimate(study_of("task.name = \"mqar\"\nmodel.name = \"language\"\ntrain.max_steps = 100"));
  EXPECT_THAT(here.text, HasSubstr("; on a GPU: "));
  EXPECT_THAT(estimate(study_of(recall(1000)), Device::cuda).text, HasSubstr("on one H200, an estimate"));
}

// The operations of a recurrent cell are few, and its tokens wait for each other.
TEST(Estimate, CountsTokensThatGoOneByOne) {
  const auto text = [](const std::string& memory, const std::string& more = "") {
    return estimate(
               parse_study(
                   "[study]\nname = \"s\"\nseeds = [1, 2]\n[base]\ntask.name = \"mqar\"\ntask.length = 128\n"
                   "model.name = \"language\"\nmodel.width = 32\ntrain.max_steps = 20000\n" +
                       more + "\n[memories.one]\nname = \"" + memory + "\"\n",
                   "s.toml"),
               Device::cuda)
        .text;
  };
  const auto begins = [](const char* what) { return ::testing::StartsWith(what); };
  EXPECT_THAT(text("gla"), begins("less than a minute"));
  EXPECT_THAT(text("slstm", "model.layers = 1"),
              begins("3 min to 4 min"));  // 20,000 x 128 x 80 us, both seeds in one pack
  EXPECT_THAT(text("lstm", "model.layers = 2"), begins("7 min to 7 min"));
  EXPECT_THAT(text("gru", "model.layers = 2\nmodel.stack = \"base_conv memory\""), begins("3 min to 4 min"));
  EXPECT_THAT(text("gla", "model.layers = 2\nmodel.stack = \"slstm memory\""), begins("3 min to 4 min"));
}

}  // namespace
}  // namespace crosstalk::program

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
  EXPECT_THAT(many.text, HasSubstr("on 1 idle core like these, about "));
  EXPECT_THAT(many.text,
              HasSubstr("if every run takes its train.max_steps, less where runs stop early (here "));
  EXPECT_THAT(many.basis, HasSubstr("here 2 of 2 memories just tried for"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin,
            std::chrono::seconds(20));  // two of two seconds at most
}

// Stages of 4, 6, 8, 16 and 32 tokens, of as many steps each, take .41 of as many steps of 32.
TEST(Estimate, CountsStagesOfACurriculumAsTheScheduleHasThem) {
  const auto seconds = [](const std::string& more) {
    return *estimate(study_of("task.name = \"words\"\ntask.length = 32\nmodel.name = \"language\"\n"
                              "train.batch = 1024\ntrain.max_steps = 30000\n" +
                              more),
                     Device::cuda)
                .seconds;
  };
  const double whole = seconds(""),
               staged = seconds("task.curriculum = \"4 6 8 16 32\"\ntrain.promote = \"schedule\"");
  EXPECT_NEAR(staged / whole, 13.2 / 32, 0.03);
  EXPECT_EQ(seconds("task.curriculum = \"4 6 8 16 32\""), whole);  // nobody knows how long they last
}

TEST(Estimate, SaysWhatItCannotKnow) {
  EXPECT_EQ(estimate_time({}, {}).text, "none");
  const TimeForecast huge = estimate(study_of(recall(10) + "\ntask.keys = 1000000\ntask.values = 1000000"));
  EXPECT_FALSE(huge.seconds);
  EXPECT_THAT(huge.text, HasSubstr("not known here; about "));
  EXPECT_THAT(huge.basis, HasSubstr("too large for a moment"));
  const TimeForecast tokens =
      estimate(study_of("task.name = \"mqar\"\nmodel.name = \"language\""), Device::cuda);
  EXPECT_GT(*tokens.seconds, 0);
  EXPECT_THAT(tokens.text, HasSubstr(" on one H100 or H200 if every run takes its train.max_steps"));
  const TimeForecast here =
      estimate(study_of("task.name = \"mqar\"\nmodel.name = \"language\"\ntrain.max_steps = 100"));
  EXPECT_THAT(here.text, HasSubstr(" like these, about "));
}

// The operations of a recurrent cell are few, and its tokens wait for each other.
TEST(Estimate, CountsTokensThatGoOneByOne) {
  const auto seconds = [](const std::string& memory, const std::string& more = "") {
    return *estimate(
                parse_study(
                    "[study]\nname = \"s\"\nseeds = [1, 2]\n[base]\ntask.name = \"mqar\"\ntask.length = 128\n"
                    "model.name = \"language\"\nmodel.width = 32\ntrain.max_steps = 20000\n" +
                        more + "\n[memories.one]\nname = \"" + memory + "\"\n",
                    "s.toml"),
                Device::cuda)
                .seconds;
  };
  const double gla = seconds("gla"), slstm = seconds("slstm", "model.layers = 1");
  EXPECT_LT(gla, 60);
  EXPECT_GT(slstm, 60);  // both seeds in one pack
  EXPECT_NEAR(seconds("slstm", "model.layers = 2") / slstm, 2, 0.2);
  EXPECT_NEAR(seconds("gla", "model.layers = 2\nmodel.stack = \"slstm memory\"") / slstm, 1, 0.2);
  EXPECT_LT(seconds("gru", "model.layers = 2\nmodel.stack = \"base_conv memory\""),
            seconds("gru", "model.layers = 2"));
}

}  // namespace
}  // namespace crosstalk::program

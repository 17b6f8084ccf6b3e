// Runs beside the studies that replay published numbers: what they do otherwise, and that such runs never agree unasked.
// SPDX-License-Identifier: Apache-2.0
#include "results/replay/replayed_study.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "results/replay/replay.h"
#include "results/test_refusal.h"

namespace crosstalk {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kPath = "experiments/table.toml";

Record planned(const std::string& label, double rate) {
  Record run;
  run.study = "table";
  run.label = label;
  run.config = {{"task.name", "mqar"}, {"task.examples", 100000}, {"task.pairs", 32},
                {"model.width", 32},   {"train.batch", 512},      {"train.epochs", 24},
                {"seed", 1},           {"eval.sequences", 3000},  {"train.learning_rate", rate}};
  return run;
}

std::vector<ReplayedStudy> studies() {
  return {{kPath, "table", {planned("linear", 0.001), planned("linear", 0.003), planned("round", 0.001)}}};
}

PublishedPoint point(
    const char* text =
        "# A table.\n# Studies: experiments/table.toml, other.toml.\nlabel,task.name,task.pairs,"
        "eval_accuracy,agreement\nlinear,mqar,32,0.5,median within 0.02\n") {
  return parse_published(text, "p.csv").at(0);
}

std::map<std::string, Record> two_seeds(const nlohmann::json& change = nlohmann::json::object(),
                                        const char* study = "table") {
  std::map<std::string, Record> records;
  for (const int seed : {1, 2}) {
    Record run = planned("linear", 0.003);
    run.study = study;
    run.id = "ct-" + std::to_string(seed);
    run.seed = seed;
    run.steps = 200;
    run.config["seed"] = seed;
    for (const auto& [key, value] : change.items()) run.config.set(key, value);
    run.eval_accuracy = 0.5;
    run.eval_loss = 1;
    records[run.id] = run;
  }
  return records;
}

ReplayOptions beside(const std::vector<std::string>& allowed = {}) {
  ReplayOptions options;
  options.allowed = allowed;
  options.studies = studies();
  return options;
}

TEST(ReplayedStudy, TheHeadNamesStudiesAndSaysTheRest) {
  const PublishedHead head = *point().head;
  EXPECT_THAT(head.comments, ElementsAre("A table."));
  EXPECT_THAT(head.studies, ElementsAre(kPath, "other.toml"));
}

TEST(ReplayedStudy, RunsOfTheStudyDoNothingOtherwise) {
  const auto rows = compare({point()}, two_seeds(), beside());
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_TRUE(rows[0].otherwise.empty()) << "its second rate is as good as its first";
  EXPECT_TRUE(rows[0].agrees);
}

TEST(ReplayedStudy, AShrunkRunNeverAgreesUnasked) {
  const nlohmann::json shrunk = {{"task.examples", 160}, {"train.batch", 16}};
  for (const char* study : {"table", "mine"}) {
    const auto rows = compare({point()}, two_seeds(shrunk, study), beside());
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_FALSE(rows[0].agrees) << study;
    EXPECT_TRUE(rows[0].trained_otherwise) << study;
    EXPECT_THAT(
        otherwise_text({rows[0].otherwise}),
        ElementsAre(
            "Otherwise than experiments/table.toml: task.examples 160 (100000); train.batch 16 (512)."));
    EXPECT_THAT(comparison_table(rows), HasSubstr("| trained otherwise |\n"));
  }
  EXPECT_FALSE(compare({point()}, two_seeds(shrunk), beside({"train.batch"}))[0].agrees)
      << "one of two is named";
  const auto allowed = compare({point()}, two_seeds(shrunk), beside({"train.batch", "task.examples"}));
  EXPECT_TRUE(allowed[0].agrees);
  EXPECT_EQ(allowed[0].otherwise.size(), 2U) << "and is said all the same";
}

TEST(ReplayedStudy, AnotherTaskOfTheSameNameIsAnotherTraining) {
  const auto rows = compare({point()}, two_seeds({{"task.examples", 0}}, "lr_atlas"), beside());
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_TRUE(rows[0].trained_otherwise);
}

TEST(ReplayedStudy, AFileThatNamesNoStudyHoldsNobodyAgainstOne) {
  const PublishedPoint own =
      point("label,task.name,task.pairs,eval_accuracy,agreement\nlinear,mqar,32,0.5,median within 0.02\n");
  EXPECT_TRUE(compare({own}, two_seeds({{"task.examples", 160}}), beside())[0].agrees);
}

TEST(ReplayedStudy, WhatWasSaidOfThePublishedRunIsNotSaidAgain) {
  const PublishedPoint longer = point(
      "# Studies: experiments/table.toml\nlabel,task.name,train.epochs,eval_accuracy\nlinear,mqar,64,0.5\n");
  const auto rows = compare({longer}, two_seeds({{"train.epochs", 8}}), beside({"train.epochs"}));
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_THAT(rows[0].deviations, ElementsAre("train.epochs (8, published 64)"));
  EXPECT_TRUE(rows[0].otherwise.empty());
  EXPECT_TRUE(rows[0].agrees);
}

TEST(ReplayedStudy, PointsArePooledOverSeedsAlone) {
  auto records = two_seeds();
  records["ct-2"].config["train.learning_rate"] = 0.001;
  const std::string error = crosstalk::testing::refusal_of([&] { compare({point()}, records, beside()); });
  EXPECT_THAT(
      error,
      HasSubstr(
          "differ in train.learning_rate (0.001, 0.003), and a comparison pools over seeds only: --best train.learning_rate"));
  EXPECT_THAT(error, HasSubstr("--where train.learning_rate=0.001"));
  ReplayOptions best = beside();
  best.best = {"train.learning_rate"};
  EXPECT_EQ(compare({point()}, records, best)[0].seeds, 1);
}

TEST(ReplayedStudy, TheObstacleIsWhatIsNotAllowed) {
  const PublishedPoint longer =
      point("label,task.name,task.pairs,train.epochs,eval_accuracy\nlinear,mqar,16,64,0.5\n");
  const auto records = two_seeds();
  const auto reasons = without_runs({longer}, records, beside({"task.pairs"}), {});
  ASSERT_EQ(reasons.size(), 2U);
  EXPECT_THAT(reasons[1], HasSubstr("differs in train.epochs (24, published 64)"));
  EXPECT_THAT(reasons[1], Not(HasSubstr("task.pairs")));
}

TEST(ReplayedStudy, SaysWhatWasTrained) {
  const auto records = two_seeds();
  EXPECT_EQ(
      trained_text(list_of(records)),
      "Trained: 200 steps of 512 sequences, width 32, 100000 sequences over and over; read on 3000 sequences.");
  EXPECT_EQ(trained_text({}), "");
}

// Every file of the literature names the study that replays it, and that file is there.
TEST(ReplayedStudy, LiteratureNamesItsStudies) {
  const std::filesystem::path source = CROSSTALK_SOURCE_DIR;
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source / "results/published/literature")) {
    if (entry.path().extension() != ".csv") continue;
    std::ifstream file(entry.path());
    const auto studies = published_head(std::string(std::istreambuf_iterator<char>(file), {})).studies;
    EXPECT_FALSE(studies.empty()) << entry.path();
    for (const std::string& study : studies) EXPECT_TRUE(std::filesystem::exists(source / study)) << study;
    ++files;
  }
  EXPECT_GE(files, 14);
}

}  // namespace
}  // namespace crosstalk

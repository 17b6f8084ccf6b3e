// Every study that a file of the literature names ships with the program, and is what its replay is held against.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/replayed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

namespace crosstalk::program {
namespace {

std::filesystem::path literature_folder() {
  return std::filesystem::path(CROSSTALK_SOURCE_DIR) / "results" / "published" / "literature";
}

TEST(Replayed, StudiesOfTheLiteratureShipWithTheProgram) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(literature_folder())) {
    if (entry.path().extension() != ".csv") continue;
    const std::vector<PublishedPoint> points = read_published(entry.path());
    const std::vector<ReplayedStudy> studies = replayed_studies(points);
    EXPECT_EQ(studies.size(), points.front().head->studies.size()) << entry.path();
    for (const ReplayedStudy& study : studies) EXPECT_FALSE(study.runs.empty()) << study.path;
    ++files;
  }
  EXPECT_GE(files, 14);
}

TEST(Replayed, AStudyThatDoesNotShipIsRefused) {
  const std::vector<PublishedPoint> points = parse_published(
      "# Studies: experiments/nosuch.toml.\nlabel,task.name,eval_accuracy\nx,mqar,0.5\n", "x.csv");
  EXPECT_THROW(replayed_studies(points), std::invalid_argument);
}

// A run of the study as it stands does nothing otherwise; shrunk, it says what.
TEST(Replayed, ARunOfTheStudyIsToldFromAShrunkOne) {
  const std::vector<PublishedPoint> points =
      read_published(literature_folder() / "deltaformer2025_table1.csv");
  const std::vector<ReplayedStudy> studies = replayed_studies(points);
  ASSERT_EQ(studies.size(), 2U);
  for (const ReplayedStudy& study : studies)
    for (const Record& run : study.runs) {
      Record own = run;
      EXPECT_TRUE(otherwise_than(own, points[0], studies).empty()) << study.path << " " << run.label;
      own.config["task.examples"] = 160;
      own.config["train.batch"] = 16;
      const std::vector<Otherwise> found = otherwise_than(own, points[0], studies);
      ASSERT_EQ(found.size(), 2U) << study.path << " " << run.label;
      EXPECT_EQ(found[0].key, "task.examples");
      EXPECT_EQ(found[1].theirs, "512");
    }
}

// A record older than an option was trained with its default, which the study may not have.
TEST(Replayed, ARecordOlderThanAnOptionHasItsDefault) {
  const std::vector<PublishedPoint> points =
      read_published(literature_folder() / "complex_kda2026_words.csv");
  const std::vector<ReplayedStudy> studies = replayed_studies(points);
  const auto full =
      std::ranges::find_if(studies, [](const ReplayedStudy& study) { return study.name == "words_full"; });
  ASSERT_NE(full, studies.end());
  for (const Record& run : full->runs) {
    if (run.config["task.group"] != points[0].known.at("task.group")) continue;
    Record old = run;
    old.config.erase("memory.decay_start");
    const std::vector<Otherwise> found = otherwise_than(old, points[0], {*full});
    if (run.label.find("unsigned") == std::string::npos) {
      EXPECT_TRUE(found.empty()) << run.label;
    } else {
      ASSERT_EQ(found.size(), 1U) << run.label;
      EXPECT_EQ(found[0].key, "memory.decay_start");
      EXPECT_EQ(found[0].ours + " " + found[0].theirs, "0.1 1");
    }
  }
}

}  // namespace
}  // namespace crosstalk::program

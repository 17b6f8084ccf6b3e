// A replay beside the paper: when it agrees, which runs and which of their numbers are meant, where runs come from.
// SPDX-License-Identifier: Apache-2.0
#include "results/replay/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

#include "results/test_records.h"
#include "results/test_refusal.h"

namespace crosstalk {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::refusal_of;
using testing::spill;
using testing::TemporaryFolder;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double inf = std::numeric_limits<double>::infinity();

std::filesystem::path literature() {
  return std::filesystem::path(CROSSTALK_SOURCE_DIR) / "results" / "published" / "literature" /
         "schlag2021_final_losses.csv";
}

TEST(Replay, Tolerance) {
  EXPECT_TRUE(is_within(0.001, 0.0005));
  EXPECT_FALSE(is_within(0.0011, 0.0005));
  EXPECT_TRUE(is_within(0.0000001, 0.001));
  EXPECT_TRUE(is_within(0.0146, 0.005));  // 0.01 where 10 % is less
  EXPECT_FALSE(is_within(0.0151, 0.005));
  EXPECT_TRUE(is_within(0.43, 0.4));
  EXPECT_FALSE(is_within(0.45, 0.4));
  EXPECT_FALSE(is_within(nan, 0.4));
  EXPECT_FALSE(is_within(nan, 0.0001));
  EXPECT_FALSE(is_within(inf, 0.4));
  EXPECT_TRUE(is_within(inf, nan));
  EXPECT_FALSE(is_within(0.4, nan));
}

TEST(Replay, ComparesMedianOfOurSeeds) {
  std::map<std::string, Record> records;
  const auto add = [&](const std::string& task, const std::string& label, int associations, double loss,
                       RunStatus status = RunStatus::done) {
    Record record;
    record.id = "ct-" + std::to_string(records.size());
    record.label = label;
    record.status = status;
    record.config = {{"task.name", task}, {"task.associations", associations}};
    record.eval_loss = loss;
    record.steps = 100 * static_cast<int>(records.size() + 1);
    records[record.id] = record;
  };
  add("recall", "linear", 200, 0.35);
  add("recall", "linear", 200, 0.34);
  add("recall", "linear", 200, 0.9);
  add("recall", "linear", 200, 7, RunStatus::failed);  // says nothing about the memory
  add("reassign", "linear", 200, 7);                   // another setting
  add("recall", "linear", 210, 7);                     // not published
  add("recall", "dpfp1", 40, nan, RunStatus::diverged);
  const std::vector<Comparison> rows = compare(read_published(literature()), records);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].published.label, "dpfp1");
  EXPECT_EQ(rows[0].median, inf);
  EXPECT_FALSE(rows[0].agrees);
  EXPECT_EQ(rows[1].published.label, "linear");
  EXPECT_EQ(rows[1].seeds, 3);
  EXPECT_EQ(rows[1].lowest, 0.34);
  EXPECT_EQ(rows[1].median, 0.35);
  EXPECT_EQ(rows[1].highest, 0.9);
  EXPECT_EQ(rows[1].steps, 200);
  EXPECT_TRUE(rows[1].agrees);
  EXPECT_EQ(comparison_table(rows),
            "| memory | published | its steps | ours: lowest | median | highest | seeds | steps | agrees |\n"
            "|---|--:|--:|--:|--:|--:|--:|--:|---|\n"
            "| dpfp1 | 0.00027 | 200 | diverged | diverged | diverged | 1 | 700 | **no** |\n"
            "| linear | 0.34257 | 2400 | 0.34000 | 0.35000 | 0.90000 | 3 | 200 | yes |\n");
}

/// Word problems of one group, trained at 32 tokens.
PublishedPoint word_point(const char* length, double value, const char* agreement) {
  PublishedPoint point;
  point.label = "kda";
  point.has_loss = false;
  point.metrics["scaled_accuracy"] = value;
  point.agreement = agreement;
  point.known = {{"task.length", length}, {"task.group", "S3"}, {"train.batch", "1024"}};
  return point;
}

std::map<std::string, Record> word_runs(std::initializer_list<double> at_128) {
  std::map<std::string, Record> records;
  for (const double y : at_128) {
    Record record;
    record.id = "ct-" + std::to_string(records.size());
    record.label = "kda";
    record.config = {{"task.length", 32}, {"task.group", "S3"}, {"train.batch", 256}};
    record.eval_loss = 0.1;
    record.steps = 5000;
    record.profiles["scaled_accuracy_by_length"] = {{1, 4, 16}, {1, y, 0}};
    records[record.id] = record;
  }
  return records;
}

bool agree(const char* agreement, double published, std::initializer_list<double> ours) {
  const auto rows =
      compare({word_point("128", published, agreement)}, word_runs(ours), {.allowed = {"train.batch"}});
  if (rows.size() != 1) throw std::runtime_error("one row");
  return rows[0].agrees;
}

/// Published: one at chance (scaled accuracy 0), one perfect, two between; five seeds where others have two.
TEST(Replay, SaysWhatAgreementIsWorth) {
  const std::vector<PublishedPoint> points = {word_point("128", 0.01, "median within 0.02"),
                                              word_point("128", 0.99, "median within 0.02"),
                                              word_point("128", 0.5, "median within 0.02")};
  auto rows = compare(points, word_runs({0.51, 0.52}), {.allowed = {"train.batch"}});
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(power_text(rows), "a guessing model would pass 1, a perfect one 1");
  rows[0].guess_agrees.reset(), rows[2].seeds = 5;
  EXPECT_EQ(
      power_text(rows),
      "a guessing model would pass 0 of the 2 whose chance is known, a perfect one 1; 1 of the 1 with more than 2 seeds agrees");
}

/// MAD's score: by classes, in compression with the mark, which is always right.
TEST(Replay, HoldsTheNumberThatTheFileWasMeasuredBy) {
  const std::vector<PublishedPoint> points = parse_published(
      "# Beside every count: there a grid, here one setting.\n"
      "label,task.name,test_class_accuracy,always_right,agreement\n"
      "kda,compression,0.5,0.0625,median within 0.02\nkda,memorise,0.5,,median within 0.02\n",
      "mad.csv");
  EXPECT_EQ(points[0].head->beside, "there a grid, here one setting");
  std::map<std::string, Record> records;
  for (const char* task : {"compression", "memorise"}) {
    Record& record = records[task];
    record.id = task, record.label = "kda", record.eval_loss = 0.1;
    record.config = {{"task.name", task}};
    record.metrics = {{"test_accuracy", 0.5}, {"test_class_accuracy", 7. / 15}, {"chance_accuracy", 1. / 15}};
  }
  const auto rows = compare(points, records);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].read, "test_class_accuracy");
  EXPECT_NEAR(rows[0].median, 0.5, 1e-12);
  EXPECT_TRUE(rows[0].agrees);
  EXPECT_NEAR(rows[1].median, 7. / 15, 1e-12);
  EXPECT_FALSE(rows[1].agrees) << "test_accuracy would agree";
  EXPECT_NO_THROW(check_metric(points, "test_class_accuracy"));
  EXPECT_THROW(check_metric(points, "test_accuracy"), std::invalid_argument);
  records.at("memorise").metrics.erase("test_class_accuracy");
  EXPECT_EQ(compare(points, records).size(), 1u);
  EXPECT_THAT(without_runs(points, records, {}, compare(points, records)),
              ElementsAre(HasSubstr("1 published points have runs here without test_class_accuracy")));
  EXPECT_THROW(
      parse_published("label,task.name,test_class_accuracy,always_right\nkda,compression,0.5,1\n", "a"),
      std::invalid_argument);
}

TEST(Replay, AgreesAsTheFileOfPublishedNumbersSays) {
  EXPECT_TRUE(agree("median within 0.02", 0.5, {0.1, 0.52, 0.9}));
  EXPECT_FALSE(agree("median within 0.02", 0.5, {0.1, 0.53, 0.9}));
  EXPECT_TRUE(agree("median within 0.02 or in range", 0.5, {0.1, 0.53, 0.9}));
  EXPECT_FALSE(agree("median within 0.02 or in range", 0.5, {0.53, 0.54, 0.9}));
  EXPECT_TRUE(agree("best within 0.02", 0.9, {0.1, 0.2, 0.89}));
  EXPECT_FALSE(agree("best within 0.02", 0.9, {0.9, 0.9, 0.95}));
  EXPECT_TRUE(agree("in range", 0.5, {0.5, 0.5}));
  EXPECT_FALSE(agree("in range", 0.5, {0.51, 0.6}));
  EXPECT_TRUE(agree("each at least 0.99", 1, {0.99, 1}));
  EXPECT_FALSE(agree("each at least 0.99", 1, {0.98, 1}));
  EXPECT_TRUE(agree("", 0.5, {0.1, 0.53, 0.9}));  // of accuracies: as the third
  EXPECT_FALSE(agree("", 0.5, {0.53, 0.53, 0.9}));
  for (const char* row : {"recall,4,0.41,,each at least 0.99", "mqar,,,0.9,loss"}) {
    const std::string text =
        std::string("label,task.name,task.associations,eval_loss,eval_accuracy,agreement\nd,") + row + "\n";
    EXPECT_THROW(parse_published(text, "p.csv"), std::invalid_argument) << text;
  }
  for (const char* text : {"median", "median within", "median within x", "median within -1", "or in range",
                           "each at least 0.9 or in range", "best within nan"})
    EXPECT_THROW(Agreement::parse(text), std::invalid_argument) << text;
}

TEST(Replay, ReadsProfilesAtThePublishedLengthAndListsDeviations) {
  const auto points = {word_point("32", 1, ""), word_point("128", 0.3, ""), word_point("512", 0.7, ""),
                       word_point("64", 0.7, "")};
  EXPECT_TRUE(compare(points, word_runs({0.2, 0.4})).empty());  // train.batch
  const auto rows = compare(points, word_runs({0.2, 0.4}), {.allowed = {"train.batch"}});
  ASSERT_EQ(rows.size(), 3U);  // nobody read at 64
  EXPECT_EQ(rows[0].median, 1);
  EXPECT_EQ(rows[1].lowest, 0.2);
  EXPECT_EQ(rows[1].highest, 0.4);
  EXPECT_EQ(rows[2].highest, 0);
  EXPECT_THAT(rows[1].deviations, ElementsAre("train.batch (256, published 1024)"));
  EXPECT_THAT(deviations_of(rows), ElementsAre("train.batch (256, published 1024)"));
  EXPECT_THAT(comparison_table(rows), HasSubstr("| kda | 128 | 0.300 | 0.200 | 0.300 | 0.400 | 2 | yes |\n"));
}

// Of tasks whose test is longer than their training, as parity: the scaled accuracy of the test split.
TEST(Replay, AScaledAccuracyWithoutALengthIsThatOfTheTestSplit) {
  PublishedPoint point = word_point("", 0.4, "best within 0.03");
  point.known.erase("task.length");
  auto records = word_runs({0.2, 0.4});
  EXPECT_TRUE(compare({point}, records, {.allowed = {"train.batch"}}).empty()) << "nobody measured it";
  double value = 0.3;
  for (auto& [id, record] : records)
    record.metrics = {{"test_accuracy", 0.9}, {"test_scaled_accuracy", value += 0.1}};
  const auto rows = compare({point}, records, {.allowed = {"train.batch"}});
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_DOUBLE_EQ(rows[0].lowest, 0.4);
  EXPECT_DOUBLE_EQ(rows[0].highest, 0.5);
  EXPECT_FALSE(rows[0].agrees) << "the best is .1 off";
}

TEST(Replay, AFigureStandsForRunsWithoutProfiles) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "figure.csv";
  spill(path,
        "label,d_dot,length_factor,n,median,lo,hi,task.group\nkda,0,4,3,0.5,0.4,0.6,S3\nkda,0,4,3,0,0,0,S4\n"
        "theory: x,0,4,0,1,,,S3\n");
  auto records = word_runs({0.2});
  for (auto& [id, record] : records) record.profiles.clear();
  const ReplayOptions options{.allowed = {"train.batch"}, .figure = read_figure(path)};
  EXPECT_EQ(options.figure.size(), 2U);
  const auto rows = compare({word_point("128", 0.6, "in range")}, records, options);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].seeds, 3);
  EXPECT_EQ(rows[0].lowest, 0.4);
  EXPECT_TRUE(rows[0].agrees);
  // Lines of --by have its keys in their labels.
  spill(path,
        "label,d_dot,length_factor,n,median,lo,hi,task.group\n"
        "\"kda, task.group = S4\",0,4,3,0,0,0,S4\n\"kda, task.group = S3\",0,4,3,0.5,0.4,0.6,S3\n");
  const ReplayOptions by{.allowed = {"train.batch"}, .figure = read_figure(path)};
  const auto of_by = compare({word_point("128", 0.6, "in range")}, records, by);
  ASSERT_EQ(of_by.size(), 1U);
  EXPECT_EQ(of_by[0].highest, 0.6);
  spill(path, "label,length_factor,n,median,lo,hi\nkda,4,6,0.5,0.4,0.6\n");
  EXPECT_THAT(refusal_of([&] { read_figure(path); }),
              HasSubstr("figure.csv:2: 6 seeds: lo and hi are an interval"));
}

TEST(Replay, TakesTheBestRateOnValidationData) {
  std::map<std::string, Record> records;
  for (const auto& [rate, loss, accuracy] :
       {std::tuple{0.1, 0.2, 0.7}, {0.1, 0.3, 0.8}, {0.2, 0.1, 0.5}, {0.2, 0.2, 0.6}}) {
    Record record;
    record.id = "ct-" + std::to_string(records.size());
    record.label = "gla";
    record.seed = static_cast<int>(records.size()) % 2;
    record.config = {{"task.name", "mqar"}, {"train.learning_rate", rate}};
    record.eval_loss = loss;
    record.eval_accuracy = accuracy;
    record.metrics["test_accuracy"] = accuracy - 0.1;
    records[record.id] = record;
  }
  PublishedPoint point;
  point.label = "gla";
  point.has_loss = false;
  point.metrics["eval_accuracy"] = 0.5;
  const auto by_loss = compare({point}, records, {.best = {"train.learning_rate"}});
  ASSERT_EQ(by_loss.size(), 1U);
  EXPECT_EQ(by_loss[0].chosen, "0.2");
  EXPECT_DOUBLE_EQ(by_loss[0].highest, 0.5);  // of the test split
  const auto by_accuracy =
      compare({point}, records, {.best = {"train.learning_rate"}, .best_by = BestBy::accuracy});
  EXPECT_EQ(by_accuracy[0].chosen, "0.1");
  EXPECT_EQ(by_accuracy[0].seeds, 2);
  EXPECT_EQ(
      edges_of(by_loss),
      "The best learning rate is the largest tried for gla (1 of 1 points): a better one may lie beyond.");
  EXPECT_EQ(
      edges_of(by_accuracy),
      "The best learning rate is the smallest tried for gla (1 of 1 points): a better one may lie beyond.");
  for (const auto& [rate, id] :
       {std::pair{0.05, "ct-low"}, {0.4, "ct-high"}}) {  // inside a wider grid it is at no edge
    records[id] = records["ct-0"];
    records[id].id = id;
    records[id].config["train.learning_rate"] = rate;
    records[id].eval_loss = 0.9;
  }
  EXPECT_EQ(edges_of(compare({point}, records, {.best = {"train.learning_rate"}})), "");
}

TEST(Replay, SaysWhatNoRunHasToCompare) {
  std::map<std::string, Record> records;
  for (const char* id : {"a", "b"}) {
    Record& record = records[id];
    record.id = id, record.label = "m", record.eval_accuracy = 0.9;
    record.config = {{"task.name", "mqar"}, {"model.width", 32}};
  }
  records["b"].metrics["test_accuracy"] = 0.8;
  const auto row = [&](const std::string& known, const std::string& value) {
    return compare(parse_published("label,task.name,model.width," + known + ",eval_accuracy\nm,mqar,32," +
                                       value + ",0.85\nm,mqar,32,,0.8\n",
                                   "x.csv"),
                   records);
  };
  const auto rows = row("task.noise", "0.4");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(not_compared(rows), "Not compared, for no run here has it: task.noise (0.4): 1 of 2 points.");
  EXPECT_EQ(not_compared(row("model.width2", "")), "");
  EXPECT_EQ(rows[0].read, "eval_accuracy");
}

TEST(Replay, SaysWhereRunsComeFrom) {
  const TemporaryFolder folder;
  EXPECT_TRUE(provenance_of(folder.path() / "a.csv").empty());
  spill(folder.path() / "a.provenance.csv",
        "id,provenance.commit,provenance.device,provenance.started,provenance.finished\n"
        "1,0123456789,cpu,2026-02-28T23:59:58Z,2026-03-01T00:00:03Z\n"
        "2,0123456789,cpu,2026-02-28T23:59:59Z,2026-03-01T00:00:09Z\n"
        "3,abcdefghij,cpu,2026-03-03T00:00:00Z,2026-03-03T00:00:20Z\n"  // a pause of a day before it
        "4,abcdefghij,cpu,2026-03-02T00:00:00Z,2026-03-02T00:00:01Z\n"
        "5,abcdefghij,cpu,2026-03-02T00:01:01Z,2026-03-02T00:01:02Z\n"  // a minute: others may have prepared
        "6,abcdefghij,cpu,2026-03-03T00:00:05Z,2026-03-03T00:00:10Z\n");
  EXPECT_THAT(provenance_of(folder.path() / "a.csv"),
              ElementsAre("a.csv: 2 runs, commit 0123456, cpu, 11 s on 2026-02-28",
                          "a.csv: 4 runs, commit abcdefg, cpu, 82 s on 2026-03-02"));
}

}  // namespace
}  // namespace crosstalk

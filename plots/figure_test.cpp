// What figures put into their CSV and into the settings of their script.
// SPDX-License-Identifier: Apache-2.0
#include "plots/figure.h"

#include "plots/drawing/drawing.h"
#include "plots/test_records.h"

namespace crosstalk::figure_test {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Softmax solves all; linear (d_dot 5) breaks down.
RecordMap two_memories() {
  RecordMap records;
  const double losses[3][3] = {{0.002, 0.001, 0.003}, {0.01, 0.04, 0.02}, {0.25, 0.2, 0.375}};
  const int loads[3] = {2, 4, 8};
  for (int i = 0; i < 3; ++i)
    for (int seed = 1; seed <= 3; ++seed) {
      add_recall(records, "linear", seed, 5, loads[i], losses[i][seed - 1]);
      add_recall(records, "softmax", seed, 0, loads[i], 0.0005);
    }
  return records;
}

/// The rows of `csv` that start with `prefix`.
std::vector<std::string> rows_of(const std::string& csv, const std::string& prefix) {
  std::vector<std::string> rows;
  std::istringstream lines(csv);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(prefix)) rows.push_back(line);
  return rows;
}

TEST_F(FigureTest, CapacityGolden) {
  options_.theory = false;
  EXPECT_EQ(draw("capacity", two_memories()),
            "label,d_dot,associations,n,median,lo,hi\n"
            "softmax,,2,3,0.0005,0.0005,0.0005\n"
            "softmax,,4,3,0.0005,0.0005,0.0005\n"
            "softmax,,8,3,0.0005,0.0005,0.0005\n"
            "linear,5,2,3,0.002,0.001,0.003\n"
            "linear,5,4,3,0.02,0.01,0.04\n"
            "linear,5,8,3,0.25,0.2,0.375\n");
  EXPECT_THAT(script(),
              HasSubstr(R"py(("linear", 5): ("Linear ($d_{\\mathrm{dot}}$ = 5)", "#0072B2", "s", "-"))py"));
  EXPECT_THAT(script(), HasSubstr(R"py(("softmax", 0): ("Softmax", "#000000")py"));
  EXPECT_THAT(script(), HasSubstr("median over 3 seeds; bands: range of 3 seeds (75 % interval)."));
}

TEST_F(FigureTest, CapacityTheoryIsTheRankBoundOfEachMemoryWithFeatures) {
  const std::string csv = draw("capacity", two_memories());
  EXPECT_TRUE(rows_of(csv, "\"theory: rank bound, softmax").empty());
  bool has_kink = false;
  const auto rows = rows_of(csv, "\"theory: rank bound, linear\",5,");
  ASSERT_GE(rows.size(), 4u);  // from where it leaves zero
  for (const std::string& row : rows) {
    double load = 0, bound = -1;
    ASSERT_EQ(std::sscanf(row.c_str(), "\"theory: rank bound, linear\",5,%lf,0,%lf,,", &load, &bound), 2)
        << row;
    EXPECT_TRUE(std::abs(bound - 0.5 * std::max(0.0, 1 - 5 / load)) <= 1e-15) << row;
    has_kink = has_kink || load == 5;
  }
  EXPECT_TRUE(has_kink);
}

TEST_F(FigureTest, IntervalsSayWhatTheyAre) {
  RecordMap records;
  for (int seed = 1; seed <= 5; ++seed) add_recall(records, "softmax", seed, 0, 2, seed * 0.125);
  EXPECT_THAT(draw("capacity", records), HasSubstr("softmax,,2,5,0.375,0.125,0.625\n"));
  EXPECT_THAT(script(), HasSubstr("range of 5 seeds (93.8 % interval)"));
  for (int seed = 6; seed <= 9; ++seed) add_recall(records, "softmax", seed, 0, 2, seed * 0.125);
  draw("capacity", records);
  EXPECT_THAT(script(), HasSubstr("95 % confidence interval of the median"));
}

TEST_F(FigureTest, MissingSeedsAreSaid) {
  RecordMap records = two_memories();
  Record& failed = add_recall(records, "linear", 4, 5, 8, kNaN);
  failed.status = RunStatus::failed;  // no result: a missing seed, not a fourth one
  records.erase("ct-100003");         // softmax, load 2, seed 2
  EXPECT_THAT(draw("capacity", records), HasSubstr("softmax,,2,2,"));
  EXPECT_THAT(script(), HasSubstr("\"Softmax (2-3/3 seeds)\""));
  EXPECT_THAT(script(), HasSubstr("= 5)\""));
  EXPECT_THAT(notes(), HasSubstr("missing seeds: softmax has 2 of 3 at task.associations = 2\n"));

  options_.expected_seeds = 5;
  draw("capacity", records);
  EXPECT_THAT(script(), HasSubstr("= 5, 3/5 seeds)\""));
  EXPECT_THAT(notes(), HasSubstr("missing seeds: linear has 3 of 5\n"));
}

TEST_F(FigureTest, DivergedRunsCountAsTheWorst) {
  RecordMap records = two_memories();
  for (auto& [id, record] : records) {
    if (record.label != "linear" || record.config["task.associations"] != 8) continue;
    if (record.seed == 1) record.status = RunStatus::diverged;
    if (record.seed == 3) record.eval_loss = std::numeric_limits<double>::infinity();
  }
  // One survivor of three is no result.
  EXPECT_THAT(draw("capacity", records), HasSubstr("linear,5,8,3,inf,,\n"));
  EXPECT_THAT(script(), HasSubstr("= 5, 2/9 diverged)\""));
  EXPECT_THAT(script(), Not(HasSubstr("/3 seeds")));  // a diverged run is not a missing one
  EXPECT_THAT(notes(), HasSubstr("2 of linear's 9 runs"));

  for (auto& [id, record] : records)
    if (record.label == "linear") record.eval_loss = kNaN;
  EXPECT_THAT(draw("capacity", records), HasSubstr("linear,5,8,3,inf,,\n"));
}

TEST_F(FigureTest, OneLabelWithSeveralSizesGivesSeveralLines) {
  RecordMap records;
  for (const int d_key : {4, 8}) add_recall(records, "dpfp1", 1, 2 * d_key, 16, 0.125 * d_key, d_key);
  options_.theory = false;
  EXPECT_EQ(draw("capacity", records),
            "label,d_dot,associations,n,median,lo,hi\n"
            "dpfp1,8,16,1,0.5,0.5,0.5\n"
            "dpfp1,16,16,1,1,1,1\n");
  EXPECT_THAT(script(), HasSubstr("= 16)\", \"#D55E00\", \"^\", \"--\""));
}

/// Runs of reassign: a sum rule and a delta rule.
RecordMap update_rules() {
  RecordMap records;
  for (const int load : {2, 4, 8})
    for (const bool delta : {false, true}) {
      Record& record = add_record(records, delta ? "delta" : "sum", 1, 4,
                                  {{"task.name", "reassign"},
                                   {"task.associations", load},
                                   {"task.values", load},
                                   {"task.eval_length", load},
                                   {"memory.name", delta ? "delta" : "linear_attention"}},
                                  0.1);
      record.metrics["sum_rule_floor"] = 0.3;
    }
  return records;
}

TEST_F(FigureTest, UpdatesDrawTheFloorOfTheSumRuleWhereItIsOne) {
  const std::string csv = draw("updates", update_rules());
  const auto rows = rows_of(csv, "theory");
  ASSERT_EQ(rows.size(), 3u) << csv;
  // S = 2, two writes: m = 1 or 2, E[1/m] = (2/4 1 + 1/4 1/2) / (3/4) = 5/6; 0.5 (1 - 5/6) (1 - 1/2) = 1/24.
  double load = 0, floor = 0;
  ASSERT_EQ(std::sscanf(rows[0].c_str(), "theory: sum-rule floor,,%lf,0,%lf,,", &load, &floor), 2);
  EXPECT_EQ(load, 2);
  EXPECT_NEAR(floor, 1.0 / 24, 1e-12);
  EXPECT_THAT(script(), HasSubstr("\"yscale\": \"log\""));
  RecordMap deltas = update_rules();
  std::erase_if(deltas, [](const auto& entry) { return entry.second.label == "sum"; });
  EXPECT_THAT(draw("updates", deltas), Not(HasSubstr("theory")));
  EXPECT_THAT(notes(), HasSubstr("do not see the order of writes"));
  options_.theory = false;
  EXPECT_THAT(draw("updates", update_rules()), Not(HasSubstr("theory")));
}

// Few sequences have another floor than all data: a correct run lies below the expectation now and then.
TEST_F(FigureTest, UpdatesDrawTheFloorOfTheSequencesThatWereEvaluatedWhereItIsKnown) {
  draw("updates", update_rules());
  EXPECT_THAT(script(), HasSubstr("expected over all data; a run may lie on either side"));
  options_.evaluated_floor = [](const Record& record, const std::string& metric) {
    EXPECT_EQ(metric, "eval_loss");
    return record.label == "sum" ? std::optional(0.001 * record.config["task.associations"].get<double>())
                                 : std::nullopt;
  };
  EXPECT_THAT(rows_of(draw("updates", update_rules()), "theory"),
              ElementsAre("theory: sum-rule floor,,2,0,0.002,,", "theory: sum-rule floor,,4,0,0.004,,",
                          "theory: sum-rule floor,,8,0,0.008,,"));
  EXPECT_THAT(script(), HasSubstr("on the sequences of these runs"));
  EXPECT_THAT(script(), Not(HasSubstr("expected")));
}

TEST_F(FigureTest, TheRankBoundOfReassignIsNotThatOfRecall) {
  // Distinct keys and values that coincide: the bound of 8 associations in 4 dimensions is far below 0.25.
  const std::string csv = draw("capacity", update_rules());
  const auto rows = rows_of(csv, "\"theory: rank bound, delta\",4,8,");
  ASSERT_EQ(rows.size(), 1u) << csv;
  double bound = 0;
  ASSERT_EQ(std::sscanf(rows[0].c_str(), "\"theory: rank bound, delta\",4,8,0,%lf", &bound), 1);
  EXPECT_GT(bound, 0.001);
  EXPECT_LT(bound, 0.08);
}

PublishedPoint published(const std::string& label, int load, double loss, int d_key = 4) {
  PublishedPoint point;
  point.label = label;
  point.setting = 1;
  point.associations = load;
  point.loss = loss;
  point.known = {{"task.name", "recall"},
                 {"task.associations", std::to_string(load)},
                 {"model.d_key", std::to_string(d_key)}};
  return point;
}

TEST_F(FigureTest, PublishedPointsMeetTheRunsThatAgreeWithThem) {
  options_.published = {published("linear", 8, 0.31), published("linear", 16, 0.4),
                        published("linear", 8, 0.9, 64), published("dpfp9", 8, 0.5, 64)};
  const std::string csv = draw("capacity", two_memories());
  EXPECT_THAT(rows_of(csv, "published"),
              ElementsAre("published: linear,5,8,1,0.31,,", "published: linear,5,16,1,0.4,,"));
  EXPECT_THAT(script(), HasSubstr(R"py(("published: linear", 5): "#0072B2")py"));
  EXPECT_THAT(notes(), HasSubstr("2 of 4 published points have no run here"));
  EXPECT_THAT(notes(), HasSubstr("model.d_key (4, published 64)"));
  EXPECT_THAT(notes(), HasSubstr("no run has the label dpfp9"));
}

TEST_F(FigureTest, PublishedPointsOfALabelThatTheStoreLacksAreDrawnAndNamed) {
  options_.published = {published("rival", 8, 0.31), published("rival", 16, 0.4),
                        published("linear", 8, 0.3)};
  options_.published[0].known["memory.name"] = "mamba9";  // of their memory alone
  const std::string csv = draw("capacity", two_memories());
  EXPECT_THAT(rows_of(csv, "published: rival"),
              ElementsAre("published: rival,,8,1,0.31,,", "published: rival,,16,1,0.4,,"));
  EXPECT_THAT(rows_of(csv, "published: linear"), SizeIs(1));
  EXPECT_THAT(script(), HasSubstr(R"py("published: rival": "rival (published)",)py"));
  EXPECT_THAT(script(), HasSubstr(R"py("published": "Published",)py"));
  EXPECT_THAT(notes(), Not(HasSubstr("have no run here")));
}

// A shortened run beside published points is said to be one, in the footnote and on stderr.
TEST_F(FigureTest, RunsBesidePublishedPointsSayWhatTheyDoOtherwiseThanTheStudy) {
  RecordMap records = two_memories();
  for (auto& [key, record] : records) record.config["train.batch"] = 16;
  PublishedPoint point = published("linear", 8, 0.31);
  point.head = std::make_shared<const PublishedHead>(PublishedHead{{}, {"experiments/whole.toml"}});
  options_.published = {point};
  ReplayedStudy study{"experiments/whole.toml", "whole", {}};
  for (const auto& [key, record] : two_memories()) {
    study.runs.push_back(record);
    study.runs.back().config["train.batch"] = 16;
  }
  options_.studies = {study};
  draw("capacity", records);
  EXPECT_THAT(script(), Not(HasSubstr("Otherwise than")));
  for (Record& run : options_.studies[0].runs) run.config["train.batch"] = 512;
  draw("capacity", records);
  EXPECT_THAT(script(), HasSubstr("Otherwise than experiments/whole.toml: train.batch 16 (512)."));
  EXPECT_THAT(notes(), HasSubstr("warning: Otherwise than experiments/whole.toml: train.batch 16 (512)."));
}

TEST_F(FigureTest, PublishedPointsOfOtherTasksUseUpNoColours) {
  options_.published = {published("rival", 8, 0.31)};
  for (int i = 0; i < 9; ++i) {
    options_.published.push_back(published("a" + std::to_string(i), 8, 0.5));
    options_.published.back().known["task.name"] = "words";
  }
  draw("capacity", two_memories());
  EXPECT_THAT(script(), HasSubstr(R"py(("published: rival", 0): "#D55E00")py"));
}

/// A run of somebody else, as read_export() gives it.
Record& add_rival(RecordMap& records, const nlohmann::json& config) {
  Record& record = records["mine.csv:1"];
  record.id = "mine.csv:1";
  record.label = "mine";
  record.config = config;
  record.eval_loss = record.best_eval_loss = record.eval_accuracy = kNaN;
  return record;
}

TEST_F(FigureTest, ARowThatCannotBeDrawnIsRefusedByItsColumn) {
  RecordMap records = two_memories();
  Record& mine = add_rival(records, {{"task.name", "recall"}, {"task.associations", 8}, {"model.d_key", 4}});
  mine.eval_loss = 0.0001;
  EXPECT_THAT(rows_of(draw("capacity", records), "mine"), SizeIs(1));
  EXPECT_THAT(refusal("capacity-vs-state", records),
              HasSubstr("the row mine.csv:1 (\"mine\") has no state_size (or state_bytes)"));
  mine.metrics["state_bytes"] = 640;
  EXPECT_THAT(rows_of(draw("capacity-vs-state", records), "mine,"), ElementsAre("mine,,160,1,8,8,inf,1,inf"));
  EXPECT_THAT(refusal("capacity-vs-parameters", records),
              HasSubstr("needs records with their number of parameters"));
  for (auto& [key, record] : records)
    if (record.label != "mine") record.metrics["parameters"] = 10;
  EXPECT_THAT(refusal("capacity-vs-parameters", records), HasSubstr("has no parameters, and"));
  mine.config.erase("task.associations");
  EXPECT_THAT(refusal("capacity", records), HasSubstr("has no task.associations, and"));
  mine.config["task.associations"] = 8;
  options_.metric = "eval_accuracy";
  EXPECT_THAT(refusal("capacity", records), HasSubstr("has no eval_accuracy, and"));
  options_.metric = "";
  options_.facet = "memory.name";
  EXPECT_THAT(refusal("capacity", records), HasSubstr("has no memory.name, and"));
  // Runs of ours that stand beside another task's are told of.
  options_.facet = "";
  records.erase("mine.csv:1");
  add_record(records, "tracker", 1, 4, {{"task.name", "swap"}}, 0.1);
  draw("capacity", records);
  EXPECT_THAT(notes(), HasSubstr("left out: 1 run of tracker, without task.associations\n"));
}

TEST_F(FigureTest, WhereAccuracyIsDrawnARowNeedsNoLoss) {
  RecordMap records;
  for (const int width : {64, 256}) {
    Record& record =
        add_record(records, "deltanet", 1, 8, {{"task.name", "mqar"}, {"model.width", width}}, 0.1);
    record.state_size = width * width;
    record.eval_accuracy = 0.9;
  }
  Record& mine = add_rival(records, {{"task.name", "mqar"}});
  mine.eval_accuracy = 0.7;
  EXPECT_THAT(refusal("accuracy", records), HasSubstr("has no model.width, and"));
  mine.metrics["state_bytes"] = 3000;
  options_.x = "state_bytes";
  EXPECT_THAT(rows_of(draw("accuracy", records), "mine,"), ElementsAre("mine,,3000,1,0.7,0.7,0.7"));
  EXPECT_THAT(notes(), Not(HasSubstr("diverged")));
  options_.metric = "eval_loss";
  EXPECT_THAT(refusal("accuracy", records), HasSubstr("has no eval_loss, and"));
}

/// Runs of two memories at two rates or more; one is best at the largest rate, the other in the middle.
RecordMap at_rates(const std::vector<double>& grid) {
  RecordMap records;
  for (const double rate : grid)
    for (const int load : {4, 8})
      for (const char* label : {"climber", "fine"}) {
        const double loss = label[0] == 'c' ? 1e-4 / rate : std::abs(rate - 3e-3);
        Record& record = add_recall(records, label, 1, 4, load, loss);
        record.config["train.learning_rate"] = rate;
        record.metrics["test_loss"] = loss;
      }
  return records;
}

// Three seeds at the rate that the first chose: the others are worse than what the first was at any rate, and do not
// overthrow the choice.
TEST_F(FigureTest, UnequalSeedsAreChosenByThoseThatAllShare) {
  RecordMap records = at_rates({1e-3, 3e-3, 1e-2});
  for (const int seed : {2, 3})
    for (const int load : {4, 8})
      for (const char* label : {"climber", "fine"}) {
        Record& record = add_recall(records, label, seed, 4, load, 1.0);
        record.config["train.learning_rate"] = label[0] == 'c' ? 1e-2 : 3e-3;
        record.metrics["test_loss"] = 1.0;
      }
  options_.best = {"train.learning_rate"};
  const std::string csv = draw("capacity", records);
  EXPECT_THAT(csv, HasSubstr("climber,4,4,3,1,"));
  EXPECT_THAT(csv, HasSubstr("train.learning_rate=0.01"));
  EXPECT_THAT(csv, HasSubstr("train.learning_rate=0.003"));
  EXPECT_THAT(csv, Not(HasSubstr("train.learning_rate=0.001")));
  EXPECT_THAT(
      script(),
      HasSubstr(
          "At 4 of 4 points the values were tried with unequal seeds: chosen by the seeds that all of them share (1)."));
  for (auto& [id, record] : records)
    if (record.config["train.learning_rate"] == 1e-3) record.seed = 7;  // now none is common
  draw("capacity", records);
  EXPECT_THAT(script(), HasSubstr("unequal seeds: chosen by the seeds that each has, for they share none."));
  draw("capacity", at_rates({1e-3, 3e-3, 1e-2}));
  EXPECT_THAT(script(), Not(HasSubstr("unequal seeds")));
}

TEST_F(FigureTest, ARateAtTheEdgeOfItsGridIsSaid) {
  options_.best = {"train.learning_rate"};
  const std::string said =
      "The best learning rate is the largest tried for climber (2 of 2 points): a better one may lie beyond.";
  draw("capacity", at_rates({1e-3, 3e-3, 1e-2}));
  EXPECT_THAT(notes(), HasSubstr("warning: " + said + "\n"));
  EXPECT_THAT(script(), HasSubstr(said));
  draw("capacity", at_rates({3e-3, 1e-2}));
  EXPECT_THAT(
      notes(),
      HasSubstr(
          "the largest tried for climber (2 of 2 points); the smallest tried for fine (2 of 2 points): a better"));
  RecordMap one = at_rates({1e-3, 3e-3, 1e-2});
  std::erase_if(one, [](const auto& entry) { return entry.second.label == "climber"; });
  draw("capacity", one);
  EXPECT_THAT(notes(), Not(HasSubstr("may lie beyond")));
  EXPECT_THAT(script(), Not(HasSubstr("may lie beyond")));
}

TEST_F(FigureTest, TheBestOfRowsWithoutALossIsRefused) {
  RecordMap records = at_rates({1e-3, 3e-3});
  Record& mine =
      add_rival(records, {{"task.name", "recall"}, {"task.associations", 4}, {"train.learning_rate", 1e-3}});
  mine.eval_accuracy = 0.5;
  Record& other = records["mine.csv:2"] = mine;
  other.id = "mine.csv:2";
  other.config["train.learning_rate"] = 3e-3;
  options_.best = {"train.learning_rate"};
  EXPECT_THAT(refusal("capacity", records),
              HasSubstr("the runs of \"mine\" have no eval_loss, by which the best"));
}

/// One memory at two widths: d_dot and state follow the width.
RecordMap widths() {
  RecordMap records;
  for (const int width : {64, 256})
    for (int seed = 1; seed <= 3; ++seed) {
      Record& record = add_record(
          records, "deltanet", seed, width / 2,
          {{"task.name", "mqar"}, {"task.length", 256}, {"task.pairs", 16}, {"model.width", width}}, 0.1);
      record.state_size = width * width / 2;
      record.eval_accuracy = (width == 64 ? 0.75 : 0.98) + 0.01 * seed;
      record.metrics["chance_accuracy"] = 0.25;
    }
  return records;
}

// A study that is shorter than the published one draws none of its points as if they were of the same training.
TEST_F(FigureTest, PublishedPointsOfALongerTrainingAreLeftOut) {
  RecordMap records = widths();
  for (auto& [key, record] : records) record.config["train.epochs"] = 8;
  PublishedPoint point;
  point.label = "deltanet", point.has_loss = false;
  point.metrics = {{"eval_accuracy", 0.793}, {"state_bytes", 8960}};
  point.known = {{"task.name", "mqar"}, {"model.width", "64"}, {"train.epochs", "32"}};
  PublishedPoint rival = point;
  rival.label = "rival";
  options_.published = {point, rival};
  for (const char* x : {"state_bytes", "model.width"}) {
    options_.x = x;
    EXPECT_THAT(rows_of(draw("accuracy", records), "published"), IsEmpty()) << x;
    EXPECT_THAT(notes(), HasSubstr("2 of 2 published points are left out: 1 are of another training: "
                                   "train.epochs (8, published 32), 1 have no run here"));
  }
  for (auto& [key, record] : records) record.config["train.epochs"] = 32;
  EXPECT_THAT(rows_of(draw("accuracy", records), "published"), SizeIs(2));
}

TEST_F(FigureTest, AccuracyStandsAgainstWhatVariesInOneLineALabel) {
  const std::string csv = draw("accuracy", widths());
  EXPECT_THAT(csv, HasSubstr("label,d_dot,model.width,n,median,lo,hi\n"));
  EXPECT_THAT(rows_of(csv, "deltanet"),
              ElementsAre("deltanet,,64,3,0.77,0.76,0.78", "deltanet,,256,3,1,0.99,1.01"));
  EXPECT_THAT(rows_of(csv, "theory: chance"), SizeIs(2));
  options_.x = "state_bytes";
  PublishedPoint point;
  point.label = "deltanet", point.has_loss = false;
  point.metrics = {{"eval_accuracy", 0.793}, {"state_bytes", 8960}};
  point.known = {{"task.name", "mqar"}, {"model.width", "64"}};
  PublishedPoint other = point;
  other.known["task.length"] = "512";
  options_.published = {point, other};
  const std::string bytes = draw("accuracy", widths());
  EXPECT_THAT(rows_of(bytes, "deltanet"),
              ElementsAre("deltanet,,8192,3,0.77,0.76,0.78", "deltanet,,131072,3,1,0.99,1.01"));
  EXPECT_THAT(rows_of(bytes, "published"), ElementsAre("published: deltanet,,8960,1,0.793,,"));
  EXPECT_THAT(notes(), HasSubstr("1 of 2 published points are left out: 1 have no run here"));
  PublishedPoint rival = point;
  rival.label = "rival", rival.metrics = {{"eval_accuracy", 0.5}, {"state_bytes", 100}};
  PublishedPoint without = rival;
  without.metrics.erase("state_bytes");
  options_.published = {rival, without};
  EXPECT_THAT(rows_of(draw("accuracy", widths()), "published"), ElementsAre("published: rival,,100,1,0.5,,"));
  EXPECT_THAT(notes(), HasSubstr("1 of 2 published points are left out: 1 have no state_bytes"));
  options_.published.clear();
  options_.x = "task.colour";
  EXPECT_THAT(refusal("accuracy", widths()), HasSubstr("choose another key with --x"));
  options_.x = "width";
  EXPECT_THAT(refusal("accuracy", widths()),
              HasSubstr("no record has a number width; did you mean --x model.width?"));
}

// Where nothing but the rate varies, it is the axis: a figure of it all would pool over it.
// What nothing comes below stands behind losses, not behind accuracies, and only where the records agree on it.
TEST_F(FigureTest, LossesOfRegressionStandBeforeTheirOptimum) {
  RecordMap records;
  for (const int pairs : {8, 32})
    for (int seed = 1; seed <= 2; ++seed)
      add_record(records, "delta", seed, 16, {{"task.name", "regression"}, {"task.pairs", pairs}}, 0.3)
          .metrics = {{"test_loss", 0.31}, {"test_accuracy", 0.8}, {"optimum_loss", 1.0 / pairs}};
  options_.metric = "test_loss";
  EXPECT_THAT(rows_of(draw("accuracy", records), "theory: optimum"),
              ElementsAre("theory: optimum,,8,0,0.125,,", "theory: optimum,,32,0,0.03125,,"));
  options_.metric = "test_accuracy";
  EXPECT_THAT(rows_of(draw("accuracy", records), "theory: optimum"), IsEmpty());
  options_.metric = "test_loss";
  records.begin()->second.metrics["optimum_loss"] = 0.2;
  EXPECT_THAT(rows_of(draw("accuracy", records), "theory: optimum"), SizeIs(1));
}

TEST_F(FigureTest, AccuracyStandsAgainstTheRateWhereNothingElseVaries) {
  RecordMap records;
  for (const double rate : {1e-3, 1e-2})
    add_record(records, "deltanet", 1, 64,
               {{"task.name", "mqar"}, {"model.width", 64}, {"train.learning_rate", rate}}, 0.1)
        .eval_accuracy = rate < 5e-3 ? 0.5 : 0.75;
  EXPECT_THAT(rows_of(draw("accuracy", records), "deltanet"),
              ElementsAre("deltanet,,0.001,1,0.5,0.5,0.5", "deltanet,,0.01,1,0.75,0.75,0.75"));
}

/// Two labels whose capacity is d_dot, or beyond the grid (32), or below it.
RecordMap sizes() {
  RecordMap records;
  for (int seed = 1; seed <= 3; ++seed)
    for (const int load : {4, 8, 16, 32}) {
      for (const int d_key : {4, 8}) {
        add_recall(records, "linear", seed, d_key, load, load <= d_key ? 0.0005 : 0.25, d_key);
        add_recall(records, "dpfp2", seed, 4 * d_key, load, load <= 4 * d_key ? 0.0005 : 0.25, d_key);
      }
      add_recall(records, "linear", seed, 2, load, 0.25, 2);
      add_recall(records, "softmax", seed, 0, load, 0.0005, 4);
    }
  return records;
}

TEST_F(FigureTest, CapacityAgainstDdotGolden) {
  const std::string csv = draw("capacity-vs-ddot", sizes());
  EXPECT_THAT(csv, StartsWith("label,d_dot,d_key,n,median,lo,hi,censored,unsolved\n"
                              "linear,2,2,3,0,0,4,0,4\n"
                              "linear,4,4,3,4,4,8,0,8\n"
                              "linear,8,8,3,8,8,16,0,16\n"
                              "dpfp2,16,4,3,16,16,32,0,32\n"
                              "dpfp2,32,8,3,32,32,inf,1,inf\n"));
  const auto fit = rows_of(csv, "fit: slope,");
  ASSERT_EQ(fit.size(), 1u);
  double slope = 0, lo = 0, hi = 0;
  ASSERT_EQ(std::sscanf(fit[0].c_str(), "fit: slope,,,5,%lf,%lf,%lf,0", &slope, &lo, &hi), 3) << fit[0];
  EXPECT_LT(lo, slope);
  EXPECT_LT(slope, hi);
  EXPECT_NEAR(slope, 1.4, 0.3);  // between the brackets' lower and upper ends, and open above at 32
  EXPECT_THAT(csv, HasSubstr("theory: capacity of the rank bound,16,,0,16,,,0,\n"));
  EXPECT_THAT(notes(), HasSubstr("softmax has no d_dot"));
}

TEST_F(FigureTest, CapacityThresholdMoves) {
  options_.threshold = 0.3;  // now all is solved
  EXPECT_THAT(draw("capacity-vs-ddot", sizes()), HasSubstr("linear,2,2,3,32,32,inf,1,inf\n"));
  EXPECT_THAT(notes(), HasSubstr("no slope"));
}

TEST_F(FigureTest, SolvedIsWhatTheStudyStopsAt) {
  RecordMap records = sizes();
  for (auto& [id, record] : records) {
    record.config["train.stop_loss"] = 0.01;
    if (record.eval_loss < 0.001) record.eval_loss = 0.009;  // where it stopped
  }
  EXPECT_THAT(draw("capacity-vs-ddot", records), HasSubstr("linear,8,8,3,8,8,16,0,16\n"));
  EXPECT_THAT(script(), HasSubstr("(median validation loss at most 0.02, twice train.stop_loss)"));
  options_.threshold = 0.001;
  EXPECT_THAT(refusal("capacity-vs-ddot", records), HasSubstr("below train.stop_loss = 0.01"));
  options_.threshold = 0.02;
  EXPECT_EQ(refusal("capacity-vs-ddot", records), "(drawn)");
}

// The test loss of a run that stopped lies on either side of its validation loss: what is solved must not turn
// with the split that is shown.
TEST_F(FigureTest, WhatIsSolvedIsTheSameOnEverySplitAndInEveryFigure) {
  RecordMap records = sizes();
  RecordMap others;
  for (auto& [id, record] : records) {
    record.config["train.stop_loss"] = 0.01;
    record.config["train.learning_rate"] = 0.001;
    if (record.eval_loss < 0.001) record.eval_loss = 0.009;
    record.metrics["test_loss"] = record.eval_loss < 0.01 ? 0.019 : record.eval_loss;
    Record other = record;
    other.id.push_back('0');
    other.config["train.learning_rate"] = 0.1;
    other.eval_loss = 0.5;
    others.emplace(other.id, other);
  }
  records.merge(others);
  options_.where = {{"train.learning_rate", "0.001"}};
  const std::string plain = draw("capacity-vs-ddot", records);
  for (const char* figure : {"capacity", "updates"}) {
    draw(figure, records);
    EXPECT_THAT(script(), HasSubstr("\"solved\": 0.02")) << figure;
    EXPECT_THAT(script(), HasSubstr("Solved: median validation loss at most 0.02, twice train.stop_loss"))
        << figure;
  }
  options_.where.clear();
  options_.best = {"train.learning_rate"};
  std::string best = draw("capacity-vs-ddot", records);
  EXPECT_THAT(script(), HasSubstr("(median test loss at most 0.02, twice train.stop_loss)"));
  for (const char* row : {"linear,8,8,3,8,8,16,0,16", "dpfp2,16,4,3,16,16,32,0,32"}) {
    EXPECT_THAT(plain, HasSubstr(row));
    EXPECT_THAT(best, HasSubstr(row));
  }
}

TEST_F(FigureTest, DivergedRunsAreNotSolved) {
  RecordMap records;
  for (int seed = 1; seed <= 3; ++seed)
    for (const int load : {4, 8}) {
      Record& record = add_recall(records, "linear", seed, 8, load, 0.0005);
      if (load == 8 && seed > 1) record.status = RunStatus::diverged;
    }
  EXPECT_THAT(draw("capacity-vs-ddot", records), HasSubstr("linear,8,4,3,4,4,inf,0,8\n"));
  EXPECT_THAT(script(), HasSubstr("\"Linear (2/6 diverged)\""));
}

TEST_F(FigureTest, CapacityAgainstStateUsesTheStateAtTheCapacity) {
  const std::string csv = draw("capacity-vs-state", sizes());
  EXPECT_THAT(csv, StartsWith("label,d_dot,state_size,n,median,lo,hi,censored,unsolved\n"));
  EXPECT_THAT(csv, HasSubstr("linear,8,64,3,8,8,16,0,16\n"));     // 8 x 8 values
  EXPECT_THAT(csv, HasSubstr("dpfp2,16,256,3,16,16,32,0,32\n"));  // 16 x 16 values
  options_.x = "state_bytes";
  const std::string bytes = draw("capacity-vs-state", sizes());
  EXPECT_THAT(bytes, StartsWith("label,d_dot,state_bytes,n,median,lo,hi,censored,unsolved\n"));
  EXPECT_THAT(bytes, HasSubstr("linear,8,256,3,8,8,16,0,16\n"));
  EXPECT_THAT(script(), HasSubstr("\"x\": \"state_bytes\""));
  EXPECT_THAT(refusal("capacity", sizes()), HasSubstr("capacity-vs-state draws capacities against it"));
}

TEST_F(FigureTest, TrackingGolden) {
  RecordMap records;
  for (int seed = 1; seed <= 3; ++seed) {
    Record& record =
        add_record(records, "delta", seed, 8, {{"task.name", "swap"}, {"task.operations", 2}}, 0.1);
    record.profiles["accuracy_by_operations"] = {{0, 1, 2, 4}, {1, 1 - 0.125 * seed, 0.5, 0.25}};
    record.profiles["exact_by_operations"] = {{0, 4}, {1, 0.25 * seed}};
    record.metrics["chance_accuracy"] = 0.25;
  }
  EXPECT_EQ(draw("tracking", records),
            "label,d_dot,operations,n,median,lo,hi\n"
            "delta,8,0,3,1,1,1\n"
            "delta,8,1,3,0.75,0.625,0.875\n"
            "delta,8,2,3,0.5,0.5,0.5\n"
            "delta,8,4,3,0.25,0.25,0.25\n"
            "prefix-exact: delta,8,0,3,1,1,1\n"
            "prefix-exact: delta,8,4,3,0.5,0.25,0.75\n"
            "theory: chance,,0,0,0.25,,\n"
            "theory: chance,,4,0,0.25,,\n");
  EXPECT_THAT(script(), HasSubstr("\"vertical\": [2]"));
}

// 4 to 35 tokens are 16 groups of 2: an answer at the end of a sequence has none before it, so that no thin line is drawn.
TEST_F(FigureTest, LengthsWithOneAnswerStandTogether) {
  RecordMap records;
  Record& record =
      add_record(records, "delta", 1, 8, {{"task.name", "arithmetic"}, {"task.query_at", "end"}}, 0.1);
  for (int length = 4; length < 36; ++length) {
    record.profiles["accuracy_by_position"].x.push_back(length);
    record.profiles["accuracy_by_position"].y.push_back(length % 2 == 0 ? 0.25 : length < 20 ? 0.75 : 0.5);
  }
  record.profiles["exact_by_position"] = record.profiles["accuracy_by_position"];
  const std::string csv = draw("tracking", records);
  EXPECT_THAT(rows_of(csv, "delta,"), SizeIs(16));
  EXPECT_THAT(csv, HasSubstr("delta,8,5,1,0.5,0.5,0.5\n"));
  EXPECT_THAT(csv, HasSubstr("delta,8,35,1,0.375,0.375,0.375\n"));
  EXPECT_THAT(csv, Not(HasSubstr("prefix-exact")));
  EXPECT_THAT(script(), HasSubstr("Points: sequences of 2 neighbouring lengths."));
  EXPECT_THAT(script(), HasSubstr("Tokens before the answer"));
  record.config["task.query_at"] = "every";
  EXPECT_THAT(rows_of(draw("tracking", records), "delta,"), SizeIs(32));
}

TEST_F(FigureTest, CurvesAreDrawnAtTheLargestLoadAndHoldTheLastLoss) {
  RecordMap records;
  for (int seed = 1; seed <= 3; ++seed)
    for (const int load : {4, 8}) {
      Record& record = add_recall(records, "linear", seed, 4, load, 0.5);
      record.curves["eval_loss"] = {{100, 200}, {0.5, 0.0625 * seed}};
      if (load == 4) record.curves["eval_loss"].y[1] = 0.9;
      if (seed == 3) record.curves["eval_loss"] = {{100}, {0.25}};  // stopped early
    }
  EXPECT_EQ(draw("curves", records),
            "label,d_dot,step,n,median,lo,hi\n"
            "linear,4,100,3,0.5,0.25,0.5\n"
            "linear,4,200,3,0.125,0.0625,0.25\n");
  EXPECT_THAT(notes(), HasSubstr("drawn at task.associations = 8"));
  EXPECT_THAT(script(), HasSubstr("keeps its last value there"));
  RecordMap together = records;
  for (auto& [id, record] : together) record.curves["eval_loss"] = {{100, 200}, {0.5, 0.25}};
  draw("curves", together);
  EXPECT_THAT(script(), Not(HasSubstr("keeps its last value")));
  EXPECT_THAT(script(), HasSubstr("Evaluation loss $"));
  for (auto& [id, record] : together) record.config["model.name"] = "language";
  draw("curves", together);
  EXPECT_THAT(script(), HasSubstr("Evaluation loss (cross-entropy)"));
  options_.where["task.associations"] = "4";
  EXPECT_THAT(draw("curves", records), HasSubstr("linear,4,200,3,0.9,0.25,0.9\n"));
}

TEST_F(FigureTest, TheLossIsNamedByWhatWasTrained) {
  RecordMap records = two_memories();
  draw("capacity", records);
  EXPECT_THAT(script(), HasSubstr("Evaluation loss $"));
  for (auto& [id, record] : records) record.config["model.value_codes"] = 8;
  draw("capacity", records);
  EXPECT_THAT(script(), HasSubstr("Evaluation loss (cross-entropy)"));
  records.begin()->second.config["model.value_codes"] = 0;
  EXPECT_EQ(loss_formula(list_of(records)), "");  // of two kinds
  records.clear();
  add_record(records, "mine", 1, 0, {{"task.name", "mqar"}}, 2.1);
  EXPECT_EQ(loss_formula(list_of(records)), "");  // a table that does not say it
}

TEST_F(FigureTest, ALineIsOfOneTask) {
  RecordMap records;
  add_recall(records, "delta", 1, 4, 4, 0.0001);
  add_recall(records, "delta", 1, 4, 16, 0.4);
  add_recall(records, "delta", 1, 4, 8, 0.0001).config["task.name"] = "reassign";
  for (const char* figure : {"capacity", "capacity-vs-ddot"})
    EXPECT_THAT(
        refusal(figure, records),
        HasSubstr(
            "differ in task.name (reassign, recall), and a line is of one task; pick one, for example: --where task.name="));
  options_.where["task.name"] = "recall";
  EXPECT_THAT(draw("capacity-vs-ddot", records), HasSubstr("delta,4,4,1,4,4,16,0,16\n"));
}

TEST_F(FigureTest, LengthGolden) {
  RecordMap records;
  Record& record = add_recall(records, "sum", 1, 4, 8, 0.5);
  record.profiles["loss_by_length"] = {{1, 2, 8}, {0.001, 0.25, kNaN}};
  EXPECT_EQ(draw("length", records),
            "label,d_dot,length_factor,n,median,lo,hi\n"
            "sum,4,1,1,0.001,0.001,0.001\n"
            "sum,4,2,1,0.25,0.25,0.25\n");
  EXPECT_THAT(script(), HasSubstr("\"One seed.\""));
}

TEST_F(FigureTest, PublishedLengthsStandAtTheirMultiple) {
  RecordMap records;
  Record& record = add_record(
      records, "kda", 1, 4,
      {{"task.name", "words"}, {"task.group", "S3"}, {"task.length", 32}, {"model.d_key", 4}}, 0.1);
  record.profiles["scaled_accuracy_by_length"] = {{1, 4}, {1, 0.5}};
  PublishedPoint point;
  point.label = "kda", point.has_loss = false;
  point.metrics = {{"scaled_accuracy", 0.288}};
  point.known = {{"task.name", "words"}, {"task.group", "S3"}, {"task.length", "128"}};
  PublishedPoint other = point;
  other.known["task.group"] = "S4";
  options_.published = {point, other};
  EXPECT_THAT(rows_of(draw("length", records), "published"), ElementsAre("published: kda,4,4,1,0.288,,"));
  EXPECT_THAT(notes(), HasSubstr("1 of 2 published points are left out: 1 have no run here"));
}

TEST_F(FigureTest, UnknownFigureNamesTheNearest) {
  EXPECT_THAT(refusal("capcity", two_memories()), HasSubstr("did you mean \"capacity\"?"));
  EXPECT_THAT(refusal("xyz", two_memories()), HasSubstr("(figures: accuracy, capacity, capacity-vs-ddot, "));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "figure.csv"));
}

TEST_F(FigureTest, UnsuitableRecordsAreRefusedWithWhatIsNeeded) {
  EXPECT_THAT(refusal("capacity", {}), HasSubstr("no records"));
  EXPECT_THAT(
      refusal("tracking", two_memories()),
      HasSubstr(
          "needs records with a profile accuracy_by_operations or accuracy_by_position (tasks swap and words); these have neither curves nor "
          "profiles, as rows of an export: 'crosstalk export STORE --curves --out NAME.curves.csv'"));
  RecordMap others;
  add_recall(others, "a", 1, 4, 4, 0.1).profiles["loss_by_length"] = {{1}, {0.1}};
  EXPECT_THAT(refusal("tracking", others), HasSubstr("(tasks swap and words); they have task.name = recall"));
  EXPECT_THAT(refusal("length", two_memories()), HasSubstr("loss_by_length"));
  EXPECT_THAT(refusal("curves", two_memories()), HasSubstr("learning curve"));
  RecordMap swaps;
  add_record(swaps, "delta", 1, 4, {{"task.name", "swap"}}, 0.1);
  for (const char* name :
       {"capacity", "updates", "capacity-vs-ddot", "capacity-vs-state", "capacity-vs-parameters"})
    EXPECT_THAT(refusal(name, swaps), HasSubstr("task.associations")) << name;
  RecordMap failed = two_memories();
  for (auto& [id, record] : failed) record.status = RunStatus::failed;
  EXPECT_THAT(refusal("capacity", failed), HasSubstr("all 18 runs failed"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "figure.csv"));
}

TEST_F(FigureTest, PoolsOverSeedsOnly) {
  RecordMap records = two_memories();
  for (auto& [id, record] : records) record.config["train.learning_rate"] = record.seed == 2 ? 0.003 : 0.001;
  EXPECT_THAT(
      refusal("capacity", records),
      HasSubstr("differ in train.learning_rate (0.001, 0.003), and a figure pools over seeds only; pick "
                "one, for example: --where train.learning_rate=0.001"));
  RecordMap sized = records;  // an embedding is as large as its task: the rate is what was chosen
  for (auto& [id, record] : sized) record.config["model.embedding"] = 16 + record.seed % 2;
  EXPECT_THAT(refusal("capacity", sized), HasSubstr("for example: --where train.learning_rate=0.001"));
  options_.where["train.learning_rate"] = "1e-3";
  EXPECT_THAT(draw("capacity", records), HasSubstr("linear,5,8,2,"));
}

TEST_F(FigureTest, EveryFigureOfTheListDrawsOrSaysWhatItNeeds) {
  ASSERT_GE(figure_kinds().size(), 12u);
  for (const FigureKind& kind : figure_kinds()) {
    EXPECT_FALSE(kind.summary.empty());
    EXPECT_THAT(refusal(kind.name, two_memories()), Not(HasSubstr("no figure"))) << kind.name;
  }
}

/// One label at two learning rates and two strengths: one rate is better in validation, the other in the
/// test.
RecordMap rates() {
  RecordMap records;
  for (const int load : {4, 8})
    for (const double beta : {1.0, 2.0})
      for (const double rate : {0.001, 0.01})
        for (int seed = 1; seed <= 3; ++seed) {
          Record& record = add_recall(records, "delta", seed, 4, load, rate == 0.01 ? 0.1 : 0.2);
          record.config["train.learning_rate"] = rate;
          record.config["memory.beta_max"] = beta;
          record.metrics["test_loss"] = (rate == 0.01 ? 0.3 : 0.05) + beta;
          record.metrics["parameters"] = 100 * beta;
        }
  return records;
}

TEST_F(FigureTest, BestIsChosenByValidationAndShownOnTheTestSplit) {
  options_.by = {"memory.beta_max"};
  options_.best = {"train.learning_rate"};
  const std::string csv = draw("capacity", rates());
  EXPECT_THAT(csv, HasSubstr("label,d_dot,associations,n,median,lo,hi,memory.beta_max,selected\n"));
  EXPECT_THAT(csv,
              HasSubstr("\"delta, memory.beta_max = 1\",4,8,3,1.3,1.3,1.3,1,train.learning_rate=0.01\n"));
  EXPECT_THAT(csv,
              HasSubstr("\"delta, memory.beta_max = 2\",4,8,3,2.3,2.3,2.3,2,train.learning_rate=0.01\n"));
  EXPECT_THAT(script(), HasSubstr("\"ylabel\": \"Test loss"));
  EXPECT_THAT(script(), HasSubstr("$\\\\beta_{\\\\max}$ = 2"));
  EXPECT_THAT(script(), HasSubstr("the untouched test split"));
  RecordMap old = rates();
  for (auto& [id, record] : old) record.metrics.erase("test_loss");
  EXPECT_THAT(refusal("capacity", old), HasSubstr("no record has a test_loss"));
  options_.best = {"train.batch"};
  EXPECT_THAT(refusal("capacity", rates()), HasSubstr("no record has the key \"train.batch\""));
  options_.best = {"task.name"};
  EXPECT_THAT(refusal("capacity", rates()), HasSubstr("no two runs differ in it alone"));
}

TEST_F(FigureTest, FacetsArePanelsOfOneFigure) {
  options_.facet = "memory.beta_max";
  options_.where = {{"train.learning_rate", "0.01"}};
  const std::string csv = draw("capacity", rates());
  EXPECT_THAT(csv, HasSubstr("label,d_dot,associations,n,median,lo,hi,memory.beta_max\n"));
  EXPECT_THAT(csv, HasSubstr("delta,4,4,3,0.1,0.1,0.1,1\n"));
  EXPECT_THAT(csv, HasSubstr("delta,4,4,3,0.1,0.1,0.1,2\n"));
  EXPECT_THAT(script(), HasSubstr("\"panels\": [[\"1\""));
  options_.facet = "memory.beta";
  EXPECT_THAT(refusal("capacity", rates()), HasSubstr("did you mean \"memory.beta_max\"?"));
}

/// Two labels at two sizes, each with a d_dot of its own.
RecordMap two_sizes() {
  RecordMap records;
  for (const int d_key : {4, 8})
    for (const int load : {2, 16})
      for (int seed = 1; seed <= 2; ++seed) {
        add_recall(records, "linear", seed, d_key, load, 0.1 * seed, d_key);
        add_recall(records, "dpfp1", seed, 2 * d_key, load, 0.2 * seed, d_key);
      }
  return records;
}

// d_dot belongs to the panel: a label has one entry, one colour and one dash in all of them.
TEST_F(FigureTest, AFacetOfSizesHasOneEntryALabel) {
  options_.facet = "model.d_key";
  draw("capacity", two_sizes());
  EXPECT_THAT(
      script(),
      HasSubstr("LINES = {  # (label, d_dot) in the CSV, 0 for any d_dot: legend, colour, marker, dash\n"
                "    (\"linear\", 0): (\"Linear\", \"#0072B2\", \"s\", \"-\"),\n"
                "    (\"dpfp1\", 0): (\"DPFP-1\", \"#D55E00\", \"^\", \"-\"),\n}\n"));
  // Where panels hold several sizes, each is an entry, the same in all panels.
  options_.facet = "task.associations";
  draw("capacity", two_sizes());
  EXPECT_THAT(script(),
              HasSubstr(R"py(("linear", 4): ("Linear ($d_{\\mathrm{dot}}$ = 4)", "#0072B2", "s", "-"))py"));
  EXPECT_THAT(script(),
              HasSubstr(R"py(("linear", 8): ("Linear ($d_{\\mathrm{dot}}$ = 8)", "#0072B2", "s", "--"))py"));
}

TEST_F(FigureTest, ASizeIsSaidOnce) {
  options_.by = {"model.d_key"};
  draw("capacity", two_sizes());
  EXPECT_THAT(script(), HasSubstr("(\"Linear, $d_{\\\\mathrm{key}}$ = 4\","));
}

// One wrong seed in one panel: the footnote says its seeds once, and the note says where.
TEST_F(FigureTest, WhatIsSaidOfPanelsIsSaidOnceAndNamesThem) {
  RecordMap records = two_sizes();
  std::erase_if(records, [](const auto& entry) {
    const Record& record = entry.second;
    return record.label == "linear" && record.seed == 2 && record.config["model.d_key"] == 8 &&
           record.config["task.associations"] == 2;
  });
  options_.facet = "model.d_key";
  draw("capacity", records);
  const std::string text = caption();
  EXPECT_THAT(text, HasSubstr("Lines: median over 1 to 2 seeds; "));
  EXPECT_EQ(text.find("Lines: median"), text.rfind("Lines: median"));
  EXPECT_THAT(notes(),
              HasSubstr("model.d_key = 8: missing seeds: linear has 1 of 2 at task.associations = 2\n"));
  draw("capacity-vs-state", records);
  EXPECT_THAT(notes(), HasSubstr("no memory solves its smallest number of associations"));  // in both
  for (auto& [id, record] : records)
    if (record.config["model.d_key"] == 4) record.eval_loss = 0.001;
  draw("capacity-vs-state", records);
  EXPECT_THAT(
      notes(),
      HasSubstr(
          "model.d_key = 8: no memory solves its smallest number of associations (median validation loss at most 0.002"));
}

// Every point of one panel has one seed, every point of the other two: no line lacks any.
TEST_F(FigureTest, SeedsOfPanelsStandAboveThem) {
  RecordMap records = two_sizes();
  std::erase_if(records, [](const auto& entry) {
    return entry.second.seed == 2 && entry.second.config["model.d_key"] == 4;
  });
  options_.facet = "model.d_key";
  draw("capacity", records);
  EXPECT_THAT(script(), HasSubstr("= 4, one seed\"]"));
  EXPECT_THAT(script(), HasSubstr("= 8, 2 seeds\"]"));
  EXPECT_THAT(script(), HasSubstr("\"Linear\""));
  EXPECT_THAT(script(), Not(HasSubstr("/2 seeds)")));
  // Panels of studies are named by them.
  for (auto& [id, record] : records)
    record.study = record.config["model.d_key"] == 4 ? "released logs" : "ours";
  options_.facet = "study";
  draw("capacity", records);
  EXPECT_THAT(script(), HasSubstr("\"released logs, one seed\"]"));
}

TEST_F(FigureTest, LinesThatCoincideAreNamed) {
  RecordMap records;
  for (const int load : {4, 8, 16}) {
    add_recall(records, "gla", 1, 4, load, 0.01 * load);
    add_recall(records, "sum", 1, 4, load, 0.0101 * load);  // nobody sees the difference
    add_recall(records, "kda", 1, 4, load, 0.02 * load);
  }
  draw("capacity", records);
  EXPECT_THAT(script(), HasSubstr("Lines that coincide, the last in front: Sum and gla."));
  LabelledRecords titled;
  titled.rows = records;
  titled.labels = {{"sum", "", {}}, {"gla", "GLA, bare", {}}, {"kda", "", {}}};
  draw_figure("capacity", titled, options_, notes_);
  EXPECT_THAT(script(), HasSubstr(R"(the last in front: "Sum" and "GLA, bare".)"));
  std::erase_if(records, [](const auto& entry) { return entry.second.label == "sum"; });
  draw("capacity", records);
  EXPECT_THAT(script(), Not(HasSubstr("coincide")));
}

TEST_F(FigureTest, MetricsWidthsAndFootnotes) {
  options_.where = {{"train.learning_rate", "0.01"}, {"memory.beta_max", "1"}};
  options_.metric = "parameters";
  EXPECT_THAT(draw("capacity", rates()), HasSubstr("delta,4,8,3,100,100,100\n"));
  options_.metric = "eval_los";
  EXPECT_THAT(refusal("capacity", rates()), HasSubstr("did you mean eval_loss?"));
  options_.metric = "";
  options_.venue = "icml";
  options_.footnote = false;
  draw("capacity", rates());
  EXPECT_THAT(script(), HasSubstr("WIDTH = 3.25"));
  EXPECT_THAT(script(), HasSubstr("STIXGeneral"));
  EXPECT_THAT(script(), HasSubstr("\"footnote\": \"\""));
  options_.venue = "nature";
  EXPECT_THAT(refusal("capacity", rates()), HasSubstr("no venue \"nature\"; there are neurips"));
}

TEST_F(FigureTest, TitlesAndOrderComeFromTheStudy) {
  LabelledRecords rows;
  rows.rows = two_memories();
  rows.labels = {{"linear", "Linear, $\\phi = 1 + \\mathrm{elu}$", {}}, {"softmax", "", {}}};
  draw_figure("capacity", rows, options_, notes_);
  const std::string text = script();
  EXPECT_LT(text.find("(\"linear\", 5):"), text.find("(\"softmax\", 0):"));
  EXPECT_THAT(text, HasSubstr("Linear, $\\\\phi = 1"));
}

TEST_F(FigureTest, RunsThatEndedTooSoonAreCountedBelow) {
  RecordMap records;
  for (const int load : {10, 20})
    for (const int seed : {1, 2}) {
      Record& record = add_recall(records, "linear", seed, 4, load, 0.1);
      record.steps = 80;
      record.config["train.max_steps"] = 80;
      for (int i = 1; i <= 8; ++i) {
        record.curves["eval_loss"].x.push_back(10 * i);
        record.curves["eval_loss"].y.push_back(load == 20 && seed == 2 ? 1. / i : 0.1);
      }
    }
  draw("capacity", records);
  EXPECT_THAT(script(), HasSubstr("1 of 4 runs ended at the last step while the loss still fell."));
  std::ostringstream notes;
  EXPECT_THAT(table_text("final", rows_of(records), options_, TableFormat::markdown, notes),
              HasSubstr("1 of 4 runs"));
  options_.where = {{"verdict", "plateau"}};
  draw("capacity", records);
  EXPECT_THAT(script(), Not(HasSubstr("still fell")));
}

}  // namespace crosstalk::figure_test

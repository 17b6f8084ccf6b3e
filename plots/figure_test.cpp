// What figures put into their CSV and into the settings of their script.
// SPDX-License-Identifier: Apache-2.0
#include "plots/figure.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "plots/test_records.h"

namespace crosstalk {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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
            "softmax,0,2,3,0.0005,0.0005,0.0005\n"
            "softmax,0,4,3,0.0005,0.0005,0.0005\n"
            "softmax,0,8,3,0.0005,0.0005,0.0005\n"
            "linear,5,2,3,0.002,0.001,0.003\n"
            "linear,5,4,3,0.02,0.01,0.04\n"
            "linear,5,8,3,0.25,0.2,0.375\n");
  EXPECT_THAT(script(),
              HasSubstr(R"py(("linear", 5): ("Linear ($d_{\\mathrm{dot}}$ = 5)", "#0072B2", "s", "-"))py"));
  EXPECT_THAT(script(), HasSubstr(R"py(("softmax", 0): ("Softmax", "#000000")py"));
  EXPECT_THAT(script(), HasSubstr("median over 3 seeds; bands: range over seeds."));
}

TEST_F(FigureTest, CapacityTheoryIsTheRankBoundOfEachMemoryWithFeatures) {
  const std::string csv = draw("capacity", two_memories());
  EXPECT_TRUE(rows_of(csv, "\"theory: rank bound, softmax").empty());
  bool has_kink = false;
  const auto rows = rows_of(csv, "\"theory: rank bound, linear\",5,");
  ASSERT_GE(rows.size(), 7u);
  for (const std::string& row : rows) {
    double load = 0, bound = -1;
    ASSERT_EQ(std::sscanf(row.c_str(), "\"theory: rank bound, linear\",5,%lf,0,%lf,,", &load, &bound), 2)
        << row;
    EXPECT_TRUE(std::abs(bound - 0.5 * std::max(0.0, 1 - 5 / load)) <= 1e-15) << row;
    has_kink = has_kink || load == 5;
  }
  EXPECT_TRUE(has_kink);
}

TEST_F(FigureTest, FourSeedsGiveAnInterquartileRange) {
  RecordMap records;
  for (int seed = 1; seed <= 5; ++seed) add_recall(records, "softmax", seed, 0, 2, seed * 0.125);
  EXPECT_THAT(draw("capacity", records), HasSubstr("softmax,0,2,5,0.375,0.25,0.5\n"));
  EXPECT_THAT(script(), HasSubstr("interquartile range"));
}

TEST_F(FigureTest, MissingSeedsAreSaid) {
  RecordMap records = two_memories();
  Record& failed = add_recall(records, "linear", 4, 5, 8, kNaN);
  failed.status = RunStatus::failed;  // no result: a missing seed, not a fourth one
  records.erase("ct-100003");         // softmax, load 2, seed 2
  EXPECT_THAT(draw("capacity", records), HasSubstr("softmax,0,2,2,"));
  EXPECT_THAT(script(), HasSubstr("\"Softmax (2-3/3 seeds)\""));
  EXPECT_THAT(script(), HasSubstr("= 5)\""));
  EXPECT_THAT(notes(), HasSubstr("missing seeds: softmax has 2 of 3 at task.associations = 2\n"));

  options_.expected_seeds = 5;
  draw("capacity", records);
  EXPECT_THAT(script(), HasSubstr("= 5, 3/5 seeds)\""));
  EXPECT_THAT(notes(), HasSubstr("missing seeds: linear has 3 of 5\n"));
}

TEST_F(FigureTest, DivergedRunsAreCountedAndLeftOutOfTheMedian) {
  RecordMap records = two_memories();
  for (auto& [id, record] : records) {
    if (record.label != "linear" || record.config["task.associations"] != 8) continue;
    if (record.seed == 1) record.status = RunStatus::diverged;
    if (record.seed == 3) record.eval_loss = std::numeric_limits<double>::infinity();
  }
  EXPECT_THAT(draw("capacity", records), HasSubstr("linear,5,8,1,0.2,0.2,0.2\n"));
  EXPECT_THAT(script(), HasSubstr("= 5, 2 diverged)\""));
  EXPECT_THAT(script(), Not(HasSubstr("/3 seeds")));  // a diverged run is not a missing one
  EXPECT_THAT(notes(), HasSubstr("2 of linear's runs"));

  for (auto& [id, record] : records)
    if (record.label == "linear") record.eval_loss = kNaN;
  EXPECT_THAT(draw("capacity", records), HasSubstr("linear,5,8,0,,,\n"));
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

TEST_F(FigureTest, UpdatesDrawTheSumRuleFloorOfTheRecords) {
  RecordMap records = two_memories();
  for (auto& [id, record] : records)
    record.metrics["sum_rule_floor"] = 0.01 * record.config["task.associations"].get<int>();
  const std::string csv = draw("updates", records);
  EXPECT_THAT(rows_of(csv, "theory"), ::testing::ElementsAre("theory: sum-rule floor,0,2,0,0.02,,",
                                                             "theory: sum-rule floor,0,4,0,0.04,,",
                                                             "theory: sum-rule floor,0,8,0,0.08,,"));
  EXPECT_THAT(script(), HasSubstr("\"yscale\": \"log\""));
  options_.theory = false;
  EXPECT_THAT(draw("updates", records), Not(HasSubstr("theory")));
}

TEST_F(FigureTest, PublishedPointsOfTheSettingAndOfDrawnLabels) {
  options_.published = folder_ / "published.csv";
  write(options_.published,
        "label,setting,S_unique_keys,note,final_eval_loss\n"
        "linear,1,8,\"a, b\",0.31\nlinear,1,4,,0.03\nlinear,2,8,,0.77\ndpfp2,1,8,,0.5\n");
  const std::string csv = draw("capacity", two_memories());
  EXPECT_THAT(rows_of(csv, "published"),
              ::testing::ElementsAre("published: linear,5,4,1,0.03,,", "published: linear,5,8,1,0.31,,"));
  EXPECT_THAT(script(), HasSubstr(R"py(("published: linear", 5): "#0072B2")py"));
  EXPECT_THAT(script(), HasSubstr("median over 3 seeds"));
  EXPECT_THAT(rows_of(draw("updates", two_memories()), "published"),
              ::testing::ElementsAre("published: linear,5,8,1,0.77,,"));

  write(options_.published, "label,setting,S_unique_keys\nlinear,1,8\n");
  EXPECT_THAT(refusal("capacity", two_memories()), HasSubstr("need a column 'final_eval_loss'"));
  write(options_.published, "label,setting,S_unique_keys,final_eval_loss\nlinear,1,8,good\n");
  EXPECT_THAT(refusal("capacity", two_memories()),
              HasSubstr(":2: column 'final_eval_loss': 'good' is not a number"));
  options_.published = folder_ / "nowhere.csv";
  EXPECT_THAT(refusal("capacity", two_memories()), HasSubstr("nowhere.csv\" cannot be read"));
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
  // Three uncensored points on capacity = d_dot with d_dot 4, 8, 16: the slope is 1 (its interval is a
  // point).
  const std::string csv = draw("capacity-vs-ddot", sizes());
  EXPECT_THAT(csv, ::testing::StartsWith("label,d_dot,d_key,n,median,lo,hi,censored\n"
                                         "linear,2,2,3,0,0,0,0\n"
                                         "linear,4,4,3,4,4,4,0\n"
                                         "linear,8,8,3,8,8,8,0\n"
                                         "dpfp2,16,4,3,16,16,16,0\n"
                                         "dpfp2,32,8,3,32,32,32,1\n"));
  const auto fit = rows_of(csv, "fit: slope,");
  ASSERT_EQ(fit.size(), 1u);
  double slope = 0, lo = 0, hi = 0;
  ASSERT_EQ(std::sscanf(fit[0].c_str(), "fit: slope,0,,3,%lf,%lf,%lf,0", &slope, &lo, &hi), 3) << fit[0];
  for (const double value : {slope, lo, hi}) EXPECT_TRUE(std::abs(value - 1) <= 1e-12) << fit[0];
  EXPECT_THAT(csv, HasSubstr("theory: capacity = d_dot,32,,0,32,,,0\n"));
  EXPECT_THAT(script(), HasSubstr("Fit: slope 1.00 [1.00, 1.00]"));
  EXPECT_THAT(notes(), HasSubstr("softmax has no d_dot"));
}

TEST_F(FigureTest, CapacityThresholdMoves) {
  options_.threshold = 0.3;  // now all is solved
  EXPECT_THAT(draw("capacity-vs-ddot", sizes()), HasSubstr("linear,2,2,3,32,32,32,1\n"));
  EXPECT_THAT(notes(), HasSubstr("no slope"));
}

TEST_F(FigureTest, DivergedRunsAreNotSolved) {
  RecordMap records;
  for (int seed = 1; seed <= 3; ++seed)
    for (const int load : {4, 8}) {
      Record& record = add_recall(records, "linear", seed, 8, load, 0.0005);
      if (load == 8 && seed > 1) record.status = RunStatus::diverged;
    }
  EXPECT_THAT(draw("capacity-vs-ddot", records), HasSubstr("linear,8,4,3,4,4,"));
  EXPECT_THAT(script(), HasSubstr("\"Linear (2 diverged)\""));
}

TEST_F(FigureTest, CapacityAgainstStateUsesTheStateAtTheCapacity) {
  const std::string csv = draw("capacity-vs-state", sizes());
  EXPECT_THAT(csv, ::testing::StartsWith("label,d_dot,state_size,n,median,lo,hi,censored\n"));
  EXPECT_THAT(csv, HasSubstr("linear,8,64,3,8,8,8,0\n"));      // 8 x 8 values
  EXPECT_THAT(csv, HasSubstr("dpfp2,16,256,3,16,16,16,0\n"));  // 16 x 16 values
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
            "theory: chance,0,0,0,0.25,,\n"
            "theory: chance,0,4,0,0.25,,\n");
  EXPECT_THAT(script(), HasSubstr("\"vertical\": [2]"));
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
  options_.where["task.associations"] = "4";
  EXPECT_THAT(draw("curves", records), HasSubstr("linear,4,200,3,0.9,0.25,0.9\n"));
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

TEST_F(FigureTest, UnknownFigureNamesTheNearest) {
  EXPECT_THAT(refusal("capcity", two_memories()), HasSubstr("did you mean \"capacity\"?"));
  EXPECT_THAT(refusal("xyz", two_memories()), HasSubstr("(figures: capacity, updates, curves"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "figure.csv"));
}

TEST_F(FigureTest, UnsuitableRecordsAreRefusedWithWhatIsNeeded) {
  EXPECT_THAT(refusal("capacity", {}), HasSubstr("no records"));
  EXPECT_THAT(refusal("tracking", two_memories()),
              HasSubstr("needs records with a profile \"accuracy_by_operations\" (task swap); they have "
                        "task.name = recall"));
  EXPECT_THAT(refusal("length", two_memories()), HasSubstr("loss_by_length"));
  EXPECT_THAT(refusal("curves", two_memories()), HasSubstr("learning curve"));
  RecordMap swaps;
  add_record(swaps, "delta", 1, 4, {{"task.name", "swap"}}, 0.1);
  for (const char* name : {"capacity", "updates", "capacity-vs-ddot", "capacity-vs-state"})
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
  options_.where["train.learning_rate"] = "1e-3";
  EXPECT_THAT(draw("capacity", records), HasSubstr("linear,5,8,2,"));
}

TEST_F(FigureTest, EveryFigureOfTheListDrawsOrSaysWhatItNeeds) {
  ASSERT_EQ(figure_kinds().size(), 7u);
  for (const FigureKind& kind : figure_kinds()) {
    EXPECT_FALSE(kind.summary.empty());
    EXPECT_THAT(refusal(kind.name, two_memories()), Not(HasSubstr("no figure"))) << kind.name;
  }
}

}  // namespace
}  // namespace crosstalk

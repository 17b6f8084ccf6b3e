// Differences between labels, paired by seed: figure, table, what is bold, and the seeds that a difference needs.
// SPDX-License-Identifier: Apache-2.0
#include "results/test_refusal.h"

#include "plots/test_records.h"

namespace crosstalk::checks::difference_test {

/// Runs of mqar whose seeds have much in common: b is better than a by 0.1 at 4 pairs, and by nothing at 8.
RecordMap runs(int seeds, const std::vector<std::string>& labels = {"a", "b"}) {
  RecordMap records;
  for (const std::string& label : labels)
    for (int seed = 1; seed <= seeds; ++seed)
      for (const int pairs : {4, 8}) {
        Record& record =
            add_record(records, label, seed, 0,
                       {{"task.name", "mqar"}, {"task.pairs", pairs}, {"model.name", "language"}}, 1.0);
        const double own = label == "b" ? (pairs == 4 ? 0.1 : 0.001 * (seed % 2 == 0 ? seed : -seed)) : 0;
        record.eval_accuracy = 0.5 + 0.04 * std::sin(5 * seed) + own;
      }
  return records;
}

class DifferenceTest : public FigureTest {
 protected:
  std::string table(const RecordMap& records, TableFormat format = TableFormat::markdown,
                    const std::string& name = "difference") {
    return table_text(name, rows_of(records), options_, format, notes_);
  }
  std::string refusal_of(const std::string& name, const RecordMap& records) {
    return crosstalk::testing::refusal_of([&] { table(records, TableFormat::markdown, name); }, "(made)");
  }
};

TEST_F(DifferenceTest, ATableHasMediansIntervalsAndWins) {
  EXPECT_EQ(
      table(runs(7)),
      "| Memory | pairs = 4 | pairs = 8 |\n|---|--:|--:|\n"
      "| b | **0.1** [0.1, 0.1] 7/7 | -0.001 [-0.00553, 0.00453] 3/7 |\n"
      "\nDifference of evaluation accuracy. Median over 7 seeds [95 % confidence interval of the median]. Paired by seed, each minus a: above 0 is "
      "better. Behind the interval: seeds in which it is better. Bold: difference told from 0 (signed-rank test, Holm over 2).\n");
  options_.against = "b";
  EXPECT_THAT(table(runs(7)), HasSubstr("| a | **-0.1** [-0.1, -0.1] 0/7 | 0.001 [-0.00453, 0.00553] 4/7 |"));
  EXPECT_THAT(
      table(runs(6)),
      AllOf(
          Not(HasSubstr("**")),
          HasSubstr(
              "No difference can be told from 0: 2 comparisons need 7 shared seeds, 1 more than there are.")));
  EXPECT_THAT(table(runs(7), TableFormat::latex),
              HasSubstr("\\textbf{-0.1} {\\scriptsize [-0.1, -0.1] 0/7}"));
}

TEST_F(DifferenceTest, SeedsThatOnlyOneLabelHasAreNoPairs) {
  RecordMap records = runs(7);
  for (auto& [id, record] : records)
    if (record.label == "b" && record.seed > 2) record.seed += 4;  // 1, 2, 7, 8, 9, 10, 11
  EXPECT_THAT(table(records, TableFormat::csv),
              HasSubstr("label,d_dot,task.pairs,n,median,lo,hi,against,wins,p,p_holm,told\nb,,4,3,"));
  for (auto& [id, record] : records)
    if (record.label == "b") record.seed += 100;
  EXPECT_THAT(refusal_of("difference", records), HasSubstr("two labels with runs of one seed"));
}

TEST_F(DifferenceTest, OtherTasksArePairedByNoSeed) {
  RecordMap records = runs(3);
  for (auto& [id, record] : records)
    if (record.label == "b") record.config["task.name"] = "reassign";
  EXPECT_THAT(refusal_of("difference", records),
              HasSubstr("\"b\" is of task.name = reassign, \"a\" of mqar"));
}

TEST_F(DifferenceTest, WhatItIsHeldAgainst) {
  EXPECT_THAT(refusal_of("difference", runs(2, {"a"})), HasSubstr("there is only a"));
  options_.against = "deltanet";
  EXPECT_THAT(refusal_of("difference", runs(2, {"a", "deltanets"})),
              HasSubstr("did you mean \"deltanets\"?"));
  EXPECT_THAT(refusal_of("final", runs(2)), HasSubstr("final holds no label against another"));
  EXPECT_THAT(refusal("accuracy", runs(2)), HasSubstr("accuracy holds no label against another"));
  options_.against = "a";
  options_.log_y = true;
  EXPECT_THAT(refusal("difference", runs(2)), HasSubstr("leave out --log y"));
}

/// With --by each row is held against that of its own values, or all against one.
TEST_F(DifferenceTest, ByAKeyLikeIsHeldAgainstLike) {
  RecordMap records = runs(3);
  for (auto [id, record] : RecordMap(records)) {
    record.id += "0";
    record.config["model.width"] = 64;
    record.eval_accuracy += 0.25;
    records[record.id] = record;
  }
  for (auto& [id, record] : records)
    if (!record.config.contains("model.width")) record.config["model.width"] = 32;
  options_.by = {"model.width"};
  options_.against = "a";
  const std::string like = table(records);
  EXPECT_THAT(like, HasSubstr("| b | 32 | 0.1 [0.1, 0.1] 3/3 |"));
  EXPECT_THAT(like, HasSubstr("| b | 64 | 0.1 [0.1, 0.1] 3/3 |"));
  options_.against = "a, model.width = 32";
  const std::string one = table(records);
  EXPECT_THAT(one, HasSubstr("| a | 64 | 0.25 [0.25, 0.25] 3/3 |"));
  EXPECT_THAT(one, HasSubstr("| b | 64 | 0.35 [0.35, 0.35] 3/3 |"));
}

/// Two that diverged are equal, one that diverged is infinitely worse.
TEST_F(DifferenceTest, DivergedRuns) {
  RecordMap records = runs(3);
  options_.metric = "eval_loss";
  for (auto& [id, record] : records)
    if (record.label == "b" || record.seed == 1) record.eval_loss = std::numeric_limits<double>::infinity();
  EXPECT_THAT(table(records), HasSubstr("| b (6/6 diverged) | diverged [0, inf] 0/3 |"));
  options_.against = "b";
  EXPECT_THAT(table(records, TableFormat::latex), HasSubstr("$-\\infty$ {\\scriptsize [-$\\infty$, 0] 2/3}"));
}

TEST_F(DifferenceTest, TheFigureMarksWhatIsToldAndWhereZeroIs) {
  const std::string csv = draw("difference", runs(7));
  EXPECT_THAT(csv, StartsWith("label,d_dot,task.pairs,n,median,lo,hi,against,wins,p,p_holm,told\nb,,4,7,"));
  EXPECT_THAT(csv, HasSubstr(",a,7,0.015625,0.03125,1\n"));
  EXPECT_THAT(csv, HasSubstr(",a,3,"));
  EXPECT_THAT(csv, HasSubstr("theory: no difference,,"));
  EXPECT_THAT(script(), HasSubstr("\"theory\": \"Equal to a\""));
  EXPECT_THAT(caption(), AllOf(HasSubstr("Paired by seed, each minus a: above 0 is better."),
                               HasSubstr("Filled: difference told from 0 (signed-rank test, Holm over 2).")));
  // Holm's correction is for all panels together.
  RecordMap two = runs(7);
  for (auto& [id, record] : runs(7)) {
    Record& other = two["ct-9" + id.substr(3)] = record;
    other.id = "ct-9" + id.substr(3), other.config["model.width"] = 64;
  }
  for (auto& [id, record] : two)
    if (!record.config.contains("model.width")) record.config["model.width"] = 32;
  options_.facet = "model.width";
  EXPECT_THAT(draw("difference", two),
              AllOf(HasSubstr(",32,a,7,0.015625,0.0625,0\n"), Not(HasSubstr(",1\n"))));
  EXPECT_THAT(caption(), HasSubstr("No difference can be told from 0: 4 comparisons need 8 shared seeds"));
}

TEST_F(DifferenceTest, BoldIsBestBeyondDoubt) {
  EXPECT_THAT(table(runs(7), TableFormat::markdown, "final"), Not(HasSubstr("**")))
      << "eval_loss is one of all";
  options_.metric = "eval_accuracy";
  const std::string text = table(runs(7), TableFormat::markdown, "final");
  EXPECT_THAT(text, HasSubstr("| b | **0.")) << text;
  EXPECT_EQ(text.find("**", text.find("**", text.find("**") + 2) + 2), std::string::npos) << text;
  EXPECT_THAT(text,
              HasSubstr(" Bold: better than every other by the same seeds (signed-rank test, Holm over 2)."));
  EXPECT_THAT(
      table(runs(1), TableFormat::markdown, "final"),
      AllOf(Not(HasSubstr("**")),
            HasSubstr(" Nothing is bold: 2 comparisons need 7 shared seeds, 6 more than there are.")));
  EXPECT_THAT(table(runs(7, {"a"}), TableFormat::markdown, "final"), Not(HasSubstr("bold")));
  // A legend of bold, where nothing is, would be read as a verdict.
  const RecordMap equal = runs(7, {"a", "c"});
  for (const char* name : {"final", "difference"})
    EXPECT_THAT(table(equal, TableFormat::markdown, name),
                AllOf(Not(HasSubstr("**")), Not(HasSubstr("Bold:"))));
  EXPECT_THAT(
      table(equal, TableFormat::markdown, "final"),
      HasSubstr(
          " Nothing is bold: nothing is better than every other by the same seeds (signed-rank test, Holm over 2)."));
  draw("difference", equal);
  EXPECT_THAT(caption(), HasSubstr("No difference is told from 0 (signed-rank test, Holm over 2)."));
  // Solved are equal, and so are numbers that look the same.
  RecordMap records = runs(7);
  for (auto& [id, record] : records) record.config["train.stop_accuracy"] = 0.2;
  EXPECT_THAT(table(records, TableFormat::markdown, "final"), Not(HasSubstr("**")));
  records = runs(7);
  for (auto& [id, record] : records) record.eval_accuracy = 0.5 + (record.label == "b" ? 1e-6 : 0);
  EXPECT_THAT(table(records, TableFormat::markdown, "final"), Not(HasSubstr("**")));
}

TEST_F(DifferenceTest, TheSeedsThatADifferenceNeeds) {
  options_.metric = "eval_accuracy";
  EXPECT_THAT(
      detect_text(rows_of(runs(7)), options_, 0.05),
      ElementsAre(
          "a difference of 0.05 in eval_accuracy needs about 7 seeds to be told in four of five tables of 2 comparisons (from 7 to 7, which "
          "b and a need at task.pairs = 4); by the spread of 7 seeds"));
  RecordMap fewer = runs(7, {"a", "b", "c"});
  std::erase_if(fewer, [](const auto& one) { return one.second.label == "c" && one.second.seed > 3; });
  EXPECT_THAT(detect_text(rows_of(fewer), options_, 0.05).at(0), HasSubstr("by the spread of 3 to 7 seeds"));
  EXPECT_THAT(detect_text(rows_of(runs(3)), options_, 0.001).at(0),
              HasSubstr("by the spread of 3 seeds: a rough estimate"));
  EXPECT_THAT(detect_text(rows_of(runs(1)), options_, 0.05),
              ElementsAre(HasSubstr("no two labels have two seeds in common")));
}

/// Rates that were tried are no points, even where nothing else varies.
TEST_F(DifferenceTest, TheSeedsThatADifferenceNeedsAreThoseOfTheBestRate) {
  RecordMap records;
  for (auto [id, record] : runs(7)) {
    if (record.config["task.pairs"] == 8) continue;
    for (const double rate : {1e-3, 1e-2}) {
      record.id = id + (rate < 5e-3 ? "0" : "1");
      record.config["train.learning_rate"] = rate;
      record.eval_loss = rate;  // the smaller is the better one
      records[record.id] = record;
    }
  }
  options_.metric = "eval_accuracy";
  EXPECT_THAT(
      detect_text(rows_of(records), options_, 0.05),
      ElementsAre(
          "a difference of 0.05 in eval_accuracy needs about 6 seeds to be told in four of five tables; by the "
          "spread of 7 seeds at the train.learning_rate of the lowest validation loss"));
}

TEST_F(DifferenceTest, WhereBothAreAtChanceNothingIsTold) {
  RecordMap records = runs(8);
  for (auto& [id, record] : records) {
    record.metrics["chance_accuracy"] = 0.7;
    record.eval_accuracy += record.label == "b" ? 0.01 : 0;
  }
  EXPECT_THAT(table(records), AllOf(HasSubstr(" 8/8 at chance |"), Not(HasSubstr("**")),
                                    HasSubstr("No difference is told from 0")));
  draw("difference", records);
  EXPECT_THAT(caption(), HasSubstr("Where both are at chance nothing is told from 0."));
}

}  // namespace crosstalk::checks::difference_test

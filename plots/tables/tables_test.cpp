// Tables: golden text in three formats, and LaTeX that compiles where there is one.
// SPDX-License-Identifier: Apache-2.0
#include <regex>

#include "plots/tables/latex.h"
#include "plots/test_records.h"
#include "results/numbers/verdict.h"
#include "results/test_refusal.h"

namespace crosstalk::tables_test {

class TableTest : public FigureTest {
 protected:
  std::string table(const std::string& name, const LabelledRecords& rows, TableFormat format) {
    return table_text(name, rows, options_, format, notes_);
  }
  std::string markdown(const std::string& name, const LabelledRecords& rows) {
    return table(name, rows, TableFormat::markdown);
  }
  std::string markdown(const std::string& name, const RecordMap& rows) {
    return markdown(name, rows_of(rows));
  }
  std::string refusal(const std::string& name, const LabelledRecords& rows) {
    return crosstalk::testing::refusal_of([&] { markdown(name, rows); });
  }
};

LabelledRecords two_memories(int seeds = 3) {
  RecordMap records;
  for (int seed = 1; seed <= seeds; ++seed)
    for (const int load : {4, 8}) {
      add_recall(records, "a_b", seed, 4, load, load <= 4 ? 0.0005 : 0.1 * seed);
      add_recall(records, "softmax", seed, 0, load, 0.0004).state_size = 40;
    }
  LabelledRecords rows = rows_of(records);
  rows.labels = {{"a_b", "50 % of $\\beta_t$ & \xCE\xBD", {}}, {"softmax", "", {}}};
  return rows;
}

TEST_F(TableTest, MarkdownGolden) {
  EXPECT_EQ(
      markdown("final", two_memories()),
      "| Memory | $S$ = 4 | $S$ = 8 |\n"
      "|---|--:|--:|\n"
      "| 50 % of $\\beta_t$ & \xCE\xBD | 0.0005 [0.0005, 0.0005] | 0.2 [0.1, 0.3] |\n"
      "| Softmax | 0.0004 [0.0004, 0.0004] | 0.0004 [0.0004, 0.0004] |\n"
      "\nEvaluation loss $\\frac{1}{2}\\|y-\\hat{y}\\|^2$ of $S$ associations. Median over 3 seeds "
      "[range of 3 seeds (75 % interval)]. Nothing is bold: 2 comparisons need 7 shared seeds, 4 more than there are.\n");
}

/// Runs of MAD's tasks: two difficulties of compression, one of the others.
LabelledRecords mad_runs(bool all) {
  RecordMap records;
  const std::vector<nlohmann::json> tasks = {
      {{"task.name", "compression"}, {"task.vocabulary", 16}},
      {{"task.name", "compression"}, {"task.vocabulary", 32}},
      {{"task.name", "mad_recall"}, {"task.motif", 3}, {"task.noise", 0.0}},
      {{"task.name", "mad_recall"}, {"task.motif", 1}, {"task.noise", 0.0}},
      {{"task.name", "memorise"}},
      {{"task.name", "mad_recall"}, {"task.motif", 1}, {"task.noise", 0.2}},
      {{"task.name", "selective_copy"}},
      {{"task.name", "mqar"}}};
  for (int seed = 1; seed <= 3; ++seed)
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      if (!all && i == 4) continue;
      nlohmann::json config = tasks[i];
      config["model.name"] = "language";
      Record& record = add_record(records, "a", seed, 0, config, 0.5);
      record.eval_accuracy = record.metrics["test_accuracy"] = 0.1 * static_cast<double>(i) + 0.01 * seed;
    }
  return rows_of(records);
}

TEST_F(TableTest, MadIsSixTasksAndTheirMean) {
  options_.metric = "test_accuracy";
  const std::string text = markdown("mad", mad_runs(true));
  // Compression: the mean of 0 and 0.1; then 0.2, 0.3, .. 0.6; 0.02 more at the median seed.
  EXPECT_THAT(text, HasSubstr("| Memory | Compress | Fuzzy | Recall | Memorise | Noisy | Copy | Mean |\n"));
  EXPECT_THAT(text,
              HasSubstr("| a | 0.07 [0.06, 0.08] | 0.22 [0.21, 0.23] | 0.32 [0.31, 0.33] | 0.42 [0.41, 0.43] "
                        "| 0.52 [0.51, 0.53] | 0.62 [0.61, 0.63] | 0.362 [0.352, 0.372] |\n"));
  const std::string some = markdown("mad", mad_runs(false));
  EXPECT_THAT(some, HasSubstr("| Memory | Compress | Fuzzy | Recall | Noisy | Copy |\n"));  // and no mean
  // MAD's own score where all runs have it: in compression a = .02 of 16 classes and .12 of 32, with the mark.
  options_.metric = "";
  LabelledRecords scored = mad_runs(true);
  for (auto& [id, record] : scored.rows)
    if (record.config["task.name"] != "mqar")
      record.metrics["test_class_accuracy"] = record.metrics.at("test_accuracy");
  EXPECT_THAT(markdown("mad", scored), AllOf(HasSubstr("| a | 0.114 [0.105, 0.124] | 0.22 "),
                                             HasSubstr("\nTest accuracy, mean over classes on the")));
  options_.metric = "eval_loss";
  RecordMap other;
  add_recall(other, "a", 1, 4, 4, 0.1);
  EXPECT_THAT(refusal("mad", rows_of(other)), HasSubstr("experiments/mad.toml"));
}

/// Runs of a language model on tokens.
RecordMap token_runs(const std::string& key, const std::vector<int>& places) {
  RecordMap records;
  for (const char* label : {"a", "b"})
    for (int seed = 1; seed <= 3; ++seed)
      for (const int place : places) {
        nlohmann::json config = {{"task.name", "mqar"}, {"model.name", "language"}, {"model.width", 32}};
        config[key] = place;
        Record& record = add_record(records, label, seed, label[0] == 'a' ? 0 : place, config, 0.5);
        record.eval_accuracy = 0.75;
        record.metrics["test_accuracy"] = label[0] == 'a' ? 1 : 0.5;
        record.metrics["test_loss"] = 0.25;
      }
  return records;
}

TEST_F(TableTest, TokenTasksStandAtWhatVaries) {
  options_.metric = "test_accuracy";
  EXPECT_EQ(
      markdown("final", token_runs("task.pairs", {4, 16})),
      "| Memory | pairs = 4 | pairs = 16 |\n"
      "|---|--:|--:|\n"
      "| a | 1 [1, 1] | 1 [1, 1] |\n"
      "| b | 0.5 [0.5, 0.5] | 0.5 [0.5, 0.5] |\n"
      "\nTest accuracy. Median over 3 seeds [range of 3 seeds (75 % interval)]. Nothing is bold: 2 comparisons need "
      "7 shared seeds, 4 more than there are.\n");
  EXPECT_THAT(table("final", rows_of(token_runs("task.pairs", {4, 16})), TableFormat::csv),
              StartsWith("label,d_dot,task.pairs,n,median,lo,hi\na,,4,3,1,"));
  EXPECT_THAT(notes_.str(), Not(HasSubstr("task.associations")));
}

/// 54 runs at chance, 1 in 32, of 1,024 answers each; one of "a" at 16 pairs is above it.
RecordMap guesses() {
  RecordMap records = token_runs("task.pairs", {4, 16, 64});
  for (const auto& more : {token_runs("task.pairs", {5, 17, 65}), token_runs("task.pairs", {6, 18, 66})})
    for (const auto& [id, record] : more) {
      const auto key = std::to_string(records.size()) + id;
      records[key] = record;
      records[key].id = id + key;
    }
  int n = 0;
  for (auto& [id, record] : records) {
    record.metrics["chance_accuracy"] = 1. / 32;
    record.eval_accuracy = record.metrics["test_accuracy"] = 0.029 + 0.0002 * n++;
    record.steps = 600;
    record.config["train.max_steps"] = 600;
    record.curves["eval_loss"] = {{100, 200, 300, 400, 500, 600}, {4, 3.9, 3.8, 3.7, 3.6, 3.5}};
    record.config["memory.feature_map"] = record.label == "a" ? "silu" : "identity";
  }
  return records;
}

TEST_F(TableTest, SaysThatThereIsNothingToSee) {
  options_.metric = "test_accuracy";
  options_.answers = [](const Record&, const std::string&) { return 1024; };
  RecordMap records = guesses();
  ASSERT_EQ(records.size(), 54u);
  for (const auto& [id, record] : records) EXPECT_EQ(to_text(verdict_of(record)), "at_chance");
  const std::string text = markdown("final", records);
  EXPECT_THAT(text, HasSubstr("Chance: accuracy 0.0312; all 54 runs lie within its noise."));
  EXPECT_THAT(text, HasSubstr(" at chance |"));
  EXPECT_THAT(text, Not(HasSubstr("**")));
  const std::string latex = table("final", rows_of(records), TableFormat::latex);
  EXPECT_THAT(latex, HasSubstr("{\\scriptsize at chance}"));
  EXPECT_THAT(latex, HasSubstr("Labels differ in feature\\_map: identity (b), silu (a)."))
      << "of the caption";
  EXPECT_THAT(notes_.str(), Not(HasSubstr("Chance")));
  EXPECT_THAT(table("final", rows_of(records), TableFormat::csv),
              StartsWith("label,d_dot,task.pairs,n,median,lo,hi,at_chance\na,,4,3,"));
  EXPECT_THAT(notes_.str(), HasSubstr("Chance: accuracy 0.0312; all 54 runs"));
  EXPECT_THAT(notes_.str(), HasSubstr("Labels differ in feature_map: identity (b), silu (a)."));
  // A memory that has learned something is no guess.
  for (auto& [id, record] : records)
    if (record.label == "a") record.metrics["test_accuracy"] = 0.9;
  const std::string some = markdown("final", records);
  EXPECT_THAT(some, HasSubstr("27 of 54 runs lie within its noise."));
  EXPECT_THAT(some, HasSubstr("| 0.9 [0.9, 0.9] |"));
}

// A study that is still being trained: the columns of all of it, and how much is not there.
TEST_F(TableTest, PartOfAStudyKeepsItsColumns) {
  options_.metric = "test_accuracy";
  LabelledRecords rows = rows_of(token_runs("task.pairs", {4}));
  for (const auto& [id, run] : token_runs("task.pairs", {16})) rows.missing.push_back(run);
  const std::string text = markdown("final", rows);
  EXPECT_THAT(text, HasSubstr("| Memory | pairs = 4 | pairs = 16 |\n|---|--:|--:|\n| a | 1 [1, 1] |  |\n"));
  EXPECT_THAT(text, HasSubstr("Not whole yet: 6 of 12 runs are missing."));
  options_.where["task.pairs"] = "4";
  EXPECT_THAT(markdown("final", rows), Not(HasSubstr("missing")));
}

// Keys whose sizes differ between memories, as their layers have them, are no axis: every row would have one number.
TEST_F(TableTest, WhatVariesBetweenMemoriesAloneIsNoColumn) {
  RecordMap records = token_runs("task.pairs", {4});
  for (auto& [id, record] : records) record.config["model.d_key"] = record.label == "a" ? 64 : 128;
  options_.metric = "test_accuracy";
  EXPECT_THAT(markdown("final", records),
              HasSubstr("| Memory | Test accuracy |\n|---|--:|\n| a | 1 [1, 1] |\n| b | 0.5 [0.5, 0.5] |\n"));
}

// model.layer: one for all, or who has which; a column of --by says it as well.
TEST_F(TableTest, SayTheLayerOfLanguageModels) {
  RecordMap records = token_runs("task.pairs", {4});
  EXPECT_THAT(markdown("final", records), Not(HasSubstr("Layer")));
  for (auto& [id, record] : records) record.config["model.layer"] = "published";
  EXPECT_THAT(markdown("final", records), HasSubstr(" Layer: published.\n"));
  for (auto& [id, record] : records)
    if (record.label == "a") record.config["model.layer"] = "bare";
  EXPECT_THAT(table("final", rows_of(records), TableFormat::latex),
              HasSubstr(" Layer: published (b), bare (a).}"));
  for (auto& [id, record] : records) record.config["model.name"] = "retrieval";
  EXPECT_THAT(markdown("final", records), Not(HasSubstr("Layer")));
  for (auto& [id, record] : records) record.config["model.name"] = "language";
  options_.by = {"model.layer"};
  EXPECT_THAT(markdown("final", records), Not(HasSubstr("Layer:")));
}

// Table 1 of DeltaFormer: of softmax the loss takes 1e-3, the accuracy 3e-3.
TEST_F(TableTest, TheBestRateMayBeChosenByAccuracy) {
  RecordMap records;
  for (const double rate : {1e-3, 3e-3})
    for (int seed = 1; seed <= 3; ++seed) {
      Record& record = add_record(records, "a", seed, 0,
                                  {{"task.name", "mqar"},
                                   {"task.pairs", 4},
                                   {"model.name", "language"},
                                   {"train.learning_rate", rate}},
                                  rate < 2e-3 ? 0.03 : 0.04);
      record.eval_accuracy = rate < 2e-3 ? 0.990 : 0.995;
      record.metrics["test_accuracy"] = rate < 2e-3 ? 0.25 : 0.75;
    }
  options_.metric = "test_accuracy", options_.best = {"train.learning_rate"};
  EXPECT_THAT(markdown("final", records),
              AllOf(HasSubstr("0.25 ["), HasSubstr("lowest median validation loss")));
  options_.best_by = BestBy::accuracy;
  EXPECT_THAT(markdown("final", records),
              AllOf(HasSubstr("0.75 ["), HasSubstr("highest median validation accuracy")));
  for (auto& [id, record] : records) record.eval_accuracy = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(markdown("final", records), std::invalid_argument);
}

TEST_F(TableTest, WhereNothingVariesTheColumnIsTheMetric) {
  const LabelledRecords rows = rows_of(token_runs("task.length", {64}));
  EXPECT_THAT(markdown("final", rows), StartsWith("| Memory | Evaluation loss (cross-entropy) |\n"));
  options_.metric = "steps";
  EXPECT_THAT(markdown("final", rows), StartsWith("| Memory | Training steps |\n"));
}

TEST_F(TableTest, AnotherKeyMayBeAskedFor) {
  options_.x = "task.length";
  EXPECT_THAT(markdown("final", token_runs("task.length", {64, 128})),
              StartsWith("| Memory | length = 64 | length = 128 |\n"));
  options_.x = "task.widgets";
  EXPECT_THROW(markdown("final", token_runs("task.length", {64})), std::invalid_argument);
}

TEST_F(TableTest, AMetricWithoutItsSplitIsSuggestedWithOne) {
  options_.metric = "accuracy";
  EXPECT_THAT(refusal("final", rows_of(token_runs("task.pairs", {4}))),
              HasSubstr("--metric accuracy: no record has it; did you mean eval_accuracy or test_accuracy?"));
}

TEST_F(TableTest, LatexIsSafeAndBold) {
  const std::string text = table("capacity", two_memories(6), TableFormat::latex);
  EXPECT_THAT(text, HasSubstr("% needs \\usepackage{booktabs,graphicx}"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "\\toprule\nMemory & $d_{\\mathrm{dot}}$ & State size (floats) & Capacity (associations) \\\\\n\\midrule\n"));
  EXPECT_THAT(text, HasSubstr("50 \\% of $\\beta_t$ \\& $\\nu$ & 4 & 16 & 4 {\\scriptsize [4, 8)} \\\\\n"));
  EXPECT_THAT(text, HasSubstr("\\textbf{$\\geq$ 8} {\\scriptsize [8, $\\infty$)} \\\\\n"));
  EXPECT_THAT(text, HasSubstr("95 \\% confidence interval"));
}

/// As many memories and loads as are asked for.
LabelledRecords many(int memories, int loads) {
  RecordMap records;
  for (int m = 0; m < memories; ++m)
    for (int load = 4; load <= 4 * loads; load += 4)
      for (int seed = 1; seed <= 3; ++seed)
        add_recall(records, "memory_" + std::to_string(m), seed, 8, load, 0.0123 * load * seed);
  return rows_of(records);
}

/// Two memories on two tasks at two sizes, as a study with axes gives them: recall first.
LabelledRecords with_axes() {
  RecordMap records;
  LabelledRecords rows;
  for (const char* label : {"zeta", "alpha"})
    for (const char* task : {"recall", "reassign"})
      for (const int d_key : {4, 16})
        for (int seed = 1; seed <= 2; ++seed)
          for (const int load : {4, 8}) {
            Record& record =
                add_recall(records, label, seed, d_key, load, load == 4 ? 1e-4 : 0.1 * seed, d_key);
            record.config["task.name"] = task;
            record.state_size = 10 * d_key;
            rows.order.push_back(record.id);
          }
  rows.rows = records;
  rows.labels = {{"zeta", "", {}}, {"alpha", "A $\\alpha$", {}}};
  return rows;
}

TEST_F(TableTest, AnAxisIsAColumnAndItsValuesStandAsInTheStudy) {
  options_.by = {"task.name", "model.d_key"};
  const std::string text = markdown("final", with_axes());
  EXPECT_THAT(text, StartsWith("| Memory | task | $d_{\\mathrm{key}}$ | $S$ = 4 | $S$ = 8 |\n"
                               "|---|---|--:|--:|--:|\n"
                               "| zeta | recall | 4 | 0.0001 [0.0001, 0.0001] |"));
  std::vector<std::string> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line) && !line.empty();)
    if (line.find(" | 0.0001") != std::string::npos) rows.push_back(line.substr(0, line.find(" | 0.0001")));
  EXPECT_THAT(
      rows, ElementsAre("| zeta | recall | 4", "| zeta | recall | 16", "| zeta | reassign | 4",
                        "| zeta | reassign | 16", "| A $\\alpha$ | recall | 4", "| A $\\alpha$ | recall | 16",
                        "| A $\\alpha$ | reassign | 4", "| A $\\alpha$ | reassign | 16"));
  const std::string capacity = table("capacity", with_axes(), TableFormat::latex);
  EXPECT_THAT(capacity,
              HasSubstr("\\begin{tabular}{llrrrr}\n\\toprule\nMemory & task & $d_{\\mathrm{key}}$ & "
                        "$d_{\\mathrm{dot}}$ & State size (floats) & Capacity (associations) \\\\\n"));
  EXPECT_THAT(capacity, HasSubstr("A $\\alpha$ & recall & 16 & 16 & 160 & "));
}

TEST_F(TableTest, TurnedAColumnsHeadSaysAllOfIt) {
  options_.by = {"task.name", "model.d_key"};
  EXPECT_THAT(table("final", many(2, 8), TableFormat::latex),
              HasSubstr("\n & memory\\_0, recall, $d_{\\mathrm{key}}$ = 4 & memory\\_1, recall, "));
}

TEST_F(TableTest, TheBestIsThatOfItsTask) {
  RecordMap records;
  for (const char* label : {"a", "b"})
    for (const char* task : {"recall", "reassign"}) {
      const double loss = (label[0] == 'a' ? 0.25 : 0.5) / (task[2] == 'c' ? 1 : 100);
      for (int seed = 1; seed <= 7; ++seed)
        add_recall(records, label, seed, 4, 4, loss * (1 + 0.001 * (seed - 4))).config["task.name"] = task;
    }
  options_.by = {"task.name"};
  const std::string text = markdown("final", records);
  for (const char* row :
       {"| a | reassign | **0.0025** ", "| a | recall | **0.25** ", "| b | reassign | 0.005 "})
    EXPECT_THAT(text, HasSubstr(row));
}

TEST_F(TableTest, WithoutAStudyWordsStandByTheAlphabet) {
  options_.by = {"task.name"};
  options_.where = {{"model.d_key", "4"}};
  LabelledRecords rows = with_axes();
  rows.order.clear();
  const std::string text = markdown("final", rows);
  EXPECT_LT(text.find("| zeta | reassign |"), text.find("| zeta | recall |"));
}

TEST_F(TableTest, ATableHasBracketsAndALabelButNoBars) {
  for (const TableFormat format : {TableFormat::latex, TableFormat::markdown}) {
    const std::string text = table("capacity", two_memories(), format);
    EXPECT_THAT(text, Not(HasSubstr("Bars")));
    EXPECT_THAT(text, HasSubstr("In brackets: range of 3 seeds"));
  }
  EXPECT_THAT(table("capacity", two_memories(), TableFormat::latex), HasSubstr("}\n\\label{tab:capacity}\n"));
  options_.label = "tab:mine";
  EXPECT_THAT(table("final", two_memories(), TableFormat::latex), HasSubstr("}\n\\label{tab:mine}\n"));
}

TEST_F(TableTest, ARivalsRowsStandInEveryTableOrAreRefused) {
  LabelledRecords rows = two_memories();
  Record mine;
  mine.id = "mine.csv:1", mine.label = "mine";
  mine.config = {{"task.name", "recall"}, {"task.associations", 4}};
  mine.eval_loss = 0.0001;
  rows.rows["mine.csv:1\tmine"] = mine;
  EXPECT_THAT(markdown("capacity", rows), HasSubstr("| mine | -- | -- | "));
  EXPECT_THAT(markdown("final", rows), HasSubstr("| mine | 0.0001 |  |"));
  options_.x = "model.d_key";
  options_.where = {{"task.associations", "4"}};
  EXPECT_THAT(refusal("final", rows), HasSubstr("has no model.d_key, and"));
}

TEST_F(TableTest, ARowWithoutAPlaceIsNoColumn) {
  LabelledRecords rows = two_memories();
  Record mine;
  mine.id = "mine.csv:1", mine.label = "mine";
  mine.config = {{"task.name", "recall"}, {"model.d_key", 4}};
  mine.eval_loss = 0.0001;
  rows.rows["mine.csv:1\tmine"] = mine;
  EXPECT_THAT(refusal("final", rows), HasSubstr("the row mine.csv:1 (\"mine\") has no task.associations"));
}

TEST_F(TableTest, SemanticsAreNeverPooledAndSaidSideBySide) {
  LabelledRecords rows = two_memories();
  for (auto& [key, record] : rows.rows) record.provenance = {{"semantics", record.label == "a_b" ? 4 : 5}};
  EXPECT_THAT(markdown("final", rows), HasSubstr("Runs of semantics 4 and 5 stand side by side"));
  for (auto& [key, record] : rows.rows) record.provenance = {{"semantics", record.seed == 1 ? 4 : 5}};
  EXPECT_THAT(
      refusal("final", rows),
      HasSubstr(
          "differ in semantics (4, 5), and a figure pools over seeds only; pick one, for example: --where semantics=4"));
  options_.where = {{"semantics", "5"}};
  EXPECT_THAT(markdown("final", rows), HasSubstr("Median over 2 seeds"));
}

TEST_F(TableTest, ALossThatAnsweringNothingReachesIsSaid) {
  LabelledRecords rows = two_memories();
  for (auto& [key, record] : rows.rows) record.metrics["constant_loss"] = 0.5;
  EXPECT_THAT(markdown("capacity", rows), Not(HasSubstr("answering nothing")));
  options_.threshold = 1;
  EXPECT_THAT(markdown("capacity", rows), HasSubstr("loss at most 1, which answering nothing reaches (0.5)"));
  EXPECT_THAT(notes_.str(), HasSubstr("give a smaller --threshold"));
  options_.x = "nosuch";
  EXPECT_THROW(markdown("capacity", rows), std::invalid_argument);
}

TEST_F(TableTest, ARateAtTheEdgeOfItsGridIsAFootnote) {
  RecordMap records;
  for (const double rate : {1e-3, 1e-2}) {
    Record& record = add_recall(records, "a", 1, 4, 4, 1e-3 / rate);
    record.config["train.learning_rate"] = rate;
    record.metrics["test_loss"] = 0.25;
  }
  options_.best = {"train.learning_rate"};
  for (const char* name : {"final", "capacity"})
    for (const TableFormat format : {TableFormat::latex, TableFormat::markdown})
      EXPECT_THAT(
          table(name, rows_of(records), format),
          HasSubstr(
              "The best learning rate is the largest tried for a (1 of 1 points): a better one may lie beyond."));
  EXPECT_THAT(markdown("final", records), HasSubstr(" Chosen: a: 0.01."));
  for (auto& [id, record] : records)
    record.config["task.folder"] = "own", record.config["eval.sequences"] = 64;
  EXPECT_THAT(markdown("final", records), HasSubstr("Read on the first 64 sequences of a split in files"));
}

/// Why a title cannot stand in LaTeX; "" = it can.
std::string latex_refusal(const std::string& title) {
  return crosstalk::testing::refusal_of([&] { latex_of(title); });
}

TEST(Latex, FormulasHoldNoOrders) {
  for (const char* title :
       {"$\\input{secrets}$", "$\\write18{touch x}$", "$x$ $\\end{tabular}$", "$a & b$", "$a % b$", "$a # b$",
        "$a}$", "${a$", "$\\def\\x{1}$", "$\\catcode`@=11$", "$a ^^5cinput b$", "$a \\\\ b$", "$x$ and $$",
        "$a~b$", "$\\csname input\\endcsname$", "$\\left( a$", "$\\right) \\left( a$", "$\\href{x}{y}$",
        "$\\(a$"}) {
    EXPECT_THAT(latex_refusal(title), HasSubstr("cannot stand in a LaTeX table")) << title;
    EXPECT_THAT(latex_refusal(title), HasSubstr("Between $ stand letters")) << title;
  }
  EXPECT_THAT(latex_refusal("$\\input{secrets}$"), HasSubstr("\\input is no command of formulas"));
  EXPECT_THAT(latex_refusal("$a}$"), HasSubstr("a brace has no partner"));
  EXPECT_THAT(latex_refusal("$" + std::string(200000, '{') + std::string(200000, '}') + "$"),
              HasSubstr("braces stand more than 64 deep"));
  EXPECT_THAT(latex_refusal("$a & b$"), HasSubstr("'&' has another meaning in a formula"));
}

TEST(Latex, FormulasOfPapersStand) {
  const std::pair<const char*, const char*> titles[] = {
      {"DeltaNet, $\\beta \\in (0, 2)$", "DeltaNet, $\\beta \\in (0, 2)$"},
      {"$\\frac{1}{2}|y-\\hat{y}|^2$", "$\\frac{1}{2}|y-\\hat{y}|^2$"},
      {"$d_{\\mathrm{dot}} \\leq 2^{8}$, 50 %", "$d_{\\mathrm{dot}} \\leq 2^{8}$, 50 \\%"},
      {"$\\text{GLA}\\,\\{1\\}$", "$\\textrm{GLA}\\,\\{1\\}$"},
      {"$x \\in \\mathbb{R}^d$", "$x \\in \\mathbb{R}^d$"},
      {"$\\left( x \\right)$", "$\\left( x \\right)$"},
      {"5 $ a run", "5 \\$ a run"},
      {"a \\$5 and $x$", "a \\$5 and $x$"},
      {"two\n\nlines", "two  lines"},
      {"\\input{x}", "\\textbackslash{}input\\{x\\}"}};
  for (const auto& [title, latex] : titles) EXPECT_EQ(latex_of(title), latex);
  EXPECT_EQ(packages_of(latex_of("$\\mathbb{R}$")), ",amssymb");
  EXPECT_EQ(latex_of(mathtext_of("a $\\input{x}$ b")), "a \\$\\textbackslash{}input\\{x\\}\\$ b");
}

// Titles, labels, columns of a table and values of keys all reach it.
TEST_F(TableTest, NoTextOfAStudyOrATableGetsIntoLatexAsAnOrder) {
  LabelledRecords rows = two_memories();
  rows.labels[0].title = "$\\input{x}$";
  EXPECT_THROW(table("capacity", rows, TableFormat::latex), std::invalid_argument);
  EXPECT_NO_THROW(markdown("capacity", rows));
  rows = two_memories();
  for (auto& [key, record] : rows.rows) record.config["task.$\\input{x}$"] = "$\\input{y}$";
  options_.by = {"task.$\\input{x}$"};
  EXPECT_THROW(table("final", rows, TableFormat::latex), std::invalid_argument);
  for (auto& [key, record] : rows.rows) record.config["task.file"] = "$\\input{y}$";
  options_.by = {"task.file"};
  EXPECT_THAT(table("final", rows, TableFormat::latex),
              HasSubstr(" & \\$\\textbackslash{}input\\{y\\}\\$ & "));
}

TEST_F(TableTest, SmallNumbersAreShort) {
  RecordMap records;
  add_recall(records, "a", 1, 4, 4, 0.00001234);
  EXPECT_THAT(markdown("final", records), HasSubstr("| a | 1.23e-5 |"));
}

TEST_F(TableTest, CsvHasTheFiguresColumns) {
  EXPECT_THAT(table("final", two_memories(), TableFormat::csv),
              StartsWith("label,d_dot,associations,n,median,lo,hi\na_b,4,4,3,0.0005,"));
}

TEST_F(TableTest, TrackingStandsAtMultiplesOfTheTrainingLength) {
  RecordMap records;
  Record& record = add_record(records, "delta", 1, 8, {{"task.name", "swap"}, {"task.operations", 2}}, 0.1);
  record.profiles["accuracy_by_operations"] = {{1, 2, 3, 4, 8}, {1, 0.9, 0.8, 0.7, 0.5}};
  EXPECT_THAT(
      markdown("tracking", records),
      HasSubstr(
          "| Memory | $T$ = 2 | $T$ = 4 | $T$ = 8 |\n|---|--:|--:|--:|\n| Delta | 0.9 | 0.7 | 0.5 |\n"));
}

TEST_F(TableTest, LatexTurnsATableThatIsTooWide) {
  const std::string text = table("final", many(2, 8), TableFormat::latex);
  EXPECT_THAT(text, HasSubstr("\\toprule\n & memory\\_0 & memory\\_1 \\\\\n\\midrule\n$S$ = 4 & "));
  const std::string wide = table("final", many(8, 8), TableFormat::latex);
  EXPECT_THAT(wide, HasSubstr("% needs \\usepackage{booktabs,graphicx}\n"));
  EXPECT_THAT(wide, HasSubstr("\\sbox0{%\n\\begin{tabular}"));
  EXPECT_THAT(
      wide,
      HasSubstr(
          "\\end{tabular}}\n\\ifdim\\wd0>\\linewidth\\resizebox{\\linewidth}{!}{\\usebox0}\\else\\usebox0\\fi\n"));
  EXPECT_THAT(table("final", many(2, 1), TableFormat::latex), Not(HasSubstr("sbox")));
}

TEST_F(TableTest, LatexSaysWhichLettersNeedAnotherEngine) {
  LabelledRecords rows = two_memories();
  rows.labels = {{"a_b", "\xC3\xA9t\xC3\xA9 \xC5\x81", {}}, {"softmax", "\xE8\xA8\x98\xE6\x86\xB6", {}}};
  EXPECT_THAT(
      table("final", rows, TableFormat::latex),
      HasSubstr(
          "% needs \\usepackage{booktabs,graphicx}; \xE8\xA8\x98\xE6\x86\xB6: needs XeLaTeX or LuaLaTeX"));
}

TEST_F(TableTest, CompilesWithARealLatex) {
  if (std::system("command -v pdflatex >/dev/null 2>&1 && kpsewhich booktabs.sty >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "no pdflatex with booktabs";
  }
  LabelledRecords odd = two_memories();
  odd.labels = {{"a_b",
                 "100 % & #1 of {x}_y ~ ^ \\ <a|b> \"q\" \xC3\xA9 \xCE\xB2\xE2\x86\x92\xE2\x88\x9E \xC5\x81",
                 {}},
                {"softmax", "DeltaNet, $\\beta \\in (0, 2)$, $\\text{of}\\ \\mathbb{R}^{d}$ for 5 \\$", {}}};
  RecordMap swaps;
  add_record(swaps, "delta", 1, 8, {{"task.name", "swap"}, {"task.operations", 2}}, 0.1)
      .profiles["accuracy_by_operations"] = {{1, 2, 3, 4, 8}, {1, 0.9, 0.8, 0.7, 0.5}};
  std::string text, needs;  // what the first lines name, and nothing else
  const auto add = [&](const char* name, const LabelledRecords& rows) {
    options_.label = fmt::format("tab:{}", text.size());  // one of its own in the paper
    text += table(name, rows, TableFormat::latex);
    std::smatch packages;
    const std::string first = text.substr(text.rfind("% needs "));
    ASSERT_TRUE(std::regex_search(first, packages, std::regex("^% needs (\\\\usepackage\\{[^}]*\\})")));
    needs += packages[1].str() + "\n";
  };
  for (const LabelledRecords& rows : {two_memories(), odd, many(2, 8), many(8, 8)})
    for (const char* name : {"capacity", "final"}) add(name, rows);
  add("tracking", rows_of(swaps));
  options_.against = "a_b";
  add("difference", two_memories());
  options_.against = "";
  for (const char* kind : {"\\documentclass{article}\n", "\\documentclass[twocolumn]{article}\n"}) {
    write(folder_ / "paper.tex", kind + needs + "\\begin{document}\n" + text + "\\end{document}\n");
    const std::string once = " && pdflatex -halt-on-error -interaction=nonstopmode paper.tex >log 2>&1";
    const std::string command =
        "cd '" + folder_.string() + "'" + once + once;  // labels stand from the second on
    EXPECT_EQ(std::system(command.c_str()), 0) << read(folder_ / "log");
    for (const char* complaint : {"Overfull", "Missing character", "Warning"})
      EXPECT_THAT(read(folder_ / "log"), Not(HasSubstr(complaint)));
  }
}

}  // namespace crosstalk::tables_test

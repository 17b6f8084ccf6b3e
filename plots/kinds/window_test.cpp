// The figure of learning-rate windows: its CSV, the rate that it marks, what it refuses.
// SPDX-License-Identifier: Apache-2.0
#include "plots/test_records.h"

namespace crosstalk::window_test {

/// A language model whose accuracy is `accuracy`, solved from .99 on.
Record& add_rate(RecordMap& records, const std::string& label, double rate, std::int64_t seed,
                 double accuracy) {
  Record& record = add_record(records, label, seed, 0,
                              {{"task.name", "mqar"},
                               {"model.name", "language"},
                               {"train.learning_rate", rate},
                               {"train.stop_accuracy", 0.99},
                               {"train.max_steps", 80}},
                              1 - accuracy);
  record.steps = 80;
  record.eval_accuracy = accuracy;
  record.metrics = {{"test_accuracy", accuracy - 0.01}};
  record.curves["gradient_norm_median"] = {{40, 80}, {100 * rate, 300 * rate}};
  record.curves["gradient_norm_largest"] = {{40, 80}, {2000 * rate, 500 * rate}};
  return record;
}

RecordMap windows(int labels = 2) {
  RecordMap records;
  for (int i = 0; i < labels; ++i)
    for (const double rate : {1e-4, 1e-3, 1e-2})
      for (int seed = 1; seed <= 3; ++seed)
        add_rate(records, std::string(1, static_cast<char>('a' + i)), rate, seed,
                 rate == 1e-3 && i == 0 ? 0.98 + 0.01 * seed : 0.5 + (i > 0 ? 10 * rate : 0) + 0.01 * seed);
  return records;
}

using WindowTest = FigureTest;

TEST_F(WindowTest, ShowsSeedsMediansSolvedRunsAndNorms) {
  const std::string csv = draw("window", windows());
  EXPECT_THAT(csv, HasSubstr("label,d_dot,train.learning_rate,n,median,lo,hi,metric\n"));
  EXPECT_THAT(csv, HasSubstr("\na,,0.001,3,0.99,0.98,1,test_accuracy\n"));
  for (const char* seed : {"0.98", "0.99", "1"})
    EXPECT_THAT(csv, HasSubstr(std::string("\nseed: a,,0.001,1,") + seed + ",,,test_accuracy\n"));
  EXPECT_THAT(csv, HasSubstr("\na,,0.001,3,1,,,solved\n"));
  EXPECT_THAT(csv, HasSubstr("\na,,0.01,3,0,,,solved\n"));
  EXPECT_THAT(csv, HasSubstr("\na,,0.001,3,0.2,0.2,0.2,gradient_norm\n"));
  EXPECT_THAT(csv, HasSubstr("\na,,0.001,3,2,2,2,largest_gradient_norm\n"));
}

TEST_F(WindowTest, MarksTheBestRateOfTheValidationSplitAndWarnsAtTheEdge) {
  const std::string csv = draw("window", windows());
  EXPECT_THAT(csv, HasSubstr("\nchosen: a,,0.001,3,0.99,,,test_accuracy\n"));
  EXPECT_THAT(csv, HasSubstr("\nchosen: b,,0.01,"));
  EXPECT_THAT(csv, Not(HasSubstr("chosen: a,,0.01,")));
  const std::string warning =
      "The best learning rate is the largest tried for b (1 of 1 points): a better one may lie beyond.";
  EXPECT_THAT(script(), HasSubstr(warning));
  EXPECT_THAT(notes(), HasSubstr("warning: " + warning));
}

TEST_F(WindowTest, OfManyMemoriesEachHasAPanel) {
  draw("window", windows(8));
  EXPECT_THAT(script(), HasSubstr("\"small\": False"));
  draw("window", windows(9));
  EXPECT_THAT(script(), HasSubstr("\"small\": True"));
  EXPECT_THAT(script(), HasSubstr("[\"i\", \"i\"]"));
}

TEST_F(WindowTest, OfOldRunsSaysThatNormsAreMissing) {
  RecordMap records = windows();
  for (auto& [id, record] : records) record.curves.clear();
  EXPECT_THAT(draw("window", records), Not(HasSubstr("gradient_norm")));
  EXPECT_THAT(script(), HasSubstr("Norms of gradients are missing"));
}

TEST_F(WindowTest, RefusesOneRateAndRatesThatWereChosen) {
  RecordMap one;
  add_rate(one, "a", 1e-3, 1, 0.5);
  EXPECT_THAT(refusal("window", one), HasSubstr("window needs runs with several learning rates"));
  EXPECT_THAT(refusal("window", one), HasSubstr("these have 0.001 alone"));
  options_.best = {"train.learning_rate"};
  EXPECT_THAT(refusal("window", windows()), HasSubstr("leave out --best train.learning_rate"));
}

// Scaled accuracies fall below 0; rates have their ticks; chance is where all runs have the same.
TEST_F(WindowTest, ShowsWhatIsBelowZeroItsRatesAndChance) {
  RecordMap records = windows();
  for (auto& [id, record] : records) record.metrics["test_scaled_accuracy"] = -0.15 + 0.01 * record.seed;
  options_.metric = "test_scaled_accuracy";
  draw("window", records);
  EXPECT_THAT(script(), HasSubstr("\"xticks\": [0.0001, 0.001, 0.01]"));
  EXPECT_THAT(script(), HasSubstr("\"chance\": 0,"));
  EXPECT_THAT(script(), HasSubstr("\"linear\", [-0.15"));
  options_.metric = "test_accuracy";
  draw("window", records);
  EXPECT_THAT(script(), HasSubstr("\"chance\": None,")) << "nobody knows it";
  for (auto& [id, record] : records) record.metrics["chance_accuracy"] = 0.25;
  draw("window", records);
  EXPECT_THAT(script(), HasSubstr("\"chance\": 0.25,"));
  EXPECT_THAT(script(), HasSubstr("\"linear\", [-0.02, 1.02]"));
}

std::string windows_table_text(const RecordMap& records, const FigureOptions& options, TableFormat format) {
  std::ostringstream notes;
  return table_text("windows", rows_of(records), options, format, notes);
}

TEST_F(WindowTest, TheTableSaysAtWhichRatesTheMedianOfTheSeedsSolves) {
  RecordMap records = windows();
  for (int seed = 1; seed <= 3; ++seed) {  // c: good at the two larger rates, two of three seeds
    add_rate(records, "c", 1e-4, seed, 0.3);
    add_rate(records, "c", 1e-3, seed, seed == 1 ? 0.2 : 0.95);
    add_rate(records, "c", 1e-2, seed, 0.93);
  }
  const std::string text = windows_table_text(records, options_, TableFormat::markdown);
  EXPECT_THAT(
      text,
      HasSubstr(
          "| Memory | Rates of 3 | From | To | Best median | At |\n|---|--:|--:|--:|--:|--:|\n| c | 2 | 0.001 | 0.01 | 0.94 "
          "[0.19, 0.94] | 0.001 |\n| a | 1 | 0.001 | 0.001 | 0.99 [0.98, 1] | 0.001 |\n| b | 0 | -- | -- | 0.61 [0.6, 0.62] | "
          "0.01 |\n"));
  EXPECT_THAT(text,
              HasSubstr("at least 0.9, and the best of these medians. Test accuracy. Median over 3 seeds"));
  EXPECT_THAT(text, Not(HasSubstr("Not at all rates")));
  RecordMap hole = records;  // a window with a hole says so
  for (int seed = 1; seed <= 3; ++seed) add_rate(hole, "c", 3e-3, seed, 0);
  EXPECT_THAT(windows_table_text(hole, options_, TableFormat::markdown),
              HasSubstr(" Not at all rates from the first to the last: c. Test accuracy."));
  EXPECT_THAT(text, HasSubstr("The best is that of the test split; --best chooses by validation"));
  FigureOptions low = options_;
  low.threshold = 0.55;
  EXPECT_THAT(windows_table_text(records, low, TableFormat::markdown), HasSubstr("| b | 1 | 0.01 | 0.01 |"));
  std::erase_if(records, [](const auto& one) {
    return one.second.label == "b" && one.second.config.at("train.learning_rate") == 1e-4;
  });
  EXPECT_THAT(windows_table_text(records, options_, TableFormat::markdown),
              HasSubstr("| b | 0 (of 2) | -- |"));
  EXPECT_THAT(windows_table_text(records, options_, TableFormat::csv),
              HasSubstr("\nc,,0.001,3,0.94,0.19,0.94"));
}

}  // namespace crosstalk::window_test

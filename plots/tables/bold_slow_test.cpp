// Whole tables of equal labels, rates chosen by --best among runs that have seeds in common: at most one of twenty has a bold
// cell. (What decides is simulated in results/numbers/coverage_test.cpp, on more tables.)
// SPDX-License-Identifier: Apache-2.0
#include <random>

#include "plots/test_records.h"

namespace crosstalk::bold_slow_test {

/// The share of tables with a bold cell; the first label lies `gap` standard deviations of a paired difference above the rest.
double bold_share(int labels, int seeds, double gap, int tables, bool best) {
  std::mt19937_64 engine(static_cast<unsigned>(100 * labels + seeds));
  const auto uniform = [&] { return (static_cast<double>(engine() >> 11) + 0.5) / 9007199254740992.0; };
  const auto normal = [&] { return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * M_PI * uniform()); };
  int bold = 0;
  for (int table = 0; table < tables; ++table) {
    RecordMap records;
    for (const int pairs : {4, 8})
      for (int seed = 1; seed <= seeds; ++seed) {
        const double common = normal();
        for (int label = 0; label < labels; ++label)
          for (const double rate : {0.001, 0.003}) {
            const double value = common + (normal() + (label == 0 ? gap * std::sqrt(2) : 0)) / 2;
            Record& record = add_record(records, "label" + std::to_string(label), seed, 0,
                                        {{"task.name", "mqar"},
                                         {"task.pairs", pairs},
                                         {"model.name", "language"},
                                         {"train.learning_rate", rate}},
                                        1 - 0.05 * (value + 0.3 * normal()));
            record.eval_accuracy = 0.5;
            record.metrics["test_accuracy"] = 0.5 + 0.05 * value;
            if (!best) break;
          }
      }
    FigureOptions options;
    options.metric = "test_accuracy";
    if (best) options.best = {"train.learning_rate"};
    std::ostringstream notes;
    const std::string text = table_text("final", rows_of(records), options, TableFormat::markdown, notes);
    bold += text.find("**") != std::string::npos;
  }
  return static_cast<double>(bold) / tables;
}

TEST(Bold, OfEqualLabelsOneTableOfTwentyAtMost) {
  constexpr int tables = 400;
  const double slack = 3 * std::sqrt(0.05 * 0.95 / tables);
  for (const int labels : {2, 5, 10})
    for (const int seeds : {3, 5, 6, 10})
      for (const bool best : {false, true})
        EXPECT_LE(bold_share(labels, seeds, 0, tables, best), seeds < 6 ? 0 : 0.05 + slack)
            << labels << ", " << seeds << ", " << best;
}

TEST(Bold, AGapOfTwoStandardDeviationsShowsAtTenSeeds) {
  for (const int labels : {2, 5}) EXPECT_GE(bold_share(labels, 10, 2, 100, false), 0.8) << labels;
}

}  // namespace crosstalk::bold_slow_test

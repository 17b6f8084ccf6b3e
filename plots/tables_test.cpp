// Tables: golden text in three formats, and LaTeX that compiles where there is one.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <limits>

#include "plots/test_records.h"

namespace crosstalk {
namespace {

using ::testing::HasSubstr;

class TableTest : public FigureTest {
 protected:
  std::string table(const std::string& name, const LabelledRecords& rows, TableFormat format) {
    return table_text(name, rows, options_, format, notes_);
  }
};

LabelledRecords two_memories() {
  RecordMap records;
  for (int seed = 1; seed <= 3; ++seed)
    for (const int load : {4, 8}) {
      add_recall(records, "a_b", seed, 4, load, load <= 4 ? 0.0005 : 0.1 * seed);
      add_recall(records, "softmax", seed, 0, load, 0.0004).state_size = 40;
    }
  LabelledRecords rows = rows_of(records);
  rows.labels = {{"a_b", "50 % of $\\beta_t$ & \xCE\xBD", {}}, {"softmax", "", {}}};
  return rows;
}

TEST_F(TableTest, MarkdownGolden) {
  EXPECT_EQ(table("final", two_memories(), TableFormat::markdown),
            "| Memory | $S$ = 4 | $S$ = 8 |\n"
            "|---|--:|--:|\n"
            "| 50 % of $\\beta_t$ & \xCE\xBD | 0.0005 [0.0005, 0.0005] | 0.2 [0.1, 0.3] |\n"
            "| Softmax | **0.0004** [0.0004, 0.0004] | **0.0004** [0.0004, 0.0004] |\n"
            "\nEvaluation loss $\\frac{1}{2}\\|y-\\hat{y}\\|^2$ of $S$ associations. Median over 3 seeds "
            "[range over 3 seeds (holds the median in 75 % of cases)].\n");
}

TEST_F(TableTest, LatexIsSafeAndBold) {
  const std::string text = table("capacity", two_memories(), TableFormat::latex);
  EXPECT_THAT(text, HasSubstr("% needs \\usepackage{booktabs}"));
  EXPECT_THAT(
      text,
      HasSubstr("\\toprule\nMemory & $d_{\\mathrm{dot}}$ & State size (floats) & Capacity (associations) "
                "\\\\\n\\midrule\n"));
  EXPECT_THAT(text, HasSubstr("50 \\% of $\\beta_t$ \\& $\\nu$ & 4 & 16 & 4 {\\scriptsize [4, 8)} \\\\\n"));
  EXPECT_THAT(text, HasSubstr("\\textbf{$\\geq$ 8} {\\scriptsize [8, $\\infty$)} \\\\\n"));
  EXPECT_THAT(text, HasSubstr("75 \\% of cases"));
}

TEST_F(TableTest, CsvHasTheFiguresColumns) {
  EXPECT_THAT(table("final", two_memories(), TableFormat::csv),
              ::testing::StartsWith("label,d_dot,associations,n,median,lo,hi\na_b,4,4,3,0.0005,"));
}

TEST_F(TableTest, TrackingStandsAtMultiplesOfTheTrainingLength) {
  RecordMap records;
  Record& record = add_record(records, "delta", 1, 8, {{"task.name", "swap"}, {"task.operations", 2}}, 0.1);
  record.profiles["accuracy_by_operations"] = {{1, 2, 3, 4, 8}, {1, 0.9, 0.8, 0.7, 0.5}};
  EXPECT_THAT(
      table("tracking", rows_of(records), TableFormat::markdown),
      HasSubstr(
          "| Memory | $T$ = 2 | $T$ = 4 | $T$ = 8 |\n|---|--:|--:|--:|\n| Delta | 0.9 | 0.7 | 0.5 |\n"));
}

TEST_F(TableTest, CompilesWithARealLatex) {
  if (std::system("command -v pdflatex >/dev/null 2>&1 && kpsewhich booktabs.sty >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "no pdflatex with booktabs";
  write(folder_ / "paper.tex", "\\documentclass{article}\n\\usepackage{booktabs}\n\\begin{document}\n" +
                                   table("capacity", two_memories(), TableFormat::latex) +
                                   table("final", two_memories(), TableFormat::latex) + "\\end{document}\n");
  const std::string command =
      "cd '" + folder_.string() + "' && pdflatex -halt-on-error -interaction=nonstopmode paper.tex >log 2>&1";
  EXPECT_EQ(std::system(command.c_str()), 0) << read(folder_ / "log");
}

}  // namespace
}  // namespace crosstalk

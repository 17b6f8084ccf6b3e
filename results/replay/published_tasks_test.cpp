// results/published/README.md: what does not agree is explained or said not to be; and every table that "crosstalk table final"
// or "table mad" made is recomputed from the export that it names, by the rule that its footnote states.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <sstream>

#include "results/csv.h"
#include "results/numbers/statistics.h"
#include "results/replay/test_published.h"

namespace crosstalk {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> split_at(const std::string& text, char mark) {
  std::vector<std::string> parts;
  std::istringstream all(text);
  for (std::string part; std::getline(all, part, mark);)
    if (!part.empty()) parts.push_back(part);
  return parts;
}

/// A table of README: the words of its command, and its cells without the marks of the best.
struct MadeTable {
  std::vector<std::string> words;
  std::vector<std::vector<std::string>> rows;  // the head first

  std::string command() const { return words.empty() ? "" : words[0]; }
  /// What follows an option of the command; "" where it does not stand there.
  std::string option(const std::string& name) const {
    const auto at = std::find(words.begin(), words.end(), name);
    return at == words.end() || at + 1 == words.end() ? "" : *(at + 1);
  }
};

std::string trimmed(std::string cell) {
  std::erase(cell, '*');
  const auto from = cell.find_first_not_of(' '), to = cell.find_last_not_of(' ');
  return from == std::string::npos ? "" : cell.substr(from, to - from + 1);
}

/// Tables whose command begins with "table KIND".
std::vector<MadeTable> made_tables(const std::string& kind) {
  const std::string page = content_of(published_folder() / "README.md"),
                    mark = "<!-- made: crosstalk table " + kind + " ";
  std::vector<MadeTable> tables;
  for (auto at = page.find(mark); at != std::string::npos; at = page.find(mark, at + 1)) {
    const auto begin = at + mark.size(), end = page.find("<!-- end -->", at);
    MadeTable table;
    std::istringstream made(page.substr(begin, end - begin));
    std::string line;
    std::getline(made, line);
    table.words = split_at(line.substr(0, line.find(" -->")), ' ');
    while (std::getline(made, line)) {
      if (!line.starts_with("| ")) continue;
      std::vector<std::string> cells;
      std::istringstream row(line.substr(2));
      for (std::string cell; std::getline(row, cell, '|');) cells.push_back(trimmed(cell));
      table.rows.push_back(cells);
    }
    tables.push_back(table);
  }
  return tables;
}

/// Titles by label, as the study's file gives them.
std::map<std::string, std::string> titles_in(const fs::path& study) {
  std::map<std::string, std::string> titles;
  std::istringstream text(content_of(study));
  std::string label;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("["))
      label = line.starts_with("[memories.") ? line.substr(10, line.find(']') - 10) : "";
    if (!line.starts_with("title") || label.empty()) continue;
    const auto from = line.find_first_of("\"'");
    titles[label] = line.substr(from + 1, line.find(line[from], from + 1) - from - 1);
  }
  return titles;
}

/// Runs of one point: values of what --best chooses -> seed -> (validation loss, what is shown).
using TriedRuns = std::map<std::string, std::map<std::int64_t, std::pair<double, double>>>;

/// What is shown, by seed, of the values whose median loss over the seeds that all values have is least.
std::map<std::int64_t, double> at_least_loss(const TriedRuns& tried) {
  std::map<std::int64_t, std::size_t> times;
  for (const auto& [values, seeds] : tried)
    for (const auto& [seed, run] : seeds) ++times[seed];
  double least = std::numeric_limits<double>::infinity();
  std::map<std::int64_t, double> shown;
  for (const auto& [values, seeds] : tried) {
    std::vector<double> losses;
    for (const auto& [seed, run] : seeds)
      if (times[seed] == tried.size()) losses.push_back(run.first);
    if (median(losses) >= least) continue;
    least = median(losses);
    shown.clear();
    for (const auto& [seed, run] : seeds) shown[seed] = run.second;
  }
  return shown;
}

double shown_number(const CsvRow& row, const std::string& column, double none) {
  return row.has(column) ? row.number(column, "runs") : none;
}

/// "0.362" of "0.362 [0.352, 0.372]".
std::string first_in(const std::string& cell) { return cell.substr(0, cell.find(' ')); }

/// "0.362", "-3.12e-5": as tables print numbers.
std::string as_printed(double x) {
  std::string text = fmt::format("{:.3g}", x);
  if (const auto zero = text.find("e-0"); zero != std::string::npos) text.erase(zero + 2, 1);
  return text;
}

/// "GLA" of "GLA (1/3 diverged)".
std::string title_of_cell(const std::string& cell) {
  const auto open = cell.rfind(" (");
  const bool counted = open != std::string::npos && open + 2 < cell.size() &&
                       std::isdigit(cell[open + 2]) != 0 && cell.find('/', open) != std::string::npos;
  return counted ? cell.substr(0, open) : cell;
}

bool is_wanted(const CsvRow& row, const std::string& where) {
  if (where.empty()) return true;
  const auto equals = where.find('=');
  const std::vector<std::string> values = split_at(where.substr(equals + 1), ',');
  const std::string value = row.text(where.substr(0, equals), "runs");
  return std::find(values.begin(), values.end(), value) != values.end();
}

// A row for each memory and value of --by, a column for each value of --x: the median of the seeds at the values of --best of the
// least validation loss (with --best-by accuracy: of the highest accuracy). A cell is empty exactly where the export has no run, and
// "diverged" where the median of its runs did.
TEST(PublishedTasks, FinalTablesAreThoseOfTheirExports) {
  int cells = 0;
  for (const MadeTable& table : made_tables("final")) {
    SCOPED_TRACE(fmt::format("{}, {}", table.command(), table.option("--metric")));
    const auto titles = titles_in(published_folder() / table.option("--titles"));
    const std::vector<std::string> by = split_at(table.option("--by"), ','),
                                   best = split_at(table.option("--best"), ',');
    const std::string x = table.option("--x");
    std::map<std::vector<std::string>, std::map<std::string, TriedRuns>> of;
    rows_of_export(table.command(), [&](const CsvRow& row) {
      if (!is_wanted(row, table.option("--where"))) return;
      std::vector<std::string> line = {titles.at(row.text("label", "runs"))};
      for (const std::string& key : by) line.push_back(row.text(key, "runs"));
      std::string values;
      for (const std::string& key : best) values += row.text(key, "runs") + " ";
      const double chosen_by = table.option("--best-by") == "accuracy"
                                   ? -shown_number(row, "eval_accuracy", 0)
                                   : shown_number(row, "eval_loss", 1e300);
      const bool diverged = row.text("status", "runs") == "diverged";  // below all that ended
      of[line][x.empty() ? "" : row.text(x, "runs")][values][row.integer("seed", "runs")] = {
          chosen_by, diverged ? -std::numeric_limits<double>::infinity()
                              : shown_number(row, table.option("--metric"), 0)};
    });
    ASSERT_FALSE(table.rows.empty());
    EXPECT_EQ(table.rows.size() - 1, of.size());
    std::set<std::vector<std::string>> seen;
    for (std::size_t i = 1; i < table.rows.size(); ++i) {
      const std::vector<std::string>& row = table.rows[i];
      ASSERT_GE(row.size(), 2 + by.size());
      std::vector<std::string> line(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(1 + by.size()));
      line[0] = title_of_cell(line[0]);
      ASSERT_EQ(of.count(line), 1u) << line[0];
      EXPECT_TRUE(seen.insert(line).second) << line[0] << " stands twice";
      auto& columns = of.at(line);
      std::size_t filled = 0;
      for (std::size_t c = 1 + by.size(); c < row.size(); ++c) {
        const std::string& head = table.rows[0][c];
        const auto found = columns.find(x.empty() ? "" : head.substr(head.rfind("= ") + 2));
        EXPECT_EQ(row[c].empty(), found == columns.end()) << line[0] << ", " << head;
        if (row[c].empty() || found == columns.end()) continue;
        std::vector<double> shown;
        for (const auto& [seed, value] : at_least_loss(found->second)) shown.push_back(value);
        const double middle = median(shown);
        EXPECT_EQ(first_in(row[c]), std::isinf(middle) ? "diverged" : as_printed(middle))
            << line[0] << ", " << head;
        ++filled, ++cells;
      }
      EXPECT_EQ(filled, columns.size()) << line[0];
    }
  }
  EXPECT_GT(cells, 0);
}

/// Compress, fuzzy, recall, memorise, noisy, copy: columns of MAD's tables.
std::size_t mad_column_of(const CsvRow& row) {
  const std::string task = row.text("task.name", "runs");
  if (task == "compression") return 0;
  if (task == "memorise") return 3;
  if (task == "selective_copy") return 5;
  EXPECT_EQ(task, "mad_recall");
  if (row.integer("task.motif", "runs") > 1) return 1;
  return row.number("task.noise", "runs") > 0 ? 4 : 2;
}

/// Runs of mad.csv by title and column, as its table has them.
std::map<std::string, std::map<std::size_t, TriedRuns>> mad_runs(bool by_accuracy) {
  const auto titles = titles_in(published_folder() / "../../experiments/mad.toml");
  std::map<std::string, std::map<std::size_t, TriedRuns>> of;
  rows_of_export("mad.csv", [&](const CsvRow& row) {
    of[titles.at(row.text("label", "runs"))][mad_column_of(row)]
      [row.text("train.learning_rate", "runs") + " " + row.text("train.weight_decay", "runs")]
      [row.integer("seed", "runs")] = {
          by_accuracy ? -row.number("eval_accuracy", "runs") : shown_number(row, "eval_loss", 1e300),
          shown_number(row, "test_accuracy", 0)};
  });
  return of;
}

// MAD: the median of the seeds at the rate and decay that the table says, for each task; and the mean of the six, of
// memories that have all six.
TEST(PublishedTasks, MadTablesAreThoseOfTheirExports) {
  constexpr std::size_t kTasks = 6;
  for (const MadeTable& table : made_tables("mad")) {
    SCOPED_TRACE(table.command());
    auto of = mad_runs(table.option("--best-by") == "accuracy");
    EXPECT_EQ(table.rows.size(), of.size() + 1);
    for (std::size_t i = 1; i < table.rows.size(); ++i) {
      const std::vector<std::string>& row = table.rows[i];
      ASSERT_EQ(row.size(), kTasks + 2);
      auto& columns = of.at(title_of_cell(row[0]));
      std::map<std::int64_t, std::vector<double>> of_seed;
      for (std::size_t column = 0; column < kTasks; ++column) {
        EXPECT_EQ(row[column + 1].empty(), columns.count(column) == 0) << row[0] << " " << column;
        if (columns.count(column) == 0) continue;
        std::vector<double> shown;
        for (const auto& [seed, x] : at_least_loss(columns[column]))
          shown.push_back(x), of_seed[seed].push_back(x);
        EXPECT_EQ(first_in(row[column + 1]), as_printed(median(shown))) << row[0] << " " << column;
      }
      std::vector<double> means;
      for (const auto& [seed, scores] : of_seed)
        if (scores.size() == kTasks)
          means.push_back(std::accumulate(scores.begin(), scores.end(), 0.0) / static_cast<double>(kTasks));
      EXPECT_EQ(first_in(row[kTasks + 1]), means.empty() ? "" : as_printed(median(means))) << row[0];
    }
  }
}

double median_at_best(const TriedRuns& tried) {
  std::vector<double> shown;
  for (const auto& [seed, x] : at_least_loss(tried)) shown.push_back(x);
  return median(shown);
}

/// ".958"
std::string share_text(double x) {
  const std::string text = fmt::format("{:.3f}", x);
  return text.starts_with("0") ? text.substr(1) : text;
}

// MAD: which tasks tell memories apart, in the order of the table, of memories that have all of them.
TEST(PublishedTasks, MadsTasksTellMemoriesApartAsItsTextSays) {
  constexpr std::size_t kCompress = 0, kFuzzy = 1, kRecall = 2, kMemorise = 3, kNoisy = 4, kCopy = 5;
  auto of = mad_runs(true);
  std::vector<std::string> apart, copies;
  double least = 1;
  const std::vector<MadeTable> tables = made_tables("mad");
  ASSERT_EQ(tables.size(), 1u);
  for (std::size_t i = 1; i < tables[0].rows.size(); ++i) {
    const std::string title = title_of_cell(tables[0].rows[i][0]);
    auto& columns = of.at(title);
    if (columns.size() < 6) continue;
    const std::string name = title.starts_with("Attention") ? "attention" : title;
    apart.push_back(fmt::format("{} {} and {}", name, share_text(median_at_best(columns[kFuzzy])),
                                share_text(median_at_best(columns[kCompress]))));
    for (const std::size_t column : {kRecall, kMemorise, kNoisy})
      least = std::min(least, median_at_best(columns[column]));
    std::vector<double> seeds;
    for (const auto& [seed, x] : at_least_loss(columns[kCopy])) seeds.push_back(x);
    if (seeds.size() < 2) continue;
    const auto [low, high] = std::minmax_element(seeds.begin(), seeds.end());
    copies.push_back(fmt::format("{} {} to {}", name, share_text(*low), share_text(*high)));
  }
  const std::string sentence = fmt::format(
      "Fuzzy recall and compression tell memories apart: {}. In-context and noisy recall and memorisation do not: the "
      "medians of all are {} or more. Copying tells seeds apart: {}.",
      fmt::join(apart, ", "), share_text(std::floor(least * 1000) / 1000), fmt::join(copies, ", "));
  EXPECT_NE(flat_page().find(sentence), std::string::npos) << sentence;
}

/// "a, b and c"
std::string listing(const std::vector<std::string>& words) {
  if (words.size() < 2) return fmt::format("{}", fmt::join(words, ""));
  return fmt::format("{} and {}", fmt::join(words.begin(), words.end() - 1, ", "), words.back());
}

// MAD: which memories lack tasks, rates and decays of a task, or seeds at the best of them.
TEST(PublishedTasks, MadSaysWhatItLacks) {
  constexpr std::size_t kSettings = 6, kSeeds = 3;
  const std::vector<std::string> kNames = {"compression",  "fuzzy recall", "in-context recall",
                                           "memorisation", "noisy recall", "copying"};
  std::vector<std::string> lacking;
  auto of = mad_runs(true);
  const std::vector<MadeTable> tables = made_tables("mad");
  ASSERT_EQ(tables.size(), 1u);
  for (std::size_t i = 1; i < tables[0].rows.size(); ++i) {
    const std::string title = title_of_cell(tables[0].rows[i][0]);
    std::map<std::size_t, std::vector<std::string>> of_seeds;  // how many seeds -> tasks
    std::vector<std::string> words, untried;
    for (std::size_t column = 0; column < kNames.size(); ++column) {
      const auto tried = of[title].find(column);
      const std::size_t seeds = tried == of[title].end() ? 0 : at_least_loss(tried->second).size();
      if (seeds < kSeeds) of_seeds[seeds].push_back(kNames[column]);
      if (seeds > 0 && tried->second.size() < kSettings) untried.push_back(kNames[column]);
    }
    for (const auto& [seeds, tasks] : of_seeds)
      words.push_back(fmt::format("{} {} of {}",
                                  seeds == 0   ? "none"
                                  : seeds == 1 ? "one"
                                               : "two",
                                  seeds == 1 ? "seed" : "seeds", listing(tasks)));
    if (!untried.empty()) words.push_back("not all rates and decays of " + listing(untried));
    if (!words.empty()) lacking.push_back(fmt::format("{} ({})", title, fmt::join(words, "; ")));
  }
  const std::string sentence =
      lacking.empty() ? "All memories have three seeds of all six tasks."
                      : fmt::format("All memories have three seeds of all six tasks, but for {}.",
                                    fmt::join(lacking, " and "));
  EXPECT_NE(flat_page().find(sentence), std::string::npos) << sentence;
}

// MAD: shares of the wrong answers of fuzzy recall that are values of another key, as the figure's CSV has them.
TEST(PublishedTasks, MadsMistakesAreThoseOfItsFigure) {
  const auto titles = titles_in(published_folder() / "../../experiments/mad.toml");
  std::vector<std::string> order;
  std::map<std::string, double> other, all;
  rows_of_export("mad_figure.csv", [&](const CsvRow& row) {
    const std::string title = titles.at(row.text("label", "points")), metric = row.text("metric", "points");
    if (all.count(title) == 0) order.push_back(title);
    all[title] += row.number("mean", "points");
    if (metric == "error_other_value") other[title] = row.number("mean", "points");
  });
  std::vector<std::string> shares;
  for (const std::string& title : order)
    if (!title.starts_with("Attention"))
      shares.push_back(fmt::format("{} {:.0f} %", title, 100 * other[title] / all[title]));
  const std::string sentence = fmt::format(
      "wrong answers are mostly tokens of another key's value: of them {}.", fmt::join(shares, ", "));
  EXPECT_NE(flat_page().find(sentence), std::string::npos) << sentence;
}

// MAD: what the choice by loss does to attention.
TEST(PublishedTasks, MadsChoiceByLossIsWhatItsTextSays) {
  int solved = 0;
  std::int64_t soonest = 1 << 30, chosen_steps = 0;
  double least = 1e300, chosen = 0;
  rows_of_export("mad.csv", [&](const CsvRow& row) {
    if (row.text("label", "runs") != "attention" || mad_column_of(row) != 2 ||
        row.integer("seed", "runs") != 1)
      return;
    const bool is_solved = row.text("verdict", "runs") == "solved";
    const double rate = row.number("train.learning_rate", "runs"), loss = row.number("eval_loss", "runs");
    const std::int64_t steps = row.integer("steps", "runs");
    solved += is_solved;
    if (is_solved && rate == 1e-4) soonest = std::min(soonest, steps);
    if (loss < least) least = loss, chosen = rate, chosen_steps = steps;
  });
  EXPECT_EQ(chosen, 1e-3);
  auto by_loss = mad_runs(false);
  auto& columns = by_loss.at("Attention, rotary positions");
  std::vector<double> seeds;
  for (const auto& [seed, x] : at_least_loss(columns[2])) seeds.push_back(x);
  ASSERT_EQ(seeds.size(), 3u);
  std::sort(seeds.begin(), seeds.end());
  const std::string sentence = fmt::format(
      "By the least loss instead, attention's medians are {1} on in-context recall (seeds {0}, {1} and {2}) and {3} on "
      "noisy recall. A run ends when it answers .999 of the validation set, and of the runs that do, the least loss has "
      "the one that came there last: in-context recall is solved at {4} of 6 rates and decays by seed 1, at 1e-4 in {5} "
      "steps, and the least loss is that of 1e-3 ({6},{7:03} steps), where training is not stable.",
      share_text(seeds[0]), share_text(seeds[1]), share_text(seeds[2]),
      share_text(median_at_best(columns[4])), solved, soonest, chosen_steps / 1000, chosen_steps % 1000);
  EXPECT_NE(flat_page().find(sentence), std::string::npos) << sentence;
}

// How far the tables of others are from each other.
TEST(PublishedTasks, MadsTablesOfOthersDifferAsMuchAsItsTextSays) {
  std::map<std::string, std::vector<double>> of;
  for (const char* name : {"deltanet2024", "linattnbench", "efla2025"})
    rows_of_export(fmt::format("literature/mad_{}.csv", name), [&](const CsvRow& row) {
      of[row.text("label", "points") + " " + std::to_string(mad_column_of(row))].push_back(
          row.number("eval_accuracy", "points"));
    });
  double most = 0;
  for (const auto& [point, values] : of) {
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    most = std::max(most, *high - *low);
  }
  const std::string sentence =
      fmt::format("which differ from each other by up to {:.0f} points on a task", 100 * most);
  EXPECT_NE(flat_page().find(sentence), std::string::npos) << sentence;
}

// Where a table holds points that do not agree, its section says what explains them, or that nothing does.
TEST(PublishedTasks, DisagreementsAreExplainedOrSaidNotToBe) {
  std::istringstream page(content_of(published_folder() / "README.md"));
  std::string command, open;  // the first comparison of the section with such points
  int sections = 0;
  const auto close = [&] {
    EXPECT_EQ(open, "") << "nothing behind it says what explains its points, or \"not explained\"";
    open.clear();
  };
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ") || line.starts_with("**")) close();
    if (line.starts_with("<!-- made: crosstalk compare")) command = line;
    if (line.starts_with("<!-- end")) command.clear();
    if (!command.empty() && line.ends_with("| **no** |") && open.empty()) open = command, ++sections;
    if (command.empty() && (line.find("explain") != line.npos || line.find("explanation") != line.npos))
      open.clear();
  }
  close();
  EXPECT_GE(sections, 5);
}

/// Memories of formal_languages.toml whose states can change their sign.
bool changes_sign(const std::string& label) {
  return label == "slstm" || label == "mamba_either" || label == "deltanet2";
}

/// ".574 to 1.000", or one number.
std::string range_text(const std::vector<double>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return *low == *high ? share_text(*low) : fmt::format("{} to {}", share_text(*low), share_text(*high));
}

/// Scaled accuracies of formal_languages.csv: form -> label -> rates and seeds, chosen by validation accuracy or loss.
std::map<std::string, std::map<std::string, TriedRuns>> formal_runs(bool by_accuracy) {
  std::map<std::string, std::map<std::string, TriedRuns>> of;
  rows_of_export("formal_languages.csv", [&](const CsvRow& row) {
    if (row.text("task.name", "runs") != "arithmetic") return;
    of[row.text("task.form", "runs")][row.text("label", "runs")][row.text("train.learning_rate", "runs")]
      [row.integer("seed", "runs")] = {
          by_accuracy ? -row.number("eval_accuracy", "runs") : row.number("eval_loss", "runs"),
          row.number("test_scaled_accuracy", "runs")};
  });
  return of;
}

/// Scores at the rate of the best validation accuracy: form -> whether states change sign -> scores.
std::map<std::string, std::map<bool, std::vector<double>>> formal_scores() {
  std::map<std::string, std::map<bool, std::vector<double>>> scores;
  for (const auto& [form, labels] : formal_runs(true))
    for (const auto& [label, tried] : labels)
      scores[form][changes_sign(label)].push_back(median_at_best(tried));
  return scores;
}

// Formal languages: what states that change sign score, and what the others.
TEST(PublishedTasks, FormalLanguagesNeedSignsAsTheirTextSays) {
  auto scores = formal_scores();
  const std::pair<const char*, const char*> forms[] = {
      {"parity", "on parity"}, {"flat", "on flat arithmetic"}, {"brackets", "with brackets"}};
  std::vector<std::string> with, without;
  for (const auto& [form, name] : forms) {
    if (scores.count(form) == 0) continue;
    with.push_back(fmt::format("{} {}", range_text(scores[form][true]), name));
    without.push_back(fmt::format("{} {}", range_text(scores[form][false]), name));
  }
  const std::string sentence = fmt::format(
      "Where a state can change its sign (sLSTM, Mamba with eigenvalues of either sign, DeltaNet with beta in (0, 2)) scores are {}; "
      "where it cannot (attention, mLSTM, Mamba, DeltaNet with beta in (0, 1)) {}.",
      fmt::join(with, ", "), fmt::join(without, ", "));
  EXPECT_NE(flat_page().find(sentence), std::string::npos) << sentence;
  EXPECT_GT(*std::min_element(scores["parity"][true].begin(), scores["parity"][true].end()),
            *std::max_element(scores["parity"][false].begin(), scores["parity"][false].end()) + 0.3);
  const std::string choice =
      fmt::format("by the least loss DeltaNet with beta in (0, 2) would have {} in place of {} on parity;",
                  share_text(median_at_best(formal_runs(false)["parity"]["deltanet2"])),
                  share_text(median_at_best(formal_runs(true)["parity"]["deltanet2"])));
  EXPECT_NE(flat_page().find(choice), std::string::npos) << choice;
  std::size_t rates = 0, learned = 0;
  const TriedRuns tried = formal_runs(true)["parity"]["slstm"];
  for (const auto& [rate, seeds] : tried) ++rates, learned += seeds.begin()->second.second > 0.99;
  EXPECT_EQ(rates, 2u);
  EXPECT_EQ(learned, 1u);
}

// Parity of memories whose states cannot change sign: right a little beyond the lengths of training, and at chance from 100 tokens on.
TEST(PublishedTasks, ParityEndsBeyondTrainingAsItsTextSays) {
  std::map<std::string, std::vector<double>> far;
  std::vector<double> near, means;
  double first = 1e300;
  rows_of_export("formal_languages_figure.csv", [&](const CsvRow& row) {
    const std::string label = row.text("label", "points");
    if (row.text("task.form", "points") != "parity" || label.find(':') != std::string::npos ||
        changes_sign(label))
      return;
    const double tokens = row.number("position", "points"), right = row.number("median", "points");
    first = std::min(first, tokens);
    if (tokens == first) near.push_back(right);
    if (tokens > 100) far[label].push_back(right);
  });
  for (const auto& [label, right] : far)
    means.push_back(std::accumulate(right.begin(), right.end(), 0.0) / static_cast<double>(right.size()));
  const std::string sentence =
      fmt::format("Of parity the latter answer {} at {:.0f} tokens and {} beyond 100, where half is chance.",
                  range_text(near), first, range_text(means));
  EXPECT_NE(flat_page().find(sentence), std::string::npos) << sentence;
}

/// Numbers of the table of `metric` that was made of cdar.csv, by memory, task.query_by and layers.
std::map<std::string, std::map<std::string, std::map<int, double>>> contexts_of(const std::string& metric) {
  std::map<std::string, std::map<std::string, std::map<int, double>>> of;
  for (const MadeTable& table : made_tables("final")) {
    if (table.command() != "cdar.csv" || table.option("--metric") != metric) continue;
    for (std::size_t i = 1; i < table.rows.size(); ++i)
      for (const int layers : {1, 2})
        if (const std::string& cell = table.rows[i][static_cast<std::size_t>(layers) + 1]; !cell.empty())
          of[title_of_cell(table.rows[i][0])][table.rows[i][1]][layers] = number_in(first_in(cell)).value();
  }
  return of;
}

// What README says of recall in contexts: one layer is blind to them, two of DeltaNet and of attention are not.
TEST(PublishedTasks, ContextsAreToldApartByTwoLayers) {
  auto gaps = contexts_of("context_gap"), right = contexts_of("test_accuracy");
  ASSERT_EQ(gaps.size(), 4u);
  for (auto& [memory, of] : gaps)
    for (auto& [query_by, layers] : of) {
      EXPECT_LE(layers.at(1), 0.082) << memory << " " << query_by;
      const bool solves = memory.starts_with("Attention") || memory == "DeltaNet";
      EXPECT_EQ(layers.at(2) > 0.94, solves) << memory << " " << query_by;
      EXPECT_EQ(right[memory][query_by].at(2) > 0.94, solves) << memory << " " << query_by;
    }
  std::map<std::string, std::map<std::string, double>> wrong;  // of one layer, by memory and kind
  rows_of_export("cdar_figure.csv", [&](const CsvRow& row) {
    if (row.integer("model.layers", "points") == 1)
      wrong[row.text("label", "points")][row.text("metric", "points")] = row.number("mean", "points");
  });
  const std::string sentence =
      fmt::format("(means: attention {}, DeltaNet {} of all answers, `zone`)",
                  fmt::format("{:.2f}", wrong["attention"]["error_other_context"]).substr(1),
                  fmt::format("{:.2f}", wrong["deltanet"]["error_other_context"]).substr(1));
  EXPECT_NE(flat_page().find(sentence), std::string::npos) << sentence;
  for (const char* memory : {"gated_delta", "mamba2"})
    EXPECT_GT(wrong[memory]["error_never"], wrong[memory]["error_other_context"]) << memory;
}

}  // namespace
}  // namespace crosstalk

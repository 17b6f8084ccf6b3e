// results/published/: what its pages say is what lies beside them.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "results/csv.h"
#include "results/replay/test_published.h"

namespace crosstalk {

std::filesystem::path published_folder() {
  return std::filesystem::path(CROSSTALK_SOURCE_DIR) / "results" / "published";
}

namespace {

namespace fs = std::filesystem;

std::vector<std::string> lines_of(const fs::path& path) {
  std::istringstream text(content_of(path));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

std::string page() { return content_of(published_folder() / "README.md"); }

TEST(PublishedPage, NamesTheCommitsOfTheProvenance) {
  int exports = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(published_folder())) {
    const std::string name = entry.path().filename().string(), end = ".provenance.csv";
    if (!name.ends_with(end)) continue;
    std::set<std::string> commits;
    int runs = 0;
    rows_of_export(name, [&](const CsvRow& row) {
      commits.insert(row.text("provenance.commit", "exports").substr(0, 7));
      ++runs;
    });
    const std::string line = fmt::format("| `{}.csv` | {} | {} |\n", name.substr(0, name.size() - end.size()),
                                         runs, fmt::join(commits, ", "));
    EXPECT_NE(page().find(line), std::string::npos) << line;
    ++exports;
  }
  EXPECT_GT(exports, 15);
}

// Between the table before it (or the heading) and the paragraph behind it, a table says where its runs are.
TEST(PublishedPage, EveryTableHasAnExportOrSaysThatItHasNone) {
  std::string since;
  bool open = false;
  int tables = 0;
  std::vector<std::string> lines = lines_of(published_folder() / "README.md");
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].starts_with("#")) since.clear();
    if (lines[i].starts_with("|---") && !open) {
      open = true;
      std::string around = since;
      std::size_t next = i;
      while (next < lines.size() && lines[next].starts_with("|")) ++next;
      for (++next; next < lines.size() && !lines[next].empty(); ++next) around += lines[next] + "\n";
      EXPECT_TRUE(around.find(".csv") != around.npos || around.find("not exported") != around.npos)
          << "the table of line " << i + 1;
      ++tables;
    }
    if (lines[i].starts_with("|")) continue;
    if (open) since.clear(), open = false;
    since += lines[i] + "\n";
  }
  EXPECT_GT(tables, 10);
}

TEST(PublishedPage, LiteratureSaysHowManyOfItsSourcesRowsItHas) {
  int files = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(published_folder() / "literature")) {
    if (entry.path().extension() != ".csv" || entry.path().stem() == "schlag2021_final_losses") continue;
    std::string said;
    int rows = -1;  // the head
    for (const std::string& line : lines_of(entry.path())) {
      std::smatch found;
      if (std::regex_match(line, found,
                           std::regex("# ([0-9]+) rows, (a selection|all) of what the source has\\.")))
        said = found[1];
      rows += !line.empty() && line[0] != '#';
    }
    EXPECT_EQ(said, fmt::format("{}", rows)) << entry.path();
    ++files;
  }
  EXPECT_EQ(files, 13);
}

// The last point of each released curve is the final loss that stands in the other file.
TEST(PublishedPage, ReleasedCurvesEndInTheFinalLosses) {
  std::map<std::string, std::string> last, final;
  rows_of_export("literature/curves/schlag2021.curves.csv",
                 [&](const CsvRow& row) { last[row.text("id", "curves")] = row.text("value", "curves"); });
  rows_of_export("literature/curves/schlag2021.csv", [&](const CsvRow& row) {
    const std::string id = row.text("id", "runs");
    EXPECT_EQ(row.text("eval_loss", "runs"), last.at(id)) << id;
    const std::string load = row.text("task.associations", "runs");
    final[id.substr(id.find('/') + 1, id.find("_Assoc") - id.find('/') - 1) + " " + load] = last.at(id);
  });
  EXPECT_EQ(final.size(), 16u);
  int known = 0;
  rows_of_export("literature/schlag2021_final_losses.csv", [&](const CsvRow& row) {
    const auto found = final.find(row.text("model", "losses") + " " + row.text("S_unique_keys", "losses"));
    if (found == final.end() || (row.text("setting", "losses") == "1") != found->first.ends_with("600"))
      return;
    EXPECT_NEAR(number_in(found->second).value_or(0), row.number("final_eval_loss", "losses"), 1e-8)
        << found->first;
    ++known;
  });
  EXPECT_EQ(known, 16);
}

/// Of the table that begins with `head`, the rows in which every one of `words` stands.
std::vector<std::string> rows_with(const std::string& head, const std::vector<std::string>& words) {
  std::vector<std::string> rows;
  bool inside = false;
  for (const std::string& line : lines_of(published_folder() / "README.md")) {
    if (line.starts_with(head)) inside = true;
    if (!line.starts_with("|")) inside = false;
    if (inside && std::all_of(words.begin(), words.end(),
                              [&](const auto& word) { return line.find(word) != line.npos; }))
      rows.push_back(line);
  }
  return rows;
}

// A run that ends above the loss of guessing has learned shorter sequences and never trained on the longest.
TEST(PublishedPage, WordProblemsThatNeverCameToTheLastStageAreMarked) {
  const std::map<std::string, std::string> names = {{"deltanet1", "DeltaNet, beta in (0, 1)"},
                                                    {"deltanet2", "DeltaNet, beta in (0, 2)"},
                                                    {"kda_unsigned", "KDA, gate in (0, 1)"},
                                                    {"kda_signed", "KDA, gate in (-1, 1)"},
                                                    {"deltaproduct2", "DeltaProduct, two steps"}};
  std::map<std::pair<std::string, std::string>, bool> behind;
  rows_of_export("words.csv", [&](const CsvRow& row) {
    const std::string group = row.text("task.group", "runs");
    bool& any =
        behind[{names.at(row.text("label", "runs")), fmt::format("{}_{}", group[0], group.substr(1))}];
    any = any || row.number("eval_loss", "runs") > row.number("chance_loss", "runs");
  });
  EXPECT_EQ(std::count_if(behind.begin(), behind.end(), [](const auto& one) { return one.second; }), 0);
  for (const auto& [of, is_behind] : behind) {
    const auto rows = rows_with("| memory | group |", {"| " + of.first, of.second});
    ASSERT_EQ(rows.size(), 1U) << of.first << " " << of.second;
    EXPECT_EQ(rows[0].find("\xE2\x80\xA0") != std::string::npos, is_behind) << rows[0];
  }
  EXPECT_EQ(page().find("as published; KDA"), std::string::npos);
}

/// ".433", "1", "0", "-.002".
std::string share(double x) {
  std::string text = fmt::format("{:.3f}", x);
  if (text == "0.000" || text == "-0.000") return "0";
  if (text == "1.000") return "1";
  return text.erase(text.find("0."), 1);
}

// Best and median of the seeds at 32, 128 and 512 tokens, as the figure's CSV has them.
TEST(PublishedPage, WordProblemsAreThoseOfTheirFigure) {
  const std::map<std::string, std::string> names = {
      {"deltanet1", "DeltaNet, beta in (0, 1)"},
      {"deltanet2", "DeltaNet, beta in (0, 2)"},
      {"kda_unsigned", "KDA, gate in (0, 1), beta in (0, 2)"},
      {"kda_signed", "KDA, gate in (-1, 1), beta in (0, 2)"},
      {"deltaproduct2", "DeltaProduct, two steps, beta in (0, 2)"}};
  std::map<std::pair<std::string, std::string>, std::map<std::int64_t, std::pair<double, double>>> rows;
  rows_of_export("words_figure.csv", [&](const CsvRow& row) {
    const std::string label = row.text("label", "points");
    if (names.count(label) == 0) return;
    rows[{label, row.text("task.group", "points")}][row.integer("length_factor", "points")] = {
        row.number("hi", "points"), row.number("median", "points")};
  });
  EXPECT_EQ(rows.size(), 11U);
  for (const auto& [of, lengths] : rows) {
    ASSERT_EQ(lengths.size(), 3U);
    const std::string group = of.second, name = fmt::format("{}_{}", group[0], group.substr(1));
    std::vector<std::string> best, median;
    for (const auto& [factor, values] : lengths) {
      best.push_back(share(values.first));
      median.push_back(share(values.second));
    }
    const std::string row =
        fmt::format("| {} | {}{} | {} | {} |\n", names.at(of.first), name, group == "Z2" ? " (parity)" : "",
                    fmt::join(best, " / "), fmt::join(median, " / "));
    EXPECT_NE(page().find(row), std::string::npos) << row;
  }
}

// Accuracy, sequences that are right throughout, and steps after which runs ended, on 256 swaps.
TEST(PublishedPage, RowsOfSwapsAreThoseOfTheirExport) {
  struct Runs {
    std::vector<double> accuracy, exact, steps;
  };
  std::map<std::string, Runs> of;
  rows_of_export("deltaformer2025_tracking.csv", [&](const CsvRow& row) {
    Runs& runs = of[row.text("label", "runs")];
    runs.accuracy.push_back(row.number("test_accuracy", "runs"));
    runs.exact.push_back(row.number("test_exact", "runs"));
    runs.steps.push_back(row.number("steps", "runs"));
  });
  EXPECT_EQ(of.size(), 8U);
  const auto steps = [](double x) {
    return fmt::format("{},{:03}", static_cast<int>(x) / 1000, static_cast<int>(x) % 1000);
  };
  for (auto& [label, runs] : of) {
    for (auto* values : {&runs.accuracy, &runs.exact, &runs.steps}) {
      ASSERT_EQ(values->size(), 3U);
      std::sort(values->begin(), values->end());
    }
    const std::string few =
                          runs.steps[0] < 1000 ? fmt::format("{:.0f}", runs.steps[0]) : steps(runs.steps[0]),
                      most =
                          runs.steps[2] < 1000 ? fmt::format("{:.0f}", runs.steps[2]) : steps(runs.steps[2]);
    const std::string taken = few == most ? few : fmt::format("{} to {}", few, most);
    const std::string exact = runs.exact[2] == 0
                                  ? "0"
                                  : fmt::format("{} ({}, {}, {})", share(runs.exact[1]), share(runs.exact[0]),
                                                share(runs.exact[1]), share(runs.exact[2]));
    const std::string end = fmt::format(" | {} | {} | {} |", share(runs.accuracy[1]), exact, taken);
    EXPECT_FALSE(rows_with("| memory | retrieval |", {end}).empty()) << label << ":" << end;
  }
}

// What reads DeltaFormer's rows on swaps is what its export says.
TEST(PublishedPage, RowsOfSwapsSayTheirReadKernel) {
  const std::map<std::string, std::string> names = {
      {"deltaformer_linear", "DeltaFormer, write kernel linear |"},
      {"deltaformer_round", "DeltaFormer, write kernel rounded to two decimals |"},
      {"deltaformer_softmax_read", "DeltaFormer, write kernel rounded, read by softmax |"},
      {"deltaformer_exp", "DeltaFormer, write kernel exp(8 (cos - 1)) |"},
      {"deltaformer_exp_linear", "DeltaFormer, write kernel exp(8 (cos - 1)) |"}};
  std::set<std::string> seen;
  rows_of_export("deltaformer2025_tracking.csv", [&](const CsvRow& row) {
    const std::string label = row.text("label", "runs");
    if (!label.starts_with("deltaformer") || !seen.insert(label).second) return;
    const bool softmax =
        row.text("memory.kappa2", "runs") == "exp" && row.text("memory.row_norm2", "runs") == "sum";
    EXPECT_TRUE(softmax || row.text("memory.kappa2", "runs") == "linear");
    const std::string begin = names.at(label) + (softmax ? " softmax |" : " linear |");
    EXPECT_EQ(rows_with("| memory | retrieval |", {begin}).size(), 1U) << label << ": " << begin;
  });
  EXPECT_EQ(seen.size(), names.size());
  EXPECT_EQ(rows_with("| memory | retrieval |", {"DeltaFormer"}).size(), names.size());
}

// Largest load whose median loss is at most 0.002 with all smaller ones, by d_dot and memory.
TEST(PublishedPage, TheSentenceOnEqualDDotIsThatOfTheSweep) {
  std::map<std::pair<std::int64_t, std::string>, std::map<std::int64_t, std::vector<double>>> losses;
  rows_of_export("ddot_sweep.csv", [&](const CsvRow& row) {
    const double loss = row.has("eval_loss") ? row.number("eval_loss", "runs") : INFINITY;
    losses[{row.integer("d_dot", "runs"), row.text("label", "runs")}]
          [row.integer("task.associations", "runs")]
              .push_back(std::isnan(loss) ? INFINITY : loss);
  });
  std::map<std::int64_t, std::map<std::string, std::int64_t>> holds, solves, fails;
  for (auto& [of, loads] : losses) {
    auto& [d_dot, label] = of;
    std::int64_t &held = holds[d_dot][label], &solved = solves[d_dot][label], &failed = fails[d_dot][label];
    for (auto& [load, values] : loads) {
      std::nth_element(values.begin(), values.begin() + 2, values.end());
      if (values.size() != 5) ADD_FAILURE() << "5 seeds";
      const bool is_solved = values[2] <= 0.002;
      if (is_solved) solved = load;
      if (!is_solved && failed == 0) failed = load;
      if (failed == 0) held = load;
    }
  }
  const auto text = [&](std::int64_t d) {
    return fmt::format("{} (DPFP-1), {} (DPFP-2), {} (linear)", holds[d]["dpfp1"], holds[d]["dpfp2"],
                       holds[d]["linear"]);
  };
  const std::string sentence = fmt::format(
      "at 32 they hold {}, at 64 {}, {}, {}, at 128 {}, {}; at 16 they do not: {} (DPFP-1), {} (linear). "
      "DPFP-3 at 48 "
      "fails first at {} and solves {} |",
      text(32), holds[64]["dpfp1"], holds[64]["dpfp2"], holds[64]["linear"], holds[128]["dpfp1"],
      holds[128]["dpfp2"], holds[16]["dpfp1"], holds[16]["linear"], fails[48]["dpfp3"], solves[48]["dpfp3"]);
  EXPECT_NE(page().find(sentence), std::string::npos) << sentence;
}

// Laws of the study file: the table, and what the sentences under it say of all runs.
TEST(PublishedPage, LawsOfTheStudyFileAreThoseOfTheirExport) {
  using Runs = std::map<std::pair<std::string, std::int64_t>, std::vector<double>>;
  std::map<std::string, Runs> losses, accuracies;
  rows_of_export("rules.csv", [&](const CsvRow& row) {
    const std::pair of{row.text("task.name", "runs"), row.integer("task.associations", "runs")};
    const std::string label = row.text("label", "runs");
    losses[label][of].push_back(row.number("eval_loss", "runs"));
    accuracies[label][of].push_back(row.number("eval_accuracy", "runs"));
  });
  const auto median = [](std::vector<double> x) {
    EXPECT_EQ(x.size(), 3u);
    std::sort(x.begin(), x.end());
    return x.at(1);
  };
  const auto medians = [&](Runs& runs, const char* task, std::initializer_list<int> loads, int digits) {
    std::vector<std::string> out;
    for (const int load : loads) out.push_back(fmt::format("{:.{}f}", median(runs[{task, load}]), digits));
    return fmt::format("{}", fmt::join(out, ", "));
  };
  const std::map<std::string, std::string> names = {{"tanh_delta", "tanh of the error, beta in (0, 1)"},
                                                    {"tanh_delta2", "tanh of the error, beta in (0, 2)"},
                                                    {"oja_decay", "Oja, a decay a channel"},
                                                    {"momentum", "delta rule with momentum"},
                                                    {"delta", "delta rule, beta in (0, 1)"},
                                                    {"delta2", "delta rule, beta in (0, 2)"},
                                                    {"sum", "linear attention"}};
  ASSERT_EQ(losses.size(), names.size());
  for (auto& [label, of] : losses) {
    const std::string row =
        fmt::format("| {} | {} | {} | {} | {} |\n", names.at(label), medians(of, "recall", {8, 16, 24}, 4),
                    medians(of, "reassign", {8, 16, 24}, 4),
                    medians(accuracies[label], "swap", {4, 8, 12}, 3), medians(of, "swap", {4, 8, 12}, 4));
    EXPECT_NE(page().find(row), std::string::npos) << row;
    for (const double loss : of[{"recall", 24}]) EXPECT_GT(loss, 0.1) << label;
    for (const int load : {8, 16}) {
      EXPECT_EQ(median(of[{"recall", load}]) <= 0.002, label != "tanh_delta") << label;
      const bool replaces = label != "tanh_delta" && label != "oja_decay" && label != "sum";
      EXPECT_EQ(median(of[{"reassign", load}]) <= 0.002, replaces) << label;
    }
  }
  const double lost = 0.5 * std::pow(1 - std::tanh(1), 2);
  EXPECT_NE(page().find(fmt::format("{:.4f} on `recall`; the loss stays there", lost)), std::string::npos);
  for (const int load : {8, 16}) {
    for (const double loss : losses["tanh_delta"][{"recall", load}]) EXPECT_NEAR(loss, lost, 2e-4);
    const double oja = median(losses["oja_decay"][{"reassign", load}]);
    EXPECT_TRUE(median(losses["delta"][{"reassign", load}]) < oja &&
                oja < median(losses["sum"][{"reassign", load}]));
  }
  for (const int keys : {4, 8, 12}) {
    for (const double right : accuracies["tanh_delta2"][{"swap", keys}]) EXPECT_GT(right, 0.9995);
    const auto& momentum = accuracies["momentum"][{"swap", keys}];
    const auto& delta = accuracies["delta"][{"swap", keys}];
    const bool more = *std::min_element(momentum.begin(), momentum.end()) >
                      *std::max_element(delta.begin(), delta.end()) + 0.1;
    EXPECT_EQ(more, keys != 4);
  }
}

}  // namespace
}  // namespace crosstalk

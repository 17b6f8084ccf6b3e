// results/published/README.md: its tables of induction and of probes, and the seconds that it says of its exports, are made of
// the files beside it.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <sstream>

#include "results/csv.h"
#include "results/numbers/probe_theory.h"
#include "results/replay/replay.h"
#include "results/replay/test_published.h"

namespace crosstalk {
namespace {

namespace fs = std::filesystem;

double median_of_three(std::vector<double> x) {
  EXPECT_EQ(x.size(), 3u);
  std::sort(x.begin(), x.end());
  return x.at(1);
}

/// "12,000".
std::string steps_text(double x) {
  const int n = static_cast<int>(x);
  return n < 1000 ? fmt::format("{}", n) : fmt::format("{},{:03}", n / 1000, n % 1000);
}

// Runs that answer everything with their steps, or, where none does, accuracies: one, or all where they differ much.
TEST(PublishedTables, InductionIsThatOfItsExport) {
  struct Runs {
    std::vector<double> accuracy, solved_steps;
  };
  std::map<std::string, std::map<std::string, Runs>> of;
  rows_of_export("induction.csv", [&](const CsvRow& row) {
    const std::string label = row.text("label", "runs"), conv = row.text("model.short_conv", "runs"),
                      name = label == "attention" ? "attention, no positions"
                             : label == "rope"    ? "attention, rotary positions"
                                                  : "DeltaNet";
    Runs& runs = of[name][row.text("model.layers", "runs") + (conv == "none" ? "" : conv)];
    runs.accuracy.push_back(row.number("test_accuracy", "runs"));
    if (row.number("test_exact", "runs") == 1) runs.solved_steps.push_back(row.number("steps", "runs"));
  });
  ASSERT_EQ(of.size(), 3u);
  const std::string page = content_of(published_folder() / "README.md");
  for (auto& [name, settings] : of) {
    std::string line = "| " + name;
    for (const char* setting : {"1", "1k", "2", "2k"}) {
      Runs& runs = settings[setting];
      ASSERT_EQ(runs.accuracy.size(), 3u) << name << " " << setting;
      std::sort(runs.accuracy.rbegin(), runs.accuracy.rend());
      std::sort(runs.solved_steps.begin(), runs.solved_steps.end());
      std::string in;
      const auto accuracy = [](double x) { return fmt::format("{:.2f}", x).substr(1); };
      if (runs.solved_steps.empty()) {
        in = runs.accuracy[0] - runs.accuracy[2] < 0.1
                 ? accuracy(runs.accuracy[1])
                 : fmt::format("{}, {}, {}", accuracy(runs.accuracy[0]), accuracy(runs.accuracy[1]),
                               accuracy(runs.accuracy[2]));
      } else {
        const std::string first = steps_text(runs.solved_steps.front()),
                          last = steps_text(runs.solved_steps.back());
        in = first == last ? first : first + " to " + last;
      }
      line += fmt::format(" | {} ({})", runs.solved_steps.size(), in);
    }
    EXPECT_NE(page.find(line + " |\n"), std::string::npos) << line;
  }
}

// Fuzzy recall of MAD, built in and from mad-lab's arrays: the table, and that the ranges of the seeds overlap.
TEST(PublishedTables, ForeignArraysTrainAsTheBuiltInTaskDoes) {
  const std::string page = content_of(published_folder() / "README.md");
  std::vector<std::pair<double, double>> ranges;
  for (const auto& [name, title] :
       {std::pair{"mad_arrays.csv", "built in"}, {"mad_arrays_files.csv", "mad-lab's arrays"}}) {
    std::map<std::string, std::vector<double>> of;
    rows_of_export(name, [&](const CsvRow& row) {
      for (const char* metric : {"test_accuracy", "test_loss"})
        of[metric].push_back(row.number(metric, "runs"));
    });
    std::string line = fmt::format("| {}", title);
    for (const auto& [metric, digits] : {std::pair{"test_accuracy", 3}, {"test_loss", 3}}) {
      std::vector<double>& x = of[metric];
      ASSERT_EQ(x.size(), 5u) << name;
      std::sort(x.begin(), x.end());
      for (const std::size_t i : {std::size_t{0}, std::size_t{2}, std::size_t{4}})
        line += fmt::format(" | {:.{}f}", x[i], digits);
    }
    EXPECT_NE(page.find(line + " |\n"), std::string::npos) << line;
    ranges.emplace_back(of["test_accuracy"].front(), of["test_accuracy"].back());
    const double median = of["test_accuracy"][2];
    if (ranges.size() < 2) continue;
    EXPECT_TRUE(ranges[0].first <= median && median <= ranges[0].second) << median;
  }
}

// Medians of the seeds at d = 64, and what theory says of the same keys.
TEST(PublishedTables, ProbesAreThoseOfTheirExport) {
  constexpr int d = 64;
  std::map<std::pair<std::string, std::int64_t>, std::pair<std::vector<double>, std::vector<double>>> runs;
  rows_of_export("probe.csv", [&](const CsvRow& row) {
    if (row.integer("model.d_key", "runs") != d) return;
    auto& [error, right] = runs[{row.text("label", "runs"), row.integer("task.associations", "runs")}];
    error.push_back(row.number("squared_error", "runs"));
    right.push_back(row.number("test_accuracy", "runs"));
  });
  const std::string page = content_of(published_folder() / "README.md");
  for (const int n : {16, 48, 64, 128, 256, 384}) {
    const auto cell = [&](const char* label, double theory) {
      const auto& [error, right] = runs[{label, n}];
      return fmt::format("{:.3f}, {:.3f}, {:.3f}", median_of_three(error), theory, median_of_three(right));
    };
    const std::vector<ProbeRead> reads = delta_rule_reads(n, d, 1);
    double delta = 0;
    for (const ProbeRead& read : reads) delta += squared_error(read) / static_cast<double>(reads.size());
    const std::string line =
        fmt::format("| {} | {} | {} | {} |\n", n / static_cast<double>(d),
                    cell("sum", squared_error(sum_rule_read(n, d))), cell("delta", delta),
                    cell("mesa", squared_error(least_squares_read(n, d))));
    EXPECT_NE(page.find(line), std::string::npos) << line;
  }
}

// "36 runs in 33 s" beside the name of an export are its runs, and the seconds from the first start to the last end.
TEST(PublishedTables, SecondsBesideAnExportAreThoseOfItsProvenance) {
  const std::string page = content_of(published_folder() / "README.md");
  const std::regex words("([0-9,]+) runs in ([0-9]+) s");
  std::istringstream text(page);
  std::string paragraph;
  int found = 0;
  const auto check = [&] {
    const std::regex name("([a-z0-9_]+)\\.csv");
    for (std::sregex_iterator at(paragraph.begin(), paragraph.end(), words), none; at != none; ++at) {
      // The export that is named next.
      const std::string behind = paragraph.substr(static_cast<std::size_t>(at->position()));
      std::smatch file;
      if (!std::regex_search(behind, file, name)) continue;
      const fs::path provenance = published_folder() / (file[1].str() + ".provenance.csv");
      if (!fs::exists(provenance)) continue;
      std::string runs = (*at)[1];
      std::erase(runs, ',');
      int all = 0;
      std::int64_t seconds = 0;
      for (const std::string& line : provenance_of(published_folder() / (file[1].str() + ".csv"))) {
        const std::regex parts(".*: ([0-9]+) runs, .*, ([0-9]+) s on .*");
        std::smatch part;
        ASSERT_TRUE(std::regex_match(line, part, parts)) << line;
        all += std::stoi(part[1]), seconds += std::stoll(part[2]);
      }
      EXPECT_EQ(all, std::stoi(runs)) << at->str() << " of " << file[0];
      EXPECT_EQ(fmt::format("{}", seconds), (*at)[2].str()) << at->str() << " of " << file[0];
      ++found;
    }
    paragraph.clear();
  };
  for (std::string line; std::getline(text, line);) {
    if (line.empty()) check();
    paragraph += line + " ";
  }
  check();
  EXPECT_GE(found, 6);
}

// The studies of 5 seeds: runs and seconds of each row.
TEST(PublishedTables, RowsOfStudiesHaveTheSecondsOfTheirProvenance) {
  std::istringstream text(content_of(published_folder() / "README.md"));
  const std::regex row("\\| `([a-z0-9_]+)\\.toml` \\| ([0-9]+) \\| ([0-9]+) s \\|.*");
  int found = 0;
  for (std::string line; std::getline(text, line);) {
    std::smatch part;
    if (!std::regex_match(line, part, row)) continue;
    const std::vector<std::string> lines = provenance_of(published_folder() / (part[1].str() + ".csv"));
    ASSERT_EQ(lines.size(), 1u) << part[1];
    EXPECT_NE(lines[0].find(fmt::format(": {} runs, ", part[2].str())), std::string::npos) << lines[0];
    EXPECT_NE(lines[0].find(fmt::format(", {} s on ", part[3].str())), std::string::npos) << lines[0];
    ++found;
  }
  EXPECT_EQ(found, 4);
}

// Rates at which the median of a memory's seeds is at least .9, their ends, and the best median and its rate: of the rows that the
// program made.
TEST(PublishedTables, LearningRateWindowsAreThoseOfTheirExport) {
  std::map<std::string, std::map<double, std::vector<double>>> of;
  rows_of_export("lr_atlas.csv", [&](const CsvRow& row) {
    of[row.text("label", "runs")][row.number("train.learning_rate", "runs")].push_back(
        row.number("test_accuracy", "runs"));
  });
  EXPECT_GE(of.size(), 16u);
  const std::string page = content_of(published_folder() / "README.md");
  const auto begin = page.find("<!-- made: crosstalk table windows lr_atlas.csv");
  ASSERT_NE(begin, std::string::npos);
  std::istringstream made(page.substr(begin, page.find("<!-- end -->", begin) - begin));
  std::vector<std::string> rows;
  for (std::string line; std::getline(made, line);)
    if (line.starts_with("| ") && !line.starts_with("| Memory")) rows.push_back(line);
  EXPECT_EQ(rows.size(), of.size());
  const auto short_number = [](double x) { return fmt::format("{:.3g}", x); };
  for (auto& [label, rates] : of) {
    EXPECT_EQ(rates.size(), 13u) << label;
    std::vector<double> good;
    double top = -1, best = 0;
    for (auto& [rate, seeds] : rates) {
      std::sort(seeds.begin(), seeds.end());
      const std::size_t n = seeds.size();
      const double median = (seeds[(n - 1) / 2] + seeds[n / 2]) / 2;
      if (median >= 0.9) good.push_back(rate);
      if (median > top) top = median, best = rate;
    }
    const std::string window = fmt::format(
        " | {} | {} | {} | {}", good.size(), good.empty() ? "--" : fmt::format("{:g}", good.front()),
        good.empty() ? "--" : fmt::format("{:g}", good.back()), short_number(top));
    const std::string end = fmt::format(" | {:g} |", best);
    EXPECT_EQ(std::count_if(rows.begin(), rows.end(),
                            [&](const std::string& row) {
                              return row.find(window) != std::string::npos && row.ends_with(end);
                            }),
              1)
        << label << window << " .. " << end;
  }
}

/// Losses by step of each run, by its memory and seed, of runs with `load` associations.
using Curves = std::map<std::pair<std::string, std::int64_t>, std::map<double, double>>;
Curves curves_of(const std::string& runs, const std::string& curves, std::int64_t load) {
  std::map<std::string, std::pair<std::string, std::int64_t>> names;
  rows_of_export(runs, [&](const CsvRow& row) {
    if (row.integer("task.associations", "runs") == load)
      names[row.text("id", "runs")] = {row.text("label", "runs"), row.integer("seed", "runs")};
  });
  Curves losses;
  rows_of_export(curves, [&](const CsvRow& row) {
    const auto name = names.find(row.text("id", "curves"));
    if (name != names.end() && row.text("metric", "curves") == "eval_loss")
      losses[name->second][row.number("step", "curves")] = row.number("value", "curves");
  });
  return losses;
}

// Figures 3 and 4 of Schlag 2021: where the points of the released curves lie among those of our seeds.
TEST(PublishedTables, ReleasedCurvesLieAmongOursAsTheTableSays) {
  const std::map<std::string, std::string> names = {{"favor64", "FAVOR+ 64"},
                                                    {"favor128", "FAVOR+ 128"},
                                                    {"favor512", "FAVOR+ 512"},
                                                    {"favor64_delta", "FAVOR+ 64 delta"},
                                                    {"favor128_delta", "FAVOR+ 128 delta"},
                                                    {"linear_delta", "linear delta"},
                                                    {"tanh_fwm", "tanh FWM"},
                                                    {"dpfp1_fwm", "DPFP-1 FWM"},
                                                    {"dpfp1_sum", "DPFP-1 sum"},
                                                    {"dpfp1_delta", "DPFP-1 delta"},
                                                    {"dpfp2_delta", "DPFP-2 delta"},
                                                    {"dpfp1", "DPFP-1"},
                                                    {"dpfp2", "DPFP-2"},
                                                    {"dpfp3", "DPFP-3"}};
  const std::string page = content_of(published_folder() / "README.md");
  int rows = 0;
  for (const auto& [figure, load] : {std::pair{3, 20}, {4, 600}}) {
    const Curves ours = curves_of("schlag2021_curves.csv", "schlag2021_curves.curves.csv", load);
    EXPECT_EQ(ours.size(), 40u);
    for (const auto& [name, curve] :
         curves_of("literature/curves/schlag2021.csv", "literature/curves/schlag2021.curves.csv", load)) {
      int above = 0, below = 0;
      std::vector<double> steps;
      for (const auto& [run, losses] : ours)
        if (run.first == name.first) steps.push_back(losses.rbegin()->first);
      ASSERT_EQ(steps.size(), 5u) << name.first;
      std::sort(steps.begin(), steps.end());
      for (const auto& [step, loss] : curve) {
        std::vector<double> at;
        for (const auto& [run, losses] : ours)
          if (run.first == name.first) at.push_back(std::prev(losses.upper_bound(step))->second);
        above += loss > *std::max_element(at.begin(), at.end());
        below += loss < *std::min_element(at.begin(), at.end());
      }
      const int points = static_cast<int>(curve.size());
      const auto title = names.find(name.first);
      const std::string first = steps_text(steps.front()), last = steps_text(steps.back());
      const std::string row = fmt::format(
          "| {} | {} | {} | {} | {} | {} | {} | {} |\n", figure,
          title == names.end() ? name.first : title->second, steps_text(curve.rbegin()->first),
          first == last ? first : first + " to " + last, points, above, points - above - below, below);
      EXPECT_NE(page.find(row), std::string::npos) << row;
      ++rows;
    }
  }
  EXPECT_EQ(rows, 16);
}

}  // namespace
}  // namespace crosstalk

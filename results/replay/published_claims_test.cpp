// results/published/README.md: numbers in its sentences on DeltaFormer, and the table of all memories, are made of the files beside
// it.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "results/numbers/statistics.h"
#include "results/replay/test_published.h"

namespace crosstalk {
namespace {

void expect_said(const std::string& sentence) {
  EXPECT_NE(flat_page().find(sentence), std::string::npos) << sentence;
}

/// ".910 to .938", or "1".
std::string from_to(std::vector<double> values) {
  const auto text = [](double x) {
    const std::string digits = fmt::format("{:.3f}", x);
    return digits == "1.000" ? std::string("1") : digits.substr(1);
  };
  std::sort(values.begin(), values.end());
  const std::string low = text(values.front()), high = text(values.back());
  return low == high ? low : low + " to " + high;
}

// The read kernels with one layer, whose keys are convolved: median, lowest and highest of the seeds in percent.
TEST(PublishedClaims, TheConvolutionInsideIsThatOfItsExport) {
  std::map<std::string, std::vector<double>> of;
  rows_of_export("deltaformer2025_table1_convolution.csv", [&](const CsvRow& row) {
    of[row.text("label", "runs")].push_back(100 * row.number("test_accuracy", "runs"));
  });
  ASSERT_EQ(of.size(), 4u);
  for (auto& [label, values] : of) {
    ASSERT_EQ(values.size(), 5u);
    std::sort(values.begin(), values.end());
  }
  EXPECT_EQ(of["softmax"].front(), 100);
  EXPECT_EQ(of["relu"].front(), 100);
  const auto words = [&](const char* label, double published) {
    const std::vector<double>& v = of[label];
    return fmt::format("{} {:.1f} ({:.1f} to {:.1f}; published {})", label, v[2], v[0], v[4], published);
  };
  expect_said(fmt::format("softmax 100, ReLU 100, {}, {}.", words("round", 91.6), words("linear", 85.6)));
}

// Swaps of 3 and 4 elements by kernels with and without a sign.
TEST(PublishedClaims, SwapsOfFewElementsAreThoseOfTheirExport) {
  std::map<std::string, std::vector<double>> exact;
  std::map<std::string, int> diverged;
  rows_of_export("tracking_sign.csv", [&](const CsvRow& row) {
    const std::string of = row.text("label", "runs") + " " + row.text("task.associations", "runs") + " " +
                           row.text("model.mlp", "runs");
    if (row.text("status", "runs") == "diverged") return void(++diverged[of]);
    exact[of].push_back(row.number("test_exact", "runs"));
  });
  for (const char* of : {"deltaformer_exp 3 none", "deltaformer_exp 3 gelu", "deltaformer_exp 4 none"})
    EXPECT_EQ(*std::max_element(exact[of].begin(), exact[of].end()), 0) << of;
  EXPECT_EQ(exact["deltaformer_linear 3 none"], std::vector<double>{0});
  EXPECT_EQ(exact["deltaformer_linear 4 none"].size(), 3u);
  expect_said(fmt::format(
      "with 4 elements and no MLP the linear kernel is exact in {} of the sequences and exp in none.",
      from_to(exact["deltaformer_linear 4 none"])));
  expect_said(fmt::format(
      "{} of 3 runs without an MLP diverge and 1 stays at chance, and with one ({} runs) it is exact in {} of the sequences.",
      diverged["deltaformer_linear 3 none"], exact["deltaformer_linear 3 gelu"].size(),
      from_to(exact["deltaformer_linear 3 gelu"])));
}

// Reads behind a LayerNorm without a bias add up to 0: one-hot values cost at least 0.5/S, and the best runs are there.
TEST(PublishedClaims, TheFastWeightMemoryEndsAtWhatItsReadAllows) {
  std::map<std::int64_t, double> least;
  rows_of_export("all_memories.csv", [&](const CsvRow& row) {
    if (row.text("label", "runs") != "fwm" || row.text("task.name", "runs") != "recall" ||
        row.text("status", "runs") != "done")
      return;
    const std::int64_t pairs = row.integer("task.associations", "runs");
    const double loss = row.number("test_loss", "runs");
    least[pairs] = least.count(pairs) == 0 ? loss : std::min(least[pairs], loss);
  });
  std::vector<std::string> at;
  for (const std::int64_t pairs : {4, 8, 12, 16}) {
    EXPECT_GE(least[pairs], 0.5 / static_cast<double>(pairs)) << pairs;
    EXPECT_NEAR(least[pairs], 0.5 / static_cast<double>(pairs), 1e-5) << pairs;
    at.push_back(fmt::format("{:.4f}", least[pairs]));
  }
  expect_said(fmt::format("{}, {}, {} and {} at S = 4, 8, 12 and 16.", at[0], at[1], at[2], at[3]));
  std::vector<double> of20;
  rows_of_export("schlag2021_updates.csv", [&](const CsvRow& row) {
    if (row.text("label", "runs") == "dpfp1_fwm" && row.integer("task.associations", "runs") == 20)
      of20.push_back(row.number("eval_loss", "runs"));
  });
  ASSERT_EQ(of20.size(), 5u);
  const auto [low, high] = std::minmax_element(of20.begin(), of20.end());
  EXPECT_GE(*low, 0.025);
  expect_said(fmt::format("all five of ours at {:.3f} to {:.3f}. That is the least that its read allows",
                          *low, *high));
}

/// Runs of one memory on one task: associations or swaps -> learning rate -> seed -> validation loss, test loss, accuracy.
struct RunOfAll {
  double eval, test, accuracy;
};
using OfSeeds = std::map<std::int64_t, RunOfAll>;
using OfRates = std::map<double, OfSeeds>;

/// The rate of the least median validation loss over the seeds that all rates have.
double chosen_of(const OfRates& rates) {
  std::set<std::int64_t> shared;
  for (const auto& [seed, run] : rates.begin()->second) shared.insert(seed);
  for (const auto& [rate, seeds] : rates)
    std::erase_if(shared, [&](std::int64_t seed) { return seeds.count(seed) == 0; });
  std::pair<double, double> best = {std::numeric_limits<double>::infinity(), rates.begin()->first};
  for (const auto& [rate, seeds] : rates) {
    std::vector<double> losses;
    for (const std::int64_t seed : shared) losses.push_back(seeds.at(seed).eval);
    best = std::min(best, {median(losses), rate});
  }
  return best.second;
}

/// Median over the seeds of the chosen rate.
double shown_of(const OfRates& rates, double RunOfAll::*what) {
  std::vector<double> values;
  for (const auto& [seed, run] : rates.at(chosen_of(rates))) values.push_back(run.*what);
  return median(values);
}

/// MQAR in the layers of authors: pairs -> memory -> "0.98 at 0.01*", the rate chosen by validation accuracy, then loss.
std::map<std::int64_t, std::map<std::string, std::string>> layers_of_authors() {
  struct Tried {
    double accuracy, loss, test;
  };
  std::map<std::int64_t, std::map<std::string, std::map<double, std::map<std::int64_t, Tried>>>> of;
  std::set<double> all_rates;
  if (!std::filesystem::exists(published_folder() / "all_memories_published.csv")) return {};
  rows_of_export("all_memories_published.csv", [&](const CsvRow& row) {
    if (row.text("task.name", "runs") != "mqar") return;
    const bool done = row.text("status", "runs") == "done";
    const double rate = row.number("train.learning_rate", "runs");
    of[row.integer("task.pairs", "runs")][row.text("label", "runs")][rate][row.integer("seed", "runs")] = {
        done ? row.number("eval_accuracy", "runs") : 0,
        done ? row.number("eval_loss", "runs") : std::numeric_limits<double>::infinity(),
        done ? row.number("test_accuracy", "runs") : 0};
    all_rates.insert(rate);
  });
  std::map<std::int64_t, std::map<std::string, std::string>> shown;
  for (const auto& [pairs, memories] : of)
    for (const auto& [memory, rates] : memories) {
      std::tuple<double, double, double> best = {1, 0, 0};  // minus accuracy, loss, rate
      for (const auto& [rate, seeds] : rates) {
        std::vector<double> accuracies, losses;
        for (const auto& [seed, run] : seeds)
          if (std::all_of(rates.begin(), rates.end(),
                          [&](const auto& of_rate) { return of_rate.second.count(seed); }))
            accuracies.push_back(run.accuracy), losses.push_back(run.loss);
        best = std::min(best, {-median(accuracies), median(losses), rate});
      }
      const double rate = std::get<2>(best);
      std::vector<double> tests;
      for (const auto& [seed, run] : rates.at(rate)) tests.push_back(run.test);
      shown[pairs][memory] =
          fmt::format("{:.2f} at {}{}", median(tests), rate,
                      rate == *all_rates.begin() || rate == *all_rates.rbegin() ? "*" : "");
    }
  return shown;
}

// Capacities, accuracy on swaps and chosen rates of every memory.
TEST(PublishedClaims, TheTableOfAllMemoriesIsThatOfItsExport) {
  std::map<std::string, std::map<std::string, std::map<std::int64_t, OfRates>>> of;
  std::map<std::string, std::int64_t> state;
  std::set<double> rates;
  int runs = 0, diverged = 0;
  rows_of_export("all_memories.csv", [&](const CsvRow& row) {
    const std::string memory = row.text("label", "runs"), task = row.text("task.name", "runs");
    const double inf = std::numeric_limits<double>::infinity(),
                 rate = row.number("train.learning_rate", "runs");
    const bool done = row.text("status", "runs") == "done";
    ++runs, diverged += !done;
    const auto number = [&](const char* key) {
      return row.text(key, "runs").empty() ? inf : row.number(key, "runs");
    };
    of[memory][task][row.integer(task == "swap" ? "task.operations" : "task.associations", "runs")][rate]
      [row.integer("seed", "runs")] = {number("eval_loss"), number("test_loss"),
                                       done ? row.number("test_accuracy", "runs") : 0};
    if (task == "recall") state[memory] = std::max(state[memory], row.integer("state_size", "runs"));
    rates.insert(rate);
  });
  EXPECT_GE(rates.size(), 4u);
  const auto rate_text = [&](double rate) {
    return fmt::format("{}{}", rate, rate == *rates.begin() || rate == *rates.rbegin() ? "*" : "");
  };
  auto layers = layers_of_authors();
  for (auto& [memory, tasks] : of) {
    std::vector<std::string> cells = {fmt::format("`{}`", memory)}, chosen;
    const std::int64_t floats = state[memory];
    cells.push_back(floats < 1000 ? fmt::format("{}", floats)
                                  : fmt::format("{},{:03}", floats / 1000, floats % 1000));
    for (const char* task : {"recall", "reassign"}) {
      std::int64_t solved = 0, failed = 0;
      for (const auto& [load, tried] : tasks[task]) {
        if (failed != 0) break;
        (shown_of(tried, &RunOfAll::test) <= 2e-3 ? solved : failed) = load;
      }
      cells.push_back(fmt::format("{}{}", failed == 0 ? "\xE2\x89\xA5 " : "", solved));
      chosen.push_back(failed == 0 ? "--" : rate_text(chosen_of(tasks[task][failed])));
    }
    const OfRates& swaps = tasks["swap"].at(16);
    const double accuracy = shown_of(swaps, &RunOfAll::accuracy);
    cells.push_back(fmt::format("{:.2f}", accuracy));
    chosen.push_back(accuracy < 0.99 ? rate_text(chosen_of(swaps)) : "--");
    cells.push_back(fmt::format("{}", fmt::join(chosen, ", ")));
    std::string line = fmt::format("| {} |", fmt::join(cells, " | "));
    for (auto& [pairs, memories] : layers)
      line += memories[memory].empty() ? "  |" : fmt::format(" {} |", memories[memory]);
    line += "\n";
    EXPECT_NE(content_of(published_folder() / "README.md").find(line), std::string::npos) << line;
  }
  expect_said(fmt::format("{} of the {},{:03} runs diverged.", diverged, runs / 1000, runs % 1000));
}

}  // namespace
}  // namespace crosstalk

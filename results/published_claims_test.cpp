// results/published/README.md: numbers in its sentences on DeltaFormer are made of the files beside it.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "results/test_published.h"

namespace crosstalk {
namespace {

/// README with its lines joined, so that sentences can be looked for.
std::string joined_page() {
  std::string text = content_of(published_folder() / "README.md");
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

void expect_said(const std::string& sentence) {
  EXPECT_NE(joined_page().find(sentence), std::string::npos) << sentence;
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

}  // namespace
}  // namespace crosstalk

// In-context regression: what is drawn, its law, and what its baselines come to.
// SPDX-License-Identifier: Apache-2.0
#include "tasks/kinds/regression_sequence.h"

#include "tasks/golden.h"

namespace crosstalk::testing::regression_test {

[[maybe_unused]] const bool pinned =
    pin("regression", {{"standard", {}, 0xd6649fbda95a3243u, 0x6ed6d58c267b6e49u}});

double number(const SequenceView& s, int t, int channel) {
  return s.tokens[t * s.shape.C + channel] * kNumberUnit;
}

/// A normal number as a cell of `cells` that are equally likely.
std::size_t cell_of(double x, int cells) {
  return static_cast<std::size_t>(
      std::clamp(static_cast<int>(cells * 0.5 * std::erfc(-x / std::sqrt(2.0))), 0, cells - 1));
}

/// w of a sequence whose outputs have no noise: the normal equations of all examples, by Gaussian elimination.
std::vector<double> weights_of(const SequenceView& s, int n) {
  std::vector<std::vector<double>> rows;
  for (int i = 0; i < n; ++i) {
    rows.emplace_back();
    for (int j = 0; j <= n; ++j) {
      double sum = 0;
      for (int t = 0; t < s.shape.T; ++t) sum += number(s, t, i) * number(s, t, j);
      rows.back().push_back(sum);
    }
  }
  const auto at = [&](int i) -> std::vector<double>& { return rows[static_cast<std::size_t>(i)]; };
  const auto entry = [&](int i, int j) -> double& { return at(i)[static_cast<std::size_t>(j)]; };
  for (int i = 0; i < n; ++i) {
    int best = i;
    for (int k = i; k < n; ++k)
      if (std::abs(entry(k, i)) > std::abs(entry(best, i))) best = k;
    std::swap(at(i), at(best));
    for (int k = 0; k < n; ++k) {
      const double factor = k == i ? 0 : entry(k, i) / entry(i, i);
      for (int j = i; factor != 0 && j <= n; ++j) entry(k, j) -= factor * entry(i, j);
    }
  }
  std::vector<double> w;
  for (int i = 0; i < n; ++i) w.push_back(entry(i, n) / entry(i, i));
  return w;
}

TEST(Regression, OutputsAreOneLinearMapOfTheInputsOfASequence) {
  constexpr int n = 5;
  const auto task = make_task("regression", {{"inputs", n}, {"pairs", 12}, {"noise", 0.0}});
  SequenceBuffer buffer(*task, Split::eval);
  for (std::uint64_t number_of = 0; number_of < 50; ++number_of) {
    const SequenceView s = buffer.draw(3, number_of);
    const std::vector<double> w = weights_of(s, n);
    for (int t = 0; t < 12; ++t)
      for (const int part : {0, n + 1}) {
        double y = 0;
        for (int i = 0; i < n; ++i) y += w[static_cast<std::size_t>(i)] * number(s, t, part + i);
        // Outputs are rounded to 1e-6, and 12 examples of 5 inputs determine w well.
        ASSERT_NEAR(y, number(s, t, part + n), 1e-4) << "sequence " << number_of << ", token " << t;
      }
  }
}

TEST(Regression, InputsWeightsAndNoiseAreNormalAndIndependent) {
  constexpr int n = 4, cells = 20;
  const Settings sizes = {{"inputs", n}, {"pairs", 6}};
  Settings clean = sizes, noisy = sizes;
  clean["noise"] = 0.0, noisy["noise"] = 0.5;
  const auto without = make_task("regression", clean), with = make_task("regression", noisy);
  SequenceBuffer a(*without, Split::train), b(*with, Split::train);
  std::vector<int> x(cells), asked(cells), weight(cells), noise(cells), together(16);
  for (std::uint64_t draw = 0; draw < 4000; ++draw) {
    const SequenceView s = a.draw(8, draw), t = b.draw(8, draw);
    ++x[cell_of(number(s, 2, 1), cells)];
    ++asked[cell_of(number(s, 3, n + 1 + 2), cells)];
    ++together[4 * cell_of(number(s, 0, 0), 4) + cell_of(number(s, 0, n + 1), 4)];
    const std::vector<double> w = weights_of(s, n);
    ++weight[cell_of(w[1] * std::sqrt(double{n}), cells)];
    // The same words make the same w and inputs, whatever the noise is.
    ++noise[cell_of((number(t, 5, n) - number(s, 5, n)) / 0.5, cells)];
    ASSERT_EQ(number(s, 5, 0), number(t, 5, 0));
    ASSERT_EQ(number(s, 5, 2 * n + 1), number(t, 5, 2 * n + 1));  // what is asked has none
  }
  for (const auto& counts : {x, asked, weight, noise, together}) expect_uniform({counts});
}

TEST(Regression, OutputsHaveVarianceOneAndTheirNoise) {
  const auto task = make_task("regression", {{"inputs", 16}, {"pairs", 8}, {"noise", 0.7}});
  SequenceBuffer buffer(*task, Split::train);
  double shown = 0, asked = 0;
  constexpr int draws = 20000;
  for (std::uint64_t draw = 0; draw < draws; ++draw) {
    const SequenceView s = buffer.draw(1, draw);
    shown += std::pow(number(s, 4, 16), 2) / draws, asked += std::pow(number(s, 4, 33), 2) / draws;
  }
  // E y^4 = 3 (1 + 2 / n) of y = w.x: a standard error of at most 2 / sqrt(draws).
  EXPECT_NEAR(asked, 1, 5 * 2 / std::sqrt(double{draws}));
  EXPECT_NEAR(shown, 1 + 0.49, 5 * 2.2 / std::sqrt(double{draws}));
}

TEST(Regression, LeastSquaresLosesWhatTheorySays) {
  const auto loss = [](int n, int examples, double noise, const char* which) {
    return make_task("regression", {{"inputs", n}, {"pairs", examples}, {"noise", noise}})
        ->baselines()
        .at(which);
  };
  // 0.5 noise^2 n / (examples - n - 1); 256 sequences.
  EXPECT_NEAR(loss(8, 64, 0.5, "least_squares_loss") / (0.5 * 0.25 * 8 / 55), 1, 0.15);
  EXPECT_NEAR(loss(16, 20, 0.1, "least_squares_loss") / (0.5 * 0.01 * 16 / 3), 1, 0.5);  // heavy tails
  // Fewer examples than inputs, no noise: what lies beyond their span, 0.5 (1 - examples / n).
  for (const char* which : {"least_squares_loss", "optimum_loss"})
    EXPECT_NEAR(loss(32, 12, 0, which) / (0.5 * 20 / 32), 1, 0.1) << which;
  EXPECT_LT(loss(16, 24, 0, "least_squares_loss"), 1e-8);
  EXPECT_NEAR(loss(16, 24, 0, "delta_rule_loss") / (0.5 * std::pow(15.0 / 16, 24)), 1, 0.1);
  // The sum rule's best step leaves no less than ridge regression.
  for (const int examples : {4, 16, 64}) {
    const auto all = make_task("regression", {{"pairs", examples}, {"noise", 0.3}})->baselines();
    EXPECT_LT(all.at("optimum_loss"), all.at("one_step_loss"));
    EXPECT_LT(all.at("optimum_loss"), all.at("least_squares_loss"));
    EXPECT_LT(all.at("optimum_loss"), all.at("delta_rule_loss"));
  }
}

// The best step of the sum rule, over many sequences, loses what the closed form says, and other steps lose more.
TEST(Regression, OneStepLosesWhatItsFormulaSays) {
  constexpr int n = 6, examples = 10, draws = 4000;
  const double noise = 0.4;
  const auto task = make_task("regression", {{"inputs", n}, {"pairs", examples}, {"noise", noise}});
  SequenceBuffer buffer(*task, Split::test);
  double along = 0, power = 0, right = 0;
  for (std::uint64_t draw = 0; draw < draws; ++draw) {
    const SequenceView s = buffer.draw(5, draw);
    for (int q = 0; q < examples; ++q) {
      double read = 0;
      for (int t = 0; t < examples; ++t)
        for (int i = 0; i < n; ++i)
          read += number(s, t, n) * number(s, t, i) * number(s, q, n + 1 + i) / examples;
      const double y = number(s, q, 2 * n + 1);
      along += read * y, power += read * read, right += y * y;
    }
  }
  const double least = 0.5 * (right - along * along / power) / (draws * examples);
  EXPECT_NEAR(least / task->baselines().at("one_step_loss"), 1, 0.05);
}

TEST(Regression, LongerSequencesShowMoreExamples) {
  const auto task = make_task("regression", {{"inputs", 4}, {"pairs", 8}});
  EXPECT_EQ(task->shape(Split::eval), (SequenceShape{8, 10, 8}));
  EXPECT_EQ(task->lengthened(3)->shape(Split::test), (SequenceShape{24, 10, 24}));
  EXPECT_THROW(make_task("regression", {{"pairs", 8}, {"queries", 9}}), OptionError);
  EXPECT_EQ(make_task("regression", {{"queries", 3}})->shape(Split::train).Q, 3);
}

}  // namespace crosstalk::testing::regression_test

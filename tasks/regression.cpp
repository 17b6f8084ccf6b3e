// regression: can a memory learn a linear map from the examples that it is shown? Least squares is the optimum.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/base/error.h"
#include "tasks/draw_cuda.h"
#include "tasks/fused_task.h"
#include "tasks/regression_sequence.h"
#include "tasks/sequence_buffer.h"
#include "tasks/token_task.h"

namespace crosstalk {
namespace {

constexpr double kMostExamples = 1 << 14, kMostInputs = 1 << 10;

/// Examples of a sequence as real numbers: rows of n inputs and an output.
struct Rows {
  int n = 0;
  std::vector<double> numbers;
  int count() const { return static_cast<int>(numbers.size()) / (n + 1); }
  const double* x(int row) const { return numbers.data() + static_cast<std::ptrdiff_t>(row) * (n + 1); }
  double y(int row) const { return x(row)[n]; }
};

/// Those that are shown (part 0), or asked (1).
Rows rows_of(const SequenceView& sequence, int part) {
  Rows rows{sequence.shape.C / 2 - 1, {}};
  for (int t = 0; t < sequence.shape.T; ++t) {
    const std::int32_t* from = sequence.tokens + static_cast<std::ptrdiff_t>(t) * sequence.shape.C;
    for (int i = 0; i <= rows.n; ++i) rows.numbers.push_back(kNumberUnit * from[part * (rows.n + 1) + i]);
  }
  return rows;
}

double product(const double* a, const double* b, int n) {
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

/// Solves A z = b for positive definite A [m,m] by Cholesky's factor, which takes the place of A; z takes that of b.
void solve(std::vector<double>& A, std::vector<double>& b) {
  const auto m = static_cast<int>(b.size());
  const auto row = [&](int i) { return A.data() + static_cast<std::ptrdiff_t>(i) * m; };
  const auto at = [&](int i) -> double& { return b[static_cast<std::size_t>(i)]; };
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < i; ++j) row(i)[j] = (row(i)[j] - product(row(i), row(j), j)) / row(j)[j];
    row(i)[i] = std::sqrt(row(i)[i] - product(row(i), row(i), i));
  }
  for (int i = 0; i < m; ++i) at(i) = (at(i) - product(row(i), b.data(), i)) / row(i)[i];
  for (int i = m; i-- > 0;) {
    for (int j = i + 1; j < m; ++j) at(i) -= row(j)[i] * at(j);
    at(i) /= row(i)[i];
  }
}

/// w of least |X w - y|^2 + ridge |w|^2, by whichever of n and the number of examples is smaller.
std::vector<double> ridge_regression(const Rows& shown, double ridge) {
  const int n = shown.n, N = shown.count(), m = std::min(n, N);
  const bool dual = N < n;
  std::vector<double> A(static_cast<std::size_t>(m) * static_cast<std::size_t>(m)),
      b(static_cast<std::size_t>(m)), w(static_cast<std::size_t>(n));
  for (int i = 0; i < m; ++i) {
    double* row = A.data() + static_cast<std::ptrdiff_t>(i) * m;
    double& right = b[static_cast<std::size_t>(i)];
    for (int j = 0; dual && j <= i; ++j) row[j] = product(shown.x(i), shown.x(j), n);
    for (int t = 0; !dual && t < N; ++t) {
      for (int j = 0; j <= i; ++j) row[j] += shown.x(t)[i] * shown.x(t)[j];
      right += shown.x(t)[i] * shown.y(t);
    }
    if (dual) right = shown.y(i);
    row[i] += ridge;
  }
  solve(A, b);
  if (!dual) return b;
  for (int t = 0; t < N; ++t)
    for (int i = 0; i < n; ++i)
      w[static_cast<std::size_t>(i)] += b[static_cast<std::size_t>(t)] * shown.x(t)[i];
  return w;
}

/// One pass of the delta rule with keys x / |x| and beta = 1.
std::vector<double> delta_rule(const Rows& shown) {
  std::vector<double> w(static_cast<std::size_t>(shown.n));
  for (int t = 0; t < shown.count(); ++t) {
    const double* x = shown.x(t);
    const double step =
        (shown.y(t) - product(w.data(), x, shown.n)) / std::max(product(x, x, shown.n), 1e-300);
    for (int i = 0; i < shown.n; ++i) w[static_cast<std::size_t>(i)] += step * x[i];
  }
  return w;
}

class Regression final : public Task {
 public:
  explicit Regression(const Options& options)
      : spec_{int_option(options, "inputs"), int_option(options, "pairs"), options.get_double("task.noise")},
        queries_(int_option(options, "queries")) {}

  /// One answer: a number, which stands beside the query.
  Vocabulary vocabulary() const override {
    return {.keys = 0, .values = 1, .second_key = false, .tokens = 0, .numbers = spec_.inputs};
  }

  SequenceShape shape(Split split, int max_queries) const override {
    const int Q = split == Split::train ? queries_ : capped_queries(spec_.examples, max_queries);
    return {spec_.examples, 2 * (spec_.inputs + 1), Q};
  }

  void sequence(std::uint64_t data_seed, Split split, std::uint64_t n, const SequenceView& out,
                std::int32_t* scratch) const override {
    check_sequence_shape(*this, split, out);
    regression_sequence(spec_, data_seed, split, n, out, scratch);
  }

  int scratch_size() const override { return regression_scratch_size(spec_); }

  /// The number that is right stands beside the query; every used slot has target 0.
  std::int32_t reference_answer(const SequenceView& sequence, std::int32_t key, int) const override {
    return key >= 0 && key < sequence.shape.T ? 0 : -1;
  }

  std::vector<KeyWrite> writes(const SequenceView&) const override { return {}; }

  std::map<std::string, double> baselines() const override {
    const double n = spec_.inputs, N = spec_.examples, variance = spec_.noise * spec_.noise;
    const double work = std::min(n, N) * std::max(n, N) * std::min(n, N);
    const int sequences = static_cast<int>(std::clamp(1e9 / work, 16.0, 256.0));
    SequenceBuffer buffer(*this, Split::eval, 0, false);
    double least_squares = 0, optimum = 0, delta = 0;
    for (int s = 0; s < sequences; ++s) {
      const SequenceView sequence = buffer.draw(0, static_cast<std::uint64_t>(s));
      const Rows shown = rows_of(sequence, 0), asked = rows_of(sequence, 1);
      const auto loss = [&](const std::vector<double>& w) {
        double sum = 0;
        for (int q = 0; q < asked.count(); ++q)
          sum += std::pow(product(w.data(), asked.x(q), asked.n) - asked.y(q), 2);
        return sum / (2.0 * asked.count() * sequences);
      };
      least_squares += loss(ridge_regression(shown, kNone));
      optimum += loss(ridge_regression(shown, std::max(n * variance, kNone)));
      delta += loss(delta_rule(shown));
    }
    return {{"constant_loss", 0.5},
            {"chance_accuracy", 0.5},
            {"least_squares_loss", least_squares},
            {"optimum_loss", optimum},
            {"delta_rule_loss", delta},
            {"one_step_loss", 0.5 - 0.5 / (1 + (n + 1 + variance * n) / N)}};
  }

  std::string to_text(const SequenceView& sequence) const override {
    constexpr int kShown = 8;
    const auto row = [&](const Rows& rows, int i) {
      std::string text;
      for (int j = 0; j < std::min(rows.n, kShown); ++j) text += fmt::format(" {:+.3f}", rows.x(i)[j]);
      return text + (rows.n > kShown ? " .." : "") + fmt::format("  -> {:+.3f}\n", rows.y(i));
    };
    const Rows shown = rows_of(sequence, 0), asked = rows_of(sequence, 1);
    std::string text;
    for (int t = 0; t < shown.count(); ++t) text += fmt::format("{:>6}:", t + 1) + row(shown, t);
    for (int q = 0; q < sequence.shape.Q; ++q)
      if (sequence.target[q] >= 0)
        text += fmt::format("  read after {}:", sequence.query_position[q]) + row(asked, sequence.query[q]);
    return text;
  }

  std::unique_ptr<Task> lengthened(int factor) const override {
    check_length_factor(factor);
    auto longer = std::make_unique<Regression>(*this);
    longer->spec_.examples = lengthened_size(spec_.examples, factor);
    if (longer->spec_.examples > kMostExamples)
      throw OptionError("eval.length_factors",
                        fmt::format("a length factor of {} shows {} examples; at most {:.0f} are supported",
                                    factor, longer->spec_.examples, kMostExamples));
    return longer;
  }

  int eval_load() const override { return spec_.examples; }

 private:
  /// A ridge for numbers whose rounding alone is larger.
  static constexpr double kNone = 1e-9;

  void draw_cuda(const Exec& exec, const DrawArgs& args) const override { draw_on_cuda(spec_, exec, args); }

  RegressionSpec spec_;
  int queries_;
};

void resolve(Options& options) {
  const std::int64_t examples = options.get_int("task.pairs"), queries = options.get_int("task.queries");
  if (queries == 0) options.set("task.queries", examples);
  if (queries > examples)
    throw OptionError("task.queries",
                      fmt::format("task.queries = {} asks more inputs than the task.pairs = {} that are "
                                  "shown, beside which they stand; give at most {}, or 0 for as many",
                                  queries, examples, examples));
}

}  // namespace

TaskKind regression_kind() {
  return {
      "regression",
      "in-context linear regression: real inputs and outputs, asked at new inputs; least squares is the "
      "optimum",
      "Every sequence has a w of its own, n = inputs normal numbers of variance 1 / n. It shows `pairs` "
      "pairs "
      "(x, y), x of n standard normal numbers and y = w.x + noise, and then asks w.x at new x, as many in "
      "evaluation. Garg, Tsipras, Liang and Valiant 2022 (arXiv 2208.01066), whose model reads after every "
      "example; here the memory reads once, after the last. The loss is 0.5 (read - w.x)^2; an answer counts "
      "as "
      "right if it has the sign of w.x. Inputs are no ids: nothing of x is learned by heart, and what is "
      "read "
      "is a sum of outputs. constant_loss 0.5 answers 0; "
      "optimum_loss is that of ridge regression with ridge n noise^2, the mean of w given the examples, "
      "below "
      "which "
      "nothing comes; least_squares_loss takes the shortest w of the least squared error, noise and all, and "
      "grows large where there are about n examples; delta_rule_loss is one pass of w += (y - w.x) x / "
      "|x|^2; "
      "one_step_loss that of the sum rule, w = c sum y x, with the best c. The loss of least squares is "
      "0.5 noise^2 n / (pairs - n - 1) from n + 2 pairs on, without noise 0.5 (1 - pairs / n) below "
      "n; "
      "that of the delta rule without noise 0.5 (1 - 1 / n)^pairs. Real numbers are whole multiples of "
      "2^-20. For model.name = \"retrieval\", and for a probe, whose keys are x / sqrt(n) and whose values "
      "are "
      "y. What is read is one number: a memory that normalises it, as fwm does, reads 0.",
      {{"inputs", std::int64_t{16}, "numbers of an input (n)", 1, kMostInputs},
       {"pairs", std::int64_t{32}, "examples (x, y) shown in a sequence", 1, kMostExamples},
       {"noise", 0.1, "standard deviation of what is added to outputs that are shown, whose own is 1", 0,
        100},
       {"queries", std::int64_t{0}, "inputs asked in a training sequence; 0 means as many as pairs", 0,
        kMostExamples}},
      resolve,
      [](const Options& options) -> std::unique_ptr<Task> { return std::make_unique<Regression>(options); }};
}

}  // namespace crosstalk

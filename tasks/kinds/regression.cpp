// regression: can a memory learn a linear map from the examples that it is shown? Least squares is the optimum.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/base/error.h"
#include "tasks/draw_cuda.h"
#include "tasks/example_task.h"
#include "tasks/fused_task.h"
#include "tasks/kinds/regression_sequence.h"
#include "tasks/token_task.h"

namespace crosstalk::regression_task {
namespace {

constexpr double kMostExamples = 1 << 14, kMostInputs = 1 << 10;

class Regression final : public ExampleTask {
 public:
  explicit Regression(const Options& options)
      : ExampleTask(int_option(options, "inputs")),
        spec_{int_option(options, "inputs"), int_option(options, "pairs"), options.get_double("task.noise")},
        queries_(int_option(options, "queries")) {}

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

  std::map<std::string, double> baselines() const override {
    const double n = spec_.inputs, N = spec_.examples, variance = spec_.noise * spec_.noise;
    const ExampleLosses losses =
        example_losses(*this, solvable_sequences(spec_.inputs, spec_.examples), n * variance);
    return {{"constant_loss", 0.5},
            {"chance_accuracy", 0.5},
            {"least_squares_loss", losses.least_squares},
            {"optimum_loss", losses.ridge},
            {"delta_rule_loss", losses.delta_rule},
            {"one_step_loss", 0.5 - 0.5 / (1 + (n + 1 + variance * n) / N)}};
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

TaskKind kind() {
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

}  // namespace crosstalk::regression_task

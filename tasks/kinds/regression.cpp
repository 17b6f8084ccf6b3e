// regression: can a memory learn a linear map from the examples that it is shown? Least squares is the optimum.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "tasks/drawn_task.h"
#include "tasks/example_task.h"
#include "tasks/kinds/regression_sequence.h"

namespace crosstalk::regression_task {

constexpr double kMostExamples = 1 << 14, kMostInputs = 1 << 10;

class Regression final
    : public DrawnTask<Regression, ExampleTask, regression_sequence, regression_scratch_size> {
 public:
  explicit Regression(const Options& options)
      : DrawnTask(
            {int_option(options, "inputs"), int_option(options, "pairs"), options.get_double("task.noise")},
            int_option(options, "inputs")),
        queries_(int_option(options, "queries")) {}

  SequenceShape full_shape(Split split) const override {
    const int pairs = of(split).pairs;
    return {pairs, 2 * (spec_.inputs + 1), split == Split::train ? queries_ : pairs};
  }

  std::map<std::string, double> baselines() const override {
    const double n = spec_.inputs, N = eval_.pairs, variance = spec_.noise * spec_.noise;
    const ExampleLosses losses =
        example_losses(*this, solvable_sequences(spec_.inputs, eval_.pairs), n * variance);
    return {{"constant_loss", 0.5},
            {"chance_accuracy", 0.5},
            {"least_squares_loss", losses.least_squares},
            {"optimum_loss", losses.ridge},
            {"delta_rule_loss", losses.delta_rule},
            {"one_step_loss", 0.5 - 0.5 / (1 + (n + 1 + variance * n) / N)}};
  }

  void lengthen(int factor) override {
    eval_.pairs = lengthened_size(spec_.pairs, factor);
    if (eval_.pairs > kMostExamples)
      throw OptionError("eval.length_factors",
                        fmt::format("a length factor of {} shows {} examples; at most {:.0f} are supported",
                                    factor, eval_.pairs, kMostExamples));
  }

  int eval_load() const override { return eval_.pairs; }

 private:
  int queries_;
};

void resolve(Options& options) {
  const std::int64_t examples = options.get_int("task.pairs"), queries = options.get_int("task.queries");
  if (queries == 0) options.set("task.queries", examples);
  if (queries > examples)
    refuse(
        options, "task.queries",
        fmt::format(
            " asks more inputs than the task.pairs = {0} that are shown, beside which they stand; give at most {0}, or 0 for as many",
            examples));
}

TaskKind kind() {
  return {
      "regression",
      "in-context linear regression: real inputs and outputs, asked at new inputs; least squares is the optimum",
      "Every sequence has a w of its own, n = inputs normal numbers of variance 1 / n. It shows `pairs` pairs (x, y), x of n standard normal numbers "
      "and y = w.x + noise, and then asks w.x at new x, as many in evaluation. Garg, Tsipras, Liang and Valiant 2022 (arXiv 2208.01066), whose model "
      "reads after every example; here the memory reads once, after the last. The loss is 0.5 (read - w.x)^2; an answer counts as right if it has "
      "the sign of w.x. Inputs are no ids: nothing of x is learned by heart, and what is read is a sum of outputs. constant_loss 0.5 answers 0; "
      "optimum_loss is that of ridge regression with ridge n noise^2, the mean of w given the examples, below which nothing comes; "
      "least_squares_loss takes the shortest w of the least squared error, noise and all, and grows large where there are about n examples; "
      "delta_rule_loss is one pass of w += (y - w.x) x / |x|^2; one_step_loss that of the sum rule, w = c sum y x, with the best c. The loss of "
      "least squares is 0.5 noise^2 n / (pairs - n - 1) from n + 2 pairs on, without noise 0.5 (1 - pairs / n) below n; that of the delta rule "
      "without noise 0.5 (1 - 1 / n)^pairs. Real numbers are whole multiples of 2^-20. For model.name = \"retrieval\", and for a probe, whose keys "
      "are x / sqrt(n) and whose values are y. What is read is one number: a memory that normalises it, as fwm does, reads 0.",
      {{"inputs", 16, "numbers of an input (n)", 1, kMostInputs},
       {"pairs", 32, "examples (x, y) shown in a sequence", 1, kMostExamples},
       {"noise", 0.1, "standard deviation of what is added to outputs that are shown, whose own is 1", 0,
        100},
       {"queries", 0, "inputs asked in a training sequence; 0 means as many as pairs", 0, kMostExamples}},
      resolve,
      make<Regression>};
}

}  // namespace crosstalk::regression_task

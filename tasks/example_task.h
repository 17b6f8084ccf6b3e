// Common part of tasks whose tokens are examples (x, y) of real numbers: reference machine, text, and what least squares and the
// delta rule come to on them.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <string>
#include <vector>

#include "tasks/task.h"

namespace crosstalk {

class ExampleTask : public Task {
 public:
  /// `inputs`: n numbers of x.
  explicit ExampleTask(int inputs) : inputs_(inputs) {}

  /// One answer: a number, which stands beside the query.
  Vocabulary vocabulary() const override {
    return {.keys = 0, .values = 1, .second_key = false, .tokens = 0, .numbers = inputs_};
  }
  /// The number that is right stands beside the query; every used slot has target 0.
  std::int32_t reference_answer(const SequenceView& sequence, std::int32_t key, int position) const override;
  std::vector<KeyWrite> writes(const SequenceView&) const override { return {}; }
  std::string to_text(const SequenceView& sequence) const override;

  /// Of at most 256 eval sequences of data seed 0: constant_loss (answer 0), least_squares_loss and delta_rule_loss, as
  /// ExampleLosses has them; and chance_accuracy 0.5, that of the sign.
  std::map<std::string, double> baselines() const override;

 protected:
  int inputs() const { return inputs_; }

 private:
  int inputs_;
};

/// Means of 0.5 (w.x - y)^2 over the asked examples of eval sequences.
struct ExampleLosses {
  double constant = 0;       ///< w = 0
  double least_squares = 0;  ///< the shortest w of the least squared error on the shown examples
  double ridge = 0;          ///< w of least |X w - y|^2 + ridge |w|^2
  double delta_rule = 0;     ///< one pass of w += (y - w.x) x / |x|^2
};

/// Of sequences 0 .. `sequences` - 1 of eval and data seed 0.
ExampleLosses example_losses(const Task& task, int sequences, double ridge);

/// How many sequences example_losses() solves in about a second: 16 to 256, for n inputs and N examples.
int solvable_sequences(int inputs, int examples);

}  // namespace crosstalk

// Common part of tasks whose tokens are single ids, for the language model: text, shape check, baselines, mixtures and
// stages.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <string>
#include <vector>

#include "kernels/base/text/options.h"
#include "tasks/task.h"

namespace crosstalk {

class TokenTask : public Task {
 public:
  /// Words of word(), and behind a token at which an answer is due "->" and the answer.
  std::string to_text(const SequenceView& sequence) const override;

  /// Means over all answers of 256 eval sequences of data seed 0: chance_accuracy = 1 / answers() and
  /// chance_loss = log answers(), what guessing uniformly among all answers scores; and one
  /// baseline_NAME_accuracy for each of shortcuts(). Of a mixture: the means over its eval segments.
  std::map<std::string, double> baselines() const override;

  std::vector<TaskSegment> segments(Split split) const override {
    return split == Split::train ? parts_ : eval_parts_;
  }
  std::vector<TaskSegment> stages() const override { return stages_; }

 protected:
  /// A token as a person reads it.
  virtual std::string word(const SequenceView& sequence, int t) const = 0;
  virtual std::string answer_word(std::int32_t answer) const;
  /// How many answers can be right at all.
  virtual int answers() const = 0;
  /// Probability that a shortcut gives the answer of query slot q, by the shortcut's name.
  using Shortcuts = std::map<std::string, double>;
  virtual Shortcuts shortcuts(const SequenceView& sequence, int q) const = 0;

  std::vector<TaskSegment> parts_, eval_parts_, stages_;
};

/// Of so many ids, each of which may be an answer; or of answers that are numbered by themselves.
Vocabulary token_vocabulary(int tokens);
Vocabulary token_vocabulary(int tokens, int answers);

/// The option task.examples: training has so many sequences, 0 means no end; and its value.
OptionSpec examples_option();
std::uint64_t examples_of(const Options& options);

/// Sizes of the stages that task.curriculum names ("32 64 128"), the last of which is the task's own; empty: none.
std::vector<int> curriculum_of(const Options& options);

/// Checks task.curriculum, rising sizes of option task.`size`, and derives that from it, where it stands at `standard`.
void resolve_curriculum(Options& options, const std::string& size, std::int64_t standard);

/// The option task.curriculum, which counts `what`.
OptionSpec curriculum_option(const std::string& what);

/// Options task.shortest and task.longest, which count `what`, and those of evaluation, 0 as in training, behind `options`; and their derivation.
std::vector<OptionSpec> with_sizes(std::vector<OptionSpec> options, const std::string& what,
                                   std::int64_t shortest);
void resolve_sizes(Options& options);

/// std::logic_error unless `out` has the sizes of task.shape(split, m) for some m.
void check_sequence_shape(const Task& task, Split split, const SequenceView& out);

}  // namespace crosstalk

// Common part of tasks whose token is one whole association or operation: reference machine, text, baselines.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <string>
#include <vector>

#include "kernels/base/text/choice.h"
#include "tasks/task.h"

namespace crosstalk {

class FusedTask : public Task {
 public:
  std::int32_t reference_answer(const SequenceView& sequence, std::int32_t key, int position) const override;
  std::string to_text(const SequenceView& sequence) const override;

  /// Means over all queries of 256 eval sequences of data seed 0:
  ///   chance_accuracy                      1 / number of distinct values written before the read
  ///   baseline_random_in_context_accuracy  the value of a write drawn uniformly from those before the read
  ///   baseline_most_recent_accuracy        the value written last before the read
  ///   baseline_first_accuracy              the value of the first token
  ///   baseline_unchanged_accuracy          the value first written to the asked key
  /// and constant_loss 0.5. The expectation over the guesser's own draw is taken exactly.
  std::map<std::string, double> baselines() const override;
};

/// Q of a split that asks `all` queries when at most `max_queries` may be asked (0 = all).
int capped_queries(int all, int max_queries);

/// Resolves "task.keys" and "task.values" = 0 to "task.associations" and refuses vocabularies below that.
void resolve_vocabulary(Options& options);

/// An integer option as int.
int int_option(const Options& options, const std::string& name);

/// Throws OptionError(key) with "KEY = VALUE" and what `why` says of that value: " is odd; give an even one".
[[noreturn]] void refuse(const Options& options, const std::string& key, const std::string& why);
/// Refuses an option that is larger than another.
void refuse_above(const Options& options, const std::string& low, const std::string& high);
/// Throws OptionError("eval.length_factors") unless the factor is 1: `task` has no longer form, for `reason`; `instead` of it.
void refuse_longer(int factor, const std::string& task, const std::string& reason,
                   const std::string& instead);

/// These options, with keys and values, which resolve_vocabulary() resolves, behind the first of them.
std::vector<OptionSpec> with_vocabulary(std::vector<OptionSpec> options);

/// Refuses a length factor below 1.
void check_length_factor(int factor);

/// size * factor; refuses what exceeds max_option_size.
int lengthened_size(int size, int factor);

/// Largest size that an option may have: keeps every index of a sequence within 32 bits.
inline constexpr double max_option_size = 1 << 24;

}  // namespace crosstalk

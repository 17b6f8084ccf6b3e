// The class of mqar, which task reassign uses too: with updates it is Zoology's forgetting.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tasks/kinds/mqar_sequence.h"
#include "tasks/number_groups.h"
#include "tasks/token_task.h"

namespace crosstalk {

/// Where a message says which option is wrong and what would be right.
struct MqarNames {
  std::string pairs = "task.pairs";
  std::string more_keys = "task.vocabulary";  ///< the option that makes more keys and values
};

/// What a task of this class is made from.
struct MqarPlan {
  MqarSpec spec;  ///< in training
  std::int32_t eval_length = 0;
  double update_fraction = 0;  ///< of the pairs
  bool fresh = false;          ///< mixtures: new sequences in every epoch
  std::vector<NumberGroup> segments, test_segments;
  MqarNames names;
};

inline constexpr std::int64_t mqar_largest_length = 1 << 17;  // a slot has 16 bits

std::int32_t mqar_updates(double fraction, std::int64_t pairs);

/// Throws OptionError for `length_key` or `pairs_key` where `spec` has no room.
void check_mqar(const MqarSpec& spec, const std::string& length_key, const std::string& pairs_key,
                const MqarNames& names);

/// The options segments and test_segments, fresh and examples, filler and power.
std::vector<OptionSpec> mqar_options();
std::vector<NumberGroup> mqar_segments(const Options& options, const std::string& name);
/// Checks them and derives the options `length_key`, `pairs_key` and task.examples from segments, where they stand at the
/// value named here.
void resolve_mqar(Options& options, const MqarPlan& plan, const std::string& length_key,
                  std::int64_t standard_length, std::int64_t standard_pairs);

std::unique_ptr<Task> make_mqar(const MqarPlan& plan);

}  // namespace crosstalk

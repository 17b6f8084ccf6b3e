// What of a study can be trained in some time: whole seeds first.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/common/command.h"
#include "experiments/sharing/forecast.h"

namespace crosstalk::program {

/// The value of a key that is a number; nothing of others.
std::optional<double> option_number(const Options& config, const std::string& key);

/// Runs with one of some values of each of some keys, as --where has them (none: all).
struct Part {
  std::vector<std::pair<std::string, std::vector<std::string>>> where;
  std::vector<const Run*> runs;
  double seconds = 0;
};
/// What of `runs` takes at most `budget` seconds: whole seeds; where one takes longer, some rates of it, those in the middle; of one
/// rate some values of a number of the task, else of the model, the smallest. Every label stays. Where nothing fits: the least.
Part part_within(const std::vector<const Run*>& runs, double budget, const TimeForecast& time);

/// That of --budget in words, with the command that trains it.
std::string budget_text(const std::vector<const Run*>& runs, const TimeForecast& time,
                        const Arguments& arguments, double budget, const std::string& program);

}  // namespace crosstalk::program

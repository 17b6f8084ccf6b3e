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

/// Some of the runs of a study: those with one of some values of each of some keys, as --where has them (none: all).
struct Part {
  std::vector<std::pair<std::string, std::vector<std::string>>> where;
  std::vector<const Run*> runs;
  double seconds = 0;
};

/// The largest part of `runs` that takes at most `budget` seconds by `time`: whole seeds in their order; where one takes longer, some
/// of its rates, from the middle of them outwards; of one rate some values of a number of the task, else of the model, the smallest
/// first. Every label stays. Where nothing fits, the smallest such part, which takes longer.
Part part_within(const std::vector<const Run*>& runs, double budget, const TimeForecast& time);

/// Says which part that is, and the command that trains it.
void print_budget(const std::vector<const Run*>& runs, const TimeForecast& time, double budget,
                  const Arguments& arguments, Console& console);

}  // namespace crosstalk::program

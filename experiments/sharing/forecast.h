// Forecast of what the missing runs of a study will take: time, by what the store has seen, and memory, by their parameters.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "experiments/study/study.h"
#include "results/store/store.h"

namespace crosstalk::program {

/// Time that runs take, and how that is known.
struct TimeForecast {
  std::optional<double> seconds;  ///< nothing: not known
  std::string text;
  std::string basis = {};  ///< what an estimate rests on
  std::function<double(const std::vector<const Run*>&)> seconds_of =
      {};  ///< the same of some of them; empty: not known
};
/// "about 12 min, at the rate of 36 runs on cpu of HOST"; not known where the store has no run of these.
TimeForecast time_forecast(const std::vector<Run>& runs, const StoreHeads& heads);

/// Bytes that the parameters of `run` need in training at least: values, gradients and two moments of Adam.
double parameter_bytes(const Run& run);

/// Names those of `runs` that cannot fit into `available` bytes, and by how much; "" if all may.
std::string memory_shortage(const std::vector<const Run*>& runs, std::uint64_t available);

/// Bytes that this process may still get (the machine's, or its control group's).
std::uint64_t available_memory();

}  // namespace crosstalk::program

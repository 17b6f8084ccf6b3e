// Options of all commands that train.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "experiments/common/command.h"
#include "experiments/sharing/session.h"

namespace crosstalk::program {

/// --threads, --pack, --device, --time-limit, ...
std::vector<CommandOption> session_option_list();

/// `workers`: their devices, if there are any. Without `reproduce`. Throws UsageError, DeviceError.
SessionOptions session_options(const Arguments& arguments, const std::vector<std::string>& workers,
                               Console& console);

/// Where --device and --threads say that a study would be trained, on this machine or another; nothing where neither is given.
/// Throws UsageError.
std::optional<TrainingOptions> given_training(const Arguments& arguments);

/// Words where a signal or the end of the time comes before anything is trained (NothingBegun); nothing by a
/// worker process.
std::string words_before_training(const Arguments& arguments, const std::string& resume);
/// Seconds that that may take: --time-limit, and a moment more, in which small studies begin. 0: without limit.
double patience(const Arguments& arguments);

/// "90", "90s", "30m", "2h", "HH:MM:SS" or "D-HH:MM:SS" in seconds. Throws UsageError that names `option`.
double seconds_of(const std::string& text, const std::string& option);

/// The I-th of N, from 1.
struct Place {
  int i = 1, n = 1;
};
/// "I/N". Throws UsageError that names `option`.
Place place_of(const std::string& text, const std::string& option);

/// The user's command.
std::string command_line(const Console& console);

}  // namespace crosstalk::program

// The plan of a study, for `plan` and for `run --dry-run`.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiments/common/command.h"
#include "experiments/sharing/forecast.h"
#include "experiments/study/study.h"
#include "experiments/training/training.h"
#include "results/store/store.h"

namespace crosstalk::program {

/// Prints what would be trained: to people, or as JSON. `asked`: where; nothing: where the store's records come from, and
/// before there are any where `run` would train. Returns the time that was told; of JSON none.
TimeForecast print_plan(const Study& study, const StoreHeads& heads, const std::filesystem::path& store,
                        bool json, const std::optional<TrainingOptions>& asked, Console& console);

/// Which memories can solve no number of associations, since sequences draw from more keys than d_dot; "" if none.
std::string too_many_keys(const std::vector<const Run*>& runs);

/// What makes one hesitate before these runs are trained: too_many_keys(), and doubts_of() their arrays; a sentence each.
std::vector<std::string> warnings_of(const std::vector<const Run*>& runs);

}  // namespace crosstalk::program

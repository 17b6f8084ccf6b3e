// Runs of a study at the values of keys that turned out best in other runs: rates are chosen in short or single runs, then
// further seeds and whole lengths are trained at the chosen rate alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "experiments/common/command.h"
#include "experiments/study/study.h"
#include "results/asked.h"
#include "results/numbers/select.h"

namespace crosstalk::program {

/// --where, --chosen-of, --best and --best-by.
std::vector<CommandOption> chosen_options();

/// Of `runs` those whose values of `keys` choose_best() takes among `tried`. A run belongs to the tried ones that agree with it in
/// every key in which `runs` differ among themselves, `keys` and seeds apart; what is the same in all of `runs`, such as
/// train.epochs, may differ there. Adds to `warnings` where not all values that the study asks for were tried, and how many points had none: these
/// are left out. Throws std::invalid_argument, which begins with `what` and names the first such point, where nothing was tried at any, where several
/// values were chosen (the tried runs differ in something else), or where the study does not have the chosen value.
std::vector<Run> chosen_runs(const std::vector<Run>& runs, const RecordList& tried,
                             const std::vector<std::string>& keys, BestBy by, const std::string& what,
                             std::vector<std::string>& warnings);

/// Keeps of a study what --where and then --chosen-of ask for, and says so in `product`; all where neither is given. Throws UsageError.
void keep_chosen(const Arguments& arguments, Study& study, Console& console);

/// Of its runs those that --only and --shard ask for; nothing: all. Throws UsageError.
std::optional<std::vector<Run>> part_of(const Arguments& arguments, const Study& study);

}  // namespace crosstalk::program

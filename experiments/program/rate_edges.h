// Learning rates that are best at the edge of their grid, of all that a study or a store holds so far.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "experiments/common/command.h"
#include "results/select.h"
#include "results/store.h"

namespace crosstalk::program {

/// Of more runs than this, records are not read: counting them stays a matter of half a second.
inline constexpr std::size_t kMostRatedRuns = 20000;

/// How --best train.learning_rate would choose among the runs of the target `name`, whose store's heads were read; labels
/// of which no choice is at an edge are left out.
std::vector<EdgeChoice> rate_edges(const std::string& name, const StoreHeads& heads,
                                   const Arguments& arguments, Console& console);

}  // namespace crosstalk::program

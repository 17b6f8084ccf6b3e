// What must hold of the reader of saved states for any bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "experiments/training/state/run_state.h"

namespace crosstalk {

/// Aborts where the reader breaks its promise: a state, which is written back to the same state and fits its
/// run or does not, or std::runtime_error.
inline void check_state_reader(std::string_view bytes) {
  Run run;
  run.config.set("eval.every", std::int64_t{10});
  run.config.set("train.max_steps", std::int64_t{1000});
  try {
    const RunState state = run_state(std::string(bytes));
    const std::string written = to_bytes(state);
    if (to_bytes(run_state(written)) != written) std::abort();
    run.id = state.id + "x";
    if (misfit(state, run).empty()) std::abort();
    run.id = state.id;
    if (misfit(state, run).empty() && (state.steps <= 0 || state.steps >= 1000)) std::abort();
  } catch (const std::runtime_error&) {
  }
}

}  // namespace crosstalk

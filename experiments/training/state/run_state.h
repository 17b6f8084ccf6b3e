// The whole state of a run between two steps, as text of bytes: what a stopped run needs to go on bit for
// bit.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "experiments/study/study.h"
#include "results/store/record.h"

namespace crosstalk {

struct RunState {
  std::string id;
  std::int64_t steps = 0, evaluations = 0, strikes = 0;
  double device_s = 0;                   ///< Slot::device_s
  double best = 0;                       ///< best evaluation loss so far, in this stage
  std::vector<std::int64_t> promotions;  ///< steps at which a stage of a curriculum was left
  std::vector<double>
      report;  ///< counts and norms since the last evaluation (kernels/optimizer/book_keeping.h)
  std::map<std::string, Series> curves;
  std::string
      parameters;  ///< bytes of parameters, Adam's moments and what lanes hold, in the run's precision
};

/// A line of JSON, then the bytes of the parameters.
std::string to_bytes(const RunState& state);
/// Throws std::runtime_error if `bytes` is not a whole state.
RunState run_state(const std::string& bytes);

/// Why `state` cannot be what training left of `run`, in one sentence; "" if it can. Files are moved, copied
/// and damaged: what a state says must agree with its run and with itself. (How many parameters there are,
/// only the model knows: MisfitState.)
std::string misfit(const RunState& state, const Run& run);

/// A state whose parameters are not this model's.
struct MisfitState : std::runtime_error {
  MisfitState(std::string id_, const std::string& why) : std::runtime_error(why), id(std::move(id_)) {}
  std::string id;
};

}  // namespace crosstalk

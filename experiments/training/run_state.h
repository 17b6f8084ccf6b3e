// The whole state of a run between two steps, as text of bytes: what a stopped run needs to go on bit for
// bit. SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "results/record.h"

namespace crosstalk {

struct RunState {
  std::string id;
  std::int64_t steps = 0, evaluations = 0, strikes = 0;
  double best = 0;             ///< best evaluation loss so far
  std::vector<double> report;  ///< counts since the last evaluation (kernels/ops/book_keeping.h)
  std::map<std::string, Series> curves;
  std::string parameters;  ///< bytes of parameters and Adam's moments, in the run's precision
};

/// A line of JSON, then the bytes of the parameters.
std::string to_bytes(const RunState& state);
/// Throws std::runtime_error if `bytes` is not a whole state.
RunState run_state(const std::string& bytes);

}  // namespace crosstalk

// Looking inside a trained memory: what it does with one sequence, as named arrays.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/training/state/weights.h"
#include "kernels/base/text/options.h"
#include "tasks/task.h"

namespace crosstalk {

struct InspectRequest {
  Split split = Split::test;
  std::uint64_t sequence = 0;
  std::vector<int> positions = {};  ///< tokens after which states are shown; empty: after the last
  std::optional<int> layer = {};    ///< of a language model, from 0; none: the first that is a memory
  std::optional<int> head = {};     ///< the head that is left in the arrays, from 0; none: all
};

/// An array with its name, and what it is.
struct InspectArray {
  std::string name, shape, meaning;  ///< "phi_k", "[M,H,K]", "keys after phi"
  std::vector<std::int64_t> dims;
  std::vector<double> data;
  bool integers = false;
};

struct Inspection {
  std::vector<InspectArray> arrays;
  const InspectArray* find(const std::string& name) const;
  std::vector<std::string>
      token_names;                 ///< "3:7" (key, value written), "3-5" (values exchanged), "12" (a token)
  std::vector<std::string> gates;  ///< arrays that hold what tokens decide, one number each
  int layer = -1;                  ///< that was looked into; -1: the model has no layers
};

/// The memory of a run, or of a layer of its language model, on one sequence of its task, calculated in float64. Throws
/// std::out_of_range for a sequence, position, layer or head that is not there.
Inspection inspect(const Options& config, const Weights& weights, const InspectRequest& request);

/// What each array is, whatever the memory: lines "name  shape  meaning".
std::string inspect_reference();

}  // namespace crosstalk

// Tasks whose sequences go on from one another: batch after batch, a lane of it is one text.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "tasks/task.h"

namespace crosstalk {

/// A task that may be read in lanes, with states carried from window to window.
class HasLanes {
 public:
  virtual ~HasLanes() = default;
  /// Sequences of training that stand side by side: sequence n + train_lanes() goes on where n ends, but for the first ones of an
  /// epoch; 0: each stands alone.
  virtual int train_lanes() const = 0;
  /// Tokens of the windows in which validation and test, whose sequences are lanes, are read; 0: they are read whole.
  virtual int eval_window() const = 0;
};

inline int train_lanes(const Task& task) {
  const auto* lanes = dynamic_cast<const HasLanes*>(&task);
  return lanes ? lanes->train_lanes() : 0;
}
inline int eval_window(const Task& task) {
  const auto* lanes = dynamic_cast<const HasLanes*>(&task);
  return lanes ? lanes->eval_window() : 0;
}

}  // namespace crosstalk

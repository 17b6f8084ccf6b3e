// The order in which training goes through its sequences: batches of one segment of the task, then of the next.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tasks/task.h"

namespace crosstalk {

/// A part of an epoch whose batches have one shape.
struct EpochPart {
  std::string name;  ///< of the segment; "" where there are none
  std::shared_ptr<const Task> segment;
  const Task* task = nullptr;         ///< that draws; the whole task where there are no segments
  std::int64_t start = 0, steps = 0;  ///< within an epoch
};

/// An epoch of a task with lanes: the batch that begins them, and those that go on from it. Of others:
/// a whole number of batches of each of its segments. Where the last batch of a segment takes
/// more sequences than are left, the next epoch begins later by their number: none is left out for good.
class Epoch {
 public:
  /// `task` must outlive it.
  Epoch(const Task& task, int batch);

  /// Steps of one epoch; 0: the sequences have no end.
  std::int64_t steps() const { return steps_; }
  const std::vector<EpochPart>& parts() const { return parts_; }

  /// Of step `step`, counted from 0: its part, and how many steps the part goes on.
  struct Place {
    std::size_t part = 0;
    std::int64_t left = 0;
  };
  Place at(std::int64_t step) const;

 private:
  std::vector<EpochPart> parts_;
  std::int64_t steps_ = 0;
};

}  // namespace crosstalk

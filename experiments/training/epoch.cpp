// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/epoch.h"

#include <fmt/format.h>

#include <stdexcept>

#include "tasks/lanes.h"

namespace crosstalk {

Epoch::Epoch(const Task& task, int batch) {
  const auto batches = [&](std::int64_t sequences) { return (sequences + batch - 1) / batch; };
  for (TaskSegment& segment : task.segments(Split::train)) {
    if (segment.sequences <= 0)
      throw std::logic_error(fmt::format("[epoch] segment {} has no sequences", segment.name));
    const Task* draws = segment.task.get();
    parts_.push_back({segment.name, std::move(segment.task), draws, steps_, batches(segment.sequences)});
    steps_ += parts_.back().steps;
  }
  if (!parts_.empty()) return;
  steps_ = batches(task.sequences(Split::train));
  if (train_lanes(task) > 0) {
    parts_.push_back({"", nullptr, &task, 0, 1});
    parts_.push_back({"", nullptr, &task, 1, steps_ - 1});
    return;
  }
  parts_.push_back({"", nullptr, &task, 0, std::numeric_limits<std::int64_t>::max()});
}

Epoch::Place Epoch::at(std::int64_t step) const {
  if (parts_.size() == 1) return {0, std::numeric_limits<std::int64_t>::max()};
  const std::int64_t within = step % steps_;
  std::size_t part = parts_.size() - 1;
  while (parts_[part].start > within) --part;
  return {part, parts_[part].start + parts_[part].steps - within};
}

}  // namespace crosstalk

// SPDX-License-Identifier: Apache-2.0
#include "tasks/task.h"

#include "kernels/base/error.h"
#include "kernels/base/parallel.h"

namespace crosstalk {

void Task::draw(const Exec& exec, const DrawArgs& a) const {
  if (exec.device == Device::cuda) return draw_cuda(exec, a);
  parallel_items(exec, a.tokens.R, a.B, [&](int r, std::int64_t b) {
    thread_local std::vector<std::int32_t> scratch;
    if (static_cast<int>(scratch.size()) < scratch_size())
      scratch.resize(static_cast<std::size_t>(scratch_size()));
    const auto* words = reinterpret_cast<const std::uint32_t*>(a.seed.at(r));
    const std::uint64_t seed = words[0] | (static_cast<std::uint64_t>(words[1]) << 32);
    const std::int64_t n = *a.counter.at(r) * a.stride + a.offset + b;
    const std::int64_t q = b * a.shape.Q;
    const SequenceView view{a.shape,
                            a.tokens.at(r) + b * a.shape.T * a.shape.C,
                            nullptr,
                            a.query.at(r) + q,
                            a.position.at(r) + q,
                            a.target.at(r) + q,
                            nullptr};
    sequence(seed, a.split, static_cast<std::uint64_t>(n), view, scratch.data());
  });
}

void Task::draw_cuda(const Exec&, const DrawArgs&) const {
  throw DeviceError("this task has no CUDA generator; use --device cpu");
}

const TaskKind* find_task(const std::string& name) {
  for (const TaskKind& kind : task_kinds())
    if (kind.name == name) return &kind;
  return nullptr;
}

}  // namespace crosstalk

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
    sequence(a.data_seed(r), a.split, static_cast<std::uint64_t>(a.number(r, b)), a.view(r, b),
             scratch.data());
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

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

std::vector<KeyWrite> Task::writes(const SequenceView& sequence) const {
  std::vector<KeyWrite> all;
  const int T = sequence.shape.T, C = sequence.shape.C;
  if (C > 1) {
    for (int t = 0; t < T; ++t)
      if (const std::int32_t* token = sequence.tokens + static_cast<std::ptrdiff_t>(t) * C;
          token[channel_value] >= 0)
        all.push_back({t + 1, 0, token[channel_key], token[channel_value]});
    return all;
  }
  if (vocabulary().tokens != vocabulary().values) return all;
  const auto writes_at = [&](int t) { return sequence.role[t] == static_cast<std::int32_t>(Role::write); };
  for (int t = 0; t + 1 < T; ++t)
    if (writes_at(t) && writes_at(t + 1)) {
      all.push_back({t + 2, 0, sequence.tokens[t], sequence.tokens[t + 1]});
      ++t;
    }
  return all;
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

// Room for one sequence with role and meta, for whoever looks at single sequences: tests, samples, baselines.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "tasks/task.h"

namespace crosstalk {

class SequenceBuffer {
 public:
  /// Without meta a draw is faster: meta follows each query back through the tokens.
  SequenceBuffer(const Task& task, Split split, int max_queries = 0, bool with_meta = true)
      : task_(&task), split_(split), shape_(task.shape(split, max_queries)) {
    const auto T = static_cast<std::size_t>(shape_.T), C = static_cast<std::size_t>(shape_.C),
               Q = static_cast<std::size_t>(shape_.Q);
    tokens_.resize(T * C);
    role_.resize(T);
    query_.resize(Q);
    query_position_.resize(Q);
    target_.resize(Q);
    if (with_meta) meta_.resize(Q * meta_count);
    scratch_.resize(static_cast<std::size_t>(task.scratch_size()));
  }

  SequenceView view() {
    return {shape_,
            tokens_.data(),
            role_.data(),
            query_.data(),
            query_position_.data(),
            target_.data(),
            meta_.empty() ? nullptr : meta_.data()};
  }

  /// Sequence `n`; valid until the next draw.
  SequenceView draw(std::uint64_t data_seed, std::uint64_t n) {
    const SequenceView out = view();
    task_->sequence(data_seed, split_, n, out, scratch_.data());
    return out;
  }

  /// Fills everything with `value`, scratch included.
  void poison(std::int32_t value) {
    for (auto* part : {&tokens_, &role_, &query_, &query_position_, &target_, &meta_, &scratch_})
      std::fill(part->begin(), part->end(), value);
  }

  /// All that a draw writes, in one row: tokens, role, query, query_position, target, meta.
  std::vector<std::int32_t> contents() const {
    std::vector<std::int32_t> all;
    for (const auto* part : {&tokens_, &role_, &query_, &query_position_, &target_, &meta_})
      all.insert(all.end(), part->begin(), part->end());
    return all;
  }

 private:
  const Task* task_;
  Split split_;
  SequenceShape shape_;
  std::vector<std::int32_t> tokens_, role_, query_, query_position_, target_, meta_, scratch_;
};

/// Calls f for the sequences that baselines are means over: 256 of eval and data seed 0, or all where there are fewer.
template <class F>
void each_of_baselines(const Task& task, const F& f) {
  SequenceBuffer buffer(task, Split::eval, 0, false);
  const std::int64_t all = task.sequences(Split::eval), most = 256;
  const auto count = static_cast<std::uint64_t>(all > 0 ? std::min(all, most) : most);
  for (std::uint64_t n = 0; n < count; ++n) f(buffer.draw(0, n));
}

}  // namespace crosstalk

// Runs the sweeps of an op (sweep.h) on the CPU: some elements an item of work.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/parallel.h"
#include "kernels/base/sweep.h"

namespace crosstalk {

auto cpu_sweep(const Exec& exec, const auto& op) {
  return [&]<class Function>(std::int64_t n, Function) {
    parallel_each(exec, op.y.value.R, n, 64, [&op](int r, std::int64_t i) { Function::call(op, r, i); });
  };
}

/// Neighbours lie in the same lines of the caches, so that some walk together.
template <bool kBack, class Op>
void cpu_walk(const Exec& exec, const Op& op) {
  constexpr int kSide = 32;
  const std::int64_t strips = (op.channels().dim(2) + kSide - 1) / kSide;
  parallel_items(exec, op.channels().R, op.channels().dim(0) * strips,
                 [&op](int r, std::int64_t i) { walk_channels<kSide, 1, kBack>(op, r, i); });
}

}  // namespace crosstalk

// Runs the sweeps of an op (sweep.h) on the CPU: some elements an item of work.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/parallel.h"
#include "kernels/base/sweep.h"

namespace crosstalk {

/// Elements of an item. It has one copy in the program: products may be contracted in two ways.
template <class Function, class Op>
CROSSTALK_COMPILED_ONCE void sweep_elements(const Op& op, int r, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) Function::call(op, r, i);
}

template <class Op>
auto cpu_sweep(const Exec& exec, const Op& op) {
  return [&]<class Function>(std::int64_t n, Function) {
    parallel_blocks(exec, op.y.value.R, n, 64, [&op](int r, std::int64_t begin, std::int64_t end) {
      sweep_elements<Function>(op, r, begin, end);
    });
  };
}

}  // namespace crosstalk

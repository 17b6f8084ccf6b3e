// A thread an element: the launch that element-by-element ops share.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/cuda_launch.cuh"

namespace crosstalk::device {
namespace {

constexpr int kEachThreads = 128;

template <class F>
__global__ void __launch_bounds__(kEachThreads) each_kernel(std::int64_t n, const F f) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kEachThreads + threadIdx.x;
  if (i < n) f(static_cast<int>(blockIdx.y), i);
}

/// f(r, i) for every element i of every replica.
template <class F>
void each(const Exec& exec, const char* name, int R, std::int64_t n, const F& f) {
  if (n == 0 || R == 0) return;
  const dim3 grid(blocks_for(n, kEachThreads), static_cast<unsigned>(R));
  each_kernel<<<grid, kEachThreads, 0, stream_of(exec)>>>(n, f);
  check_launch(name);
}

}  // namespace
}  // namespace crosstalk::device

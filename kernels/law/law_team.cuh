// Runs a law (law_walk.h) on CUDA: a block a sequence and head, for any shape. Loops over numbers have a
// thread a number; sums along rows have a warp a row.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/device/cuda_launch.cuh"
#include "kernels/law/law_walk.h"

namespace crosstalk::law {

constexpr int kWarps = 8, kThreads = 32 * kWarps;

template <class Real, int kWarps = law::kWarps>
struct Block {
  static constexpr int kThreads = 32 * kWarps;
  Real* sums;  ///< shared, a number a warp

  __device__ void each(int n, auto&& f) const {
    for (int i = CT_THREAD; i < n; i += kThreads) f(i);
    __syncthreads();
  }
  __device__ void cells(int rows, int columns, auto&& f) const {
    const int warp = CT_WARP, lane = CT_LANE;
    for (int i = warp; i < rows; i += kWarps)
      for (int j = lane; j < columns; j += 32) f(i, j);
    __syncthreads();
  }
  __device__ void rows(int rows, int n, auto&& term, auto&& put) const {
    const int warp = CT_WARP, lane = CT_LANE;
    for (int i = warp; i < rows; i += kWarps) {
      Real total = 0;
      for (int j = lane; j < n; j += 32) total += term(i, j);
      total = device::warp_sum(total);
      if (lane == 0) put(i, total);
    }
    __syncthreads();
  }
  __device__ void columns(int columns, int n, auto&& term, auto&& put) const {
    for (int i = CT_THREAD; i < columns; i += kThreads) {
      Real total = 0;
      for (int j = 0; j < n; ++j) total += term(i, j);
      put(i, total);
    }
    __syncthreads();
  }
  __device__ Real sum(int n, auto&& term) const {
    Real total = 0;
    for (int i = CT_THREAD; i < n; i += kThreads) total += term(i);
    total = device::warp_sum(total);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = total;
    __syncthreads();
    total = 0;
    for (int w = 0; w < kWarps; ++w) total += sums[w];
    __syncthreads();
    return total;
  }
};

template <class Law, bool kBack, class Real, class Op>
__global__ void __launch_bounds__(kThreads) walk_kernel(const __grid_constant__ Op op) {
  __shared__ Real sums[kWarps];
  const Law law(op, static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.x));
  if constexpr (kBack)
    walk_backward(law, Block<Real>{sums});
  else
    walk_forward(law, Block<Real>{sums});
}

/// A block of `threads` a sequence and head.
template <class Op>
void launch(const Exec& exec, const Op& op, void (*kernel)(const Op), int threads) {
  device::launch(exec, Op::kName, kernel, device::per_replica(op.B() * op.H(), op.o.value.R), threads, 0, op);
}

/// The form that the op was planned with, else the law, token after token.
template <template <class> class Law, bool kBack, template <class> class Op, class Real>
void run(const Exec& exec, const Op<Real>& op) {
  if constexpr (requires { op.form->forward; }) {
    if (op.form) return (kBack ? op.form->backward : op.form->forward)(exec, op);
  }
  launch(exec, op, walk_kernel<Law<Real>, kBack, Real, Op<Real>>, kThreads);
}

}  // namespace crosstalk::law

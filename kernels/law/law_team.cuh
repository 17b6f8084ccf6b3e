// Runs a law (law_walk.h) on CUDA: a block a sequence and head, for any shape. Loops over numbers have a
// thread a number; sums along rows have a warp a row.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/cuda_launch.cuh"
#include "kernels/law/law_walk.h"

namespace crosstalk::law {

constexpr int kWarps = 8, kThreads = 32 * kWarps;

template <class Real>
struct Block {
  Real* sums;  ///< shared, a number a warp

  template <class F>
  __device__ void each(int n, F&& f) const {
    for (int i = static_cast<int>(threadIdx.x); i < n; i += kThreads) f(i);
    __syncthreads();
  }
  template <class F>
  __device__ void cells(int rows, int columns, F&& f) const {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    for (int i = warp; i < rows; i += kWarps) {
      for (int j = lane; j < columns; j += 32) f(i, j);
    }
    __syncthreads();
  }
  template <class Term, class Put>
  __device__ void rows(int rows, int n, Term&& term, Put&& put) const {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    for (int i = warp; i < rows; i += kWarps) {
      Real total = 0;
      for (int j = lane; j < n; j += 32) total += term(i, j);
      total = device::warp_sum(total);
      if (lane == 0) put(i, total);
    }
    __syncthreads();
  }
  template <class Term, class Put>
  __device__ void columns(int columns, int n, Term&& term, Put&& put) const {
    for (int i = static_cast<int>(threadIdx.x); i < columns; i += kThreads) {
      Real total = 0;
      for (int j = 0; j < n; ++j) total += term(i, j);
      put(i, total);
    }
    __syncthreads();
  }
  template <class Term>
  __device__ Real sum(int n, Term&& term) const {
    Real total = 0;
    for (int i = static_cast<int>(threadIdx.x); i < n; i += kThreads) total += term(i);
    total = device::warp_sum(total);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = total;
    __syncthreads();
    total = 0;
    for (int w = 0; w < kWarps; ++w) total += sums[w];
    __syncthreads();
    return total;
  }
};

template <class Law, class Real, class Op>
__global__ void __launch_bounds__(kThreads) forward_kernel(const __grid_constant__ Op op) {
  __shared__ Real sums[kWarps];
  walk_forward(Law(op, static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.x)), Block<Real>{sums});
}
template <class Law, class Real, class Op>
__global__ void __launch_bounds__(kThreads) backward_kernel(const __grid_constant__ Op op) {
  __shared__ Real sums[kWarps];
  walk_backward(Law(op, static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.x)), Block<Real>{sums});
}

template <class Law, template <class> class Op, class Real>
void run_forward(const Exec& exec, const Op<Real>& op) {
  if (op.B() * op.H() == 0 || op.o.value.R == 0) return;
  const dim3 grid(static_cast<unsigned>(op.B() * op.H()), static_cast<unsigned>(op.o.value.R));
  forward_kernel<Law, Real><<<grid, kThreads, 0, device::stream_of(exec)>>>(op);
  device::check_launch(Op<Real>::kName);
}
template <class Law, template <class> class Op, class Real>
void run_backward(const Exec& exec, const Op<Real>& op) {
  if (op.B() * op.H() == 0 || op.o.value.R == 0) return;
  const dim3 grid(static_cast<unsigned>(op.B() * op.H()), static_cast<unsigned>(op.o.value.R));
  backward_kernel<Law, Real><<<grid, kThreads, 0, device::stream_of(exec)>>>(op);
  device::check_launch(Op<Real>::kName);
}

}  // namespace crosstalk::law

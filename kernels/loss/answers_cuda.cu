// The largest logit on CUDA: a block a few rows, a thread some classes, which it reads once for all rows of the block.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/cuda_launch.cuh"
#include "kernels/loss/answers.h"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kThreads = 128, kRows = 8;

/// Takes (logit, v) if it is the larger one; of equal ones the first class.
template <class Real>
__device__ __forceinline__ void take(Real logit, int v, Real& top, int& best) {
  if (v >= 0 && (logit > top || (logit == top && (best < 0 || v < best)))) top = logit, best = v;
}

template <class Real>
__global__ void __launch_bounds__(kThreads) answers(const __grid_constant__ Answers<Real> a) {
  __shared__ Real tops[kRows][kThreads / 32];
  __shared__ int bests[kRows][kThreads / 32];
  const int r = blockIdx.y, D = a.x.columns(), V = a.V();
  const std::int64_t n0 = static_cast<std::int64_t>(blockIdx.x) * kRows, rows = a.x.rows();
  Real top[kRows];
  int best[kRows];
#pragma unroll
  for (int i = 0; i < kRows; ++i) top[i] = -INFINITY, best[i] = -1;
  for (int v = threadIdx.x; v < V; v += kThreads) {
    Real sum[kRows] = {};
    if (a.w) {
      const Real* of = a.w.at(r) + static_cast<std::int64_t>(v) * D;
      for (int d = 0; d < D; ++d) {
        const Real x = of[d];
#pragma unroll
        for (int i = 0; i < kRows; ++i)
          if (n0 + i < rows) sum[i] += a.x.at(r)[(n0 + i) * D + d] * x;
      }
    } else {
#pragma unroll
      for (int i = 0; i < kRows; ++i)
        if (n0 + i < rows) sum[i] = a.x.at(r)[(n0 + i) * D + v];
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i)
      if (sum[i] > top[i]) top[i] = sum[i], best[i] = v;
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    for (int offset = 16; offset > 0; offset /= 2) {
      const Real other = __shfl_xor_sync(kFullWarp, top[i], offset);
      const int of = __shfl_xor_sync(kFullWarp, best[i], offset);
      take(other, of, top[i], best[i]);
    }
    if (threadIdx.x % 32 == 0) tops[i][threadIdx.x / 32] = top[i], bests[i][threadIdx.x / 32] = best[i];
  }
  __syncthreads();
  const int i = threadIdx.x;
  if (i >= kRows || n0 + i >= rows) return;
  Real most = -INFINITY;
  int found = -1;
  for (int w = 0; w < kThreads / 32; ++w) take(tops[i][w], bests[i][w], most, found);
  a.answer.at(r)[n0 + i] = found;
}

}  // namespace

template <class Real>
void run_cuda(const Exec& exec, const Answers<Real>& a) {
  if (a.x.rows() == 0 || a.x.R == 0) return;
  answers<<<dim3(blocks_for(a.x.rows(), kRows), static_cast<unsigned>(a.x.R)), kThreads, 0,
            stream_of(exec)>>>(a);
  check_launch("answers");
}

CROSSTALK_INSTANTIATE_STEP(cuda, Answers)

}  // namespace crosstalk

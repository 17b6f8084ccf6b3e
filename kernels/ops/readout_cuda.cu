// From weights to values (a warp a query), the squared loss (a warp a query, then a block a replica) and its
// gradient. SPDX-License-Identifier: Apache-2.0
#include "kernels/base/cuda_launch.cuh"
#include "kernels/batch.h"
#include "kernels/ops/readout.h"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kGatherWarps = 4;

// A warp adds 32 tokens at once to sums in shared memory; tokens of one value take turns, so every sum is in
// the order of t. `chunk` values at a time.
template <class Real>
__global__ void __launch_bounds__(32 * kGatherWarps)
    gather_values(const __grid_constant__ GatherValuesForward<Real> a, int chunk) {
  extern __shared__ __align__(16) unsigned char raw[];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, r = blockIdx.y;
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kGatherWarps + warp;
  if (i >= a.a.rows()) return;
  const int T = a.a.columns(), V = a.y.columns(), Q = a.a.dim(1), C = a.tokens.columns();
  const std::int32_t* tokens = a.tokens.at(r) + i / Q * T * C + channel_value;
  const Real* weights = a.a.at(r) + i * T;
  Real* y = reinterpret_cast<Real*>(raw) + warp * chunk;
  for (int begin = 0; begin < V; begin += chunk) {
    const int end = min(V, begin + chunk);
    for (int v = lane; v < end - begin; v += 32) y[v] = 0;
    __syncwarp();
#pragma unroll 4
    for (int t0 = 0; t0 < T; t0 += 32) {
      const int t = t0 + lane;
      int value = t < T ? tokens[static_cast<std::int64_t>(t) * C] : -1;
      const Real weight = t < T ? weights[t] : Real(0);
      if (value < begin || value >= end) value = -1;
      const unsigned same = __match_any_sync(kFullWarp, value);
      const int turn = value < 0 ? -1 : __popc(same & ((1u << lane) - 1));
      for (int k = 0; __any_sync(kFullWarp, turn >= k); ++k) {
        if (turn == k) y[value - begin] += weight;
        __syncwarp();
      }
    }
    for (int v = lane; v < end - begin; v += 32) a.y.at(r)[i * V + begin + v] = y[v];
    __syncwarp();
  }
}

template <class Real>
__global__ void __launch_bounds__(kThreads)
    gather_values_backward(const __grid_constant__ GatherValuesBackward<Real> a) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  const int r = blockIdx.y, T = a.d_a.columns(), V = a.d_y.columns(), Q = a.d_a.dim(1),
            C = a.tokens.columns();
  if (i >= a.d_a.rows()) return;
  const std::int32_t* tokens = a.tokens.at(r) + i / Q * T * C + channel_value;
  for (int t = threadIdx.x % 32; t < T; t += 32) {
    const int value = tokens[static_cast<std::int64_t>(t) * C];
    put(a.write_a, a.d_a.at(r) + i * T + t, value >= 0 ? a.d_y.at(r)[i * V + value] : Real(0));
  }
}

template <class Real>
__global__ void __launch_bounds__(kThreads) query_loss(const __grid_constant__ SquaredLossForward<Real> a) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  const int r = blockIdx.y, V = a.y.columns(), lane = threadIdx.x % 32;
  if (i >= a.y.rows()) return;
  const int target = a.target.at(r)[i];
  if (target < 0) {
    if (lane == 0) {
      a.query_loss.at(r)[i] = 0;
      a.correct.at(r)[i] = -1;
    }
    return;
  }
  const Real* y = a.y.at(r) + i * V;
  const Real answer = y[target];
  Real squares = 0;
  bool largest = true;
  for (int v = lane; v < V; v += 32) {
    const Real difference = y[v] - (v == target ? Real(1) : Real(0));
    squares += difference * difference;
    largest = largest && (v == target || answer > y[v]);
  }
  squares = warp_sum(squares);
  largest = __all_sync(kFullWarp, largest);
  if (lane == 0) {
    a.query_loss.at(r)[i] = squares / 2;
    a.correct.at(r)[i] = largest ? 1 : 0;
  }
}

// Used slots of a replica; every thread of the block gets the number. One barrier or more.
__device__ int used_slots(const std::int32_t* target, std::int64_t n) {
  int used = 0;
  for (std::int64_t i = 0; i < n; i += kThreads) {
    used += __syncthreads_count(i + threadIdx.x < n && target[i + threadIdx.x] >= 0);
  }
  return used > 0 ? used : 1;
}

template <class Real>
__global__ void __launch_bounds__(kThreads) mean_loss(const __grid_constant__ SquaredLossForward<Real> a) {
  __shared__ Real sums[kWarps];
  const int r = blockIdx.x;
  const std::int64_t n = a.y.rows();
  const int used = used_slots(a.target.at(r), n);
  Real sum = 0;
  for (std::int64_t i = threadIdx.x; i < n; i += kThreads) sum += a.query_loss.at(r)[i];
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x > 0) return;
  Real total = 0;
#pragma unroll
  for (int i = 0; i < kWarps; ++i) total += sums[i];
  *a.loss.at(r) = total / static_cast<Real>(used);
}

template <class Real>
__global__ void __launch_bounds__(kThreads)
    loss_backward(const __grid_constant__ SquaredLossBackward<Real> a) {
  const int r = blockIdx.y, V = a.y.columns();
  const Real scale = Real(1) / static_cast<Real>(used_slots(a.target.at(r), a.y.rows()));
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (i >= a.y.rows()) return;
  const int target = a.target.at(r)[i];
  for (int v = threadIdx.x % 32; v < V; v += 32) {
    const Real error = a.y.at(r)[i * V + v] - (v == target ? Real(1) : Real(0));
    put(a.write_y, a.d_y.at(r) + i * V + v, target < 0 ? Real(0) : scale * error);
  }
}

}  // namespace

template <class Real>
void run_cuda(const Exec& exec, const GatherValuesForward<Real>& a) {
  if (a.a.rows() == 0 || a.a.R == 0) return;
  const int chunk = a.y.columns() < 1024 ? a.y.columns() : 1024;
  gather_values<<<dim3(blocks_for(a.a.rows(), kGatherWarps), static_cast<unsigned>(a.a.R)), 32 * kGatherWarps,
                  static_cast<std::size_t>(kGatherWarps * chunk) * sizeof(Real), stream_of(exec)>>>(a, chunk);
  check_launch("gather values");
}

template <class Real>
void run_cuda(const Exec& exec, const GatherValuesBackward<Real>& a) {
  if (a.write_a == Write::none || a.d_a.rows() == 0 || a.d_a.R == 0) return;
  gather_values_backward<<<dim3(blocks_for(a.d_a.rows(), kWarps), static_cast<unsigned>(a.d_a.R)), kThreads,
                           0, stream_of(exec)>>>(a);
  check_launch("gather values backward");
}

template <class Real>
void run_cuda(const Exec& exec, const SquaredLossForward<Real>& a) {
  if (a.y.R == 0) return;
  if (a.y.rows() > 0) {
    query_loss<<<dim3(blocks_for(a.y.rows(), kWarps), static_cast<unsigned>(a.y.R)), kThreads, 0,
                 stream_of(exec)>>>(a);
    check_launch("squared loss");
  }
  mean_loss<<<static_cast<unsigned>(a.y.R), kThreads, 0, stream_of(exec)>>>(a);
  check_launch("squared loss (mean)");
}

template <class Real>
void run_cuda(const Exec& exec, const SquaredLossBackward<Real>& a) {
  if (a.write_y == Write::none || a.y.rows() == 0 || a.y.R == 0) return;
  loss_backward<<<dim3(blocks_for(a.y.rows(), kWarps), static_cast<unsigned>(a.y.R)), kThreads, 0,
                  stream_of(exec)>>>(a);
  check_launch("squared loss backward");
}

CROSSTALK_CUDA_OP(GatherValuesForward)
CROSSTALK_CUDA_OP(GatherValuesBackward)
CROSSTALK_CUDA_OP(SquaredLossForward)
CROSSTALK_CUDA_OP(SquaredLossBackward)

}  // namespace crosstalk

// From weights to values (a warp a query), the squared loss (a warp a query, then a block a replica; one
// block where queries are few) and its gradient. SPDX-License-Identifier: Apache-2.0
#include "kernels/base/cuda_launch.cuh"
#include "kernels/batch.h"
#include "kernels/ops/readout.h"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kChunk = 2048;  // values whose sums are in shared memory at once

// A warp a query; 32 tokens at a time bring their weights to sums in shared memory. Those of different
// values, the rule where values are not written twice, do so at once: each marks its value and looks whether
// another one has, too. Else those of one value take turns, so every sum is in the order of t. Shared memory:
// sums [warp][chunk], marks [warp][chunk].
template <class Real>
__global__ void __launch_bounds__(kThreads)
    gather_values(const __grid_constant__ GatherValuesForward<Real> a, int chunk) {
  extern __shared__ __align__(16) unsigned char raw[];
  const int warps = static_cast<int>(blockDim.x) / 32, warp = threadIdx.x / 32, lane = threadIdx.x % 32,
            r = blockIdx.y;
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * warps + warp;
  if (i >= a.a.rows()) return;
  const int T = a.a.columns(), V = a.y.columns(), Q = a.a.dim(1), C = a.tokens.columns();
  const std::int32_t* tokens = a.tokens.at(r) + i / Q * T * C + channel_value;
  const Real* scores = a.a.at(r) + i * T;
  Real inverse = 1;
  if (a.w) {
    Real sum = 0;
#pragma unroll 4
    for (int t = lane; t < T; t += 32) sum += scores[t];
    inverse = 1 / (warp_sum(sum) + static_cast<Real>(a.eps));
    if (lane == 0) a.inverse.at(r)[i] = inverse;
  }
  Real* y = reinterpret_cast<Real*>(raw) + warp * chunk;
  int* mark = reinterpret_cast<int*>(reinterpret_cast<Real*>(raw) + warps * chunk) + warp * chunk;
  for (int begin = 0; begin < V; begin += chunk) {
    const int end = min(V, begin + chunk);
    for (int v = lane; v < end - begin; v += 32) y[v] = 0;
    __syncwarp();
    constexpr int kDepth = 4;  // loads that overlap
    for (int t0 = 0; t0 < T; t0 += 32 * kDepth) {
      int value[kDepth];
      Real weight[kDepth];
#pragma unroll
      for (int k = 0; k < kDepth; ++k) {
        const int t = t0 + 32 * k + lane;
        value[k] = t < T ? tokens[static_cast<std::int64_t>(t) * C] : -1;
        weight[k] = t < T ? inverse * scores[t] : Real(0);
        if (a.w && t < T) a.w.at(r)[i * T + t] = weight[k];
      }
#pragma unroll
      for (int k = 0; k < kDepth; ++k) {
        const bool adds = value[k] >= begin && value[k] < end;
        const int at = adds ? value[k] - begin : -1;
        if (adds) atomicExch(mark + at, lane);
        __syncwarp();
        int turn = 0;
        if (!__all_sync(kFullWarp, !adds || mark[at] == lane))
          turn = __popc(__match_any_sync(kFullWarp, at) & ((1u << lane) - 1));
        for (int now = 0; __any_sync(kFullWarp, adds && turn >= now); ++now) {
          if (adds && turn == now) y[at] += weight[k];
          __syncwarp();
        }
      }
    }
    for (int v = lane; v < end - begin; v += 32) a.y.at(r)[i * V + begin + v] = y[v];
    __syncwarp();
  }
}

// A thread an entry.
template <class Real>
__global__ void __launch_bounds__(kThreads)
    gather_values_backward(const __grid_constant__ GatherValuesBackward<Real> a) {
  const std::int64_t e = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int r = blockIdx.y, T = a.d_a.columns(), V = a.d_y.columns(), Q = a.d_a.dim(1),
            C = a.tokens.columns();
  if (e >= a.d_a.size()) return;
  const std::int64_t i = e / T, t = e - i * T;
  const int value = a.tokens.at(r)[(i / Q * T + t) * C + channel_value];
  put(a.write_a, a.d_a.at(r) + e, value >= 0 ? a.d_y.at(r)[i * V + value] : Real(0));
}

// With weights that were divided by their sum: a warp a query.
template <class Real>
__global__ void __launch_bounds__(kThreads)
    gather_weights_backward(const __grid_constant__ GatherValuesBackward<Real> a) {
  const int lane = threadIdx.x % 32, r = blockIdx.y;
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (i >= a.d_a.rows()) return;
  const int T = a.d_a.columns(), V = a.d_y.columns(), Q = a.d_a.dim(1), C = a.tokens.columns();
  const std::int32_t* tokens = a.tokens.at(r) + i / Q * T * C + channel_value;
  const Real *d_y = a.d_y.at(r) + i * V, *w = a.w.at(r) + i * T, inverse = a.inverse.at(r)[i];
  const auto d_w = [&](int t) {
    const int value = tokens[static_cast<std::int64_t>(t) * C];
    return value >= 0 ? d_y[value] : Real(0);
  };
  Real along = 0;
#pragma unroll 4
  for (int t = lane; t < T; t += 32) along += d_w(t) * w[t];
  along = warp_sum(along);
#pragma unroll 4
  for (int t = lane; t < T; t += 32) put(a.write_a, a.d_a.at(r) + i * T + t, inverse * (d_w(t) - along));
}

// The loss of query i by one warp, known to all its lanes; if wanted, its gradient times `scale` on the way.
// y is read before anybody knows the target.
template <class Real>
__device__ Real loss_of(const SquaredLossForward<Real>& a, int r, std::int64_t i, bool wanted = false,
                        Real scale = 0) {
  const int V = a.y.columns(), lane = threadIdx.x % 32, target = a.target.at(r)[i];
  const Real* y = a.y.at(r) + i * V;
  Real squares = 0, answer = 0, other = -INFINITY;
  bool others = false, ordered = true;  // whether there are others, all of them numbers
  const bool aligned = is_aligned16(y);
#pragma unroll 4
  for (int v0 = 4 * lane; v0 < V; v0 += 128) {
    Real values[4];
    load4(y + v0, V - v0, aligned, values);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (v0 + k >= V) break;
      const Real value = values[k], difference = value - (v0 + k == target ? Real(1) : Real(0));
      squares += difference * difference;
      if (wanted) a.d_y.at(r)[i * V + v0 + k] = target < 0 ? Real(0) : scale * difference;
      if (v0 + k == target) {
        answer = value;
      } else {
        others = true;
        ordered = ordered && value == value;
        other = value > other ? value : other;
      }
    }
  }
  const Real loss = target < 0 ? Real(0) : warp_sum(squares) / 2;
  if (target >= 0) answer = __shfl_sync(kFullWarp, answer, target / 4 % 32);
  const bool largest = __all_sync(kFullWarp, ordered && (!others || answer > other));
  if (lane == 0) {
    a.query_loss.at(r)[i] = loss;
    a.correct.at(r)[i] = target < 0 ? -1 : largest ? 1 : 0;
  }
  return loss;
}

template <class Real>
__global__ void __launch_bounds__(kThreads) query_loss(const __grid_constant__ SquaredLossForward<Real> a) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  const int r = blockIdx.y;
  if (i < a.y.rows()) loss_of(a, r, i);
}

// Few queries: one block does them all, their mean and its gradient.
constexpr int kFewQueries = 64;
template <class Real>
__global__ void __launch_bounds__(1024) few_losses(const __grid_constant__ SquaredLossForward<Real> a) {
  __shared__ Real losses[kFewQueries];
  const int r = blockIdx.x, n = static_cast<int>(a.y.rows()), lane = threadIdx.x % 32;
  int used = 0;
#pragma unroll
  for (int i = lane; i < kFewQueries; i += 32)
    used += __popc(__ballot_sync(kFullWarp, i < n && a.target.at(r)[i] >= 0));
  const Real count = static_cast<Real>(used > 0 ? used : 1);
  for (int i = threadIdx.x / 32; i < kFewQueries; i += 32) {
    const Real loss = i < n ? loss_of(a, r, i, static_cast<bool>(a.d_y), 1 / count) : Real(0);
    if (lane == 0) losses[i] = loss;
  }
  __syncthreads();
  if (threadIdx.x >= 32) return;
  Real total = 0;
#pragma unroll
  for (int i = 0; i < kFewQueries; i += 32) total += losses[lane + i];
  total = warp_sum(total);
  if (lane == 0) *a.loss.at(r) = total / count;
}

// Used slots of a replica; every thread of the block gets the number.
__device__ int used_slots(const std::int32_t* target, std::int64_t n) {
  __shared__ int counts[kWarps];
  int used = 0;
#pragma unroll 4
  for (std::int64_t i = threadIdx.x; i < n; i += kThreads) used += target[i] >= 0;
  used = __reduce_add_sync(kFullWarp, used);
  if (threadIdx.x % 32 == 0) counts[threadIdx.x / 32] = used;
  __syncthreads();
  used = 0;
#pragma unroll
  for (int i = 0; i < kWarps; ++i) used += counts[i];
  return used > 0 ? used : 1;
}

template <class Real>
__global__ void __launch_bounds__(kThreads) mean_loss(const __grid_constant__ SquaredLossForward<Real> a) {
  __shared__ Real sums[kWarps];
  const int r = blockIdx.x;
  const std::int64_t n = a.y.rows();
  Real sum = 0;
#pragma unroll 4
  for (std::int64_t i = threadIdx.x; i < n; i += kThreads) sum += a.query_loss.at(r)[i];
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  const int used = used_slots(a.target.at(r), n);
  if (threadIdx.x > 0) return;
  Real total = 0;
#pragma unroll
  for (int i = 0; i < kWarps; ++i) total += sums[i];
  *a.loss.at(r) = total / static_cast<Real>(used);
}

// A thread an entry.
template <class Real>
__global__ void __launch_bounds__(kThreads)
    loss_backward(const __grid_constant__ SquaredLossBackward<Real> a) {
  const int r = blockIdx.y, V = a.y.columns();
  const std::int64_t e = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const bool inside = e < a.y.size();
  const std::int64_t i = inside ? e / V : 0;
  const int target = a.target.at(r)[i];
  const Real y = a.y.at(r)[inside ? e : 0];
  const Real scale = Real(1) / static_cast<Real>(used_slots(a.target.at(r), a.y.rows()));
  if (!inside) return;
  const Real error = y - (e - i * V == target ? Real(1) : Real(0));
  put(a.write_y, a.d_y.at(r) + e, target < 0 ? Real(0) : scale * error);
}

}  // namespace

template <class Real>
void run_cuda(const Exec& exec, const GatherValuesForward<Real>& a) {
  if (a.a.rows() == 0 || a.a.R == 0) return;
  const int chunk = a.y.columns() < kChunk ? a.y.columns() : kChunk;
  const std::size_t bytes = static_cast<std::size_t>(chunk) * (sizeof(Real) + sizeof(int));  // of a warp
  const int fit = static_cast<int>(48 * 1024 / bytes), warps = fit < kWarps ? fit : kWarps;
  gather_values<<<dim3(blocks_for(a.a.rows(), warps), static_cast<unsigned>(a.a.R)),
                  static_cast<unsigned>(32 * warps), static_cast<std::size_t>(warps) * bytes,
                  stream_of(exec)>>>(a, chunk);
  check_launch("gather values");
}

template <class Real>
void run_cuda(const Exec& exec, const GatherValuesBackward<Real>& a) {
  if (a.write_a == Write::none || a.d_a.rows() == 0 || a.d_a.R == 0) return;
  const unsigned R = static_cast<unsigned>(a.d_a.R);
  if (a.w) {
    gather_weights_backward<<<dim3(blocks_for(a.d_a.rows(), kWarps), R), kThreads, 0, stream_of(exec)>>>(a);
  } else {
    gather_values_backward<<<dim3(blocks_for(a.d_a.size(), kThreads), R), kThreads, 0, stream_of(exec)>>>(a);
  }
  check_launch("gather values backward");
}

template <class Real>
void run_cuda(const Exec& exec, const SquaredLossForward<Real>& a) {
  if (a.y.R == 0) return;
  if (a.y.rows() <= kFewQueries) {
    few_losses<<<static_cast<unsigned>(a.y.R), 1024, 0, stream_of(exec)>>>(a);
    return check_launch("squared loss");
  }
  query_loss<<<dim3(blocks_for(a.y.rows(), kWarps), static_cast<unsigned>(a.y.R)), kThreads, 0,
               stream_of(exec)>>>(a);
  check_launch("squared loss");
  mean_loss<<<static_cast<unsigned>(a.y.R), kThreads, 0, stream_of(exec)>>>(a);
  check_launch("squared loss (mean)");
  if (a.d_y) run_cuda(exec, SquaredLossBackward<Real>{a.y, a.d_y, a.target, Write::overwrite});
}

template <class Real>
void run_cuda(const Exec& exec, const SquaredLossBackward<Real>& a) {
  if (a.write_y == Write::none || a.y.rows() == 0 || a.y.R == 0) return;
  loss_backward<<<dim3(blocks_for(a.y.size(), kThreads), static_cast<unsigned>(a.y.R)), kThreads, 0,
                  stream_of(exec)>>>(a);
  check_launch("squared loss backward");
}

CROSSTALK_CUDA_OP(GatherValuesForward)
CROSSTALK_CUDA_OP(GatherValuesBackward)
CROSSTALK_CUDA_OP(SquaredLossForward)
CROSSTALK_CUDA_OP(SquaredLossBackward)

}  // namespace crosstalk

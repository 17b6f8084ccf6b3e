// Sums of values by weights (a block a query), the squared loss (a warp a query, then a block a replica; one
// block where queries are few) and its gradient.
// SPDX-License-Identifier: Apache-2.0
#include <climits>

#include "kernels/base/batch.h"
#include "kernels/base/device/reduce.cuh"
#include "kernels/loss/readout.h"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kChunk = 2048;  // values whose sums are in shared memory at once

// A block a query. Every thread brings a token; those of one value take turns, the first of them before the
// others, so every sum is in the order of t.
template <class Real>
__global__ void __launch_bounds__(kThreads)
    gather_values(const __grid_constant__ GatherValues<Real> a, int chunk) {
  extern __shared__ __align__(16) unsigned char raw[];
  const int threads = static_cast<int>(blockDim.x), thread = threadIdx.x, r = blockIdx.y;
  const std::int64_t i = blockIdx.x;
  const int T = a.a.value.columns(), V = a.y.value.columns(), Q = a.a.value.dim(1),
            C = a.tokens.value.columns();
  const std::int32_t* tokens = a.tokens.value.at(r) + i / Q * T * C + channel_value;
  const Real* scores = a.a.value.at(r) + i * T;
  Real inverse = 1;
  if (a.w.value) {
    Real sum = 0;
#pragma unroll 4
    for (int t = thread; t < T; t += threads) sum += scores[t];
    inverse = 1 / (block_sum(sum) + static_cast<Real>(a.eps));
#pragma unroll 4
    for (int t = thread; t < T; t += threads) a.w.value.at(r)[i * T + t] = inverse * scores[t];
    if (thread == 0) a.inverse.value.at(r)[i] = inverse;
  }
  Real* y = reinterpret_cast<Real*>(raw);
  int* first =
      reinterpret_cast<int*>(y + chunk);  // of a value: the earliest token that waits; for two rounds
  for (int begin = 0; begin < V; begin += chunk) {
    const int end = min(V, begin + chunk);
    for (int v = thread; v < end - begin; v += threads) {
      y[v] = 0;
      first[v] = first[chunk + v] = INT_MAX;
    }
    int value = thread < T ? tokens[std::int64_t{thread} * C] : -1;
    Real weight = thread < T ? inverse * scores[thread] : Real(0);
    int* used = nullptr;  // what this thread leaves behind in the list of the round before
    int round = 0;
    __syncthreads();
    for (int t0 = 0; t0 < T; t0 += threads) {
      const int next = t0 + threads + thread, at = value - begin;  // the next token is fetched meanwhile
      const int next_value = next < T ? tokens[std::int64_t{next} * C] : -1;
      const Real next_weight = next < T ? inverse * scores[next] : Real(0);
      bool waits = value >= begin && value < end;
      while (__syncthreads_or(waits)) {
        int* mine = first + round + at;
        if (used) *used = INT_MAX;
        used = nullptr;
        if (waits) atomicMin(mine, thread);
        __syncthreads();
        if (waits && *mine == thread) {
          y[at] += weight;
          waits = false;
          used = mine;
        }
        round ^= chunk;
      }
      value = next_value;
      weight = next_weight;
    }
    for (int v = thread; v < end - begin; v += threads) a.y.value.at(r)[i * V + begin + v] = y[v];
    __syncthreads();
  }
}

// A thread an entry.
template <class Real>
__global__ void __launch_bounds__(kThreads)
    gather_values_backward(const __grid_constant__ GatherValues<Real> a) {
  const std::int64_t e = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int r = blockIdx.y, T = a.a.gradient.columns(), V = a.y.gradient.columns(), Q = a.a.gradient.dim(1),
            C = a.tokens.value.columns();
  if (e >= a.a.gradient.size()) return;
  const std::int64_t i = e / T, t = e - i * T;
  const int value = a.tokens.value.at(r)[(i / Q * T + t) * C + channel_value];
  put(a.a.write, a.a.gradient.at(r) + e, value >= 0 ? a.y.gradient.at(r)[i * V + value] : Real(0));
}

// Gradients of weights that were divided by their sum: a block a query.
template <class Real>
__global__ void __launch_bounds__(kThreads)
    gather_weights_backward(const __grid_constant__ GatherValues<Real> a) {
  const int threads = static_cast<int>(blockDim.x), thread = threadIdx.x, r = blockIdx.y;
  const std::int64_t i = blockIdx.x;
  const int T = a.a.gradient.columns(), V = a.y.gradient.columns(), Q = a.a.gradient.dim(1),
            C = a.tokens.value.columns();
  const std::int32_t* tokens = a.tokens.value.at(r) + i / Q * T * C + channel_value;
  const Real *d_y = a.y.gradient.at(r) + i * V, *w = a.w.value.at(r) + i * T,
             inverse = a.inverse.value.at(r)[i];
  const auto d_w = [&](int t) {
    const int value = tokens[std::int64_t{t} * C];
    return value >= 0 ? d_y[value] : Real(0);
  };
  Real along = 0;
#pragma unroll 4
  for (int t = thread; t < T; t += threads) along += d_w(t) * w[t];
  along = block_sum(along);
#pragma unroll 4
  for (int t = thread; t < T; t += threads)
    put(a.a.write, a.a.gradient.at(r) + i * T + t, inverse * (d_w(t) - along));
}

// The loss of query i by one warp, known to all its lanes; if wanted, its gradient times `scale` on the way.
// y is read before anybody knows the target.
template <class Real>
__device__ Real loss_of(const SquaredLoss<Real>& a, int r, std::int64_t i, bool wanted = false,
                        Real scale = 0) {
  const int V = a.y.value.columns(), lane = threadIdx.x % 32, target = a.target.value.at(r)[i];
  const Real* y = a.y.value.at(r) + i * V;
  Real squares = 0, answer = 0, other = -INFINITY;
  bool others = false, ordered = true;  // whether there are others, all of them numbers
  const bool aligned = is_aligned16(y);
#pragma unroll 4
  for (int v0 = 4 * lane; v0 < V; v0 += 128) {
    Real values[4], error[4];
    load4(y + v0, V - v0, aligned, values);
    CT_FOR(k, 4) {
      if (v0 + k >= V) break;
      const Real value = values[k], difference = value - (v0 + k == target ? Real(1) : Real(0));
      squares += difference * difference;
      error[k] = target < 0 ? Real(0) : scale * difference;
      if (v0 + k == target) {
        answer = value;
      } else {
        others = true;
        ordered = ordered && value == value;
        other = value > other ? value : other;
      }
    }
    if (!wanted) continue;
    Real* d_y = a.y.gradient.at(r) + i * V + v0;
    if (aligned && V - v0 >= 4 && is_aligned16(d_y))
      *reinterpret_cast<Four<Real>*>(d_y) = {{error[0], error[1], error[2], error[3]}};
    else
      for (int k = 0; k < 4 && v0 + k < V; ++k) d_y[k] = error[k];
  }
  const Real loss = target < 0 ? Real(0) : warp_sum(squares) / 2;
  if (target >= 0) answer = __shfl_sync(kFullWarp, answer, target / 4 % 32);
  const bool largest = __all_sync(kFullWarp, ordered && (!others || answer > other));
  if (lane == 0) {
    a.query_loss.value.at(r)[i] = loss;
    a.correct.value.at(r)[i] = target < 0 ? -1 : largest ? 1 : 0;
  }
  return loss;
}

template <class Real>
__global__ void __launch_bounds__(kThreads) query_loss(const __grid_constant__ SquaredLoss<Real> a) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  const int r = blockIdx.y;
  if (i < a.y.value.rows()) loss_of(a, r, i);
}

// Few queries: one block does them all, their mean and its gradient.
constexpr int kFewQueries = 64;
template <class Real>
__global__ void __launch_bounds__(1024) few_losses(const __grid_constant__ SquaredLoss<Real> a) {
  __shared__ Real losses[kFewQueries];
  const int r = blockIdx.x, n = static_cast<int>(a.y.value.rows()), lane = threadIdx.x % 32;
  int used = 0;
  CT_UNROLL(int i = lane; i < kFewQueries; i += 32)
    used += __popc(__ballot_sync(kFullWarp, i < n && a.target.value.at(r)[i] >= 0));
  const Real count = static_cast<Real>(used > 0 ? used : 1);
  for (int i = threadIdx.x / 32; i < kFewQueries; i += 32) {
    const Real loss = i < n ? loss_of(a, r, i, a.with_gradients && a.y.wanted(), 1 / count) : Real(0);
    if (lane == 0) losses[i] = loss;
  }
  __syncthreads();
  if (threadIdx.x >= 32) return;
  Real total = 0;
  CT_UNROLL(int i = 0; i < kFewQueries; i += 32) total += losses[lane + i];
  total = warp_sum(total);
  if (lane == 0) *a.loss.value.at(r) = total / count;
}

// Used slots of a replica; every thread of the block gets the number.
__device__ int used_slots(const std::int32_t* target, std::int64_t n) {
  int used = 0;
#pragma unroll 4
  for (std::int64_t i = threadIdx.x; i < n; i += kThreads) used += target[i] >= 0;
  used = block_sum(used);
  return used > 0 ? used : 1;
}

template <class Real>
__global__ void __launch_bounds__(kThreads) mean_loss(const __grid_constant__ SquaredLoss<Real> a) {
  const int r = blockIdx.x;
  const std::int64_t n = a.y.value.rows();
  Real sum = 0;
#pragma unroll 4
  for (std::int64_t i = threadIdx.x; i < n; i += kThreads) sum += a.query_loss.value.at(r)[i];
  sum = block_sum(sum);
  const int used = used_slots(a.target.value.at(r), n);
  if (threadIdx.x == 0) *a.loss.value.at(r) = sum / static_cast<Real>(used);
}

// A thread an entry.
template <class Real>
__global__ void __launch_bounds__(kThreads) loss_backward(const __grid_constant__ SquaredLoss<Real> a) {
  const int r = blockIdx.y, V = a.y.value.columns();
  const std::int64_t e = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const bool inside = e < a.y.value.size();
  const std::int64_t i = inside ? e / V : 0;
  const int target = a.target.value.at(r)[i];
  const Real y = a.y.value.at(r)[inside ? e : 0];
  const Real scale = Real(1) / static_cast<Real>(used_slots(a.target.value.at(r), a.y.value.rows()));
  if (!inside) return;
  const Real error = y - (e - i * V == target ? Real(1) : Real(0));
  put(a.y.write, a.y.gradient.at(r) + e, target < 0 ? Real(0) : scale * error);
}

template <class Real>
void put_gradient(const Exec& exec, const SquaredLoss<Real>& a) {
  if (!a.y.wanted() || a.y.value.rows() == 0 || a.y.value.R == 0) return;
  launch(exec, "squared loss backward", loss_backward<Real>,
         per_replica(blocks_for(a.y.value.size(), kThreads), a.y.value.R), kThreads, 0, a);
}

// Threads of a block that has a query of T tokens: one warp, which need not wait for others, where tokens are few.
int threads_for(int T) { return T <= 128 ? 32 : kThreads; }

}  // namespace

template <class Real>
void forward_cuda(const Exec& exec, const GatherValues<Real>& a) {
  if (a.a.value.rows() == 0 || a.a.value.R == 0) return;
  const int chunk = a.y.value.columns() < kChunk ? a.y.value.columns() : kChunk;
  launch(exec, "gather values", gather_values<Real>, per_replica(a.a.value.rows(), a.a.value.R),
         threads_for(a.a.value.columns()), static_cast<std::size_t>(chunk) * (sizeof(Real) + 2 * sizeof(int)),
         a, chunk);
}

template <class Real>
void backward_cuda(const Exec& exec, const GatherValues<Real>& a) {
  if (a.a.write == Write::none || a.a.gradient.rows() == 0 || a.a.gradient.R == 0) return;
  const Tensor<Real>& da = a.a.gradient;
  if (a.w.value) {
    launch(exec, "gather values backward", gather_weights_backward<Real>, per_replica(da.rows(), da.R),
           threads_for(da.columns()), 0, a);
  } else {
    launch(exec, "gather values backward", gather_values_backward<Real>,
           per_replica(blocks_for(da.size(), kThreads), da.R), kThreads, 0, a);
  }
}

template <class Real>
void forward_cuda(const Exec& exec, const SquaredLoss<Real>& a) {
  if (a.y.value.R == 0) return;
  if (a.y.value.rows() <= kFewQueries)
    return launch(exec, "squared loss", few_losses<Real>, static_cast<unsigned>(a.y.value.R), 1024, 0, a);
  launch(exec, "squared loss", query_loss<Real>,
         per_replica(blocks_for(a.y.value.rows(), kWarps), a.y.value.R), kThreads, 0, a);
  launch(exec, "squared loss (mean)", mean_loss<Real>, static_cast<unsigned>(a.y.value.R), kThreads, 0, a);
  if (a.with_gradients) put_gradient(exec, a);
}

template <class Real>
void backward_cuda(const Exec& exec, const SquaredLoss<Real>& a) {
  if (!a.with_gradients) put_gradient(exec, a);
}

CROSSTALK_INSTANTIATE(cuda, GatherValues)
CROSSTALK_INSTANTIATE(cuda, SquaredLoss)

}  // namespace crosstalk

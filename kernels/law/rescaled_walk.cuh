// The rescaled fast weight memory on CUDA, token after token, for any shape: a block a sequence and head, the
// state in global memory. A warp owns rows of the state and a lane its columns, in every pass over it, so
// that rows need no barrier; only sums over the block and over columns do.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/batch.h"
#include "kernels/base/cuda_launch.cuh"
#include "kernels/law/rescaled_read.h"

namespace crosstalk::device {

/// What ops/rescaled_read.h and ops/fwm.h have in common; the latter has one head, and ids instead of v.
template <class Real>
struct RescaledTensors {
  int T = 0, Q = 0, H = 1, K = 0, V = 0;
  Tensor<Real> q, k, v, beta, start, o, end;
  Tensor<Real> d_q, d_k, d_v, d_beta, d_start, d_o, d_end;
  Write write_q = Write::none, write_k = Write::none, write_v = Write::none, write_beta = Write::none,
        write_start = Write::none;
  Tensor<std::int32_t> ids, position;
  Tensor<Real> states, work;  ///< of a sequence and head so far apart:
  std::int64_t states_apart, work_apart;

  CT_HD std::int64_t size() const { return static_cast<std::int64_t>(V) * K; }
};

constexpr int kRescaledWarps = 8, kRescaledThreads = 32 * kRescaledWarps;

/// The threads that walk one sequence and head.
template <class Real>
struct RescaledWalk {
  const RescaledTensors<Real>& a;
  Real* sums;  // shared, a number a warp
  const int r, b, h, warp, lane;

  __device__ RescaledWalk(const RescaledTensors<Real>& tensors, Real* shared)
      : a(tensors),
        sums(shared),
        r(static_cast<int>(blockIdx.y)),
        b(static_cast<int>(blockIdx.x) / tensors.H),
        h(static_cast<int>(blockIdx.x) % tensors.H),
        warp(static_cast<int>(threadIdx.x) / 32),
        lane(static_cast<int>(threadIdx.x) % 32) {}

  __device__ std::int64_t token(int t) const { return (static_cast<std::int64_t>(b) * a.T + t) * a.H + h; }
  __device__ std::int64_t query(int i) const { return (static_cast<std::int64_t>(b) * a.Q + i) * a.H + h; }
  __device__ const Real* key(int t) const { return a.k.at(r) + token(t) * a.K; }
  __device__ Real value(int t, int v) const {
    if (a.v) return a.v.at(r)[token(t) * a.V + v];
    return a.ids.at(r)[token(t) * a.ids.columns() + channel_value] == v ? Real(1) : Real(0);
  }
  /// f(i) for every query that sees n tokens.
  template <class F>
  __device__ void queries(int n, F&& f) const {
    if (!a.position) {
      if (n > 0) f(n - 1);
      return;
    }
    const std::int32_t* position = a.position.at(r) + static_cast<std::int64_t>(b) * a.Q;
    for (int i = 0; i < a.Q; ++i) {
      if (clamped(position[i], a.T) == n) f(i);
    }
  }
  /// f(v, where row v begins) for the rows of this warp.
  template <class F>
  __device__ void rows(F&& f) const {
    for (int v = warp; v < a.V; v += kRescaledWarps) f(v, static_cast<std::int64_t>(v) * a.K);
  }
  /// f(i) for the entries of the state that this lane owns.
  template <class F>
  __device__ void entries(F&& f) const {
    rows([&](int, std::int64_t row) {
      for (int j = lane; j < a.K; j += 32) f(row + j);
    });
  }
  /// f(j) for columns j, a thread each. What rows() left must be behind a barrier.
  template <class F>
  __device__ void columns(F&& f) const {
    for (int j = static_cast<int>(threadIdx.x); j < a.K; j += kRescaledThreads) f(j);
  }
  /// Sum over the block of what each lane holds; a barrier too.
  __device__ Real block_sum(Real x) const {
    x = warp_sum(x);
    __syncthreads();
    if (lane == 0) sums[warp] = x;
    __syncthreads();
    Real total = 0;
    for (int w = 0; w < kRescaledWarps; ++w) total += sums[w];
    return total;
  }

  __device__ void load_start(Real* S) const {
    const Real* start = a.start ? a.start.at(r) + blockIdx.x * a.size() : nullptr;
    entries([&](std::int64_t i) { S[i] = start ? start[i] : Real(0); });
  }
  __device__ void copy(const Real* from, Real* to) const {
    entries([&](std::int64_t i) { to[i] = from[i]; });
  }
  __device__ Real* kept(int segment) const {
    return a.states.at(r) + blockIdx.x * a.states_apart + segment * a.size();
  }
  /// `next` (which may be S) becomes the state after token t. Returns what it was divided by.
  __device__ Real step(const Real* S, Real* next, int t) const {
    const Real *k = key(t), beta = a.beta.at(r)[token(t)];
    Real squares = 0;
    rows([&](int v, std::int64_t row) {
      const Real write = beta * (value(t, v) - warp_dot(S + row, k, a.K));
      for (int j = lane; j < a.K; j += 32) {
        const Real x = S[row + j] + write * k[j];
        next[row + j] = x;
        squares += x * x;
      }
    });
    const Real norm = sqrt(block_sum(squares));
    if ((t == 0 && !a.start) || !(norm > 1)) return 1;
    entries([&](std::int64_t i) { next[i] /= norm; });
    return norm;
  }
};

template <class Real>
__global__ void __launch_bounds__(kRescaledThreads)
    rescaled_forward(const __grid_constant__ RescaledTensors<Real> a) {
  __shared__ Real sums[kRescaledWarps];
  const RescaledWalk<Real> walk(a, sums);
  Real* S = a.work.at(walk.r) + blockIdx.x * a.work_apart;
  walk.load_start(S);
  for (int t = 0; t <= a.T; ++t) {
    walk.queries(t, [&](int i) {
      const Real* q = a.q.at(walk.r) + walk.query(i) * a.K;
      walk.rows([&](int v, std::int64_t row) {
        const Real y = warp_dot(S + row, q, a.K);
        if (walk.lane == 0) a.o.at(walk.r)[walk.query(i) * a.V + v] = y;
      });
    });
    if (t == a.T) break;
    if (a.states && t % kRescaledSegment == 0) walk.copy(S, walk.kept(t / kRescaledSegment));
    walk.step(S, S, t);
  }
  if (a.end) walk.copy(S, a.end.at(walk.r) + blockIdx.x * a.size());
}

/// Gradients of the sequence and head that are to be overwritten become 0: all that follows adds.
template <class Real>
__device__ void clear_gradients(const RescaledWalk<Real>& walk) {
  const auto& a = walk.a;
  const auto clear = [&](Write write, const Tensor<Real>& x, int items, int width, auto&& place) {
    if (write != Write::overwrite) return;
    for (int n = 0; n < items; ++n) {
      for (int i = static_cast<int>(threadIdx.x); i < width; i += kRescaledThreads)
        x.at(walk.r)[place(n) * width + i] = 0;
    }
  };
  const auto token = [&](int t) { return walk.token(t); };
  clear(a.write_q, a.d_q, a.Q, a.K, [&](int i) { return walk.query(i); });
  clear(a.write_k, a.d_k, a.T, a.K, token);
  clear(a.write_v, a.d_v, a.T, a.V, token);
  clear(a.write_beta, a.d_beta, a.T, 1, token);
  __syncthreads();
}

template <class Real>
__global__ void __launch_bounds__(kRescaledThreads)
    rescaled_backward(const __grid_constant__ RescaledTensors<Real> a) {
  __shared__ Real sums[kRescaledWarps], divisor[kRescaledSegment];
  const RescaledWalk<Real> walk(a, sums);
  const int r = walk.r, lane = walk.lane;
  const std::int64_t size = a.size();
  Real* states =
      a.work.at(r) + blockIdx.x * a.work_apart;  // before each token of a segment, and after the last
  Real* G = states + (min(a.T, kRescaledSegment) + 1) * size;  // dL/dS_t
  Real *error = G + size, *along_k = error + a.V;              // v - S k and G k
  clear_gradients(walk);
  const Real* d_end = a.d_end ? a.d_end.at(r) + blockIdx.x * size : nullptr;
  walk.entries([&](std::int64_t i) { G[i] = d_end ? d_end[i] : Real(0); });

  const auto take_back_reads = [&](int n, const Real* S) {  // o = S q
    if (!a.d_o) return;
    walk.queries(n, [&](int i) {
      const Real *q = a.q.at(r) + walk.query(i) * a.K, *d_o = a.d_o.at(r) + walk.query(i) * a.V;
      walk.rows([&](int v, std::int64_t row) {
        for (int j = lane; j < a.K; j += 32) G[row + j] += d_o[v] * q[j];
      });
      if (a.write_q == Write::none) return;
      walk.columns([&](int j) {
        Real sum = 0;
        for (int v = 0; v < a.V; ++v) sum += d_o[v] * S[static_cast<std::int64_t>(v) * a.K + j];
        a.d_q.at(r)[walk.query(i) * a.K + j] += sum;
      });
      __syncthreads();  // another thread may add to the same place, which may belong to several inputs
    });
  };

  for (int segment = (a.T - 1) / kRescaledSegment; segment >= 0 && a.T > 0; --segment) {
    const int begin = segment * kRescaledSegment, end = min(a.T, begin + kRescaledSegment);
    __syncthreads();  // the states of the segment behind it have been read
    walk.copy(walk.kept(segment), states);
    for (int t = begin; t < end; ++t) {
      Real* S = states + (t - begin) * size;
      const Real n = walk.step(S, S + size, t);
      if (threadIdx.x == 0) divisor[t - begin] = n;
    }
    __syncthreads();
    for (int t = end - 1; t >= begin; --t) {
      const Real *S = states + (t - begin) * size, *next = S + size, *k = walk.key(t);
      take_back_reads(t + 1, next);
      const Real n = divisor[t - begin], beta = a.beta.at(r)[walk.token(t)];
      if (n > 1) {  // S_t = S'/|S'|: dS' = (G - S_t <S_t, G>) / |S'|
        Real along = 0;
        walk.entries([&](std::int64_t i) { along += G[i] * next[i]; });
        along = walk.block_sum(along);
        walk.entries([&](std::int64_t i) { G[i] = (G[i] - next[i] * along) / n; });
      }
      // S' = S + beta e k^T with e = v - S k, and u = G k:
      //   d_beta = e . u
      //   d_v    = beta u
      //   d_k    = beta (G^T e - S^T u)
      //   d_S    = G - beta u k^T
      Real d_beta = 0;
      walk.rows([&](int v, std::int64_t row) {
        const Real e = walk.value(t, v) - warp_dot(S + row, k, a.K), u = warp_dot(G + row, k, a.K);
        if (lane > 0) return;
        error[v] = e, along_k[v] = u;
        d_beta += e * u;
        if (a.write_v != Write::none) a.d_v.at(r)[walk.token(t) * a.V + v] += beta * u;
      });
      d_beta = walk.block_sum(d_beta);
      if (threadIdx.x == 0 && a.write_beta != Write::none) a.d_beta.at(r)[walk.token(t)] += d_beta;
      if (a.write_k != Write::none) {
        walk.columns([&](int j) {
          Real sum = 0;
          for (int v = 0; v < a.V; ++v) {
            const std::int64_t i = static_cast<std::int64_t>(v) * a.K + j;
            sum += G[i] * error[v] - S[i] * along_k[v];
          }
          a.d_k.at(r)[walk.token(t) * a.K + j] += beta * sum;
        });
      }
      __syncthreads();  // G has been read
      walk.rows([&](int v, std::int64_t row) {
        const Real change = beta * along_k[v];
        for (int j = lane; j < a.K; j += 32) G[row + j] -= change * k[j];
      });
    }
  }
  __syncthreads();
  walk.load_start(states);
  __syncthreads();
  take_back_reads(0, states);
  if (a.write_start == Write::none) return;
  Real* d_start = a.d_start.at(r) + blockIdx.x * size;
  walk.entries([&](std::int64_t i) { put(a.write_start, d_start + i, G[i]); });
}

/// A block for each of so many sequences and heads.
template <class Real>
void run_rescaled(const Exec& exec, const RescaledTensors<Real>& a, int sequences, int R, bool backward) {
  if (sequences == 0 || R == 0) return;
  const dim3 grid(static_cast<unsigned>(sequences), static_cast<unsigned>(R));
  if (backward) {
    rescaled_backward<Real><<<grid, kRescaledThreads, 0, stream_of(exec)>>>(a);
  } else {
    rescaled_forward<Real><<<grid, kRescaledThreads, 0, stream_of(exec)>>>(a);
  }
  check_launch("rescaled fast weight memory");
}

}  // namespace crosstalk::device

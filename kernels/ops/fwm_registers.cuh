// The fast weight memory with the state in registers (ops/fwm_rows.cuh): a block a sequence.
//
// The state is kept without its divisors, x = c S. The norm of a step then only moves c = max(c, |x|), and
//   x += beta (c v - x k) k^T
// so that a step waits for one barrier, and the products with the next key run beside the sum of squares.
// Where c grows large, and at checkpoints, x is divided by c.
//
// Backwards the gradient is G = gamma Y. With x, x' the states around a step, w = beta (c v - x k), x' = x +
// w k^T, divisor n and e = v - S k:
//   a = <Y, x'> / |x'|^2 where n > 1,   u = Y k - a x' k,   gamma' = gamma / n,   Y' = Y - a x' - beta u k^T
//   d_k = beta (gamma' (Y - a x')^T e - gamma' S^T u),   d_beta = gamma' e.u
// <Y, x'> and x' k follow from sums over x; only x is read, from where the segment's recomputation left it.
// Column sums of d_k wait in shared memory for several steps and are then added up together.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>

#include "kernels/ops/fwm_rows.cuh"

namespace crosstalk::device {

/// Copies without passing registers; wait_for_copies() and a barrier come before the first read.
template <int Bytes>
__device__ __forceinline__ void copy_async(void* shared, const void* global) {
  const auto target = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(target), "l"(global), "n"(Bytes) : "memory");
}
__device__ __forceinline__ void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

constexpr int kFwmChunk = 16;  // keys fetched at once by the forward pass; two chunks lie in shared memory

/// Dynamic shared memory of the forward pass.
template <class Real>
std::size_t fwm_forward_bytes(int P) {
  return 2 * kFwmChunk * (static_cast<std::size_t>(P + 1) * sizeof(Real) + sizeof(int));
}

template <class Real, int L, int E, int N, int Warps>
__global__ void __launch_bounds__(32 * Warps)
    fwm_forward_registers(const FwmReadForward<Real> a, int segment) {
  constexpr int kRing = 2 * kFwmChunk;
  extern __shared__ __align__(16) unsigned char raw[];
  __shared__ __align__(16) Real parts[2 * kFwmWarps];
  const int b = blockIdx.x, r = blockIdx.y, Q = a.q.dim(1), V = a.y.columns();
  FwmRows<Real, L, E, N, Warps> rows(a, V, parts);
  const int T = rows.T, P = rows.P;
  Real *keys = reinterpret_cast<Real*>(raw), *betas = keys + kRing * P;  // step t at t % kRing
  int* values = reinterpret_cast<int*>(betas + kRing);
  const std::int64_t size = static_cast<std::int64_t>(V) * P;
  Real* checkpoint =
      a.checkpoints.at(r) + static_cast<std::int64_t>(b) * ((T + segment - 1) / segment) * size;
  const std::int32_t* position = a.position.at(r) + static_cast<std::int64_t>(b) * Q;
  int next = next_position(position, Q, 0), boundary = 0;

  const auto fetch = [&](int t) {  // the chunk from t on
    constexpr int kPiece = 16 / sizeof(Real);
    const int count = min(T - t, kFwmChunk), threads = blockDim.x;
    for (int i = threadIdx.x * kPiece; i < count * P; i += threads * kPiece)
      copy_async<16>(keys + t % kRing * P + i, rows.key(t) + i);
    for (int i = threadIdx.x; i < count; i += threads) {
      copy_async<sizeof(Real)>(betas + t % kRing + i, rows.beta + t + i);
      values[t % kRing + i] = rows.value(t + i);
    }
  };
  Real x[N][E] = {}, dots[N] = {}, c = 1, now[E] = {}, following[E] = {};
  const auto answer = [&](int t) {
    for (int i = 0; i < Q; ++i) {
      if (position[i] != t) continue;
      Real q[E], y[N];
      rows.load(a.q.at(r) + (static_cast<std::int64_t>(b) * Q + i) * P, q);
      rows.products(x, q, y);
#pragma unroll
      for (int j = 0; j < N; ++j) {
        if (rows.leads() && rows.row(j) < V)
          a.y.at(r)[(static_cast<std::int64_t>(b) * Q + i) * V + rows.row(j)] = y[j] / c;
      }
    }
    next = next_position(position, Q, t + 1);
  };
  const auto step = [&](int t, Real(&key)[E], const Real(&key_after)[E]) {
    const Real beta = betas[t % kRing];
    const int value = values[t % kRing];
    if (t == next) answer(t);
    if (t % kFwmChunk == 0 && t > 0 && t + kFwmChunk < T) fetch(t + kFwmChunk);
    if (t == boundary || c > kFwmLargest) {
      const Real s = 1 / c;
      rows.scale(x, s);
#pragma unroll
      for (int i = 0; i < N; ++i) dots[i] *= s;
      c = 1;
      if (t == boundary) {
        rows.store(checkpoint, x);
        checkpoint += size;
        boundary += segment;
      }
    }
    Real w[N];
#pragma unroll
    for (int i = 0; i < N; ++i) w[i] = beta * ((rows.row(i) == value ? c : Real(0)) - dots[i]);
    const Real norm = rows.step(x, w, key, key_after, dots, [&] {
      if (t + 2 < T) rows.load(keys + (t + 2) % kRing * P, key);
      if (t % kFwmChunk == kFwmChunk - 4) wait_for_copies();  // the next chunk, behind this step's barrier
    });
    if (t > 0 && norm > c) c = norm;  // the first step is not rescaled
  };
  if (T > 0) fetch(0);
  wait_for_copies();
  __syncthreads();
  if (T > kFwmChunk) fetch(kFwmChunk);
  if (T > 0) rows.load(keys, now);
  if (T > 1) rows.load(keys + P, following);
  for (int t = 0; t < T; t += 2) {
    step(t, now, following);
    if (t + 1 < T) step(t + 1, following, now);
  }
  if (next == T) answer(T);
}

/// What the backward pass remembers of a step; c before it and n, its divisor.
template <class Real>
struct alignas(16) FwmStep {
  Real beta, square, c, n;                     // square: |k|^2
  Real inverse_c, inverse_n, project, unused;  // project: 1 / |x'|^2 where n > 1, else 0
};

/// How the backward pass lays out its dynamic shared memory; see there.
struct FwmBackwardShape {
  int segment, rows, kept;
  template <class Real>
  std::size_t bytes(int V, int P, int warps) const {
    const auto count = [](auto... n) { return (static_cast<std::size_t>(n) * ...); };
    return (count(kept, V, P) + count(2 * kFwmHalf + 1, warps, P) + count(segment, P) + count(segment, rows) +
            count(2 * kFwmHalf, rows)) *
               sizeof(Real) +
           count(segment) * (sizeof(FwmStep<Real>) + sizeof(int));
  }
};

template <class Real, int L, int E, int N, int Warps>
__global__ void __launch_bounds__(32 * Warps)
    fwm_backward_registers(const FwmReadBackward<Real> a, const FwmBackwardShape shape) {
  constexpr int kRing = 2 * kFwmHalf;
  extern __shared__ __align__(16) unsigned char raw[];
  __shared__ __align__(16) Real parts[2 * kFwmWarps];
  const int b = blockIdx.x, r = blockIdx.y, Q = a.q.dim(1), V = a.d_y.columns(), segment = shape.segment;
  FwmRows<Real, L, E, N, Warps> rows(a, V, parts);
  const int T = rows.T, P = rows.P, segments = (T + segment - 1) / segment;
  const int thread = threadIdx.x, threads = blockDim.x, block = rows.warps * P,
            groups = rows.warps * (32 / L);
  const std::int64_t size = static_cast<std::int64_t>(V) * P;
  Real* states = a.workspace.at(r) + static_cast<std::int64_t>(b) * (segment + 2) * size;
  Real* kept = reinterpret_cast<Real*>(raw);   // states of steps 1..kept of the segment
  Real* columns = kept + shape.kept * size;    // [kRing + 1][warps][P]: d_k; the last for queries
  Real* keys = columns + (kRing + 1) * block;  // [segment][P]
  auto* steps = reinterpret_cast<FwmStep<Real>*>(keys + segment * P);
  Real* products = reinterpret_cast<Real*>(steps + segment);  // [segment][rows]: x k
  Real* d_betas = products + segment * shape.rows;            // [kRing][groups]
  int* values = reinterpret_cast<int*>(d_betas + kRing * groups);
  const auto slot = [&](int i) { return i <= shape.kept ? kept + (i - 1) * size : states + i * size; };
  const std::int32_t* position = a.position.at(r) + static_cast<std::int64_t>(b) * Q;
  int previous = previous_position(position, Q, T);
  Real Y[N][E] = {}, d_k[E] = {}, gamma = 1;

  const auto leave_columns = [&](int t) {
    rows.column_sums(d_k, columns + (T - 1 - t) % kRing * block + rows.warp * P);
  };
  // Adds up and writes what steps last, last - 1, ..., last - count + 1 left.
  const auto flush = [&](int last, int count) {
    for (int m = thread; m < count * (P / 4) && a.write_k != Write::none; m += threads) {
      const int d = m / (P / 4), j = 4 * (m - d * (P / 4)), t = last - d;
      const Real* from = columns + (T - 1 - t) % kRing * block + j;
      Real total[4] = {};
      for (int w = 0; w < rows.warps; ++w) {
        const Four<Real> four = *reinterpret_cast<const Four<Real>*>(from + w * P);
#pragma unroll
        for (int i = 0; i < 4; ++i) total[i] += four.v[i];
      }
      Real* target = a.d_k.at(r) + (static_cast<std::int64_t>(b) * T + t) * P + j;
#pragma unroll
      for (int i = 0; i < 4; ++i) put(a.write_k, target + i, total[i]);
    }
    for (int d = rows.warp; d < count && a.write_beta != Write::none; d += rows.warps) {
      const int t = last - d;
      const Real* from = d_betas + (T - 1 - t) % kRing * groups;
      Real total = 0;
      for (int i = rows.lane; i < groups; i += 32) total += from[i];
      total = warp_sum(total);
      if (rows.lane == 0) put(a.write_beta, a.d_beta.at(r) + static_cast<std::int64_t>(b) * T + t, total);
    }
  };

  for (int s = segments - 1; s >= 0; --s) {
    const int begin = s * segment, length = min(T - begin, segment);
    const Real* checkpoint = a.checkpoints.at(r) + (static_cast<std::int64_t>(b) * segments + s) * size;
    Real x[N][E], k[E];
    rows.load(checkpoint, x);
    __syncthreads();  // the numbers of the segment before have been read
    for (int i = rows.warp; i < length; i += rows.warps) {
      const Real* key = rows.key(begin + i);
      Real square = 0;
      for (int j = rows.lane; j < P; j += 32) {
        const Real entry = key[j];
        keys[i * P + j] = entry;
        square += entry * entry;
      }
      square = warp_sum(square);
      if (rows.lane == 0) {
        steps[i].square = square;
        steps[i].beta = rows.beta[begin + i];
        values[i] = rows.value(begin + i);
      }
    }
    __syncthreads();
    Real last;  // c behind the segment
    {
      Real after[E] = {}, dots[N], c = 1;
      rows.load(keys, k);
      if (length > 1) rows.load(keys + P, after);
      rows.products(x, k, dots);
      const auto step = [&](int i, Real(&key)[E], const Real(&key_after)[E]) {
        if (c > kFwmLargest) {
          const Real scale = 1 / c;
          rows.scale(x, scale);
#pragma unroll
          for (int j = 0; j < N; ++j) dots[j] *= scale;
          c = 1;
        }
        const Real beta = steps[i].beta, before = c;
        const int value = values[i];
        if (i > 0) rows.store(slot(i), x);
        Real w[N];
#pragma unroll
        for (int j = 0; j < N; ++j) {
          if (rows.leads()) products[i * shape.rows + rows.row(j)] = dots[j];
          w[j] = beta * ((rows.row(j) == value ? c : Real(0)) - dots[j]);
        }
        const Real norm = rows.step(x, w, key, key_after, dots, [&] {
          if (i + 2 < length) rows.load(keys + (i + 2) * P, key);
        });
        if (begin + i > 0 && norm > c) c = norm;
        if (thread == 0) {
          steps[i].c = before;
          steps[i].n = c / before;
        }
      };
      for (int i = 0; i < length; i += 2) {
        step(i, k, after);
        if (i + 1 < length) step(i + 1, after, k);
      }
      last = c;
    }
    if (previous == begin + length) rows.store(states + length * size, x);
    rows.load(length > 1 ? slot(length - 1) : checkpoint, x);
    rows.load(keys + (length - 1) * P, k);
    __syncthreads();
    for (int i = thread; i < length; i += threads) {
      const Real c = steps[i].c, n = steps[i].n, norm = n * c;
      steps[i].inverse_c = 1 / c;
      steps[i].inverse_n = 1 / n;
      steps[i].project = n > 1 ? 1 / (norm * norm) : Real(0);
    }
    __syncthreads();
    for (int i = length - 1; i >= 0; --i) {
      const int t = begin + i;
      if (t + 1 == previous) {  // reads after step t: y = S_t q
        const Real c = i + 1 < length ? steps[i + 1].c : last;
        const Real* state = i + 1 < length ? slot(i + 1) : states + length * size;
        for (int query = 0; query < Q; ++query) {
          if (position[query] != t + 1) continue;
          const std::int64_t at = static_cast<std::int64_t>(b) * Q + query;
          Real q[E], d_q[E] = {};
          rows.load(a.q.at(r) + at * P, q);
#pragma unroll
          for (int j = 0; j < N; ++j) {
            if (rows.row(j) >= V) continue;
            const Real d_y = a.d_y.at(r)[at * V + rows.row(j)];
            const Real part = d_y / gamma, share = d_y / c;
            Real read[E];
            rows.load(state + static_cast<std::int64_t>(rows.row(j)) * P, read);
#pragma unroll
            for (int l = 0; l < E; ++l) {
              Y[j][l] += part * q[l];
              d_q[l] += share * read[l];
            }
          }
          if (a.write_q == Write::none) continue;
          Real* sums = columns + kRing * block;
          rows.column_sums(d_q, sums + rows.warp * P);
          __syncthreads();
          for (int j = thread; j < P; j += threads) {
            Real total = 0;
            for (int w = 0; w < rows.warps; ++w) total += sums[w * P + j];
            put(a.write_q, a.d_q.at(r) + at * P + j, total);
          }
          __syncthreads();
        }
        previous = previous_position(position, Q, t);
      }
      const FwmStep<Real> now = steps[i];
      const int value = values[i];
      Real Yk[N], along[2] = {}, dots[N], w[N];
#pragma unroll
      for (int j = 0; j < N; ++j) {
        dots[j] = products[i * shape.rows + rows.row(j)];
        w[j] = now.beta * ((rows.row(j) == value ? now.c : Real(0)) - dots[j]);
        Yk[j] = rows.share(Y[j], k);
        along[0] += rows.share(Y[j], x[j]);
        along[1] += w[j] * Yk[j];
      }
      if (i + 1 < length) leave_columns(t + 1);
      rows.row_sums(Yk);
      const Real projected = rows.block_sum(along[0] + along[1]) * now.project;
      gamma *= now.inverse_n;
      const Real to_Y = now.beta * gamma, to_x = to_Y * now.inverse_c;
      Real excess = 0, d_beta = 0;
#pragma unroll
      for (int l = 0; l < E; ++l) d_k[l] = 0;
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const Real error = (rows.row(j) == value ? Real(1) : Real(0)) - dots[j] * now.inverse_c;
        const Real u = Yk[j] - projected * (dots[j] + w[j] * now.square);
        const Real of_key = projected * w[j] + now.beta * u, of_Y = to_Y * error, of_x = to_x * u;
        d_beta += error * u;
        excess += of_Y * w[j];
#pragma unroll
        for (int l = 0; l < E; ++l) {
          const Real between = Y[j][l] - projected * x[j][l];
          d_k[l] += of_Y * between;
          d_k[l] -= of_x * x[j][l];
          Y[j][l] = between - of_key * k[l];
        }
      }
      if (rows.leads())
        d_betas[(T - 1 - t) % kRing * groups + rows.warp * (32 / L) + rows.lane / L] = gamma * d_beta;
      excess *= projected;
#pragma unroll
      for (int l = 0; l < E; ++l) d_k[l] -= excess * k[l];
      if (i > 0) {
        rows.load(i > 1 ? slot(i - 1) : checkpoint, x);
        rows.load(keys + (i - 1) * P, k);
      }
      if (gamma * kFwmLargest < 1) {
        rows.scale(Y, gamma);
        gamma = 1;
      }
      const int steps_before = T - 1 - t;
      if (steps_before > 0 && steps_before % kFwmHalf == 0) flush(t + kFwmHalf, kFwmHalf);
      if (i == 0) leave_columns(t);
    }
  }
  __syncthreads();
  if (T > 0) {
    const int first = (T - 1) / kFwmHalf * kFwmHalf;  // in the order of the walk
    flush(T - 1 - first, T - first);
  }
  for (int i = 0; i < Q && a.write_q == Write::overwrite; ++i) {  // a query that sees nothing
    if (position[i] > 0) continue;
    for (int j = thread; j < P; j += threads) a.d_q.at(r)[(static_cast<std::int64_t>(b) * Q + i) * P + j] = 0;
  }
}

template <class Real>
bool run_fwm_registers(cudaStream_t stream, const FwmReadForward<Real>& a) {
  const int P = a.k.dim(2), V = a.y.columns();
  return with_fwm_rows<Real>(V, P, [&](auto L, auto E, auto N, auto most) {
    constexpr int kLanes = decltype(L)::value, kColumns = decltype(E)::value, kRows = decltype(N)::value;
    const unsigned warps =
        blocks_for(V, FwmRows<Real, kLanes, kColumns, kRows, decltype(most)::value>::kRowsAWarp);
    const auto kernel = fwm_forward_registers<Real, kLanes, kColumns, kRows, decltype(most)::value>;
    const std::size_t bytes = fwm_forward_bytes<Real>(P);
    allow_shared_memory(kernel, bytes);
    kernel<<<dim3(static_cast<unsigned>(a.k.dim(0)), static_cast<unsigned>(a.k.R)), 32 * warps, bytes,
             stream>>>(a, kFwmSegment);
  });
}

template <class Real>
bool run_fwm_registers(cudaStream_t stream, const FwmReadBackward<Real>& a) {
  const int P = a.k.dim(2), V = a.d_y.columns(), segment = kFwmSegment;
  bool fits = false;
  with_fwm_rows<Real>(V, P, [&](auto L, auto E, auto N, auto most) {
    constexpr int kLanes = decltype(L)::value, kColumns = decltype(E)::value, kRows = decltype(N)::value;
    constexpr int kRowsAWarp = FwmRows<Real, kLanes, kColumns, kRows, decltype(most)::value>::kRowsAWarp;
    const int warps = (V + kRowsAWarp - 1) / kRowsAWarp;
    // Small blocks: two share a multiprocessor, and its shared memory.
    const std::size_t room = (shared_memory_limit() - 1024) / (decltype(most)::value > 4 ? 1 : 2);
    FwmBackwardShape shape = {segment, (warps * kRowsAWarp + 3) / 4 * 4, 0};
    const std::size_t least = shape.template bytes<Real>(V, P, warps);
    if (least > room) return;
    const std::size_t state = static_cast<std::size_t>(V) * static_cast<std::size_t>(P) * sizeof(Real);
    shape.kept = static_cast<int>(std::min((room - least) / state, static_cast<std::size_t>(segment - 1)));
    const std::size_t bytes = shape.template bytes<Real>(V, P, warps);
    const auto kernel = fwm_backward_registers<Real, kLanes, kColumns, kRows, decltype(most)::value>;
    allow_shared_memory(kernel, bytes);
    kernel<<<dim3(static_cast<unsigned>(a.k.dim(0)), static_cast<unsigned>(a.k.R)),
             static_cast<unsigned>(32 * warps), bytes, stream>>>(a, shape);
    fits = true;
  });
  return fits;
}

}  // namespace crosstalk::device

// The undecayed recurrence read chunk by chunk: C tokens in one step of the chain, for one query a sequence.
//
// Inside a chunk, with tokens i in the order of the scan, G_ij = k_i . k_j (j < i) and s_i = k_i . r before
// it,
//   c_i = s_i - sum_{j<i} G_ij erase_j c_j,  that is  c = M s,  M = (I + G erase)^-1  (unit lower
//   triangular).
// M does not depend on r: "builder" warps compute it ahead, a chunk each, by forward substitution; the
// "chain" warps, four columns of r a thread, do s (one sum over the team), c = M s and the rank-C update. The
// adjoint has the same form in forward time: h_i = k_i . rho_{t-1}, h = M (u + G (write d_a)), d_c = write
// d_a - erase h. (Chunked delta rule: Yang et al. 2024, arXiv 2406.06484, sec. 3.) Tokens from `seen` on are
// zero keys. Chunks start at multiples of C, so all sums depend on the shape and the position alone. P is a
// multiple of 4. Short code matters here: sums unrolled in registers were bound by fetching instructions.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <type_traits>

#include "kernels/base/cuda_launch.cuh"
#include "kernels/ops/recurrence.h"

namespace crosstalk::device {

constexpr int kLargestChunked = 512;

/// Tokens a chunk: the rows of a tensor core's product.
template <class Real>
constexpr int kChunk = sizeof(Real) == 4 ? 16 : 8;

/// Sums N (a power of two) numbers over the warp: lane l ends with the sums of numbers l N/32 .. (N >= 32),
/// or of number l / (32/N), in x[0 ..]. Fewer exchanges than N butterflies: each step halves what a lane
/// holds.
template <int N, int kOffset = 16, class Real>
__device__ __forceinline__ void scatter_sum(Real* x) {
  if constexpr (kOffset > 0 && N > 1) {
    const bool upper = threadIdx.x & kOffset;
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      const Real send = upper ? x[i] : x[i + N / 2], keep = upper ? x[i + N / 2] : x[i];
      x[i] = keep + __shfl_xor_sync(kFullWarp, send, kOffset);
    }
    scatter_sum<N / 2, kOffset / 2>(x);
  } else if constexpr (kOffset > 0) {
    x[0] += __shfl_xor_sync(kFullWarp, x[0], kOffset);
    scatter_sum<1, kOffset / 2>(x);
  }
}

// Barriers between some warps of a block (barrier 0 is __syncthreads).
__device__ __forceinline__ void barrier_wait(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// Four aligned numbers from global to shared memory in the background; 0 unless `valid`.
template <class Real>
__device__ __forceinline__ void copy4_async(Real* shared, const Real* global, bool valid) {
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
#pragma unroll
  for (int i = 0; i < static_cast<int>(4 * sizeof(Real)); i += 16) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(to + i),
                 "l"(reinterpret_cast<const char*>(global) + i), "r"(valid ? 16 : 0)
                 : "memory");
  }
}

/// Reads four aligned numbers; 0 unless `valid`.
template <class Real>
__device__ __forceinline__ void take4(const Real* p, bool valid, Real (&v)[4]) {
  Four<Real> four = {};
  if (valid) four = *reinterpret_cast<const Four<Real>*>(p);
#pragma unroll
  for (int i = 0; i < 4; ++i) v[i] = four.v[i];
}

template <class Real>
__device__ __forceinline__ void put4(Real* p, bool valid, const Real (&v)[4]) {
  Four<Real> four;
#pragma unroll
  for (int i = 0; i < 4; ++i) four.v[i] = v[i];
  if (valid) *reinterpret_cast<Four<Real>*>(p) = four;
}

// Products of 16 (float) or 8 (double) rows with each other on the tensor cores. Lane l holds entries 4 (l %
// 4) ..
// + 3 of a stretch of 16 of rows l/4 (and l/4 + 8): as both factors take the same entries, their order does
// not matter. Floats are split in two TF32 halves and three of the four products summed in float: what is
// left out is about 2^-22 of a product.
struct Product16 {
  float sums[2][4] = {};
  __device__ static void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
  __device__ static unsigned rounded(float x) {
    unsigned y;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
    return y;
  }
  __device__ void add(const float (&rows)[2][4]) {
#pragma unroll
    for (int k = 0; k < 4; k += 2) {
      unsigned high[4], low[4];  // rows l/4, l/4 + 8 at k, then at k + 1
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float x = rows[i % 2][k + i / 2];
        high[i] = rounded(x);
        low[i] = rounded(x - __uint_as_float(high[i]));
      }
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        multiply(sums[n], low, high[n], high[n + 2]);
        multiply(sums[n], high, low[n], low[n + 2]);
        multiply(sums[n], high, high[n], high[n + 2]);
      }
    }
  }
  /// Row i of the products to gram + i * stride, left of the diagonal.
  __device__ void store(float* gram, int stride, int lane) const {
    float* at = gram + lane / 4 * stride + lane % 4 * 2;
#pragma unroll
    for (int x = 0; x < 2; ++x) {
      at[x] = sums[0][x];
      at[8 * stride + x] = sums[0][2 + x];
      at[8 * stride + 8 + x] = sums[1][2 + x];
    }
  }
};

struct Product8 {
  double sums[2] = {};
  __device__ void add(const double (&rows)[1][4]) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%2}, {%0, %1};"
          : "+d"(sums[0]), "+d"(sums[1])
          : "d"(rows[0][k]));
    }
  }
  __device__ void store(double* gram, int stride, int lane) const {
    gram[lane / 4 * stride + lane % 4 * 2] = sums[0];
    gram[lane / 4 * stride + lane % 4 * 2 + 1] = sums[1];
  }
};

/// W chain warps (128 columns each) and N builder warps over one sequence.
template <class Real, int W, int N>
struct Chunked {
  static constexpr int C = kChunk<Real>, kThreads = 32 * (W + N), kColumns = 128 * W;
  static constexpr int kGroup = 32 / C;  // lanes a token
  static constexpr int kStride = C + 4;

  struct Shared {
    alignas(16) Real inverse[N][C * kStride];  // column C: M G (write d_a)
    alignas(16) Real gram[N][C * kStride];
    alignas(16) Real sums[2][W][2 * C];
  };

  const Real* k;
  const Real *write, *erase, *d_a;  // write: null where 1
  int P, seen, chunks;

  __device__ static int filled(int builder) { return 1 + builder; }
  __device__ static int emptied(int builder) { return 1 + N + builder; }
  static constexpr int kChainBarrier = 1 + 2 * N;

  /// M of every N-th chunk of the scan's order, into shared memory. kBackward: in forward time, with column
  /// C.
  template <bool kBackward>
  __device__ void build(Shared& shared, int builder) const {
    const int lane = threadIdx.x % 32;
    Real *gram = shared.gram[builder], *inverse = shared.inverse[builder];
    for (int chunk = builder; chunk < chunks; chunk += N) {
      const int first = (kBackward ? chunk : chunks - 1 - chunk) * C;
      if (chunk + N < chunks) {
        const int next = (kBackward ? chunk + N : chunks - 1 - chunk - N) * C;
        const char* from = reinterpret_cast<const char*>(k + static_cast<std::int64_t>(next) * P);
        const int bytes = min(C, seen - next) * P * static_cast<int>(sizeof(Real));
#pragma unroll 1
        for (int i = lane * 128; i < bytes; i += 32 * 128)
          asm volatile("prefetch.global.L2 [%0];" ::"l"(from + i));
      }
      const int token = first + (kBackward ? lane : C - 1 - lane);
      const bool valid = lane < C && token < seen;
      const Real erase_i = valid ? erase[token] : Real(0);
      const Real given = kBackward && valid ? (write ? write[token] * d_a[token] : d_a[token]) : Real(0);
      std::conditional_t<C == 16, Product16, Product8> product;
      for (int p0 = 0; p0 < P; p0 += 64) {
        Real rows[4][C / 8][4];
#pragma unroll
        for (int part = 0; part < 4; ++part) {
          const int p = p0 + 16 * part + lane % 4 * 4;
#pragma unroll
          for (int i = 0; i < C / 8; ++i) {
            const int row = lane / 4 + 8 * i, t = first + (kBackward ? row : C - 1 - row);
            take4(k + static_cast<std::int64_t>(t) * P + p, t < seen && p < P, rows[part][i]);
          }
        }
#pragma unroll
        for (int part = 0; part < 4; ++part) product.add(rows[part]);
      }
      product.store(gram, kStride, lane);
      __syncwarp();
      // Column l of M in lane l; lane C: M G (write d_a).
      Real column[C], sums[C];
      const Real mine = lane == C ? Real(1) : Real(0);
#pragma unroll
      for (int i = 0; i < C; ++i) {
        Real x = i == lane ? Real(1) : Real(0);
#pragma unroll
        for (int j = 0; j < i; j += 4) {
          Real four[4];
          take4(gram + i * kStride + j, true, four);
#pragma unroll
          for (int n = 0; n < 4; ++n) {
            if (j + n < i) x -= four[n] * column[j + n];
          }
        }
        sums[i] = x;
        column[i] = __shfl_sync(kFullWarp, erase_i, i) * x;
        if constexpr (kBackward) column[i] -= mine * __shfl_sync(kFullWarp, given, i);
      }
      if (chunk >= N) barrier_wait(emptied(builder), 32 * (W + 1));
      if (lane <= C) {
#pragma unroll
        for (int i = 0; i < C; ++i) inverse[i * kStride + lane] = sums[i];
      }
      __syncwarp();
      barrier_arrive(filled(builder), 32 * (W + 1));
    }
  }

  /// This lane's part of row lane / kGroup of M, from shared memory, and of column C.
  struct Row {
    static constexpr int K = C / kGroup;
    Real entry[K], last;
    __device__ void take(const Real* inverse, int lane) {
      const Real* row = inverse + lane / kGroup * kStride;
#pragma unroll
      for (int j = 0; j < K; ++j) entry[j] = row[lane % kGroup * K + j];
      last = row[C];
    }
    /// Entry lane / kGroup of M s, s_i in the lanes of group i.
    __device__ Real times(Real s, int lane) const {
      Real sum = 0;
#pragma unroll
      for (int j = 0; j < K; ++j) {
        sum += entry[j] * __shfl_sync(kFullWarp, s, (lane % kGroup * K + j) * kGroup);
      }
#pragma unroll
      for (int offset = kGroup / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(kFullWarp, sum, offset);
      return sum;
    }
  };

  /// Waits for the inverse of a chunk, takes this lane's part and lets the builder go on.
  __device__ void take(Shared& shared, int chunk, Row& row) const {
    const int builder = chunk % N;
    barrier_wait(filled(builder), 32 * (W + 1));
    row.take(shared.inverse[builder], threadIdx.x % 32);
    __syncwarp();
    if (chunk + N < chunks) barrier_arrive(emptied(builder), 32 * (W + 1));
  }

  /// Sum over the chain warps of x, one a lane.
  template <int kValues>
  __device__ Real total(Shared& shared, int chunk, Real x, int index) const {
    if constexpr (W == 1) {
      return __shfl_sync(kFullWarp, x, index * (32 / kValues));
    } else {
      const int lane = threadIdx.x % 32;
      Real(*sums)[2 * C] = shared.sums[chunk % 2];  // two buffers in turn: one barrier a chunk
      if (lane % (32 / kValues) == 0) sums[threadIdx.x / 32][lane / (32 / kValues)] = x;
      barrier_wait(kChainBarrier, 32 * W);
      Real sum = 0;
#pragma unroll
      for (int w = 0; w < W; ++w) sum += sums[w][index];
      return sum;
    }
  }

  /// Starts copying this thread's columns of a chunk of `rows` [T,P] to `stage` [C][kColumns].
  __device__ void fetch(Real* stage, const Real* rows, int first) const {
    const int p = 4 * static_cast<int>(threadIdx.x);
    const Real* from = rows + static_cast<std::int64_t>(first) * P + p;
    const int count = p < P ? seen - first : 0;
#pragma unroll
    for (int i = 0; i < C; ++i, from += P) copy4_async(stage + i * kColumns + p, from, i < count);
  }
};

__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// All but the latest group have arrived (each thread reads only what it copied itself: no barrier).
__device__ __forceinline__ void wait_copies() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }

template <class Real, int W, int N>
__global__ void __launch_bounds__(32 * (W + N)) chunked_forward(const RecurrentReadForward<Real> a) {
  using Team = Chunked<Real, W, N>;
  constexpr int C = Team::C;
  __shared__ typename Team::Shared shared;
  extern __shared__ __align__(16) unsigned char dynamic[];
  const int b = blockIdx.x, r = blockIdx.y, T = a.k.dim(1), P = a.k.dim(2);
  const std::int64_t sequence = static_cast<std::int64_t>(b) * T;
  const int seen = clamped(a.position.at(r)[b], T);
  Real* out = a.a.at(r) + sequence;
  const Real* write = a.write ? a.write.at(r) + sequence : nullptr;
  const Real* k = a.k.at(r) + sequence * P;
  const Team team{k, write, a.erase.at(r) + sequence, nullptr, P, seen, (seen + C - 1) / C};
  const int warp = __shfl_sync(kFullWarp, static_cast<int>(threadIdx.x) / 32, 0);  // known to be uniform
  if (warp >= W) {
    for (int t = seen + static_cast<int>(threadIdx.x) - 32 * W; t < T; t += 32 * N) out[t] = 0;
    team.template build<false>(shared, warp - W);
    return;
  }
  const int lane = threadIdx.x % 32, p = 4 * static_cast<int>(threadIdx.x), i_lane = lane / Team::kGroup;
  Real* stages = reinterpret_cast<Real*>(dynamic);
  Real* history = a.history ? a.history.at(r) + sequence * P : nullptr;
  Real* trail = a.trail ? a.trail.at(r) + static_cast<std::int64_t>(b) * a.trail.columns() : nullptr;
  const int limit = history && p < P ? seen : 0;
  Real state[4];
  take4(a.q.at(r) + static_cast<std::int64_t>(b) * P + p, p < P, state);
  if (team.chunks > 0) team.fetch(stages, k, (team.chunks - 1) * C);
  commit_copies();
  for (int chunk = 0; chunk < team.chunks; ++chunk) {
    const int first = (team.chunks - 1 - chunk) * C, token = first + C - 1 - i_lane;
    if (chunk + 1 < team.chunks) team.fetch(stages + (chunk + 1) % 2 * C * Team::kColumns, k, first - C);
    commit_copies();
    const bool valid = token < seen;
    const Real write_i = valid && write ? write[token] : Real(1),
               erase_i = valid ? team.erase[token] : Real(0);
    wait_copies();
    const Real* stage = stages + chunk % 2 * C * Team::kColumns + p;
    Real keys[C][4], sums[C];
#pragma unroll
    for (int i = 0; i < C; ++i) {
      take4(stage + (C - 1 - i) * Team::kColumns, true, keys[i]);
      sums[i] = 0;
#pragma unroll
      for (int x = 0; x < 4; ++x) sums[i] += keys[i][x] * state[x];
    }
    __syncwarp();
    scatter_sum<C>(sums);
    typename Team::Row row;
    team.take(shared, chunk, row);
    const Real c = row.times(team.template total<C>(shared, chunk, sums[0], i_lane), lane);
    if (valid && threadIdx.x < 32 && lane % Team::kGroup == 0) {
      out[token] = write_i * c;
      if (trail) trail[P + token] = c;
    }
    const Real step = erase_i * c;
    Real* kept = history + static_cast<std::int64_t>(first + C - 1) * P + p;
#pragma unroll
    for (int i = 0; i < C; ++i) {
      const int t = first + C - 1 - i;
      put4(kept, t < limit, state);
      kept -= P;
      const Real step_i = __shfl_sync(kFullWarp, step, i * Team::kGroup);
#pragma unroll
      for (int x = 0; x < 4; ++x) state[x] -= step_i * keys[i][x];
    }
  }
  if (trail) put4(trail + p, p < P, state);
}

/// kTrail: r_t is made again from the trail; else it is read from the history.
template <class Real, int W, int N, bool kTrail>
__global__ void __launch_bounds__(32 * (W + N)) chunked_backward(const RecurrentReadBackward<Real> a) {
  using Team = Chunked<Real, W, N>;
  constexpr int C = Team::C;
  __shared__ typename Team::Shared shared;
  extern __shared__ __align__(16) unsigned char dynamic[];
  const int b = blockIdx.x, r = blockIdx.y, T = a.k.dim(1), P = a.k.dim(2);
  const std::int64_t sequence = static_cast<std::int64_t>(b) * T;
  const int seen = clamped(a.position.at(r)[b], T);
  const Real* write = a.write ? a.write.at(r) + sequence : nullptr;
  const Real* k = a.k.at(r) + sequence * P;
  const Real* history = kTrail ? nullptr : a.history.at(r) + sequence * P;
  const Real* trail = kTrail ? a.trail.at(r) + static_cast<std::int64_t>(b) * a.trail.columns() : nullptr;
  Real* d_k = a.write_k == Write::none ? nullptr : a.d_k.at(r) + sequence * P;
  Real* d_write = a.write_write == Write::none ? nullptr : a.d_write.at(r) + sequence;
  Real* d_erase = a.write_erase == Write::none ? nullptr : a.d_erase.at(r) + sequence;
  const Team team{k, write, a.erase.at(r) + sequence, a.d_a.at(r) + sequence, P, seen, (seen + C - 1) / C};
  const int warp = __shfl_sync(kFullWarp, static_cast<int>(threadIdx.x) / 32, 0);  // known to be uniform
  if (warp >= W) {
    const int thread = static_cast<int>(threadIdx.x) - 32 * W;
    if (d_k && a.write_k == Write::overwrite) {  // tokens that the query does not see
      for (std::int64_t i = static_cast<std::int64_t>(seen) * P + thread;
           i < static_cast<std::int64_t>(T) * P; i += 32 * N) {
        d_k[i] = 0;
      }
    }
    for (int t = seen + thread; t < T; t += 32 * N) {
      if (d_write && a.write_write == Write::overwrite) d_write[t] = 0;
      if (d_erase && a.write_erase == Write::overwrite) d_erase[t] = 0;
    }
    team.template build<true>(shared, warp - W);
    return;
  }
  const int lane = threadIdx.x % 32, p = 4 * static_cast<int>(threadIdx.x), i_lane = lane / Team::kGroup;
  constexpr int kStage = C * Team::kColumns, kTensors = kTrail ? 1 : 2;
  Real* stages = reinterpret_cast<Real*>(dynamic);  // [2][keys, states][C][kColumns]
  const auto fetch = [&](int chunk) {
    Real* stage = stages + chunk % 2 * kTensors * kStage;
    if (chunk < team.chunks) {
      team.fetch(stage, k, chunk * C);
      if (!kTrail) team.fetch(stage + kStage, history, chunk * C);
    }
    commit_copies();
  };
  const int limit = d_k && p < P ? seen : 0;
  Real rho[4] = {}, now[4] = {};  // now: r_t, for kTrail
  if (kTrail) take4(trail + p, p < P, now);
  fetch(0);
  for (int chunk = 0; chunk < team.chunks; ++chunk) {
    const int first = chunk * C, token = first + i_lane;
    fetch(chunk + 1);
    const bool valid = token < seen, add = d_k && a.write_k == Write::add;
    const Real write_i = valid && write ? write[token] : Real(1),
               erase_i = valid ? team.erase[token] : Real(0), d_a = valid ? team.d_a[token] : Real(0),
               kept_c = kTrail && valid ? trail[P + token] : Real(0);
    Real target[C][4] = {};
    if (add) {
#pragma unroll
      for (int i = 0; i < C; ++i) {
        take4(d_k + static_cast<std::int64_t>(first + i) * P + p, first + i < seen && p < P, target[i]);
      }
    }
    wait_copies();
    const Real *stage = stages + chunk % 2 * kTensors * kStage + p, *states = stage + kStage;
    constexpr int kSums = kTensors * C;
    Real sums[kSums];
#pragma unroll
    for (int i = 0; i < C; ++i) {
      Real key[4], at[4];
      take4(stage + i * Team::kColumns, true, key);
      sums[i] = 0;
#pragma unroll
      for (int x = 0; x < 4; ++x) sums[i] += key[x] * rho[x];
      if constexpr (!kTrail) {
        take4(states + i * Team::kColumns, true, at);
        sums[C + i] = 0;
#pragma unroll
        for (int x = 0; x < 4; ++x) sums[C + i] += key[x] * at[x];
      }
    }
    __syncwarp();
    scatter_sum<kSums>(sums);
    typename Team::Row row;
    team.take(shared, chunk, row);
    const Real u = team.template total<kSums>(shared, chunk, sums[0], i_lane);
    Real c;
    if constexpr (kTrail) {
      c = kept_c;
    } else if constexpr (W == 1) {
      c = __shfl_sync(kFullWarp, sums[0], (C + i_lane) * (16 / C));
    } else {
      c = 0;
#pragma unroll
      for (int w = 0; w < W; ++w) c += shared.sums[chunk % 2][w][C + i_lane];
    }
    const Real key_rho = row.times(u, lane) + row.last, d_c = write_i * d_a - erase_i * key_rho;
    if (valid && threadIdx.x < 32 && lane % Team::kGroup == 0) {
      if (d_write) put(a.write_write, d_write + token, c * d_a);
      if (d_erase) put(a.write_erase, d_erase + token, -c * key_rho);
    }
    const Real step = erase_i * c;
    Real* put_at = d_k + static_cast<std::int64_t>(first) * P + p;
#pragma unroll
    for (int i = 0; i < C; ++i) {
      const Real d_c_i = __shfl_sync(kFullWarp, d_c, i * Team::kGroup),
                 step_i = __shfl_sync(kFullWarp, step, i * Team::kGroup);
      Real key[4], at[4];  // read again: registers are scarcer than shared memory's time
      take4(stage + i * Team::kColumns, true, key);
      if constexpr (kTrail) {
#pragma unroll
        for (int x = 0; x < 4; ++x) at[x] = now[x] += step_i * key[x];
      } else {
        take4(states + i * Team::kColumns, true, at);
      }
#pragma unroll
      for (int x = 0; x < 4; ++x) {
        target[i][x] += d_c_i * at[x] - step_i * rho[x];
        rho[x] += d_c_i * key[x];
      }
      put4(put_at, first + i < limit, target[i]);
      put_at += P;
    }
  }
  if (a.write_q == Write::none) return;
#pragma unroll
  for (int x = 0; x < 4; ++x) {
    if (p + x < P) put(a.write_q, a.d_q.at(r) + static_cast<std::int64_t>(b) * P + p + x, rho[x]);
  }
}

/// Launches f(W, N, bytes of shared memory) for one query over sequences of keys of P <= kLargestChunked
/// numbers.
template <class Real, class F>
void with_chunks(int P, int tensors, F&& f) {
  const auto call = [&](auto warps) {
    constexpr int W = decltype(warps)::value;
    f(warps, std::integral_constant<int, 4>(), sizeof(Real) * 2 * tensors * kChunk<Real> * 128 * W);
  };
  if (P <= 128) {
    call(std::integral_constant<int, 1>());
  } else if (P <= 256) {
    call(std::integral_constant<int, 2>());
  } else {
    call(std::integral_constant<int, 4>());
  }
}

}  // namespace crosstalk::device

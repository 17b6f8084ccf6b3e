// The weights of a query chunk by chunk: C writes in one step of the chain; keys erase themselves, no decay.
//
// Inside a chunk, tokens i in the order of the scan, with G_ij = k_i . k_j (j < i), s_i = k_i . r before it,
//   c_i = s_i - sum_{j<i} G_ij erase_j c_j
//   c   = M s,  M = (I + G erase)^-1 (unit lower triangular).
// M does not depend on r: "builder" warps, a chunk each, bring its keys into a slot of shared memory and
// compute M by forward substitution; the "chain" warps, four columns of r a thread, do s (one sum over the
// team), c = M s and the rank-C update, and give the slot back. The adjoint has the same form in forward
// time, u_i = k_i . rho before the chunk and h_i = k_i . rho_{i-1}:
//   h   = M (u + G (write d_a))
//   d_c = write d_a - erase h
// (Chunked delta rule: Yang et al. 2024, arXiv 2406.06484, sec. 3.) Tokens from `seen` on are zero keys.
// Chunks start at multiples of C, so all sums depend on the shape and the position alone. P is a multiple of
// 4. Short code matters here: sums unrolled in registers were bound by fetching instructions. So does what a
// block holds of registers and shared memory: several blocks a multiprocessor hide each other's chains.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <type_traits>

#include "kernels/recurrence/chunk_parts.cuh"
#include "kernels/recurrence/read_weights_fields.h"

namespace crosstalk::device {

constexpr int kLargestChunked = 512;

/// Shared memory of W chain warps (128 columns each) and N builder warps.
template <class Real, int W, int N>
struct ChunkMemory {
  static constexpr int C = kChunk<Real>, kColumns = 128 * W, kStride = C + 4;
  static constexpr int kRow =
      kColumns + 64 / static_cast<int>(sizeof(Real));  // other banks than its neighbour
  struct Slot {
    alignas(16) Real keys[C][kRow];        // in the order of the scan
    alignas(16) Real matrix[C * kStride];  // G, then M; column C: M G (write d_a)
  } slot[N];
  alignas(16) Real sums[2][W][C];
};

/// One sequence.
template <class Real, int W, int N>
struct Chunked {
  using Memory = ChunkMemory<Real, W, N>;
  static constexpr int C = Memory::C, kStride = Memory::kStride;
  static constexpr int kGroup = 32 / C;  // lanes a token

  const Real *k, *write, *erase, *d_a;  // write: null where 1
  int P, seen, chunks;

  using Barriers = ChunkBarriers<W, N>;
  /// The chain needs a slot no longer. The builder waits for slots that it fills again.
  __device__ void give_back(int chunk) const {
    if (chunk + N < chunks) Barriers::arrive_emptied(chunk % N);
  }

  template <bool kBackward>
  __device__ int first_token(int chunk) const {
    return (kBackward ? chunk : chunks - 1 - chunk) * C;
  }

  /// Asks for the keys of a chunk, a turn ahead.
  __device__ void prefetch(int first) const {
    const char* from = reinterpret_cast<const char*>(k + std::int64_t{first} * P);
    const int bytes = first < 0 ? 0 : min(C, seen - first) * P * static_cast<int>(sizeof(Real));
    CT_ROLLED(int i = CT_LANE * 128; i < bytes; i += 32 * 128)
      asm volatile("prefetch.global.L2 [%0];" ::"l"(from + i));
  }
  /// Brings the keys of C tokens into a slot, in the order of the scan; 0 where t >= seen.
  template <bool kReversed>
  __device__ void bring(typename Memory::Slot& slot, int first) const {
    for (int p = CT_LANE * 4; p < P; p += 128) {
      CT_UNROLL(int i0 = 0; i0 < C; i0 += 8) {  // rows whose loads are under way
        Real rows[8][4];
        CT_FOR(u, 8) {
          const int t = first + (kReversed ? C - 1 - i0 - u : i0 + u);
          take4(k + std::int64_t{t} * P + p, t < seen, rows[u]);
        }
        CT_FOR(u, 8) put4(slot.keys[i0 + u] + p, true, rows[u]);
      }
    }
  }

  /// Keys and M of every N-th chunk of the scan's order. kBackward: in forward time, with column C.
  template <bool kBackward>
  __device__ void build(Memory& memory, int builder) const {
    const int lane = threadIdx.x % 32;
    auto& slot = memory.slot[builder];
    Real* matrix = slot.matrix;
    prefetch(first_token<kBackward>(builder));
    for (int chunk = builder; chunk < chunks; chunk += N) {
      const int first = first_token<kBackward>(chunk), token = first + (kBackward ? lane : C - 1 - lane);
      const bool valid = lane < C && token < seen;
      const Real erase_i = valid ? erase[token] : Real(0);
      const Real given = kBackward && valid ? (write ? write[token] * d_a[token] : d_a[token]) : Real(0);
      if (chunk >= N) Barriers::wait_emptied(builder);
      bring<!kBackward>(slot, first);
      prefetch(first_token<kBackward>(min(chunk + N, chunks - 1)));
      __syncwarp();
      std::conditional_t<C == 16, Product16, Product8> product;
      for (int p0 = 0; p0 < P; p0 += 64) {
        Real rows[4][C / 8][4];
        CT_FOR(part, 4) {
          const int p = p0 + 16 * part + lane % 4 * 4;
          CT_FOR(i, C / 8) take4(slot.keys[lane / 4 + 8 * i] + p, p < P, rows[part][i]);
        }
        CT_FOR(part, 4) product.add(rows[part]);
      }
      product.store(matrix, kStride, lane);
      __syncwarp();
      // Column l of M in lane l; lane C: M G (write d_a).
      Real column[C], sums[C];
      const Real mine = lane == C ? Real(1) : Real(0);
      CT_FOR(i, C) {
        Real x = i == lane ? Real(1) : Real(0);
        CT_UNROLL(int j = 0; j < i; j += 4) {
          Real four[4];
          take4(matrix + i * kStride + j, true, four);
          CT_FOR(n, 4)
            if (j + n < i) x -= four[n] * column[j + n];
        }
        sums[i] = x;
        column[i] = __shfl_sync(kFullWarp, erase_i, i) * x;
        if constexpr (kBackward) column[i] -= mine * __shfl_sync(kFullWarp, given, i);
      }
      __syncwarp();
      if (lane <= C)
        CT_FOR(i, C) matrix[i * kStride + lane] = sums[i];
      __syncwarp();
      Barriers::arrive_filled(builder);
    }
  }

  /// This lane's part of row lane / kGroup of M, from shared memory, and of column C.
  struct Row {
    static constexpr int K = C / kGroup;
    Real entry[K], last;
    __device__ Row(const Real* matrix, int lane) {
      const Real* row = matrix + lane / kGroup * kStride;
      CT_FOR(j, K) entry[j] = row[lane % kGroup * K + j];
      last = row[C];
    }
    /// Entry lane / kGroup of M s, s_i in the lanes of group i.
    __device__ Real times(Real s, int lane) const {
      Real sum = 0;
      CT_FOR(j, K) sum += entry[j] * __shfl_sync(kFullWarp, s, (lane % kGroup * K + j) * kGroup);
      CT_UNROLL(int offset = kGroup / 2; offset > 0; offset /= 2)
        sum += __shfl_xor_sync(kFullWarp, sum, offset);
      return sum;
    }
  };

  /// Sum over the chain warps of x, one a lane: kGroup lanes a token.
  __device__ Real total(Memory& memory, int chunk, Real x, int index) const {
    if constexpr (W == 1) {
      return __shfl_sync(kFullWarp, x, index * kGroup);
    } else {
      const int lane = threadIdx.x % 32;
      Real(*sums)[C] = memory.sums[chunk % 2];  // two buffers in turn: one barrier a chunk
      if (lane % kGroup == 0) sums[threadIdx.x / 32][lane / kGroup] = x;
      Barriers::wait_chain();
      Real sum = 0;
      CT_FOR(w, W) sum += sums[w][index];
      return sum;
    }
  }

  /// This warp's part of k_i . x for the token i of each group of lanes; `stage`: this thread's columns of the first key.
  __device__ Real along_keys(const Real* stage, const Real (&x)[4]) const {
    Real sums[C];
    CT_FOR(i, C) {
      Real key[4];
      take4(stage + i * Memory::kRow, 4 * CT_THREAD < P, key);
      sums[i] = 0;
      CT_FOR(e, 4) sums[i] += key[e] * x[e];
    }
    __syncwarp();
    scatter_sum<C>(sums);
    return sums[0];
  }

  /// The numbers of its token that a lane of the chain reads, a chunk ahead.
  struct Token {
    int t;
    bool valid;
    Real write = 1, erase = 0, d_a = 0, c = 0;
  };
  template <bool kBackward>
  __device__ Token token(int chunk, const Real* kept_c) const {
    const int i = CT_LANE / kGroup;
    Token token;
    token.t = first_token<kBackward>(chunk) + (kBackward ? i : C - 1 - i);
    token.valid = chunk < chunks && token.t < seen;
    if (!token.valid) return token;
    if (write) token.write = write[token.t];
    token.erase = erase[token.t];
    if (kBackward) token.d_a = d_a[token.t];
    if (kept_c) token.c = kept_c[token.t];
    return token;
  }
};

/// The gain of the erase.
template <class Real>
CT_HD const In<Real>& chunked_erase(const ReadWeights<Real>& op) {
  return op.erase == Erase::delta ? op.write_gain : op.erase_gain;
}

/// Blocks that a multiprocessor is to hold, as far as its shared memory goes.
template <class Real, int W>
constexpr int kChunkBlocks = sizeof(Real) == 8 ? 1
                             : W == 1          ? 6
                                               : 3;

template <class Real, int W, int N>
__global__ void __launch_bounds__(32 * (W + N), kChunkBlocks<Real, W>)
    chunked_forward(const __grid_constant__ ReadWeights<Real> a) {
  using Team = Chunked<Real, W, N>;
  using Memory = typename Team::Memory;
  constexpr int C = Team::C;
  extern __shared__ __align__(16) unsigned char dynamic[];
  Memory& memory = *reinterpret_cast<Memory*>(dynamic);
  const int b = blockIdx.x, r = blockIdx.y, T = a.M(), P = a.K();
  const std::int64_t sequence = std::int64_t{b} * T;
  const int seen = tokens_seen(a, r, b, 0) * a.writes;
  Real* out = a.a.value.at(r) + sequence;
  const Team team{a.k.value.at(r) + sequence * P,
                  a.write_gain.value ? a.write_gain.value.at(r) + sequence : nullptr,
                  chunked_erase(a).value.at(r) + sequence,
                  nullptr,
                  P,
                  seen,
                  (seen + C - 1) / C};
  const int warp = __shfl_sync(kFullWarp, CT_WARP, 0);  // known to be uniform
  if (warp >= W) {
    for (int t = seen + CT_THREAD - 32 * W; t < T; t += 32 * N) out[t] = 0;
    team.template build<false>(memory, warp - W);
    return;
  }
  const int lane = threadIdx.x % 32, p = 4 * CT_THREAD, i_lane = lane / Team::kGroup;
  Real* saved = a.kept ? a.kept.value.at(r) + b * a.kept_numbers() : nullptr;
  Real *history = a.by_trail() ? nullptr : saved, *trail = a.by_trail() ? saved : nullptr;
  const int limit = history && p < P ? seen : 0;
  Real state[4];
  take4(a.q.value.at(r) + std::int64_t{b} * P + p, p < P, state);
  auto next = team.template token<false>(0, nullptr);
  for (int chunk = 0; chunk < team.chunks; ++chunk) {
    const auto now = next;
    next = team.template token<false>(chunk + 1, nullptr);
    const auto& slot = memory.slot[chunk % N];
    const Real* stage = slot.keys[0] + p;
    Team::Barriers::wait_filled(chunk % N);
    const Real along = team.along_keys(stage, state);
    const typename Team::Row row(slot.matrix, lane);
    const Real c = row.times(team.total(memory, chunk, along, i_lane), lane);
    if (now.valid && threadIdx.x < 32 && lane % Team::kGroup == 0) {
      out[now.t] = now.write * c;
      if (trail) trail[P + now.t] = c;
    }
    const Real step = now.erase * c;
    int t = team.template first_token<false>(chunk) + C - 1;
    Real* kept = history + std::int64_t{t} * P + p;
#pragma unroll 4
    for (int i = 0; i < C; ++i, --t, kept -= P) {
      if (history) put4(kept, t < limit, state);
      const Real step_i = __shfl_sync(kFullWarp, step, i * Team::kGroup);
      Real key[4];  // read again: registers are scarcer than shared memory's time
      take4(stage + i * Memory::kRow, p < P, key);
      CT_FOR(x, 4) state[x] -= step_i * key[x];
    }
    team.give_back(chunk);
  }
  if (trail) put4(trail + p, p < P, state);
}

/// r_t is made again from the trail.
template <class Real, int W, int N>
__global__ void __launch_bounds__(32 * (W + N), kChunkBlocks<Real, W>)
    chunked_backward(const __grid_constant__ ReadWeights<Real> a) {
  using Team = Chunked<Real, W, N>;
  using Memory = typename Team::Memory;
  constexpr int C = Team::C;
  extern __shared__ __align__(16) unsigned char dynamic[];
  Memory& memory = *reinterpret_cast<Memory*>(dynamic);
  const int b = blockIdx.x, r = blockIdx.y, T = a.M(), P = a.K();
  const std::int64_t sequence = std::int64_t{b} * T;
  const int seen = tokens_seen(a, r, b, 0) * a.writes;
  const Real* trail = a.kept.value.at(r) + b * a.kept_numbers();
  Real* d_k = a.k.write == Write::none ? nullptr : a.k.gradient.at(r) + sequence * P;
  const bool one_gain = a.erase == Erase::delta;  // writes and erases
  const auto gradient_of = [&](const In<Real>& gain) {
    return gain.wanted() ? gain.gradient.at(r) + sequence : nullptr;
  };
  Real *d_write = gradient_of(a.write_gain), *d_erase = one_gain ? nullptr : gradient_of(a.erase_gain);
  const Team team{a.k.value.at(r) + sequence * P,
                  a.write_gain.value ? a.write_gain.value.at(r) + sequence : nullptr,
                  chunked_erase(a).value.at(r) + sequence,
                  a.a.gradient.at(r) + sequence,
                  P,
                  seen,
                  (seen + C - 1) / C};
  const int warp = __shfl_sync(kFullWarp, CT_WARP, 0);  // known to be uniform
  if (warp >= W) {
    const int thread = CT_THREAD - 32 * W;
    // Tokens that the query does not see.
    if (d_k && a.k.write == Write::overwrite)
      for (std::int64_t i = std::int64_t{seen} * P + thread; i < std::int64_t{T} * P; i += 32 * N) d_k[i] = 0;
    for (int t = seen + thread; t < T; t += 32 * N) {
      if (d_write && a.write_gain.write == Write::overwrite) d_write[t] = 0;
      if (d_erase && a.erase_gain.write == Write::overwrite) d_erase[t] = 0;
    }
    team.template build<true>(memory, warp - W);
    return;
  }
  const int lane = threadIdx.x % 32, p = 4 * CT_THREAD, i_lane = lane / Team::kGroup;
  const int limit = d_k && p < P ? seen : 0;
  const Real* kept_c = trail + P;
  Real rho[4] = {}, r_t[4];
  take4(trail + p, p < P, r_t);
  auto next = team.template token<true>(0, kept_c);
  for (int chunk = 0; chunk < team.chunks; ++chunk) {
    const auto now = next;
    next = team.template token<true>(chunk + 1, kept_c);
    const auto& slot = memory.slot[chunk % N];
    const Real* stage = slot.keys[0] + p;
    Team::Barriers::wait_filled(chunk % N);
    const Real along = team.along_keys(stage, rho);
    const typename Team::Row row(slot.matrix, lane);
    const Real c = now.c, u = team.total(memory, chunk, along, i_lane);
    const Real key_rho = row.times(u, lane) + row.last, d_c = now.write * now.d_a - now.erase * key_rho;
    if (now.valid && threadIdx.x < 32 && lane % Team::kGroup == 0) {
      const Real of_write = c * now.d_a, of_erase = -c * key_rho;
      if (d_write) put(a.write_gain.write, d_write + now.t, one_gain ? of_write + of_erase : of_write);
      if (d_erase) put(a.erase_gain.write, d_erase + now.t, of_erase);
    }
    const Real step = now.erase * c;
    Real* put_at = d_k + std::int64_t{chunk} * C * P + p;
#pragma unroll 4
    for (int i = 0; i < C; ++i, put_at += P) {
      const Real d_c_i = __shfl_sync(kFullWarp, d_c, i * Team::kGroup),
                 step_i = __shfl_sync(kFullWarp, step, i * Team::kGroup);
      const bool there = chunk * C + i < limit;
      Real key[4], d_key[4];  // the key read again: registers are scarcer than shared memory's time
      take4(stage + i * Memory::kRow, p < P, key);
      take4(put_at, there && a.k.write == Write::add, d_key);
      CT_FOR(x, 4) {
        r_t[x] += step_i * key[x];
        d_key[x] += d_c_i * r_t[x] - step_i * rho[x];
        rho[x] += d_c_i * key[x];
      }
      put4(put_at, there, d_key);
    }
    __syncwarp();
    team.give_back(chunk);
  }
  if (a.q.write == Write::none) return;
  CT_FOR(x, 4)
    if (p + x < P) put(a.q.write, a.q.gradient.at(r) + std::int64_t{b} * P + p + x, rho[x]);
}

template <int W>
constexpr int kBuilders = W == 1   ? 3
                          : W == 2 ? 4
                                   : 2;

/// Calls f(chain warps) for keys of P <= kLargestChunked numbers.
void with_chain(int P, auto&& f) { with_least<1, 2, 4>((P + 127) / 128, f); }

template <bool kBackward, int W, class Real>
void launch_chunks(const Exec& exec, const ReadWeights<Real>& a) {
  constexpr int N = kBuilders<W>;
  constexpr std::size_t bytes = sizeof(ChunkMemory<Real, W, N>);
  static_assert(bytes <= 99 * 1024, "every GPU has 99 KiB");
  launch(exec, kBackward ? "read_weights by chunks, backward" : "read_weights by chunks",
         kBackward ? chunked_backward<Real, W, N> : chunked_forward<Real, W, N>,
         per_replica(a.q.value.dim(0), a.q.value.R), 32 * (W + N), bytes, a);
}

}  // namespace crosstalk::device

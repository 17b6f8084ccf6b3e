// What both directions of the chunkwise state share where every key channel decays by itself.
//
// A score is sum_c x_ic k_jc e^{G_ic - G_jc}: the decays cannot be taken out of the sum, and e^{-G}
// overflows. A chunk of 32 tokens is therefore halved. Between the halves the product splits at their border
// into two factors of at most 1 each, and is a product of matrices; within a half the decay of each pair is a
// running product over the tokens between. No exponent is ever positive, no sum of decays is a difference.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/ops/state_chunk_parts.cuh"

namespace crosstalk::device {

/// What a chunk's tokens have per channel, in shared memory. Halves are of 16 tokens.
template <class Tile>
struct ChannelParts {
  using Type = typename Tile::Type;
  using Op = typename Tile::Op;
  static constexpr int C = Tile::C, D = Tile::D, kHalf = C / 2, kRow = Tile::kRow, kSide = Tile::kSide;
  static constexpr int kThreads = Tile::kThreads, kWorkers = 2 * D;  ///< a thread a channel and half
  static_assert(kHalf == 16 && kWorkers <= kThreads);
  Type *q, *k, *x;        ///< as they are
  Type *q_read, *x_read;  ///< times the decay since the chunk's start
  Type* k_left;           ///< times the decay until its end
  Type *border,
      *x_border;  ///< second half: q (x) times the decay since the border; first half: k until the border
  float* alpha;   ///< [C][D] e^g
  float *since, *until;  ///< [C][D] backward: decays since the half's start and until its end
  float *half, *all;     ///< [2][D], [D] decays of the halves and of the chunk

  CT_HD void take(Carve& carve, bool backward, bool solves, bool tied) {
    constexpr int kTokens = C * Tile::kRow;
    q = carve.take<Type>(kTokens);
    k = carve.take<Type>(kTokens);
    x = tied ? carve.take<Type>(kTokens) : k;
    q_read = carve.take<Type>(kTokens);
    x_read = solves ? carve.take<Type>(kTokens) : nullptr;
    k_left = carve.take<Type>(kTokens);
    border = carve.take<Type>(kTokens);
    x_border = solves ? carve.take<Type>(kTokens) : nullptr;
    alpha = carve.take<float>(C * D);
    since = backward ? carve.take<float>(C * D) : nullptr;
    until = backward ? carve.take<float>(C * D) : nullptr;
    half = carve.take<float>(2 * D);
    all = carve.take<float>(D);
  }

  __device__ __forceinline__ static int channel() { return static_cast<int>(threadIdx.x) % D; }
  __device__ __forceinline__ static int first_of_half() { return static_cast<int>(threadIdx.x) / D * kHalf; }

  /// By the first kWorkers threads: everything from the tokens from `first` on.
  __device__ __forceinline__ void prepare(const StateWalk<Tile>& walk, const StateRead<float>& op, int first,
                                          int valid) const {
    const int c = channel(), from = first_of_half(), K = walk.K;
    const bool there = c < K, second = from != 0;
    const std::int64_t stride = static_cast<std::int64_t>(walk.H) * K;
    const auto load = [&](const Tensor<float>& tensor, int i) {
      return there && i < valid ? walk.rows(tensor, first, K)[i * stride + c] : 0.0f;
    };
    // All loads before the first store: they wait together.
    float g[kHalf], other = 0, q_in[kHalf], k_in[kHalf], x_in[kHalf];
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      g[i] = load(op.log_decay.value, from + i);
      q_in[i] = load(op.q.value, from + i);
      k_in[i] = load(op.k.value, from + i);
    }
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      x_in[i] = walk.tied ? load(op.erase_read.value, from + i) : k_in[i];
      other += fmaxf(load(op.log_decay.value, kHalf - from + i), -1e4f);
    }
    other = expf(other);
    float a[kHalf], suffix[kHalf];
#pragma unroll
    for (int i = 0; i < kHalf; ++i) a[i] = expf(g[i]);
    suffix[kHalf - 1] = 1;
#pragma unroll
    for (int i = kHalf - 1; i > 0; --i) suffix[i - 1] = suffix[i] * a[i];
    float running = 1;
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      running *= a[i];
      const int row = from + i, at = row * kRow + c;
      const float q_i = q_in[i], k_i = k_in[i], x_i = x_in[i];
      const float read = second ? other * running : running, left = second ? suffix[i] : suffix[i] * other;
      Op::put1(q + at, q_i);
      Op::put1(k + at, k_i);
      Op::put1(q_read + at, q_i * read);
      Op::put1(k_left + at, k_i * left);
      Op::put1(border + at, second ? q_i * running : k_i * suffix[i]);
      if (walk.solves) {
        if (walk.tied) Op::put1(x + at, x_i);
        Op::put1(x_read + at, x_i * read);
        Op::put1(x_border + at, x_i * running);
      }
      alpha[row * D + c] = a[i];
      if (since) since[row * D + c] = running, until[row * D + c] = suffix[i];
    }
    half[(second ? D : 0) + c] = running;
    if (!second) all[c] = running * other;
  }

  /// Scores of pairs, by all warps: those of the reads, and unless `matrix` is null, A times erase.
  template <bool kBoth>
  __device__ __forceinline__ void score(Type* scores, float* matrix, int stride, const float* erase) const {
    using Side = typename Tile::Side;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (Side::first_row() >= kHalf && Side::first_column() < kHalf) {
      const Staged<Tile::kFormat> keys{border, kRow};
      Side s;
      s.template add<false, false, D>(Staged<Tile::kFormat>{border, kRow}, keys);
      s.pairs([&](int i, int j, float a, float b) { Op::put2(scores + i * kSide + j, a, b); });
      if constexpr (kBoth) {
        s.clear();
        s.template add<false, false, D>(Staged<Tile::kFormat>{x_border, kRow}, keys);
        s.pairs([&](int i, int j, float a, float b) {
          matrix[i * stride + j] = erase[i] * a, matrix[i * stride + j + 1] = erase[i] * b;
        });
      }
    } else if (Side::first_row() < kHalf &&
               Side::first_column() >= kHalf) {  // pairs that do not see each other
      Side s;
      s.pairs([&](int i, int j, float, float) {
        Op::put2(scores + i * kSide + j, 0, 0);
        if (kBoth) matrix[i * stride + j] = matrix[i * stride + j + 1] = 0;
      });
    }
    for (int j = warp; j < C; j += kThreads / 32) {
      const int from = j / kHalf * kHalf;
      float sums[2 * kHalf] = {};
#pragma unroll
      for (int m = 0; m < D; m += 32) {
        const int c = m + lane;
        const float key = Op::value(k[j * kRow + c]);
        float aged = 0;
#pragma unroll
        for (int i = 0; i < kHalf; ++i) {
          const int row = from + i;
          aged = row == j ? key : aged * alpha[row * D + c];
          sums[i] += Op::value(q[row * kRow + c]) * aged;
          if (kBoth) sums[kHalf + i] += Op::value(x[row * kRow + c]) * aged;
        }
      }
      if constexpr (kBoth) {
        scatter_sum<2 * kHalf>(sums);
        const int row = from + lane % kHalf;
        if (lane < kHalf) {
          Op::put1(scores + row * kSide + j, row >= j ? sums[0] : 0);
        } else {
          matrix[row * stride + j] = row > j ? erase[row] * sums[0] : 0;
        }
      } else {
        scatter_sum<kHalf>(sums);
        const int row = from + lane / 2;
        if (lane % 2 == 0) Op::put1(scores + row * kSide + j, row >= j ? sums[0] : 0);
      }
    }
  }

  /// By the first kWorkers threads: what pairs within a half add to the gradients of q, -a (by N) and k, and
  /// to that of the log decays, which takes the place of alpha. P, N: gradients of the scores before their
  /// decays.
  __device__ __forceinline__ void score_backward(const Type* P, const Type* N, const float* erase,
                                                 bool solves, float* d_q, float* d_a, float* d_k) const {
    const int c = channel(), from = first_of_half();
    float a[kHalf], q_i[kHalf], x_i[kHalf], to_q[kHalf], to_a[kHalf], to_g[kHalf];
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      const int row = from + i;
      a[i] = alpha[row * D + c];
      q_i[i] = Op::value(q[row * kRow + c]);
      x_i[i] = solves ? erase[row] * Op::value(x[row * kRow + c]) : 0;
      to_q[i] = to_a[i] = to_g[i] = 0;
    }
#pragma unroll
    for (int j = 0; j < kHalf; ++j) {
      const int column = from + j;
      const float key = Op::value(k[column * kRow + c]), own = Op::value(P[column * kSide + column]);
      float decay = 1, to_k = own * q_i[j], passing[kHalf];
      to_q[j] += own * key;
#pragma unroll
      for (int i = j + 1; i < kHalf; ++i) {
        decay *= a[i];
        const float p = Op::value(P[(from + i) * kSide + column]);
        const float n = solves ? Op::value(N[(from + i) * kSide + column]) : 0;
        const float aged = key * decay, sum = p * q_i[i] - n * x_i[i];
        to_q[i] += p * aged;
        to_a[i] += n * aged;
        to_k += decay * sum;
        passing[i] = aged * sum;
      }
      d_k[column * D + c] = to_k;
      float running = 0;
#pragma unroll
      for (int i = kHalf - 1; i > j; --i) {
        running += passing[i];
        to_g[i] += running;
      }
    }
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      const int at = (from + i) * D + c;
      d_q[at] = to_q[i];
      if (solves) d_a[at] = to_a[i];
      alpha[at] = to_g[i];
    }
  }

  /// By the first kWorkers threads: a chunk's gradient of the log decays. alpha: what pairs within the halves
  /// add. through: of the state that passes; reads, writes: of what looks into the chunk's start and end;
  /// borders: of pairs across the border, by row (second half) and column (first half).
  __device__ __forceinline__ void put_decay_gradient(Write mode, float* to, std::int64_t stride, int valid,
                                                     int K, const float* through, const float* reads,
                                                     const float* writes, const float* borders) const {
    const int c = channel(), from = first_of_half();
    const bool second = from != 0;
    float out[kHalf], running = 0;
    if (second) {
      for (int j = 0; j < kHalf; ++j) running += writes[j * D + c];
    }
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      const int at = (from + i) * D + c;
      out[i] = through[c] + alpha[at] + running;
      running += writes[at] + (second ? 0 : borders[at]);
    }
    running = 0;
    if (!second) {
      for (int i = kHalf; i < C; ++i) running += reads[i * D + c];
    }
#pragma unroll
    for (int i = kHalf - 1; i >= 0; --i) {
      const int at = (from + i) * D + c;
      running += reads[at] + (second ? borders[at] : 0);
      if (c < K && from + i < valid) put(mode, to + (from + i) * stride + c, out[i] + running);
    }
  }
};

}  // namespace crosstalk::device

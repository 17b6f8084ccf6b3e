// What both directions of the chunkwise state share where every key channel decays by itself.
//
// A score is sum_c x_ic k_jc e^{G_ic - G_jc}: the decays cannot be taken out of the sum, and e^{-G}
// overflows. A chunk of 32 tokens is therefore halved. Between the halves the product splits at their border
// into two factors of at most 1 each, and is a product of matrices; within a half the decay of each pair is a
// running product over the tokens between. No exponent is ever positive, no sum of decays is a difference.
//
// Work goes by two layouts: products of matrices by fragments, and what runs along tokens by workers, a
// thread for each channel and half, with the half's decays in registers. Loops there stay loops where they
// can: straight code does not fit the cache of instructions, and fetching it took two thirds of the time.
// a = e x.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/recurrence/state_chunk_walk.cuh"

namespace crosstalk::device {

/// What a chunk's tokens have per channel, in shared memory. Halves are of 16 tokens.
template <class Tile>
struct ChannelParts {
  using Type = typename Tile::Type;
  using Op = typename Tile::Op;
  using Raw = Operand<Tile::kFormat == Precision::bf16 ? Precision::bf16 : Precision::full>;  ///< not rounded
  static constexpr int C = Tile::C, D = Tile::D, kHalf = C / 2, kRow = Tile::kRow, kSide = Tile::kSide;
  static constexpr int kThreads = Tile::kThreads, kWorkers = 2 * D;
  /// Shared memory is short: some things take the place of others.
  static constexpr bool kTight = D == 128 && sizeof(Type) == 4;
  static_assert(kHalf == 16 && kWorkers <= kThreads);
  bool before, late, tied, solves;  ///< before, late: queries, erases do not see their own token's decay
  Type *q, *k, *x;                  ///< as they are; x forward only
  Type *q_read, *a_read;            ///< times the decay since the chunk's start
  Type* k_left;                     ///< times the decay until its end
  Type *border,
      *a_border;      ///< second half: q (a) times the decay since the border; first half: k until the border
  float* alpha;       ///< [C][D] e^g
  float *half, *all;  ///< [2][D], [D] decays of the halves and of the chunk

  CT_HD void take(Carve& carve, bool backward, bool solves_, bool tied_) {
    constexpr int kTokens = C * kRow;
    solves = solves_, tied = tied_;
    q = carve.take<Type>(kTokens);
    k = carve.take<Type>(kTokens);
    k_left = carve.take<Type>(kTokens);
    border = carve.take<Type>(kTokens);
    a_border = solves ? carve.take<Type>(kHalf * kRow) - kHalf * kRow : nullptr;
    if (backward) {  // reads take these places when they are no longer needed
      x = nullptr, q_read = k_left, a_read = border;
    } else {
      q_read = carve.take<Type>(kTokens);
      a_read = solves ? carve.take<Type>(kTokens) : nullptr;
      x = !tied ? k : kTight ? k_left : carve.take<Type>(kTokens);
    }
    alpha = carve.take<float>(C * D);
    half = carve.take<float>(2 * D);
    all = carve.take<float>(D);
  }

  __device__ __forceinline__ static int channel() { return static_cast<int>(threadIdx.x) % D; }
  __device__ __forceinline__ static int first_of_half() { return static_cast<int>(threadIdx.x) / D * kHalf; }

  /// q, k, x as they are and the decays, of the tokens from `first` on.
  __device__ __forceinline__ void load(const StateWalk<Tile>& walk, const StateRead<float>& op, int first,
                                       int valid) const {
    const int K = walk.K;
    Fetched<Tile> q_in, k_in, g_in;
    q_in.fetch(walk.queries(op, first, valid), K);
    k_in.fetch(walk.keys(op, first, valid), K);
    g_in.fetch(walk.of_tokens(op.log_decay.value, first, valid, walk.line, walk.first_key), K);
    q_in.template put<Raw>(q, valid);
    k_in.template put<Raw>(k, valid);
    g_in.each([&](int row, int column, float g) { alpha[row * D + column] = row < valid ? expf(g) : 1; });
    if (tied) {
      q_in.fetch(walk.looks(op, first, valid), K);
      q_in.template put<Raw>(x, valid);
    }
  }

  /// By the workers, from what load() laid down: rows times their decays.
  template <bool kBackward>
  __device__ __forceinline__ void age(const float* erase) const {
    const int c = channel(), from = first_of_half();
    const bool second = from != 0;
    float own = 1, other = 1, since = 1, until = 1;
#pragma unroll 4
    for (int i = 0; i < kHalf; ++i) {
      own *= alpha[(from + i) * D + c];
      other *= alpha[(kHalf - from + i) * D + c];
    }
#pragma unroll 4
    for (int i = from; i < from + kHalf; ++i) {
      const int at = i * kRow + c;
      const float previous = since;
      since *= alpha[i * D + c];
      const float q_i = Raw::value(q[at]) * (before ? previous : since);
      if (second) Op::put1(border + at, q_i);
      if (!kBackward) Op::put1(q_read + at, second ? q_i * other : q_i);
      if (solves && (second || !kBackward)) {
        const float a_i = erase[i] * Raw::value(x[at]) * (late ? previous : since);
        if (second) Op::put1(a_border + at, a_i);
        if (!kBackward) Op::put1(a_read + at, second ? a_i * other : a_i);
      }
    }
#pragma unroll 4
    for (int i = from + kHalf - 1; i >= from; --i) {
      const int at = i * kRow + c;
      const float k_i = Raw::value(k[at]) * until;
      if (!second) Op::put1(border + at, k_i);
      if (kBackward || !kTight || !tied) Op::put1(k_left + at, second ? k_i : k_i * other);
      until *= alpha[i * D + c];
    }
    half[(second ? D : 0) + c] = own;
    if (!second) all[c] = own * other;
  }

  /// By the workers, where x stands in its place until the scores are known: k_left.
  __device__ __forceinline__ void leave() const {
    const int c = channel(), from = first_of_half();
    float decay = from == 0 ? half[D + c] : 1;
#pragma unroll 4
    for (int i = from + kHalf - 1; i >= from; --i) {
      Op::put1(k_left + i * kRow + c, Raw::value(k[i * kRow + c]) * decay);
      decay *= alpha[i * D + c];
    }
  }

  /// Scores of pairs, by all warps: those of the reads, and (kBoth) A.
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
        s.template add<false, false, D>(Staged<Tile::kFormat>{a_border, kRow}, keys);
        s.pairs([&](int i, int j, float a, float b) {
          matrix[i * stride + j] = a, matrix[i * stride + j + 1] = b;
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
    // A column j at a time, lanes over channels: sum n is of row j + n, or of the next one where rows do not
    // see their own decay; beyond the half, of nothing.
    const int of_q = before, of_x = late;
#pragma unroll 1
    for (int j = __shfl_sync(kFullWarp, warp, 0); j < C; j += kThreads / 32) {
      const int from = j / kHalf * kHalf, rows = from + kHalf - j;
      float sums[2 * kHalf] = {};
#pragma unroll 1
      for (int c = lane; c < D; c += 32) {
        float aged = Raw::value(k[j * kRow + c]);
        const float* decay = alpha + j * D + c;
        const Type *q_at = q + (j + of_q) * kRow + c, *x_at = x + (j + of_x) * kRow + c;
#pragma unroll
        for (int n = 0; n < kHalf; ++n) {
          if (n > 0) aged *= decay[n * D];
          sums[n] += Raw::value(q_at[n * kRow]) * aged;
          if (kBoth) sums[kHalf + n] += Raw::value(x_at[n * kRow]) * aged;
          if (n + 1 == rows) break;
        }
      }
      const auto row_of = [&](int n, int shift) { return from + (j - from + n + shift) % kHalf; };
      if constexpr (kBoth) {
        scatter_sum<2 * kHalf>(sums);
        const int n = lane % kHalf;
        if (lane < kHalf) {
          Op::put1(scores + row_of(n, of_q) * kSide + j, n + of_q < rows ? sums[0] : 0);
        } else {
          const int row = row_of(n, of_x);
          matrix[row * stride + j] = n + of_x > 0 && n + of_x < rows ? erase[row] * sums[0] : 0;
        }
      } else {
        scatter_sum<kHalf>(sums);
        const int n = lane / 2;
        if (lane % 2 == 0) Op::put1(scores + row_of(n, of_q) * kSide + j, n + of_q < rows ? sums[0] : 0);
      }
    }
  }

  // Backward, by the workers. E: gradients of rows at their half's border, from all but the pairs within the
  // half: of reads by decays since the half's start, of keys by decays until its end; become those of the
  // rows. d_g: the gradient of the half's log decays, summed up.

  /// through: of the state that passes. writes, reads: of writes of the first half seen at the chunk's end,
  /// of reads of its start by the second half.
  __device__ __forceinline__ void back_keys(const float (&a)[kHalf], float* E, float through, float writes,
                                            float reads, float (&d_g)[kHalf]) const {
    const int c = channel(), from = first_of_half();
    float passing[kHalf], until = 1;
#pragma unroll
    for (int i = kHalf - 1; i >= 0; --i) {
      float& e = E[(from + i) * D + c];
      e *= until;
      passing[i] = e * Raw::value(k[(from + i) * kRow + c]);
      until *= a[i];
    }
    float running = through + (from == 0 ? reads : writes);
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      d_g[i] = running;
      running += passing[i];
    }
  }

  /// The gradients of the scores before their decays, as products and back_rows() want them: turned within a
  /// half, where rows that do not see their own decay (late_) stand one earlier, the first of them last.
  __device__ __forceinline__ static void put_pair(Type* pairs, int i, int j, bool seen, bool late_, float x) {
    if (i / kHalf == j / kHalf) {
      const int row = j, column = i / kHalf * kHalf + (i + kHalf - late_) % kHalf;
      i = row, j = column;
    }
    Op::put1(pairs + i * kSide + j, seen ? x : 0);
  }

  /// Of rows x (q or a), whose pairs' gradients add to that of the keys too. A row that does not see its own
  /// decay (late_) is like one a token earlier that does; the half's first one then sees no decay at all.
  /// x becomes what it is times the decay since the chunk's start.
  template <class X>
  __device__ __forceinline__ void back_rows(const float (&a)[kHalf], X&& x_at, float* E, const Type* pairs,
                                            bool late_, float* d_keys, Type* read,
                                            float (&d_g)[kHalf]) const {
    const int c = channel(), from = first_of_half(), to = from + late_;
    float since = 1, x[kHalf], d_x[kHalf], h = 0;
    const float start = from == 0 ? 1 : half[c];
    if (late_) Op::put1(read + from * kRow + c, x_at(from) * start);
#pragma unroll
    for (int n = 0; n < kHalf; ++n) {
      const bool there = n + 1 < kHalf || !late_;
      since *= a[n];
      x[n] = there ? x_at(to + n) : 0;
      d_x[n] = there ? since * E[(to + n) * D + c] : 0;
      if (there) Op::put1(read + (to + n) * kRow + c, x[n] * since * start);
    }
#pragma unroll
    for (int n = kHalf - 1; n >= 0; --n) d_g[n] += h += d_x[n] * x[n];
#pragma unroll
    for (int j = 0; j < kHalf; ++j) {
      float aged[kHalf], p[kHalf];
      load_row(pairs + (from + j) * kSide + from, p);
      aged[j] = Raw::value(k[(from + j) * kRow + c]);
#pragma unroll
      for (int n = j + 1; n < kHalf; ++n) aged[n] = aged[n - 1] * a[n];
      h = 0;  // of row n: what keys at n would get from the rows from n on
#pragma unroll
      for (int n = kHalf - 1; n >= j; --n) {
        d_x[n] += p[n] * aged[n];
        h = p[n] * x[n] + (n + 1 < kHalf ? a[n + 1 < kHalf ? n + 1 : n] * h : 0);
        if (n > j) d_g[n] += aged[n] * h;
      }
      d_keys[(from + j) * D + c] += h;
    }
#pragma unroll
    for (int n = 0; n < kHalf; ++n) {
      if (n + 1 < kHalf || !late_) E[(to + n) * D + c] = d_x[n];
    }
  }

  __device__ __forceinline__ static void load_row(const Type* from, float (&x)[kHalf]) {
    constexpr int kEach = 16 / sizeof(Type);
#pragma unroll
    for (int i = 0; i < kHalf; i += kEach) {
      const uint4 four = *reinterpret_cast<const uint4*>(from + i);
      const unsigned words[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        if constexpr (kEach == 4) {
          x[i + n] = __uint_as_float(words[n]);
        } else {
          x[i + 2 * n] = __uint_as_float(words[n] << 16);
          x[i + 2 * n + 1] = __uint_as_float(words[n] & 0xffff0000);
        }
      }
    }
  }
};

}  // namespace crosstalk::device

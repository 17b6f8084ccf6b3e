// Parts that both directions of the chunkwise state share: the sizes, how rows come from global memory, and the
// inverse of a unit lower triangular matrix.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/device/early_launch.cuh"
#include "kernels/base/device/quick_exp.cuh"
#include "kernels/matmul/chunk_product.cuh"
#include "kernels/matmul/operand_pairs.cuh"
#include "kernels/recurrence/state_read.h"

namespace crosstalk::device {

/// Sizes of a block of threads that walks one sequence and head. kSize: of keys and of values, padded.
/// kWhole: nothing is padded, rows start at multiples of 16 bytes. kGated: a token may decay the state.
/// kMapped: a row is not simply a token; kPaired: a token is a pair of rows; kListed: queries are looked up (StateWalk).
/// kNarrow: all that tokens have but gates is in bf16; else each tensor may be.
template <Precision kFormat_, int kSize, bool kWhole_, bool kGated_, bool kMapped_ = false,
          int kChunk = state_chunk(kSize, kSize, kFormat_), int kWarps = 0, bool kPaired_ = false,
          bool kListed_ = kMapped_ && !kPaired_, bool kNarrow_ = false>
struct StateTile {
  static constexpr bool kWhole = kWhole_, kGated = kGated_, kMapped = kMapped_, kPaired = kPaired_;
  static constexpr bool kListed = kListed_, kNarrow = kNarrow_;
  static constexpr Precision kFormat = kFormat_;
  using Op = NumberFormat<kFormat>;
  using Type = typename Op::Type;
  static constexpr int D = kSize, C = kChunk;
  /// Of two blocks a multiprocessor, 16 warps at 64 had 64 registers a thread: 8 have 128, and spill less.
  static constexpr int kUsual = D == 32 ? 4 : D == 128 && C == 64 && kFormat == Precision::bf16 ? 16 : 8;
  static constexpr int W = kWarps > 0 ? kWarps : kUsual, kThreads = 32 * W;
  /// Forward, 8 warps with twice the registers are faster at 128 (measured on an H200).
  using Forward =
      StateTile<kFormat, D, kWhole, kGated, kMapped, C, D == 32 ? 0 : 8, kPaired, kListed, kNarrow>;
  static constexpr int kRow = D + Op::kPad, kSide = C + Op::kPad;  ///< strides of rows of D and of C
  /// Blocks that a multiprocessor is to hold.
  static constexpr int kForwardBlocks = kFormat == Precision::bf16 ? (D == 32   ? 6
                                                                      : D == 64 ? 2
                                                                                : 1)
                                                                   : (D == 32 ? 4 : 1);
  static constexpr int kBackwardBlocks = kFormat == Precision::bf16 ? (D == 32   ? 5
                                                                       : D == 64 ? 2
                                                                                 : 1)
                                                                    : (D == 32 ? 3 : 1);
  using Rows = ChunkSums<kFormat, C, D, W>;   ///< of tokens
  using Side = ChunkSums<kFormat, C, C, W>;   ///< of pairs of tokens
  using State = ChunkSums<kFormat, D, D, W>;  ///< S [v][k]
  using Matrix = Staged<kFormat>;
};

/// Two operands side by side, the first at an even place: of two bytes each by one load.
template <class Tile>
CT_DEVICE float2 two_operands(const typename Tile::Type* at) {
  if constexpr (sizeof(*at) == 2)
    return two_of(*reinterpret_cast<const unsigned*>(at));
  else
    return make_float2(Tile::Op::value(at[0]), Tile::Op::value(at[1]));
}

/// Hands out shared memory, in pieces of 16 bytes; of null it only counts.
struct Carve {
  unsigned char* base;
  std::size_t used = 0;
  template <class T>
  CT_HD T* take(std::size_t count) {
    T* p = reinterpret_cast<T*>(base + used);
    used += (count * sizeof(T) + 15) / 16 * 16;
    return p;
  }
};

/// Factors of the tokens of a chunk. G: sums of log decays from the chunk's start to a token's end, each
/// in two parts so that differences of large ones are exact (in one part for operands in bf16). A row that does not see its own token's decay
/// has the sum before it.
template <int C>
struct ChunkGates {
  float write[C], erase[C];         ///< w; e
  float high[3][C], low[3][C];      ///< G of keys, of reads, of erases
  float read[C], look[C], left[C];  ///< e^G of reads, of erases; e^{G_end - G} of keys
  float all;                        ///< e^{G_end}

  /// e^{G_i - G_j} of a read (1) or an erase (2) and a key. kQuick: for operands in bf16.
  template <bool kQuick>
  CT_DEVICE float between(int row_kind, int i, int j) const {
    const float x = high[row_kind][i] - high[0][j];
    if constexpr (kQuick) return quick_exp(x);
    return expf(x + (low[row_kind][i] - low[0][j]));
  }
};

/// Pairs of tokens faded by the gates between, where there are gates, and 0 where column > row, or (strict) >= row. Without a
/// branch a pair: pairs do not wait for each other's exponentials. Above the diagonal those may overflow.
template <class Tile>
CT_DEVICE void fade(typename Tile::Side& pairs, const ChunkGates<Tile::C>& gates, bool gated, int row_kind,
                    bool strict) {
  constexpr bool kQuick = Tile::kFormat == Precision::bf16;
  if (gated) {
    pairs.pairs([&](int i, int j, float& a, float& b) {
      a *= gates.template between<kQuick>(row_kind, i, j),
          b *= gates.template between<kQuick>(row_kind, i, j + 1);
    });
  }
  pairs.pairs([&](int i, int j, float& a, float& b) {
    const int end = strict ? i : i + 1;
    a = j < end ? a : 0, b = j + 1 < end ? b : 0;
  });
}

/// p, `bytes` further for each of `rows`: one instruction, unlike a distance of 64 bits.
template <class T>
CT_DEVICE T* ahead(T* p, int rows, int bytes) {
  using Bytes = std::conditional_t<std::is_const_v<T>, const char, char>;
  return reinterpret_cast<T*>(reinterpret_cast<Bytes*>(p) + std::int64_t{rows} * bytes);
}
/// Places of the rows of a chunk, `bytes` apart; beyond `valid` there are none. As all such types: has(row)
/// tells whether a row is there, start(row) where it starts if it is, and the row itself either of them:
/// where it starts, or null.
template <class T>
struct PlainRows {
  T* at;
  int bytes;
  int valid;
  bool narrow = false;  ///< in bf16, though T is float: of a whole tile
  CT_DEVICE bool has(int row) const { return row < valid; }
  CT_DEVICE T* start(int row) const { return ahead(at, row, bytes); }
  CT_DEVICE T* operator()(int row) const { return has(row) ? start(row) : nullptr; }
  /// Some row, this one if it is there.
  CT_DEVICE T* near(int row) const { return ahead(at, min(row, valid - 1), bytes); }
};

/// True if rows of this type may be in bf16: those of whole tiles whose products are, if they say so.
template <class Tile, class Where>
constexpr bool kMayBeNarrow = Tile::kWhole&& Tile::kFormat == Precision::bf16&& requires(const Where& rows) {
  rows.narrow;
};

/// kRows x D numbers on their way from global to shared memory: of the rows that `rows` has; the rest is 0.
/// Several of them are fetched before the first is put, so that they wait for memory together. kGuarded: rows
/// that are not there are not asked for, which is faster backward by 3 to 11 %; else they are dropped on
/// their way, which is faster forward by 3 to 5 % (measured on an H200).
template <class Tile, int kRows = Tile::C, int kColumns = Tile::D, bool kGuarded_ = false>
struct Fetched {
  static constexpr bool kGuarded = kGuarded_ || Tile::kMapped;
  static constexpr int kFours = kColumns / 4, kTurns = kRows * kFours / Tile::kThreads;
  float4 x[kTurns];
  bool narrow = false;  ///< x holds four numbers in bf16 each, in its first two

  CT_DEVICE static int row(int turn) { return CT_THREAD / kFours + turn * (Tile::kThreads / kFours); }
  CT_DEVICE static int column() { return CT_THREAD % kFours * 4; }
  /// Not before they are put: who converts numbers waits for them.
  CT_DEVICE float4 four(int turn) const {
    if (!narrow) return x[turn];
    const Four<float> f = four_of(make_uint2(__float_as_uint(x[turn].x), __float_as_uint(x[turn].y)));
    return make_float4(f.v[0], f.v[1], f.v[2], f.v[3]);
  }
  template <class Where>
  CT_DEVICE void fetch(const Where& rows, int columns) {
    if constexpr (kMayBeNarrow<Tile, Where>) {
      narrow = rows.narrow;
      if (narrow) {
        CT_FOR(turn, kTurns) {
          uint2 two = make_uint2(0, 0);
          if constexpr (kGuarded) {
            if (rows.has(row(turn))) two = __ldcs(narrow_at<const uint2>(rows.start(row(turn)), column()));
          } else {
            two = __ldcs(narrow_at<const uint2>(rows.near(row(turn)), column()));
          }
          x[turn] = make_float4(__uint_as_float(two.x), __uint_as_float(two.y), 0, 0);
        }
        return;
      }
    }
    CT_FOR(turn, kTurns) {
      if constexpr (!Tile::kWhole) {
        float v[4];
        load4(rows.start(row(turn)) + column(), rows.has(row(turn)) ? columns - column() : 0, false, v);
        x[turn] = make_float4(v[0], v[1], v[2], v[3]);
      } else if constexpr (kGuarded) {
        x[turn] = make_float4(0, 0, 0, 0);
        if (rows.has(row(turn)))
          x[turn] = __ldcs(reinterpret_cast<const float4*>(rows.start(row(turn)) + column()));
      } else {
        x[turn] = __ldcs(reinterpret_cast<const float4*>(rows.near(row(turn)) + column()));
      }
    }
  }
  /// f(row, column, x) of each number.
  CT_DEVICE void each(auto&& f) const {
    CT_FOR(turn, kTurns) {
      const float4 given = four(turn);
      const float v[4] = {given.x, given.y, given.z, given.w};
      CT_FOR(n, 4) f(row(turn), column() + n, v[n]);
    }
  }
  template <class As = typename Tile::Op>
  CT_DEVICE void put(typename Tile::Type* to, int valid, int line = Tile::kRow) const {
    put<As>(to, valid, line, [](int) { return 1.0f; });
  }
  /// Times gain(row).
  template <class As = typename Tile::Op, class Gain>
  CT_DEVICE void put(typename Tile::Type* to, int valid, int line, Gain&& gain) const {
    CT_FOR(turn, kTurns) {
      const bool there = row(turn) < valid;
      const float f = there ? gain(row(turn)) : 1;
      const float4 given = four(turn);
      float v[4] = {given.x, given.y, given.z, given.w};
      CT_FOR(n, 4) v[n] = kGuarded || there ? f * v[n] : 0;
      As::put4(to + row(turn) * line + column(), v);
    }
  }
};

/// kRows x kColumns operands of two bytes on their way between memories: of the rows that `rows` has; the
/// rest is 0. In shared memory they are `line` apart.
template <class Tile, int kRows, int kColumns>
struct Eights {
  static constexpr int kFirst = kColumns / 8, kTurns = (kRows * kFirst + Tile::kThreads - 1) / Tile::kThreads;
  uint4 x[kTurns];
  CT_DEVICE static void each(auto&& f) {
    CT_FOR(turn, kTurns) {
      const int i = CT_THREAD + turn * Tile::kThreads;
      if (kRows * kFirst % Tile::kThreads == 0 || i < kRows * kFirst) f(turn, i / kFirst, i % kFirst * 8);
    }
  }
  CT_DEVICE void fetch(const auto& rows) {
    each([&](int turn, int row, int c) {
      x[turn] = make_uint4(0, 0, 0, 0);
      if (rows.has(row)) x[turn] = __ldcs(reinterpret_cast<const uint4*>(rows.start(row) + c));
    });
  }
  CT_DEVICE void put(std::uint16_t* to, int line) const {
    each([&](int turn, int row, int c) { *reinterpret_cast<uint4*>(to + row * line + c) = x[turn]; });
  }
  /// Copies from shared to global memory.
  CT_DEVICE static void keep(const std::uint16_t* from, int line, const auto& rows) {
    each([&](int, int row, int c) {
      const uint4 eight = *reinterpret_cast<const uint4*>(from + row * line + c);
      if (rows.has(row)) __stcs(reinterpret_cast<uint4*>(rows.start(row) + c), eight);
    });
  }
};

/// Asks for rows that will be read soon, a row a thread: finding where lines are costs more than asking for
/// them. Of several tensors, the rows of number `turn` are other warps' than those of its neighbours.
template <class Tile, int kBytes = 4 * Tile::D, class Where>
CT_DEVICE void prefetch_rows(int turn, const Where& rows, int count) {
  static_assert(Tile::kThreads >= Tile::D && Tile::kThreads >= Tile::C);
  if constexpr (Tile::kWhole) {
    const int row = (CT_THREAD + 64 * turn) % Tile::kThreads;
    if (row >= count || !rows.has(row)) return;
    const auto* const from = reinterpret_cast<const char*>(rows.start(row));
    bool half = false;
    if constexpr (kMayBeNarrow<Tile, Where>) half = rows.narrow;
    CT_UNROLL(int at = 0; at < kBytes; at += 128) {
      if (half && 2 * at >= kBytes) break;
      asm volatile("prefetch.global.L2 [%0];" ::"l"(from + at));
    }
  }
}

/// (I + A)^-1 of strictly lower triangular A, in place in floats: blocks of 16 by substitution, then merged
/// in pairs, X21 = -X22 A21 X11. In full precision, whatever the format: its entries may grow.
template <int C, int W>
struct ChunkInverse {
  static constexpr int kStride = C + 4, kScratch = C == 64 ? 32 * 36 : 16 * 20;
  float* at;       ///< [C][kStride]
  float* scratch;  ///< [kScratch]

  /// Warps 0 .. C / 32 - 1: the blocks on the diagonal, two a warp, a column a lane.
  CT_DEVICE void diagonal() const {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (warp >= C / 32) return;
    float* block = at + (2 * warp + lane / 16) * 16 * (kStride + 1);
    const int column = lane % 16;
    float x[16];
    CT_FOR(i, 16) {
      float sum = i == column ? 1.0f : 0.0f;
      CT_FOR(j, i) sum -= block[i * kStride + j] * x[j];
      x[i] = sum;
    }
    __syncwarp();
    CT_FOR(i, 16) block[i * kStride + column] = x[i];
  }

  /// 16 x 8 sums of A B, K deep, by one warp.
  template <int K>
  CT_DEVICE static void product(float (&sums)[4], const float* a, int stride_a, const float* b,
                                int stride_b) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    CT_UNROLL(int k = 0; k < K; k += 8) {
      unsigned x[4], x_low[4], y[2], y_low[2];
      CT_FOR(i, 4) split(a[(g + i % 2 * 8) * stride_a + k + t + i / 2 * 4], x[i], x_low[i]);
      CT_FOR(i, 2) split(b[(k + t + 4 * i) * stride_b + g], y[i], y_low[i]);
      float part[4] = {};
      mma_tf32(part, x_low, y[0], y[1]);
      mma_tf32(part, x, y_low[0], y_low[1]);
      mma_tf32(part, x, y[0], y[1]);
      CT_FOR(i, 4) sums[i] += part[i];
    }
  }

  template <int S>
  CT_DEVICE void merge() const {
    constexpr int kPairs = C / (2 * S), kDown = S / 16, kAcross = S / 8, kLine = S + 4;
    constexpr int kTasks = kPairs * kDown * kAcross;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const auto store = [&](float* to, int stride, const float(&x)[4], float sign) {
      to[g * stride + 2 * t] = sign * x[0], to[g * stride + 2 * t + 1] = sign * x[1];
      to[(g + 8) * stride + 2 * t] = sign * x[2], to[(g + 8) * stride + 2 * t + 1] = sign * x[3];
    };
    for (int task = warp; task < kTasks; task += W) {
      const int pair = task / (kDown * kAcross), m = task / kAcross % kDown * 16, n = task % kAcross * 8;
      const float* first = at + pair * 2 * S * (kStride + 1);
      float sums[4] = {};
      product<S>(sums, first + (S + m) * kStride, kStride, first + n, kStride);
      store(scratch + pair * S * kLine + m * kLine + n, kLine, sums, 1.0f);
    }
    __syncthreads();
    for (int task = warp; task < kTasks; task += W) {
      const int pair = task / (kDown * kAcross), m = task / kAcross % kDown * 16, n = task % kAcross * 8;
      float* first = at + pair * 2 * S * (kStride + 1);
      float sums[4] = {};
      product<S>(sums, first + (S + m) * kStride + S, kStride, scratch + pair * S * kLine + n, kLine);
      store(first + (S + m) * kStride + n, kStride, sums, -1.0f);
    }
    __syncthreads();
  }

  /// After a barrier that follows diagonal(). Ends with one.
  CT_DEVICE void merge_all() const {
    merge<16>();
    if constexpr (C == 64) merge<32>();
  }
};

}  // namespace crosstalk::device

// Products of matrices that lie in shared memory, by all warps of a block on the tensor cores (mma.sync).
//
// Matrices lie there as operands: bf16 as two bytes; tf32 (rounded) and full precision as floats. Rows are
// padded such that the rows of a load fall into different banks. Every sum's order is fixed by the shapes.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/matmul/tensor_core.cuh"

namespace crosstalk::device {

/// A matrix of operands: in shared memory, or (full, tf32) rows of floats in global memory that end at a
/// limit.
template <Precision kPrecision>
struct Staged {
  const typename NumberFormat<kPrecision>::Type* at;
  int stride;
  CT_DEVICE float get(int row, int column) const { return at[row * stride + column]; }
};
struct Unstaged {
  const float* at;
  int stride, rows, columns;
  CT_DEVICE float get(int row, int column) const {
    return row < rows && column < columns ? at[row * stride + column] : 0;
  }
};

/// Place of column `column` of a row of floats' place that numbers in bf16 take.
template <class T>
CT_DEVICE T* narrow_at(const float* row, int column) {
  return const_cast<T*>(reinterpret_cast<const T*>(reinterpret_cast<const std::uint16_t*>(row) + column));
}

/// This thread's part of an M x N matrix of sums, cut into tiles for W warps: kDown x kAcross of them, each
/// of MT x NT tiles of 16 x 8.
template <Precision kPrecision, int M, int N, int W>
struct ChunkSums {
  using Type = typename NumberFormat<kPrecision>::Type;
  static constexpr int kDown = M >= 64 && (N < 2 * M || W == 16) ? 4 : 2, kAcross = W / kDown;
  static constexpr int MT = M / 16 / kDown, NT = N / 8 / kAcross, kRows = 16 * MT;
  static_assert(MT * 16 * kDown == M && NT * 8 * kAcross == N, "the warps cover the matrix");
  static_assert(NT == 1 || NT % 2 == 0, "columns come in pairs of tiles");
  float at[MT][NT][4];
  /// True if rows of this type may be in bf16.
  template <bool kWhole, class Where>
  static constexpr bool kMayBeNarrow = kWhole&& kPrecision == Precision::bf16&& requires(const Where& rows) {
    rows.narrow;
  };

  CT_DEVICE ChunkSums() { clear(); }
  CT_DEVICE void clear() {
    CT_FOR2(m, MT, n, NT)
      CT_FOR(i, 4) at[m][n][i] = 0;
  }
  CT_DEVICE static int warp() { return CT_WARP; }
  CT_DEVICE static int first_row() { return warp() / kAcross * kRows; }
  CT_DEVICE static int first_column() { return warp() % kAcross * (8 * NT); }

  /// f(row, column, x, y) of every pair of neighbours that this thread holds.
  CT_DEVICE void pairs(auto&& f) {
    const int lane = threadIdx.x % 32, row = first_row() + lane / 4, column = first_column() + lane % 4 * 2;
    CT_FOR2(m, MT, h, 2)
      CT_FOR(n, NT) f(row + 16 * m + 8 * h, column + 8 * n, at[m][n][2 * h], at[m][n][2 * h + 1]);
  }
  CT_DEVICE void each(const ChunkSums& other, auto&& f) {
    CT_FOR2(m, MT, n, NT)
      CT_FOR(i, 4) f(at[m][n][i], other.at[m][n][i]);
  }
  CT_DEVICE void subtract(const ChunkSums& other) {
    each(other, [](float& x, float y) { x -= y; });
  }
  /// Rounded, and not part of the sums that follow: kernels of either format of tokens have the same bits.
  CT_DEVICE void multiply(const ChunkSums& other) {
    each(other, [](float& x, float y) { x = __fmul_rn(x, y); });
  }
  /// Loads from memory, as far as there are rows and columns: `rows` as PlainRows is. kWhole: there are N columns,
  /// and they come in aligned pairs.
  template <bool kWhole, class Where>
  CT_DEVICE void take(const Where& rows, int columns) {
    if constexpr (kMayBeNarrow<kWhole, Where>) {
      if (rows.narrow) {
        pairs([&](int row, int column, float& x, float& y) {
          unsigned two = 0;
          if (rows.has(row)) two = __ldcs(narrow_at<const unsigned>(rows.start(row), column));
          x = __uint_as_float(two << 16), y = __uint_as_float(two & 0xffff0000);
        });
        return;
      }
    }
    pairs([&](int row, int column, float& x, float& y) {
      const float* const from = rows.start(row) + column;
      if constexpr (kWhole) {
        float2 two = make_float2(0, 0);
        if (rows.has(row)) two = __ldcs(reinterpret_cast<const float2*>(from));
        x = two.x, y = two.y;
      } else {
        const int left = rows.has(row) ? columns - column : 0;
        x = left > 0 ? from[0] : 0;
        y = left > 1 ? from[1] : 0;
      }
    });
  }
  /// The same as take(), but for numbers in bf16, which lie two in one until unpack(): so nobody waits for them before.
  template <bool kWhole, class Where>
  CT_DEVICE void ask(const Where& rows, int columns) {
    if constexpr (kMayBeNarrow<kWhole, Where>) {
      if (rows.narrow) {
        pairs([&](int row, int column, float& x, float&) {
          x = 0;
          if (rows.has(row)) x = __ldcs(narrow_at<const float>(rows.start(row), column));
        });
        return;
      }
    }
    take<kWhole>(rows, columns);
  }
  template <bool kWhole, class Where>
  CT_DEVICE void unpack(const Where& rows) {
    if constexpr (kMayBeNarrow<kWhole, Where>) {
      if (!rows.narrow) return;
      pairs([](int, int, float& x, float& y) {
        const unsigned two = __float_as_uint(x);
        x = __uint_as_float(two << 16), y = __uint_as_float(two & 0xffff0000);
      });
    }
  }
  /// To memory; the sums are lost if they are added to what is there.
  template <bool kWhole, class Where>
  CT_DEVICE void put(Write mode, const Where& rows, int columns) {
    if (mode == Write::add) {
      ChunkSums old;
      old.take<kWhole>(rows, columns);
      each(old, [](float& x, float y) { x += y; });
    }
    if constexpr (kMayBeNarrow<kWhole, Where>) {
      if (rows.narrow) {
        pairs([&](int row, int column, float x, float y) {
          if (rows.has(row)) __stcs(narrow_at<unsigned>(rows.start(row), column), bf16_pair(x, y));
        });
        return;
      }
    }
    pairs([&](int row, int column, float x, float y) {
      float* const to = rows.start(row) + column;
      if constexpr (kWhole) {
        if (rows.has(row)) __stcs(reinterpret_cast<float2*>(to), make_float2(x, y));
      } else {
        const int left = rows.has(row) ? columns - column : 0;
        if (left > 0) to[0] = x;
        if (left > 1) to[1] = y;
      }
    });
  }
  /// Multiplies rows by their factors.
  CT_DEVICE void scale(const float* factors) {
    pairs([&](int row, int, float& x, float& y) {
      const float f = factors[row];
      x *= f, y *= f;
    });
  }
  /// sums[tile across][row] = sum of f(row, column, x, y) over this tile's columns; total() adds the tiles.
  CT_DEVICE void row_sums(float* sums, auto&& f) {
    const int lane = threadIdx.x % 32, row = first_row() + lane / 4, column = first_column() + lane % 4 * 2;
    CT_FOR2(m, MT, h, 2) {
      float sum = 0;
      CT_FOR(n, NT) sum += f(row + 16 * m + 8 * h, column + 8 * n, at[m][n][2 * h], at[m][n][2 * h + 1]);
      sum += __shfl_xor_sync(kFullWarp, sum, 1);
      sum += __shfl_xor_sync(kFullWarp, sum, 2);
      if (lane % 4 == 0) sums[warp() % kAcross * M + row + 16 * m + 8 * h] = sum;
    }
  }
  /// sums[tile down][column], `stride` apart: f(row, column, x, y, two sums) adds to a column's.
  CT_DEVICE void column_sums(float* sums, int stride, auto&& f) {
    const int lane = threadIdx.x % 32, row = first_row() + lane / 4, column = first_column() + lane % 4 * 2;
    CT_FOR(n, NT) {
      float two[2] = {};
      CT_FOR2(m, MT, h, 2) f(row + 16 * m + 8 * h, column + 8 * n, at[m][n][2 * h], at[m][n][2 * h + 1], two);
      CT_UNROLL(int offset = 4; offset < 32; offset *= 2) {
        two[0] += __shfl_xor_sync(kFullWarp, two[0], offset);
        two[1] += __shfl_xor_sync(kFullWarp, two[1], offset);
      }
      if (lane < 4) {
        sums[warp() / kAcross * stride + column + 8 * n] = two[0];
        sums[warp() / kAcross * stride + column + 8 * n + 1] = two[1];
      }
    }
  }
  CT_DEVICE void row_sums(float* sums) {
    row_sums(sums, [](int, int, float x, float y) { return x + y; });
  }
  /// Of a square of pairs (i, j), what stands on either side of t: sums over i >= t + late and j < t. Those of this warp's rows and
  /// columns go to pairs[tile down][t]; its rows' totals, which t in columns of warps further across take, to rows[warp across][i].
  CT_DEVICE void crossing_sums(int late, float* pairs, float* rows) const {
    static_assert(M == N);
    const int lane = threadIdx.x % 32, q = lane % 4, g = lane / 4, column = first_column() + 2 * q;
    float sums[2 * NT] = {};
    CT_FOR2(m, MT, h, 2) {
      const int row = first_row() + g + 16 * m + 8 * h;
      float before = 0;  // in the tiles before
      CT_FOR(n, NT) {
        const float first = at[m][n][2 * h];
        float upto = first + at[m][n][2 * h + 1];
        CT_UNROLL(int offset = 1; offset < 4; offset *= 2) {
          const float other = __shfl_up_sync(kFullWarp, upto, offset, 4);
          if (q >= offset) upto += other;
        }
        const float left = __shfl_up_sync(kFullWarp, upto, 1, 4), here = q > 0 ? before + left : before;
        const int t = column + 8 * n;
        sums[2 * n] += row >= t + late ? here : 0;
        sums[2 * n + 1] += row >= t + 1 + late ? here + first : 0;
        before += __shfl_sync(kFullWarp, upto, 3, 4);
      }
      if (q == 0) rows[warp() % kAcross * M + row] = before;
    }
    scatter_sum<2 * NT, 16, 4>(sums);
    constexpr int kEach = NT >= 4 ? NT / 4 : 1, kSame = NT >= 4 ? 1 : 4 / NT;
    if (g % kSame != 0) return;
    CT_FOR(i, kEach) {
      const int number = g * 2 * NT / 8 + i;
      pairs[warp() / kAcross * M + column + number / 2 * 8 + number % 2] = sums[i];
    }
  }
  CT_DEVICE static float total(const float* sums, int row) {
    float sum = 0;
    CT_FOR(i, kAcross) sum += sums[i * M + row];
    return sum;
  }

  /// Adds A B, kDepth deep. A's rows are m, or k (kTurnedA); B's rows are n, or k (kTurnedB). Products that
  /// are 0 outside of k in [from, to), multiples of 16, may be left out.
  template <bool kTurnedA, bool kTurnedB, int kDepth, class B>
  CT_DEVICE void add(Staged<kPrecision> a, B b, int from = 0, int to = kDepth) {
    if constexpr (kPrecision == Precision::bf16)
      add_bf16<kTurnedA, kTurnedB, kDepth>(a, b);  // straight code is faster than less of it
    else
      add_float<kTurnedA, kTurnedB>(a, b, from, to);
  }

 private:
  template <bool kTurnedA, bool kTurnedB, int kDepth>
  CT_DEVICE void add_bf16(Staged<kPrecision> a, Staged<kPrecision> b) {
    const int lane = threadIdx.x % 32, low = lane / 8 % 2 * 8, high = lane / 16 * 8, r = lane % 8;
    const int m0 = first_row(), n0 = first_column();
    const Type* x_at =
        a.at + (kTurnedA ? (high + r) * a.stride + m0 + low : (m0 + low + r) * a.stride + high);
    // Of one tile there is no second half: its lanes repeat the first. The rows behind it would be those of
    // another matrix, which other warps may be writing.
    const int next = NT > 1 ? high : 0;
    const Type* y_at =
        b.at + (kTurnedB ? (low + r) * b.stride + n0 + next : (n0 + next + r) * b.stride + low);
    CT_UNROLL(int k = 0; k < kDepth; k += 16) {
      unsigned x[MT][4];
      CT_FOR(m, MT) load_matrices<kTurnedA>(x[m], x_at + 16 * m * (kTurnedA ? 1 : a.stride));
      CT_UNROLL(int n = 0; n < NT; n += 2) {
        unsigned y[4];
        load_matrices<kTurnedB>(y, y_at + 8 * n * (kTurnedB ? 1 : b.stride));
        CT_FOR(m, MT) {
          mma_bf16(at[m][n], x[m], y[0], y[1]);
          if constexpr (NT > 1) mma_bf16(at[m][n + 1], x[m], y[2], y[3]);
        }
      }
      x_at += 16 * (kTurnedA ? a.stride : 1), y_at += 16 * (kTurnedB ? b.stride : 1);
    }
  }

  template <bool kTurnedA, bool kTurnedB, class B>
  CT_DEVICE void add_float(Staged<kPrecision> a, B b, int from, int to) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int m0 = first_row() + g, n0 = first_column() + g;
    constexpr bool kFull = kPrecision == Precision::full;
    for (int k0 = from; k0 < to; k0 += 16) {
      // The tensor cores cut when they add: short sums there, and long ones by ordinary additions.
      float part[MT][NT][4] = {};
      CT_UNROLL(int k1 = 0; k1 < 16; k1 += 8) {
        const int k = k0 + k1 + t;
        unsigned x[MT][4], x_low[MT][4];
        CT_FOR2(m, MT, i, 4) {
          const int row = m0 + 16 * m + 8 * (i % 2), column = k + i / 2 * 4;
          const float v = kTurnedA ? a.get(column, row) : a.get(row, column);
          x[m][i] = __float_as_uint(v);
          if (kFull) split(v, x[m][i], x_low[m][i]);
        }
        CT_FOR(n, NT) {
          unsigned y[2], y_low[2];
          CT_FOR(i, 2) {
            const float v = kTurnedB ? b.get(k + 4 * i, n0 + 8 * n) : b.get(n0 + 8 * n, k + 4 * i);
            if (kFull)
              split(v, y[i], y_low[i]);
            else
              y[i] = std::is_same_v<B, Unstaged> ? tf32_of(v) : __float_as_uint(v);
          }
          CT_FOR(m, MT)
            if constexpr (kFull)
              mma_halves(part[m][n], x[m], x_low[m], y, y_low);
            else
              mma_tf32(at[m][n], x[m], y[0], y[1]);
        }
      }
      if (kFull) {
        CT_FOR2(m, MT, n, NT)
          CT_FOR(i, 4) at[m][n][i] += part[m][n][i];
      }
    }
  }
};

}  // namespace crosstalk::device

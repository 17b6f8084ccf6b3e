// Products of tiles of rows in shared memory on tensor cores: scores of rows with rows, weights times rows.
//
// A warp has 16 rows. Scores stay in the registers in which mma leaves them, and are an operand of the next
// product from there. Wide rows lie in wgmma's swizzle of 128 bytes, and four warps with 64 rows multiply them by wgmma where there
// is such a thing: eight rows are D / 64 pieces of 1 KiB, in which chunks of 16 bytes are swapped about by the row.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/device/async_copy.cuh"
#include "kernels/base/device/cuda_launch.cuh"
#include "kernels/base/head_rows.h"
#include "kernels/matmul/wgmma_bf16.cuh"

namespace crosstalk::device {

constexpr int kTileThreads = 128, kTileRows = 64;

/// Rows of up to kD numbers in shared memory, as operands of products.
template <Precision kPrecision_, int kD_, bool kSwizzled_ = false>
struct Tile {
  static constexpr Precision kPrecision = kPrecision_;
  static constexpr int kD = kD_;
  static constexpr bool kHalf = kPrecision == Precision::bf16, kSwizzled = kSwizzled_;
  static constexpr bool kWgmma = kSwizzled && CROSSTALK_WGMMA;  ///< products of four warps together
  static constexpr int kPiece = 512;                            ///< of 8 rows and 64 columns, swizzled
  using Format = NumberFormat<kPrecision>;
  using Number = typename Format::Type;
  /// So that neighbours in a column lie in different banks.
  static constexpr int kStep = kD + (kSwizzled ? 0 : Format::kPad);
  /// Columns that are loaded at once, and that are scored at once in backward.
  static constexpr int kColumns = kD <= 64 || (kHalf && kD <= 128) ? 64 : 32;
  static constexpr int kReadColumns = kSwizzled ? 64 : kColumns;  ///< forward
  static constexpr int kPart = kPrecision == Precision::full && kD > 64 ? 16 : kWgmma ? kColumns : 32;

  /// Blocks that a multiprocessor shall hold, by which the compiler gives registers: as measured on an H200.
  static constexpr int kReadBlocks = kD <= 64 ? 4 : kPrecision == Precision::full ? 1 : kD <= 128 ? 3 : 2;
  static constexpr int kGradientBlocks = kHalf && kD <= 64 ? 3 : kSwizzled ? 2 : 1;

  Number* numbers;

  static constexpr int bytes(int rows) { return rows * kStep * static_cast<int>(sizeof(Number)); }
  CT_DEVICE Number* place(int row, int c) const {
    if constexpr (kSwizzled)
      return numbers + row / 8 * (8 * kD) + c / 64 * kPiece + row % 8 * 64 + (c / 8 % 8 ^ row % 8) * 8 +
             c % 8;
    return numbers + row * kStep + c;
  }

  static constexpr int kFours = kD / 4, kStride = kTileThreads / kFours;
  static_assert(kTileThreads % kFours == 0);
  /// This thread's share of kBatch kStride rows from n0, of N rows of C numbers.
  template <int kBatch>
  static CT_DEVICE void fetch(const HeadRows<float>& rows, int n0, int N, int C, Four<float> (&x)[kBatch]) {
    const int c = CT_THREAD % kFours * 4;
    n0 += CT_THREAD / kFours;
    if (C % 4 == 0 && is_aligned16(rows.first)) {  // no branch a load: what lies outside is not kept
      const float* from = rows.first + (c < C ? c : 0);
      CT_FOR(i, kBatch) {
        const int n = n0 + i * kStride;
        x[i] = *reinterpret_cast<const Four<float>*>(from + (n < N ? n : N - 1) * rows.step);
      }
    } else {
      CT_FOR(i, kBatch) {
        const int n = n0 + i * kStride;
        load4(rows(n) + c, n < N ? C - c : 0, false, x[i].v);
      }
    }
  }
  /// Puts it into rows `from` of the tile, which are rows n0 of N; zeros beyond those.
  template <int kBatch>
  CT_DEVICE void keep(int from, int n0, int N, int C, const Four<float> (&x)[kBatch]) const {
    const int c = CT_THREAD % kFours * 4, first = CT_THREAD / kFours;
    CT_FOR(i, kBatch) {
      const bool inside = c < C && n0 + first + i * kStride < N;
      float y[4];
      CT_FOR(e, 4) y[e] = inside ? x[i].v[e] : 0;
      Format::put4(place(from + first + i * kStride, c), y);
    }
  }
};

/// Rows of operands.
template <int kD>
using OperandRows = Tile<Precision::bf16, kD>;

/// Makes what the threads of a block have put into its tiles visible to their products.
template <class Tile>
CT_DEVICE void tiles_filled() {
  if constexpr (Tile::kWgmma) fence_async();
  __syncthreads();
}

/// Rows n0 .. n0 + kRows of N into two tiles, as many loads on their way at once as registers allow.
template <int kRows, class Tile>
CT_DEVICE void load(const Tile& a, const HeadRows<float>& a_rows, int a_columns, const Tile& b,
                    const HeadRows<float>& b_rows, int b_columns, int n0, int N) {
  constexpr int kEach = kRows / Tile::kStride, kBatch = kEach < 8 ? kEach : 8;
  static_assert(kEach % kBatch == 0 && kEach > 0);
  CT_UNROLL(int i = 0; i < kEach; i += kBatch) {
    Four<float> x[kBatch], y[kBatch];
    const int from = i * Tile::kStride;
    Tile::fetch(a_rows, n0 + from, N, a_columns, x);
    Tile::fetch(b_rows, n0 + from, N, b_columns, y);
    a.keep(from, n0 + from, N, a_columns, x);
    b.keep(from, n0 + from, N, b_columns, y);
  }
}

/// Starts the copy of eight numbers from column c on of row n0 + row of N; zeros outside.
CT_DEVICE void take_eight(const auto& tile, const HeadRows<std::uint16_t>& rows, int row, int c, int n0,
                          int N, int C) {
  const bool inside = n0 + row < N && c < C;
  const std::uint16_t* from = rows(inside ? n0 + row : 0) + (inside ? c : 0);
  copy_async_or_zero(tile.place(row, c), from, inside ? 16 : 0);
}
/// Rows n0 .. n0 + count of N as rows of a tile from its first, of operands; by kTeam threads, of which this is number `thread`.
/// They come in the background: then copies_end() and a barrier.
template <int kTeam, class Tile>
CT_DEVICE void take_rows(int thread, const Tile& tile, const HeadRows<std::uint16_t>& rows, int n0, int count,
                         int N, int C) {
  constexpr int kAcross = Tile::kD / 8;
#pragma unroll 4
  for (int row = thread / kAcross; row < count; row += kTeam / kAcross)
    take_eight(tile, rows, row, thread % kAcross * 8, n0, N, C);
}
/// The same of kTileRows rows.
template <int kTeam, class Tile>
CT_DEVICE void take_tile(int thread, const Tile& tile, const HeadRows<std::uint16_t>& rows, int n0, int N,
                         int C) {
  constexpr int kAcross = Tile::kD / 8;
  static_assert(kTileRows * kAcross % kTeam == 0);
  CT_UNROLL(int at = 0; at < kTileRows * kAcross; at += kTeam)
    take_eight(tile, rows, (at + thread) / kAcross, thread % kAcross * 8, n0, N, C);
}

/// load() of operands.
template <int kRows, class Tile>
CT_DEVICE void load(const Tile& a, const HeadRows<std::uint16_t>& a_rows, int a_columns, const Tile& b,
                    const HeadRows<std::uint16_t>& b_rows, int b_columns, int n0, int N) {
  take_rows<kTileThreads>(threadIdx.x, a, a_rows, n0, kRows, N, a_columns);
  take_rows<kTileThreads>(threadIdx.x, b, b_rows, n0, kRows, N, b_columns);
  copies_end();
}

/// Descriptors of what wgmma takes from a swizzled tile: 16 columns from `at` of all rows, to sum over; 16 rows of all columns.
template <class Tile>
CT_DEVICE std::uint64_t swizzled_columns(const std::uint16_t* at) {
  return wgmma_operand<16, 16 * Tile::kD>(at) | std::uint64_t{1} << 62;
}
template <class Tile>
CT_DEVICE std::uint64_t swizzled_rows(const std::uint16_t* at) {
  return wgmma_operand<2 * Tile::kPiece, 16 * Tile::kD>(at) | std::uint64_t{1} << 62;
}

/// c += a b, 16 x 8 by 8 x 8, of what NumberFormat::of() made.
template <Precision kPrecision>
CT_DEVICE void multiply_add(float (&c)[4], const float (&a)[4], float b0, float b1) {
  if constexpr (kPrecision == Precision::full) {
    unsigned high[4], low[4], b_high[2], b_low[2];
    CT_FOR(i, 4) split(a[i], high[i], low[i]);
    split(b0, b_high[0], b_low[0]), split(b1, b_high[1], b_low[1]);
    mma_halves(c, high, low, b_high, b_low);
  } else {
    const unsigned x[4] = {__float_as_uint(a[0]), __float_as_uint(a[1]), __float_as_uint(a[2]),
                           __float_as_uint(a[3])};
    mma_tf32(c, x, __float_as_uint(b0), __float_as_uint(b1));
  }
}

/// c = x y^T: rows r0 .. r0 + 16 of x by rows n0 .. of y. A lane has rows l/4 and l/4 + 8 (c[.][0..1],
/// c[.][2..3]) and of every 8 columns numbers 2 (l % 4) and the next.
template <class Tile, int kCount>
CT_DEVICE void scores(const Tile& x, int r0, const Tile& y, int n0, float (&c)[kCount][4]) {
  constexpr int kStep = Tile::kStep;
  const int lane = threadIdx.x % 32;
  CT_FOR2(n, kCount, e, 4) c[n][e] = 0;
  if constexpr (Tile::kWgmma) {
    wgmma_begin_with(c);
    CT_UNROLL(int k = 0; k < Tile::kD; k += 16)
      wgmma_bf16(c, swizzled_columns<Tile>(x.place(0, k)), swizzled_columns<Tile>(y.place(n0, k)), true);
    wgmma_end(c);
  } else if constexpr (Tile::kHalf) {
    const int row = n0 + lane % 8 + lane / 16 * 8, column = lane / 8 % 2 * 8;
    CT_UNROLL(int k = 0; k < Tile::kD; k += 16) {
      unsigned a[4], b[4];
      load_matrices<false>(a, x.place(r0 + lane % 16, k + lane / 16 * 8));
      CT_UNROLL(int n = 0; n < kCount; n += 2) {
        load_matrices<false>(b, y.place(row + n * 8, column + k));
        mma_bf16(c[n], c[n + 1], a, b);
      }
    }
  } else {
    const float* xs = x.numbers + (r0 + lane / 4) * kStep + lane % 4;
    const float* ys = y.numbers + (n0 + lane / 4) * kStep + lane % 4;
    // The tensor cores cut when they add: where that would show, sums of few terms, added by the CUDA cores.
    constexpr int kRun = Tile::kPrecision == Precision::full ? 32 : Tile::kD;
    CT_UNROLL(int k0 = 0; k0 < Tile::kD; k0 += kRun) {
      float part[kCount][4] = {};
      CT_UNROLL(int k = k0; k < k0 + kRun; k += 8) {
        const float a[4] = {xs[k], xs[8 * kStep + k], xs[k + 4], xs[8 * kStep + k + 4]};
        CT_FOR(n, kCount)
          multiply_add<Tile::kPrecision>(part[n], a, ys[n * 8 * kStep + k], ys[n * 8 * kStep + k + 4]);
      }
      CT_FOR2(n, kCount, e, 4) c[n][e] += part[n][e];
    }
  }
}

/// Rows r0 .. r0 + 16 of x as operands in registers, and the scores of those (bf16).
template <class Tile>
CT_DEVICE void operands(const Tile& x, int r0, unsigned (&rows)[Tile::kD / 16][4]) {
  const int lane = threadIdx.x % 32;
  CT_FOR(k, Tile::kD / 16)
    load_matrices<false>(rows[k], x.numbers + (r0 + lane % 16) * Tile::kStep + lane / 16 * 8 + 16 * k);
}
template <class Tile, int kCount>
CT_DEVICE void scores(const unsigned (&rows)[Tile::kD / 16][4], const Tile& y, int n0,
                      float (&c)[kCount][4]) {
  const int lane = threadIdx.x % 32;
  const auto* ys = y.numbers + (n0 + lane % 8 + lane / 16 * 8) * Tile::kStep + lane / 8 % 2 * 8;
  CT_FOR(n, kCount) c[n][0] = c[n][1] = c[n][2] = c[n][3] = 0;
  CT_FOR(k, Tile::kD / 16) {
    unsigned b[4];
    CT_UNROLL(int n = 0; n < kCount; n += 2) {
      load_matrices<false>(b, ys + n * 8 * Tile::kStep + 16 * k);
      mma_bf16(c[n], c[n + 1], rows[k], b);
    }
  }
}

/// sums += w y: weights w as scores() lays them by rows n0 .. of y. Lanes of `sums` as of scores.
template <class Tile, int kCount>
CT_DEVICE void mix(const float (&w)[kCount][4], const Tile& y, int n0, float (&sums)[Tile::kD / 8][4]) {
  constexpr int kStep = Tile::kStep;
  const int lane = threadIdx.x % 32;
  if constexpr (Tile::kWgmma) {
    unsigned a[kCount / 2][4];
    CT_FOR2(j, kCount, e, 2) {
      a[j / 2][j % 2 * 2 + e] = bf16_pair(w[j][2 * e], w[j][2 * e + 1]);
      asm volatile("" : "+r"(a[j / 2][j % 2 * 2 + e]));  // made before products begin
    }
    wgmma_begin_with(sums);
    CT_FOR(j, kCount / 2) {
      CT_UNROLL(int n = 0; n < Tile::kD; n += 128)
        wgmma_bf16<true>(reinterpret_cast<float(&)[16][4]>(sums[n / 8]), a[j],
                         swizzled_rows<Tile>(y.place(n0 + 16 * j, n)), true);
    }
    wgmma_end(sums);
  } else if constexpr (Tile::kHalf) {
    CT_UNROLL(int j = 0; j < kCount; j += 2) {
      const unsigned a[4] = {bf16_pair(w[j][0], w[j][1]), bf16_pair(w[j][2], w[j][3]),
                             bf16_pair(w[j + 1][0], w[j + 1][1]), bf16_pair(w[j + 1][2], w[j + 1][3])};
      CT_UNROLL(int n = 0; n < Tile::kD / 8; n += 2) {
        unsigned b[4];
        load_matrices<true>(b, y.place(n0 + lane % 16 + j * 8, lane / 16 * 8 + n * 8));
        mma_bf16(sums[n], sums[n + 1], a, b);
      }
    }
  } else {
    // mma's k 0..3 are the even tokens here and 4..7 the odd ones: then a lane has its operand already.
    const float* ys = y.numbers + (n0 + 2 * (lane % 4)) * kStep + lane / 4;
    CT_FOR(n, Tile::kD / 8) {
      float part[4] = {};
      CT_FOR(j, kCount) {
        const float a[4] = {Tile::Format::of(w[j][0]), Tile::Format::of(w[j][2]), Tile::Format::of(w[j][1]),
                            Tile::Format::of(w[j][3])};
        multiply_add<Tile::kPrecision>(part, a, ys[j * 8 * kStep + n * 8], ys[(j * 8 + 1) * kStep + n * 8]);
      }
      CT_FOR(e, 4) sums[n][e] += part[e];
    }
  }
}

/// This lane's numbers of `sums` times factor[row] into rows n0 .. of N rows of C.
template <int kCount>
CT_DEVICE void store(Write mode, const HeadRows<float>& rows, int n0, int N, int C,
                     const float (&sums)[kCount][4], const float (&factor)[2]) {
  const int lane = threadIdx.x % 32;
  const bool pairs = C % 2 == 0 && is_aligned16(rows.first) && mode == Write::overwrite;
  CT_FOR(half, 2) {
    const int row = n0 + lane / 4 + 8 * half;
    if (row >= N) continue;
    float* to = rows(row) + 2 * (lane % 4);
    CT_FOR(n, kCount) {
      const int c = n * 8 + 2 * (lane % 4);
      const float x = factor[half] * sums[n][2 * half], y = factor[half] * sums[n][2 * half + 1];
      if (pairs) {
        if (c < C) *reinterpret_cast<float2*>(to + n * 8) = make_float2(x, y);
      } else {
        if (c < C) put(mode, to + n * 8, x);
        if (c + 1 < C) put(mode, to + n * 8 + 1, y);
      }
    }
  }
}

/// This lane's numbers of `sums` times factor[row] into rows n0 .. of N rows of C: operands as 16 bytes a
/// lane, which the four lanes of a row exchange.
template <int kCount>
CT_DEVICE void store(Write, const HeadRows<std::uint16_t>& rows, int n0, int N, int C,
                     const float (&sums)[kCount][4], const float (&factor)[2]) {
  const int lane = threadIdx.x % 32;
  const bool odd = lane % 2 == 1, high = lane % 4 > 1;
  CT_FOR(half, 2) {
    const int row = n0 + lane / 4 + 8 * half;
    CT_UNROLL(int n = 0; n < kCount; n += 4) {
      unsigned v[4];
      CT_FOR(i, 4)
        v[i] = bf16_pair(factor[half] * sums[n + i][2 * half], factor[half] * sums[n + i][2 * half + 1]);
      const unsigned a = __shfl_xor_sync(kFullWarp, odd ? v[0] : v[1], 1),
                     b = __shfl_xor_sync(kFullWarp, odd ? v[2] : v[3], 1);
      const uint2 low = odd ? make_uint2(a, v[1]) : make_uint2(v[0], a),
                  top = odd ? make_uint2(b, v[3]) : make_uint2(v[2], b);
      const unsigned x = __shfl_xor_sync(kFullWarp, high ? low.x : top.x, 2),
                     y = __shfl_xor_sync(kFullWarp, high ? low.y : top.y, 2);
      const int c = (n + lane % 4) * 8;
      if (row < N && c < C)
        *reinterpret_cast<uint4*>(rows(row) + c) =
            high ? make_uint4(x, y, top.x, top.y) : make_uint4(low.x, low.y, x, y);
    }
  }
}
}  // namespace crosstalk::device

// Affine maps of one input where rows are operands in bf16 already, by wgmma where there is such a thing,
// else by mma.
//
// Weights of all outputs lie in shared memory in blocks of 64 outputs, the last two of them of narrow outputs (gates of heads),
// each from a multiple of 16 on; four warps own 64 rows at a time and wait for no others. Their rows come in the background while those before are multiplied. Who computes a row
// does not show in its bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/linear/joined_linear_tiles.cuh"
#include "kernels/matmul/row_tile.cuh"
#include "kernels/matmul/wgmma_bf16.cuh"

namespace crosstalk::device {

constexpr int kOwners = kJoinedThreads / 128;  ///< of rows, in a block

template <int D>
struct RowBlocks {
  static constexpr int kBlock = D / 8 * kWgmmaLine;  ///< numbers of a block of 64 outputs
  static constexpr int kStep = D + 8, kTile = kWgmmaRows * kStep;
  CT_HD static int blocks(const LinearSlabs& s) { return (s.columns + kWgmmaRows - 1) / kWgmmaRows; }
  static std::size_t bytes(const LinearSlabs& s) {
    return static_cast<std::size_t>(blocks(s) * kBlock + kOwners * kTile) * sizeof(std::uint16_t) +
           static_cast<std::size_t>(blocks(s) * kWgmmaRows) * sizeof(float);
  }

  /// Weights as operands, eight neighbours a thread; zeros where there is no output.
  static __device__ void load(const JoinedLinear<float>& a, const LinearSlabs& s, int r, const int2* list,
                              std::uint16_t* to) {
#pragma unroll 4
    for (int at = threadIdx.x; at < blocks(s) * kWgmmaRows * (D / 8); at += kJoinedThreads) {
      const int c = at / (D / 8), i = at % (D / 8);
      const int2 of = list[min(c, s.columns - 1) / 16];
      const bool there = c < s.columns && of.y + c % 16 < a.w[of.x].value.dim(0);
      const auto* from = reinterpret_cast<const Four<float>*>(
          a.w[of.x].value.at(r) + std::int64_t{there ? of.y + c % 16 : 0} * D + 8 * i);
      uint2 low = pairs_of(from[0]), high = pairs_of(from[1]);
      if (!there) low = high = make_uint2(0, 0);
      *reinterpret_cast<uint4*>(to + c / kWgmmaRows * kBlock + i * kWgmmaLine + c % kWgmmaRows * 8) =
          make_uint4(low.x, low.y, high.x, high.y);
    }
  }
  /// Starts the copies of rows n0 .. n0 + 63 of N, of D numbers, by four warps.
  static __device__ void request(std::uint16_t* from, int ld, int n0, int N, std::uint16_t* tile) {
    take_tile<128>(threadIdx.x % 128, OperandRows<D>{tile}, {from, ld}, n0, N, D);
  }
  /// Four warps' own barrier.
  static __device__ void meet() {
    asm volatile("bar.sync %0, %1;" ::"r"(CT_THREAD / 128 + 1), "n"(128) : "memory");
  }
  /// Brings the rows that request() copied to registers, as operands; then the tile is free.
  static __device__ void collect(std::uint16_t* tile, unsigned (&rows)[D / 16][4]) {
    copies_end();
    meet();
    operands(OperandRows<D>{tile}, CT_WARP % 4 * 16, rows);
    meet();
  }
};

/// Stores this lane's sums into columns first .. first + 8 kCount - 1 of rows of floats, or in bf16.
template <int kCount>
CT_DEVICE void store_rows(Write mode, float* rows, bool is_bf16, int ld, int first, int n0, int N,
                          const float (&sums)[kCount][4]) {
  const float one[2] = {1, 1};
  if (is_bf16) {
    store(mode, HeadRows<std::uint16_t>(reinterpret_cast<std::uint16_t*>(rows) + first, ld), n0, N,
          8 * kCount, sums, one);
  } else {
    store(mode, HeadRows<float>(rows + first, ld), n0, N, 8 * kCount, sums, one);
  }
}

/// Columns of narrow outputs from a multiple of 16 on: where they lie, in either format.
struct NarrowColumns {
  float* rows;
  bool is_bf16;
  int ld, first, N;
  __device__ NarrowColumns(const Tensor<float>& of, int r, int ld_, int first_)
      : rows(of.at(r)), is_bf16(of.is_bf16()), ld(ld_), first(first_), N(static_cast<int>(of.rows())) {}
  __device__ bool has(int row, int c) const { return row < N && first + c < ld; }
  __device__ std::int64_t at(int row, int c) const { return std::int64_t{row} * ld + first + c; }
  /// Number (row, c) and the next as operands, 0 outside.
  __device__ unsigned operands(int row, int c) const {
    float x[2];
    CT_FOR(e, 2) {
      x[e] = 0;
      if (!has(row, c + e)) continue;
      x[e] = is_bf16 ? __uint_as_float(reinterpret_cast<const std::uint16_t*>(rows)[at(row, c + e)] << 16)
                     : rows[at(row, c + e)];
    }
    return bf16_pair(x[0], x[1]);
  }
  __device__ void put(int row, int c, float x) const {
    if (!has(row, c)) return;
    if (is_bf16)
      reinterpret_cast<std::uint16_t*>(rows)[at(row, c)] = static_cast<std::uint16_t>(bf16_pair(x, 0));
    else
      rows[at(row, c)] = x;
  }
};

template <int D>
__global__ void __launch_bounds__(kJoinedThreads, 1)
    map_rows(const __grid_constant__ JoinedLinear<float> a, const __grid_constant__ LinearSlabs s) {
  wait_for_earlier();
  using Rows = RowBlocks<D>;
  constexpr int kCount = kWgmmaRows / 8;
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ int2 list[LinearSlabs::kMostColumns / 16];
  auto* const ws = reinterpret_cast<std::uint16_t*>(memory);
  const int blocks = Rows::blocks(s), whole = s.whole_columns(kWgmmaRows) / kWgmmaRows,
            owner = CT_THREAD / 128, lane = threadIdx.x % 32, r0 = CT_WARP % 4 * 16;
  std::uint16_t* const tile_at = ws + blocks * Rows::kBlock + owner * Rows::kTile;
  auto* const bias = reinterpret_cast<float*>(ws + blocks * Rows::kBlock + kOwners * Rows::kTile);
  const int r = blockIdx.y, N = static_cast<int>(a.x.value.rows()), tiles = (N + kWgmmaRows - 1) / kWgmmaRows,
            walkers = kOwners * static_cast<int>(gridDim.x);
  auto* const x = reinterpret_cast<std::uint16_t*>(a.x.value.at(r));
  int tile = owner * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x);
  if (tile < tiles) Rows::request(x, D, tile * kWgmmaRows, N, tile_at);
  list_columns(s, list);
  __syncthreads();
  Rows::load(a, s, r, list, ws);
  for (int c = CT_THREAD; c < blocks * kWgmmaRows; c += kJoinedThreads) {
    const int2 of = list[min(c, s.columns - 1) / 16];
    const Tensor<float>& b = a.b[of.x].value;
    bias[c] = b && c < s.columns && of.y + c % 16 < b.columns() ? b.at(r)[of.y + c % 16] : 0;
  }
  fence_async();
  __syncthreads();
  for (; tile < tiles; tile += walkers) {
    unsigned rows[D / 16][4];
    Rows::collect(tile_at, rows);
    if (tile + walkers < tiles) Rows::request(x, D, (tile + walkers) * kWgmmaRows, N, tile_at);
    CT_ROLLED(int b = 0; b < blocks; ++b) {
      float y[kCount][4];
      CT_FOR(n, kCount) {
        const float2 at = *reinterpret_cast<const float2*>(bias + b * kWgmmaRows + n * 8 + 2 * (lane % 4));
        y[n][0] = y[n][2] = at.x, y[n][1] = y[n][3] = at.y;
      }
      wgmma_begin_with(y);
      CT_FOR(k, D / 16) multiply_block<false>(y, rows[k], ws + b * Rows::kBlock, 16 * k);
      wgmma_end(y);
      if (b >= whole) {
        CT_FOR(n, kCount) {
          if (b * kWgmmaRows + n * 8 >= s.columns) continue;
          const int2 of = list[(b * kWgmmaRows + n * 8) / 16];
          const NarrowColumns to(a.y[of.x].value, r, a.w[of.x].value.dim(0), of.y);
          CT_FOR(e, 4)
            to.put(tile * kWgmmaRows + r0 + lane / 4 + e / 2 * 8, n % 2 * 8 + 2 * (lane % 4) + e % 2,
                   y[n][e]);
        }
        continue;
      }
      const int2 of = list[b * (kWgmmaRows / 16)];
      store_rows(Write::overwrite, a.y[of.x].value.at(r), a.y[of.x].value.is_bf16(), a.w[of.x].value.dim(0),
                 of.y, tile * kWgmmaRows + r0, N, y);
    }
  }
}

/// d_x = sum_i d_y_i W_i, D outputs at a time.
template <int D>
__global__ void __launch_bounds__(kJoinedThreads, 1)
    map_rows_back(const __grid_constant__ JoinedLinear<float> a, const __grid_constant__ LinearSlabs s) {
  wait_for_earlier();
  using Rows = RowBlocks<D>;
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ int2 list[LinearSlabs::kMostColumns / 16];
  auto* const ws = reinterpret_cast<std::uint16_t*>(memory);
  const int whole = s.whole_columns(D), chunks = whole / D, owner = CT_THREAD / 128, lane = threadIdx.x % 32,
            r0 = CT_WARP % 4 * 16;
  std::uint16_t* const tile_at = ws + Rows::blocks(s) * Rows::kBlock + owner * Rows::kTile;
  const int r = blockIdx.y, N = static_cast<int>(a.x.gradient.rows()),
            tiles = (N + kWgmmaRows - 1) / kWgmmaRows, walkers = kOwners * static_cast<int>(gridDim.x);
  int tile = owner * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x);
  list_columns(s, list);
  __syncthreads();
  const auto request = [&](int t, int chunk) {
    if (t >= tiles) return;
    const int2 of = list[chunk * (D / 16)];
    Rows::request(reinterpret_cast<std::uint16_t*>(a.y[of.x].gradient.at(r)) + of.y, a.w[of.x].value.dim(0),
                  t * kWgmmaRows, N, tile_at);
  };
  request(tile, 0);
  Rows::load(a, s, r, list, ws);
  fence_async();
  __syncthreads();
  for (; tile < tiles; tile += walkers) {
    float sums[D / 8][4] = {};
    CT_ROLLED(int chunk = 0; chunk < chunks; ++chunk) {
      unsigned rows[D / 16][4];
      Rows::collect(tile_at, rows);
      const bool last = chunk + 1 == chunks;
      request(last ? tile + walkers : tile, last ? 0 : chunk + 1);
      wgmma_begin_with(sums);
      CT_FOR(k, D / 16)
        multiply_block<true>(sums, rows[k], ws + (chunk * (D / kWgmmaRows) + k / 4) * Rows::kBlock,
                             k % 4 * 16);
      wgmma_end(sums);
    }
    CT_ROLLED(int c = whole; c < s.columns; c += 16) {
      const int2 of = list[c / 16];
      const NarrowColumns from(a.y[of.x].gradient, r, a.w[of.x].value.dim(0), of.y);
      const int row = tile * kWgmmaRows + r0 + lane / 4, column = 2 * (lane % 4);
      const unsigned rows[4] = {from.operands(row, column), from.operands(row + 8, column),
                                from.operands(row, column + 8), from.operands(row + 8, column + 8)};
      wgmma_begin_with(sums);
      multiply_block<true>(sums, rows, ws + c / kWgmmaRows * Rows::kBlock, c % kWgmmaRows);
      wgmma_end(sums);
    }
    store_rows(a.x.write, a.x.gradient.at(r), a.x.value.is_bf16(), D, 0, tile * kWgmmaRows + r0, N, sums);
  }
}

/// True if there are widths of whole blocks, what is narrow fits two more, and all fit shared memory.
template <int D>
bool in_row_blocks(const LinearSlabs& s, int unit) {
  const int whole = s.whole_columns(unit);
  return s.inputs == D && whole > 0 && s.columns - whole <= 2 * kWgmmaRows &&
         RowBlocks<D>::bytes(s) + LinearSlabs::kListBytes <= shared_memory_limit();
}

}  // namespace crosstalk::device

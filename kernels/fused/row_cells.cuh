// A matrix in the registers of a block: four lanes a row, a warp eight rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <type_traits>

#include "kernels/base/device/cuda_launch.cuh"

namespace crosstalk::device {

/// Numbers of a row of `columns` (64 at most) that a thread has: 4, 8 or 16.
constexpr int row_cells(int columns) { return columns <= 16 ? 4 : columns <= 32 ? 8 : 16; }
/// f(row_cells(columns)), a std::integral_constant.
void with_row_cells(int columns, auto&& f) { with_value<4, 8, 16>(row_cells(columns), f); }

/// f(query) for those that see n of T tokens, by all lanes of a warp; without positions query n - 1 does.
__device__ void each_seeing(const std::int32_t* position, int Q, int T, int n, auto&& f) {
  const int lane = CT_LANE, stop = position ? Q : n;
  for (int start = position || n == 0 ? 0 : n - 1; start < stop; start += 32) {
    unsigned found =
        position ? __ballot_sync(kFullWarp, start + lane < Q && clamped(position[start + lane], T) == n) : 1u;
    for (; found; found &= found - 1) f(start + __ffs(static_cast<int>(found)) - 1);
  }
}

/// A thread's part of a state: C columns of a row, four neighbours every 16 columns.
template <int C>
struct RowCells {
  int warp = CT_WARP, lane = CT_LANE;
  int part = lane % 4, row = warp * 8 + lane / 4;

  __device__ int column(int c) const { return c / 4 * 16 + part * 4 + c % 4; }
  /// The columns' numbers of a row vector in shared memory.
  __device__ void columns_of(const float* x, float (&to)[C]) const {
    CT_UNROLL(int c = 0; c < C; c += 4) read4(x + c * 4 + part * 4, to + c);
  }
  /// W x of the row, the same bits in its four lanes.
  __device__ float product(const float (&W)[C], const float* x) const {
    float at[C];
    columns_of(x, at);
    return product(W, at);
  }
  __device__ float product(const float (&W)[C], const float (&at)[C]) const {
    float sums[4] = {};
    CT_FOR(c, C) sums[c % 4] += W[c] * at[c];
    return over_row((sums[0] + sums[1]) + (sums[2] + sums[3]));
  }
  __device__ static float over_row(float x) {
    x += __shfl_xor_sync(kFullWarp, x, 1);
    return x + __shfl_xor_sync(kFullWarp, x, 2);
  }
  /// Sums over the warp's rows, to [4 C] numbers of its own.
  __device__ void over_rows(float (&x)[C], float* to) const {
    scatter_sum<C, 16, 4>(x);
    if constexpr (C == 16)
      to[column(lane / 4 * 2)] = x[0], to[column(lane / 4 * 2 + 1)] = x[1];
    else if constexpr (C == 8)
      to[column(lane / 4)] = x[0];
    else if (lane / 4 % 2 == 0)
      to[column(lane / 8)] = x[0];
  }
  /// A state as each thread keeps it for itself: a warp's numbers are neighbours.
  __device__ void keep(float* to, const float (&W)[C]) const {
    CT_UNROLL(int c = 0; c < C; c += 4)
      *reinterpret_cast<Four<float>*>(to + warp * 32 * C + c * 32 +
                                      lane * 4) = {{W[c], W[c + 1], W[c + 2], W[c + 3]}};
  }
  __device__ void recall(const float* from, float (&W)[C]) const {
    CT_UNROLL(int c = 0; c < C; c += 4) read4(from + warp * 32 * C + c * 32 + lane * 4, W + c);
  }
  /// The columns' numbers of a row [K] in global memory.
  __device__ void columns_of(const float* x, int K, float (&to)[C]) const {
    CT_FOR(c, C) to[c] = column(c) < K ? x[column(c)] : 0.0f;
  }
  /// A matrix [V,K] of the op's; absent: zeros.
  __device__ void load(const float* from, int V, int K, float (&W)[C]) const {
    CT_FOR(c, C) W[c] = from && row < V && column(c) < K ? from[row * K + column(c)] : 0.0f;
  }
  __device__ void store(Write mode, float* to, int V, int K, const float (&W)[C]) const {
    CT_FOR(c, C)
      if (row < V && column(c) < K) put(mode, to + row * K + column(c), W[c]);
  }

 private:
  __device__ static void read4(const float* from, float* to) {
    const Four<float> four = *reinterpret_cast<const Four<float>*>(from);
    CT_FOR(i, 4) to[i] = four.v[i];
  }
};

}  // namespace crosstalk::device

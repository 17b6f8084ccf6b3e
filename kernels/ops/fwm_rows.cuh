// Rows of the fast weight memory's state in registers: L lanes a row, E columns and N rows a lane; what their
// kernels (ops/fwm_registers.cuh) do with them, and which layout a shape gets.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <type_traits>

#include "kernels/base/cuda_launch.cuh"
#include "kernels/batch.h"
#include "kernels/ops/fwm.h"

namespace crosstalk::device {

constexpr int kFwmWarps = 16;      // most warps a block
constexpr int kFwmHalf = 4;        // steps whose column sums are added up together
constexpr int kFwmLargest = 1024;  // c is brought back to 1 beyond it, gamma below its inverse

template <class Real, int L, int E, int N, int Warps>
struct FwmRows {
  static constexpr int kGroups = 32 / L, kKept = E / kGroups, kRowsAWarp = N * kGroups;
  int T, P, V, C, warps, warp, lane;
  const Real *k, *beta;
  const std::int32_t* tokens;
  Real* parts;  // shared [2][kFwmWarps], zero
  int phase;

  template <class Args>
  __device__ FwmRows(const Args& a, int V_, Real* parts_)
      : T(a.k.dim(1)),
        P(a.k.dim(2)),
        V(V_),
        C(a.tokens.columns()),
        warps(static_cast<int>(blockDim.x / 32)),
        warp(static_cast<int>(threadIdx.x / 32)),
        lane(static_cast<int>(threadIdx.x % 32)),
        parts(parts_),
        phase(0) {
    const std::int64_t sequence = static_cast<std::int64_t>(blockIdx.x) * T;
    const int r = blockIdx.y;
    k = a.k.at(r) + sequence * P;
    beta = a.beta.at(r) + sequence;
    tokens = a.tokens.at(r) + sequence * C;
    if (threadIdx.x < 2 * kFwmWarps) parts[threadIdx.x] = 0;
    __syncthreads();
  }
  __device__ const Real* key(int t) const { return k + static_cast<std::int64_t>(t) * P; }
  __device__ int value(int t) const { return tokens[static_cast<std::int64_t>(t) * C + channel_value]; }
  __device__ int row(int i) const { return (warp * N + i) * kGroups + lane / L; }
  __device__ int column(int j) const { return 4 * (lane % L + L * j); }  // of the j-th four
  __device__ bool leads() const { return lane % L == 0; }                // one lane a row

  __device__ void load(const Real* p, Real (&x)[E]) const {
#pragma unroll
    for (int j = 0; j < E / 4; ++j) {
      Four<Real> four = {};
      if (column(j) < P) four = *reinterpret_cast<const Four<Real>*>(p + column(j));
#pragma unroll
      for (int i = 0; i < 4; ++i) x[4 * j + i] = four.v[i];
    }
  }
  __device__ void load(const Real* p, Real (&x)[N][E]) const {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (row(i) < V) {
        load(p + static_cast<std::int64_t>(row(i)) * P, x[i]);
      } else {
#pragma unroll
        for (int j = 0; j < E; ++j) x[i][j] = 0;
      }
    }
  }
  __device__ void store(Real* p, const Real (&x)[N][E]) const {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (row(i) >= V) continue;
#pragma unroll
      for (int j = 0; j < E / 4; ++j) {
        if (column(j) >= P) continue;
        const Four<Real> four = {x[i][4 * j], x[i][4 * j + 1], x[i][4 * j + 2], x[i][4 * j + 3]};
        *reinterpret_cast<Four<Real>*>(p + static_cast<std::int64_t>(row(i)) * P + column(j)) = four;
      }
    }
  }
  __device__ static void scale(Real (&x)[N][E], Real s) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
#pragma unroll
      for (int j = 0; j < E; ++j) x[i][j] *= s;
    }
  }
  __device__ static Real share(const Real (&x)[E], const Real (&y)[E]) {
    Real even = 0, odd = 0;
#pragma unroll
    for (int j = 0; j < E; j += 2) {
      even += x[j] * y[j];
      odd += x[j + 1] * y[j + 1];
    }
    return even + odd;
  }
  /// Sums over the lanes of a row.
  __device__ static void row_sums(Real (&x)[N]) {
#pragma unroll
    for (int offset = L / 2; offset > 0; offset /= 2) {
#pragma unroll
      for (int i = 0; i < N; ++i) x[i] += __shfl_xor_sync(kFullWarp, x[i], offset);
    }
  }
  /// x q by rows.
  __device__ static void products(const Real (&x)[N][E], const Real (&q)[E], Real (&y)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) y[i] = share(x[i], q);
    row_sums(y);
  }
  /// Sum over the rows of a warp of what each row's lanes hold.
  __device__ static Real sum_of_rows(Real x) {
#pragma unroll
    for (int offset = L; offset < 32; offset *= 2) x += __shfl_xor_sync(kFullWarp, x, offset);
    return x;
  }
  /// Sum over the block of what each lane holds; one barrier.
  __device__ Real block_sum(Real x) {
    x = warp_sum(x);
    Real* buffer = parts + phase * kFwmWarps;  // two buffers in turn
    phase ^= 1;
    if (lane == 0) buffer[warp] = x;
    __syncthreads();
    Real total[4] = {};
#pragma unroll
    for (int w = 0; w < Warps; w += 4) {
      const Four<Real> four = *reinterpret_cast<const Four<Real>*>(buffer + w);
#pragma unroll
      for (int i = 0; i < 4; ++i) total[i] += four.v[i];
    }
    return (total[0] + total[1]) + (total[2] + total[3]);
  }
  /// x += w now^T; dots = x following by rows. Returns |x|. between() runs before the sums.
  template <class F>
  __device__ Real step(Real (&x)[N][E], const Real (&w)[N], const Real (&now)[E], const Real (&following)[E],
                       Real (&dots)[N], F&& between) {
    Real squares[2] = {};
#pragma unroll
    for (int i = 0; i < N; ++i) {
      Real dot[2] = {};
#pragma unroll
      for (int j = 0; j < E; ++j) {
        x[i][j] += w[i] * now[j];
        dot[j % 2] += x[i][j] * following[j];
        squares[j % 2] += x[i][j] * x[i][j];
      }
      dots[i] = dot[0] + dot[1];
    }
    between();
    row_sums(dots);
    return sqrt(block_sum(squares[0] + squares[1]));
  }
  /// One exchange of the sum over rows: this lane keeps half of its columns.
  template <int Offset>
  __device__ void halve(Real (&x)[E], int& first) const {
    if constexpr (Offset >= L) {
      constexpr int kHalf = E * Offset / 32;
      const bool upper = lane & Offset;
      if (upper) first += kHalf;
#pragma unroll
      for (int j = 0; j < kHalf; ++j) {
        const Real other = __shfl_xor_sync(kFullWarp, upper ? x[j] : x[j + kHalf], Offset);
        x[j] = (upper ? x[j + kHalf] : x[j]) + other;
      }
      halve<Offset / 2>(x, first);
    }
  }
  /// Adds up x over the rows of the warp; sums[0, P) gets the columns.
  __device__ void column_sums(Real (&x)[E], Real* sums) const {
    int first = 0;  // of the kKept columns that stay with this lane
    halve<16>(x, first);
    constexpr int kPiece = kKept < 4 ? kKept : 4;
    struct alignas(kPiece * sizeof(Real) < 16 ? kPiece * sizeof(Real) : 16) Piece {
      Real v[kPiece];
    };
#pragma unroll
    for (int j = 0; j < kKept; j += kPiece) {
      const int m = first + j, at = column(m / 4) + m % 4;
      if (at >= P) continue;
      Piece piece;
#pragma unroll
      for (int i = 0; i < kPiece; ++i) piece.v[i] = x[j + i];
      *reinterpret_cast<Piece*>(sums + at) = piece;
    }
  }
};

/// Calls f(lanes, columns, rows, most warps) with the layout of this shape; false where there is none.
template <class Real, class F>
bool with_fwm_rows(int V, int P, F&& f) {
  using std::integral_constant;
  if (P % 4 != 0) return false;
  const auto call = [&](auto L, auto N, auto warps) {
    constexpr int kLanes = decltype(L)::value, kRows = decltype(N)::value, kMost = decltype(warps)::value;
    if constexpr (kRows <= 4 || sizeof(Real) == sizeof(float)) {
      if (P > kLanes * 8 || V > kMost * kRows * (32 / kLanes)) return false;
      f(L, integral_constant<int, 8>(), N, warps);
      return true;
    }
    return false;
  };
  // What a step costs a warp beside its rows is much, so few warps with many rows a lane, as registers allow.
  const auto with_lanes = [&](auto L) {
    return call(L, integral_constant<int, 1>(), integral_constant<int, 4>()) ||
           call(L, integral_constant<int, 3>(), integral_constant<int, 4>()) ||
           call(L, integral_constant<int, 5>(), integral_constant<int, 4>()) ||
           call(L, integral_constant<int, 7>(), integral_constant<int, 4>()) ||
           call(L, integral_constant<int, 4>(), integral_constant<int, 8>()) ||
           call(L, integral_constant<int, 7>(), integral_constant<int, 8>()) ||
           call(L, integral_constant<int, 9>(), integral_constant<int, 8>()) ||
           call(L, integral_constant<int, 9>(), integral_constant<int, 12>());
  };
  if (P <= 64) return with_lanes(integral_constant<int, 8>());
  if (P <= 128) return with_lanes(integral_constant<int, 16>());
  return with_lanes(integral_constant<int, 32>());
}

}  // namespace crosstalk::device

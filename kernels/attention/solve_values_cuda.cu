// Values through a triangular solve: a block takes a sequence and head and up to 64 channels from tile to tile
// of 32 tokens. What earlier tiles hold is taken out by products; within a tile a thread walks a channel, whose
// 32 numbers it keeps in registers.
//
// Backward is the same solve of reversed tokens: with p = T - 1 - t, (I + Diag(gain) l)^T is lower triangular.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/solve_values.h"
#include "kernels/base/cuda_launch.cuh"
#include "kernels/base/head_rows.h"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kTile = 32, kColumns = 64, kThreads = 256, kWarps = kThreads / 32, kRows = kTile / kWarps;

/// Two operands of a product. A warp owns kRows rows of the first, a lane the columns lane and lane + 32 of the
/// second.
template <class Real>
struct Tiles {
  Real left[kTile][kTile + 4];
  Real right[kTile][kColumns + 1];

  __device__ void subtract_product(Real (&sum)[kRows][2], int warp, int lane) const {
#pragma unroll 8
    for (int k = 0; k < kTile; ++k) {
      const Real first = right[k][lane], second = right[k][lane + 32];
#pragma unroll
      for (int m = 0; m < kRows; ++m) {
        const Real factor = left[warp * kRows + m][k];
        sum[m][0] -= factor * first, sum[m][1] -= factor * second;
      }
    }
  }
};

/// Row p of the triangular matrix stands for token p, or, backward, T - 1 - p.
template <class Real, bool kBack>
struct Factor {
  const Real* l;
  HeadRows<Real> gain;
  int T;
  __device__ int token(int p) const { return kBack ? T - 1 - p : p; }
  /// left[i][j] = entry (p0 + i, q0 + j), 0 on and above the diagonal; lanes run along rows of l.
  __device__ void load(Tiles<Real>& tiles, int p0, int q0, int warp, int lane) const {
    for (int i = warp; i < kTile; i += kWarps) {
      const int p = p0 + (kBack ? lane : i), q = q0 + (kBack ? i : lane);
      Real entry = 0;
      if (p < T && q < p) {
        const int row = kBack ? token(q) : p, column = kBack ? token(p) : q;
        entry = l[static_cast<std::int64_t>(row) * T + column];
        if (gain) entry *= *gain(row);
      }
      tiles.left[kBack ? lane : i][kBack ? i : lane] = entry;
    }
  }
};

// u_P = (1 + n_PP)^-1 (v_P - sum_{Q<P} n_PQ u_Q), tile after tile
template <class Real, bool kBack>
__global__ void __launch_bounds__(kThreads) solve_values(const __grid_constant__ SolveValues<Real> op) {
  __shared__ Tiles<Real> tiles;
  const int T = op.T(), H = op.H(), V = op.V(), cuts = (V + kColumns - 1) / kColumns;
  const int bh = static_cast<int>(blockIdx.x) / cuts,
            column0 = static_cast<int>(blockIdx.x) % cuts * kColumns;
  const int r = static_cast<int>(blockIdx.y), b = bh / H, h = bh % H;
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const HeadRows<Real> from(kBack ? op.u.gradient : op.v.value, r, b, h, T, H, V),
      to(kBack ? op.z.value : op.u.value, r, b, h, T, H, V);
  const Factor<Real, kBack> factor{op.l.value.at(r) + static_cast<std::int64_t>(bh) * T * T,
                                   HeadRows<Real>(op.gain.value, r, b, h, T, H, 1), T};
  const bool there[2] = {column0 + lane < V, column0 + lane + 32 < V};
  for (int p0 = 0; p0 < T; p0 += kTile) {
    Real sum[kRows][2];
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
      const int p = p0 + warp * kRows + m;
#pragma unroll
      for (int c = 0; c < 2; ++c)
        sum[m][c] = p < T && there[c] ? from(factor.token(p))[column0 + lane + 32 * c] : Real(0);
    }
    for (int q0 = 0; q0 < p0; q0 += kTile) {
      factor.load(tiles, p0, q0, warp, lane);
      for (int i = warp; i < kTile; i += kWarps) {
#pragma unroll
        for (int c = 0; c < 2; ++c)
          tiles.right[i][lane + 32 * c] =
              there[c] ? to(factor.token(q0 + i))[column0 + lane + 32 * c] : Real(0);
      }
      __syncthreads();
      tiles.subtract_product(sum, warp, lane);
      __syncthreads();
    }
    factor.load(tiles, p0, p0, warp, lane);
#pragma unroll
    for (int m = 0; m < kRows; ++m)
      tiles.right[warp * kRows + m][lane] = sum[m][0], tiles.right[warp * kRows + m][lane + 32] = sum[m][1];
    __syncthreads();
    if (thread < kColumns) {
      Real solved[kTile];
#pragma unroll
      for (int i = 0; i < kTile; ++i) {
        solved[i] = tiles.right[i][thread];
#pragma unroll
        for (int j = 0; j < i; ++j) solved[i] -= tiles.left[i][j] * solved[j];
        tiles.right[i][thread] = solved[i];
      }
    }
    __syncthreads();
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
      const int p = p0 + warp * kRows + m;
      if (p >= T) continue;
      const int t = factor.token(p);
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int column = column0 + lane + 32 * c;
        if (!there[c]) continue;
        const Real x = tiles.right[warp * kRows + m][lane + 32 * c];
        to(t)[column] = x;
        if (kBack && op.v.wanted())
          put(op.v.write, HeadRows<Real>(op.v.gradient, r, b, h, T, H, V)(t) + column, x);
      }
    }
    __syncthreads();  // the next tile reads what this one wrote, and writes into the tiles
  }
}

// d_n_ij = -z_i . u_j below the diagonal; d_l = gain d_n, d_gain_i = sum_j l_ij d_n_ij. A block takes 32 rows i.
template <class Real>
__global__ void __launch_bounds__(kThreads)
    solve_values_gradients(const __grid_constant__ SolveValues<Real> op) {
  __shared__ Tiles<Real> tiles;
  const int T = op.T(), H = op.H(), V = op.V(), cuts = (T + kTile - 1) / kTile;
  const int bh = static_cast<int>(blockIdx.x) / cuts, first = static_cast<int>(blockIdx.x) % cuts * kTile;
  const int r = static_cast<int>(blockIdx.y), b = bh / H, h = bh % H;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const HeadRows<Real> u(op.u.value, r, b, h, T, H, V), z(op.z.value, r, b, h, T, H, V),
      gain(op.gain.value, r, b, h, T, H, 1);
  const std::int64_t square = static_cast<std::int64_t>(bh) * T * T;
  Real d_gain[kRows] = {};
  for (int j0 = 0; j0 < T; j0 += kColumns) {
    Real sum[kRows][2] = {};
    if (j0 < first + kTile) {
      for (int c0 = 0; c0 < V; c0 += kTile) {
        const bool there = c0 + lane < V;
        for (int i = warp; i < kTile; i += kWarps)
          tiles.left[i][lane] = there && first + i < T ? z(first + i)[c0 + lane] : Real(0);
        for (int j = warp; j < kColumns; j += kWarps)
          tiles.right[lane][j] = there && j0 + j < T ? u(j0 + j)[c0 + lane] : Real(0);
        __syncthreads();
        tiles.subtract_product(sum, warp, lane);
        __syncthreads();
      }
    }
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
      const int i = first + warp * kRows + m;
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int j = j0 + lane + 32 * c;
        if (i >= T || j >= T) continue;
        const std::int64_t entry = square + static_cast<std::int64_t>(i) * T + j;
        const bool below = j < i;
        if (below) d_gain[m] += op.l.value.at(r)[entry] * sum[m][c];
        if (op.l.wanted() && (below || op.l.write == Write::overwrite))
          put(op.l.write, op.l.gradient.at(r) + entry,
              !below ? Real(0)
              : gain ? sum[m][c] * *gain(i)
                     : sum[m][c]);
      }
    }
  }
  if (!op.gain.wanted()) return;
#pragma unroll
  for (int m = 0; m < kRows; ++m) {
    const int i = first + warp * kRows + m;
    const Real sum = warp_sum(d_gain[m]);
    if (i < T && lane == 0) put(op.gain.write, HeadRows<Real>(op.gain.gradient, r, b, h, T, H, 1)(i), sum);
  }
}

template <class Real>
dim3 grid(const SolveValues<Real>& op, int along, int tile) {
  return dim3(blocks_for(along, tile) * static_cast<unsigned>(op.B() * op.H()),
              static_cast<unsigned>(op.v.value.R));
}

}  // namespace

template <class Real>
void forward_cuda(const Exec& exec, const SolveValues<Real>& op) {
  if (op.u.value.size() == 0 || op.u.value.R == 0) return;
  solve_values<Real, false><<<grid(op, op.V(), kColumns), kThreads, 0, stream_of(exec)>>>(op);
  check_launch("solve_values");
}

template <class Real>
void backward_cuda(const Exec& exec, const SolveValues<Real>& op) {
  if (op.u.value.size() == 0 || op.u.value.R == 0) return;
  solve_values<Real, true><<<grid(op, op.V(), kColumns), kThreads, 0, stream_of(exec)>>>(op);
  check_launch("solve_values backward");
  if (!op.l.wanted() && !op.gain.wanted()) return;
  solve_values_gradients<Real><<<grid(op, op.T(), kTile), kThreads, 0, stream_of(exec)>>>(op);
  check_launch("solve_values backward (l)");
}

CROSSTALK_INSTANTIATE(cuda, SolveValues)

}  // namespace crosstalk

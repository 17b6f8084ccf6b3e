// Reads through a triangular solve: a block takes 32 queries through tiles of 32 x 32, of which the next are
// products and only those on the diagonal are walked.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/attend.h"
#include "kernels/base/cuda_launch.cuh"
#include "kernels/base/head_rows.h"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kTile = 32, kThreads = 256, kWarps = kThreads / 32, kRows = kTile / kWarps;

template <class Real>
struct Tiles {
  int r, bh, first, lane, warp, H, Q, T;  ///< first: row of the block's tile
  std::int64_t square, rows;              ///< offsets of this sequence and head in [T,T] and [Q,T] matrices
  HeadRows<Real> gain;

  __device__ Tiles(const Solve<Real>& op, int along)
      : r(static_cast<int>(blockIdx.y)),
        lane(static_cast<int>(threadIdx.x) % 32),
        warp(static_cast<int>(threadIdx.x) / 32),
        H(op.a.value.dim(1)),
        Q(op.a.value.dim(2)),
        T(op.a.value.dim(3)) {
    const int tiles = (along + kTile - 1) / kTile;
    bh = static_cast<int>(blockIdx.x) / tiles, first = static_cast<int>(blockIdx.x) % tiles * kTile;
    square = static_cast<std::int64_t>(bh) * T * T, rows = static_cast<std::int64_t>(bh) * Q * T;
    gain = HeadRows<Real>(op.gain.value, r, bh / H, bh % H, T, H, 1);
  }
  /// tile[i][j] = matrix[i0 + i][j0 + j], 0 beyond `height` rows or T columns.
  __device__ void load(Real (&tile)[kTile][kTile + 1], const Real* matrix, int i0, int height, int j0) const {
    for (int i = warp; i < kTile; i += kWarps)
      tile[i][lane] = i0 + i < height && j0 + lane < T
                          ? matrix[static_cast<std::int64_t>(i0 + i) * T + j0 + lane]
                          : Real(0);
  }
  /// The same of gain_i l_ij below the diagonal, 0 elsewhere.
  __device__ void load_factor(Real (&tile)[kTile][kTile + 1], const Real* l, int i0, int j0) const {
    for (int i = warp; i < kTile; i += kWarps) {
      const int row = i0 + i, column = j0 + lane;
      tile[i][lane] = 0;
      if (row < T && column < row) {
        const Real entry = l[square + static_cast<std::int64_t>(row) * T + column];
        tile[i][lane] = gain ? entry * *gain(row) : entry;
      }
    }
  }
};

/// With n = Diag(gain) l, a tile of columns J after the other:
///   forward   y_J = (a_J - sum_{I>J} y_I n_IJ) (1 + n_JJ)^-1, from the last tile on
///   backward  z_J = (d_y_J - sum_{I<J} z_I n_JI^T) (1 + n_JJ)^-T, from the first, and d_a = z
template <class Real, bool kBackward>
__global__ void __launch_bounds__(kThreads) solve(const __grid_constant__ Solve<Real> op) {
  __shared__ Real n[kTile][kTile + 1], solved[kTile][kTile + 1];
  const Tiles<Real> t(op, op.a.value.dim(2));
  const int T = t.T;
  const Real* given = (kBackward ? op.y.gradient : op.a.value).at(t.r) + t.rows;
  const Real* l = op.l.value.at(t.r);
  Real* out = (kBackward ? op.z.value : op.y.value).at(t.r) + t.rows;
  const auto entry = [&](int i) { return kBackward ? n[t.lane][i] : n[i][t.lane]; };
  const int tiles = (T + kTile - 1) / kTile;
  for (int turn = 0; turn < tiles; ++turn) {
    const int j0 = (kBackward ? turn : tiles - 1 - turn) * kTile;
    Real sum[kRows];
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
      const int q = t.first + t.warp * kRows + m;
      sum[m] = q < t.Q && j0 + t.lane < T ? given[static_cast<std::int64_t>(q) * T + j0 + t.lane] : Real(0);
    }
    for (int before = 0; before < turn; ++before) {
      const int i0 = (kBackward ? before : tiles - 1 - before) * kTile;
      kBackward ? t.load_factor(n, l, j0, i0) : t.load_factor(n, l, i0, j0);
      t.load(solved, out, t.first, t.Q, i0);
      __syncthreads();
#pragma unroll 8
      for (int i = 0; i < kTile; ++i) {
        const Real factor = entry(i);
#pragma unroll
        for (int m = 0; m < kRows; ++m) sum[m] -= solved[t.warp * kRows + m][i] * factor;
      }
      __syncthreads();
    }
    t.load_factor(n, l, j0, j0);
    __syncthreads();
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
      for (int step = 0; step < kTile - 1; ++step) {
        const int i = kBackward ? step : kTile - 1 - step;
        sum[m] -= __shfl_sync(kFullWarp, sum[m], i) * entry(i);
      }
      const int q = t.first + t.warp * kRows + m;
      if (q >= t.Q || j0 + t.lane >= T) continue;
      const std::int64_t at = static_cast<std::int64_t>(q) * T + j0 + t.lane;
      out[at] = sum[m];
      if (kBackward && op.a.wanted()) put(op.a.write, op.a.gradient.at(t.r) + t.rows + at, sum[m]);
    }
    __syncthreads();  // others read this tile, and the next round writes into n
  }
}

// d_n_ij = -sum_q y_qi z_qj below the diagonal; d_l = gain d_n, d_gain_i = sum_j l_ij d_n_ij. A block takes
// 32 rows i.
template <class Real>
__global__ void __launch_bounds__(kThreads) solve_gradients(const __grid_constant__ Solve<Real> op) {
  __shared__ Real y_tile[kTile][kTile + 1], z_tile[kTile][kTile + 1];
  const Tiles<Real> t(op, op.a.value.dim(3));
  const int T = t.T;
  const Real *y = op.y.value.at(t.r) + t.rows, *z = op.z.value.at(t.r) + t.rows;
  Real d_gain[kRows] = {};
  for (int j0 = 0; j0 < T; j0 += kTile) {
    Real sum[kRows] = {};
    if (j0 <= t.first) {
      for (int q0 = 0; q0 < t.Q; q0 += kTile) {
        t.load(y_tile, y, q0, t.Q, t.first);
        t.load(z_tile, z, q0, t.Q, j0);
        __syncthreads();
#pragma unroll 8
        for (int q = 0; q < kTile; ++q) {
          const Real entry = z_tile[q][t.lane];
#pragma unroll
          for (int m = 0; m < kRows; ++m) sum[m] -= y_tile[q][t.warp * kRows + m] * entry;
        }
        __syncthreads();
      }
    }
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
      const int i = t.first + t.warp * kRows + m, j = j0 + t.lane;
      if (i >= T || j >= T) continue;
      const std::int64_t entry = t.square + static_cast<std::int64_t>(i) * T + j;
      const bool below = j < i;
      if (below) d_gain[m] += op.l.value.at(t.r)[entry] * sum[m];
      if (op.l.wanted() && (below || op.l.write == Write::overwrite))
        put(op.l.write, op.l.gradient.at(t.r) + entry,
            !below   ? Real(0)
            : t.gain ? sum[m] * *t.gain(i)
                     : sum[m]);
    }
  }
  if (!op.gain.wanted()) return;
#pragma unroll
  for (int m = 0; m < kRows; ++m) {
    const int i = t.first + t.warp * kRows + m;
    const Real sum = warp_sum(d_gain[m]);
    if (i < T && t.lane == 0)
      put(op.gain.write, HeadRows<Real>(op.gain.gradient, t.r, t.bh / t.H, t.bh % t.H, T, t.H, 1)(i), sum);
  }
}

template <class Real>
dim3 grid(const Solve<Real>& op, int along) {
  return dim3(blocks_for(along, kTile) * static_cast<unsigned>(op.a.value.dim(0) * op.a.value.dim(1)),
              static_cast<unsigned>(op.a.value.R));
}

}  // namespace

template <class Real>
void forward_cuda(const Exec& exec, const Solve<Real>& op) {
  if (op.a.value.size() == 0 || op.a.value.R == 0) return;
  solve<Real, false><<<grid(op, op.a.value.dim(2)), kThreads, 0, stream_of(exec)>>>(op);
  check_launch("solve");
}

template <class Real>
void backward_cuda(const Exec& exec, const Solve<Real>& op) {
  if (op.a.value.size() == 0 || op.a.value.R == 0) return;
  solve<Real, true><<<grid(op, op.a.value.dim(2)), kThreads, 0, stream_of(exec)>>>(op);
  check_launch("solve backward");
  if (!op.l.wanted() && !op.gain.wanted()) return;
  solve_gradients<Real><<<grid(op, op.a.value.dim(3)), kThreads, 0, stream_of(exec)>>>(op);
  check_launch("solve backward (l)");
}

CROSSTALK_INSTANTIATE(cuda, Solve)

}  // namespace crosstalk

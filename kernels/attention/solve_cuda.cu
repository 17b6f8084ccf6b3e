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

// y_J = (a_J - sum_{I>J} y_I n_IJ) (1 + n_JJ)^-1, n = Diag(gain) l, column tiles from the last on
template <class Real>
__global__ void __launch_bounds__(kThreads) solve(const __grid_constant__ Solve<Real> op) {
  __shared__ Real n[kTile][kTile + 1], solved[kTile][kTile + 1];
  const Tiles<Real> t(op, op.a.value.dim(2));
  const int T = t.T;
  const Real* a = op.a.value.at(t.r) + t.rows;
  const Real* l = op.l.value.at(t.r);
  Real* y = op.y.value.at(t.r) + t.rows;
  const int last = (T - 1) / kTile * kTile;
  for (int j0 = last; j0 >= 0; j0 -= kTile) {
    Real sum[kRows];
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
      const int q = t.first + t.warp * kRows + m;
      sum[m] = q < t.Q && j0 + t.lane < T ? a[static_cast<std::int64_t>(q) * T + j0 + t.lane] : Real(0);
    }
    for (int i0 = last; i0 > j0; i0 -= kTile) {
      t.load_factor(n, l, i0, j0);
      t.load(solved, y, t.first, t.Q, i0);
      __syncthreads();
#pragma unroll 8
      for (int i = 0; i < kTile; ++i) {
        const Real entry = n[i][t.lane];
#pragma unroll
        for (int m = 0; m < kRows; ++m) sum[m] -= solved[t.warp * kRows + m][i] * entry;
      }
      __syncthreads();
    }
    t.load_factor(n, l, j0, j0);
    __syncthreads();
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
      for (int i = kTile - 1; i > 0; --i) sum[m] -= __shfl_sync(kFullWarp, sum[m], i) * n[i][t.lane];
      const int q = t.first + t.warp * kRows + m;
      if (q < t.Q && j0 + t.lane < T) y[static_cast<std::int64_t>(q) * T + j0 + t.lane] = sum[m];
    }
    __syncthreads();  // others read this tile of y, and the next round writes into n
  }
}

// z_J = (d_y_J - sum_{I<J} z_I n_JI^T) (1 + n_JJ)^-T, from the first tile
template <class Real>
__global__ void __launch_bounds__(kThreads) solve_transposed(const __grid_constant__ Solve<Real> op) {
  __shared__ Real n[kTile][kTile + 1], solved[kTile][kTile + 1];
  const Tiles<Real> t(op, op.a.value.dim(2));
  const int T = t.T;
  const Real* d_y = op.y.gradient.at(t.r) + t.rows;
  const Real* l = op.l.value.at(t.r);
  Real* z = op.z.value.at(t.r) + t.rows;
  for (int j0 = 0; j0 < T; j0 += kTile) {
    Real sum[kRows];
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
      const int q = t.first + t.warp * kRows + m;
      sum[m] = q < t.Q && j0 + t.lane < T ? d_y[static_cast<std::int64_t>(q) * T + j0 + t.lane] : Real(0);
    }
    for (int i0 = 0; i0 < j0; i0 += kTile) {
      t.load_factor(n, l, j0, i0);
      t.load(solved, z, t.first, t.Q, i0);
      __syncthreads();
#pragma unroll 8
      for (int i = 0; i < kTile; ++i) {
        const Real entry = n[t.lane][i];
#pragma unroll
        for (int m = 0; m < kRows; ++m) sum[m] -= solved[t.warp * kRows + m][i] * entry;
      }
      __syncthreads();
    }
    t.load_factor(n, l, j0, j0);
    __syncthreads();
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
      for (int i = 0; i < kTile - 1; ++i) sum[m] -= __shfl_sync(kFullWarp, sum[m], i) * n[t.lane][i];
      const int q = t.first + t.warp * kRows + m;
      if (q < t.Q && j0 + t.lane < T) {
        const std::int64_t entry = static_cast<std::int64_t>(q) * T + j0 + t.lane;
        z[entry] = sum[m];
        if (op.a.wanted()) put(op.a.write, op.a.gradient.at(t.r) + t.rows + entry, sum[m]);
      }
    }
    __syncthreads();
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
  solve<Real><<<grid(op, op.a.value.dim(2)), kThreads, 0, stream_of(exec)>>>(op);
  check_launch("solve");
}

template <class Real>
void backward_cuda(const Exec& exec, const Solve<Real>& op) {
  if (op.a.value.size() == 0 || op.a.value.R == 0) return;
  solve_transposed<Real><<<grid(op, op.a.value.dim(2)), kThreads, 0, stream_of(exec)>>>(op);
  check_launch("solve backward");
  if (!op.l.wanted() && !op.gain.wanted()) return;
  solve_gradients<Real><<<grid(op, op.a.value.dim(3)), kThreads, 0, stream_of(exec)>>>(op);
  check_launch("solve backward (l)");
}

CROSSTALK_INSTANTIATE(cuda, Solve)

}  // namespace crosstalk

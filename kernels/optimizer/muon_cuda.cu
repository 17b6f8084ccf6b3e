// Muon on CUDA: one thread block for one matrix of one replica, which goes through all of its products tile by tile. What
// lies between two products stays in global memory, small enough for the caches.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/device/reduce.cuh"
#include "kernels/optimizer/muon.h"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kThreads = 256, kTile = 64, kDepth = 16, kEach = 4;  // 16 x 16 threads, 4 x 4 numbers each

template <class Real>
struct Tiles {
  Real a[kDepth][kTile + kEach], b[kDepth][kTile + kEach];
};

/// store(i, j, sum over l < depth of left(i, l) right(l, j)) for i < n, j < k. Every thread of the block comes here.
template <class Real, class Left, class Right, class Store>
__device__ void product(Tiles<Real>& tiles, int n, int k, int depth, const Left& left, const Right& right,
                        const Store& store) {
  const int t = CT_THREAD, row = t / 16 * kEach, column = t % 16 * kEach;
  for (int i0 = 0; i0 < n; i0 += kTile) {
    for (int j0 = 0; j0 < k; j0 += kTile) {
      Real sum[kEach][kEach] = {};
      for (int l0 = 0; l0 < depth; l0 += kDepth) {
        for (int e = t; e < kDepth * kTile; e += kThreads) {
          const int l = e % kDepth, i = e / kDepth;
          tiles.a[l][i] = i0 + i < n && l0 + l < depth ? left(i0 + i, l0 + l) : Real(0);
          const int j = e % kTile, m = e / kTile;
          tiles.b[m][j] = j0 + j < k && l0 + m < depth ? right(l0 + m, j0 + j) : Real(0);
        }
        __syncthreads();
        CT_FOR(l, kDepth) {
          Real x[kEach], y[kEach];
          CT_FOR(e, kEach) {
            x[e] = tiles.a[l][row + e];
            y[e] = tiles.b[l][column + e];
          }
          CT_FOR2(i, kEach, j, kEach) sum[i][j] += x[i] * y[j];
        }
        __syncthreads();
      }
      CT_FOR2(i, kEach, j, kEach)
        if (i0 + row + i < n && j0 + column + j < k) store(i0 + row + i, j0 + column + j, sum[i][j]);
    }
  }
  __syncthreads();
}

template <class Real>
__global__ void __launch_bounds__(kThreads) muon(const __grid_constant__ MuonStep<Real> a) {
  __shared__ Tiles<Real> tiles;
  const int r = static_cast<int>(blockIdx.y);
  const std::int32_t* matrix = a.matrices.at(r) + blockIdx.x * kMuonColumns;
  const int rows = matrix[muon_rows], columns = matrix[muon_columns], n = rows < columns ? rows : columns,
            k = rows < columns ? columns : rows;
  const std::int64_t size = std::int64_t{rows} * columns, offset = matrix[muon_offset];
  Real *x = a.workspace.at(r) + matrix[muon_workspace], *next = x + size, *A = next + size,
       *B = A + std::int64_t{n} * n;
  const std::int32_t step = *a.step.at(r);
  const Real mu = static_cast<Real>(muon_momentum(a.schedule, step, a.momentum, a.low_momentum));
  const Real scale = a.gradient_scale ? static_cast<Real>(*a.gradient_scale.at(r)) : Real(1);
  const Real* g = a.gradient.at(r) + offset;
  Real *m = a.m.at(r) + offset, *p = a.parameter.at(r) + offset;
  // Element `at` of the matrix stands there in X, whose short side is its rows.
  const auto place = [&](std::int64_t at) {
    return rows > columns ? at % columns * rows + at / columns : at;
  };
  double squares = 0;
  for (std::int64_t at = threadIdx.x; at < size; at += kThreads) {
    const Real scaled = scale * g[at], moved = mu * m[at] + scaled, d = scaled + mu * moved;
    m[at] = moved;
    x[place(at)] = d;
    squares += static_cast<double>(d) * static_cast<double>(d);
  }
  const Real inverse = static_cast<Real>(1 / (sqrt(block_sum(squares)) + kMuonEps));
  for (std::int64_t i = threadIdx.x; i < size; i += kThreads) x[i] *= inverse;
  __syncthreads();
  const auto at = [](const Real* base, int i, int width, int j) { return base[std::int64_t{i} * width + j]; };
  for (int iteration = 0; iteration < kMuonIterations; ++iteration) {
    product<Real>(
        tiles, n, n, k, [&](int i, int l) { return at(x, i, k, l); },
        [&](int l, int j) { return at(x, j, k, l); },
        [&](int i, int j, Real sum) { A[std::int64_t{i} * n + j] = sum; });
    product<Real>(
        tiles, n, n, n, [&](int i, int l) { return at(A, i, n, l); },
        [&](int l, int j) { return at(A, l, n, j); },
        [&](int i, int j, Real sum) {
          B[std::int64_t{i} * n + j] =
              static_cast<Real>(kMuonB) * at(A, i, n, j) + static_cast<Real>(kMuonC) * sum;
        });
    product<Real>(
        tiles, n, k, n, [&](int i, int l) { return at(B, i, n, l); },
        [&](int l, int j) { return at(x, l, k, j); },
        [&](int i, int j, Real sum) {
          next[std::int64_t{i} * k + j] = static_cast<Real>(kMuonA) * at(x, i, k, j) + sum;
        });
    Real* other = x;
    x = next;
    next = other;
  }
  const double rate = *a.learning_rate.at(r) * a.schedule.factor(step);
  const Real by = static_cast<Real>(rate * muon_scale(rows, columns));
  const Real keep = a.weight_decay ? static_cast<Real>(1 - rate * *a.weight_decay.at(r)) : Real(1);
  for (std::int64_t i = threadIdx.x; i < size; i += kThreads) p[i] = keep * p[i] - by * x[place(i)];
}

}  // namespace

template <class Real>
void run_cuda(const Exec& exec, const MuonStep<Real>& a) {
  launch(exec, "muon", muon<Real>, per_replica(a.matrices.dim(0), a.parameter.R), kThreads, 0, a);
}

CROSSTALK_INSTANTIATE_STEP(cuda, MuonStep)

}  // namespace crosstalk

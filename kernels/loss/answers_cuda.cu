// The largest logit on CUDA. With words a block takes 32 rows through tiles of 128 classes, a thread 4 x 4 products, and the
// blocks of a cluster share the classes. Without, a warp takes a row.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/base/device/cluster.cuh"
#include "kernels/base/device/cuda_launch.cuh"
#include "kernels/loss/answers.h"

namespace crosstalk {
namespace {
using namespace device;

/// The largest so far; of equal ones the first class.
template <class Real>
struct Best {
  Real top = -INFINITY;
  int of = -1;
  __device__ void take(Real logit, int v) {
    if (v >= 0 && (logit > top || (logit == top && of >= 0 && v < of))) top = logit, of = v;
  }
  __device__ void join_lanes() {
    for (int offset = 16; offset > 0; offset /= 2) {
      const Real other = __shfl_xor_sync(kFullWarp, top, offset);
      take(other, __shfl_xor_sync(kFullWarp, of, offset));
    }
  }
};

constexpr int kWarps = 4;

template <class Real>
__global__ void __launch_bounds__(32 * kWarps) answers_of_rows(const __grid_constant__ Answers<Real> a) {
  const int r = static_cast<int>(blockIdx.y), lane = CT_LANE;
  const std::int64_t n = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (n >= a.x.rows()) return;
  Best<Real> best;
  for (int v = lane; v < a.V(); v += 32) best.take(a.logit(r, n, v), v);
  best.join_lanes();
  if (lane == 0) a.answer.at(r)[n] = best.of;
}

constexpr int kThreads = 256, kRows = 32, kClasses = 128, kDepth = 16, kMostBlocks = 8;

/// A piece [columns from `column` on][rows] of some rows of x; 0 beyond them. A thread copies fours of columns.
template <int kCount, class Real>
__device__ void copy_turned(const Tensor<Real>& x, int r, std::int64_t first, std::int64_t rows, int column,
                            Real (&to)[kDepth][kCount]) {
  const int D = x.columns();
  for (int i = CT_THREAD; i < kCount * kDepth / 4; i += kThreads) {
    const int row = i % kCount, at = column + i / kCount * 4;
    const bool there = first + row < rows;
    Real four[4];
    load4(x.at(r) + (there ? (first + row) * D + at : 0), there ? D - at : 0, D % 4 == 0, four);
    CT_FOR(k, 4) to[i / kCount * 4 + k][row] = four[k];
  }
}

/// Products are summed in the order of D, as Answers::logit does. A warp has four of the rows, a lane four of each tile's classes.
template <class Real>
__global__ void __launch_bounds__(kThreads)
    answers_of_words(const __grid_constant__ Answers<Real> a, int cluster) {
  __shared__ __align__(16) Real x[kDepth][kRows], w[kDepth][kClasses];
  __shared__ Real tops[kRows];
  __shared__ int classes[kRows];
  const int r = static_cast<int>(blockIdx.y), lane = CT_LANE, warp = CT_WARP,
            rank = static_cast<int>(blockIdx.x) % cluster;
  const std::int64_t rows = a.x.rows(), first = std::int64_t{blockIdx.x} / cluster * kRows;
  const int D = a.x.columns(), V = a.V();
  Best<Real> best[4];
  for (int begin = rank * kClasses; begin < V; begin += cluster * kClasses) {
    Real sum[4][4] = {};
    for (int column = 0; column < D; column += kDepth) {
      __syncthreads();
      copy_turned(a.x, r, first, rows, column, x);
      copy_turned(a.w, r, begin, V, column, w);
      __syncthreads();
      CT_FOR(k, kDepth) {
        Real left[4], right[4];
        CT_FOR(i, 4) left[i] = x[k][4 * warp + i], right[i] = w[k][4 * lane + i];
        CT_FOR2(i, 4, j, 4) sum[i][j] += left[i] * right[j];
      }
    }
    CT_FOR2(i, 4, j, 4) {
      const int v = begin + 4 * lane + j;
      if (v < V) best[i].take(sum[i][j], v);
    }
  }
  CT_FOR(i, 4) {
    best[i].join_lanes();
    if (lane == 0) tops[4 * warp + i] = best[i].top, classes[4 * warp + i] = best[i].of;
  }
  cluster_barrier(cluster);
  const int row = CT_THREAD;
  if (rank == 0 && row < kRows) {
    Best<Real> all;
    for (int other = 0; other < cluster; ++other)
      all.take(*shared_of(other, tops + row), *shared_of(other, classes + row));
    if (first + row < rows) a.answer.at(r)[first + row] = all.of;
  }
  cluster_leave(cluster);
}

}  // namespace

template <class Real>
void run_cuda(const Exec& exec, const Answers<Real>& a) {
  if (!a.w)
    return launch(exec, "answers", answers_of_rows<Real>, per_replica(blocks_for(a.x.rows(), kWarps), a.x.R),
                  32 * kWarps, 0, a);
  const int tiles = (a.V() + kClasses - 1) / kClasses;
  const int cluster = has_clusters(answers_of_words<Real>) ? std::min(kMostBlocks, tiles) : 1;
  launch_clusters(cluster, exec, "answers", answers_of_words<Real>,
                  per_replica(cluster * blocks_for(a.x.rows(), kRows), a.x.R), kThreads, 0, a, cluster);
}

CROSSTALK_INSTANTIATE_STEP(cuda, Answers)

}  // namespace crosstalk

// Sums down the columns of a matrix: out_j (+)= scale sum_n weight_n x_nj, for one matrix of each (replica,
// batch).
//
// Wide matrices: a block owns 32 columns, its rows of threads walk n in strides and are added in their order.
// Narrow ones (fewer than 16 columns, mostly 1): a block owns a column. Very long ones: a cluster of blocks
// does, one multiprocessor's loads being too few for them. Each entry is read once; the order of the sum
// depends on the matrix' shape only.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/device/cluster.cuh"
#include "kernels/base/precision.h"

namespace crosstalk::device {

template <class Real>
struct ColumnSum {
  std::int64_t rows = 0;
  int columns = 0, batch = 1;
  const Real* x = nullptr;
  std::int64_t x_replica = 0, x_batch = 0;
  const Real* weight = nullptr;           ///< null: 1
  Precision precision = Precision::full;  ///< of the factors, where weighted
  std::int64_t weight_replica = 0, weight_batch = 0;
  const std::int32_t* seen = nullptr;  ///< of each matrix: rows that count; null: all
  std::int64_t seen_replica = 0;
  Real scale = 1;
  Write mode = Write::none;
  Real* out = nullptr;
  std::int64_t out_replica = 0, out_batch = 0;

  __device__ std::int64_t limit(int r, int b) const {
    if (!seen) return rows;
    const std::int64_t n = seen[r * seen_replica + b];
    return n < 0 ? 0 : n > rows ? rows : n;
  }
  /// Sum over n = first, first + step, ...
  template <int kAtOnce>
  __device__ Real partial(int r, int b, int j, int first, int step) const {
    const Real* x_ = x + r * x_replica + b * x_batch + j;
    const Real* weight_ = weight ? weight + r * weight_replica + b * weight_batch : nullptr;
    const std::int64_t n = limit(r, b);
    Real sum = 0;
    if (weight_) {
#pragma unroll(kAtOnce)
      for (std::int64_t i = first; i < n; i += step)
        sum += rounded(precision, weight_[i]) * rounded(precision, x_[i * columns]);
    } else {
#pragma unroll(kAtOnce)
      for (std::int64_t i = first; i < n; i += step) sum += x_[i * columns];
    }
    return sum;
  }
};

template <class Real, int kRows>
__global__ void __launch_bounds__(32 * kRows)
    wide_column_sum(const __grid_constant__ ColumnSum<Real> a, int cluster) {
  __shared__ Real sums[kRows][32];
  constexpr int kAtOnce = kRows > 8 ? 16 : 4;
  const int x = CT_LANE, y = CT_WARP, rank = static_cast<int>(blockIdx.x) % cluster;
  const int j = static_cast<int>(blockIdx.x) / cluster * 32 + x, b = blockIdx.y, r = blockIdx.z;
  sums[y][x] =
      j < a.columns ? a.template partial<kAtOnce>(r, b, j, rank * kRows + y, kRows * cluster) : Real(0);
  __syncthreads();
  Real total = 0;
  if (y == 0) {
#pragma unroll 8
    for (int i = 0; i < kRows; ++i) total += sums[i][x];
  }
  if (cluster > 1) {
    if (y == 0) sums[0][x] = total;
    total = cluster_sum(sums[0], x, cluster, rank);
  }
  if (y > 0 || j >= a.columns || rank > 0) return;
  put(a.mode, a.out + r * a.out_replica + b * a.out_batch + j, a.scale * total);
}

template <class Real>
__global__ void __launch_bounds__(512)
    narrow_column_sum(const __grid_constant__ ColumnSum<Real> a, int cluster) {
  __shared__ Real sums[16];
  const int j = static_cast<int>(blockIdx.x) / cluster, rank = static_cast<int>(blockIdx.x) % cluster,
            b = blockIdx.y, r = blockIdx.z;
  const Real sum = warp_sum(a.template partial<4>(r, b, j, rank * 512 + CT_THREAD, 512 * cluster));
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  Real total = 0;
  if (threadIdx.x == 0)
    CT_FOR(i, 16) total += sums[i];
  if (cluster > 1) {
    if (threadIdx.x == 0) sums[0] = total;
    total = cluster_sum(sums, 0, cluster, rank);
  }
  if (threadIdx.x > 0 || rank > 0) return;
  put(a.mode, a.out + r * a.out_replica + b * a.out_batch + j, a.scale * total);
}

template <class Real>
void column_sum(const Exec& exec, const char* name, const ColumnSum<Real>& a, int R) {
  if (a.mode == Write::none || a.columns <= 0 || a.batch <= 0 || R <= 0) return;
  constexpr std::int64_t kLongColumn = 32768;  // rows from which a cluster shares a column
  constexpr int kCluster = 8;
  const bool narrow = a.columns < 16;
  const auto launch = [&](auto kernel, int threads, unsigned blocks) {
    const int cluster = has_clusters(kernel) && a.rows >= kLongColumn ? kCluster : 1;
    const dim3 grid(cluster * blocks, static_cast<unsigned>(a.batch), static_cast<unsigned>(R));
    launch_clusters(cluster, exec, name, kernel, grid, threads, 0, a, cluster);
  };
  const unsigned blocks = narrow ? static_cast<unsigned>(a.columns) : blocks_for(a.columns, 32);
  if (narrow)
    launch(narrow_column_sum<Real>, 512, blocks);
  else if (a.rows >= 1024 || (a.rows >= 128 && std::int64_t{blocks} * a.batch < 32))
    launch(wide_column_sum<Real, 32>, 32 * 32, blocks);  // few blocks: their loads are what takes time
  else
    launch(wide_column_sum<Real, 8>, 32 * 8, blocks);
}

}  // namespace crosstalk::device

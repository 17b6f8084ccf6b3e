// Elementwise ops, a few elements a thread; sums over repeated elements in a fixed order: of rows by columns
// of threads, of others by a warp or, where they are long, by a cluster of blocks each.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/cluster.cuh"
#include "kernels/base/each.cuh"
#include "kernels/elementwise/elementwise.h"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr std::int64_t kLongSum = 32768;  // terms from which a cluster of blocks shares a sum
constexpr int kCluster = 8, kLongThreads = 1024;
constexpr std::int64_t kManyRows = 1024;  // rows from which their sum is worth a block
constexpr int kColumns = 8;               // of a block: 32 bytes of a row, what the memory reads at once

template <class Real, class F, class Put>
__global__ void __launch_bounds__(kThreads)
    sums_kernel(std::int64_t n, std::int64_t repeats, const F f, const Put store) {
  const std::int64_t j = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (j >= n) return;
  Real sum = 0;
  for (std::int64_t i = threadIdx.x % 32; i < repeats; i += 32) sum += f(static_cast<int>(blockIdx.y), j, i);
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) store(static_cast<int>(blockIdx.y), j, sum);
}

/// One long sum by all threads of a cluster: warps, then blocks are added in their order.
template <class Real, class F, class Put>
__global__ void __launch_bounds__(kLongThreads)
    long_sums_kernel(std::int64_t repeats, int cluster, const F f, const Put store) {
  __shared__ Real sums[kLongThreads / 32];
  const std::int64_t j = blockIdx.x / static_cast<unsigned>(cluster);
  const int r = static_cast<int>(blockIdx.y), rank = static_cast<int>(blockIdx.x) % cluster;
  Real sum = 0;
#pragma unroll 4
  for (std::int64_t i = rank * kLongThreads + static_cast<int>(threadIdx.x); i < repeats;
       i += cluster * kLongThreads)
    sum += f(r, j, i);
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < kLongThreads / 32; ++i) sums[0] += sums[i];
  }
  const Real total = cluster_sum(sums, 0, cluster, rank);
  if (threadIdx.x == 0 && rank == 0) store(r, j, total);
}

/// Sums down kColumns columns of a matrix of n columns by all threads of a cluster: each thread takes every
/// so many rows of its column, then rows of threads, then blocks are added in their order.
template <class Real, class F, class Put>
__global__ void __launch_bounds__(kLongThreads)
    row_sums_kernel(std::int64_t n, std::int64_t rows, int cluster, const F f, const Put store) {
  constexpr int kRows = kLongThreads / kColumns;
  __shared__ Real sums[kRows][kColumns];
  const int x = static_cast<int>(threadIdx.x) % kColumns, y = static_cast<int>(threadIdx.x) / kColumns;
  const int r = static_cast<int>(blockIdx.y), rank = static_cast<int>(blockIdx.x) % cluster;
  const std::int64_t j =
      static_cast<std::int64_t>(blockIdx.x / static_cast<unsigned>(cluster)) * kColumns + x;
  Real sum = 0;
  if (j < n) {
#pragma unroll 4
    for (std::int64_t i = rank * kRows + y; i < rows; i += cluster * kRows) sum += f(r, j, i);
  }
  sums[y][x] = sum;
  __syncthreads();
  if (y == 0) {
    for (int i = 1; i < kRows; ++i) sum += sums[i][x];
    sums[0][x] = sum;
  }
  const Real total = cluster_sum(sums[0], x, cluster, rank);
  if (y == 0 && rank == 0 && j < n) store(r, j, total);
}

// store(r, j, sum over i < repeats of f(r, j, i)). `rows`: f(r, j, i) reads column j of row i of a matrix.
template <class Real, class F, class Put>
void sums(const Exec& exec, const char* name, int R, std::int64_t n, std::int64_t repeats, bool rows,
          const F& f, const Put& store) {
  if (n == 0 || R == 0) return;
  if (repeats == 1) {
    each_value<Real>(
        exec, name, R, n, [=] __device__(int r, std::int64_t j) { return f(r, j, 0); }, store);
    return;
  }
  const unsigned replicas = static_cast<unsigned>(R);
  if (rows && repeats >= kManyRows && n >= kColumns) {
    const auto kernel = row_sums_kernel<Real, F, Put>;
    const unsigned cluster = repeats >= kLongSum && n < 4096 && has_clusters(kernel) ? kCluster : 1;
    launch_clusters(kernel, dim3(cluster * blocks_for(n, kColumns), replicas), kLongThreads, 0, cluster,
                    stream_of(exec), n, repeats, static_cast<int>(cluster), f, store);
  } else if (repeats >= kLongSum && n < 65536) {
    const auto kernel = long_sums_kernel<Real, F, Put>;
    const unsigned cluster = has_clusters(kernel) ? kCluster : 1;
    launch_clusters(kernel, dim3(cluster * static_cast<unsigned>(n), replicas), kLongThreads, 0, cluster,
                    stream_of(exec), repeats, static_cast<int>(cluster), f, store);
  } else {
    sums_kernel<Real>
        <<<dim3(blocks_for(n, kWarps), replicas), kThreads, 0, stream_of(exec)>>>(n, repeats, f, store);
  }
  check_launch(name);
}

// The gradient of one operand of a Combine, which is its first or its second.
template <class Real>
void operand_gradient(const Exec& exec, const In<Real>& part, const Tensor<Real>& other, const Out<Real>& y,
                      CombineKind kind, bool first, double scale) {
  if (!part.wanted()) return;
  const Broadcast of_part = broadcast(y.value, part.value), of_other = broadcast(y.value, other);
  const Real factor = static_cast<Real>(scale);
  sums<Real>(
      exec, "combine backward", y.value.R, part.value.size(), of_part.repeats(), of_part.repeats_rows(),
      [=] __device__(int r, std::int64_t j, std::int64_t n) {
        const std::int64_t i = of_part.element(j, n);
        return y.gradient.at(r)[i] *
               combine_slope(kind, first, factor, part.value.at(r)[j], other.at(r)[of_other.index(i)]);
      },
      [=] __device__(int r, std::int64_t j, Real sum) { put(part.write, part.gradient.at(r) + j, sum); });
}
}  // namespace

template <class Real>
void forward_cuda(const Exec& exec, const Map<Real>& op) {
  const Real scale = static_cast<Real>(op.scale), shift = static_cast<Real>(op.shift);
  each_value<Real>(
      exec, "map", op.x.value.R, op.x.value.size(),
      [=] __device__(int r, std::int64_t i) { return scale * mapped(op.map, op.x.value.at(r)[i]) + shift; },
      [=] __device__(int r, std::int64_t i, Real y) { op.y.value.at(r)[i] = y; });
}

template <class Real>
void backward_cuda(const Exec& exec, const Map<Real>& op) {
  if (!op.x.wanted()) return;
  const Real scale = static_cast<Real>(op.scale);
  each_value<Real>(
      exec, "map backward", op.x.value.R, op.x.value.size(),
      [=] __device__(int r, std::int64_t i) {
        // An affine map's slope needs no x, whose load is half of the traffic.
        const Real slope = op.map == MapKind::affine ? Real(1) : map_slope(op.map, op.x.value.at(r)[i]);
        return op.y.gradient.at(r)[i] * (scale * slope);
      },
      [=] __device__(int r, std::int64_t i, Real g) { put(op.x.write, op.x.gradient.at(r) + i, g); });
}

template <class Real>
void forward_cuda(const Exec& exec, const Combine<Real>& op) {
  const Broadcast of_a = broadcast(op.y.value, op.a.value), of_b = broadcast(op.y.value, op.b.value);
  const Real scale_a = static_cast<Real>(op.scale_a), scale_b = static_cast<Real>(op.scale_b);
  each_value<Real>(
      exec, "combine", op.y.value.R, op.y.value.size(),
      [=] __device__(int r, std::int64_t i) {
        const Real a = op.a.value.at(r)[of_a.index(i)], b = op.b.value.at(r)[of_b.index(i)];
        return combined(op.kind, scale_a, a, scale_b, b);
      },
      [=] __device__(int r, std::int64_t i, Real y) { op.y.value.at(r)[i] = y; });
}

template <class Real>
void backward_cuda(const Exec& exec, const Combine<Real>& op) {
  operand_gradient(exec, op.a, op.b.value, op.y, op.kind, true, op.scale_a);
  operand_gradient(exec, op.b, op.a.value, op.y, op.kind, false, op.scale_b);
}

template <class Real>
void forward_cuda(const Exec& exec, const Fold<Real>& op) {
  const Broadcast map = broadcast(op.x.value, op.y.value);
  sums<Real>(
      exec, "fold", op.y.value.R, op.y.value.size(), map.repeats(), map.repeats_rows(),
      [=] __device__(int r, std::int64_t j, std::int64_t n) { return op.x.value.at(r)[map.element(j, n)]; },
      [=] __device__(int r, std::int64_t j, Real sum) { op.y.value.at(r)[j] = sum; });
}

template <class Real>
void backward_cuda(const Exec& exec, const Fold<Real>& op) {
  if (!op.x.wanted()) return;
  const Broadcast map = broadcast(op.x.value, op.y.value);
  each_value<Real>(
      exec, "fold backward", op.x.value.R, op.x.value.size(),
      [=] __device__(int r, std::int64_t i) { return op.y.gradient.at(r)[map.index(i)]; },
      [=] __device__(int r, std::int64_t i, Real g) { put(op.x.write, op.x.gradient.at(r) + i, g); });
}

template <class Real>
void forward_cuda(const Exec& exec, const Expand<Real>& op) {
  const Broadcast map = broadcast(op.y.value, op.x.value);
  each_value<Real>(
      exec, "expand", op.y.value.R, op.y.value.size(),
      [=] __device__(int r, std::int64_t i) { return op.x.value.at(r)[map.index(i)]; },
      [=] __device__(int r, std::int64_t i, Real y) { op.y.value.at(r)[i] = y; });
}

template <class Real>
void backward_cuda(const Exec& exec, const Expand<Real>& op) {
  if (!op.x.wanted()) return;
  const Broadcast map = broadcast(op.y.value, op.x.value);
  sums<Real>(
      exec, "expand backward", op.y.value.R, op.x.value.size(), map.repeats(), map.repeats_rows(),
      [=] __device__(int r, std::int64_t j, std::int64_t n) {
        return op.y.gradient.at(r)[map.element(j, n)];
      },
      [=] __device__(int r, std::int64_t j, Real sum) { put(op.x.write, op.x.gradient.at(r) + j, sum); });
}

template <class Real>
void forward_cuda(const Exec& exec, const Maximum<Real>& op) {
  each(exec, "maximum", op.x.value.R, op.x.value.rows(), [=] __device__(int r, std::int64_t i) {
    const Real* row = op.x.value.at(r) + i * op.x.value.columns();
    op.y.value.at(r)[i] = row[op.place(row)];
  });
}

template <class Real>
void backward_cuda(const Exec& exec, const Maximum<Real>& op) {
  if (!op.x.wanted()) return;
  each(exec, "maximum backward", op.x.value.R, op.x.value.rows(), [=] __device__(int r, std::int64_t i) {
    const int D = op.x.value.columns(), at = op.place(op.x.value.at(r) + i * D);
    for (int j = 0; j < D; ++j)
      put(op.x.write, op.x.gradient.at(r) + i * D + j, j == at ? op.y.gradient.at(r)[i] : Real(0));
  });
}

template <class Real>
void forward_cuda(const Exec& exec, const Swap<Real>& op) {
  each(exec, "swap", op.y.value.R, op.y.value.size(),
       [=] __device__(int r, std::int64_t i) { op.y.value.at(r)[i] = op.x.value.at(r)[op.index(i)]; });
}

template <class Real>
void backward_cuda(const Exec& exec, const Swap<Real>& op) {
  if (!op.x.wanted()) return;
  each(exec, "swap backward", op.y.value.R, op.y.value.size(), [=] __device__(int r, std::int64_t i) {
    put(op.x.write, op.x.gradient.at(r) + op.index(i), op.y.gradient.at(r)[i]);
  });
}

template <class Real>
void forward_cuda(const Exec& exec, const Constant<Real>& op) {
  each(exec, "constant", op.y.value.R, op.y.value.size(),
       [=] __device__(int r, std::int64_t i) { op.y.value.at(r)[i] = static_cast<Real>(op.number[i]); });
}

template <class Real>
void backward_cuda(const Exec&, const Constant<Real>&) {}

template <class Real>
void forward_cuda(const Exec& exec, const OneHot<Real>& op) {
  const int size = op.y.value.columns(), C = op.ids.value.columns();
  each(exec, "one hot", op.y.value.R, op.y.value.size(), [=] __device__(int r, std::int64_t i) {
    op.y.value.at(r)[i] = i % size == op.ids.value.at(r)[i / size * C + op.channel] ? Real(1) : Real(0);
  });
}

template <class Real>
void backward_cuda(const Exec&, const OneHot<Real>&) {}

CROSSTALK_INSTANTIATE(cuda, Map)
CROSSTALK_INSTANTIATE(cuda, Combine)
CROSSTALK_INSTANTIATE(cuda, Fold)
CROSSTALK_INSTANTIATE(cuda, Expand)
CROSSTALK_INSTANTIATE(cuda, Maximum)
CROSSTALK_INSTANTIATE(cuda, Swap)
CROSSTALK_INSTANTIATE(cuda, Constant)
CROSSTALK_INSTANTIATE(cuda, OneHot)

}  // namespace crosstalk

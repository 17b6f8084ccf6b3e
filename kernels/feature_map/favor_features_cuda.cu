// Random orthogonal features: a block of threads for each d x d block of features.
//
// Normals have the CPU's bits: word w of the stream is word w mod 4 of counter w / 4, so every thread finds
// its own (compiled with --fmad=false, as base/normal.h asks). Gram-Schmidt looks forward: a finished column
// is taken out of all later ones at once. Up to 64 x 64 the columns stay in registers, and what
// rounding left of them in each other is taken out at once in the end; larger ones lie in memory, and before
// a column is finished, what rounding left of the earlier ones is taken out again.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/device/cluster.cuh"
#include "kernels/base/normal.h"
#include "kernels/base/random.h"
#include "kernels/feature_map/favor_features.h"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kThreads = 1024, kWarps = kThreads / 32;

// Normals first .. + entries - 1 of the replica: set(i, normal first + i) for those that fall to this thread,
// one of `threads` (those of this block start at thread0).
template <class Real, class F>
CT_DEVICE void for_normals(const FavorFeatures<Real>& a, int r, std::uint32_t first, int entries, int thread0,
                           int threads, F&& set) {
  const std::int32_t* seed = a.seed.at(r);
  r123::Philox4x32::key_type key;
  key.v[0] = static_cast<std::uint32_t>(seed[0]);
  key.v[1] = static_cast<std::uint32_t>(seed[1]);
  for (std::uint32_t c = first / 4 + static_cast<std::uint32_t>(thread0) + threadIdx.x;
       c * 4 < first + static_cast<std::uint32_t>(entries); c += static_cast<std::uint32_t>(threads)) {
    r123::Philox4x32::ctr_type counter;
    counter.v[0] = c;
    counter.v[1] = static_cast<std::uint32_t>(RandomDomain::feature_map);
    counter.v[2] = static_cast<std::uint32_t>(*a.draw.at(r));
    counter.v[3] = a.purpose;
    const auto words = r123::Philox4x32()(counter, key);
    CT_FOR(i, 4) {
      const std::int64_t entry = std::int64_t{c} * 4 + i - first;
      if (entry < 0 || entry >= entries) continue;
      set(static_cast<int>(entry),
          standard_normal((static_cast<double>(words.v[i]) + 0.5) * (1.0 / 4294967296.0)));
    }
  }
}

// d <= 64: for each d x d block of features a cluster of blocks draws the normals; the first block goes on.
// Four neighbouring lanes hold a column, 16 entries each. Step j takes column j, as it is, out of all later
// columns: x_i -= x_j (x_j.x_i) / (x_j.x_j). That leaves Q^T Q = I + E with E of the order of the rounding
// times the condition of G; Q (I - strictly upper part of E - diagonal of E / 2) leaves E^2.
constexpr int kSmall = 64, kHeld = 16, kSmallThreads = 4 * kSmall, kDrawing = 4;
template <class Real>
__global__ void __launch_bounds__(kSmallThreads)
    small_favor_features(const __grid_constant__ FavorFeatures<Real> a, int cluster) {
  constexpr int kLd = kSmall + 2;
  __shared__ __align__(16) double columns[kSmall * kLd];
  const int r = blockIdx.y, m = a.omega.dim(0), d = a.omega.dim(1);
  const int block = static_cast<int>(blockIdx.x) / cluster, rank = static_cast<int>(blockIdx.x) % cluster;
  const int start = block * d, count = min(d, m - start);
  const int mine = threadIdx.x / 4, part = threadIdx.x % 4;
  if (rank == 0)
    for (int i = threadIdx.x; i < kSmall * kLd; i += kSmallThreads) columns[i] = 0;
  cluster_barrier(cluster);
  double* drawn = cluster > 1 ? shared_of(0, columns) : columns;
  for_normals(a, r, static_cast<std::uint32_t>(block * d * d), d * d, rank * kSmallThreads,
              cluster * kSmallThreads, [&](int entry, double x) { drawn[entry % d * kLd + entry / d] = x; });
  cluster_barrier(cluster);
  if (rank > 0) return;
  // Entries part 2 + (0, 1), + 8, + 16, ...: what the four lanes read at once lies side by side.
  const auto entry_of = [&](int i) { return i / 2 * 8 + part * 2 + i % 2; };
  const auto sum_of = [](const double(&y)[4]) {
    double sum = (y[0] + y[1]) + (y[2] + y[3]);
    sum += __shfl_xor_sync(kFullWarp, sum, 1);
    return sum + __shfl_xor_sync(kFullWarp, sum, 2);
  };
  double x[kHeld], squares[4] = {};  // of row `mine`
  CT_FOR(i, kHeld) {
    x[i] = columns[mine * kLd + entry_of(i)];
    const double g = columns[entry_of(i) * kLd + mine];
    squares[i % 4] = fma(g, g, squares[i % 4]);
  }
  const double length_of_row = sqrt(sum_of(squares));
  __syncthreads();
  CT_ROLLED(int j = 0; j < count - 1; ++j) {
    double* column = columns + j % 2 * kLd;  // two places in turn: one barrier a step
    if (mine == j)
      CT_FOR(i, kHeld) column[entry_of(i)] = x[i];
    __syncthreads();
    if (threadIdx.x / 32 * 8 + 7 <= j) continue;  // this warp's columns are done
    double y[kHeld], along[4] = {}, length[4] = {};
    CT_FOR(i, kHeld) {
      y[i] = column[entry_of(i)];
      along[i % 4] = fma(y[i], x[i], along[i % 4]);
      length[i % 4] = fma(y[i], y[i], length[i % 4]);
    }
    const double factor = sum_of(along) / sum_of(length);
    if (mine <= j) continue;
    CT_FOR(i, kHeld) x[i] = fma(-factor, y[i], x[i]);
  }
  double own[4] = {};
  CT_FOR(i, kHeld) own[i % 4] = fma(x[i], x[i], own[i % 4]);
  const double inverse = 1 / sqrt(sum_of(own));
  __syncthreads();
  CT_FOR(i, kHeld) {
    x[i] *= inverse;
    columns[mine * kLd + entry_of(i)] = x[i];
  }
  __syncthreads();
  double rest[kHeld] = {};
  const int last = min(threadIdx.x / 32 * 8 + 7, count - 1);
#pragma unroll 2
  for (int j = 0; j <= last; ++j) {
    double y[kHeld], along[4] = {};
    CT_FOR(i, kHeld) {
      y[i] = columns[j * kLd + entry_of(i)];
      along[i % 4] = fma(y[i], x[i], along[i % 4]);
    }
    const double e = sum_of(along), factor = j < mine ? e : j == mine ? (e - 1) / 2 : 0;
    CT_FOR(i, kHeld) rest[i] = fma(factor, y[i], rest[i]);
  }
  if (mine >= count) return;
  Real* row = a.omega.at(r) + std::int64_t{start + mine} * d;
  CT_FOR(i, kHeld)
    if (entry_of(i) < d) row[entry_of(i)] = static_cast<Real>((x[i] - rest[i]) * length_of_row);
}

// Shared memory: norms [d], coefficients [d], then the columns [d,d] where they fit; else those lie in the
// workspace, and one thread block makes all blocks of its replica.
template <class Real>
__global__ void __launch_bounds__(kThreads)
    favor_features(const __grid_constant__ FavorFeatures<Real> a, bool in_shared) {
  extern __shared__ __align__(16) unsigned char raw[];
  const int r = blockIdx.y, m = a.omega.dim(0), d = a.omega.dim(1);
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  double* norms = reinterpret_cast<double*>(raw);
  double* coefficients = norms + d;
  double* q = in_shared ? coefficients + d : a.workspace.at(r);  // column j lies in row j
  const int blocks = (m + d - 1) / d, step = in_shared ? static_cast<int>(gridDim.x) : 1;
  for (int block = in_shared ? static_cast<int>(blockIdx.x) : 0; block < blocks; block += step) {
    const int start = block * d, count = min(d, m - start), entries = d * d;
    const std::uint32_t first = static_cast<std::uint32_t>(block) * static_cast<std::uint32_t>(entries);
    for_normals(a, r, first, entries, 0, kThreads,
                [&](int entry, double x) { q[entry % d * d + entry / d] = x; });
    __syncthreads();
    for (int i = thread; i < d; i += kThreads) {
      double squares = 0;
      for (int j = 0; j < d; ++j) squares += q[j * d + i] * q[j * d + i];
      norms[i] = squares;
    }
    __syncthreads();
    for (int j = 0; j < count; ++j) {
      double* column = q + j * d;
      for (int i = warp; i < j; i += kWarps) {
        const double along = warp_dot(q + i * d, column, d);
        if (lane == 0) coefficients[i] = along;
      }
      __syncthreads();
      for (int e = thread; e < d; e += kThreads) {
        double rest = column[e];
        for (int i = 0; i < j; ++i) rest -= coefficients[i] * q[i * d + e];
        column[e] = rest;
      }
      __syncthreads();
      const double inverse = 1 / sqrt(warp_dot(column, column, d)), length = sqrt(norms[j]);
      __syncthreads();
      for (int e = thread; e < d; e += kThreads) {
        const double unit = column[e] * inverse;
        column[e] = unit;
        a.omega.at(r)[std::int64_t{start + j} * d + e] = static_cast<Real>(unit * length);
      }
      __syncthreads();
      for (int i = j + 1 + warp; i < count; i += kWarps) {
        const double along = warp_dot(column, q + i * d, d);
        for (int e = lane; e < d; e += 32) q[i * d + e] -= along * column[e];
      }
      __syncthreads();
    }
  }
}

}  // namespace

template <class Real>
void run_cuda(const Exec& exec, const FavorFeatures<Real>& a) {
  const int m = a.omega.dim(0), d = a.omega.dim(1);
  if (m == 0 || d == 0 || a.omega.R == 0) return;
  if (d <= kSmall) {
    const auto kernel = small_favor_features<Real>;
    const int cluster = has_clusters(kernel) ? kDrawing : 1;
    return launch_clusters(cluster, exec, "favor features", kernel,
                           per_replica(cluster * std::int64_t{blocks_for(m, d)}, a.omega.R), kSmallThreads, 0,
                           a, cluster);
  }
  const std::size_t least = 2 * static_cast<std::size_t>(d) * sizeof(double);
  const std::size_t columns = static_cast<std::size_t>(d) * static_cast<std::size_t>(d) * sizeof(double);
  const bool in_shared = least + columns <= shared_memory_limit();
  launch(exec, "favor features", favor_features<Real>,
         per_replica(in_shared ? blocks_for(m, d) : 1, a.omega.R), kThreads,
         least + (in_shared ? columns : 0), a, in_shared);
}

CROSSTALK_INSTANTIATE_STEP(cuda, FavorFeatures)

}  // namespace crosstalk

// Random orthogonal features: a block of threads for each d x d block of features.
//
// Normals have the CPU's bits: word w of the stream is word w mod 4 of counter w / 4, so every thread finds
// its own (compiled with --fmad=false, as base/normal.h asks). Gram-Schmidt looks forward: a finished column
// is taken out of all later ones at once; before a column is finished, what rounding left of the earlier ones
// is taken out again. SPDX-License-Identifier: Apache-2.0
#include "kernels/base/cuda_launch.cuh"
#include "kernels/base/normal.h"
#include "kernels/base/random.h"
#include "kernels/ops/favor_features.h"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kThreads = 1024, kWarps = kThreads / 32;

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
  const std::int32_t* seed = a.seed.at(r);
  r123::Philox4x32::key_type key;
  key.v[0] = static_cast<std::uint32_t>(seed[0]);
  key.v[1] = static_cast<std::uint32_t>(seed[1]);

  const int blocks = (m + d - 1) / d, step = in_shared ? static_cast<int>(gridDim.x) : 1;
  for (int block = in_shared ? static_cast<int>(blockIdx.x) : 0; block < blocks; block += step) {
    const int start = block * d, count = min(d, m - start), entries = d * d;
    const std::uint32_t first = static_cast<std::uint32_t>(block) * static_cast<std::uint32_t>(entries);
    for (std::uint32_t c = first / 4 + static_cast<std::uint32_t>(thread); c * 4 < first + entries;
         c += kThreads) {
      r123::Philox4x32::ctr_type counter;
      counter.v[0] = c;
      counter.v[1] = static_cast<std::uint32_t>(RandomDomain::feature_map);
      counter.v[2] = static_cast<std::uint32_t>(*a.draw.at(r));
      counter.v[3] = a.purpose;
      const auto words = r123::Philox4x32()(counter, key);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const std::int64_t entry = static_cast<std::int64_t>(c) * 4 + i - first;
        if (entry < 0 || entry >= entries) continue;
        const int row = static_cast<int>(entry) / d, column = static_cast<int>(entry) % d;
        q[column * d + row] = standard_normal((static_cast<double>(words.v[i]) + 0.5) * (1.0 / 4294967296.0));
      }
    }
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
        a.omega.at(r)[static_cast<std::int64_t>(start + j) * d + e] = static_cast<Real>(unit * length);
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
  const std::size_t least = 2 * static_cast<std::size_t>(d) * sizeof(double);
  const std::size_t columns = static_cast<std::size_t>(d) * static_cast<std::size_t>(d) * sizeof(double);
  const bool in_shared = least + columns <= shared_memory_limit();
  const std::size_t bytes = least + (in_shared ? columns : 0);
  const auto kernel = favor_features<Real>;
  allow_shared_memory(kernel, bytes);
  kernel<<<dim3(in_shared ? blocks_for(m, d) : 1, static_cast<unsigned>(a.omega.R)), kThreads, bytes,
           stream_of(exec)>>>(a, in_shared);
  check_launch("favor features");
}

CROSSTALK_CUDA_OP(FavorFeatures)

}  // namespace crosstalk

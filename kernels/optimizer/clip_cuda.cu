// The norm of a gradient on CUDA: a thread block a partial sum, then one a replica.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/device/reduce.cuh"
#include "kernels/optimizer/clip.h"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kThreads = 256;

template <class Real>
__global__ void __launch_bounds__(kThreads) squares(const __grid_constant__ ClipScale<Real> a) {
  const int r = static_cast<int>(blockIdx.y);
  const std::int64_t begin = std::int64_t{blockIdx.x} * kClipBlock, n = a.gradient.size(),
                     end = begin + kClipBlock < n ? begin + kClipBlock : n;
  const Real* g = a.gradient.at(r);
  double sum = 0;
  for (std::int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    const double x = static_cast<double>(g[i]);
    sum += x * x;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) a.partial.at(r)[blockIdx.x] = sum;
}

template <class Real>
__global__ void __launch_bounds__(kThreads) scale_of(const __grid_constant__ ClipScale<Real> a, int blocks) {
  const int r = static_cast<int>(blockIdx.x);
  double sum = 0;
  for (int i = CT_THREAD; i < blocks; i += kThreads) sum += a.partial.at(r)[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *a.scale.at(r) = clip_scale(a.limit, sqrt(sum));
}

}  // namespace

template <class Real>
void run_cuda(const Exec& exec, const ClipScale<Real>& a) {
  if (a.gradient.size() == 0 || a.gradient.R == 0) return;
  const int blocks = clip_blocks(a.gradient.size()), R = a.gradient.R;
  launch(exec, "clip_scale", squares<Real>, per_replica(blocks, R), kThreads, 0, a);
  launch(exec, "clip_scale", scale_of<Real>, per_replica(R, 1), kThreads, 0, a, blocks);
}

CROSSTALK_INSTANTIATE_STEP(cuda, ClipScale)

}  // namespace crosstalk

// A thread four neighbours, which share a block of random words.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/cuda_launch.cuh"
#include "kernels/elementwise/dropout.h"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kThreads = 256;

template <class Real, bool kBackward>
__global__ void __launch_bounds__(kThreads) drop(const __grid_constant__ Dropout<Real> op) {
  const std::int64_t n = op.x.value.size(),
                     i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int r = blockIdx.y;
  if (4 * i >= n) return;
  const std::int32_t draw = kBackward ? op.drawn.value.at(r)[0] : op.draw.value.at(r)[0];
  if (!kBackward && i == 0) op.drawn.value.at(r)[0] = draw;
  const unsigned bits = op.kept(r, i, draw);
  const Real scale = op.scale();
  const Real* from = kBackward ? op.y.gradient.at(r) : op.x.value.at(r);
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const std::int64_t at = 4 * i + j;
    if (at >= n) return;
    const Real v = bits >> j & 1u ? from[at] * scale : Real(0);
    if (kBackward) {
      put(op.x.write, op.x.gradient.at(r) + at, v);
    } else {
      op.y.value.at(r)[at] = v;
    }
  }
}

template <class Real, bool kBackward>
void launch(const Exec& exec, const Dropout<Real>& op) {
  const std::int64_t n = op.x.value.size();
  if (n == 0 || op.x.value.R == 0) return;
  drop<Real, kBackward><<<dim3(blocks_for((n + 3) / 4, kThreads), static_cast<unsigned>(op.x.value.R)),
                          kThreads, 0, stream_of(exec)>>>(op);
  check_launch("dropout");
}

}  // namespace

template <class Real>
void forward_cuda(const Exec& exec, const Dropout<Real>& op) {
  launch<Real, false>(exec, op);
}

template <class Real>
void backward_cuda(const Exec& exec, const Dropout<Real>& op) {
  if (op.x.wanted()) launch<Real, true>(exec, op);
}

CROSSTALK_INSTANTIATE(cuda, Dropout)

}  // namespace crosstalk

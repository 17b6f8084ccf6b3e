// The largest logit on CUDA: a warp a row, a lane some classes.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/cuda_launch.cuh"
#include "kernels/loss/answers.h"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kWarps = 4;

template <class Real>
__global__ void __launch_bounds__(32 * kWarps) answers(const __grid_constant__ Answers<Real> a) {
  const int r = static_cast<int>(blockIdx.y), lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (n >= a.x.rows()) return;
  Real top = -INFINITY;
  int best = -1;
  // The larger one; of equal ones the first class.
  const auto take = [&](Real logit, int v) {
    if (v >= 0 && (logit > top || (logit == top && best >= 0 && v < best))) top = logit, best = v;
  };
  for (int v = lane; v < a.V(); v += 32) take(a.logit(r, n, v), v);
  for (int offset = 16; offset > 0; offset /= 2) {
    const Real other = __shfl_xor_sync(kFullWarp, top, offset);
    take(other, __shfl_xor_sync(kFullWarp, best, offset));
  }
  if (lane == 0) a.answer.at(r)[n] = best;
}

}  // namespace

template <class Real>
void run_cuda(const Exec& exec, const Answers<Real>& a) {
  launch(exec, "answers", answers<Real>, per_replica(blocks_for(a.x.rows(), kWarps), a.x.R), 32 * kWarps, 0,
         a);
}

CROSSTALK_INSTANTIATE_STEP(cuda, Answers)

}  // namespace crosstalk

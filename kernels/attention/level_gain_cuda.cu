// A thread a weight, and a warp the gains of a row.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/level_gain.h"
#include "kernels/base/cuda_launch.cuh"
#include "kernels/base/each.cuh"

namespace crosstalk {
namespace {
using namespace device;

template <class Real>
__device__ Real gain_of(const LevelGain<Real>& op, int r, std::int64_t at) {
  const std::int64_t n = at / op.T();
  const int i = op.token_of_row(r, n), j = static_cast<int>(at % op.T());
  return j > i ? Real(0) : op.lambda.value.at(r)[op.gains(n) + op.level(i, j)];
}

constexpr int kGainThreads = 256;

template <class Real>
__global__ void __launch_bounds__(kGainThreads)
    gain_gradients_kernel(const __grid_constant__ LevelGain<Real> op) {
  const int r = static_cast<int>(blockIdx.y), lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t n = (static_cast<std::int64_t>(blockIdx.x) * kGainThreads + threadIdx.x) / 32;
  if (n >= op.rows()) return;
  const Real *a = op.a.value.at(r) + n * op.T(), *d_y = op.y.gradient.at(r) + n * op.T();
  const int token = op.token_of_row(r, n);
  for (int l = 0; l < op.L(); ++l) {
    const auto tokens = op.of_level(token, l);
    Real sum = 0;
    for (int j = tokens.begin + lane; j < tokens.end; j += 32) sum += d_y[j] * a[j];
    sum = warp_sum(sum);
    if (lane == 0) put(op.lambda.write, op.lambda.gradient.at(r) + op.gains(n) + l, sum);
  }
}

}  // namespace

template <class Real>
void forward_cuda(const Exec& exec, const LevelGain<Real>& op) {
  each(exec, "level_gain", op.a.value.R, op.a.value.size(), [=] __device__(int r, std::int64_t at) {
    const Real gain = gain_of(op, r, at);
    op.y.value.at(r)[at] = gain == 0 ? Real(0) : gain * op.a.value.at(r)[at];
  });
}

template <class Real>
void backward_cuda(const Exec& exec, const LevelGain<Real>& op) {
  if (op.a.wanted()) {
    each(exec, "level_gain backward", op.a.value.R, op.a.value.size(),
         [=] __device__(int r, std::int64_t at) {
           put(op.a.write, op.a.gradient.at(r) + at, gain_of(op, r, at) * op.y.gradient.at(r)[at]);
         });
  }
  if (!op.lambda.wanted()) return;
  if (op.rows() == 0 || op.a.value.R == 0) return;
  const dim3 grid(blocks_for(op.rows(), kGainThreads / 32), static_cast<unsigned>(op.a.value.R));
  gain_gradients_kernel<<<grid, kGainThreads, 0, stream_of(exec)>>>(op);
  check_launch("level_gain backward");
}

CROSSTALK_INSTANTIATE(cuda, LevelGain)

}  // namespace crosstalk

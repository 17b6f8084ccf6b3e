// A thread a weight, and a thread a gain.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/cuda_launch.cuh"
#include "kernels/ops/level_gain.h"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kThreads = 128;

template <class F>
__global__ void __launch_bounds__(kThreads) each_kernel(std::int64_t n, const F f) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < n) f(static_cast<int>(blockIdx.y), i);
}

template <class F>
void each(const Exec& exec, const char* name, int R, std::int64_t n, const F& f) {
  if (n == 0 || R == 0) return;
  each_kernel<<<dim3(blocks_for(n, kThreads), static_cast<unsigned>(R)), kThreads, 0, stream_of(exec)>>>(n,
                                                                                                         f);
  check_launch(name);
}

template <class Real>
__device__ Real gain_of(const LevelGain<Real>& op, int r, std::int64_t at) {
  const std::int64_t n = at / op.T();
  const int i = op.token_of_row(r, n), j = static_cast<int>(at % op.T());
  return j > i ? Real(0) : op.lambda.value.at(r)[op.gains(n) + op.level(i, j)];
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
  const int L = op.L();
  each(exec, "level_gain backward", op.a.value.R, op.rows() * L, [=] __device__(int r, std::int64_t i) {
    const std::int64_t n = i / L;
    const int l = static_cast<int>(i % L);
    put(op.lambda.write, op.lambda.gradient.at(r) + op.gains(n) + l, op.gain_gradient(r, n, l));
  });
}

CROSSTALK_INSTANTIATE(cuda, LevelGain)

}  // namespace crosstalk

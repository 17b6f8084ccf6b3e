// A thread a weight, and a thread a gain.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/level_gain.h"
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

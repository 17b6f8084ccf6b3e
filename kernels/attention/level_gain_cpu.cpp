// LevelGain on the CPU, token pair by token pair.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/level_gain.h"

#include "kernels/base/parallel.h"

namespace crosstalk {

template <class Real>
void forward_cpu(const Exec& exec, const LevelGain<Real>& op) {
  const int T = op.T();
  parallel_items(exec, op.a.value.R, op.rows(), [&](int r, std::int64_t n) {
    const int i = op.token_of_row(r, n);
    const Real* lambda = op.lambda.value.at(r) + op.gains(n);
    for (int j = 0; j < T; ++j)
      op.y.value.at(r)[n * T + j] = j > i ? Real(0) : op.a.value.at(r)[n * T + j] * lambda[op.level(i, j)];
  });
}

template <class Real>
void backward_cpu(const Exec& exec, const LevelGain<Real>& op) {
  const int T = op.T();
  parallel_items(exec, op.a.value.R, op.rows(), [&](int r, std::int64_t n) {
    const int i = op.token_of_row(r, n);
    const Real* lambda = op.lambda.value.at(r) + op.gains(n);
    for (int j = 0; op.a.wanted() && j < T; ++j) {
      const Real gain = j > i ? Real(0) : lambda[op.level(i, j)];
      put(op.a.write, op.a.gradient.at(r) + n * T + j, gain * op.y.gradient.at(r)[n * T + j]);
    }
    for (int l = 0; op.lambda.wanted() && l < op.L(); ++l)
      put(op.lambda.write, op.lambda.gradient.at(r) + op.gains(n) + l, op.gain_gradient(r, n, l));
  });
}

CROSSTALK_INSTANTIATE(cpu, LevelGain)

}  // namespace crosstalk

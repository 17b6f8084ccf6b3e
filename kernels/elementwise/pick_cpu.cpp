// Pick on the CPU.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise/pick.h"

#include <algorithm>

#include "kernels/base/sweep_cpu.h"

namespace crosstalk {

template <class Real>
void forward_cpu(const Exec& exec, const Pick<Real>& op) {
  const int Q = op.Q(), T = op.T(), n = op.columns();
  parallel_items(exec, op.x.value.R, op.x.value.dim(0), [&](int r, std::int64_t b) {
    for (int q = 0; q < Q; ++q) {
      const int t = op.token(r, static_cast<int>(b), q);
      Real* y = op.y.value.at(r) + (b * Q + q) * n;
      for (int i = 0; i < n; ++i) y[i] = t < 0 ? Real(0) : op.x.value.at(r)[(b * T + t) * n + i];
    }
  });
}

template <class Real>
void backward_cpu(const Exec& exec, const Pick<Real>& op) {
  if (!op.x.wanted()) return;
  const int Q = op.Q(), T = op.T(), n = op.columns();
  parallel_items(exec, op.x.value.R, op.x.value.dim(0), [&](int r, std::int64_t b) {
    Real* d_x = op.x.gradient.at(r) + b * T * n;
    if (op.x.write == Write::overwrite) std::fill(d_x, d_x + std::int64_t{T} * n, Real(0));
    for (int q = 0; q < Q; ++q) {
      const int t = op.token(r, static_cast<int>(b), q);
      if (t < 0) continue;
      for (int i = 0; i < n; ++i) d_x[std::int64_t{t} * n + i] += op.y.gradient.at(r)[(b * Q + q) * n + i];
    }
  });
}

CROSSTALK_INSTANTIATE(cpu, Pick)
CROSSTALK_SWEEPS(cpu, Signs)

}  // namespace crosstalk

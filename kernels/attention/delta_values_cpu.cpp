// What the delta rule writes, token after token.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/delta_values.h"

#include <algorithm>
#include <vector>

#include "kernels/base/head_rows.h"
#include "kernels/base/parallel.h"

namespace crosstalk {

template <class Real>
void forward_cpu(const Exec& exec, const DeltaValues<Real>& op) {
  const int H = op.H(), T = op.T(), K = op.K(), V = op.V();
  parallel_items(exec, op.v.value.R, static_cast<std::int64_t>(op.B()) * H, [&](int r, std::int64_t bh) {
    const int b = static_cast<int>(bh) / H, h = static_cast<int>(bh) % H;
    const HeadRows<Real> k(op.k.value, r, b, h, T, H, K), v(op.v.value, r, b, h, T, H, V),
        gain(op.gain.value, r, b, h, T, H, 1), u(op.u.value, r, b, h, T, H, V);
    for (int t = 0; t < T; ++t) {
      for (int c = 0; c < V; ++c) u(t)[c] = *gain(t) * v(t)[c];
      for (int j = 0; j < t; ++j) axpy(-*gain(t) * dot(k(t), k(j), K), u(j), u(t), V);
    }
  });
}

template <class Real>
void backward_cpu(const Exec& exec, const DeltaValues<Real>& op) {
  const int H = op.H(), T = op.T(), K = op.K(), V = op.V();
  parallel_items(exec, op.v.value.R, static_cast<std::int64_t>(op.B()) * H, [&](int r, std::int64_t bh) {
    const int b = static_cast<int>(bh) / H, h = static_cast<int>(bh) % H;
    const HeadField<Real> k(op.k, r, b, h, T, H, K), v(op.v, r, b, h, T, H, V),
        gain(op.gain, r, b, h, T, H, 1);
    const HeadRows<Real> u(op.u.value, r, b, h, T, H, V), d_u(op.u.gradient, r, b, h, T, H, V);
    k.clear(), v.clear(), gain.clear();
    std::vector<Real> rows(static_cast<std::size_t>(T) * static_cast<std::size_t>(V));
    const auto z = [&](int t) { return rows.data() + static_cast<std::ptrdiff_t>(t) * V; };
    for (int t = 0; t < T; ++t) std::copy_n(d_u(t), V, z(t));
    for (int i = T - 1; i >= 0; --i) {
      const Real factor = *gain.value(i);
      if (v.gradient) axpy(factor, z(i), v.gradient(i), V);
      if (gain.gradient) *gain.gradient(i) += dot(z(i), v.value(i), V);
      for (int j = 0; j < i; ++j) {
        const Real weight = dot(k.value(i), k.value(j), K), along = dot(z(i), u(j), V);
        if (gain.gradient) *gain.gradient(i) -= weight * along;
        if (k.gradient) {
          axpy(-factor * along, k.value(j), k.gradient(i), K);
          axpy(-factor * along, k.value(i), k.gradient(j), K);
        }
        axpy(-factor * weight, z(i), z(j), V);
      }
    }
  });
}

CROSSTALK_INSTANTIATE(cpu, DeltaValues)

}  // namespace crosstalk

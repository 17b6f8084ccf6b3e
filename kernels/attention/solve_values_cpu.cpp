// Values through a triangular solve, token after token.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "kernels/attention/solve_values.h"
#include "kernels/base/head_rows.h"
#include "kernels/base/parallel.h"

namespace crosstalk {

template <class Real>
void forward_cpu(const Exec& exec, const SolveValues<Real>& op) {
  const int H = op.H(), T = op.T(), V = op.V();
  parallel_items(exec, op.v.value.R, static_cast<std::int64_t>(op.B()) * H, [&](int r, std::int64_t bh) {
    const int b = static_cast<int>(bh) / H, h = static_cast<int>(bh) % H;
    const HeadRows<Real> v(op.v.value, r, b, h, T, H, V), u(op.u.value, r, b, h, T, H, V),
        gain(op.gain.value, r, b, h, T, H, 1);
    for (int t = 0; t < T; ++t) {
      const Real* l = op.l.value.at(r) + (bh * T + t) * T;
      std::copy_n(v(t), V, u(t));
      for (int j = 0; j < t; ++j) axpy(gain ? -*gain(t) * l[j] : -l[j], u(j), u(t), V);
    }
  });
}

template <class Real>
void backward_cpu(const Exec& exec, const SolveValues<Real>& op) {
  const int H = op.H(), T = op.T(), V = op.V();
  const std::int64_t square = static_cast<std::int64_t>(T) * T;
  parallel_items(exec, op.v.value.R, static_cast<std::int64_t>(op.B()) * H, [&](int r, std::int64_t bh) {
    const int b = static_cast<int>(bh) / H, h = static_cast<int>(bh) % H;
    const HeadField<Real> v(op.v, r, b, h, T, H, V), gain(op.gain, r, b, h, T, H, 1);
    const HeadRows<Real> u(op.u.value, r, b, h, T, H, V), d_u(op.u.gradient, r, b, h, T, H, V);
    v.clear();
    if (op.l.write == Write::overwrite) std::fill_n(op.l.gradient.at(r) + bh * square, square, Real(0));
    gain.clear();
    std::vector<Real> rows(static_cast<std::size_t>(T) * static_cast<std::size_t>(V));
    const auto z = [&](int t) { return rows.data() + static_cast<std::ptrdiff_t>(t) * V; };
    for (int t = 0; t < T; ++t) std::copy_n(d_u(t), V, z(t));
    for (int i = T - 1; i >= 0; --i) {
      const Real* l = op.l.value.at(r) + bh * square + static_cast<std::int64_t>(i) * T;
      const Real factor = gain ? *gain.value(i) : Real(1);
      for (int j = 0; j < i; ++j) {
        const Real product = dot(z(i), u(j), V);
        if (op.l.wanted())
          op.l.gradient.at(r)[bh * square + static_cast<std::int64_t>(i) * T + j] -= factor * product;
        if (gain.gradient) *gain.gradient(i) -= l[j] * product;
        axpy(-factor * l[j], z(i), z(j), V);
      }
      if (v.gradient) axpy(Real(1), z(i), v.gradient(i), V);
    }
  });
}

CROSSTALK_INSTANTIATE(cpu, SolveValues)

}  // namespace crosstalk

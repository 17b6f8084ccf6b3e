// Weights times values.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/attention/attend.h"
#include "kernels/base/head_rows.h"
#include "kernels/base/parallel.h"

namespace crosstalk {

template <class Real>
void forward_cpu(const Exec& exec, const Mix<Real>& op) {
  const int H = op.a.value.dim(1), Q = op.a.value.dim(2), T = op.a.value.dim(3), V = op.v.value.dim(3);
  parallel_items(exec, op.a.value.R, op.a.value.rows(), [&](int r, std::int64_t row) {
    const int i = static_cast<int>(row % Q), h = static_cast<int>(row / Q % H),
              b = static_cast<int>(row / Q / H);
    const HeadRows<Real> v(op.v.value, r, b, h, T, H, V), o(op.o.value, r, b, h, Q, H, V);
    const Real* a = op.a.value.at(r) + row * T;
    std::fill_n(o(i), V, Real(0));
    for (int j = 0; j < T; ++j)
      if (a[j] != 0) axpy(a[j], v(j), o(i), V);  // most are 0: tokens not seen
  });
}

template <class Real>
void backward_cpu(const Exec& exec, const Mix<Real>& op) {
  const int B = op.a.value.dim(0), H = op.a.value.dim(1), Q = op.a.value.dim(2), T = op.a.value.dim(3);
  const int V = op.v.value.dim(3);
  parallel_items(exec, op.a.value.R, static_cast<std::int64_t>(B) * H, [&](int r, std::int64_t bh) {
    const int b = static_cast<int>(bh) / H, h = static_cast<int>(bh) % H;
    const HeadField<Real> v(op.v, r, b, h, T, H, V);
    const HeadRows<Real> d_o(op.o.gradient, r, b, h, Q, H, V);
    v.clear();
    for (int i = 0; i < Q; ++i) {
      const std::int64_t row = (bh * Q + i) * T;
      const Real* a = op.a.value.at(r) + row;
      for (int j = 0; j < T; ++j) {
        if (op.a.wanted()) put(op.a.write, op.a.gradient.at(r) + row + j, dot(d_o(i), v.value(j), V));
        if (v.gradient && a[j] != 0) axpy(a[j], d_o(i), v.gradient(j), V);
      }
    }
  });
}

CROSSTALK_INSTANTIATE(cpu, Mix)

}  // namespace crosstalk

// Triangular solves: of weights row after row, of values token after token.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "kernels/attention/solve.h"
#include "kernels/base/head_rows.h"
#include "kernels/base/parallel.h"

namespace crosstalk {

template <class Real>
void forward_cpu(const Exec& exec, const Solve<Real>& op) {
  const int H = op.H(), Q = op.Q(), T = op.T();
  const std::int64_t rows = op.a.value.rows();
  parallel_items(exec, op.a.value.R, rows, [&](int r, std::int64_t row) {
    const int bh = static_cast<int>(row / Q);
    const HeadField<Real> gain(op.gain, r, bh / H, bh % H, T, H, 1);
    const Real* l = op.l.value.at(r) + static_cast<std::int64_t>(bh) * T * T;
    Real* y = op.y.value.at(r) + row * T;
    std::copy_n(op.a.value.at(r) + row * T, T, y);
    for (int i = T - 1; i > 0; --i)
      axpy(gain ? -y[i] * *gain.value(i) : -y[i], l + static_cast<std::int64_t>(i) * T, y, i);
  });
}

// y M = a with M = I + Diag(gain) l, so with z = d_y M^-T:  d_a = z,  d_M = -y^T z below the diagonal,
//   d_l_ij = gain_i d_M_ij,  d_gain_i = sum_j l_ij d_M_ij = -sum_q y_qi (l z_q)_i
template <class Real>
void backward_cpu(const Exec& exec, const Solve<Real>& op) {
  const int B = op.B(), H = op.H(), Q = op.Q(), T = op.T();
  const auto clear = [](const In<Real>& in, int r, std::int64_t offset, std::int64_t n) {
    if (in.write == Write::overwrite) std::fill_n(in.gradient.at(r) + offset, n, Real(0));
  };
  parallel_items(exec, op.a.value.R, static_cast<std::int64_t>(B) * H, [&](int r, std::int64_t bh) {
    const HeadField<Real> gain(op.gain, r, static_cast<int>(bh) / H, static_cast<int>(bh) % H, T, H, 1);
    const std::int64_t square = static_cast<std::int64_t>(T) * T;
    const Real* l = op.l.value.at(r) + bh * square;
    clear(op.a, r, bh * Q * T, static_cast<std::int64_t>(Q) * T);
    clear(op.l, r, bh * square, square);
    gain.clear();
    std::vector<Real> z(static_cast<std::size_t>(T));
    for (int q = 0; q < Q; ++q) {
      const std::int64_t row = (bh * Q + q) * T;
      const Real* y = op.y.value.at(r) + row;
      const Real* d_y = op.y.gradient.at(r) + row;
      for (int j = 0; j < T; ++j) {
        const Real below = dot(l + static_cast<std::int64_t>(j) * T, z.data(), j);
        z[static_cast<std::size_t>(j)] = d_y[j] - (gain ? *gain.value(j) * below : below);
        if (gain.gradient) *gain.gradient(j) -= y[j] * below;
      }
      if (op.a.wanted()) axpy(Real(1), z.data(), op.a.gradient.at(r) + row, T);
      for (int i = 1; i < T && op.l.wanted(); ++i)
        axpy(gain ? -y[i] * *gain.value(i) : -y[i], z.data(),
             op.l.gradient.at(r) + bh * square + static_cast<std::int64_t>(i) * T, i);
    }
  });
}

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
      for (int c = 0; c < V && op.gained; ++c) u(t)[c] *= *gain(t);
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
      if (v.gradient) axpy(op.gained ? factor : Real(1), z(i), v.gradient(i), V);
      if (gain.gradient && op.gained) *gain.gradient(i) += dot(z(i), v.value(i), V);
    }
  });
}

CROSSTALK_INSTANTIATE(cpu, Solve)
CROSSTALK_INSTANTIATE(cpu, SolveValues)

}  // namespace crosstalk

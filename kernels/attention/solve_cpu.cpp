// Reads through a triangular solve, row after row.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "kernels/attention/attend.h"
#include "kernels/base/head_rows.h"
#include "kernels/base/parallel.h"

namespace crosstalk {

template <class Real>
void forward_cpu(const Exec& exec, const Solve<Real>& op) {
  const int H = op.a.value.dim(1), Q = op.a.value.dim(2), T = op.a.value.dim(3);
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
  const int B = op.a.value.dim(0), H = op.a.value.dim(1), Q = op.a.value.dim(2), T = op.a.value.dim(3);
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

CROSSTALK_INSTANTIATE(cpu, Solve)

}  // namespace crosstalk

// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/attention.h"

#include <Eigen/Core>
#include <cmath>
#include <limits>

#include "kernels/base/parallel.h"

namespace crosstalk {
namespace {

template <class Real>
using Matrix = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class Real>
using MatrixMap = Eigen::Map<Matrix<Real>>;
template <class Real>
using ConstMatrixMap = Eigen::Map<const Matrix<Real>>;

constexpr std::int64_t kRows = 32;

}  // namespace

template <class Real>
void run_cpu(const Exec& exec, const ScoresForward<Real>& a) {
  const int B = a.k.dim(0), T = a.k.dim(1), P = a.k.dim(2), Q = a.q.dim(1);
  const Real scale = static_cast<Real>(a.scale);
  parallel_items(exec, a.k.R, B, [&](int r, std::int64_t b) {
    const Real* k = a.k.at(r) + b * T * P;
    const Real* q = a.q.at(r) + b * Q * P;
    Real* out = a.a.at(r) + b * Q * T;
    if (Q == 1) {
      for (int t = 0; t < T; ++t) out[t] = scale * dot(q, k + static_cast<std::int64_t>(t) * P, P);
    } else {
      MatrixMap<Real>(out, Q, T).noalias() =
          scale * (ConstMatrixMap<Real>(q, Q, P) * ConstMatrixMap<Real>(k, T, P).transpose());
    }
    for (int i = 0; i < Q; ++i) {
      for (int t = a.position.at(r)[b * Q + i]; t < T; ++t) out[static_cast<std::int64_t>(i) * T + t] = 0;
    }
  });
}

template <class Real>
void run_cpu(const Exec& exec, const ScoresBackward<Real>& a) {
  const int B = a.k.dim(0), T = a.k.dim(1), P = a.k.dim(2), Q = a.q.dim(1);
  const Real scale = static_cast<Real>(a.scale);
  parallel_items(exec, a.k.R, B, [&](int r, std::int64_t b) {
    const Real* k = a.k.at(r) + b * T * P;
    const Real* q = a.q.at(r) + b * Q * P;
    if (a.write_k == Write::overwrite)
      std::fill_n(a.d_k.at(r) + b * T * P, static_cast<std::int64_t>(T) * P, Real(0));
    if (a.write_q == Write::overwrite)
      std::fill_n(a.d_q.at(r) + b * Q * P, static_cast<std::int64_t>(Q) * P, Real(0));
    for (int i = 0; i < Q; ++i) {
      const int seen = a.position.at(r)[b * Q + i];
      const Real* d_a = a.d_a.at(r) + (b * Q + i) * T;
      for (int t = 0; t < seen; ++t) {
        const Real weight = scale * d_a[t];
        const std::int64_t row = (b * T + t) * P;
        if (a.write_k != Write::none)
          axpy(weight, q + static_cast<std::int64_t>(i) * P, a.d_k.at(r) + row, P);
        if (a.write_q != Write::none)
          axpy(weight, k + static_cast<std::int64_t>(t) * P, a.d_q.at(r) + (b * Q + i) * P, P);
      }
    }
  });
}

template <class Real>
void run_cpu(const Exec& exec, const SoftmaxForward<Real>& a) {
  const int T = a.x.columns();
  parallel_blocks(exec, a.x.R, a.x.rows(), kRows, [&](int r, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Real* x = a.x.at(r) + i * T;
      Real* y = a.y.at(r) + i * T;
      const int seen = a.position.at(r)[i];
      Real largest = -std::numeric_limits<Real>::infinity();
      for (int t = 0; t < seen; ++t) largest = std::max(largest, x[t]);
      using Row = Eigen::Array<Real, Eigen::Dynamic, 1>;
      Eigen::Map<Row>(y, seen) = (Eigen::Map<const Row>(x, seen) - largest).exp();
      const Real inverse = 1 / sum(y, seen);
      for (int t = 0; t < seen; ++t) y[t] *= inverse;
      std::fill(y + seen, y + T, Real(0));
    }
  });
}

template <class Real>
void run_cpu(const Exec& exec, const SoftmaxBackward<Real>& a) {
  if (a.write_x == Write::none) return;
  const int T = a.y.columns();
  parallel_blocks(exec, a.y.R, a.y.rows(), kRows, [&](int r, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Real* y = a.y.at(r) + i * T;
      const Real* d_y = a.d_y.at(r) + i * T;
      const Real along = dot(y, d_y, T);
      for (int t = 0; t < T; ++t) put(a.write_x, a.d_x.at(r) + i * T + t, y[t] * (d_y[t] - along));
    }
  });
}

template void run_cpu(const Exec&, const ScoresForward<float>&);
template void run_cpu(const Exec&, const ScoresForward<double>&);
template void run_cpu(const Exec&, const ScoresBackward<float>&);
template void run_cpu(const Exec&, const ScoresBackward<double>&);
template void run_cpu(const Exec&, const SoftmaxForward<float>&);
template void run_cpu(const Exec&, const SoftmaxForward<double>&);
template void run_cpu(const Exec&, const SoftmaxBackward<float>&);
template void run_cpu(const Exec&, const SoftmaxBackward<double>&);

}  // namespace crosstalk

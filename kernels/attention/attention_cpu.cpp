// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/attention.h"

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
void forward_cpu(const Exec& exec, const Scores<Real>& a) {
  const int B = a.k.value.dim(0), T = a.k.value.dim(1), P = a.k.value.dim(2), Q = a.q.value.dim(1);
  const Real scale = static_cast<Real>(a.scale);
  parallel_items(exec, a.k.value.R, B, [&](int r, std::int64_t b) {
    const Real* k = a.k.value.at(r) + b * T * P;
    const Real* q = a.q.value.at(r) + b * Q * P;
    Real* out = a.a.value.at(r) + b * Q * T;
    if (Q == 1) {
      for (int t = 0; t < T; ++t) out[t] = scale * dot(q, k + static_cast<std::int64_t>(t) * P, P);
    } else {
      MatrixMap<Real>(out, Q, T).noalias() =
          scale * (ConstMatrixMap<Real>(q, Q, P) * ConstMatrixMap<Real>(k, T, P).transpose());
    }
    for (int i = 0; i < Q; ++i) {
      for (int t = a.position.value.at(r)[b * Q + i]; t < T; ++t)
        out[static_cast<std::int64_t>(i) * T + t] = 0;
    }
  });
}

template <class Real>
void backward_cpu(const Exec& exec, const Scores<Real>& a) {
  const int B = a.k.value.dim(0), T = a.k.value.dim(1), P = a.k.value.dim(2), Q = a.q.value.dim(1);
  const Real scale = static_cast<Real>(a.scale);
  parallel_items(exec, a.k.value.R, B, [&](int r, std::int64_t b) {
    const Real* k = a.k.value.at(r) + b * T * P;
    const Real* q = a.q.value.at(r) + b * Q * P;
    if (a.k.write == Write::overwrite)
      std::fill_n(a.k.gradient.at(r) + b * T * P, static_cast<std::int64_t>(T) * P, Real(0));
    if (a.q.write == Write::overwrite)
      std::fill_n(a.q.gradient.at(r) + b * Q * P, static_cast<std::int64_t>(Q) * P, Real(0));
    for (int i = 0; i < Q; ++i) {
      const int seen = a.position.value.at(r)[b * Q + i];
      const Real* d_a = a.a.gradient.at(r) + (b * Q + i) * T;
      for (int t = 0; t < seen; ++t) {
        const Real weight = scale * d_a[t];
        const std::int64_t row = (b * T + t) * P;
        if (a.k.write != Write::none)
          axpy(weight, q + static_cast<std::int64_t>(i) * P, a.k.gradient.at(r) + row, P);
        if (a.q.write != Write::none)
          axpy(weight, k + static_cast<std::int64_t>(t) * P, a.q.gradient.at(r) + (b * Q + i) * P, P);
      }
    }
  });
}

template <class Real>
void forward_cpu(const Exec& exec, const Softmax<Real>& a) {
  const int T = a.x.value.columns();
  parallel_blocks(exec, a.x.value.R, a.x.value.rows(), kRows,
                  [&](int r, std::int64_t begin, std::int64_t end) {
                    for (std::int64_t i = begin; i < end; ++i) {
                      const Real* x = a.x.value.at(r) + i * T;
                      Real* y = a.y.value.at(r) + i * T;
                      const int seen = a.position.value.at(r)[i];
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
void backward_cpu(const Exec& exec, const Softmax<Real>& a) {
  if (a.x.write == Write::none) return;
  const int T = a.y.value.columns();
  parallel_blocks(exec, a.y.value.R, a.y.value.rows(), kRows,
                  [&](int r, std::int64_t begin, std::int64_t end) {
                    for (std::int64_t i = begin; i < end; ++i) {
                      const Real* y = a.y.value.at(r) + i * T;
                      const Real* d_y = a.y.gradient.at(r) + i * T;
                      const Real along = dot(y, d_y, T);
                      for (int t = 0; t < T; ++t)
                        put(a.x.write, a.x.gradient.at(r) + i * T + t, y[t] * (d_y[t] - along));
                    }
                  });
}

CROSSTALK_INSTANTIATE(cpu, Scores)
CROSSTALK_INSTANTIATE(cpu, Softmax)

}  // namespace crosstalk

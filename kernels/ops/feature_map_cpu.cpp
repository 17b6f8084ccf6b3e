// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/feature_map.h"

#include <Eigen/Core>
#include <cmath>
#include <vector>

#include "kernels/base/parallel.h"

namespace crosstalk {
namespace {

// Rows in one work item. A multiple of 16 keeps every item's start at 64 bytes, whatever the width: Eigen's
// vectorised exp differs from its scalar one in the last bit, so alignment must not depend on anything but
// the item.
constexpr std::int64_t kRows = 64;

template <class Real>
using Array = Eigen::Map<Eigen::Array<Real, Eigen::Dynamic, 1>>;
template <class Real>
using ConstArray = Eigen::Map<const Eigen::Array<Real, Eigen::Dynamic, 1>>;
template <class Real>
using Matrix = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class Real>
using MatrixMap = Eigen::Map<Matrix<Real>>;
template <class Real>
using ConstMatrixMap = Eigen::Map<const Matrix<Real>>;

template <class Real>
void elementwise(FeatureMap map, const Real* x_data, Real* y_data, std::int64_t n) {
  const ConstArray<Real> x(x_data, n);
  Array<Real> y(y_data, n);
  switch (map) {
    case FeatureMap::identity:
      y = x;
      break;
    case FeatureMap::elu1:  // in two passes, since Eigen does not vectorise a select
      y = x.min(Real(0)).exp();
      for (std::int64_t i = 0; i < n; ++i) y_data[i] = x_data[i] > 0 ? x_data[i] + 1 : y_data[i];
      break;
    case FeatureMap::relu:
      y = x.max(Real(0));
      break;
    default:
      y = x.tanh();
      break;
  }
}

// y_j = f_i f_{i-j} with f = [relu(x); relu(-x)], both indices modulo 2 d.
template <class Real>
void dpfp_row(const Real* x, Real* y, Real* f, int d, int nu) {
  for (int i = 0; i < d; ++i) {
    f[i] = x[i] < 0 ? Real(0) : x[i];  // so that a NaN stays one
    f[d + i] = x[i] > 0 ? Real(0) : 0 - x[i];
  }
  const int w = 2 * d;
  for (int j = 1; j <= nu; ++j, y += w) {
    const int shift = j % w;
    for (int i = 0; i < shift; ++i) y[i] = f[i] * f[i + w - shift];
    for (int i = shift; i < w; ++i) y[i] = f[i] * f[i - shift];
  }
}

// d_f_i = sum over j of d_y_j,i f_{i-j} + d_y_j,i+j f_{i+j}: gathered, so that the loops vectorise.
template <class Real>
void dpfp_row_backward(const Real* x, const Real* __restrict d_y, Real* d_x, Real* __restrict f,
                       Real* __restrict d_f, int d, int nu, Write mode) {
  const int w = 2 * d;
  for (int i = 0; i < d; ++i) {
    f[i] = x[i] > 0 ? x[i] : Real(0);
    f[d + i] = x[i] < 0 ? -x[i] : Real(0);
  }
  std::fill_n(d_f, w, Real(0));
  for (int j = 1; j <= nu; ++j, d_y += w) {
    const int shift = j % w, back = w - shift;
    for (int i = 0; i < shift; ++i) d_f[i] += d_y[i] * f[i + back];
    for (int i = shift; i < w; ++i) d_f[i] += d_y[i] * f[i - shift];
    for (int i = 0; i < back; ++i) d_f[i] += d_y[i + shift] * f[i + shift];
    for (int i = back; i < w; ++i) d_f[i] += d_y[i - back] * f[i - back];
  }
  for (int i = 0; i < d; ++i) {
    const Real positive = x[i] > 0 ? d_f[i] : Real(0), negative = x[i] < 0 ? d_f[d + i] : Real(0);
    put(mode, d_x + i, positive - negative);
  }
}

bool is_favor(FeatureMap map) {
  return map == FeatureMap::favor_hyperbolic || map == FeatureMap::favor_positive;
}

}  // namespace

template <class Real>
void run_cpu(const Exec& exec, const FeatureMapForward<Real>& a) {
  const int d = a.x.columns(), p = a.y.columns();
  parallel_blocks(exec, a.x.R, a.x.rows(), kRows, [&](int r, std::int64_t begin, std::int64_t end) {
    const Real* x = a.x.at(r) + begin * d;
    Real* y = a.y.at(r) + begin * p;
    if (a.map == FeatureMap::dpfp) {
      std::vector<Real> scratch(2 * static_cast<std::size_t>(d));
      for (std::int64_t i = begin; i < end; ++i, x += d, y += p) dpfp_row(x, y, scratch.data(), d, a.nu);
    } else if (is_favor(a.map)) {
      const int m = a.omega.dim(0);
      const std::int64_t n = end - begin;
      const Matrix<Real> u =
          ConstMatrixMap<Real>(x, n, d) * ConstMatrixMap<Real>(a.omega.at(r), m, d).transpose();
      const Real scale = -std::log(static_cast<Real>(p)) / 2;
      for (std::int64_t i = 0; i < n; ++i) {
        const Real offset = scale - dot(x + i * d, x + i * d, d) / 2;
        const ConstArray<Real> row(u.data() + i * m, m);
        Array<Real>(y + i * p, m) = (row + offset).exp();
        if (p == 2 * m) Array<Real>(y + i * p + m, m) = (offset - row).exp();
      }
    } else {
      elementwise(a.map, x, y, (end - begin) * d);
    }
  });
}

template <class Real>
void run_cpu(const Exec& exec, const FeatureMapBackward<Real>& a) {
  if (a.write_x == Write::none) return;
  const int d = a.x.columns(), p = a.d_y.columns();
  parallel_blocks(exec, a.x.R, a.x.rows(), kRows, [&](int r, std::int64_t begin, std::int64_t end) {
    const Real* x = a.x.at(r) + begin * d;
    const Real* y = a.y.at(r) + begin * p;
    const Real* d_y = a.d_y.at(r) + begin * p;
    Real* d_x = a.d_x.at(r) + begin * d;
    const std::int64_t n = end - begin;
    switch (a.map) {
      case FeatureMap::identity:
        for (std::int64_t i = 0; i < n * d; ++i) put(a.write_x, d_x + i, d_y[i]);
        break;
      case FeatureMap::elu1:  // phi' = 1 for x > 0, else exp(x) = phi
        for (std::int64_t i = 0; i < n * d; ++i) put(a.write_x, d_x + i, x[i] > 0 ? d_y[i] : d_y[i] * y[i]);
        break;
      case FeatureMap::relu:
        for (std::int64_t i = 0; i < n * d; ++i) put(a.write_x, d_x + i, x[i] > 0 ? d_y[i] : Real(0));
        break;
      case FeatureMap::tanh:
        for (std::int64_t i = 0; i < n * d; ++i) put(a.write_x, d_x + i, d_y[i] * (1 - y[i] * y[i]));
        break;
      case FeatureMap::dpfp: {
        std::vector<Real> scratch(4 * static_cast<std::size_t>(d));
        for (std::int64_t i = 0; i < n; ++i) {
          dpfp_row_backward(x + i * d, d_y + i * p, d_x + i * d, scratch.data(), scratch.data() + 2 * d, d,
                            a.nu, a.write_x);
        }
        break;
      }
      case FeatureMap::favor_hyperbolic:
      case FeatureMap::favor_positive: {  // d_u = y+ d_y+ - y- d_y-; d_x = O^T d_u - x sum(y d_y)
        const int m = a.omega.dim(0);
        Matrix<Real> d_u(n, m);
        for (std::int64_t i = 0; i < n; ++i) {
          for (int j = 0; j < m; ++j) {
            d_u(i, j) = y[i * p + j] * d_y[i * p + j];
            if (p == 2 * m) d_u(i, j) -= y[i * p + m + j] * d_y[i * p + m + j];
          }
        }
        const Matrix<Real> product = d_u * ConstMatrixMap<Real>(a.omega.at(r), m, d);
        for (std::int64_t i = 0; i < n; ++i) {
          const Real total = dot(y + i * p, d_y + i * p, p);
          for (int j = 0; j < d; ++j) put(a.write_x, d_x + i * d + j, product(i, j) - x[i * d + j] * total);
        }
        break;
      }
    }
  });
}

template void run_cpu(const Exec&, const FeatureMapForward<float>&);
template void run_cpu(const Exec&, const FeatureMapForward<double>&);
template void run_cpu(const Exec&, const FeatureMapBackward<float>&);
template void run_cpu(const Exec&, const FeatureMapBackward<double>&);

}  // namespace crosstalk

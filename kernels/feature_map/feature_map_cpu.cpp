// Feature maps on the CPU, blocks of rows at a time.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/feature_map/feature_map.h"

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
using ConstMatrixMap = Eigen::Map<const Matrix<Real>>;

/// One row alone.
struct OneLane {
  static constexpr int kLanes = 1, lane = 0;
  void sync() const {}
  template <class Real>
  Real sum(Real x) const {
    return x;
  }
  template <class Real>
  Real max(Real x) const {
    return x;
  }
  void each(int begin, int end, auto&& f) const {
    for (int i = begin; i < end; ++i) f(i);
  }
};

/// Rows begin .. begin + n - 1 of one replica.
template <class Real>
struct Rows {
  int d = 0, p = 0, number = 1;
  std::int64_t n = 0;
  const Real *x = nullptr, *omega = nullptr;
  int m = 0;  ///< rows of omega
};
template <class Real>
Rows<Real> rows_of(const MapFeatures<Real>& a, int p, int r, std::int64_t begin, std::int64_t end) {
  const Tensor<Real>& x = a.x.value;
  Rows<Real> rows{x.columns(), p, a.number, end - begin, x.at(r) + begin * x.columns()};
  if (a.omega) rows.omega = a.omega.value.at(r), rows.m = a.omega.value.dim(0);
  return rows;
}

template <class Map, class Real>
void entries(const Rows<Real>& rows, Real* y) {
  const std::int64_t n = rows.n * rows.d;
  const Real* x = rows.x;
  if constexpr (Map::kCore == maps::Core::none) {
    for (std::int64_t i = 0; i < n; ++i) y[i] = Map::value(x[i], x[i]);
  } else {  // in three passes, since the compiler does not vectorise the core
    for (std::int64_t i = 0; i < n; ++i) y[i] = Map::argument(x[i]);
    Array<Real> core(y, n);
    if constexpr (Map::kCore == maps::Core::exp)
      core = core.exp();
    else
      core = core.tanh();
    for (std::int64_t i = 0; i < n; ++i) y[i] = Map::value(x[i], y[i]);
  }
}

template <class Map, class Real>
void rows_forward(const Rows<Real>& rows, Real* y) {
  std::vector<Real> work(static_cast<std::size_t>(Map::work(rows.d, 1)));
  maps::MapRow<Real> row{rows.d, rows.p, rows.number, rows.x, work.data()};
  for (std::int64_t i = 0; i < rows.n; ++i, row.x += rows.d, y += rows.p) Map::forward(OneLane(), row, y);
}

template <class Map, class Real>
void rows_backward(const Rows<Real>& rows, const Real* y, const Real* d_y, Real* d_x, Write mode) {
  std::vector<Real> work(static_cast<std::size_t>(Map::work(rows.d, 1)));
  maps::MapRow<Real> row{rows.d, rows.p, rows.number, rows.x, work.data()};
  for (std::int64_t i = 0; i < rows.n; ++i, row.x += rows.d, d_x += rows.d, y += rows.p, d_y += rows.p)
    Map::backward(OneLane(), row, y, d_y, maps::RowGradient<Real>{d_x, mode});
}

/// y = exp(+- O x - |x|^2 / 2 - log(p) / 2).
template <class Real>
void favor(const Rows<Real>& rows, Real* y) {
  const int d = rows.d, p = rows.p, m = rows.m;
  const Matrix<Real> u =
      ConstMatrixMap<Real>(rows.x, rows.n, d) * ConstMatrixMap<Real>(rows.omega, m, d).transpose();
  const Real scale = -std::log(static_cast<Real>(p)) / 2;
  for (std::int64_t i = 0; i < rows.n; ++i) {
    const Real offset = scale - dot(rows.x + i * d, rows.x + i * d, d) / 2;
    const ConstArray<Real> row(u.data() + i * m, m);
    Array<Real>(y + i * p, m) = (row + offset).exp();
    if (p == 2 * m) Array<Real>(y + i * p + m, m) = (offset - row).exp();
  }
}

/// d_u = y+ d_y+ - y- d_y-; d_x = O^T d_u - x sum(y d_y).
template <class Real>
void favor_backward(const Rows<Real>& rows, const Real* y, const Real* d_y, Real* d_x, Write mode) {
  const int d = rows.d, p = rows.p, m = rows.m;
  const std::int64_t n = rows.n;
  Matrix<Real> d_u(n, m);
  for (std::int64_t i = 0; i < n; ++i) {
    for (int j = 0; j < m; ++j) {
      d_u(i, j) = y[i * p + j] * d_y[i * p + j];
      if (p == 2 * m) d_u(i, j) -= y[i * p + m + j] * d_y[i * p + m + j];
    }
  }
  const Matrix<Real> product = d_u * ConstMatrixMap<Real>(rows.omega, m, d);
  for (std::int64_t i = 0; i < n; ++i) {
    const Real total = dot(y + i * p, d_y + i * p, p);
    for (int j = 0; j < d; ++j) put(mode, d_x + i * d + j, product(i, j) - rows.x[i * d + j] * total);
  }
}

}  // namespace

template <class Real>
void forward_cpu(const Exec& exec, const MapFeatures<Real>& a) {
  const int p = a.y.value.columns();
  const Tensor<Real>& x = a.x.value;
  parallel_blocks(exec, x.R, x.rows(), kRows, [&](int r, std::int64_t begin, std::int64_t end) {
    const auto rows = rows_of(a, p, r, begin, end);
    Real* y = a.y.value.at(r) + begin * p;
    visit_map(a.map, [&]<class Map>() {
      if constexpr (Map::kFamily == maps::Family::entry)
        entries<Map>(rows, y);
      else if constexpr (Map::kFamily == maps::Family::row)
        rows_forward<Map>(rows, y);
      else
        favor(rows, y);
    });
  });
}

template <class Real>
void backward_cpu(const Exec& exec, const MapFeatures<Real>& a) {
  if (!a.x.wanted()) return;
  const int p = a.y.gradient.columns();
  const Tensor<Real>& x = a.x.value;
  parallel_blocks(exec, x.R, x.rows(), kRows, [&](int r, std::int64_t begin, std::int64_t end) {
    const auto rows = rows_of(a, p, r, begin, end);
    const Real* y = a.y.value.at(r) + begin * p;
    const Real* d_y = a.y.gradient.at(r) + begin * p;
    Real* d_x = a.x.gradient.at(r) + begin * rows.d;
    visit_map(a.map, [&]<class Map>() {
      if constexpr (Map::kFamily == maps::Family::entry)
        for (std::int64_t i = 0; i < rows.n * rows.d; ++i)
          put(a.x.write, d_x + i, Map::pull(rows.x[i], y[i], d_y[i]));
      else if constexpr (Map::kFamily == maps::Family::row)
        rows_backward<Map>(rows, y, d_y, d_x, a.x.write);
      else
        favor_backward(rows, y, d_y, d_x, a.x.write);
    });
  });
}

CROSSTALK_INSTANTIATE(cpu, MapFeatures)

}  // namespace crosstalk

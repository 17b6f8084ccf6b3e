// Muon on the CPU: one matrix of one replica a work item, Eigen's products.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/optimizer/muon.h"

#include <Eigen/Core>
#include <cmath>
#include <utility>

#include "kernels/base/parallel.h"

namespace crosstalk {
namespace {

template <class Real>
using MatrixMap = Eigen::Map<Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;

/// D of one matrix into x, its short side first; m moves on. Returns |D|.
template <class Real>
double moved(const MuonStep<Real>& a, int r, std::int64_t offset, int rows, int columns, Real* x) {
  const Real mu = static_cast<Real>(muon_momentum(a.schedule, *a.step.at(r), a.momentum, a.low_momentum));
  const Real scale = a.gradient_scale ? static_cast<Real>(*a.gradient_scale.at(r)) : Real(1);
  const Real* g = a.gradient.at(r) + offset;
  Real* m = a.m.at(r) + offset;
  double squares = 0;
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < columns; ++j) {
      const std::int64_t at = static_cast<std::int64_t>(i) * columns + j;
      const Real scaled = scale * g[at];
      m[at] = mu * m[at] + scaled;
      const Real d = scaled + mu * m[at];
      x[rows > columns ? static_cast<std::int64_t>(j) * rows + i : at] = d;
      squares += static_cast<double>(d) * static_cast<double>(d);
    }
  }
  return std::sqrt(squares);
}

template <class Real>
void update(const MuonStep<Real>& a, int r, const std::int32_t* matrix) {
  const std::int64_t offset = matrix[muon_offset];
  const int rows = matrix[muon_rows], columns = matrix[muon_columns], n = std::min(rows, columns),
            k = std::max(rows, columns);
  const std::int64_t size = static_cast<std::int64_t>(rows) * columns;
  Real *x = a.workspace.at(r) + matrix[muon_workspace], *next = x + size;
  MatrixMap<Real> A(next + size, n, n), B(next + size + static_cast<std::int64_t>(n) * n, n, n);
  const double norm = moved(a, r, offset, rows, columns, x);
  const Real inverse = static_cast<Real>(1 / (norm + kMuonEps));
  for (std::int64_t i = 0; i < size; ++i) x[i] *= inverse;
  for (int iteration = 0; iteration < kMuonIterations; ++iteration) {
    const MatrixMap<Real> X(x, n, k);
    MatrixMap<Real> Y(next, n, k);
    A.noalias() = X * X.transpose();
    B.noalias() = A * A;
    B = static_cast<Real>(kMuonB) * A + static_cast<Real>(kMuonC) * B;
    Y.noalias() = B * X;
    Y += static_cast<Real>(kMuonA) * X;
    std::swap(x, next);
  }
  const double rate = *a.learning_rate.at(r) * a.schedule.factor(*a.step.at(r));
  const Real step = static_cast<Real>(rate * muon_scale(rows, columns));
  const Real keep = a.weight_decay ? static_cast<Real>(1 - rate * *a.weight_decay.at(r)) : Real(1);
  Real* p = a.parameter.at(r) + offset;
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < columns; ++j) {
      const std::int64_t at = static_cast<std::int64_t>(i) * columns + j;
      p[at] = keep * p[at] - step * x[rows > columns ? static_cast<std::int64_t>(j) * rows + i : at];
    }
  }
}

}  // namespace

template <class Real>
void run_cpu(const Exec& exec, const MuonStep<Real>& a) {
  parallel_items(exec, a.parameter.R, a.matrices.dim(0),
                 [&](int r, std::int64_t matrix) { update(a, r, a.matrices.at(r) + matrix * kMuonColumns); });
}

CROSSTALK_INSTANTIATE_STEP(cpu, MuonStep)

}  // namespace crosstalk

// One sequence and head of a StateRead on the CPU: views of its rows, and gradients, stored at the end.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/base/parallel.h"
#include "kernels/recurrence/state_read.h"

namespace crosstalk::state {

template <class Real>
using Matrix = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class Real>
using Column = Eigen::Matrix<Real, Eigen::Dynamic, 1>;
/// Rows of one sequence and head in a tensor [B,n,H,columns].
template <class Real>
using Rows = Eigen::Map<const Matrix<Real>, 0, Eigen::OuterStride<>>;

/// What a StateRead says of (r, b, h). All erase modes look like `free` here: x, y and e of the delta rule
/// are k, k and w. An absent input has no rows.
template <class Real>
struct Sequence {
  const StateRead<Real>& op;
  int r, b, h;
  int T, N, M, Q, H, K, V;
  Rows<Real> q, k, v, w, g, x, y, e;
  std::vector<int> seen;   ///< tokens that each query sees
  std::vector<int> order;  ///< queries by what they see

  Sequence(const StateRead<Real>& op_, int r_, std::int64_t item)
      : op(op_),
        r(r_),
        b(static_cast<int>(item / op_.H())),
        h(static_cast<int>(item % op_.H())),
        T(op.T()),
        N(op.writes),
        M(op.M()),
        Q(op.Q()),
        H(op.H()),
        K(op.K()),
        V(op.V()),
        q(rows(op.q, Q, K)),
        k(rows(op.k, M, K)),
        v(rows(op.v, M, V)),
        w(rows(op.write_gain, M, 1)),
        g(rows(op.log_decay, T, op.log_decay ? op.log_decay.value.dim(3) : 1)),
        x(rows(op.erase == Erase::delta ? op.k : op.erase_read, M, K)),
        y(rows(op.erase == Erase::free ? op.erase_write : op.k, M, K)),
        e(rows(op.erase == Erase::delta ? op.write_gain : op.erase_gain, M, 1)) {
    for (int j = 0; j < Q; ++j)
      seen.push_back(op.position ? std::clamp<int>(op.position.value.at(r)[b * Q + j], 0, T)
                                 : j + (op.before ? 0 : 1));
    order.resize(seen.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [this](int i, int j) { return seen_by(i) < seen_by(j); });
  }

  int seen_by(int query) const { return seen[static_cast<std::size_t>(query)]; }
  bool erases() const { return op.erase != Erase::none; }
  /// Whether an erase takes out what the write's own key holds.
  bool tied() const { return op.erase == Erase::delta || op.erase == Erase::tied; }
  Real write_gain(int m) const { return w.rows() ? w(m, 0) : Real(1); }
  Real erase_gain(int m) const { return e.rows() ? e(m, 0) : Real(1); }

  Matrix<Real> start() const {
    if (!op.start) return Matrix<Real>::Zero(V, K);
    return Eigen::Map<const Matrix<Real>>(op.start.value.at(r) + state_offset(), V, K);
  }
  /// The state before chunk c, as forward saved it.
  Eigen::Map<Matrix<Real>> saved(int c) const {
    return {op.states.value.at(r) + (static_cast<std::int64_t>(b * H + h) * op.chunks() + c) * V * K, V, K};
  }
  void save(int c, const Matrix<Real>& S) const {
    if (op.states) saved(c) = S;
  }
  void put_end(const Matrix<Real>& S) const {
    if (op.end) Eigen::Map<Matrix<Real>>(op.end.value.at(r) + state_offset(), V, K) = S;
  }
  /// dL/dS_T.
  Matrix<Real> end_gradient() const {
    if (!op.end || !op.end.gradient) return Matrix<Real>::Zero(V, K);
    return Eigen::Map<const Matrix<Real>>(op.end.gradient.at(r) + state_offset(), V, K);
  }
  Eigen::Map<Column<Real>> o(int query) const {
    return {op.o.value.at(r) + (static_cast<std::int64_t>(b * Q + query) * H + h) * V, V};
  }
  /// Whether somebody differentiates o.
  bool read_back() const { return op.o.gradient.data != nullptr; }
  Eigen::Map<const Column<Real>> d_o(int query) const {
    return {op.o.gradient.at(r) + (static_cast<std::int64_t>(b * Q + query) * H + h) * V, V};
  }

 private:
  std::int64_t state_offset() const { return static_cast<std::int64_t>(b * H + h) * V * K; }
  Rows<Real> rows(const In<Real>& in, int n, int columns) const {
    if (!in) return {nullptr, 0, columns, Eigen::OuterStride<>(columns)};
    return {in.value.at(r) + (static_cast<std::int64_t>(b) * n * H + h) * columns, n, columns,
            Eigen::OuterStride<>(H * columns)};
  }
};

/// Gradients of one sequence and head. They are stored at the end and in the order of fields(): where one
/// variable stands in several of them, the first overwrites and the others add. Where y is k, k has both.
template <class Real>
struct SequenceGradients {
  Matrix<Real> q, k, v, w, g, x, y, e, start;

  explicit SequenceGradients(const Sequence<Real>& s) {
    q = Matrix<Real>::Zero(s.Q, s.K);
    k = x = y = Matrix<Real>::Zero(s.M, s.K);
    v = Matrix<Real>::Zero(s.M, s.V);
    w = e = Matrix<Real>::Zero(s.M, 1);
    g = Matrix<Real>::Zero(s.T, s.g.cols());
  }

  void store(const Sequence<Real>& s) {
    const StateRead<Real>& op = s.op;
    if (op.erase == Erase::delta) k += x, w += e;
    put_rows(s, op.q, q);
    put_rows(s, op.k, k);
    put_rows(s, op.v, v);
    put_rows(s, op.write_gain, w);
    put_rows(s, op.log_decay, g);
    put_rows(s, op.erase_read, x);
    put_rows(s, op.erase_write, y);
    put_rows(s, op.erase_gain, e);
    if (!op.start.wanted()) return;
    Real* target = op.start.gradient.at(s.r) + static_cast<std::int64_t>(s.b * s.H + s.h) * start.size();
    for (Eigen::Index i = 0; i < start.size(); ++i) put(op.start.write, target + i, start.data()[i]);
  }

 private:
  static void put_rows(const Sequence<Real>& s, const In<Real>& in, const Matrix<Real>& gradient) {
    if (!in.wanted()) return;
    const Eigen::Index n = gradient.rows(), columns = gradient.cols();
    for (Eigen::Index i = 0; i < n; ++i) {
      Real* target = in.gradient.at(s.r) + ((s.b * n + i) * s.H + s.h) * columns;
      for (Eigen::Index j = 0; j < columns; ++j) put(in.write, target + j, gradient(i, j));
    }
  }
};

/// The chunkwise form of one sequence and head.
template <class Real>
void chunk_forward(const Sequence<Real>& s);
template <class Real>
void chunk_backward(const Sequence<Real>& s, SequenceGradients<Real>& d);

}  // namespace crosstalk::state

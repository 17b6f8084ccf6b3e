// Scores of a chunk with gates on the CPU: rows x_i against columns y_j, faded by the gates between them.
//
//   A_ij = sum_c x_ic y_jc e^{g_{j+1} + .. + g_{last_i}}      for j < last_i, `with_last` also j = last_i
//
// No exponent is ever positive and none is a difference of two long sums: a gate for each channel halves the
// chunk again and again, and between the halves [s,m) and [m,e) each side carries its own short sum (rows
// from m on, columns up to m). A gate for all channels multiplies the products.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <utility>

#include "kernels/recurrence/state_sequence.h"

namespace crosstalk::state {

/// l r, the operands rounded.
template <class L, class R>
Matrix<typename L::Scalar> product(Precision precision, const L& l, const R& r) {
  using Real = typename L::Scalar;
  if (precision == Precision::full) return l * r;
  const auto round = [precision](Real e) { return rounded(precision, e); };
  const Matrix<Real> a = l.unaryExpr(round), b = r.unaryExpr(round);
  return a * b;
}

/// e^x of every element; 0 where x is far below the range, which a vectorised exp may miss.
template <class Real>
void exponentiate(Matrix<Real>& x) {
  for (Eigen::Index i = 0; i < x.size(); ++i) x.data()[i] = std::exp(x.data()[i]);
}

/// x times a row of factors: none, one number or one a channel.
template <class Row, class Factor>
void fade(Row&& x, const Factor& factor) {
  if (factor.cols() == 1) x *= factor(0);
  if (factor.cols() > 1) x.array() *= factor.array();
}

/// Rows with the last gate that each of them has passed (ascending; -1: none).
template <class Real>
struct ScoreRows {
  Matrix<Real> x;
  std::vector<int> last;
  bool with_last = true;

  int rows() const { return static_cast<int>(x.rows()); }
  int last_of(int i) const { return last[static_cast<std::size_t>(i)]; }
  int columns_of(int i) const { return last_of(i) + (with_last ? 1 : 0); }
};

template <class Real>
class GatedScores {
 public:
  /// g [C, columns]: no column where there are no gates, one for all channels or one for each.
  GatedScores(Precision precision, const Matrix<Real>& g)
      : precision_(precision),
        C_(static_cast<int>(g.rows())),
        by_channel_(g.cols() > 1),
        gated_(g.cols() > 0) {
    if (by_channel_) {
      halve(g, 0, C_);
      return;
    }
    between_ = Matrix<Real>::Ones(C_, C_);
    for (int l = 1; l < C_ && gated_; ++l)
      between_.row(l).head(l) = between_.row(l - 1).head(l) * std::exp(g(l, 0));
  }

  Matrix<Real> scores(const ScoreRows<Real>& rows, const Matrix<Real>& y) const {
    Matrix<Real> A = Matrix<Real>::Zero(rows.rows(), C_);
    if (!by_channel_) {
      const Matrix<Real> plain = product(precision_, rows.x, y.transpose());
      for (int i = 0; i < rows.rows(); ++i) {
        for (int j = 0; j < rows.columns_of(i); ++j) A(i, j) = plain(i, j) * between_(rows.last_of(i), j);
      }
      return A;
    }
    for (const Half& half : halves_) {
      const auto [first, count] = inside(rows, half);
      if (count == 0) continue;
      A.block(first, half.s, count, half.m - half.s) =
          product(precision_, late(rows, half, first, count), early(y, half).transpose());
    }
    for (int i = 0; i < rows.rows(); ++i) {
      const int j = rows.last_of(i);
      if (rows.with_last && j >= 0) A(i, j) = product(precision_, rows.x.row(i), y.row(j).transpose())(0, 0);
    }
    return A;
  }

  /// Adds the gradients of x, y and g (where there are gates) that belong to d_A, A being scores(rows, y).
  /// The gate's is the sum over the pairs that it stands between: nothing is subtracted.
  void backward(const Matrix<Real>& d_A, const Matrix<Real>& A, const ScoreRows<Real>& rows,
                const Matrix<Real>& y, Matrix<Real>& d_x, Matrix<Real>& d_y, Matrix<Real>& d_g) const {
    if (!by_channel_) {
      backward_of_products(d_A, A, rows, y, d_x, d_y, d_g);
      return;
    }
    for (const Half& half : halves_) {
      const auto [first, count] = inside(rows, half);
      if (count == 0) continue;
      const int width = half.m - half.s;
      const Matrix<Real> x_late = late(rows, half, first, count), y_early = early(y, half),
                         d = d_A.block(first, half.s, count, width), d_late = product(precision_, d, y_early),
                         d_early = product(precision_, d.transpose(), x_late);
      for (int i = 0; i < count; ++i)
        d_x.row(first + i).array() +=
            d_late.row(i).array() * half.late.row(rows.last_of(first + i) - half.m).array();
      d_y.middleRows(half.s, width).array() += d_early.array() * half.early.array();
      Eigen::Array<Real, 1, Eigen::Dynamic> sum = Eigen::Array<Real, 1, Eigen::Dynamic>::Zero(y.cols());
      for (int t = half.e - 1, i = count - 1; t >= half.m; --t) {  // rows from t on
        for (; i >= 0 && rows.last_of(first + i) == t; --i)
          sum += x_late.row(i).array() * d_late.row(i).array();
        d_g.row(t).array() += sum;
      }
      sum.setZero();
      for (int t = half.s + 1; t < half.m; ++t) {  // columns before t
        sum += y_early.row(t - 1 - half.s).array() * d_early.row(t - 1 - half.s).array();
        d_g.row(t).array() += sum;
      }
    }
    for (int i = 0; i < rows.rows(); ++i) {
      const int j = rows.last_of(i);
      if (!rows.with_last || j < 0) continue;
      d_x.row(i) += d_A(i, j) * y.row(j);
      d_y.row(j) += d_A(i, j) * rows.x.row(i);
    }
  }

 private:
  /// Rows of [m,e) against columns of [s,m).
  struct Half {
    int s, m, e;
    Matrix<Real> late;   ///< e^{g_m + .. + g_i} for i in [m,e)
    Matrix<Real> early;  ///< e^{g_{j+1} + .. + g_{m-1}} for j in [s,m)
  };

  void halve(const Matrix<Real>& g, int s, int e) {
    if (e - s < 2) return;
    const int m = (s + e) / 2;
    Half half{s, m, e, g.middleRows(m, e - m), Matrix<Real>::Zero(m - s, g.cols())};
    for (int i = 1; i < e - m; ++i) half.late.row(i) += half.late.row(i - 1);
    for (int j = m - 2; j >= s; --j) half.early.row(j - s) = half.early.row(j + 1 - s) + g.row(j + 1);
    exponentiate(half.late);
    exponentiate(half.early);
    halves_.push_back(std::move(half));
    halve(g, s, m);
    halve(g, m, e);
  }

  /// First of the rows whose last gate lies in [m,e), and their number.
  static std::pair<int, int> inside(const ScoreRows<Real>& rows, const Half& half) {
    const auto begin = std::lower_bound(rows.last.begin(), rows.last.end(), half.m);
    const auto end = std::lower_bound(begin, rows.last.end(), half.e);
    return {static_cast<int>(begin - rows.last.begin()), static_cast<int>(end - begin)};
  }
  static Matrix<Real> late(const ScoreRows<Real>& rows, const Half& half, int first, int count) {
    Matrix<Real> x = rows.x.middleRows(first, count);
    for (int i = 0; i < count; ++i) fade(x.row(i), half.late.row(rows.last_of(first + i) - half.m));
    return x;
  }
  static Matrix<Real> early(const Matrix<Real>& y, const Half& half) {
    return y.middleRows(half.s, half.m - half.s).cwiseProduct(half.early);
  }

  void backward_of_products(const Matrix<Real>& d_A, const Matrix<Real>& A, const ScoreRows<Real>& rows,
                            const Matrix<Real>& y, Matrix<Real>& d_x, Matrix<Real>& d_y,
                            Matrix<Real>& d_g) const {
    Matrix<Real> d = Matrix<Real>::Zero(rows.rows(), C_);
    for (int i = 0; i < rows.rows(); ++i) {
      for (int j = 0; j < rows.columns_of(i); ++j) d(i, j) = d_A(i, j) * between_(rows.last_of(i), j);
    }
    d_x += product(precision_, d, y);
    d_y += product(precision_, d.transpose(), rows.x);
    if (!gated_) return;
    Eigen::Array<Real, 1, Eigen::Dynamic> sum = Eigen::Array<Real, 1, Eigen::Dynamic>::Zero(C_);
    for (int t = C_ - 1, i = rows.rows() - 1; t >= 0; --t) {  // rows from t on, columns before t
      for (; i >= 0 && rows.last_of(i) == t; --i) {
        const int n = rows.columns_of(i);
        sum.head(n) += d_A.row(i).head(n).array() * A.row(i).head(n).array();
      }
      d_g(t, 0) += sum.head(t).sum();
    }
  }

  Precision precision_;
  int C_;
  bool by_channel_, gated_;
  Matrix<Real> between_;  ///< [last, j]: gates between, one for all channels
  std::vector<Half> halves_;
};

}  // namespace crosstalk::state

// Linear on the CPU: Eigen's products of row blocks.
// SPDX-License-Identifier: Apache-2.0
#include <Eigen/Core>

#include "kernels/base/parallel.h"
#include "kernels/linear/linear.h"

namespace crosstalk {
namespace {

template <class Real>
using Matrix = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class Real>
using MatrixMap = Eigen::Map<Matrix<Real>>;
template <class Real>
using ConstMatrixMap = Eigen::Map<const Matrix<Real>>;
template <class Real>
using Strided = Eigen::Map<Matrix<Real>, 0, Eigen::OuterStride<>>;
template <class Real>
using ConstStrided = Eigen::Map<const Matrix<Real>, 0, Eigen::OuterStride<>>;

// Rows (or columns) of one work item: fixed, so that a product's bits know nothing of threads.
constexpr std::int64_t kBlock = 64;

void put_product(Write mode, auto&& target, const auto& product) {
  if (mode == Write::add)
    target.noalias() += product;
  else
    target.noalias() = product;
}

/// use(a, b), both rounded where the precision asks for it.
template <class A, class B, class Use>
void with_operands(Precision precision, const A& a, const B& b, const Use& use) {
  using Real = typename A::Scalar;
  if (precision == Precision::full) return use(a, b);
  const auto round = [precision](Real e) { return rounded(precision, e); };
  const Matrix<Real> x = a.unaryExpr(round), y = b.unaryExpr(round);
  const auto map = [](const auto& like, const Matrix<Real>& m) {
    if constexpr (std::is_same_v<std::decay_t<decltype(like)>, ConstMatrixMap<Real>>)
      return ConstMatrixMap<Real>(m.data(), m.rows(), m.cols());
    else
      return ConstStrided<Real>(m.data(), m.rows(), m.cols(), Eigen::OuterStride<>(m.cols()));
  };
  use(map(a, x), map(b, y));
}

}  // namespace

template <class Real>
void forward_cpu(const Exec& exec, const Linear<Real>& a) {
  const std::int64_t n = a.x.value.rows();
  const int in = a.x.value.columns(), out = a.y.value.columns();
  parallel_blocks(exec, a.x.value.R, n, kBlock, [&](int r, std::int64_t begin, std::int64_t end) {
    const ConstMatrixMap<Real> x(a.x.value.at(r) + begin * in, end - begin, in), w(a.w.value.at(r), out, in);
    MatrixMap<Real> y(a.y.value.at(r) + begin * out, end - begin, out);
    with_operands(a.precision, x, w,
                  [&](const auto& left, const auto& right) { y.noalias() = left * right.transpose(); });
    if (a.b.value) y.rowwise() += ConstMatrixMap<Real>(a.b.value.at(r), 1, out).row(0);
  });
}

template <class Real>
void backward_cpu(const Exec& exec, const Linear<Real>& a) {
  const std::int64_t n = a.x.value.rows();
  const int in = a.x.value.columns(), out = a.y.gradient.columns();
  if (a.x.write != Write::none) {
    parallel_blocks(exec, a.x.value.R, n, kBlock, [&](int r, std::int64_t begin, std::int64_t end) {
      const ConstMatrixMap<Real> d_y(a.y.gradient.at(r) + begin * out, end - begin, out),
          w(a.w.value.at(r), out, in);
      MatrixMap<Real> d_x(a.x.gradient.at(r) + begin * in, end - begin, in);
      with_operands(a.precision, d_y, w,
                    [&](const auto& left, const auto& right) { put_product(a.x.write, d_x, left * right); });
    });
  }
  if (a.w.write != Write::none) {
    parallel_blocks(exec, a.x.value.R, in, kBlock, [&](int r, std::int64_t begin, std::int64_t end) {
      const ConstMatrixMap<Real> d_y(a.y.gradient.at(r), n, out);
      const ConstStrided<Real> x(a.x.value.at(r) + begin, n, end - begin, Eigen::OuterStride<>(in));
      Strided<Real> d_w(a.w.gradient.at(r) + begin, out, end - begin, Eigen::OuterStride<>(in));
      with_operands(a.precision, d_y, x, [&](const auto& left, const auto& right) {
        put_product(a.w.write, d_w, left.transpose() * right);
      });
    });
  }
  if (a.b.write != Write::none) {
    parallel_items(exec, a.x.value.R, 1, [&](int r, std::int64_t) {
      Real* d_b = a.b.gradient.at(r);
      if (a.b.write == Write::overwrite) std::fill(d_b, d_b + out, Real(0));
      for (std::int64_t i = 0; i < n; ++i) axpy(Real(1), a.y.gradient.at(r) + i * out, d_b, out);
    });
  }
}

CROSSTALK_INSTANTIATE(cpu, Linear)

}  // namespace crosstalk

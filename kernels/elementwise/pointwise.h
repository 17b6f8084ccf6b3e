// Elementwise maps of gates and coefficients.
//
//   sigmoid  y = scale / (1 + exp(-x))          beta in (0, scale)
//   affine   y = scale x + shift                1 - beta
//   erase    y_t = a_t / b_t, 0 where b_t = 0   beta_t / (z_{t-1}.k_t): no earlier key overlaps, so nothing to erase;
//            y_0 = 0                            nor is there at the first step
//   divide   y_nj = a_nj / (b_n + eps)          rows by their own denominator
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stdexcept>

#include "kernels/base/buffer.h"
#include "kernels/base/op.h"

namespace crosstalk {

enum class PointMap : int { sigmoid, affine };

/// x, y of equal shape.
template <class Real>
struct Pointwise {
  PointMap map = PointMap::affine;
  double scale = 1, shift = 0;
  In<Real> x;
  Out<Real> y;

  static constexpr const char* kName = "pointwise";
  const char* form_name(Device) const { return map == PointMap::sigmoid ? "sigmoid" : "affine"; }
  template <class F>
  void fields(F&& f) {
    f("x", x), f("y", y);
  }
  void plan() { y.value = without_memory(x.value); }
};
CROSSTALK_OP(Pointwise)

/// a, b, y [R,B,T]: y = a / b, and 0 in column 0.
template <class Real>
struct EraseRatio {
  In<Real> a, b;
  Out<Real> y;

  static constexpr const char* kName = "erase_ratio";
  template <class F>
  void fields(F&& f) {
    f("a", a), f("b", b), f("y", y);
  }
  void plan() {
    if (a.value.size() != b.value.size()) throw std::logic_error("[erase_ratio] a and b do not fit");
    y.value = without_memory(b.value);
  }
};
CROSSTALK_OP(EraseRatio)

/// a, y [R,N,D], b [R,N]: y = a / (b + eps).
template <class Real>
struct RowDivide {
  double eps = 0;
  In<Real> a, b;
  Out<Real> y;

  static constexpr const char* kName = "row_divide";
  template <class F>
  void fields(F&& f) {
    f("a", a), f("b", b), f("y", y);
  }
  void plan() {
    if (a.value.rows() != b.value.size()) throw std::logic_error("[row_divide] a and b do not fit");
    y.value = without_memory(a.value);
  }
};
CROSSTALK_OP(RowDivide)

}  // namespace crosstalk

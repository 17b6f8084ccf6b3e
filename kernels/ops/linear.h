// Affine map of rows: y = x W^T + b. The operands of its products may be rounded first (base/precision.h);
// sums and results are not.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stdexcept>

#include "kernels/base/buffer.h"
#include "kernels/base/op.h"
#include "kernels/base/precision.h"

namespace crosstalk {

/// Backward: d_x = d_y W, d_w = d_y^T x, d_b = column sums of d_y (not rounded).
template <class Real>
struct Linear {
  Precision precision = Precision::full;
  In<Real> x;   ///< [R,N..,I]
  In<Real> w;   ///< [R,O,I]
  In<Real> b;   ///< [R,O]; may be absent
  Out<Real> y;  ///< [R,N..,O]

  static constexpr const char* kName = "linear";
  template <class F>
  void fields(F&& f) {
    f("x", x), f("w", w), f("b", b), f("y", y);
  }
  void plan() {
    if (w.value.rank != 2 || x.value.columns() != w.value.dim(1) ||
        (b && b.value.columns() != w.value.dim(0)))
      throw std::logic_error("[linear] x, w and b do not fit");
    y.value = without_memory(x.value);
    y.value.dims[y.value.rank - 1] = w.value.dim(0);
  }
};
CROSSTALK_OP(Linear)

}  // namespace crosstalk

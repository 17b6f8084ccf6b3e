// Learned positions: y_t = x_t + row t of a table.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stdexcept>

#include "kernels/base/op.h"

namespace crosstalk {

/// Rows of the table beyond the sequence have a gradient of 0.
template <class Real>
struct AddPositions {
  In<Real> x;      ///< [R,B,T,D]
  In<Real> table;  ///< [R,n,D], n at least T
  Out<Real> y;     ///< [R,B,T,D]

  static constexpr const char* kName = "add_positions";
  template <class F>
  void fields(F&& f) {
    f("x", x), f("table", table), f("y", y);
  }
  CT_HD int B() const { return y.value.dim(0); }
  CT_HD int T() const { return y.value.dim(1); }
  CT_HD int D() const { return y.value.dim(2); }
  void plan() {
    if (!x || !table || x.value.rank != 3 || table.value.rank != 2 || x.value.dim(2) != table.value.dim(1) ||
        x.value.dim(1) > table.value.dim(0))
      throw std::logic_error("[add_positions] x and table do not fit");
    y.value = without_memory(x.value);
  }
  /// Gradient of entry i of the table.
  CT_HD Real d_table(int r, std::int64_t i) const {
    Real sum = 0;
    const std::int64_t size = static_cast<std::int64_t>(T()) * D();
    if (i >= size) return 0;
    for (int b = 0; b < B(); ++b) sum += y.gradient.at(r)[b * size + i];
    return sum;
  }
};
CROSSTALK_OP(AddPositions)

}  // namespace crosstalk

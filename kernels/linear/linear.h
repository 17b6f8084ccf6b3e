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
  /// [R,P,..]: gradients of w and b by pieces of the rows (backward, CUDA), where the rows are so many and w
  /// so small that a product for each piece keeps the GPU busy.
  Work<Real> pieces;
  static constexpr int kPieces = 8, kLeastForPieces = 16384;
  /// Numbers of a piece: those of w, then those of b, each from a multiple of 16 bytes on.
  CT_HD static int padded(int n) { return (n + 3) / 4 * 4; }

  static constexpr const char* kName = "linear";
  CROSSTALK_FIELDS(x, w, b, y, pieces)
  void plan() {
    if (w.value.rank != 2 || x.value.columns() != w.value.dim(1) ||
        (b && b.value.columns() != w.value.dim(0)))
      throw std::logic_error("[linear] x, w and b do not fit");
    y.value = without_memory(x.value);
    const int O = w.value.dim(0), I = w.value.dim(1);
    y.value.dims[y.value.rank - 1] = O;
    const std::int64_t N = y.value.rows(), numbers = static_cast<std::int64_t>(O) * I;
    if (O > 1 && N >= kLeastForPieces && N % (32 * kPieces) == 0 && numbers <= 1 << 16)
      pieces.value = shaped<Real>(w.value.R, {kPieces, padded(O * I) + padded(O)});
  }
};
CROSSTALK_OP(Linear)

}  // namespace crosstalk

// Normalisation of rows: sum  y = x / (sum x + eps);  l2  y = x / sqrt(|x|^2 + eps), 0 of a 0;
// rms  y = x / sqrt(|x|^2 / D + eps);  layer  y = (x - mean) / sqrt(var + eps), without gain and bias;
// softmax  y = e^{x - max x} / (sum e^{x - max x} + eps).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/buffer.h"
#include "kernels/base/op.h"

namespace crosstalk {

enum class RowNorm : int { sum, l2, layer, rms, softmax };

/// Backward needs y and inverse alone.
template <class Real>
struct Normalize {
  RowNorm norm = RowNorm::sum;
  double eps = 0;
  In<Real> x;         ///< [R,N,D]
  Out<Real> y;        ///< [R,N,D]
  Out<Real> inverse;  ///< [R,N]: what rows (softmax: e^{x - max x}) were multiplied by; never differentiated

  static constexpr const char* kName = "normalize";
  CROSSTALK_FIELDS(x, y, inverse)
  void plan() {
    y.value = inverse.value = without_memory(x.value);
    inverse.value.dims[inverse.value.rank - 1] = 1;
  }
};
CROSSTALK_OP(Normalize)

}  // namespace crosstalk

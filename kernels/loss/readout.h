// Values from read weights over positions, the squared loss against one-hot targets, and its metrics.
//
//   w    = a or a / (sum_t a_t + eps)
//   y    = sum_t w_t onehot(v_t)
//   loss = 0.5 |y - onehot(target)|^2        (Schlag, Irie, Schmidhuber 2021, section 6.1)
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stdexcept>

#include "kernels/base/buffer.h"
#include "kernels/base/op.h"

namespace crosstalk {

/// Values read, with w = a, or a / (sum + eps) where `divided`.
template <class Real>
struct GatherValues {
  bool divided = false;
  double eps = 0;
  int values = 0;     ///< V
  In<Real> a;         ///< [R,B,Q,T]
  Ids tokens;         ///< int32 [R,B,T,C], value ids in channel 1; -1 adds nothing
  Out<Real> y;        ///< [R,B,Q,V]
  Out<Real> w;        ///< [R,B,Q,T] where divided, never differentiated
  Out<Real> inverse;  ///< [R,B,Q] where divided, never differentiated

  static constexpr const char* kName = "gather_values";
  CROSSTALK_FIELDS(a, tokens, y, w, inverse)
  void plan() {
    y.value = without_memory(a.value);
    y.value.dims[y.value.rank - 1] = values;
    if (!divided) return;
    w.value = inverse.value = without_memory(a.value);
    inverse.value.dims[inverse.value.rank - 1] = 1;
  }
};
CROSSTALK_OP(GatherValues)

/// Slots with target -1 are not used: query_loss 0, correct -1. correct is 1 where the target's entry is
/// larger than every other. The gradient of `loss`, (y - onehot(target)) / used slots, has seed 1.
template <class Real>
struct SquaredLoss {
  bool with_gradients = false;  ///< forward writes the gradient too, and backward has nothing to do
  In<Real> y;                   ///< [R,B,Q,V]
  Ids target;                   ///< int32 [R,B,Q]
  Out<Real> query_loss;         ///< [R,B,Q]
  Out<Real> loss;               ///< [R,1]: mean over used slots
  OutIds correct;               ///< [R,B,Q]

  static constexpr const char* kName = "squared_loss";
  static constexpr bool kLoss = true;
  CROSSTALK_FIELDS(y, target, query_loss, loss, correct)
  void plan() {
    if (!y || !target || target.value.size() != y.value.rows())
      throw std::logic_error("[squared_loss] y and target do not fit");
    query_loss.value = shaped<Real>(y.value.R, {target.value.dim(0), target.value.dim(1)});
    loss.value = shaped<Real>(y.value.R, {1});
    correct.value = shaped<std::int32_t>(y.value.R, {target.value.dim(0), target.value.dim(1)});
  }
};
CROSSTALK_OP(SquaredLoss)

}  // namespace crosstalk

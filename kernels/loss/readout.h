// From read weights over positions to values, the squared loss against one-hot targets, and its metrics.
//
//   w    = a or a / (sum_t a_t + eps)
//   y    = sum_t w_t onehot(v_t)
//   loss = 0.5 |y - onehot(target)|^2        (Schlag, Irie, Schmidhuber 2021, section 6.1)
// SPDX-License-Identifier: Apache-2.0
#pragma once
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
  template <class F>
  void fields(F&& f) {
    f("a", a), f("tokens", tokens), f("y", y), f("w", w), f("inverse", inverse);
  }
  void plan() {
    y.value = without_memory(a.value);
    y.value.dims[y.value.rank - 1] = values;
    if (!divided) return;
    w.value = inverse.value = without_memory(a.value);
    inverse.value.dims[inverse.value.rank - 1] = 1;
  }
};
CROSSTALK_OP(GatherValues)

/// y [R,B,Q,V], target int32 [R,B,Q] (-1: slot not used) -> query_loss [R,B,Q] (0 where unused), correct
/// int32 [R,B,Q] (1: the target's entry is larger than every other; -1 where unused), loss [R]: mean over
/// used slots. d_y, where it is given, becomes the gradient of `loss` on the way.
template <class Real>
struct SquaredLossForward {
  Tensor<Real> y, query_loss, loss;
  Tensor<std::int32_t> target, correct;
  Tensor<Real> d_y = {};
};

/// d_y = (y - onehot(target)) / used slots: the gradient of `loss`, seed 1 for every replica.
template <class Real>
struct SquaredLossBackward {
  Tensor<Real> y, d_y;
  Tensor<std::int32_t> target;
  Write write_y = Write::none;
};

template <class Real>
void run_cpu(const Exec& exec, const SquaredLossForward<Real>& args);
template <class Real>
void run_cuda(const Exec& exec, const SquaredLossForward<Real>& args);
template <class Real>
void run_cpu(const Exec& exec, const SquaredLossBackward<Real>& args);
template <class Real>
void run_cuda(const Exec& exec, const SquaredLossBackward<Real>& args);

}  // namespace crosstalk

// From read weights over positions to values, the squared loss against one-hot targets, and its metrics.
//
//   w    = a or a / (sum_t a_t + eps)
//   y    = sum_t w_t onehot(v_t)
//   loss = 0.5 |y - onehot(target)|^2        (Schlag, Irie, Schmidhuber 2021, section 6.1)
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/exec.h"

namespace crosstalk {

/// a [R,B,Q,T], tokens int32 [R,B,T,C] with value ids in channel 1 (-1 adds nothing) -> y [R,B,Q,V]. Where w
/// [R,B,Q,T] and inverse [R,B,Q] are given, weights are divided by their sum first, as NormalizeForward does:
/// both are results.
template <class Real>
struct GatherValuesForward {
  Tensor<Real> a, y;
  Tensor<std::int32_t> tokens;
  double eps = 0;
  Tensor<Real> w = {}, inverse = {};
};

template <class Real>
struct GatherValuesBackward {
  Tensor<Real> d_y, d_a;
  Tensor<std::int32_t> tokens;
  Write write_a = Write::none;
  Tensor<Real> w = {}, inverse = {};  ///< of the forward pass
};

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
void run_cpu(const Exec& exec, const GatherValuesForward<Real>& args);
template <class Real>
void run_cuda(const Exec& exec, const GatherValuesForward<Real>& args);
template <class Real>
void run_cpu(const Exec& exec, const GatherValuesBackward<Real>& args);
template <class Real>
void run_cuda(const Exec& exec, const GatherValuesBackward<Real>& args);
template <class Real>
void run_cpu(const Exec& exec, const SquaredLossForward<Real>& args);
template <class Real>
void run_cuda(const Exec& exec, const SquaredLossForward<Real>& args);
template <class Real>
void run_cpu(const Exec& exec, const SquaredLossBackward<Real>& args);
template <class Real>
void run_cuda(const Exec& exec, const SquaredLossBackward<Real>& args);

}  // namespace crosstalk

// Elementwise maps of gates and coefficients.
//
//   sigmoid  y = scale / (1 + exp(-x))          beta in (0, scale)
//   affine   y = scale x + shift                1 - beta
//   erase    y_t = a_t / b_t, 0 where b_t = 0   beta_t / (z_{t-1}.k_t): no earlier key overlaps, so nothing to erase;
//            y_0 = 0                            nor is there at the first step
//   divide   y_nj = a_nj / (b_n + eps)          rows by their own denominator
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/exec.h"

namespace crosstalk {

enum class PointMap : int { sigmoid, affine };

/// x, y of equal shape.
template <class Real>
struct PointwiseForward {
  PointMap map = PointMap::affine;
  double scale = 1, shift = 0;
  Tensor<Real> x, y;
};

template <class Real>
struct PointwiseBackward {
  PointMap map = PointMap::affine;
  double scale = 1;
  Tensor<Real> y, d_y, d_x;
  Write write_x = Write::none;
};

/// a, b, y [R,B,T]: y = a / b, and 0 in column 0.
template <class Real>
struct EraseRatioForward {
  Tensor<Real> a, b, y;
};

template <class Real>
struct EraseRatioBackward {
  Tensor<Real> b, y, d_y, d_a, d_b;
  Write write_a = Write::none, write_b = Write::none;
};

/// a, y [R,N,D], b [R,N]: y = a / (b + eps).
template <class Real>
struct RowDivideForward {
  double eps = 0;
  Tensor<Real> a, b, y;
};

template <class Real>
struct RowDivideBackward {
  double eps = 0;
  Tensor<Real> b, y, d_y, d_a, d_b;
  Write write_a = Write::none, write_b = Write::none;
};

template <class Real>
void run_cpu(const Exec& exec, const PointwiseForward<Real>& args);
template <class Real>
void run_cuda(const Exec& exec, const PointwiseForward<Real>& args);
template <class Real>
void run_cpu(const Exec& exec, const PointwiseBackward<Real>& args);
template <class Real>
void run_cuda(const Exec& exec, const PointwiseBackward<Real>& args);
template <class Real>
void run_cpu(const Exec& exec, const EraseRatioForward<Real>& args);
template <class Real>
void run_cuda(const Exec& exec, const EraseRatioForward<Real>& args);
template <class Real>
void run_cpu(const Exec& exec, const EraseRatioBackward<Real>& args);
template <class Real>
void run_cuda(const Exec& exec, const EraseRatioBackward<Real>& args);
template <class Real>
void run_cpu(const Exec& exec, const RowDivideForward<Real>& args);
template <class Real>
void run_cuda(const Exec& exec, const RowDivideForward<Real>& args);
template <class Real>
void run_cpu(const Exec& exec, const RowDivideBackward<Real>& args);
template <class Real>
void run_cuda(const Exec& exec, const RowDivideBackward<Real>& args);

}  // namespace crosstalk

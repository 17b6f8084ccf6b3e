// Normalisation of rows: sum  y = x / (sum x + eps);  l2  y = x / sqrt(|x|^2 + eps);
// rms  y = x / sqrt(|x|^2 / D + eps);  layer  y = (x - mean) / sqrt(var + eps), without gain and bias.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/exec.h"

namespace crosstalk {

enum class RowNorm : int { sum, l2, layer, rms };

/// x [R,N,D] -> y [R,N,D], inverse [R,N] (what rows were multiplied by).
template <class Real>
struct NormalizeForward {
  RowNorm norm = RowNorm::sum;
  double eps = 0;
  Tensor<Real> x, y, inverse;
};

/// d_y -> d_x, from y and inverse alone.
template <class Real>
struct NormalizeBackward {
  RowNorm norm = RowNorm::sum;
  Tensor<Real> y, inverse, d_y, d_x;
  Write write_x = Write::none;
};

template <class Real>
void run_cpu(const Exec& exec, const NormalizeForward<Real>& args);
template <class Real>
void run_cpu(const Exec& exec, const NormalizeBackward<Real>& args);
template <class Real>
void run_cuda(const Exec& exec, const NormalizeForward<Real>& args);
template <class Real>
void run_cuda(const Exec& exec, const NormalizeBackward<Real>& args);

}  // namespace crosstalk

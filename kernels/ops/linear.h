// Affine map of rows: y = x W^T + b. The operands of its products may be rounded first (base/precision.h);
// sums and results are not. SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/exec.h"
#include "kernels/base/precision.h"

namespace crosstalk {

/// x [R,N,I], w [R,O,I], b [R,O] (may be absent) -> y [R,N,O].
template <class Real>
struct LinearForward {
  Tensor<Real> x, w, b, y;
  Precision precision = Precision::full;
};

/// d_y [R,N,O] -> d_x = d_y W, d_w = d_y^T x, d_b = column sums of d_y (not rounded), each as
/// its Write says.
template <class Real>
struct LinearBackward {
  Tensor<Real> x, w, d_y, d_x, d_w, d_b;
  Write write_x = Write::none, write_w = Write::none, write_b = Write::none;
  Precision precision = Precision::full;
};

template <class Real>
void run_cpu(const Exec& exec, const LinearForward<Real>& args);
template <class Real>
void run_cpu(const Exec& exec, const LinearBackward<Real>& args);
template <class Real>
void run_cuda(const Exec& exec, const LinearForward<Real>& args);
template <class Real>
void run_cuda(const Exec& exec, const LinearBackward<Real>& args);

}  // namespace crosstalk

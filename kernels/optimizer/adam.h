// Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019), fused over one flat block of parameters a
// replica, as PyTorch computes them:
//   p -= lr decay p,  m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2,
//   p -= lr / (1 - b1^t) m / (sqrt(v / (1 - b2^t)) + eps).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/exec.h"

namespace crosstalk {

/// parameter, gradient, m, v [R,P]; learning_rate [R] and step int32 [R] (1 at the first update) differ by
/// replica. Absent: weight_decay [R] (none), gradient_scale [R] (1: g is what the gradient is multiplied by), squares
/// [R,adam_blocks(P)] (else: sums of squares of the gradient before gradient_scale, block by block).
template <class Real>
struct AdamStep {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  Tensor<Real> parameter, gradient, m, v;
  Tensor<double> learning_rate;
  Tensor<std::int32_t> step;
  Tensor<double> weight_decay = {}, gradient_scale = {}, squares = {};
};

constexpr int kAdamBlock = 1024;  ///< numbers that one sum of squares has
constexpr int adam_blocks(std::int64_t parameters) {
  return static_cast<int>((parameters + kAdamBlock - 1) / kAdamBlock);
}

CROSSTALK_STEP(AdamStep)

}  // namespace crosstalk

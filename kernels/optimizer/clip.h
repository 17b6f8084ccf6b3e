// Clipping of a gradient by its norm over all parameters of a replica, as torch.nn.utils.clip_grad_norm_:
//   scale = min(1, limit / (|g| + 1e-6)).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/exec.h"

namespace crosstalk {

/// Factor of gradients for AdamStep: gradient [R,P] gives scale [R,1]. The sum of squares has one fixed
/// order, block by block: partial [R,clip_blocks(P)] is workspace.
template <class Real>
struct ClipScale {
  double limit = 1;
  Tensor<Real> gradient;
  Tensor<double> partial, scale;
};

constexpr int kClipBlock = 4096;  ///< numbers that one partial sum has
constexpr int clip_blocks(std::int64_t parameters) {
  return static_cast<int>((parameters + kClipBlock - 1) / kClipBlock);
}

CROSSTALK_STEP(ClipScale)

/// A norm that is no number makes a scale that is none, which the next loss shows.
CT_HD inline double clip_scale(double limit, double norm) {
  const double scale = limit / (norm + 1e-6);
  return scale > 1 ? 1 : scale;
}

}  // namespace crosstalk

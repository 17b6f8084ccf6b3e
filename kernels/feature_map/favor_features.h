// Random orthogonal features of FAVOR+ (Choromanski et al. 2021; drawn as in Schlag et al. 2021's released
// code).
//
// omega [m,d] is made of blocks of at most d rows. For each block a d x d matrix G of standard normals is
// drawn; its columns are orthonormalised (Gram-Schmidt with positive diagonal, so the result is
// Haar-distributed) to Q, and row j of omega is column j of Q times the norm of row j of G (chi-distributed,
// d degrees of freedom).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/exec.h"

namespace crosstalk {

/// omega [R,m,d], a function of (seed[r], draw[r], domain) alone. seed: [R] of one element (uint64 as two
/// int32: low, high), draw [R] of one int32, workspace [R,d,d] doubles.
template <class Real>
struct FavorFeatures {
  Tensor<std::int32_t> seed, draw;
  std::uint32_t purpose = 0;  ///< separates training from evaluation draws
  Tensor<double> workspace;
  Tensor<Real> omega;
};

CROSSTALK_STEP(FavorFeatures)

}  // namespace crosstalk

// What is written where every token first takes out what earlier ones hold: a triangular solve on the values.
//
//   u_t = v_t - gain_t sum_{j<t} l_tj u_j,   that is   u = (I + Diag(gain) l)^{-1} v,  l strictly lower
//
// Weights a read a u, which is (a (I + Diag(gain) l)^{-1}) v: where values are dense and narrower than the
// sequence, this is cheaper than Solve (attention/attend.h), which makes weights of the values themselves.
// Gradients, with z = (I + Diag(gain) l)^{-T} d_u, by substitution from the last token:
//   d_v_i = z_i
//   d_l_ij = -gain_i z_i . u_j
//   d_gain_i = -sum_{j<i} l_ij z_i . u_j
// DeltaNet: Yang et al. 2024, arXiv 2406.06484; DeltaFormer: Zhong et al. 2025, arXiv 2505.19488.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stdexcept>

#include "kernels/base/buffer.h"
#include "kernels/base/op.h"

namespace crosstalk {

template <class Real>
struct SolveValues {
  In<Real> v;     ///< [R,B,T,H,V]
  In<Real> l;     ///< [R,B,H,T,T]; entries on and above the diagonal are not looked at, their gradient is 0
  In<Real> gain;  ///< [R,B,T,H]; absent: 1
  Out<Real> u;    ///< [R,B,T,H,V]
  Work<Real> z;   ///< [R,B,T,H,V]: the gradient of v (backward, CUDA)

  static constexpr const char* kName = "solve_values";
  CROSSTALK_FIELDS(v, l, gain, u, z)
  CT_HD int B() const { return v.value.dim(0); }
  CT_HD int T() const { return v.value.dim(1); }
  CT_HD int H() const { return v.value.dim(2); }
  CT_HD int V() const { return v.value.dim(3); }
  void plan() {
    if (!v || !l || v.value.rank != 4 || l.value.rank != 4 || l.value.dim(0) != B() ||
        l.value.dim(1) != H() || l.value.dim(2) != T() || l.value.dim(3) != T() ||
        (gain && gain.value.size() != static_cast<std::int64_t>(B()) * T() * H()))
      throw std::logic_error("[solve_values] shapes do not fit");
    u.value = shaped<Real>(v.value.R, {B(), T(), H(), V()});
    z.value = u.value;
  }
};
CROSSTALK_OP(SolveValues)

}  // namespace crosstalk

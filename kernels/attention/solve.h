// Reads where every token first takes out what earlier ones hold, u_i = v_i - gain_i sum_{j<i} l_ij u_j with l strictly lower:
// a triangular solve on the weights of what reads, or on the values.
//
//   y = a (I + Diag(gain) l)^{-1}        y_j = a_j - sum_{i>j} y_i gain_i l_ij     how much of each value a query reads
//   u = (I + Diag(gain) l)^{-1} v                                                  what each token really writes
//
// a u is y v: where values are dense and narrower than the sequence, u is cheaper. Gradients, by substitution the other way:
//   z = d_y (I + Diag(gain) l)^{-T}      d_a = z      d_(gain l)_ij = -y_i . z_j   (over queries)    below the diagonal
//   z = (I + Diag(gain) l)^{-T} d_u      d_v = z      d_(gain l)_ij = -z_i . u_j   (over channels)
// DeltaNet: Yang et al. 2024, arXiv 2406.06484; DeltaFormer: Zhong et al. 2025, arXiv 2505.19488.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stdexcept>

#include "kernels/base/buffer.h"
#include "kernels/base/op.h"

namespace crosstalk {

template <class Real>
struct Solve {
  In<Real> a;     ///< [R,B,H,Q,T]
  In<Real> l;     ///< [R,B,H,T,T]; entries on and above the diagonal are not looked at, their gradient is 0
  In<Real> gain;  ///< [R,B,T,H]; absent: 1
  Out<Real> y;    ///< [R,B,H,Q,T]
  Work<Real> z;   ///< [R,B,H,Q,T]: the gradient of a (backward, CUDA)

  static constexpr const char* kName = "solve";
  CROSSTALK_FIELDS(a, l, gain, y, z)
  CT_HD int B() const { return a.value.dim(0); }
  CT_HD int H() const { return a.value.dim(1); }
  CT_HD int Q() const { return a.value.dim(2); }
  CT_HD int T() const { return a.value.dim(3); }
  void plan() {
    if (!a || !l || a.value.rank != 4 || l.value.rank != 4 || l.value.dim(3) != T() ||
        l.value.dim(2) != T() || l.value.dim(0) != B() || l.value.dim(1) != H() ||
        (gain && gain.value.size() != static_cast<std::int64_t>(B()) * H() * T()))
      throw std::logic_error("[solve] shapes do not fit");
    y.value = z.value = shaped<Real>(a.value.R, {B(), H(), Q(), T()});
  }
};
CROSSTALK_OP(Solve)

/// gained: u = (I + Diag(gain) l)^{-1} Diag(gain) v, as delta rules write.
template <class Real>
struct SolveValues {
  bool gained = false;
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
    if (!v || !l || (gained && !gain) || v.value.rank != 4 || l.value.rank != 4 || l.value.dim(0) != B() ||
        l.value.dim(1) != H() || l.value.dim(2) != T() || l.value.dim(3) != T() ||
        (gain && gain.value.size() != static_cast<std::int64_t>(B()) * T() * H()))
      throw std::logic_error("[solve_values] shapes do not fit");
    u.value = z.value = shaped<Real>(v.value.R, {B(), T(), H(), V()});
  }
};
CROSSTALK_OP(SolveValues)

}  // namespace crosstalk

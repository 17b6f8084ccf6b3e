// What the delta rule writes in heads too wide for chunks of a state, 64 tokens after 64, without weights of all pairs in memory:
//
//   u_i = gain_i (v_i - sum_{j<i} (k_i . k_j) u_j)
//
// which is SolveValues, gained, of l = k k^T; attention of kernel identity reads u. With z the gradient of v_i - ... times gain_i:
//   z_i = d_u_i - sum_{m>i} gain_m (k_m . k_i) z_m
//   d_v_i = gain_i z_i      d_gain_i = z_i . (v_i - sum_{j<i} (k_i . k_j) u_j)
//   d_k_i = - sum_{j<i} gain_i (z_i . u_j) k_j - sum_{m>i} gain_m (z_m . u_i) k_m
// Yang et al. 2024, arXiv 2406.06484.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stdexcept>

#include "kernels/base/buffer.h"
#include "kernels/base/device/cuda_runtime.h"
#include "kernels/base/op.h"

namespace crosstalk {

template <class Real>
struct DeltaValues {
  In<Real> k;       ///< [R,B,T,H,K]
  In<Real> v;       ///< [R,B,T,H,V]
  In<Real> gain;    ///< [R,B,T,H]
  Out<Real> u;      ///< [R,B,T,H,V]
  Work<Real> z;     ///< [R,B,T,H,V / 2]: in bf16 (backward, CUDA)
  Work<Real> part;  ///< [R,B,T,H,4]: of the gradient of gain (backward, CUDA)

  static constexpr const char* kName = "delta_values";
  static constexpr int kMost = 256;                    ///< keys and values of a head on CUDA
  static constexpr std::size_t kSharedBytes = 204800;  ///< of a block going back
  CROSSTALK_FIELDS(k, v, gain, u, z, part)
  CROSSTALK_BF16_FIELDS(k, v, u)
  CT_HD int B() const { return v.value.dim(0); }
  CT_HD int T() const { return v.value.dim(1); }
  CT_HD int H() const { return v.value.dim(2); }
  CT_HD int K() const { return k.value.dim(3); }
  CT_HD int V() const { return v.value.dim(3); }
  /// True if a GPU with so much shared memory takes these heads: floats, of products in bf16, by eights.
  static bool takes(int K, int V, std::size_t limit = shared_memory_limit()) {
    return sizeof(Real) == sizeof(float) && K <= kMost && V <= kMost && K % 8 == 0 && V % 8 == 0 &&
           kSharedBytes + 1024 <= limit;
  }
  void plan() {
    if (!k || !v || !gain || v.value.rank != 4 || k.value.rank != 4 || k.value.dim(0) != B() ||
        k.value.dim(1) != T() || k.value.dim(2) != H() ||
        gain.value.size() != static_cast<std::int64_t>(B()) * T() * H())
      throw std::logic_error("[delta_values] shapes do not fit");
    for (const Tensor<Real>* t : {&k.gradient, &v.value, &v.gradient, &u.value, &u.gradient})
      if (t->format != k.value.format)
        throw std::logic_error("[delta_values] k, v, u and their gradients have one format");
    const int R = v.value.R;
    u.value = shaped<Real>(R, {B(), T(), H(), V()}, u.value.format);
    z.value = shaped<Real>(R, {B(), T(), H(), (V() + 1) / 2});
    part.value = shaped<Real>(R, {B(), T(), H(), 4});
  }
};
CROSSTALK_OP(DeltaValues)

}  // namespace crosstalk

// Products with the running sum of keys, the denominators of attention normalisation:
//   z_t = sum_{i<=t} k_i,   zk_t = z_{t-1}.k_t (0 at the first token),   zq = z_n.q for a query that sees n
//   tokens.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/buffer.h"
#include "kernels/base/op.h"

namespace crosstalk {

/// Backward: d_k_t = d_zk_t z_{t-1} + sum_{s>t} d_zk_s k_s + sum over queries that see t of d_zq q;  d_q = d_zq z_n.
template <class Real>
struct PrefixDot {
  In<Real> k;    ///< [R,B,T,P]
  In<Real> q;    ///< [R,B,Q,P]
  Ids position;  ///< int32 [R,B,Q]
  Out<Real> zk;  ///< [R,B,T]
  Out<Real> zq;  ///< [R,B,Q]; both outputs are differentiated

  static constexpr const char* kName = "prefix_dot";
  template <class F>
  void fields(F&& f) {
    f("k", k), f("q", q), f("position", position), f("zk", zk), f("zq", zq);
  }
  void plan() {
    zk.value = shaped<Real>(k.value.R, {k.value.dim(0), k.value.dim(1)});
    zq.value = shaped<Real>(k.value.R, {q.value.dim(0), q.value.dim(1)});
  }
};
CROSSTALK_OP(PrefixDot)

}  // namespace crosstalk

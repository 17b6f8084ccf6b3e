// The recurrence of state_read.h read from the query's side, without a state: the weights that a query gives to every write.
//
//   r_n = q,   c_t = w_t (k_t . r_t),   r_{t-1} = e^{g_t} * (r_t - e_t (y_t . r_t) x_t)            decayed
//                                       r_{t-1} = e^{g_t} * r_t - e_t (y_t . r_t) x_t             not decayed
//
// for t = n .. 1 (micro-steps of a token in reverse, its decay after the first of them), and o = sum_t c_t v_t. It costs
// O(T K) a query instead of O(T K V): for few queries and wide, one-hot values.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/recurrence/state_read.h"

namespace crosstalk {

/// Fields as in StateRead; log_decay may have a channel. a is 0 for writes that a query does not see.
template <class Real>
struct ReadWeights {
  Erase erase = Erase::none;
  int writes = 1;
  bool decayed = true, before = false;

  In<Real> q;            ///< [R,B,Q,H,K]
  In<Real> k;            ///< [R,B,M,H,K]
  In<Real> write_gain;   ///< w [R,B,M,H]; absent: 1
  In<Real> log_decay;    ///< g [R,B,T,H,1] or [R,B,T,H,K]; absent: 0
  In<Real> erase_read;   ///< x [R,B,M,H,K]: tied, free
  In<Real> erase_write;  ///< y [R,B,M,H,K]: free
  In<Real> erase_gain;   ///< e [R,B,M,H]: tied, free; absent: 1
  Ids position;        ///< int32 [R,B,Q]: tokens that a query sees; absent: Q = T, query t stands at token t
  Out<Real> a;         ///< [R,B,H,Q,M]
  Work<Real> history;  ///< [R,B,H,M,K]: r before each write, of one query at a time (backward)

  static constexpr const char* kName = "read_weights";
  template <class F>
  void fields(F&& f) {
    f("q", q), f("k", k), f("write_gain", write_gain), f("log_decay", log_decay), f("erase_read", erase_read);
    f("erase_write", erase_write), f("erase_gain", erase_gain), f("position", position), f("a", a);
    f("history", history);
  }
  CT_HD int B() const { return k.value.dim(0); }
  CT_HD int M() const { return k.value.dim(1); }
  CT_HD int T() const { return k.value.dim(1) / writes; }
  CT_HD int Q() const { return q.value.dim(1); }
  CT_HD int H() const { return k.value.dim(2); }
  CT_HD int K() const { return k.value.dim(3); }
  void plan() {
    if (!q || !k || q.value.rank != 4 || k.value.rank != 4 || q.value.dim(3) != K() ||
        q.value.dim(2) != H() || q.value.dim(0) != B() || writes < 1 || M() % writes != 0 ||
        (!position && Q() != T()))
      throw std::logic_error("[read_weights] shapes do not fit");
    a.value = shaped<Real>(k.value.R, {B(), H(), Q(), M()});
    history.value = shaped<Real>(k.value.R, {B(), H(), M(), K()});
  }
};
CROSSTALK_OP(ReadWeights)

}  // namespace crosstalk

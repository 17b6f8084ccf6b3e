// Reading a memory with a scalar-gated, rank-one-erasing recurrence, without forming its state.
//
//   S_t = decay_t S_{t-1} - erase_t (S_{t-1} k_t) k_t^T + write_t v_t k_t^T,      o = S_n q after n tokens
//
// gives o = sum_t a_t v_t with the weights, for t = n .. 1 and r_n = q,
//
//   c_t     = k_t . r_t
//   a_t     = write_t c_t
//   r_{t-1} = decay_t r_t - erase_t c_t k_t.
//
//   sum rule                                            decay 1         erase 0           write 1
//   delta rule (Schlag, Irie, Schmidhuber 2021, eq. 24) decay 1         erase beta        write beta
//   Peng's gate (2021)                                  decay 1 - beta  erase 0           write beta
//   delta rule with attention normalisation             decay 1         erase beta/(z.k)  write beta
// Cost O(T P) a query instead of O(T P V).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stdexcept>

#include "kernels/base/buffer.h"
#include "kernels/base/op.h"

namespace crosstalk {

/// Backward is the adjoint, in forward time:
///   rho_0   = 0
///   d_c     = write d_a - erase (k.rho_{t-1})
///   d_write = c d_a
///   d_decay = r_t.rho_{t-1}
///   d_erase = -c (k.rho_{t-1})
///   d_k     = d_c r_t - erase c rho_{t-1}
///   rho_t   = decay rho_{t-1} + d_c k
///   d_q     = rho_n
/// It needs r_t, in one of two ways. history has r_t where Q = 1, and else room for them: they are made again, query
/// after query. trail has r_0 and then c_t, from which r_t = r_{t-1} + erase_t c_t k_t; only for Q = 1 without decay,
/// and only sound where no step makes r longer (`contracting`: erase |k|^2 <= 2): else r_0 outgrows the others and they
/// are lost in its rounding.
template <class Real>
struct RecurrentRead {
  bool contracting = false;
  In<Real> k;                    ///< [R,B,T,P]
  In<Real> q;                    ///< [R,B,Q,P]
  In<Real> write, erase, decay;  ///< [R,B,T]; absent: 1, 0, 1
  Ids position;                  ///< int32 [R,B,Q]: tokens seen
  Out<Real> a;                   ///< [R,B,Q,T]: 0 for tokens not seen
  Saved<Real> history;           ///< [R,B,T,P]
  Saved<Real> trail;             ///< [R,B,P+T], T to the next multiple of 4

  static constexpr const char* kName = "recurrent_read";
  template <class F>
  void fields(F&& f) {
    f("k", k), f("q", q), f("write", write), f("erase", erase), f("decay", decay), f("position", position);
    f("a", a), f("history", history), f("trail", trail);
  }
  void plan() {
    const int B = k.value.dim(0), T = k.value.dim(1), P = k.value.columns(), Q = q.value.dim(1),
              R = k.value.R;
    if (P != q.value.columns()) throw std::logic_error("[recurrent_read] k and q do not fit");
    a.value = shaped<Real>(R, {B, Q, T});
    if (contracting && Q == 1 && !decay) {
      trail.value = shaped<Real>(R, {B, P + (T + 3) / 4 * 4});
    } else {
      history.value = shaped<Real>(R, {B, T, P});
    }
  }
};
CROSSTALK_OP(RecurrentRead)

}  // namespace crosstalk

// The recurrence of state_read.h read from the query's side, without a state: the weights that a query gives
// to every write.
//
//   r_n = q,   c_t = k_t . r_t,   a_t = w_t c_t
//   r_{t-1} = e^{g_t} * (r_t - e_t (y_t . r_t) x_t)            decayed
//   r_{t-1} = e^{g_t} * r_t - e_t (y_t . r_t) x_t              not decayed
//
// for t = n .. 1 (micro-steps of a token in reverse, its decay after the first of them), and o = sum_t a_t
// v_t. It costs O(T K) a query instead of O(T K V): for few queries and wide, one-hot values.
//
//   delta rule (Schlag, Irie, Schmidhuber 2021, eq. 24)   e = w = beta, x = y = k, no decay
//   Peng's gate (2021)                                    no erase, w = beta, decay 1 - beta
//   delta rule with attention normalisation               e = beta / (z.k), w = beta, x = y = k
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/buffer.h"
#include "kernels/base/form.h"
#include "kernels/base/precision.h"
#include "kernels/recurrence/state_read.h"

namespace crosstalk {

/// Backward is the adjoint, in forward time (read_weights_cpu.cpp). It needs r_t, which a single query saves
/// in one of two ways, and which is made again for one query after the other where there are several:
///   states  r after each write
///   trail   r_0 and then c_t, from which r_t = r_{t-1} + e_t c_t x_t: without decay, with y = k, and only
///   sound where no
///           write makes r longer (`contracting`: e |k|^2 <= 2): else r_0 outgrows the others and they are
///           lost in its
///           rounding
/// Fields as in StateRead; log_decay may have a channel. a is 0 for writes that a query does not see.
template <class Real>
struct ReadWeights {
  Device device = Device::cpu;  ///< where it runs: what is kept depends on it
  Erase erase = Erase::none;
  int writes = 1;
  bool decayed = true, before = false;
  bool contracting = false;
  Precision products = Precision::full;  ///< of forms that multiply tiles (CUDA, float)

  In<Real> k;            ///< [R,B,M,H,K]
  In<Real> write_gain;   ///< w [R,B,M,H]; absent: 1
  In<Real> log_decay;    ///< g [R,B,T,H,1] or [R,B,T,H,K]; absent: 0
  In<Real> decay;        ///< e^g itself [R,B,T,H], instead of log_decay
  In<Real> erase_read;   ///< x [R,B,M,H,K]: tied, free; absent: k
  In<Real> erase_write;  ///< y [R,B,M,H,K]: free
  In<Real> erase_gain;   ///< e [R,B,M,H]: tied, free; absent: 1
  In<Real> q;            ///< [R,B,Q,H,K]; the last, as backward knows its gradient last
  Ids position;  ///< int32 [R,B,Q]: tokens that a query sees; absent: Q = T, query t stands at token t
  Out<Real> a;   ///< [R,B,H,Q,M]
  Saved<Real>
      kept;  ///< of a single query: states [R,B,H,M,K] or trail [R,B,H,K+M], M to the next multiple of 4; as a form plans
  Work<Real> history;  ///< [R,B,H,M,K]: r after each write, of one of several queries at a time (backward)
  const FusedForm<ReadWeights>* form = nullptr;  ///< null: write after write

  static constexpr const char* kName = "read_weights";
  const char* form_name(Device) const { return form ? form->name : "recurrent"; }
  CROSSTALK_FIELDS(k, write_gain, log_decay, decay, erase_read, erase_write, erase_gain, q, position, a, kept,
                   history)
  CROSSTALK_BF16_FIELDS(kept)
  CT_HD int B() const { return k.value.dim(0); }
  CT_HD int M() const { return k.value.dim(1); }
  CT_HD int T() const { return k.value.dim(1) / writes; }
  CT_HD int Q() const { return q.value.dim(1); }
  CT_HD int H() const { return k.value.dim(2); }
  CT_HD int K() const { return k.value.dim(3); }
  /// Tells whether what is kept is a trail.
  CT_HD bool by_trail() const {
    return contracting && Q() == 1 && erase != Erase::free && !log_decay && !decay;
  }
  /// Numbers that are kept of a sequence and head.
  CT_HD std::int64_t kept_numbers() const {
    return by_trail() ? K() + (M() + 3) / 4 * 4 : static_cast<std::int64_t>(M()) * K();
  }

  void plan() {
    const PlanCheck want{kName};
    want(q && k && q.value.rank == 4 && k.value.rank == 4 && q.value.dim(3) == K() && q.value.dim(2) == H() &&
         q.value.dim(0) == B());
    want(writes >= 1 && M() % writes == 0 && (position || Q() == T()) && !(log_decay && decay));
    const std::int64_t gains = static_cast<std::int64_t>(B()) * M() * H(), factors = gains / writes;
    for (const In<Real>* gain : {&write_gain, &erase_gain}) want(!*gain || gain->value.size() == gains);
    for (const In<Real>* key : {&erase_read, &erase_write}) want(!*key || key->value.size() == gains * K());
    want(!decay || decay.value.size() == factors);
    want(!log_decay || log_decay.value.size() == factors || log_decay.value.size() == factors * K());
    want(erase != Erase::free || erase_write);
    a.value = shaped<Real>(k.value.R, {B(), H(), Q(), M()});
    if (Q() == 1)
      kept.value = shaped<Real>(k.value.R, {B(), H(), kept_numbers()});
    else
      history.value = shaped<Real>(k.value.R, {B(), H(), M(), K()});
    form = device == Device::cuda ? choose_form(*this) : nullptr;
    if (form) form->plan(*this);
  }
};
CROSSTALK_OP(ReadWeights)

}  // namespace crosstalk

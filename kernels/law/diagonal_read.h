// A matrix state whose entries all fade on their own (Mamba-1, Gu and Dao 2023, arXiv 2312.00752; with
// complex numbers S4D, Gu et al. 2022, arXiv 2206.11893; with gates of rows and columns Mao 2022, arXiv 2210.04243; with factors
// of keys Longhorn as released, Liu et al. 2024, arXiv 2407.14207).
//
//   A_t = exp(step_t,v (-e^{log_rate} + i angle))      [V,K], entry by entry; v: the row's step
//   A_t = 2 exp(-step_t,v e^{log_rate}) - 1           where `either_sign` (Grazzi et al. 2024, arXiv 2411.12537); real
//   A_t = 1 - step_t,v k_t^2                          where factors are `of_keys`; real
//   A_t = exp(row_log_decay_t,v + column_log_decay_t,k)  where rows have gates; step is 1 then
//   S_t = A_t * S_{t-1} + (step_t * v_t) k_t^T
//   o   = S_n q                                        after n tokens, real
//   o   = 2 Re((read + i read_imag) * S_n) q           complex
//
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/law/law_walk.h"

namespace crosstalk {

/// Gradients of a variable that stands in several fields are added up in any order.
template <class Real>
struct DiagonalRead {
  Device device = Device::cpu;  ///< where it runs: what is kept depends on it
  bool either_sign = false;     ///< factors between -1 and 1; not of a complex state
  bool of_keys = false;         ///< factors by the squares of keys, without log_rate; real
  In<Real> q;                   ///< [R,B,Q,H,K]
  In<Real> k;                   ///< [R,B,T,H,K]
  In<Real> v;                   ///< [R,B,T,H,V]
  In<Real> step;                ///< [R,B,T,H,V], or [R,B,1,H,V] for all tokens; absent with gates
  In<Real> log_rate;            ///< [R,B,1,H,V*K]; absent with gates, or factors of keys
  In<Real> row_log_decay;       ///< [R,B,T,H,V]; present: rows and columns have gates
  In<Real> column_log_decay;    ///< [R,B,T,H,K], with row_log_decay alone; absent: 0
  In<Real> angle;               ///< [R,B,1,H,V*K]; present: the state is complex
  In<Real> read;                ///< [R,B,1,H,V*K]: complex only
  In<Real> read_imag;           ///< [R,B,1,H,V*K]: complex only
  In<Real> start;               ///< S_0 [R,B,H,V,K], its real part; absent: 0
  In<Real> start_imag;          ///< its imaginary part; absent: 0
  Ids position;   ///< int32 [R,B,Q]: tokens that a query sees; absent: Q = T, query t stands behind token t
  Out<Real> o;    ///< [R,B,Q,H,V]
  Out<Real> end;  ///< S_T [R,B,H,V,K]; wanted where its shape is set before plan()
  Out<Real> end_imag;  ///< the same, complex only
  Saved<Real> states;  ///< [R,B,H,segments,parts*V*K]: the state before each segment, real part first
  Work<Real> work;     ///< [R,B,H,numbers]
  const FusedForm<DiagonalRead>* form = nullptr;  ///< null: the law, token after token

  static constexpr const char* kName = "diagonal_read";
  const char* form_name(Device) const { return form ? form->name : "recurrent"; }
  CROSSTALK_FIELDS(q, k, v, step, log_rate, row_log_decay, column_log_decay, angle, read, read_imag, start,
                   start_imag, position, o, end, end_imag, states, work)

  CT_HD int B() const { return k.value.dim(0); }
  CT_HD int T() const { return k.value.dim(1); }
  CT_HD int Q() const { return q.value.dim(1); }
  CT_HD int H() const { return k.value.dim(2); }
  CT_HD int K() const { return k.value.dim(3); }
  CT_HD int V() const { return v.value.dim(3); }
  /// Tells whether tokens have one step.
  CT_HD bool steady() const { return step && step.value.dim(1) == 1; }
  CT_HD bool gated() const { return static_cast<bool>(row_log_decay); }
  CT_HD bool complex() const { return static_cast<bool>(angle); }
  CT_HD std::int64_t size() const { return std::int64_t{complex() ? 2 : 1} * V() * K(); }

  void plan() {
    const PlanCheck want{kName};
    want(q && k && v, "q, k and v are needed");
    want(gated() ? !step && !log_rate && !angle && !either_sign && !of_keys
                 : step && static_cast<bool>(log_rate) != of_keys && !column_log_decay,
         "rows and columns have gates, or entries have steps, and rates but where factors are of keys");
    want(!of_keys || (!angle && !either_sign), "factors of keys have no angles and no signs of their own");
    law::check_tokens(*this, want);
    want(gated() || (step.value.rank == 4 && step.value.size() * (steady() ? T() : 1) == v.value.size()),
         "step is [B,T,H,V] or [B,1,H,V]");
    want(!gated() || row_log_decay.value.size() == v.value.size(), "row_log_decay is [B,T,H,V]");
    want(!column_log_decay || column_log_decay.value.size() == k.value.size(),
         "column_log_decay is [B,T,H,K]");
    const std::int64_t entries = static_cast<std::int64_t>(B()) * H() * V() * K();
    want(!log_rate || log_rate.value.size() == entries, "log_rate is [B,1,H,V*K]");
    want(!either_sign || !angle, "a complex state has angles, not signs");
    want(!angle || angle.value.size() == entries, "angle is [B,1,H,V*K]");
    want(complex() == static_cast<bool>(read) && complex() == static_cast<bool>(read_imag),
         "a complex state is read by two parts");
    want(!read || (read.value.size() == entries && read_imag.value.size() == entries), "read is [B,1,H,V*K]");
    want(!start || start.value.size() == entries, "start is [B,H,V,K]");
    want(!start_imag || (complex() && start_imag.value.size() == entries), "start_imag is [B,H,V,K]");
    law::plan_walk(*this, k.value.R, size(), 0);
  }
};
CROSSTALK_OP(DiagonalRead)

}  // namespace crosstalk

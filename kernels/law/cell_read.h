// Recurrences that are not linear in what they hold: the gates of a token see the hidden state before it.
//
//   a_g = x_g + U_g h_{t-1}
//   lstm    c_t = sigmoid(a_1) c_{t-1} + sigmoid(a_0) tanh(a_2)      h_t = sigmoid(a_3) tanh(c_t)
//   gru     n = tanh(x_2 + sigmoid(a_0) U_2 h_{t-1})                 h_t = (1 - sigmoid(a_1)) n + sigmoid(a_1) h_{t-1}
//   slstm   n_t = sigmoid(a_1) n_{t-1} + e^{a_0}                     h_t = sigmoid(a_3) c_t / n_t
//           c_t = sigmoid(a_1) c_{t-1} + e^{a_0} tanh(a_2)
//   o       = h_n after n tokens (h_0 after none)
//
// (Hochreiter and Schmidhuber 1997; Cho et al. 2014, arXiv 1406.1078; Beck et al. 2024, arXiv 2405.04517.) The sLSTM is kept as
// the average y = c / n and L = log n: no exponential of an unbounded number occurs, and no stabiliser is needed.
//
//   L_t = log(e^{L_{t-1} + log sigmoid(a_1)} + e^{a_0})              L_0 = -inf
//   y_t = w y_{t-1} + (1 - w) tanh(a_2)                              w = sigmoid(L_{t-1} + log sigmoid(a_1) - a_0)
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/law/law_walk.h"

namespace crosstalk {

enum class Cell : int { lstm, gru, slstm };
/// Gates of a cell, and what it carries from token to token: h, and c or y and L.
CT_HD constexpr int cell_gates(Cell cell) { return cell == Cell::gru ? 3 : 4; }
CT_HD constexpr int cell_parts(Cell cell) { return cell == Cell::gru ? 1 : cell == Cell::lstm ? 2 : 3; }

/// Gradients of a variable that stands in several fields are added up in any order.
template <class Real>
struct CellRead {
  Cell cell = Cell::lstm;

  In<Real> x0, x1, x2, x3;  ///< x_g [R,B,T,H,V]
  In<Real> u0, u1, u2, u3;  ///< U_g [R,B,1,H,V*V], for every sequence
  In<Real> start_h;         ///< h_0 [R,B,H,V]; absent, with the others: there is nothing
  In<Real> start_c;         ///< c_0 or y_0 [R,B,H,V]
  In<Real> start_l;         ///< L_0 [R,B,H,V]
  Ids position;             ///< int32 [R,B,Q]: tokens that a query sees; absent: query t stands at token t
  Out<Real> o;              ///< [R,B,Q,H,V]
  Out<Real> end_h, end_c, end_l;  ///< [R,B,H,V]; wanted where their shapes are set before plan()
  Saved<Real> states;             ///< [R,B,H,segments,parts*V]: before each segment
  Work<Real> work;                ///< [R,B,H,numbers]

  static constexpr const char* kName = "cell_read";
  CROSSTALK_FIELDS(x0, x1, x2, x3, u0, u1, u2, u3, start_h, start_c, start_l, position, o, end_h, end_c,
                   end_l, states, work)

  CT_HD int B() const { return x0.value.dim(0); }
  CT_HD int T() const { return x0.value.dim(1); }
  CT_HD int Q() const { return position ? position.value.dim(1) : T(); }
  CT_HD int H() const { return x0.value.dim(2); }
  CT_HD int V() const { return x0.value.dim(3); }
  CT_HD int parts() const { return cell_parts(cell); }
  CT_HD const In<Real>& x(int g) const { return g == 0 ? x0 : g == 1 ? x1 : g == 2 ? x2 : x3; }
  CT_HD const In<Real>& u(int g) const { return g == 0 ? u0 : g == 1 ? u1 : g == 2 ? u2 : u3; }
  /// Numbers beside the states: what gates are made of, and their gradients before and behind U.
  static std::int64_t scratch(int V) { return std::int64_t{12} * V; }

  void plan() {
    const PlanCheck want{kName};
    want(x0 && x0.value.rank == 4, "x_g is [B,T,H,V]");
    const std::int64_t channels = static_cast<std::int64_t>(B()) * H() * V();
    for (int g = 0; g < 4; ++g) {
      const bool there = g < cell_gates(cell);
      want(static_cast<bool>(x(g)) == there && static_cast<bool>(u(g)) == there, "every gate has x and U");
      want(!there || (x(g).value.size() == channels * T() && u(g).value.size() == channels * V()),
           "x_g is [B,T,H,V] and U_g [B,1,H,V*V]");
    }
    want(static_cast<bool>(start_c) == (start_h && parts() > 1) &&
             static_cast<bool>(start_l) == (start_h && parts() > 2),
         "a start has all parts of the state");
    for (const In<Real>* start : {&start_h, &start_c, &start_l})
      want(!*start || start->value.size() == channels, "start is [B,H,V]");
    law::plan_walk(*this, x0.value.R, parts() * V(), scratch(V()));
  }
};
CROSSTALK_OP(CellRead)

}  // namespace crosstalk

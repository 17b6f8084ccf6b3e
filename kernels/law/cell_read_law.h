// CellRead as a law of law_walk.h: the state is h [V], then c [V] or y [V] and L [V].
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/law/cell_read.h"

namespace crosstalk::law {

template <class Real>
struct CellLaw {
  const CellRead<Real>& op;
  int item, V, gates;
  Place<Real> at;

  CT_HD CellLaw(const CellRead<Real>& op_, int r, int item_)
      : op(op_),
        item(item_),
        V(op.V()),
        gates(cell_gates(op.cell)),
        at(op, r, item, static_cast<std::int64_t>(op.parts()) * op.V()) {}

  CT_HD Rows<Real> x(int g) const { return {op.x(g), at.r, at.b, at.h, at.T, at.H, V}; }
  CT_HD Rows<Real> u(int g) const { return {op.u(g), at.r, at.b, at.h, 1, at.H, V * V}; }

  CT_HD static Real nothing() { return -static_cast<Real>(INFINITY); }
  CT_HD static Real log_sigmoid(Real x) { return -((x < 0 ? -x : Real(0)) + log1p_(exp_(x < 0 ? x : -x))); }

  /// Channel i at a token: its gates' values, and the state.
  struct Channel {
    Real g[4] = {};            ///< lstm, slstm: i (slstm: a_0), f, z, o; gru: r, u, n
    Real bent = 0;             ///< gru: U_2 h
    Real h = 0, c = 0, l = 0;  ///< the new state
    Real w = 0;                ///< slstm
    Real rest = 0;             ///< gru: 1 - u; slstm: 1 - w
  };
  /// a [gates * V]: U_g h of all gates.
  CT_HD Channel channel(int t, const Real* S, const Real* a, int i) const {
    Channel n;
    const auto sum = [&](int g) { return x(g).row(t)[i] + a[g * V + i]; };
    if (op.cell == Cell::gru) {
      n.g[0] = sigmoid_(sum(0)), n.g[1] = sigmoid_(sum(1)), n.rest = sigmoid_(-sum(1)), n.bent = a[2 * V + i];
      n.g[2] = tanh_(x(2).row(t)[i] + n.g[0] * n.bent);
      n.h = n.rest * n.g[2] + n.g[1] * S[i];
      return n;
    }
    n.g[2] = tanh_(sum(2)), n.g[3] = sigmoid_(sum(3));
    if (op.cell == Cell::lstm) {
      n.g[0] = sigmoid_(sum(0)), n.g[1] = sigmoid_(sum(1));
      n.c = n.g[1] * S[V + i] + n.g[0] * n.g[2];
      n.h = n.g[3] * tanh_(n.c);
      return n;
    }
    n.g[0] = sum(0), n.g[1] = sum(1);
    const Real old = S[2 * V + i] + log_sigmoid(n.g[1]), own = n.g[0];
    const Real gap = old > own ? own - old : old - own;  // of -inf too
    n.w = sigmoid_(old - own), n.rest = sigmoid_(own - old);
    n.l = old == nothing() ? own : (old > own ? old : own) + log1p_(exp_(gap));
    n.c = n.w * S[V + i] + n.rest * n.g[2];
    n.h = n.g[3] * n.c;
    return n;
  }
  CT_HD void bend(const auto& team, const Real* S, Real* a) const {
    for (int g = 0; g < gates; ++g) {
      const Real* weights = u(g).value;
      team.rows(
          V, V, [&](int i, int j) { return weights[i * V + j] * S[j]; },
          [&](int i, Real sum) { a[g * V + i] = sum; });
    }
  }

  CT_HD void each_part(auto&& f) const {
    f(Part<Real>{op.start_h, op.end_h, 0, V});
    if (op.parts() > 1) f(Part<Real>{op.start_c, op.end_c, V, V});
    if (op.parts() > 2) f(Part<Real>{op.start_l, op.end_l, 2 * V, V, nothing()});
  }
  CT_HD void step(const auto& team, int t, const Real* S, Real* next) const {
    Real* a = at.scratch();
    bend(team, S, a);
    team.each(V, [&](int i) {
      const Channel n = channel(t, S, a, i);
      next[i] = n.h;
      if (op.parts() > 1) next[V + i] = n.c;
      if (op.parts() > 2) next[2 * V + i] = n.l;
    });
  }
  CT_HD void read(const auto& team, const Real* S, int i) const {
    Real* o = op.o.value.at(at.r) + at.query(i) * V;
    team.each(V, [&](int c) { o[c] = S[c]; });
  }
  CT_HD void read_back(const auto& team, int i, const Real*, Real* G) const {
    if (!op.o.gradient.data) return;
    const Real* d_o = op.o.gradient.at(at.r) + at.query(i) * V;
    team.each(V, [&](int c) { G[c] += d_o[c]; });
  }
  /// d [4 * V] gets dL/dx_g, e [4 * V] dL/d(U_g h); G that of what channel i held, but for what U takes.
  CT_HD void channel_back(const Channel& n, const Real* S, Real* G, Real* d, Real* e, int i) const {
    const Real d_h = G[i];
    if (op.cell == Cell::gru) {
      const Real d_n = d_h * n.rest * (1 - n.g[2] * n.g[2]);
      d[i] = d_n * n.bent * n.g[0] * (1 - n.g[0]);
      d[V + i] = d_h * (S[i] - n.g[2]) * n.g[1] * n.rest;
      d[2 * V + i] = d_n;
      e[i] = d[i], e[V + i] = d[V + i], e[2 * V + i] = d_n * n.g[0];
      G[i] = d_h * n.g[1];
      return;
    }
    const Real o = n.g[3];
    if (op.cell == Cell::lstm) {
      const Real c = tanh_(n.c), d_c = G[V + i] + d_h * o * (1 - c * c);
      d[i] = d_c * n.g[2] * n.g[0] * (1 - n.g[0]);
      d[V + i] = d_c * S[V + i] * n.g[1] * (1 - n.g[1]);
      d[2 * V + i] = d_c * n.g[0] * (1 - n.g[2] * n.g[2]);
      d[3 * V + i] = d_h * c * o * (1 - o);
      G[V + i] = d_c * n.g[1];
    } else {
      const Real d_y = G[V + i] + d_h * o, d_l = G[2 * V + i];
      const Real turn = d_y * (S[V + i] - n.g[2]) * n.w * n.rest;
      d[i] = n.rest * d_l - turn;
      d[V + i] = (n.w * d_l + turn) * sigmoid_(-n.g[1]);
      d[2 * V + i] = d_y * n.rest * (1 - n.g[2] * n.g[2]);
      d[3 * V + i] = d_h * n.c * o * (1 - o);
      G[V + i] = d_y * n.w;
      G[2 * V + i] = n.w * d_l + turn;
    }
    for (int g = 0; g < 4; ++g) e[g * V + i] = d[g * V + i];
    G[i] = 0;
  }
  CT_HD void step_back(const auto& team, int t, const Real* S, Real* G) const {
    Real *a = at.scratch(), *d = a + 4 * V, *e = d + 4 * V;
    bend(team, S, a);
    team.each(V, [&](int i) { channel_back(channel(t, S, a, i), S, G, d, e, i); });
    for (int g = 0; g < gates; ++g) {
      const Real *d_x = d + g * V, *d_a = e + g * V, *weights = u(g).value;
      x(g).add(team, t, [&](int i) { return d_x[i]; });
      if (Real* to = u(g).gradient) team.cells(V, V, [&](int i, int j) { to[i * V + j] += d_a[i] * S[j]; });
      team.columns(
          V, V, [&](int j, int i) { return weights[i * V + j] * d_a[i]; },
          [&](int j, Real sum) { G[j] += sum; });
    }
  }

  CT_HD void clear(const auto& team) const {
    for (int g = 0; g < gates; ++g) x(g).clear(team), u(g).clear(team);
  }
};

}  // namespace crosstalk::law

CROSSTALK_LAW(CellRead, law::CellLaw)

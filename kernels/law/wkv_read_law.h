// WkvRead as a law of law_walk.h: the state is y [V], then L [V].
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/law/wkv_read.h"

namespace crosstalk::law {

template <class Real>
struct Wkv {
  const WkvRead<Real>& op;
  int item, V;
  Place<Real> at;
  Rows<Real> k, v, log_decay, bonus;

  CT_HD Wkv(const WkvRead<Real>& op_, int r, int item_)
      : op(op_),
        item(item_),
        V(op.V()),
        at(op, r, item, 2 * op.V()),
        k(op.k, r, at.b, at.h, at.T, at.H, V),
        v(op.v, r, at.b, at.h, at.T, at.H, V),
        log_decay(op.log_decay, r, at.b, at.h, 1, at.H, V),
        bonus(op.bonus, r, at.b, at.h, 1, at.H, V) {
    at.before = op.before();
  }

  CT_HD static Real nothing() { return -static_cast<Real>(INFINITY); }
  /// Shares of what was before and of the token in an average.
  struct Shares {
    Real old, own;
    CT_HD explicit Shares(Real x) : old(sigmoid_(x)), own(sigmoid_(-x)) {}
  };
  CT_HD Shares weight(const Real* S, int t, int i) const {
    return Shares(log_decay.value[i] + S[V + i] - k.row(t)[i]);
  }
  CT_HD Shares weight_before(const Real* S, int t, int i) const {
    return Shares(S[V + i] - bonus.value[i] - k.row(t)[i]);
  }

  CT_HD void each_part(auto&& f) const {
    f(Part<Real>{op.start, op.end, 0, V});
    f(Part<Real>{op.start_log, op.end_log, V, V, nothing()});
  }
  CT_HD void step(const auto& team, int t, const Real* S, Real* next) const {
    const Real *key = k.row(t), *value = v.row(t);
    team.each(V, [&](int i) {
      const Shares w = weight(S, t, i);
      const Real old = log_decay.value[i] + S[V + i], own = key[i];
      const Real gap = old > own ? own - old : old - own;  // of -inf too
      next[i] = w.old * S[i] + w.own * value[i];
      next[V + i] = old == nothing() ? own : (old > own ? old : own) + log1p_(exp_(gap));
    });
  }
  CT_HD void read(const auto& team, const Real* S, int i) const {
    Real* o = op.o.value.at(at.r) + at.query(i) * V;
    team.each(V, [&](int c) {
      if (!at.before) {
        o[c] = S[c];
        return;
      }
      const Shares s = weight_before(S, i, c);
      o[c] = s.old * S[c] + s.own * v.row(i)[c];
    });
  }
  CT_HD void read_back(const auto& team, int i, const Real* S, Real* G) const {
    if (!op.o.gradient.data) return;
    const Real* d_o = op.o.gradient.at(at.r) + at.query(i) * V;
    if (!at.before) {
      team.each(V, [&](int c) { G[c] += d_o[c]; });
      return;
    }
    const Real* value = v.row(i);
    // Gradient of s = sigmoid(L - bonus - k), before the sigmoid.
    const auto turn = [&](int c) {
      const Shares s = weight_before(S, i, c);
      return d_o[c] * (S[c] - value[c]) * s.old * s.own;
    };
    k.add(team, i, [&](int c) { return -turn(c); });
    v.add(team, i, [&](int c) { return d_o[c] * weight_before(S, i, c).own; });
    bonus.add(team, 0, [&](int c) { return -turn(c); });
    team.each(V, [&](int c) {
      G[c] += d_o[c] * weight_before(S, i, c).old;
      G[V + c] += turn(c);
    });
  }
  CT_HD void step_back(const auto& team, int t, const Real* S, Real* G) const {
    const Real* value = v.row(t);
    // Gradient of g + L - k through w, and what L_t gives to its two terms.
    const auto turn = [&](int i) {
      const Shares w = weight(S, t, i);
      return G[i] * (S[i] - value[i]) * w.old * w.own;
    };
    k.add(team, t, [&](int i) { return weight(S, t, i).own * G[V + i] - turn(i); });
    v.add(team, t, [&](int i) { return weight(S, t, i).own * G[i]; });
    log_decay.add(team, 0, [&](int i) { return weight(S, t, i).old * G[V + i] + turn(i); });
    team.each(V, [&](int i) {
      const Real w = weight(S, t, i).old, d_l = w * G[V + i] + turn(i);
      G[i] *= w;
      G[V + i] = d_l;
    });
  }

  CT_HD void clear(const auto& team) const {
    k.clear(team), v.clear(team), log_decay.clear(team), bonus.clear(team);
  }
};

}  // namespace crosstalk::law

CROSSTALK_LAW(WkvRead, law::Wkv)

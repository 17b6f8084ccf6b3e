// The recurrence engine token after token, as a law (law_walk.h) whose steps are writes: the specification, on the
// CPU and, for what the chunk kernels do not cover, on CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/law/law_walk.h"
#include "kernels/recurrence/state_read.h"

namespace crosstalk::law {

/// Steps are the M = T N writes; queries stand behind the last write of a token.
template <class Real>
struct WritePlace : Place<Real> {
  int writes;

  CT_HD WritePlace(const StateRead<Real>& op, int r_, int item)
      : Place<Real>(op, r_, item, static_cast<std::int64_t>(op.V()) * op.K()), writes(op.writes) {
    this->T = op.M(), this->before = op.before;
    this->states = op.states ? op.states.value.at(r_) + item * segments(op.M()) * this->size : nullptr;
  }
  CT_HD void queries(int n, auto&& f) const {
    if (n % writes != 0) return;
    if (this->position && n == this->T) {  // positions behind the end see all tokens
      for (int i = 0; i < this->Q; ++i)
        if (this->position[i] >= n / writes) f(i);
    } else {
      Place<Real>::queries(n / writes, f);
    }
  }
};

template <class Real>
struct State {
  const StateRead<Real>& op;
  int item, K, V;
  WritePlace<Real> at;
  bool delta, erases;
  Rows<Real> q, k, v, w, g, x, y, e;  ///< of the delta rule, x and y are k, and e is w
  Real *factor, *found, *G_k, *G_y;   ///< e^g [K]; S'' x, G k and, first G y, dL/d(S'' x) [V]

  CT_HD State(const StateRead<Real>& op_, int r, int item_)
      : op(op_),
        item(item_),
        K(op.K()),
        V(op.V()),
        at(op, r, item),
        delta(op.erase == Erase::delta),
        erases(op.erase != Erase::none),
        q(op.q, r, at.b, at.h, at.Q, at.H, K),
        k(op.k, r, at.b, at.h, at.T, at.H, K),
        v(op.v, r, at.b, at.h, at.T, at.H, V),
        w(op.write_gain, r, at.b, at.h, at.T, at.H, 1),
        g(op.log_decay, r, at.b, at.h, op.T(), at.H, op.log_decay ? op.log_decay.value.dim(3) : 1),
        x(delta ? op.k : op.erase_read, r, at.b, at.h, at.T, at.H, K),
        y(op.erase == Erase::free ? op.erase_write : op.k, r, at.b, at.h, at.T, at.H, K),
        e(delta ? op.write_gain : op.erase_gain, r, at.b, at.h, at.T, at.H, 1),
        factor(at.scratch()),
        found(factor + K),
        G_k(found + V),
        G_y(G_k + V) {}

  /// True if write m is its token's first, which the token's decay precedes.
  CT_HD bool decays(int m) const { return g && m % op.writes == 0; }
  /// True if the erase of write m looks into the state before the decay.
  CT_HD bool looks_past(int m) const { return decays(m) && !op.decayed; }

  CT_HD void each_part(auto&& f) const { f(Part<Real>{op.start, op.end, 0, V * K}); }

  /// The factors of write m, and what its erase finds in the state before it.
  CT_HD void look(const auto& team, int m, const Real* S) const {
    const Real* decay = decays(m) ? g.row(m / op.writes) : nullptr;
    team.each(K, [&](int c) { factor[c] = decay ? exp_(decay[g.width > 1 ? c : 0]) : Real(1); });
    if (!erases) return;
    const Real* read = x.row(m);
    const bool past = looks_past(m);
    team.rows(
        V, K, [&](int i, int c) { return S[i * K + c] * (past ? read[c] : factor[c] * read[c]); },
        [&](int i, Real sum) { found[i] = sum; });
  }
  CT_HD void step(const auto& team, int m, const Real* S, Real* next) const {
    look(team, m, S);
    const Real gain = w.number(m, 1), erased = e.number(m, 1), *key = k.row(m), *value = v.row(m),
               *out = y.row(m);
    const bool tied = erases && op.erase != Erase::free;
    team.cells(V, K, [&](int i, int c) {
      const Real along_key = tied ? gain * value[i] - erased * found[i] : gain * value[i];
      const Real kept = along_key * key[c] + factor[c] * S[i * K + c];
      next[i * K + c] = erases && !tied ? kept - erased * found[i] * out[c] : kept;
    });
  }
  CT_HD void read(const auto& team, const Real* S, int i) const {
    Real* o = op.o.value.at(at.r) + at.query(i) * V;
    const Real* query = q.row(i);
    team.rows(
        V, K, [&](int a, int c) { return S[a * K + c] * query[c]; }, [&](int a, Real sum) { o[a] = sum; });
  }
  CT_HD void read_back(const auto& team, int i, const Real* S, Real* G) const {
    if (!op.o.gradient.data) return;
    const Real *d_o = op.o.gradient.at(at.r) + at.query(i) * V, *query = q.row(i);
    q.add_columns(team, i, V, [&](int c, int a) { return S[a * K + c] * d_o[a]; });
    team.cells(V, K, [&](int a, int c) { G[a * K + c] += d_o[a] * query[c]; });
  }
  CT_HD void step_back(const auto& team, int m, const Real* S, Real* G) const {
    look(team, m, S);
    const Real gain = w.number(m, 1), *key = k.row(m), *value = v.row(m);
    team.rows(
        V, K, [&](int i, int c) { return G[i * K + c] * key[c]; }, [&](int i, Real sum) { G_k[i] = sum; });
    v.add(team, m, [&](int i) { return gain * G_k[i]; });
    w.add_sum(team, m, V, [&](int i) { return G_k[i] * value[i]; });
    const bool past = looks_past(m);
    const Real* read = x.row(m);
    if (erases) take_back_erase(team, m, G);
    // The value written along k takes the place of G k.
    const Real found_too = erases && op.erase != Erase::free ? e.number(m, 1) : Real(0);
    team.each(V, [&](int i) { G_k[i] = gain * value[i] - (erases ? found_too * found[i] : Real(0)); });
    k.add_columns(team, m, V, [&](int c, int i) { return G_k[i] * G[i * K + c]; });
    if (erases) {
      x.add_columns(team, m, V,
                    [&](int c, int i) { return G_y[i] * (past ? S[i * K + c] : factor[c] * S[i * K + c]); });
      if (!past) team.cells(V, K, [&](int i, int c) { G[i * K + c] += G_y[i] * read[c]; });
    }
    if (!decays(m)) return;
    // dg is what G and the decayed state have in common: nothing is subtracted.
    const auto common = [&](int i, int c) { return G[i * K + c] * factor[c] * S[i * K + c]; };
    if (g.width > 1) {
      g.add_columns(team, m / op.writes, V, [&](int c, int i) { return common(i, c); });
    } else if (g.gradient) {
      team.rows(V, K, common, [&](int i, Real sum) { G_k[i] = sum; });
      g.add_sum(team, m / op.writes, V, [&](int i) { return G_k[i]; });
    }
    team.cells(V, K, [&](int i, int c) {
      const Real faded = factor[c] * G[i * K + c];
      G[i * K + c] = erases && past ? faded + G_y[i] * read[c] : faded;
    });
  }

  CT_HD void clear(const auto& team) const {
    q.clear(team), k.clear(team), v.clear(team), w.clear(team), g.clear(team);
    if (!delta) x.clear(team), e.clear(team);
    if (op.erase == Erase::free) y.clear(team);
  }

 private:
  /// Adds what - e (S'' x) y^T gives to e and, where it is not k, y; G_y becomes the gradient of S'' x.
  CT_HD void take_back_erase(const auto& team, int m, const Real* G) const {
    const Real erased = e.number(m, 1), *out = y.row(m), *G_out = G_k;
    if (op.erase == Erase::free) {
      team.rows(
          V, K, [&](int i, int c) { return G[i * K + c] * out[c]; }, [&](int i, Real sum) { G_y[i] = sum; });
      y.add_columns(team, m, V, [&](int c, int i) { return -erased * found[i] * G[i * K + c]; });
      G_out = G_y;
    }
    e.add_sum(team, m, V, [&](int i) { return -G_out[i] * found[i]; });
    team.each(V, [&](int i) { G_y[i] = -erased * G_out[i]; });
  }
};

}  // namespace crosstalk::law

CROSSTALK_LAW(StateRead, law::State)

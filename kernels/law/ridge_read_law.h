// RidgeRead as a law of law_walk.h: the state is S [V,K], then H [K,K].
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/law/ridge_read.h"

namespace crosstalk::law {

template <class Real>
struct Ridge {
  const RidgeRead<Real>& op;
  int item, K, V;
  Place<Real> at;
  Rows<Real> q, k, v, gain, log_decay, ridge;
  Real *right, *solution, *residual, *direction, *product;

  CT_HD Ridge(const RidgeRead<Real>& op_, int r, int item_)
      : op(op_),
        item(item_),
        K(op.K()),
        V(op.V()),
        at(op, r, item, op.size()),
        q(op.q, r, at.b, at.h, at.Q, at.H, K),
        k(op.k, r, at.b, at.h, at.T, at.H, K),
        v(op.v, r, at.b, at.h, at.T, at.H, V),
        gain(op.gain, r, at.b, at.h, at.T, at.H, 1),
        log_decay(op.log_decay, r, at.b, at.h, at.T, at.H, 1),
        ridge(op.ridge, r, at.b, at.h, 1, at.H, K),
        right(at.scratch()),
        solution(right + K),
        residual(solution + K),
        direction(residual + K),
        product(direction + K) {}

  CT_HD Real decay(int t) const { return log_decay ? exp_(log_decay.row(t)[0]) : Real(1); }
  /// Row `row` of what a token writes: v above k.
  CT_HD Real written(int t, int row) const { return row < V ? v.row(t)[row] : k.row(t)[row - V]; }

  CT_HD void each_part(auto&& f) const {
    f(Part<Real>{op.start, op.end, 0, V * K});
    f(Part<Real>{op.start_keys, op.end_keys, V * K, K * K});
  }
  CT_HD void step(const auto& team, int t, const Real* S, Real* next) const {
    const Real fade = decay(t), w = gain.number(t, 1), *key = k.row(t);
    team.each((V + K) * K, [&](int i) { next[i] = fade * S[i] + w * written(t, i / K) * key[i % K]; });
  }

  /// (H + Diag(ridge)) x = b.
  CT_HD void solve(const auto& team, const Real* S, const Real* b, Real* x) const {
    const Real* H = S + V * K;
    team.each(K, [&](int j) { x[j] = 0, residual[j] = direction[j] = b[j]; });
    Real squares = team.sum(K, [&](int j) { return residual[j] * residual[j]; });
    const Real enough = kRidgeEnough<Real> * squares;
    for (int n = 0; n < op.iterations && squares > enough; ++n) {
      team.rows(
          K, K, [&](int i, int j) { return H[i * K + j] * direction[j]; },
          [&](int i, Real sum) { product[i] = sum + ridge.value[i] * direction[i]; });
      const Real curvature = team.sum(K, [&](int j) { return direction[j] * product[j]; });
      const Real length = curvature > 0 ? squares / curvature : Real(0);
      team.each(K, [&](int j) { x[j] += length * direction[j], residual[j] -= length * product[j]; });
      const Real left = team.sum(K, [&](int j) { return residual[j] * residual[j]; });
      const Real turn = left / squares;
      team.each(K, [&](int j) { direction[j] = residual[j] + turn * direction[j]; });
      squares = left;
    }
  }

  CT_HD void read(const auto& team, const Real* S, int i) const {
    solve(team, S, q.row(i), solution);
    Real* o = op.o.value.at(at.r) + at.query(i) * V;
    team.rows(
        V, K, [&](int a, int j) { return S[a * K + j] * solution[j]; }, [&](int a, Real sum) { o[a] = sum; });
    if (op.x) copy(team, solution, op.x.value.at(at.r) + at.query(i) * K, K);
  }
  CT_HD void read_back(const auto& team, int i, const Real* S, Real* G) const {
    if (!op.o.gradient.data) return;
    const Real *d_o = op.o.gradient.at(at.r) + at.query(i) * V, *x = op.x.value.at(at.r) + at.query(i) * K;
    team.columns(
        K, V, [&](int j, int a) { return S[a * K + j] * d_o[a]; }, [&](int j, Real sum) { right[j] = sum; });
    solve(team, S, right, solution);
    team.each(V * K, [&](int n) { G[n] += d_o[n / K] * x[n % K]; });
    team.each(K * K, [&](int n) { G[V * K + n] -= solution[n / K] * x[n % K]; });
    q.add(team, i, [&](int j) { return solution[j]; });
    ridge.add(team, 0, [&](int j) { return -solution[j] * x[j]; });
  }
  CT_HD void step_back(const auto& team, int t, const Real* S, Real* G) const {
    const Real fade = decay(t), w = gain.number(t, 1), *key = k.row(t);
    const int n = (V + K) * K;
    log_decay.add_sum(
        team, t, n, [&](int i) { return S[i] * G[i]; }, fade);
    gain.add_sum(team, t, n, [&](int i) { return G[i] * written(t, i / K) * key[i % K]; });
    // G k for the rows of v, then of k; G^T (v above k) for the columns.
    v.add_rows(
        team, t, K, [&](int a, int j) { return G[a * K + j] * key[j]; }, w);
    k.add_rows(
        team, t, K, [&](int a, int j) { return G[(V + a) * K + j] * key[j]; }, w);
    k.add_columns(
        team, t, V + K, [&](int j, int a) { return G[a * K + j] * written(t, a); }, w);
    team.each(n, [&](int i) { G[i] *= fade; });
  }

  CT_HD void clear(const auto& team) const {
    q.clear(team), k.clear(team), v.clear(team), gain.clear(team), log_decay.clear(team);
    ridge.clear(team);
  }
};

}  // namespace crosstalk::law

CROSSTALK_LAW(RidgeRead, law::Ridge)

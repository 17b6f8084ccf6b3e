// FwmRead as a law of law_walk.h: the state is S [V,K], then what its last token divided it by.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/batch.h"
#include "kernels/law/fwm.h"

namespace crosstalk::law {

template <class Real>
struct Fwm {
  const FwmRead<Real>& op;
  int item, K, V, n;  ///< n: entries of S
  Place<Real> at;
  Rows<Real> q, k, v, beta;
  const std::int32_t* ids;  ///< of the first token; null: dense values
  int channels;

  CT_HD Fwm(const FwmRead<Real>& op_, int r, int item_)
      : op(op_),
        item(item_),
        K(op.K()),
        V(op.V()),
        n(V * K),
        at(op, r, item, op.size()),
        q(op.q, r, at.b, at.h, at.Q, at.H, K),
        k(op.k, r, at.b, at.h, at.T, at.H, K),
        v(op.v, r, at.b, at.h, at.T, at.H, V),
        beta(op.beta, r, at.b, at.h, at.T, at.H, 1),
        ids(op.v
                ? nullptr
                : op.tokens.value.at(r) + static_cast<std::int64_t>(at.b) * at.T * op.tokens.value.columns()),
        channels(op.v ? 0 : op.tokens.value.columns()) {}

  CT_HD Real value(int t, int a) const {
    if (v) return v.row(t)[a];
    return ids[static_cast<std::int64_t>(t) * channels + channel_value] == a ? Real(1) : Real(0);
  }

  CT_HD void each_part(auto&& f) const { f(Part<Real>{op.start, op.end, 0, n}); }
  CT_HD void begin(const auto& team, Real* S) const {
    team.each(1, [&](int) { S[n] = 1; });
  }
  CT_HD void step(const auto& team, int t, const Real* S, Real* next) const {
    const Real *key = k.row(t), rate = beta.number(t, 1);
    Real *write = at.scratch(), *squares = write + V;
    team.rows(
        V, K, [&](int a, int j) { return S[a * K + j] * key[j]; },
        [&](int a, Real bound) { write[a] = rate * (value(t, a) - bound); });
    team.rows(
        V, K,
        [&](int a, int j) {
          const Real x = S[a * K + j] + write[a] * key[j];
          next[a * K + j] = x;
          return x * x;
        },
        [&](int a, Real sum) { squares[a] = sum; });
    const Real norm = sqrt_(team.sum(V, [&](int a) { return squares[a]; }));
    const bool cut = (t > 0 || op.start) && norm > 1;
    team.each(1, [&](int) { next[n] = cut ? norm : Real(1); });
    if (!cut) return;
    const Real inverse = 1 / norm;
    team.each(n, [&](int i) { next[i] *= inverse; });
  }
  CT_HD void read(const auto& team, const Real* S, int i) const {
    const Real* query = q.row(i);
    Real* o = op.o.value.at(at.r) + at.query(i) * V;
    team.rows(
        V, K, [&](int a, int j) { return S[a * K + j] * query[j]; }, [&](int a, Real sum) { o[a] = sum; });
  }
  CT_HD void read_back(const auto& team, int i, const Real* S, Real* G) const {
    if (!op.o.gradient.data) return;
    const Real *query = q.row(i), *d_o = op.o.gradient.at(at.r) + at.query(i) * V;
    team.cells(V, K, [&](int a, int j) { G[a * K + j] += d_o[a] * query[j]; });
    q.add_columns(team, i, V, [&](int j, int a) { return d_o[a] * S[a * K + j]; });
  }
  // S_t = S' / |S'| gives dS' = (G - S_t <S_t, G>) / |S'|; then, with e = v - S k and u = dS' k,
  //   d_beta = e . u
  //   d_v    = beta u
  //   d_k    = beta (dS'^T e - S^T u)
  //   d_S    = dS' - beta u k^T
  CT_HD void step_back(const auto& team, int t, const Real* S, Real* G) const {
    const Real *key = k.row(t), *next = S + at.size, rate = beta.number(t, 1), norm = next[n];
    Real *error = at.scratch(), *along = error + V;
    if (norm > 1) {
      team.rows(
          V, K, [&](int a, int j) { return G[a * K + j] * next[a * K + j]; },
          [&](int a, Real sum) { error[a] = sum; });
      const Real radial = team.sum(V, [&](int a) { return error[a]; }), inverse = 1 / norm;
      team.each(n, [&](int i) { G[i] = (G[i] - next[i] * radial) * inverse; });
    }
    team.rows(
        V, K, [&](int a, int j) { return S[a * K + j] * key[j]; },
        [&](int a, Real bound) { error[a] = value(t, a) - bound; });
    team.rows(
        V, K, [&](int a, int j) { return G[a * K + j] * key[j]; }, [&](int a, Real sum) { along[a] = sum; });
    beta.add_sum(team, t, V, [&](int a) { return error[a] * along[a]; });
    v.add(team, t, [&](int a) { return rate * along[a]; });
    k.add_columns(
        team, t, V, [&](int j, int a) { return G[a * K + j] * error[a] - S[a * K + j] * along[a]; }, rate);
    team.cells(V, K, [&](int a, int j) { G[a * K + j] -= rate * along[a] * key[j]; });
  }

  CT_HD void clear(const auto& team) const { q.clear(team), k.clear(team), v.clear(team), beta.clear(team); }
};

}  // namespace crosstalk::law

CROSSTALK_LAW(FwmRead, law::Fwm)

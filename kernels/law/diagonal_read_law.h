// DiagonalRead as a law of law_walk.h: the state is S [V,K], real part first.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/elementwise/elementwise.h"
#include "kernels/law/diagonal_read.h"

namespace crosstalk::law {

template <class Real>
struct Diagonal {
  const DiagonalRead<Real>& op;
  int item, K, V, n;  ///< n: entries of the state
  bool complex, gated;
  Place<Real> at;
  Rows<Real> q, k, v, step_size, log_rate, of_rows, of_columns, angle, reads, reads_imag;

  CT_HD Diagonal(const DiagonalRead<Real>& op_, int r, int item_)
      : op(op_),
        item(item_),
        K(op.K()),
        V(op.V()),
        n(V * K),
        complex(op.complex()),
        gated(op.gated()),
        at(op, r, item, op.size()),
        q(op.q, r, at.b, at.h, at.Q, at.H, K),
        k(op.k, r, at.b, at.h, at.T, at.H, K),
        v(op.v, r, at.b, at.h, at.T, at.H, V),
        step_size(op.step, r, at.b, at.h, op.steady() ? 1 : at.T, at.H, V),
        log_rate(op.log_rate, r, at.b, at.h, 1, at.H, n),
        of_rows(op.row_log_decay, r, at.b, at.h, at.T, at.H, V),
        of_columns(op.column_log_decay, r, at.b, at.h, at.T, at.H, K),
        angle(op.angle, r, at.b, at.h, 1, at.H, n),
        reads(op.read, r, at.b, at.h, 1, at.H, n),
        reads_imag(op.read_imag, r, at.b, at.h, 1, at.H, n) {}

  /// Factor of entry i at token t: size, cosine and sine of its angle; and -e^{log_rate}, and the derivative of the
  /// size with respect to step times that.
  struct Factor {
    Real size, cos, sin, rate, slope;
  };
  CT_HD Factor factor(int t, int i) const {
    if (gated) {
      const Real size = exp_(of_rows.row(t)[i / K] + (of_columns ? of_columns.row(t)[i % K] : Real(0)));
      return {size, 1, 0, 0, size};
    }
    const Real step = step_of(t, i / K);
    if (op.of_keys) {
      const Real rate = -k.row(t)[i % K] * k.row(t)[i % K];
      return {1 + step * rate, 1, 0, rate, 1};
    }
    const Real rate = -mapped(MapKind::exp, log_rate.value[i]);  // finite: 0 times infinity is NaN
    const Real size = exp_(step * rate);
    if (op.either_sign) return {2 * size - 1, 1, 0, rate, 2 * size};
    if (!complex) return {size, 1, 0, rate, size};
    const Real turn = step * angle.value[i];
    return {size, cos_(turn), sin_(turn), rate, size};
  }
  /// The row of steps of token t.
  CT_HD int step_row(int t) const { return op.steady() ? 0 : t; }
  CT_HD Real step_of(int t, int row) const { return gated ? Real(1) : step_size.row(step_row(t))[row]; }
  CT_HD Real imag(const Real* S, int i) const { return complex ? S[n + i] : Real(0); }
  /// The number that a query's number multiplies.
  CT_HD Real seen(const Real* S, int i) const {
    return complex ? 2 * (reads.value[i] * S[i] - reads_imag.value[i] * S[n + i]) : S[i];
  }

  CT_HD void each_part(auto&& f) const {
    f(Part<Real>{op.start, op.end, 0, n});
    if (complex) f(Part<Real>{op.start_imag, op.end_imag, n, n});
  }
  CT_HD void step(const auto& team, int t, const Real* S, Real* next) const {
    const Real *key = k.row(t), *value = v.row(t);
    team.each(n, [&](int i) {
      const Factor a = factor(t, i);
      const Real re = S[i], im = imag(S, i);
      next[i] = a.size * (a.cos * re - a.sin * im) + step_of(t, i / K) * value[i / K] * key[i % K];
      if (complex) next[n + i] = a.size * (a.sin * re + a.cos * im);
    });
  }
  CT_HD void read(const auto& team, const Real* S, int i) const {
    const Real* query = q.row(i);
    Real* o = op.o.value.at(at.r) + at.query(i) * V;
    team.rows(
        V, K, [&](int a, int j) { return seen(S, a * K + j) * query[j]; },
        [&](int a, Real sum) { o[a] = sum; });
  }
  CT_HD void read_back(const auto& team, int i, const Real* S, Real* G) const {
    if (!op.o.gradient.data) return;
    const Real *query = q.row(i), *d_o = op.o.gradient.at(at.r) + at.query(i) * V;
    team.each(n, [&](int e) {
      const Real d = d_o[e / K] * query[e % K];
      G[e] += complex ? 2 * reads.value[e] * d : d;
      if (complex) G[n + e] -= 2 * reads_imag.value[e] * d;
    });
    q.add_columns(team, i, V, [&](int j, int a) { return d_o[a] * seen(S, a * K + j); });
    reads.add(team, 0, [&](int e) { return 2 * d_o[e / K] * query[e % K] * S[e]; });
    reads_imag.add(team, 0, [&](int e) { return -2 * d_o[e / K] * query[e % K] * S[n + e]; });
  }
  CT_HD void step_back(const auto& team, int t, const Real* S, Real* G) const {
    const Real *key = k.row(t), *value = v.row(t);
    // Gradient of the logarithm of entry i's factor: of its size and of its angle.
    const auto of_size = [&](const Factor& a, int i) {
      const Real re = S[i], im = imag(S, i);
      return a.slope * (G[i] * (a.cos * re - a.sin * im) + imag(G, i) * (a.sin * re + a.cos * im));
    };
    const auto of_angle = [&](const Factor& a, int i) {
      const Real re = S[i], im = S[n + i];
      return a.size * (G[n + i] * (a.cos * re - a.sin * im) - G[i] * (a.sin * re + a.cos * im));
    };
    step_size.add_rows(team, step_row(t), K, [&](int row, int j) {
      const int i = row * K + j;
      const Factor a = factor(t, i);
      const Real written = G[i] * value[row] * key[j], faded = of_size(a, i) * a.rate;
      return written + faded + (complex ? of_angle(a, i) * angle.value[i] : Real(0));
    });
    const auto gate = [&](int i) { return of_size(factor(t, i), i); };
    of_rows.add_rows(team, t, K, [&](int row, int j) { return gate(row * K + j); });
    of_columns.add_columns(team, t, V, [&](int j, int row) { return gate(row * K + j); });
    log_rate.add(team, 0, [&](int i) {
      const Factor a = factor(t, i);
      return of_size(a, i) * a.rate * step_of(t, i / K);
    });
    angle.add(team, 0, [&](int i) { return of_angle(factor(t, i), i) * step_of(t, i / K); });
    if (v.gradient)
      team.rows(
          V, K, [&](int row, int j) { return G[row * K + j] * key[j]; },
          [&](int row, Real sum) { v.gradient[t * v.apart + row] += step_of(t, row) * sum; });
    k.add_columns(team, t, V, [&](int j, int row) {
      const int i = row * K + j;
      const Real faded = op.of_keys ? 2 * key[j] * S[i] : Real(0);
      return G[i] * (step_of(t, row) * (value[row] - faded));
    });
    team.each(n, [&](int i) {
      const Factor a = factor(t, i);
      const Real re = G[i], im = imag(G, i);
      G[i] = a.size * (a.cos * re + a.sin * im);
      if (complex) G[n + i] = a.size * (a.cos * im - a.sin * re);
    });
  }

  CT_HD void clear(const auto& team) const {
    q.clear(team), k.clear(team), v.clear(team), step_size.clear(team), log_rate.clear(team);
    of_rows.clear(team), of_columns.clear(team), angle.clear(team), reads.clear(team), reads_imag.clear(team);
  }
};

}  // namespace crosstalk::law

CROSSTALK_LAW(DiagonalRead, law::Diagonal)

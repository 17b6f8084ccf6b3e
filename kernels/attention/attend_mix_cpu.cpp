// Attention that reads values at once, row after row.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/attention/attend_mix.h"
#include "kernels/attention/score_kernel.h"
#include "kernels/base/head_rows.h"
#include "kernels/base/parallel.h"

namespace crosstalk {
namespace {

/// One sequence and head.
template <class Real>
struct Sequence {
  const AttendMix<Real>& op;
  int r, b, h, T, Q, K, V;
  HeadField<Real> x, k, v, g;
  HeadRows<Real> o, d_o;
  Real scale, slope;

  Sequence(const AttendMix<Real>& op_, int r_, int b_, int h_)
      : op(op_),
        r(r_),
        b(b_),
        h(h_),
        T(op.T()),
        Q(op.Q()),
        K(op.K()),
        V(op.V()),
        x(op.x, r, b, h, Q, op.H(), K),
        k(op.k, r, b, h, T, op.H(), K),
        v(op.v, r, b, h, T, op.H(), V),
        g(op.log_decay, r, b, h, T, op.H(), 1),
        o(op.o.value, r, b, h, Q, op.H(), V),
        d_o(op.o.gradient, r, b, h, Q, op.H(), V),
        scale(static_cast<Real>(op.scale)),
        slope(op.slope ? op.slope.value.at(r)[h] : Real(0)) {}
  std::int64_t row(int i) const { return (static_cast<std::int64_t>(b) * op.H() + h) * Q + i; }
  /// e_ij of the tokens seen, into e[j].
  void exponents(int i, SeenTokens seen, Real* e) const {
    Real decay = 0;
    for (int j = seen.own; j >= seen.first; --j) {
      if (j < seen.last)
        e[j] = scale * dot(x.value(i), k.value(j), K) + decay - slope * static_cast<Real>(seen.own - j);
      if (g) decay += *g.value(j);
    }
  }
};

}  // namespace

template <class Real>
void forward_cpu(const Exec& exec, const AttendMix<Real>& op) {
  const int H = op.H(), Q = op.Q();
  parallel_items(exec, op.k.value.R, static_cast<std::int64_t>(op.B()) * H, [&](int r, std::int64_t bh) {
    const Sequence<Real> s(op, r, static_cast<int>(bh) / H, static_cast<int>(bh) % H);
    const Real beside = static_cast<Real>(op.beside(r, s.h));
    std::vector<Real> e(static_cast<std::size_t>(s.T));
    for (int i = 0; i < Q; ++i) {
      const SeenTokens seen = seen_tokens(op, r, s.b, i);
      s.exponents(i, seen, e.data());
      Real largest = beside;
      for (int j = seen.first; j < seen.last; ++j)
        largest = std::max(largest, e[static_cast<std::size_t>(j)]);
      if (!op.normalised || !std::isfinite(largest)) largest = 0;
      Real total = std::exp(beside - largest);
      Real* o = s.o(i);
      std::fill_n(o, s.V, Real(0));
      for (int j = seen.first; j < seen.last; ++j) {
        const Real weight = std::exp(e[static_cast<std::size_t>(j)] - largest);
        total += weight;
        axpy(weight, s.v.value(j), o, s.V);
      }
      const bool divided = op.normalised && total > 0;
      for (int c = 0; c < s.V && divided; ++c) o[c] /= total;
      if (op.row) op.row.value.at(r)[s.row(i)] = divided ? largest + std::log(total) : Real(0);
    }
  });
}

template <class Real>
void backward_cpu(const Exec& exec, const AttendMix<Real>& op) {
  const int B = op.B(), H = op.H(), Q = op.Q();
  parallel_items(exec, op.k.value.R, static_cast<std::int64_t>(B) * H, [&](int r, std::int64_t bh) {
    const Sequence<Real> s(op, r, static_cast<int>(bh) / H, static_cast<int>(bh) % H);
    for (const auto* f : {&s.x, &s.k, &s.v, &s.g}) f->clear();
    std::vector<Real> e(static_cast<std::size_t>(s.T)), d(static_cast<std::size_t>(s.T));
    for (int i = 0; i < Q; ++i) {
      const SeenTokens seen = seen_tokens(op, r, s.b, i);
      s.exponents(i, seen, e.data());
      const Real L = op.row.value.at(r)[s.row(i)];
      const Real D = op.normalised ? dot(s.d_o(i), s.o(i), s.V) : Real(0);
      Real distances = 0;
      for (int j = seen.first; j < seen.last; ++j) {
        const Real a = std::exp(e[static_cast<std::size_t>(j)] - L);
        const Real d_e = a * (dot(s.d_o(i), s.v.value(j), s.V) - D);
        d[static_cast<std::size_t>(j)] = d_e;
        distances += d_e * static_cast<Real>(seen.own - j);
        if (s.x.gradient) axpy(s.scale * d_e, s.k.value(j), s.x.gradient(i), s.K);
        if (s.k.gradient) axpy(s.scale * d_e, s.x.value(i), s.k.gradient(j), s.K);
        if (s.v.gradient) axpy(a, s.d_o(i), s.v.gradient(j), s.V);
      }
      Real total = 0;
      for (int j = seen.first; j < seen.own && s.g.gradient; ++j) {
        if (j < seen.last) total += d[static_cast<std::size_t>(j)];
        *s.g.gradient(j + 1) += total;
      }
      Real* kept = op.d_rows.value.at(r) + 2 * s.row(i);
      kept[0] = D, kept[1] = distances;
    }
  });
  if (!op.slope.wanted() && !op.sink.wanted()) return;
  parallel_items(exec, op.k.value.R, H, [&](int r, std::int64_t h) {
    Real distances = 0, sunk = 0;
    for (int bi = 0; bi < B * Q; ++bi) {
      const std::int64_t row = (bi / Q * H + h) * Q + bi % Q;
      const Real* kept = op.d_rows.value.at(r) + 2 * row;
      distances += kept[1];
      if (op.sink.wanted()) sunk += kept[0] * std::exp(op.sink.value.at(r)[h] - op.row.value.at(r)[row]);
    }
    if (op.slope.wanted()) put(op.slope.write, op.slope.gradient.at(r) + h, -distances);
    if (op.sink.wanted()) put(op.sink.write, op.sink.gradient.at(r) + h, -sunk);
  });
}

CROSSTALK_INSTANTIATE(cpu, AttendMix)

}  // namespace crosstalk

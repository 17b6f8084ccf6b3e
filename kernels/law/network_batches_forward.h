// NetworkBatches forward: the inner gradients of a mini-batch at the state before it, what its queries read, and the state behind it.
//   inner gradients   z1 = W1 x + b1, z = W2 gelu(z1) + b2, e2 = z - target (through LayerNorm where there is one), e1 = W2^T e2 gelu'(z1)
//   reader behind i   o = F_i W y + A_i P y - sum_{s <= i} C_is (x_s.y) e_s, in both layers
//   next state        W <- F_l W + A_l P - sum_s C_ls e_s x_s^T,  P <- M_l P - sum_s D_ls e_s x_s^T, l the last token
// Sun et al. 2024, arXiv 2407.04620 (dual form).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/law/network_batches.h"

namespace crosstalk::law {

// --- tokens

template <class Real>
CT_HD inline void NetworkBatches<Real>::load(const auto& team, int c) const {
  const int t = begin(c), tokens = count(c);
  team.each(rows * K, [&](int i) {
    const int s = i / K;
    first.x[i] = s < tokens ? net.k.row(t + s)[i % K] : Real(0);
    if (i % K > 0) return;
    const bool inside = s < tokens;  // beyond: nothing changes
    sizes[s] = inside ? net.step_size.row(t + s)[0] : Real(0);
    speeds[s] = inside ? net.momentum.number(t + s, 0) : Real(1);
    keeps[s] = inside ? 1 - net.forget.number(t + s, 0) : Real(1);
  });
  team.each(rows + 1, [&](int s) {
    Real a = s < rows ? Real(0) : Real(1), b = 0, m = a;  // F, A, M; C: b, D: m
    for (int i = 0; i < rows; ++i) {
      if (s < rows) {
        m = i == s ? sizes[i] : speeds[i] * m;
        b = keeps[i] * b + m;
        C[i * rows + s] = b;
        if (moves) D[i * rows + s] = m;
      } else {
        a *= keeps[i], m *= speeds[i], b = keeps[i] * b + m;
        F[i] = a, A[i] = moves ? b : Real(0), Mo[i] = m;
      }
    }
  });
}

template <class Real>
CT_HD inline void NetworkBatches<Real>::normalise(const auto& team, Real* x, Real* of) const {
  team.rows(
      rows, V, [&](int i, int a) { return x[i * V + a]; }, [&](int i, Real sum) { some[i] = sum / V; });
  team.rows(
      rows, V, [&](int i, int a) { return (x[i * V + a] - some[i]) * (x[i * V + a] - some[i]); },
      [&](int i, Real sum) { of[i] = 1 / sqrt_(sum / V + Net::kEps); });
  team.each(rows * V, [&](int i) { x[i] = (x[i] - some[i / V]) * of[i / V]; });
}

template <class Real>
CT_HD inline void NetworkBatches<Real>::through_norm(const auto& team, const Real* normal, const Real* of,
                                                     Real* y) const {
  team.rows(
      rows, V, [&](int i, int a) { return y[i * V + a]; }, [&](int i, Real sum) { more[i] = sum / V; });
  team.rows(
      rows, V, [&](int i, int a) { return y[i * V + a] * normal[i * V + a]; },
      [&](int i, Real sum) { others[i] = sum / V; });
  team.each(rows * V, [&](int i) { y[i] = of[i / V] * (y[i] - more[i / V] - normal[i] * others[i / V]); });
}

template <class Real>
CT_HD inline void NetworkBatches<Real>::inner(const auto& team, int c, const Real* theta) const {
  const int t = begin(c), tokens = count(c);
  const auto target = [&](int i) { return i / V < tokens ? net.target(t + i / V, i % V) : Real(0); };
  times(team, first, first.x, theta, z1);
  team.each(rows * M, [&](int i) { second.x[i] = Gelu<Real>(z1[i]).value; });
  times(team, second, second.x, theta, z);
  Real* e = second.e;
  if (layer) {
    normalise(team, z, scale);
    team.each(rows * V, [&](int i) {
      error[i] = z[i] * net.gain.value[i % V] + net.bias.value[i % V] - target(i);
      e[i] = error[i] * net.gain.value[i % V];
    });
    through_norm(team, z, scale, e);
  } else {
    team.each(rows * V, [&](int i) { e[i] = z[i] - target(i); });
  }
  times_back(team, second, e, theta, d2);
  team.each(rows * M, [&](int i) { first.e[i] = d2[i] * Gelu<Real>(z1[i]).slope; });
}

template <class Real>
CT_HD inline void NetworkBatches<Real>::update(const auto& team, int c, const Real* S, Real* to) const {
  const int i = last(c);
  const Real f = F[i], a = A[i], m = Mo[i];
  each_layer([&](const Layer& of) {
    grow(team, of, true, C + i * rows, of.x, of.e, {to, -1, S, f, moves ? S + n : nullptr, a});
  });
  if (moves)
    each_layer([&](const Layer& of) {
      grow(team, of, true, D + i * rows, of.x, of.e, {to + n, -1, S + n, m});
    });
}

// --- readers

template <class Real>
CT_HD inline int NetworkBatches<Real>::gather(const auto& team, int c, int from) const {
  team.each(1, [&](int) {
    int found = 0, i = from;
    const int low = c < 0 ? 0 : begin(c) + 1, high = c < 0 ? 0 : begin(c) + count(c);
    if (!op.position && i < low - 1) i = low - 1;
    for (; i < op.Q() && found < rows; ++i) {
      const int seen = net.at.seen_by(i);
      if (!op.position && seen > high) break;
      if (seen < low || seen > high) continue;
      index[found] = static_cast<Real>(i), place[found++] = static_cast<Real>(c < 0 ? -1 : seen - low);
    }
    some[0] = found > 0 ? static_cast<Real>(i) : Real(-1);
    for (; found < rows; ++found) index[found] = place[found] = -1;
  });
  const int next = static_cast<int>(some[0]);
  team.each(rows * rows, [&](int i) {
    const int p = static_cast<int>(place[i / rows]);
    read_C[i] = p < 0 ? Real(0) : C[p * rows + i % rows];
    if (i % rows > 0) return;
    read_F[i / rows] = p >= 0 ? F[p] : index[i / rows] < 0 ? Real(0) : Real(1);
    read_A[i / rows] = p < 0 ? Real(0) : A[p];
  });
  team.each(rows * K, [&](int i) {
    const int query = static_cast<int>(index[i / K]);
    first.y[i] = query < 0 ? Real(0) : net.q.row(query)[i % K];
  });
  return next;
}

template <class Real>
CT_HD inline void NetworkBatches<Real>::read_layer(const auto& team, const Layer& of, const Real* S,
                                                   Real* to) const {
  const Real one = of.b < 0 ? Real(0) : Real(1);
  team.product(false, rows, rows, of.in, of.y, of.x, of.g);
  team.each(rows * rows, [&](int i) {
    of.g[i] += one;
    of.h[i] = read_C[i] * of.g[i];
  });
  times(team, of, of.y, S, of.u);
  if (moves) times(team, of, of.y, S + n, of.p);
  read_sum(team, of, to);
}

template <class Real>
CT_HD inline void NetworkBatches<Real>::read_sum(const auto& team, const Layer& of, Real* to) const {
  team.product(true, rows, of.out, rows, of.h, of.e, to);
  team.each(rows * of.out, [&](int i) {
    const int r = i / of.out;
    to[i] = read_F[r] * of.u[i] + (moves ? read_A[r] * of.p[i] : Real(0)) - to[i];
  });
}

template <class Real>
CT_HD inline void NetworkBatches<Real>::read(const auto& team, const Real* S) const {
  for (const Layer* of : {&first, &second}) {
    read_layer(team, *of, S, of == &first ? second.y : zq);
    if (of == &first) team.each(rows * M, [&](int i) { second.y[i] = Gelu<Real>(second.y[i]).value; });
  }
  if (layer) normalise(team, zq, read_scale);
}

template <class Real>
CT_HD inline void NetworkBatches<Real>::write(const auto& team) const {
  team.each(rows * V, [&](int i) {
    const int query = static_cast<int>(index[i / V]), a = i % V;
    if (query < 0) return;
    op.o.value.at(net.at.r)[net.at.query(query) * V + a] =
        net.own(net.q.row(query), a) + (layer ? zq[i] * net.gain.value[a] + net.bias.value[a] : zq[i]);
  });
}

template <class Real>
CT_HD inline void NetworkBatches<Real>::each_gathered(const auto& team, int c, auto&& f) const {
  if (c < 0 && !op.position) return;
  for (int from = 0; (from = gather(team, c, from)) >= 0;) {
    f();
    if (!op.position) return;
  }
}

// --- a whole sequence

template <class Real>
CT_HD inline void NetworkBatches<Real>::each_of_part(const auto& team, int i, auto&& f) const {
  const int offset = net.offset(i), columns = i % network_parts == network_w2 ? M : 1;
  team.each(op.part_size(i),
            [&](int at) { f(columns > 1 ? offset + at % columns * V + at / columns : offset + at, at); });
}

template <class Real>
CT_HD inline void NetworkBatches<Real>::start(const auto& team, Real* S) const {
  for (int i = 0; i < net.parts(); ++i) {
    const Rows<Real> from = net.part(i);
    each_of_part(team, i, [&](int to, int at) { S[to] = from ? from.value[at] : Real(0); });
  }
}

template <class Real>
CT_HD inline void NetworkBatches<Real>::forward(const auto& team) const {
  Real* S = work;
  start(team, S);
  for (int c = 0; c < batches; ++c) {
    const int length = segment_length(batches);
    if (states && c % length == 0) team.copy(S, states + c / length * size, size);
    load(team, c);
    inner(team, c, S);
    for (int at = c == 0 ? -1 : c; at <= c; ++at)
      each_gathered(team, at, [&] { read(team, S), write(team); });
    update(team, c, S, S);
  }
  for (int i = 0; i < net.parts(); ++i) {
    const Out<Real>& end = op.end[i];
    if (!end || !end.value.data) continue;
    Real* to = end.value.at(net.at.r) + static_cast<std::int64_t>(net.item) * op.part_size(i);
    each_of_part(team, i, [&](int from, int at) { to[at] = S[from]; });
  }
}

}  // namespace crosstalk::law

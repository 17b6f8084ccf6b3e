// NetworkRead as a law of law_walk.h: the state is theta, then P, then theta of the mini-batch's start.
//
//   g' of gelu by tanh: u = c (x + a x^3), t = tanh u
//     g   = x (1 + t) / 2
//     g'  = (1 + t) / 2 + x (1 - t^2) u' / 2
//     g'' = (1 - t^2) (u' + x (u'' - 2 t u'^2) / 2)
//
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/law/network_read.h"

namespace crosstalk::law {

/// gelu by tanh with its first and second derivative.
template <class Real>
struct Gelu {
  Real value, slope, bend;
  CT_HD explicit Gelu(Real x) {
    const Real c = Real(0.79788456080286535588), a = Real(0.044715);
    const Real t = tanh_(c * (x + a * x * x * x)), open = 1 - t * t;
    const Real u1 = c * (1 + 3 * a * x * x), u2 = 6 * c * a * x;
    value = x * (1 + t) / 2;
    slope = (1 + t) / 2 + x * open * u1 / 2;
    bend = open * (u1 + x * (u2 - 2 * t * u1 * u1) / 2);
  }
};

template <class Real>
struct Network {
  static constexpr Real kEps = Real(1e-6);  ///< of LayerNorm (Sun et al. 2024's code)

  const NetworkRead<Real>& op;
  int item, K, V, M, X, n;  ///< n: numbers of theta
  int b1, w2, b2;           ///< where these parts lie
  bool biases, layer, moves;
  Place<Real> at;
  Rows<Real> q, k, v, step_size, momentum, forget, gain, bias;
  Real* cotangent;                                                ///< of the inner gradient, like theta
  Real *z1, *x2, *d2, *e1, *d_e1, *d_d2, *d_z1, *d_x2;            ///< hidden units
  Real *z, *normal, *e, *error, *d_e, *d_z, *d_normal, *d_error;  ///< outputs

  CT_HD Network(const NetworkRead<Real>& op_, int r, int item_)
      : op(op_),
        item(item_),
        K(op.K()),
        V(op.V()),
        M(op.hidden),
        X(op.X()),
        n(op.part_offset(network_parts)),
        b1(op.part_offset(network_b1)),
        w2(op.part_offset(network_w2)),
        b2(op.part_offset(network_b2)),
        biases(op.biases),
        layer(static_cast<bool>(op.gain)),
        moves(static_cast<bool>(op.momentum)),
        at(op, r, item, op.size()),
        q(op.q, r, at.b, at.h, at.Q, at.H, K),
        k(op.k, r, at.b, at.h, at.T, at.H, K),
        v(op.v, r, at.b, at.h, at.T, at.H, V),
        step_size(op.step, r, at.b, at.h, at.T, at.H, 1),
        momentum(op.momentum, r, at.b, at.h, at.T, at.H, 1),
        forget(op.forget, r, at.b, at.h, at.T, at.H, 1),
        gain(op.gain, r, at.b, at.h, 1, at.H, V),
        bias(op.bias, r, at.b, at.h, 1, at.H, V),
        cotangent(at.scratch()) {
    Real* next = cotangent + n;
    Real** hidden[] = {&z1, &x2, &d2, &e1, &d_e1, &d_d2, &d_z1, &d_x2};
    for (Real** x : hidden) *x = next, next += M;
    Real** outputs[] = {&z, &normal, &e, &error, &d_e, &d_z, &d_normal, &d_error};
    for (Real** x : outputs) *x = next, next += V;
  }

  CT_HD Rows<Real> part(int i) const {
    return {op.start[i], at.r, at.b, at.h, 1, at.H, static_cast<int>(op.part_size(i))};
  }
  CT_HD int parts() const { return moves ? 2 * network_parts : static_cast<int>(network_parts); }
  /// Place of part i in a state.
  CT_HD int offset(int i) const { return i / network_parts * n + op.part_offset(i % network_parts); }
  CT_HD bool batches() const { return op.mini_batch > 1; }
  CT_HD bool begins(int t) const { return t % op.mini_batch == 0; }
  CT_HD int kept() const { return (moves ? 2 : 1) * n; }  ///< where theta of the mini-batch's start lies
  /// theta at which token t's gradient is taken.
  CT_HD const Real* base(const Real* S, int t) const { return batches() && !begins(t) ? S + kept() : S; }
  CT_HD Real own(const Real* x, int a) const { return op.residual && a < K ? x[a] : Real(0); }

  CT_HD void each_part(auto&& f) const {
    for (int i = 0; i < parts(); ++i)
      f(Part<Real>{op.start[i], op.end[i], offset(i), static_cast<int>(op.part_size(i))});
  }
  CT_HD void begin(const auto& team, Real* S) const {
    if (batches()) team.each(n, [&](int i) { S[kept() + i] = 0; });
  }
  CT_HD void begin_gradient(const auto& team, Real* G) const { begin(team, G); }

  /// The last layer's inputs: hidden units, or x.
  CT_HD const Real* inputs(const Real* x) const { return M > 0 ? x2 : x; }
  /// z(x), and hidden units on the way.
  CT_HD void forward(const auto& team, const Real* theta, const Real* x) const {
    if (M > 0)
      team.rows(
          M, K, [&](int i, int j) { return theta[i * K + j] * x[j]; },
          [&](int i, Real sum) {
            z1[i] = biases ? sum + theta[b1 + i] : sum;
            x2[i] = Gelu<Real>(z1[i]).value;
          });
    const Real* in = inputs(x);
    team.rows(
        V, X, [&](int a, int j) { return theta[w2 + a * X + j] * in[j]; },
        [&](int a, Real sum) { z[a] = biases ? sum + theta[b2 + a] : sum; });
  }
  /// normal = (z - mean) / sqrt(var + eps); returns what it was multiplied by.
  CT_HD Real normalise(const auto& team) const {
    const Real mean = team.sum(V, [&](int a) { return z[a]; }) / V;
    const Real variance = team.sum(V, [&](int a) { return (z[a] - mean) * (z[a] - mean); }) / V;
    const Real scale = 1 / sqrt_(variance + kEps);
    team.each(V, [&](int a) { normal[a] = (z[a] - mean) * scale; });
    return scale;
  }
  /// y -> scale (y - mean y - normal mean(y normal)), the derivative of LayerNorm; returns mean(y normal).
  CT_HD Real through_norm(const auto& team, Real scale, const Real* y, Real* to) const {
    const Real mean = team.sum(V, [&](int a) { return y[a]; }) / V;
    const Real along = team.sum(V, [&](int a) { return y[a] * normal[a]; }) / V;
    team.each(V, [&](int a) { to[a] = scale * (y[a] - mean - normal[a] * along); });
    return along;
  }
  CT_HD Real target(int t, int a) const { return v.row(t)[a] - own(k.row(t), a); }

  /// The gradient of token t's loss at theta: e of z, and e1 of the hidden units before gelu. Returns what
  /// LayerNorm multiplied by.
  CT_HD Real inner(const auto& team, int t, const Real* theta) const {
    forward(team, theta, k.row(t));
    Real scale = 1;
    if (layer) {
      scale = normalise(team);
      team.each(V, [&](int a) {
        error[a] = normal[a] * gain.value[a] + bias.value[a] - target(t, a);
        d_e[a] = error[a] * gain.value[a];
      });
      through_norm(team, scale, d_e, e);
    } else {
      team.each(V, [&](int a) { e[a] = z[a] - target(t, a); });
    }
    if (M > 0)
      team.columns(
          M, V, [&](int i, int a) { return theta[w2 + a * X + i] * e[a]; },
          [&](int i, Real sum) {
            d2[i] = sum;
            e1[i] = sum * Gelu<Real>(z1[i]).slope;
          });
    return scale;
  }
  /// Number i of that gradient.
  CT_HD Real gradient(int t, int i) const {
    if (i < b1) return e1[i / K] * k.row(t)[i % K];
    if (i < w2) return e1[i - b1];
    if (i < b2) return e[(i - w2) / X] * inputs(k.row(t))[(i - w2) % X];
    return e[i - b2];
  }

  CT_HD void step(const auto& team, int t, const Real* S, Real* next) const {
    inner(team, t, base(S, t));
    const Real size = step_size.row(t)[0], keeps = 1 - forget.number(t, 0), speed = momentum.number(t, 0);
    team.each(n, [&](int i) {
      const Real theta = S[i], P = (moves ? speed * S[n + i] : Real(0)) - size * gradient(t, i);
      if (batches()) next[kept() + i] = begins(t) ? theta : S[kept() + i];
      if (moves) next[n + i] = P;
      next[i] = keeps * theta + P;
    });
  }
  CT_HD void read(const auto& team, const Real* S, int i) const {
    const Real* x = q.row(i);
    Real* o = op.o.value.at(at.r) + at.query(i) * V;
    forward(team, S, x);
    if (layer) normalise(team);
    team.each(V,
              [&](int a) { o[a] = own(x, a) + (layer ? normal[a] * gain.value[a] + bias.value[a] : z[a]); });
  }

  /// d_z [V] goes to theta's gradient D and, through the network at theta, to x's. d_x2 holds what the hidden
  /// units got before, and d_z1 what they got before gelu.
  CT_HD void through_network(const auto& team, const Real* theta, const Real* x, Real* D,
                             const Rows<Real>& of_x, int row) const {
    const Real* in = inputs(x);
    team.each(V * X, [&](int i) { D[w2 + i] += d_z[i / X] * in[i % X]; });
    if (biases) team.each(V, [&](int a) { D[b2 + a] += d_z[a]; });
    if (M == 0)
      return of_x.add_columns(team, row, V, [&](int j, int a) { return theta[w2 + a * X + j] * d_z[a]; });
    team.columns(
        M, V, [&](int i, int a) { return theta[w2 + a * X + i] * d_z[a]; },
        [&](int i, Real sum) { d_z1[i] += (d_x2[i] + sum) * Gelu<Real>(z1[i]).slope; });
    team.each(M * K, [&](int i) { D[i] += d_z1[i / K] * x[i % K]; });
    if (biases) team.each(M, [&](int i) { D[b1 + i] += d_z1[i]; });
    of_x.add_columns(team, row, M, [&](int j, int i) { return theta[i * K + j] * d_z1[i]; });
  }

  CT_HD void read_back(const auto& team, int i, const Real* S, Real* G) const {
    if (!op.o.gradient.data) return;
    const Real *x = q.row(i), *d_o = op.o.gradient.at(at.r) + at.query(i) * V;
    forward(team, S, x);
    if (layer) {
      const Real scale = normalise(team);
      gain.add(team, 0, [&](int a) { return d_o[a] * normal[a]; });
      bias.add(team, 0, [&](int a) { return d_o[a]; });
      team.each(V, [&](int a) { d_e[a] = d_o[a] * gain.value[a]; });
      through_norm(team, scale, d_e, d_z);
    } else {
      copy(team, d_o, d_z, V);
    }
    team.each(M, [&](int m) { d_x2[m] = d_z1[m] = 0; });
    through_network(team, S, x, G, q, i);
    if (op.residual) q.add(team, i, [&](int j) { return j < V ? d_o[j] : Real(0); });
  }

  /// From d_e, the cotangent of e, to d_z and d_error, that of f(k) - v: the derivative of inner()'s last
  /// layer.
  CT_HD void through_error(const auto& team, Real scale) const {
    if (!layer) {
      team.each(V, [&](int a) { d_z[a] = d_error[a] = d_e[a]; });
      return;
    }
    // e = scale (y - mean y - normal along), y = error * gain, along = mean(y normal)
    const auto y = [&](int a) { return error[a] * gain.value[a]; };
    const Real mean_y = team.sum(V, [&](int a) { return y(a); }) / V;
    const Real along = team.sum(V, [&](int a) { return y(a) * normal[a]; }) / V;
    const Real mean_d = team.sum(V, [&](int a) { return d_e[a]; }) / V * scale;
    const Real d_along = -team.sum(V, [&](int a) { return d_e[a] * normal[a]; }) * scale;
    Real d_scale = team.sum(V, [&](int a) { return d_e[a] * (y(a) - mean_y - normal[a] * along); });
    team.each(V, [&](int a) {
      const Real d_y = scale * d_e[a] - mean_d + d_along * normal[a] / V;
      d_error[a] = d_y * gain.value[a];
      d_normal[a] = d_error[a] * gain.value[a] - scale * d_e[a] * along + d_along * y(a) / V;
      d_z[a] = d_y;  // for the gain
    });
    gain.add(team, 0, [&](int a) { return d_z[a] * error[a] + d_error[a] * normal[a]; });
    bias.add(team, 0, [&](int a) { return d_error[a]; });
    // normal = (z - mean) scale, scale = (var + eps)^{-1/2}
    d_scale += team.sum(V, [&](int a) { return d_normal[a] * normal[a]; }) / scale;
    team.each(V, [&](int a) { d_z[a] = d_normal[a] * scale - d_scale * scale * scale * normal[a] / V; });
    const Real mean = team.sum(V, [&](int a) { return d_z[a]; }) / V;
    team.each(V, [&](int a) { d_z[a] -= mean; });
  }

  CT_HD void step_back(const auto& team, int t, const Real* S, Real* G) const {
    const Real *theta = base(S, t), *x = k.row(t);
    const Real scale = inner(team, t, theta);
    const Real size = step_size.row(t)[0], keeps = 1 - forget.number(t, 0), speed = momentum.number(t, 0);
    const auto d_P = [&](int i) { return moves ? G[i] + G[n + i] : G[i]; };
    step_size.add_sum(
        team, t, n, [&](int i) { return d_P(i) * gradient(t, i); }, -1);
    forget.add_sum(
        team, t, n, [&](int i) { return S[i] * G[i]; }, -1);
    momentum.add_sum(team, t, n, [&](int i) { return S[n + i] * d_P(i); });
    Real* kept_G = G + kept();
    team.each(n, [&](int i) {
      const Real d = d_P(i);
      cotangent[i] = -size * d;
      if (moves) G[n + i] = speed * d;
      G[i] *= keeps;
      if (batches() && begins(t)) G[i] += kept_G[i], kept_G[i] = 0;
    });
    Real* D = batches() && !begins(t) ? kept_G : G;

    // The inner gradient is e1 x^T, e1, e in^T, e: its cotangent C goes to these factors.
    const Real *C = cotangent, *in = inputs(x);
    if (M > 0) {
      team.rows(
          M, K, [&](int i, int j) { return C[i * K + j] * x[j]; },
          [&](int i, Real sum) {
            d_e1[i] = biases ? sum + C[b1 + i] : sum;
            const Gelu<Real> g(z1[i]);
            d_d2[i] = d_e1[i] * g.slope;
            d_z1[i] = d_e1[i] * d2[i] * g.bend;
          });
      k.add_columns(team, t, M, [&](int j, int i) { return C[i * K + j] * e1[i]; });
      team.each(V * X, [&](int i) { D[w2 + i] += e[i / X] * d_d2[i % X]; });  // d2 = W2^T e
      team.columns(
          M, V, [&](int i, int a) { return C[w2 + a * X + i] * e[a]; },
          [&](int i, Real sum) { d_x2[i] = sum; });
    } else {
      k.add_columns(team, t, V, [&](int j, int a) { return C[w2 + a * X + j] * e[a]; });
    }
    team.rows(
        V, X,
        [&](int a, int j) {
          const Real through = M > 0 ? theta[w2 + a * X + j] * d_d2[j] : Real(0);
          return C[w2 + a * X + j] * in[j] + through;
        },
        [&](int a, Real sum) { d_e[a] = biases ? sum + C[b2 + a] : sum; });
    through_error(team, scale);
    through_network(team, theta, x, D, k, t);
    v.add(team, t, [&](int a) { return -d_error[a]; });
    if (op.residual) k.add(team, t, [&](int j) { return j < V ? d_error[j] : Real(0); });
  }

  CT_HD void clear(const auto& team) const {
    q.clear(team), k.clear(team), v.clear(team), step_size.clear(team), momentum.clear(team);
    forget.clear(team), gain.clear(team), bias.clear(team);
    for (int i = 0; i < parts(); ++i) part(i).clear(team);
  }
};

}  // namespace crosstalk::law

CROSSTALK_LAW(NetworkRead, law::Network)

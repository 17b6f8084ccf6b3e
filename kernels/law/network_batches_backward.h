// NetworkBatches backward: mini-batches from the last to the first take back the update, the reads and the inner gradients.
//   update   dC_ls = -e_s.(G x_s), de_s = -C_ls G x_s, dx_s = -C_ls G^T e_s, G <- F_l G; likewise D, A and M of P
//   reader   with d the gradient of o: dC_is -= (d.e_s) (x_s.y), de_s -= C_is (x_s.y) d, dx_s -= C_is (d.e_s) y,
//            dy = F_i W^T d + A_i P^T d - sum_s C_is (d.e_s) x_s, G += F_i d y^T
//   inner    the gradient of a gradient, with gelu'' (network_read_law.h)
// The read of Sun et al. 2024, arXiv 2407.04620 (dual form), differentiated.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/law/network_batches.h"

namespace crosstalk::law {

template <class Real>
CT_HD inline void NetworkBatches<Real>::read_layer_back(const auto& team, const Layer& of, const Real* S,
                                                        Real* G) const {
  const int out = of.out;
  team.dots(rows, out, of.d_out, of.u, some);
  if (moves) team.dots(rows, out, of.d_out, of.p, more);
  team.each(rows, [&](int i) {
    for (int r = 0; r < rows; ++r)
      if (static_cast<int>(place[r]) == i) d_F[i] += some[r], d_A[i] += moves ? more[r] : Real(0);
  });
  team.outer(rows, rows, out, nullptr, of.h, of.d_out, {of.d_e, -1, of.d_e});
  // h becomes the gradient of x.y, g what C gets.
  team.product(false, rows, rows, out, of.d_out, of.e, of.h);
  team.each(rows * rows, [&](int i) {
    of.g[i] *= of.h[i];
    of.h[i] *= -read_C[i];
  });
  team.each(rows * rows, [&](int i) {
    for (int r = 0; r < rows; ++r)
      if (static_cast<int>(place[r]) == i / rows) d_C[i] -= of.g[r * rows + i % rows];
  });
  team.outer(rows, rows, of.in, nullptr, of.h, of.y, {of.d_x, 1, of.d_x});
  team.each(rows * out, [&](int i) {
    of.u[i] = read_F[i / out] * of.d_out[i];
    if (moves) of.p[i] = read_A[i / out] * of.d_out[i];
  });
  team.product(true, rows, of.in, rows, of.h, of.x, of.d_y);
  times_back(team, of, of.u, S, of.d_y, true);
  if (moves) times_back(team, of, of.p, S + n, of.d_y, true);
  add_to(team, of, of.y, of.u, G);
  if (moves) add_to(team, of, of.y, of.p, G + n);
}

template <class Real>
CT_HD inline void NetworkBatches<Real>::read_back(const auto& team, const Real* S, Real* G) const {
  Real* d_z = second.d_out;
  const auto d_o = [&](int r, int a) {
    const int query = static_cast<int>(index[r]);
    return query < 0 ? Real(0) : op.o.gradient.at(net.at.r)[net.at.query(query) * V + a];
  };
  read(team, S);
  team.each(rows * V, [&](int i) { d_z[i] = d_o(i / V, i % V) * (layer ? net.gain.value[i % V] : Real(1)); });
  if (layer) {
    team.each(V, [&](int a) {
      for (int r = 0; r < rows; ++r) {
        if (net.gain.gradient) net.gain.gradient[a] += d_o(r, a) * zq[r * V + a];
        if (net.bias.gradient) net.bias.gradient[a] += d_o(r, a);
      }
    });
    through_norm(team, zq, read_scale, d_z);
  }
  for (const Layer* of : {&second, &first}) {
    if (of == &first) {
      read_sum(team, first, second.y);
      team.each(rows * M, [&](int i) { first.d_out[i] *= Gelu<Real>(second.y[i]).slope; });
    }
    read_layer_back(team, *of, S, G);
  }
  team.each(rows * K, [&](int i) {
    const int query = static_cast<int>(index[i / K]), j = i % K;
    if (query < 0 || !net.q.gradient) return;
    net.q.gradient[query * net.q.apart + j] +=
        first.d_y[i] +
        (op.residual && j < V ? op.o.gradient.at(net.at.r)[net.at.query(query) * V + j] : Real(0));
  });
}

template <class Real>
CT_HD inline void NetworkBatches<Real>::update_back(const auto& team, int c, const Real* S, Real* G) const {
  const int l = last(c);
  const Real *of_theta = C + l * rows, *of_P = moves ? D + l * rows : nullptr;
  team.each(rows, [&](int i) { d_F[i] = d_A[i] = d_Mo[i] = 0; });
  team.each(rows * rows, [&](int i) {
    d_C[i] = 0;
    if (moves) d_D[i] = 0;
  });
  each_layer([&](const Layer& of) {
    const int out = of.out, in = of.in;
    times(team, of, of.x, G, of.u);
    if (moves) times(team, of, of.x, G + n, of.p);
    team.dots(rows, out, of.e, of.u, some);
    if (moves) team.dots(rows, out, of.e, of.p, more);
    team.each(rows, [&](int s) {
      d_C[l * rows + s] -= some[s];
      if (moves) d_D[l * rows + s] -= more[s];
    });
    team.each(rows * out, [&](int i) {
      of.d_e[i] = -of_theta[i / out] * of.u[i] - (moves ? of_P[i / out] * of.p[i] : Real(0));
    });
    times_back(team, of, of.e, G, of.d_x);
    if (moves) times_back(team, of, of.e, G + n, of.y);  // y is read later
    team.each(rows * in, [&](int i) {
      of.d_x[i] = -of_theta[i / in] * of.d_x[i] - (moves ? of_P[i / in] * of.y[i] : Real(0));
    });
  });
  if (!moves && !net.forget) return;  // G stays, and nobody asks for gradients of F
  // Four numbers at a time, as many loads on their way; n is a multiple of 4.
  const int part = n / 4;
  const Real f = F[l], a = A[l], m = Mo[l];
  Real by[3] = {};  // F, A, M
  team.add_up(part, by, [&](int i, Real(&totals)[3]) {
    Real g[4], p[4] = {}, theta[4], P[4] = {};
    for (int j = 0; j < 4; ++j) g[j] = G[j * part + i], theta[j] = S[j * part + i];
    for (int j = 0; moves && j < 4; ++j) p[j] = G[n + j * part + i], P[j] = S[n + j * part + i];
    for (int j = 0; j < 4; ++j) {
      totals[0] += g[j] * theta[j], totals[1] += g[j] * P[j], totals[2] += p[j] * P[j];
      G[j * part + i] = f * g[j];
      if (moves) G[n + j * part + i] = a * g[j] + m * p[j];
    }
  });
  team.each(1, [&](int) { d_F[l] = by[0], d_A[l] = by[1], d_Mo[l] = by[2]; });
}

template <class Real>
CT_HD inline void NetworkBatches<Real>::inner_back(const auto& team, int c, const Real* theta,
                                                   Real* G) const {
  Real *d_d2 = second.d_y, *d_z1 = first.u, *d_e = second.d_e, *d_z = second.d_out, *d_error = zq;
  team.each(rows * M, [&](int i) {
    const Gelu<Real> g(z1[i]);
    d_d2[i] = first.d_e[i] * g.slope, d_z1[i] = first.d_e[i] * d2[i] * g.bend;
  });
  // d2 = W2^T e: without a bias.
  times(team, second, d_d2, theta, d_e, false, true);
  add_to(team, second, d_d2, second.e, G, false);
  if (layer)
    through_error(team, d_e, d_z, d_error);
  else
    team.each(rows * V, [&](int i) { d_z[i] = d_error[i] = d_e[i]; });
  add_to(team, second, second.x, d_z, G);
  times_back(team, second, d_z, theta, second.d_x, true);
  team.each(rows * M, [&](int i) { d_z1[i] += second.d_x[i] * Gelu<Real>(z1[i]).slope; });
  add_to(team, first, first.x, d_z1, G);
  times_back(team, first, d_z1, theta, first.d_x, true);
  const int t = begin(c), tokens = count(c);
  team.each(tokens * K, [&](int i) {
    const int j = i % K;
    if (net.k.gradient)
      net.k.gradient[(t + i / K) * net.k.apart + j] +=
          first.d_x[i] + (op.residual && j < V ? d_error[i / K * V + j] : Real(0));
  });
  team.each(tokens * V, [&](int i) {
    if (net.v.gradient) net.v.gradient[(t + i / V) * net.v.apart + i % V] -= d_error[i];
  });
}

template <class Real>
CT_HD inline void NetworkBatches<Real>::through_error(const auto& team, const Real* d_e, Real* d_z,
                                                      Real* d_error) const {
  Real *mean_y = some, *along = more, *mean_d = others, *d_along = read_scale, *bend = read_F,
       *sum_z = read_A;
  const Real* gain = net.gain.value;
  const auto y = [&](int i) { return error[i] * gain[i % V]; };
  const auto sums = [&](auto&& term, auto&& put) {
    team.rows(
        rows, V, [&](int i, int a) { return term(i * V + a); }, put);
  };
  sums(y, [&](int i, Real sum) { mean_y[i] = sum / V; });
  sums([&](int i) { return y(i) * z[i]; }, [&](int i, Real sum) { along[i] = sum / V; });
  sums([&](int i) { return d_e[i]; }, [&](int i, Real sum) { mean_d[i] = sum / V * scale[i]; });
  sums([&](int i) { return d_e[i] * z[i]; }, [&](int i, Real sum) { d_along[i] = -sum * scale[i]; });
  sums([&](int i) { return d_e[i] * (y(i) - mean_y[i / V] - z[i] * along[i / V]); },
       [&](int i, Real sum) { bend[i] = sum; });
  team.each(rows * V, [&](int i) {
    const int r = i / V;
    d_z[i] = scale[r] * d_e[i] - mean_d[r] + d_along[r] * z[i] / V;  // of y
    d_error[i] = d_z[i] * gain[i % V];
  });
  team.each(V, [&](int a) {
    for (int i = a; i < rows * V; i += V) {
      if (net.gain.gradient) net.gain.gradient[a] += d_z[i] * error[i] + d_error[i] * z[i];
      if (net.bias.gradient) net.bias.gradient[a] += d_error[i];
    }
  });
  team.each(rows * V, [&](int i) {  // of normal
    const int r = i / V;
    d_z[i] = d_error[i] * gain[i % V] - scale[r] * d_e[i] * along[r] + d_along[r] * y(i) / V;
  });
  sums([&](int i) { return d_z[i] * z[i]; }, [&](int i, Real sum) { bend[i] += sum / scale[i]; });
  team.each(rows * V, [&](int i) {
    const int r = i / V;
    d_z[i] = d_z[i] * scale[r] - bend[r] * scale[r] * scale[r] * z[i] / V;
  });
  sums([&](int i) { return d_z[i]; }, [&](int i, Real sum) { sum_z[i] = sum / V; });
  team.each(rows * V, [&](int i) { d_z[i] -= sum_z[i / V]; });
}

template <class Real>
CT_HD inline void NetworkBatches<Real>::numbers_back(const auto& team, int c) const {
  const int t = begin(c), tokens = count(c);
  // h of the layers: what keep and momentum of row i get by column s.
  Real *of_keep = first.h, *of_speed = second.h, *by_state = first.g;
  team.each(rows + 1, [&](int s) {
    Real d_b = 0, d_m = 0, d_a = 0;
    for (int i = tokens - 1; i >= 0; --i) {
      Real keep_gets = 0, speed_gets = 0;
      if (s == rows) {  // F: a, A: b, M: m
        const Real f = i > 0 ? F[i - 1] : Real(1), a = i > 0 ? A[i - 1] : Real(0),
                   m = i > 0 ? Mo[i - 1] : Real(1);
        d_a += d_F[i], d_m += d_Mo[i];
        if (moves) d_b += d_A[i], d_m += d_b;
        keep_gets = d_a * f + d_b * a, speed_gets = d_m * m;
        d_a *= keeps[i], d_b *= keeps[i], d_m *= speeds[i];
      } else if (s <= i) {
        d_b += d_C[i * rows + s], d_m += (moves ? d_D[i * rows + s] : Real(0)) + d_b;
        if (s == i)
          by_state[s] = d_m;
        else
          keep_gets = d_b * C[(i - 1) * rows + s], speed_gets = moves ? d_m * D[(i - 1) * rows + s] : Real(0);
        d_b *= keeps[i], d_m *= speeds[i];
      }
      if (s < rows)
        of_keep[i * rows + s] = keep_gets, of_speed[i * rows + s] = speed_gets;
      else
        some[i] = keep_gets, more[i] = speed_gets;
    }
  });
  team.each(tokens, [&](int i) {
    Real keep = some[i], speed = more[i];
    for (int s = 0; s < rows; ++s) keep += of_keep[i * rows + s], speed += of_speed[i * rows + s];
    if (net.step_size.gradient) net.step_size.gradient[(t + i) * net.step_size.apart] += by_state[i];
    if (net.momentum.gradient) net.momentum.gradient[(t + i) * net.momentum.apart] += speed;
    if (net.forget.gradient) net.forget.gradient[(t + i) * net.forget.apart] -= keep;
  });
}

template <class Real>
CT_HD inline void NetworkBatches<Real>::backward(const auto& team) const {
  const int length = segment_length(batches);
  Real* G = work + (length + 1) * size;
  net.clear(team);
  for (int i = 0; i < net.parts(); ++i) {
    const Out<Real>& end = op.end[i];
    const Real* from = end && end.gradient.data
                           ? end.gradient.at(net.at.r) + static_cast<std::int64_t>(net.item) * op.part_size(i)
                           : nullptr;
    each_of_part(team, i, [&](int to, int at) { G[to] = from ? from[at] : Real(0); });
  }
  for (int segment = segments(batches) - 1; segment >= 0; --segment) {
    const int from = segment * length, steps = from + length < batches ? length : batches - from;
    team.copy(states + segment * size, work, size);
    for (int i = 0; i < 2 * steps - 1; ++i) {  // to the segment's last mini-batch, and back
      const bool ahead = i < steps - 1;
      const int within = ahead ? i : 2 * steps - 2 - i, c = from + within;
      Real* S = work + within * size;
      load(team, c);
      inner(team, c, S);
      if (ahead) {
        update(team, c, S, S + size);
        continue;
      }
      update_back(team, c, S, G);
      for (int at = c; op.o.gradient.data && at >= (c == 0 ? -1 : c); --at)
        each_gathered(team, at, [&] { read_back(team, S, G); });
      inner_back(team, c, S, G);
      numbers_back(team, c);
    }
  }
  for (int i = 0; i < net.parts(); ++i) {
    const Rows<Real> of = net.part(i);
    if (of.gradient) each_of_part(team, i, [&](int from, int at) { of.gradient[at] += G[from]; });
  }
}

}  // namespace crosstalk::law

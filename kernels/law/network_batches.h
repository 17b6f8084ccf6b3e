// NetworkRead with hidden units, a mini-batch of tokens at a time, whose gradients are all taken at the state before it: products of
// matrices instead of passes over the state, written once for the CPU (where it is tested) and for CUDA (fused/network_batches_form.cu).
//
// Inside a mini-batch the state is linear in that before it, W and P, and in the gradients g_s = e_s x_s^T of its tokens:
//   W_i = F_i W + A_i P - sum_{s <= i} C_is g_s      F_i = keep_i F_{i-1}, A_i = keep_i A_{i-1} + M_i, C_is = keep_i C_{i-1,s} + D_is
//   P_i = M_i P - sum_{s <= i} D_is g_s              M_i = momentum_i M_{i-1}, D_is = momentum_i D_{i-1,s}, C_ss = D_ss = step_s
// so that what a query y reads behind token i needs no state of its own:
//   W_i y = F_i W y + A_i P y - sum_s C_is (x_s.y) e_s                    (the dual form of Sun et al. 2024, arXiv 2407.04620)
// keep = 1 - forget. Rows beyond the last token have step 0 and weigh nothing. W2 is kept transposed, [M,V].
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/law/network_read_law.h"

namespace crosstalk::law {

constexpr int kMostBatch = 16;  ///< tokens of a mini-batch

/// A team of one with the products of a mini-batch: x [rows,D], y [rows,N].
struct AloneProducts : Alone {
  /// put(i, j, sum_d x[i,d] w[j,d]), w [N,D].
  template <class Real, class Put>
  void across(int rows, int N, int D, const Real* x, const Real* w, Put&& put) const {
    this->rows(
        rows * N, D, [&](int i, int d) { return x[i / N * D + d] * w[i % N * D + d]; },
        [&](int i, Real sum) { put(i / N, i % N, sum); });
  }
  /// put(i, j, sum_d x[i,d] w[d,j]), w [D,N].
  template <class Real, class Put>
  void down(int rows, int N, int D, const Real* x, const Real* w, Put&& put) const {
    this->rows(
        rows * N, D, [&](int i, int d) { return x[i / N * D + d] * w[d * N + i % N]; },
        [&](int i, Real sum) { put(i / N, i % N, sum); });
  }
  /// put(d, j, load(d, j), sum_i weight[i] x[i,d] y[i,j]); weight null: 1.
  template <class Real, class Load, class Put>
  void outer(int rows, int D, int N, const Real* weight, const Real* x, const Real* y, Load&& load,
             Put&& put) const {
    this->rows(
        D * N, rows,
        [&](int c, int i) { return (weight ? weight[i] : Real(1)) * x[i * D + c / N] * y[i * N + c % N]; },
        [&](int c, Real sum) { put(c / N, c % N, load(c / N, c % N), sum); });
  }
};

template <class Real>
struct NetworkBatches {
  using Net = Network<Real>;
  const NetworkRead<Real>& op;
  Net net;
  int K, V, M, n, rows, batches;  ///< rows: tokens of a mini-batch, up to a multiple of 4
  bool moves, layer;
  std::int64_t size;  ///< numbers of a state: theta, P
  Real *work, *states;

  /// A layer of the network on the tokens of a mini-batch and on its readers.
  struct Layer {
    int in = 0, out = 0, w = 0, b = -1;  ///< where weights and biases lie in theta; b < 0: none
    bool transposed = false;             ///< weights [in,out], else [out,in]
    Real *x = nullptr, *e = nullptr, *d_x = nullptr,
         *d_e = nullptr;                            ///< of tokens: inputs, inner gradients, cotangents
    Real *y = nullptr, *u = nullptr, *p = nullptr;  ///< of readers: inputs, W y and P y
    Real *d_out = nullptr, *d_y = nullptr;          ///< gradients of what they read, and of y
    Real *g = nullptr, *h = nullptr,
         *h_back = nullptr;  ///< [rows,rows] x.y; that times C, readers first and tokens first
  };
  Layer first, second;
  Real *target, *z1, *d2, *z, *zq,
      *error = nullptr;  ///< z, zq: normal behind LayerNorm, which alone has errors
  Real *F, *A, *Mo, *C, *D, *d_F, *d_A, *d_Mo, *d_C, *d_D;
  Real *read_F, *read_A, *read_C, *index, *place;   ///< of readers; index, place: whole numbers, -1 none
  Real *scale, *read_scale, *some, *more, *others;  ///< [rows]
  int used = 0;                                     ///< numbers of scratch()

  /// Numbers of a team's memory beside states.
  static CT_HD int scratch(const NetworkRead<Real>& op) {
    const int K = op.K(), V = op.V(), M = op.hidden, rows = rows_of(op), moves = op.momentum ? 1 : 0;
    return rows *
           (3 * (K + M) + (3 + moves) * (M + V) + K + 3 * M + 4 * V + (op.gain ? V : 0) + 11 * rows + 15);
  }
  static CT_HD int rows_of(const NetworkRead<Real>& op) { return (op.mini_batch + 3) / 4 * 4; }
  /// Numbers of a state, and of the work of a sequence and head without scratch().
  static CT_HD int numbers(const NetworkRead<Real>& op) {
    return (op.momentum ? 2 : 1) * op.part_offset(network_parts);
  }
  static CT_HD int batches_of(const NetworkRead<Real>& op) {
    return (op.T() + op.mini_batch - 1) / op.mini_batch;
  }
  static CT_HD std::int64_t work_of(const NetworkRead<Real>& op) {
    return static_cast<std::int64_t>(segment_length(batches_of(op)) + 2) * numbers(op);
  }

  CT_HD NetworkBatches(const NetworkRead<Real>& op_, Real* memory, int r = 0, int item = 0)
      : op(op_),
        net(op_, r, item),
        K(net.K),
        V(net.V),
        M(net.M),
        n(net.n),
        rows(rows_of(op_)),
        batches(batches_of(op_)),
        moves(net.moves),
        layer(net.layer),
        size(numbers(op_)),
        work(net.at.work),
        states(op_.states ? op_.states.value.at(r) + item * segments(batches) * size : nullptr) {
    const auto take = [&](int columns) { return used += rows * columns, memory + used - rows * columns; };
    first.in = K, first.out = second.in = M, second.out = V, second.w = net.w2, second.transposed = true;
    if (net.biases) first.b = net.b1, second.b = net.b2;
    for (Layer* one : {&first, &second}) {
      one->x = take(one->in), one->e = take(one->out), one->d_x = take(one->in), one->d_e = take(one->out);
      one->y = take(one->in), one->u = take(one->out), one->p = moves ? take(one->out) : nullptr;
      one->g = take(rows), one->h = take(rows), one->h_back = take(rows);
    }
    first.d_out = second.d_y = take(M), second.d_out = take(V), first.d_y = take(K);
    z1 = take(M), d2 = take(M), zq = take(V), target = take(V), z = take(V);
    if (layer) error = take(V);
    for (Real** x : {&C, &D, &d_C, &d_D, &read_C}) *x = take(rows);
    for (Real** x : {&F, &A, &Mo, &d_F, &d_A, &d_Mo, &read_F, &read_A, &index, &place, &scale, &read_scale,
                     &some, &more, &others})
      *x = take(1);
  }

  CT_HD int begin(int c) const { return c * op.mini_batch; }
  CT_HD int count(int c) const {
    return op.T() - begin(c) < op.mini_batch ? op.T() - begin(c) : op.mini_batch;
  }
  CT_HD int last(int c) const { return count(c) - 1; }

  // W x of a layer, with its bias where `biased`, and W^T x: put(row, number, sum).
  template <class Team, class Put>
  CT_HD void times(const Team& team, const Layer& of, const Real* x, const Real* theta, Put&& put,
                   bool biased = true) const {
    const Real* b = biased && of.b >= 0 ? theta + of.b : nullptr;
    const auto with_bias = [&](int i, int j, Real sum) { put(i, j, b ? sum + b[j] : sum); };
    if (of.transposed) {
      team.down(rows, of.out, of.in, x, theta + of.w, with_bias);
    } else {
      team.across(rows, of.out, of.in, x, theta + of.w, with_bias);
    }
  }
  template <class Team, class Put>
  CT_HD void times_back(const Team& team, const Layer& of, const Real* x, const Real* theta,
                        Put&& put) const {
    if (of.transposed) {
      team.across(rows, of.in, of.out, x, theta + of.w, put);
    } else {
      team.down(rows, of.in, of.out, x, theta + of.w, put);
    }
  }
  /// to = load(where) + sign sum weight x (in) y (out)^T of all rows, of weights and, `biased`, of biases.
  template <class Team, class Load>
  CT_HD void grow(const Team& team, const Layer& of, bool biased, Real sign, const Real* weight,
                  const Real* x, const Real* y, Real* to, Load&& load) const {
    const int columns = of.transposed ? of.out : of.in, w = of.w;
    const auto old = [&](int i, int j) { return load(w + i * columns + j); };
    const auto put_sum = [&](int i, int j, Real before, Real sum) {
      to[w + i * columns + j] = before + sign * sum;
    };
    if (of.transposed) {
      team.outer(rows, of.in, of.out, weight, x, y, old, put_sum);
    } else {
      team.outer(rows, of.out, of.in, weight, y, x, old, put_sum);
    }
    if (biased && of.b >= 0)
      team.each(of.out, [&](int j) {
        Real sum = 0;
        for (int i = 0; i < rows; ++i) sum += (weight ? weight[i] : Real(1)) * y[i * of.out + j];
        to[of.b + j] = load(of.b + j) + sign * sum;
      });
  }
  /// G += sum x y^T of all rows.
  template <class Team>
  CT_HD void add_to(const Team& team, const Layer& of, const Real* x, const Real* y, Real* G,
                    bool biased = true) const {
    grow(team, of, biased, Real(1), nullptr, x, y, G, [&](int at) { return G[at]; });
  }
  template <class F>
  CT_HD void each_layer(F&& f) const {
    f(first);
    f(second);
  }

  /// Tokens of mini-batch c, and what the state behind each of them is made of.
  template <class Team>
  CT_HD void load(const Team& team, int c) const {
    const int t = begin(c), tokens = count(c);
    team.each(rows * K, [&](int i) { first.x[i] = i / K < tokens ? net.k.row(t + i / K)[i % K] : Real(0); });
    team.each(rows * V, [&](int i) { target[i] = i / V < tokens ? net.target(t + i / V, i % V) : Real(0); });
    team.each(rows + 1, [&](int s) {
      Real a = s < rows ? Real(0) : Real(1), b = 0, m = a;  // F, A, M; C: b, D: m
      for (int i = 0; i < rows; ++i) {
        const bool inside = i < tokens;
        const Real keeps = inside ? 1 - net.forget.number(t + i, 0) : Real(1),
                   speed = inside ? net.momentum.number(t + i, 0) : Real(1);
        if (s < rows) {
          m = i == s ? (inside ? net.step_size.row(t + i)[0] : Real(0)) : speed * m;
          b = keeps * b + m;
          C[i * rows + s] = b, D[i * rows + s] = m;
        } else {
          a *= keeps, m *= speed, b = keeps * b + m;
          F[i] = a, A[i] = moves ? b : Real(0), Mo[i] = m;
        }
      }
    });
  }
  /// z -> (z - mean) / sqrt(var + eps), row by row; of: that factor.
  template <class Team>
  CT_HD void normalise(const Team& team, Real* x, Real* of) const {
    team.rows(
        rows, V, [&](int i, int a) { return x[i * V + a]; }, [&](int i, Real sum) { some[i] = sum / V; });
    team.rows(
        rows, V, [&](int i, int a) { return (x[i * V + a] - some[i]) * (x[i * V + a] - some[i]); },
        [&](int i, Real sum) { of[i] = 1 / sqrt_(sum / V + Net::kEps); });
    team.each(rows * V, [&](int i) { x[i] = (x[i] - some[i / V]) * of[i / V]; });
  }
  /// y -> scale (y - mean y - normal mean(y normal)), in place; more: mean y, others: mean(y normal).
  template <class Team>
  CT_HD void through_norm(const Team& team, const Real* normal, const Real* of, Real* y) const {
    team.rows(
        rows, V, [&](int i, int a) { return y[i * V + a]; }, [&](int i, Real sum) { more[i] = sum / V; });
    team.rows(
        rows, V, [&](int i, int a) { return y[i * V + a] * normal[i * V + a]; },
        [&](int i, Real sum) { others[i] = sum / V; });
    team.each(rows * V, [&](int i) { y[i] = of[i / V] * (y[i] - more[i / V] - normal[i] * others[i / V]); });
  }
  /// Inner gradients of all tokens, at theta.
  template <class Team>
  CT_HD void inner(const Team& team, const Real* theta) const {
    times(team, first, first.x, theta,
          [&](int i, int m, Real sum) { z1[i * M + m] = sum, second.x[i * M + m] = Gelu<Real>(sum).value; });
    times(team, second, second.x, theta, [&](int i, int a, Real sum) { z[i * V + a] = sum; });
    Real* e = second.e;
    if (layer) {
      normalise(team, z, scale);
      team.each(rows * V, [&](int i) {
        error[i] = z[i] * net.gain.value[i % V] + net.bias.value[i % V] - target[i];
        e[i] = error[i] * net.gain.value[i % V];
      });
      through_norm(team, z, scale, e);
    } else {
      team.each(rows * V, [&](int i) { e[i] = z[i] - target[i]; });
    }
    times_back(team, second, e, theta, [&](int i, int m, Real sum) {
      d2[i * M + m] = sum, first.e[i * M + m] = sum * Gelu<Real>(z1[i * M + m]).slope;
    });
  }
  /// The state behind mini-batch c.
  template <class Team>
  CT_HD void update(const Team& team, int c, const Real* S, Real* to) const {
    const int i = last(c);
    const Real f = F[i], a = A[i], m = Mo[i];
    each_layer([&](const Layer& of) {
      grow(team, of, true, Real(-1), C + i * rows, of.x, of.e, to,
           [&](int at) { return f * S[at] + (moves ? a * S[n + at] : Real(0)); });
    });
    if (moves)
      each_layer([&](const Layer& of) {
        grow(team, of, true, Real(-1), D + i * rows, of.x, of.e, to + n,
             [&](int at) { return m * S[n + at]; });
      });
  }

  // --- readers

  /// Up to `rows` queries from number `from` on that stand in mini-batch c (-1: before all tokens); how far it got. None: -1.
  template <class Team>
  CT_HD int gather(const Team& team, int c, int from) const {
    team.each(1, [&](int) {
      int found = 0, i = from;
      const int low = c < 0 ? 0 : begin(c) + 1, high = c < 0 ? 0 : begin(c) + count(c);
      if (!op.position && i < low - 1) i = low - 1;
      for (; i < op.Q() && found < rows; ++i) {
        const int seen = net.at.seen_by(i);
        if (!op.position && seen > high) break;
        if (seen < low || seen > high) continue;
        index[found] = static_cast<Real>(i), place[found++] = static_cast<Real>(seen - low);
      }
      some[0] = found > 0 ? static_cast<Real>(i) : Real(-1);
      for (; found < rows; ++found) index[found] = place[found] = -1;
    });
    const int next = static_cast<int>(some[0]);
    team.each(rows * rows, [&](int i) {
      const int p = static_cast<int>(place[i / rows]);
      read_C[i] = p < 0 || c < 0 ? Real(0) : C[p * rows + i % rows];
      if (i % rows == 0)
        read_F[i / rows] = p < 0   ? Real(0)
                           : c < 0 ? Real(1)
                                   : F[p],
                   read_A[i / rows] = p < 0 || c < 0 ? Real(0) : A[p];
    });
    team.each(rows * K, [&](int i) {
      const int query = static_cast<int>(index[i / K]);
      first.y[i] = query < 0 ? Real(0) : net.q.row(query)[i % K];
    });
    return next;
  }
  /// put(r, j, what the layer says of reader r).
  template <class Team, class Put>
  CT_HD void read_layer(const Team& team, const Layer& of, const Real* S, Put&& put) const {
    const Real one = of.b < 0 ? Real(0) : Real(1);
    team.rows(
        rows * rows, of.in,
        [&](int i, int d) { return of.y[i / rows * of.in + d] * of.x[i % rows * of.in + d]; },
        [&](int i, Real sum) {
          of.g[i] = sum + one, of.h[i] = of.h_back[i % rows * rows + i / rows] = read_C[i] * (sum + one);
        });
    times(team, of, of.y, S, [&](int r, int j, Real sum) { of.u[r * of.out + j] = sum; });
    if (moves) times(team, of, of.y, S + n, [&](int r, int j, Real sum) { of.p[r * of.out + j] = sum; });
    read_sum(team, of, put);
  }
  template <class Team, class Put>
  CT_HD void read_sum(const Team& team, const Layer& of, Put&& put) const {
    team.down(rows, of.out, rows, of.h, of.e, [&](int r, int j, Real sum) {
      const int at = r * of.out + j;
      put(r, j, read_F[r] * of.u[at] + (moves ? read_A[r] * of.p[at] : Real(0)) - sum);
    });
  }
  /// zq of the gathered queries.
  template <class Team>
  CT_HD void read(const Team& team, const Real* S) const {
    read_layer(team, first, S, [&](int r, int m, Real sum) { second.y[r * M + m] = Gelu<Real>(sum).value; });
    read_layer(team, second, S, [&](int r, int a, Real sum) { zq[r * V + a] = sum; });
    if (layer) normalise(team, zq, read_scale);
  }
  template <class Team>
  CT_HD void write(const Team& team) const {
    team.each(rows * V, [&](int i) {
      const int query = static_cast<int>(index[i / V]), a = i % V;
      if (query < 0) return;
      op.o.value.at(net.at.r)[net.at.query(query) * V + a] =
          net.own(net.q.row(query), a) + (layer ? zq[i] * net.gain.value[a] + net.bias.value[a] : zq[i]);
    });
  }
  /// f() with the queries of mini-batch c gathered, some at a time.
  template <class Team, class F>
  CT_HD void each_gathered(const Team& team, int c, F&& f) const {
    if (c < 0 && !op.position) return;
    for (int from = 0; (from = gather(team, c, from)) >= 0;) {
      f();
      if (!op.position) return;
    }
  }

  // --- the way back; G: dL/dtheta, dL/dP behind what is taken back

  /// What the weights of gathered readers get goes to those of their places, and e, x and y of a layer get theirs.
  template <class Team>
  CT_HD void read_layer_back(const Team& team, const Layer& of, const Real* S, Real* G) const {
    const int out = of.out;
    team.rows(
        rows, out, [&](int r, int j) { return of.d_out[r * out + j] * of.u[r * out + j]; },
        [&](int r, Real sum) { some[r] = sum; });
    if (moves)
      team.rows(
          rows, out, [&](int r, int j) { return of.d_out[r * out + j] * of.p[r * out + j]; },
          [&](int r, Real sum) { more[r] = sum; });
    team.each(rows, [&](int i) {
      for (int r = 0; r < rows; ++r)
        if (static_cast<int>(place[r]) == i) d_F[i] += some[r], d_A[i] += moves ? more[r] : Real(0);
    });
    team.down(rows, out, rows, of.h_back, of.d_out,
              [&](int s, int j, Real sum) { of.d_e[s * out + j] -= sum; });
    // h becomes the gradient of x.y, h_back the same, tokens first; g what C gets.
    team.rows(
        rows * rows, out,
        [&](int i, int j) { return of.d_out[i / rows * out + j] * of.e[i % rows * out + j]; },
        [&](int i, Real sum) {
          of.g[i] *= sum, of.h[i] = of.h_back[i % rows * rows + i / rows] = -read_C[i] * sum;
        });
    team.each(rows * rows, [&](int i) {
      for (int r = 0; r < rows; ++r)
        if (static_cast<int>(place[r]) == i / rows) d_C[i] -= of.g[r * rows + i % rows];
    });
    team.down(rows, of.in, rows, of.h_back, of.y,
              [&](int s, int j, Real sum) { of.d_x[s * of.in + j] += sum; });
    team.each(rows * out, [&](int i) {
      of.u[i] = read_F[i / out] * of.d_out[i];
      if (moves) of.p[i] = read_A[i / out] * of.d_out[i];
    });
    team.down(rows, of.in, rows, of.h, of.x, [&](int r, int j, Real sum) { of.d_y[r * of.in + j] = sum; });
    times_back(team, of, of.u, S, [&](int r, int j, Real sum) { of.d_y[r * of.in + j] += sum; });
    if (moves)
      times_back(team, of, of.p, S + n, [&](int r, int j, Real sum) { of.d_y[r * of.in + j] += sum; });
    add_to(team, of, of.y, of.u, G);
    if (moves) add_to(team, of, of.y, of.p, G + n);
  }
  template <class Team>
  CT_HD void read_back(const Team& team, const Real* S, Real* G) const {
    Real* d_z = second.d_out;
    const auto d_o = [&](int r, int a) {
      const int query = static_cast<int>(index[r]);
      return query < 0 ? Real(0) : op.o.gradient.at(net.at.r)[net.at.query(query) * V + a];
    };
    read(team, S);
    team.each(rows * V,
              [&](int i) { d_z[i] = d_o(i / V, i % V) * (layer ? net.gain.value[i % V] : Real(1)); });
    if (layer) {
      team.each(V, [&](int a) {
        for (int r = 0; r < rows; ++r) {
          if (net.gain.gradient) net.gain.gradient[a] += d_o(r, a) * zq[r * V + a];
          if (net.bias.gradient) net.bias.gradient[a] += d_o(r, a);
        }
      });
      through_norm(team, zq, read_scale, d_z);
    }
    read_layer_back(team, second, S, G);
    read_sum(team, first, [&](int r, int m, Real sum) { first.d_out[r * M + m] *= Gelu<Real>(sum).slope; });
    read_layer_back(team, first, S, G);
    team.each(rows * K, [&](int i) {
      const int query = static_cast<int>(index[i / K]), j = i % K;
      if (query < 0 || !net.q.gradient) return;
      net.q.gradient[query * net.q.apart + j] +=
          first.d_y[i] +
          (op.residual && j < V ? op.o.gradient.at(net.at.r)[net.at.query(query) * V + j] : Real(0));
    });
  }
  /// Takes back update(): G becomes that of the state before, as far as it stands there itself.
  template <class Team>
  CT_HD void update_back(const Team& team, int c, const Real* S, Real* G) const {
    const int l = last(c);
    const Real *of_theta = C + l * rows, *of_P = D + l * rows;
    team.each(rows, [&](int i) { d_F[i] = d_A[i] = d_Mo[i] = 0; });
    team.each(rows * rows, [&](int i) { d_C[i] = d_D[i] = 0; });
    each_layer([&](const Layer& of) {
      const int out = of.out, in = of.in;
      times(team, of, of.x, G, [&](int s, int j, Real sum) { of.u[s * out + j] = sum; });
      if (moves) times(team, of, of.x, G + n, [&](int s, int j, Real sum) { of.p[s * out + j] = sum; });
      team.rows(
          rows, out, [&](int s, int j) { return of.e[s * out + j] * of.u[s * out + j]; },
          [&](int s, Real sum) { d_C[l * rows + s] -= sum; });
      if (moves)
        team.rows(
            rows, out, [&](int s, int j) { return of.e[s * out + j] * of.p[s * out + j]; },
            [&](int s, Real sum) { d_D[l * rows + s] -= sum; });
      team.each(rows * out, [&](int i) {
        of.d_e[i] = -of_theta[i / out] * of.u[i] - (moves ? of_P[i / out] * of.p[i] : Real(0));
      });
      times_back(team, of, of.e, G, [&](int s, int j, Real sum) { of.d_x[s * in + j] = -of_theta[s] * sum; });
      if (moves)
        times_back(team, of, of.e, G + n,
                   [&](int s, int j, Real sum) { of.d_x[s * in + j] -= of_P[s] * sum; });
    });
    // Four numbers at a time, as many loads on their way; n is a multiple of 4.
    const int part = n / 4;
    const auto along = [&](const Real* x, const Real* y) {
      return team.sum(part, [&](int i) {
        return (x[i] * y[i] + x[part + i] * y[part + i]) +
               (x[2 * part + i] * y[2 * part + i] + x[3 * part + i] * y[3 * part + i]);
      });
    };
    const Real by_F = along(G, S), by_A = moves ? along(G, S + n) : Real(0),
               by_M = moves ? along(G + n, S + n) : Real(0);
    const Real f = F[l], a = A[l], m = Mo[l];
    team.each(1, [&](int) { d_F[l] = by_F, d_A[l] = by_A, d_Mo[l] = by_M; });
    team.each(part, [&](int i) {
      Real g[4], p[4] = {};
      for (int j = 0; j < 4; ++j) g[j] = G[j * part + i];
      for (int j = 0; moves && j < 4; ++j) p[j] = G[n + j * part + i];
      for (int j = 0; j < 4; ++j) {
        G[j * part + i] = f * g[j];
        if (moves) G[n + j * part + i] = a * g[j] + m * p[j];
      }
    });
  }
  /// Takes back inner(): the cotangents of e and x of both layers go to keys, values and theta.
  template <class Team>
  CT_HD void inner_back(const Team& team, int c, const Real* theta, Real* G) const {
    Real *d_d2 = second.d_y, *d_z1 = first.u, *d_e = second.d_e, *d_z = second.d_out, *d_error = zq;
    team.each(rows * M, [&](int i) {
      const Gelu<Real> g(z1[i]);
      d_d2[i] = first.d_e[i] * g.slope, d_z1[i] = first.d_e[i] * d2[i] * g.bend;
    });
    // d2 = W2^T e: without a bias.
    times(
        team, second, d_d2, theta, [&](int i, int a, Real sum) { d_e[i * V + a] += sum; }, false);
    add_to(team, second, d_d2, second.e, G, false);
    if (layer) {
      through_error(team, d_e, d_z, d_error);
    } else {
      team.each(rows * V, [&](int i) { d_z[i] = d_error[i] = d_e[i]; });
    }
    add_to(team, second, second.x, d_z, G);
    times_back(team, second, d_z, theta, [&](int i, int m, Real sum) {
      d_z1[i * M + m] += (second.d_x[i * M + m] + sum) * Gelu<Real>(z1[i * M + m]).slope;
    });
    add_to(team, first, first.x, d_z1, G);
    times_back(team, first, d_z1, theta, [&](int i, int j, Real sum) { first.d_x[i * K + j] += sum; });
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
  /// Network::through_error of all rows: from d_e to d_z and d_error.
  template <class Team>
  CT_HD void through_error(const Team& team, const Real* d_e, Real* d_z, Real* d_error) const {
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
  /// Takes back the numbers that load() made of steps, momenta and forgetting.
  template <class Team>
  CT_HD void numbers_back(const Team& team, int c) const {
    const int t = begin(c), tokens = count(c);
    // h of the layers: what keep and momentum of row i get by column s.
    Real *of_keep = first.h, *of_speed = second.h, *by_state = first.g;
    team.each(rows + 1, [&](int s) {
      Real d_b = 0, d_m = 0, d_a = 0;
      for (int i = tokens - 1; i >= 0; --i) {
        const Real keeps = 1 - net.forget.number(t + i, 0), speed = net.momentum.number(t + i, 0);
        Real keep_gets = 0, speed_gets = 0;
        if (s == rows) {  // F: a, A: b, M: m
          const Real f = i > 0 ? F[i - 1] : Real(1), a = i > 0 ? A[i - 1] : Real(0),
                     m = i > 0 ? Mo[i - 1] : Real(1);
          d_a += d_F[i], d_m += d_Mo[i];
          if (moves) d_b += d_A[i], d_m += d_b;
          keep_gets = d_a * f + d_b * a, speed_gets = d_m * m;
          d_a *= keeps, d_b *= keeps, d_m *= speed;
        } else if (s < i) {
          d_b += d_C[i * rows + s], d_m += d_D[i * rows + s] + d_b;
          keep_gets = d_b * C[(i - 1) * rows + s], speed_gets = d_m * D[(i - 1) * rows + s];
          d_b *= keeps, d_m *= speed;
        } else if (s == i) {
          by_state[s] = d_m + d_D[i * rows + s] + d_b + d_C[i * rows + s];
        }
        if (s < rows) {
          of_keep[i * rows + s] = keep_gets, of_speed[i * rows + s] = speed_gets;
        } else {
          some[i] = keep_gets, more[i] = speed_gets;
        }
      }
    });
    team.each(tokens, [&](int i) {
      Real keeps = some[i], speed = more[i];
      for (int s = 0; s < rows; ++s) keeps += of_keep[i * rows + s], speed += of_speed[i * rows + s];
      if (net.step_size.gradient) net.step_size.gradient[(t + i) * net.step_size.apart] += by_state[i];
      if (net.momentum.gradient) net.momentum.gradient[(t + i) * net.momentum.apart] += speed;
      if (net.forget.gradient) net.forget.gradient[(t + i) * net.forget.apart] -= keeps;
    });
  }

  // --- whole sequences

  /// f(where it lies in a state, where it lies in the op's part i), of every number of part i.
  template <class Team, class F>
  CT_HD void each_of_part(const Team& team, int i, F&& f) const {
    const int offset = net.offset(i), columns = i % network_parts == network_w2 ? M : 1;
    team.each(op.part_size(i),
              [&](int at) { f(columns > 1 ? offset + at % columns * V + at / columns : offset + at, at); });
  }
  template <class Team>
  CT_HD void start(const Team& team, Real* S) const {
    for (int i = 0; i < net.parts(); ++i) {
      const Rows<Real> from = net.part(i);
      each_of_part(team, i, [&](int to, int at) { S[to] = from ? from.value[at] : Real(0); });
    }
  }
  template <class Team>
  CT_HD void forward(const Team& team) const {
    Real* S = work;
    start(team, S);
    for (int c = 0; c < batches; ++c) {
      const int length = segment_length(batches);
      if (states && c % length == 0) copy(team, S, states + c / length * size, size);
      load(team, c);
      inner(team, S);
      if (c == 0) each_gathered(team, -1, [&] { read(team, S), write(team); });
      each_gathered(team, c, [&] { read(team, S), write(team); });
      update(team, c, S, S);
    }
    for (int i = 0; i < net.parts(); ++i) {
      const Out<Real>& end = op.end[i];
      if (!end || !end.value.data) continue;
      Real* to = end.value.at(net.at.r) + static_cast<std::int64_t>(net.item) * op.part_size(i);
      each_of_part(team, i, [&](int from, int at) { to[at] = S[from]; });
    }
  }
  template <class Team>
  CT_HD void backward(const Team& team) const {
    const int length = segment_length(batches);
    Real* G = work + (length + 1) * size;
    net.clear(team);
    for (int i = 0; i < net.parts(); ++i) {
      const Out<Real>& end = op.end[i];
      const Real* from = end && end.gradient.data ? end.gradient.at(net.at.r) +
                                                        static_cast<std::int64_t>(net.item) * op.part_size(i)
                                                  : nullptr;
      each_of_part(team, i, [&](int to, int at) { G[to] = from ? from[at] : Real(0); });
    }
    for (int segment = segments(batches) - 1; segment >= 0; --segment) {
      const int from = segment * length, steps = from + length < batches ? length : batches - from;
      copy(team, states + segment * size, work, size);
      for (int c = 0; c + 1 < steps; ++c) {
        load(team, from + c);
        inner(team, work + c * size);
        update(team, from + c, work + c * size, work + (c + 1) * size);
      }
      for (int c = steps - 1; c >= 0; --c) {
        const Real* S = work + c * size;
        load(team, from + c);
        inner(team, S);
        update_back(team, from + c, S, G);
        if (op.o.gradient.data) each_gathered(team, from + c, [&] { read_back(team, S, G); });
        inner_back(team, from + c, S, G);
        numbers_back(team, from + c);
      }
    }
    if (op.o.gradient.data) each_gathered(team, -1, [&] { read_back(team, work, G); });
    for (int i = 0; i < net.parts(); ++i) {
      const Rows<Real> of = net.part(i);
      if (of.gradient) each_of_part(team, i, [&](int from, int at) { of.gradient[at] += G[from]; });
    }
  }
};

}  // namespace crosstalk::law

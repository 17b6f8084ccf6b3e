// NetworkRead with hidden units, a mini-batch of tokens at a time, whose gradients are all taken at the state before it: products of
// matrices instead of passes over the state, written once for the CPU (where it is tested) and for CUDA (fused/network_batches_form.cu).
// Here are its sizes, its memory and the products of a layer; network_batches_forward.h and network_batches_backward.h have the rest.
//
// Inside a mini-batch the state is linear in that before it, W and P, and in the gradients g_s = e_s x_s^T of its tokens:
//   W_i = F_i W + A_i P - sum_{s <= i} C_is g_s      F_i = keep_i F_{i-1}, A_i = keep_i A_{i-1} + M_i, C_is = keep_i C_{i-1,s} + D_is
//   P_i = M_i P - sum_{s <= i} D_is g_s              M_i = momentum_i M_{i-1}, D_is = momentum_i D_{i-1,s}, C_ss = D_ss = step_s
// so that what a query y reads behind token i needs no state of its own:
//   W_i y = F_i W y + A_i P y - sum_s C_is (x_s.y) e_s                    (the dual form of Sun et al. 2024, arXiv 2407.04620)
// keep = 1 - forget. Rows beyond the last token have step 0 and weigh nothing. W2 is kept transposed, [M,V].
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <type_traits>

#include "kernels/law/network_read_law.h"

namespace crosstalk::law {

constexpr int kMostBatch = 16;  ///< tokens of a mini-batch

/// Numbers that become by_a a + by_b b + sign (a sum); b null: by_a a + sign (a sum).
template <class Real>
struct ScaledSum {
  Real* to;
  Real sign;
  const Real* a;
  Real by_a = 1;
  const Real* b = nullptr;
  Real by_b = 0;
  CT_HD Real before(int i) const { return by_a * a[i] + (b ? by_b * b[i] : Real(0)); }
  CT_HD ScaledSum from(int i) const { return {to + i, sign, a + i, by_a, b ? b + i : nullptr, by_b}; }
};

/// A team of one with the products of a mini-batch: x [rows,D], y [rows,N].
struct AloneProducts : Alone {
  /// to [rows,N] = [to +] x w + bias, w [D,N], where `down`, else x w^T + bias, w [N,D]; bias null: 0.
  template <class Real>
  void product(bool down, int rows, int N, int D, const Real* x, const Real* w, Real* to, bool adds = false,
               const std::type_identity_t<Real>* bias = nullptr) const {
    this->rows(
        rows * N, D,
        [&](int i, int d) { return x[i / N * D + d] * (down ? w[d * N + i % N] : w[i % N * D + d]); },
        [&](int i, Real sum) { to[i] = (adds ? to[i] : Real(0)) + sum + (bias ? bias[i % N] : Real(0)); });
  }
  /// to_i = sum_j x_ij y_ij.
  template <class Real>
  void dots(int rows, int n, const Real* x, const Real* y, Real* to) const {
    this->rows(
        rows, n, [&](int i, int j) { return x[i * n + j] * y[i * n + j]; },
        [&](int i, Real sum) { to[i] = sum; });
  }
  /// to [D,N] grows by sum_i weight[i] x[i,d] y[i,j]; weight null: 1.
  template <class Real>
  void outer(int rows, int D, int N, const std::type_identity_t<Real>* weight, const Real* x, const Real* y,
             const ScaledSum<Real>& to) const {
    this->rows(
        D * N, rows,
        [&](int c, int i) { return (weight ? weight[i] : Real(1)) * x[i * D + c / N] * y[i * N + c % N]; },
        [&](int c, Real sum) { to.to[c] = to.before(c) + to.sign * sum; });
  }
  /// Adds what term(i, totals) adds, over i < n.
  void add_up(int n, auto& totals, auto&& term) const {
    for (int i = 0; i < n; ++i) term(i, totals);
  }
  template <class Real>
  void copy(const Real* from, Real* to, std::int64_t n) const {
    law::copy(*this, from, to, n);
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
    Real *g = nullptr, *h = nullptr;                ///< [rows,rows] x.y; that times C, readers first
  };
  Layer first, second;
  Real *z1, *d2, *z, *zq, *error = nullptr;  ///< z, zq: normal behind LayerNorm, which alone has errors
  Real *F, *A, *Mo, *C, *d_F, *d_A, *d_Mo, *d_C;
  Real *D = nullptr, *d_D = nullptr;                ///< with momentum
  Real *sizes, *speeds, *keeps;                     ///< step, momentum and 1 - forget of a token
  Real *read_F, *read_A, *read_C, *index, *place;   ///< of readers; index, place: whole numbers, -1 none
  Real *scale, *read_scale, *some, *more, *others;  ///< [rows]
  int used = 0;                                     ///< numbers of scratch()

  /// Numbers of a team's memory beside states.
  static CT_HD int scratch(const NetworkRead<Real>& op) {
    const int K = op.K(), V = op.V(), M = op.hidden, rows = rows_of(op), moves = op.momentum ? 1 : 0;
    return rows * (3 * (K + M) + (3 + moves) * (M + V) + K + 3 * M + (op.gain ? 4 : 2) * V +
                   (7 + 2 * moves) * rows + 18);
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
      one->g = take(rows), one->h = take(rows);
    }
    first.d_out = second.d_y = take(M), second.d_out = take(V), first.d_y = take(K);
    z1 = take(M), d2 = take(M), zq = take(V), z = layer ? take(V) : second.e;
    if (layer) error = take(V);
    for (Real** x : {&C, &d_C, &read_C}) *x = take(rows);
    if (moves) D = take(rows), d_D = take(rows);
    for (Real** x : {&F, &A, &Mo, &d_F, &d_A, &d_Mo, &read_F, &read_A, &index, &place, &scale, &read_scale,
                     &some, &more, &others, &sizes, &speeds, &keeps})
      *x = take(1);
  }

  CT_HD int begin(int c) const { return c * op.mini_batch; }
  CT_HD int count(int c) const {
    return op.T() - begin(c) < op.mini_batch ? op.T() - begin(c) : op.mini_batch;
  }
  CT_HD int last(int c) const { return count(c) - 1; }

  /// to = [to +] W x of a layer, with its bias where `biased`, and [to +] W^T x.
  CT_HD void times(const auto& team, const Layer& of, const Real* x, const Real* theta, Real* to,
                   bool biased = true, bool adds = false) const {
    team.product(of.transposed, rows, of.out, of.in, x, theta + of.w, to, adds,
                 biased && of.b >= 0 ? theta + of.b : nullptr);
  }
  CT_HD void times_back(const auto& team, const Layer& of, const Real* x, const Real* theta, Real* to,
                        bool adds = false) const {
    team.product(!of.transposed, rows, of.in, of.out, x, theta + of.w, to, adds);
  }
  /// A state grows by sum weight x (in) y (out)^T of all rows, in weights and, `biased`, in biases.
  CT_HD void grow(const auto& team, const Layer& of, bool biased, const Real* weight, const Real* x,
                  const Real* y, const ScaledSum<Real>& state) const {
    const bool turned = of.transposed;
    team.outer(rows, turned ? of.in : of.out, turned ? of.out : of.in, weight, turned ? x : y, turned ? y : x,
               state.from(of.w));
    if (!biased || of.b < 0) return;
    const ScaledSum<Real> to = state.from(of.b);
    team.each(of.out, [&](int j) {
      Real sum = 0;
      for (int i = 0; i < rows; ++i) sum += (weight ? weight[i] : Real(1)) * y[i * of.out + j];
      to.to[j] = to.before(j) + to.sign * sum;
    });
  }
  /// G += sum x y^T of all rows.
  CT_HD void add_to(const auto& team, const Layer& of, const Real* x, const Real* y, Real* G,
                    bool biased = true) const {
    grow(team, of, biased, nullptr, x, y, {G, 1, G});
  }
  CT_HD void each_layer(auto&& f) const {
    for (const Layer* of : {&first, &second}) f(*of);
  }

  // --- tokens (network_batches_forward.h)

  /// Loads the tokens of mini-batch c, and what the state behind each of them is made of.
  template <class Team>
  CT_HD void load(const Team& team, int c) const;
  /// z -> (z - mean) / sqrt(var + eps), row by row; of: that factor.
  template <class Team>
  CT_HD void normalise(const Team& team, Real* x, Real* of) const;
  /// y -> scale (y - mean y - normal mean(y normal)), in place; more: mean y, others: mean(y normal).
  template <class Team>
  CT_HD void through_norm(const Team& team, const Real* normal, const Real* of, Real* y) const;
  /// Takes the inner gradients of the tokens of mini-batch c, at theta.
  template <class Team>
  CT_HD void inner(const Team& team, int c, const Real* theta) const;
  /// Writes the state behind mini-batch c.
  template <class Team>
  CT_HD void update(const Team& team, int c, const Real* S, Real* to) const;

  // --- readers

  /// Gathers up to `rows` queries from number `from` on that stand in mini-batch c (-1: before all tokens).
  /// Returns how far it got; -1: there was none.
  template <class Team>
  CT_HD int gather(const Team& team, int c, int from) const;
  /// to [rows,out] = what the layer says of its readers.
  template <class Team>
  CT_HD void read_layer(const Team& team, const Layer& of, const Real* S, Real* to) const;
  /// The same from W y, P y and x.y that are there: F W y + A P y - sum_s C_s (x_s.y) e_s.
  template <class Team>
  CT_HD void read_sum(const Team& team, const Layer& of, Real* to) const;
  /// Reads the outputs of the gathered queries into zq.
  template <class Team>
  CT_HD void read(const Team& team, const Real* S) const;
  /// Writes these outputs to the op's.
  template <class Team>
  CT_HD void write(const Team& team) const;
  /// f() with the queries of mini-batch c gathered, some at a time.
  template <class Team, class Each>
  CT_HD void each_gathered(const Team& team, int c, Each&& f) const;

  // --- the way back (network_batches_backward.h); G: dL/dtheta, dL/dP behind what is taken back

  /// Takes back read_layer(): the weights of gathered readers give their gradients to those of their places,
  /// e, x and y of the layer and G get theirs.
  template <class Team>
  CT_HD void read_layer_back(const Team& team, const Layer& of, const Real* S, Real* G) const;
  /// Takes back read(), which it repeats first.
  template <class Team>
  CT_HD void read_back(const Team& team, const Real* S, Real* G) const;
  /// Takes back update(): G becomes that of the state before, as far as it stands there itself.
  template <class Team>
  CT_HD void update_back(const Team& team, int c, const Real* S, Real* G) const;
  /// Takes back inner(): the cotangents of e and x of both layers go to keys, values and theta.
  template <class Team>
  CT_HD void inner_back(const Team& team, int c, const Real* theta, Real* G) const;
  /// Network::through_error of all rows: from d_e to d_z and d_error.
  template <class Team>
  CT_HD void through_error(const Team& team, const Real* d_e, Real* d_z, Real* d_error) const;
  /// Takes back the numbers that load() made of steps, momenta and forgetting.
  template <class Team>
  CT_HD void numbers_back(const Team& team, int c) const;

  // --- whole sequences

  /// f(where it lies in a state, where it lies in the op's part i), of every number of part i.
  template <class Team, class Each>
  CT_HD void each_of_part(const Team& team, int i, Each&& f) const;
  /// Writes the state before all tokens.
  template <class Team>
  CT_HD void start(const Team& team, Real* S) const;
  /// Reads a whole sequence; keeps the states before its segments where there is a place for them.
  template <class Team>
  CT_HD void forward(const Team& team) const;
  /// Takes back forward(), segment by segment from the last on, whose states it makes anew.
  template <class Team>
  CT_HD void backward(const Team& team) const;
};

}  // namespace crosstalk::law

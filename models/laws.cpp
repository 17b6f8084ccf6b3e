// Ops of memories with a law of their own, and the states that they begin and end with.
// SPDX-License-Identifier: Apache-2.0
#include "models/laws.h"

#include <cmath>
#include <vector>

#include "kernels/conv/long_conv.h"
#include "kernels/law/diagonal_read.h"
#include "kernels/law/network_read.h"
#include "kernels/law/ridge_read.h"
#include "kernels/law/wkv_read.h"

namespace crosstalk {
namespace {

// A start that the mixer has, and a place for the end where it wants one. Of the parts of one state those that are not given
// beside others are `otherwise`.
template <class Real>
void carry(Mixer<Real>& m, const char* state, In<Real>& start, Out<Real>& end, int rows, int columns,
           const std::vector<const char*>& parts = {}, double otherwise = 0) {
  start = in(m.start(state));
  for (const char* part : parts)
    if (!start && m.start(part))
      start = in(expand(m.constant([=](int) { return otherwise; }), {m.B, 1, m.H, columns}));
  if (m.wants_end()) end.value = shaped<Real>(m.graph.replicas(), {m.B, m.H, rows, columns});
}
template <class Real>
void hand_on(Mixer<Real>& m, const char* state, const Out<Real>& end) {
  if (m.wants_end()) m.end(state, {&m.graph, out(end)});
}

// A number of a head's, for every sequence: its gradient is then a sum over them in a fixed order.
template <class Real>
Var<Real> every_sequence(Mixer<Real>& m, Var<Real> x) {
  return expand(x, {m.B, 1, m.H, x.dim(3)});
}

}  // namespace

template <class Real>
Var<Real> ridge_read(Mixer<Real>& m, Var<Real> q, Var<Real> k, Var<Real> gain, Var<Real> log_decay,
                     Var<Real> ridge, int iterations) {
  m.watch_decay(log_decay, true);
  RidgeRead<Real> op;
  op.device = m.graph.device();
  op.iterations = iterations;
  op.q = in(q), op.k = in(k), op.v = in(m.values()), op.gain = in(gain), op.log_decay = in(log_decay);
  op.ridge = in(every_sequence(m, ridge));
  op.position = ids(m.position());
  carry(m, "S", op.start, op.end, m.V, m.K);
  carry(m, "H", op.start_keys, op.end_keys, m.K, m.K);
  const auto& added = m.graph.add(op);
  hand_on(m, "S", added.end);
  hand_on(m, "H", added.end_keys);
  return {&m.graph, out(added.o)};
}

template <class Real>
Var<Real> diagonal_read(Mixer<Real>& m, Var<Real> q, Var<Real> k, const DiagonalLaw<Real>& law) {
  const auto entries = [&](Var<Real> x) { return in(x ? every_sequence(m, x) : x); };
  DiagonalRead<Real> op;
  op.device = m.graph.device();
  op.either_sign = law.either_sign, op.of_keys = law.of_keys;
  op.q = in(q), op.k = in(k), op.v = in(m.values());
  // A complex state's step is that of all tokens; the CPU sums its gradient over tokens outside, which is a matter of bits.
  const bool steady = law.angle && m.graph.device() == Device::cuda;
  op.step = in(expand(law.step, {m.B, steady ? 1 : m.T, m.H, m.V}));
  op.log_rate = entries(law.log_rate), op.angle = entries(law.angle);
  op.read = entries(law.read), op.read_imag = entries(law.read_imag);
  op.position = ids(m.position());
  carry(m, "S", op.start, op.end, m.V, m.K);
  if (law.angle) carry(m, "S_imag", op.start_imag, op.end_imag, m.V, m.K);
  const auto& added = m.graph.add(op);
  hand_on(m, "S", added.end);
  if (law.angle) hand_on(m, "S_imag", added.end_imag);
  return {&m.graph, out(added.o)};
}

template <class Real>
Var<Real> wkv_read(Mixer<Real>& m, Var<Real> k, Var<Real> log_decay, Var<Real> bonus) {
  m.watch_decay(log_decay, true);
  WkvRead<Real> op;
  op.k = in(k), op.v = in(m.values()), op.log_decay = in(every_sequence(m, log_decay));
  if (m.at_tokens()) op.bonus = in(every_sequence(m, bonus));
  op.position = ids(m.position());
  carry(m, "y", op.start, op.end, 1, m.V, {"L"});
  carry(m, "L", op.start_log, op.end_log, 1, m.V, {"y"});
  const auto& added = m.graph.add(op);
  hand_on(m, "y", added.end);
  hand_on(m, "L", added.end_log);
  return {&m.graph, out(added.o)};
}

template <class Real>
Var<Real> cell_read(Mixer<Real>& m, Cell cell, const std::vector<Var<Real>>& x,
                    const std::vector<Var<Real>>& u) {
  CellRead<Real> op;
  op.cell = cell;
  In<Real>* tokens[] = {&op.x0, &op.x1, &op.x2, &op.x3};
  In<Real>* weights[] = {&op.u0, &op.u1, &op.u2, &op.u3};
  for (std::size_t g = 0; g < x.size(); ++g)
    *tokens[g] = in(expand(x[g], {m.B, m.T, m.H, m.V})), *weights[g] = in(every_sequence(m, u[g]));
  op.position = ids(m.position());
  const char* second = cell == Cell::lstm ? "c" : "y";
  std::vector<const char*> parts = {"h", second, "L"};
  parts.resize(static_cast<std::size_t>(op.parts()));
  carry(m, "h", op.start_h, op.end_h, 1, m.V, parts);
  if (op.parts() > 1) carry(m, second, op.start_c, op.end_c, 1, m.V, parts);
  // An average that is given weighs 1, none nothing.
  if (op.parts() > 2) carry(m, "L", op.start_l, op.end_l, 1, m.V, parts, m.start("y") ? 0 : -INFINITY);
  const auto& added = m.graph.add(op);
  hand_on(m, "h", added.end_h);
  if (op.parts() > 1) hand_on(m, second, added.end_c);
  if (op.parts() > 2) hand_on(m, "L", added.end_l);
  return {&m.graph, out(added.o)};
}

template <class Real>
Var<Real> long_conv(Var<Real> x, Var<Real> h) {
  const Size C = x.dim(2) * x.dim(3);
  LongConv<Real> op;
  op.x = in(view(x, {x.dim(0), x.dim(1), C})), op.h = in(view(h, {h.dim(1), C}));
  return view(Var<Real>{x.graph, out(x.graph->add(op).y)}, {x.dim(0), x.dim(1), x.dim(2), x.dim(3)});
}

template <class Real>
Var<Real> network_read(Mixer<Real>& m, Var<Real> q, Var<Real> k, const NetworkLaw<Real>& law) {
  NetworkRead<Real> op;
  op.device = m.graph.device();
  op.hidden = law.hidden, op.biases = law.biases, op.residual = law.residual, op.mini_batch = law.mini_batch;
  op.q = in(q), op.k = in(k), op.v = in(m.values());
  op.step = in(law.rate), op.momentum = in(law.momentum), op.forget = in(law.forget);
  if (law.gain) op.gain = in(every_sequence(m, law.gain)), op.bias = in(every_sequence(m, law.bias));
  op.position = ids(m.position());
  for (int i = 0; i < 2 * network_parts; ++i) {
    if (!law.states[i]) continue;
    Var<Real> start = m.start(law.states[i]);
    if (!start && law.begin[i]) start = every_sequence(m, law.begin[i]);
    op.start[i] = in(start);
    if (!m.wants_end()) continue;
    const int part = i % network_parts, R = m.graph.replicas();
    op.end[i].value = part == network_w1   ? shaped<Real>(R, {m.B, m.H, law.hidden, m.K})
                      : part == network_b1 ? shaped<Real>(R, {m.B, m.H, law.hidden})
                      : part == network_w2 ? shaped<Real>(R, {m.B, m.H, m.V, op.X()})
                                           : shaped<Real>(R, {m.B, m.H, m.V});
  }
  const auto& added = m.graph.add(op);
  for (int i = 0; i < 2 * network_parts; ++i)
    if (law.states[i]) hand_on(m, law.states[i], added.end[i]);
  return {&m.graph, out(added.o)};
}

#define CROSSTALK_LAWS(Real)                                                                               \
  template Var<Real> ridge_read(Mixer<Real>&, Var<Real>, Var<Real>, Var<Real>, Var<Real>, Var<Real>, int); \
  template Var<Real> diagonal_read(Mixer<Real>&, Var<Real>, Var<Real>, const DiagonalLaw<Real>&);          \
  template Var<Real> wkv_read(Mixer<Real>&, Var<Real>, Var<Real>, Var<Real>);                              \
  template Var<Real> cell_read(Mixer<Real>&, Cell, const std::vector<Var<Real>>&,                          \
                               const std::vector<Var<Real>>&);                                             \
  template Var<Real> long_conv(Var<Real>, Var<Real>);                                                      \
  template Var<Real> network_read(Mixer<Real>&, Var<Real>, Var<Real>, const NetworkLaw<Real>&);
CROSSTALK_LAWS(float)
CROSSTALK_LAWS(double)

}  // namespace crosstalk

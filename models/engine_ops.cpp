// Ops that memories use one at a time (engines.h), as nodes of a graph.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/solve.h"
#include "kernels/elementwise/delay.h"
#include "kernels/elementwise/largest.h"
#include "kernels/elementwise/rotate.h"
#include "kernels/elementwise/turn.h"
#include "kernels/law/fwm.h"
#include "models/engines.h"
#include "models/graph/nodes.h"
#include "models/parts/carried.h"

namespace crosstalk {

template <class Real>
Var<Real> weighted(Var<Real> a, Var<Real> x) {
  Mix<Real> op;
  op.a = in(a), op.v = in(x);
  return {a.graph, out(a.graph->add(op).o)};
}

template <class Real>
Var<Real> rotate(Mixer<Real>& m, Var<Real> x, double base, bool keys, int period, double angle) {
  Rotate<Real> op;
  op.base = base, op.period = period, op.angle = angle;
  op.x = in(x);
  if (!keys) op.position = ids(m.position());
  if (m.piece() && m.piece()->places) op.position = ids(m.piece()->places);
  return {&m.graph, out(m.graph.add(op).y)};
}

template <class Real>
Var<Real> turned(Var<Real> x, Var<Real> angle) {
  Turn<Real> op;
  op.x = in(x), op.angle = in(angle);
  return {x.graph, out(x.graph->add(op).y)};
}

template <class Real>
Var<Real> delayed(Var<Real> x, Var<Real> start) {
  Delay<Real> op;
  op.x = in(x), op.start = in(start);
  return {x.graph, out(x.graph->add(op).y)};
}

template <class Real>
Var<Real> largest(Var<Real> x, int count, double otherwise) {
  Largest<Real> op;
  op.count = count, op.otherwise = otherwise;
  op.x = in(x);
  return {x.graph, out(x.graph->add(op).y)};
}

template <class Real>
Var<Real> repeated_heads(Var<Real> x, int times) {
  const Size B = x.dim(0), N = x.dim(1), H = x.dim(2), n = x.dim(3);
  return view(expand(view(x, {B * N, H, 1, n}), {B * N, H, times, n}), {B, N, H * times, n});
}

template <class Real>
Var<Real> is_largest(Var<Real> x, int count) {
  MarkLargest<Real> op;
  op.count = count;
  op.x = in(x);
  return {x.graph, out(x.graph->add(op).y)};
}

template <class Real>
Var<Real> solve(Var<Real> a, Var<Real> b, Var<Real> gain) {
  Solve<Real> op;
  op.a = in(a), op.l = in(b), op.gain = in(gain);
  return {a.graph, out(a.graph->add(op).y)};
}

template <class Real>
Var<Real> solve_values(Var<Real> v, Var<Real> b, Var<Real> gain) {
  SolveValues<Real> op;
  op.v = in(v), op.l = in(b), op.gain = in(gain);
  return {v.graph, out(v.graph->add(op).u)};
}

template <class Real>
Var<Real> fwm_read(Mixer<Real>& m, Var<Real> q, Var<Real> k, Var<Real> beta) {
  FwmRead<Real> op;
  op.device = m.graph.device();
  op.q = in(q), op.k = in(k), op.beta = in(beta), op.start = in(m.start("S"));
  if (m.batch()) {  // values are ids: they are never formed
    op.values = m.V, op.tokens = ids(m.batch()->tokens);
  } else {
    op.v = in(m.values());
  }
  op.position = ids(m.position());
  if (m.wants_end()) op.end.value = shaped<Real>(m.graph.replicas(), {m.B, m.H, m.V, m.K});
  const auto& added = m.graph.add(op);
  if (m.wants_end()) m.end("S", {&m.graph, out(added.end)});
  return {&m.graph, out(added.o)};
}

#define CROSSTALK_ENGINE_OPS(Real)                                               \
  template Var<Real> weighted(Var<Real>, Var<Real>);                             \
  template Var<Real> rotate(Mixer<Real>&, Var<Real>, double, bool, int, double); \
  template Var<Real> turned(Var<Real>, Var<Real>);                               \
  template Var<Real> delayed(Var<Real>, Var<Real>);                              \
  template Var<Real> largest(Var<Real>, int, double);                            \
  template Var<Real> repeated_heads(Var<Real>, int);                             \
  template Var<Real> is_largest(Var<Real>, int);                                 \
  template Var<Real> fwm_read(Mixer<Real>&, Var<Real>, Var<Real>, Var<Real>);    \
  template Var<Real> solve(Var<Real>, Var<Real>, Var<Real>);                     \
  template Var<Real> solve_values(Var<Real>, Var<Real>, Var<Real>);
CROSSTALK_ENGINE_OPS(float)
CROSSTALK_ENGINE_OPS(double)

}  // namespace crosstalk

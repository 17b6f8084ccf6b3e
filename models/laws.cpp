// SPDX-License-Identifier: Apache-2.0
#include "models/laws.h"

#include "kernels/ops/ridge_read.h"

namespace crosstalk {
namespace {

// A start that the mixer has, and a place for the end where it wants one.
template <class Real>
void carry(Mixer<Real>& m, const char* state, In<Real>& start, Out<Real>& end, int rows, int columns) {
  start = in(m.start(state));
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
  RidgeRead<Real> op;
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

#define CROSSTALK_LAWS(Real) \
  template Var<Real> ridge_read(Mixer<Real>&, Var<Real>, Var<Real>, Var<Real>, Var<Real>, Var<Real>, int);
CROSSTALK_LAWS(float)
CROSSTALK_LAWS(double)

}  // namespace crosstalk

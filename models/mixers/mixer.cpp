// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/mixer.h"

#include <cmath>
#include <stdexcept>

#include "kernels/attention/attend.h"
#include "kernels/elementwise/pick.h"
#include "kernels/recurrence/scan.h"
#include "models/graph/nodes.h"

namespace crosstalk {
namespace {

template <class Real>
Var<Real> combine(CombineKind kind, Var<Real> a, Var<Real> b, double scale_b = 1) {
  Combine<Real> op;
  op.kind = kind;
  op.scale_b = scale_b;
  op.a = in(a);
  op.b = in(b);
  return {a.graph, out(a.graph->add(op).y)};
}

}  // namespace

template <class Real>
Var<Real> operator+(Var<Real> a, Var<Real> b) {
  return combine(CombineKind::add, a, b);
}

template <class Real>
Var<Real> operator-(Var<Real> a, Var<Real> b) {
  return combine(CombineKind::add, a, b, -1);
}

template <class Real>
Var<Real> operator*(Var<Real> a, Var<Real> b) {
  return combine(CombineKind::multiply, a, b);
}

template <class Real>
Var<Real> larger(Var<Real> a, Var<Real> b) {
  return combine(CombineKind::larger, a, b);
}

template <class Real>
Var<Real> scan(Var<Real> log_a, Var<Real> x, Var<Real> start) {
  const Size B = x.dim(0), T = x.dim(1), H = x.dim(2), n = x.dim(3);
  Scan<Real> op;
  if (log_a) op.log_a = in(view(log_a, {B, T, H * n}));
  op.x = in(view(x, {B, T, H * n}));
  if (start) op.start = in(view(start, {B, H * n}));
  return view(Var<Real>{x.graph, out(x.graph->add(op).h)}, {B, T, H, n});
}

template <class Real>
Var<Real> log_scan(Var<Real> d, Var<Real> k, Var<Real> start, Var<Real>* gap) {
  const Size B = k.dim(0), T = k.dim(1), H = k.dim(2), n = k.dim(3);
  LogScan<Real> op;
  op.d = in(view(d, {B, T, H * n})), op.k = in(view(k, {B, T, H * n}));
  if (start) op.start = in(view(start, {B, H * n}));
  op.gaps = gap != nullptr;
  const auto& added = k.graph->add(op);
  if (gap) *gap = view(Var<Real>{k.graph, out(added.gap)}, {B, T, H, n});
  return view(Var<Real>{k.graph, out(added.l)}, {B, T, H, n});
}

template <class Real>
Var<Real> map(MapKind kind, Var<Real> x, double scale, double shift) {
  Map<Real> op;
  op.map = kind, op.scale = scale, op.shift = shift;
  op.x = in(x);
  return {x.graph, out(x.graph->add(op).y)};
}

template <class Real>
Var<Real> expand(Var<Real> x, std::initializer_list<Dimension> dims) {
  const Tensor<Real> shape = shaped<Real>(x.graph->replicas(), dims);
  if (shape.size() == x.variable->value.size()) return view(x, dims);
  Expand<Real> op;
  op.x = in(x);
  op.y.value = shape;
  return {x.graph, out(x.graph->add(op).y)};
}

template <class Real>
Var<Real> fold(Var<Real> x, std::initializer_list<Dimension> dims) {
  const Tensor<Real> shape = shaped<Real>(x.graph->replicas(), dims);
  if (shape.size() == x.variable->value.size()) return view(x, dims);
  Fold<Real> op;
  op.x = in(x);
  op.y.value = shape;
  return {x.graph, out(x.graph->add(op).y)};
}

template <class Real>
Var<Real> view(Var<Real> x, std::initializer_list<Dimension> dims) {
  return {x.graph, x.graph->view(x.variable, dims)};
}

template <class Real>
Var<Real> unit(Var<Real> x) {
  return {x.graph, normalize(*x.graph, RowNorm::l2, 1e-6, x.variable)};
}

template <class Real>
Var<Real> maximum(Var<Real> x) {
  Maximum<Real> op;
  op.x = in(x);
  return {x.graph, out(x.graph->add(op).y)};
}

template <class Real>
Var<Real> softmax(Var<Real> x) {
  return {x.graph, normalize(*x.graph, RowNorm::softmax, 0, x.variable)};
}

template <class Real>
Var<Real> rms(Var<Real> x, double eps) {
  return {x.graph, normalize(*x.graph, RowNorm::rms, eps, x.variable)};
}

template <class Real>
Var<Real> swap(Var<Real> x) {
  if (x.dim(1) == 1 || x.dim(2) == 1) return view(x, {x.dim(0), x.dim(2), x.dim(1), x.dim(3)});
  Swap<Real> op;
  op.x = in(x);
  return {x.graph, out(x.graph->add(op).y)};
}

template <class Real>
Var<Real> Mixer<Real>::mix(Var<Real> weights, std::optional<double> eps, Var<Real> gain, Var<Real> value) {
  if (gain) weights = weights * view(swap(gain), {B, H, 1, writes()});
  if (batch() && !value) {
    note_weights(weights, eps);
    return gather(weights, eps);
  }
  if (eps) weights = {&graph, normalize(graph, RowNorm::sum, *eps, weights.variable)};
  note_weights(weights, {});
  Mix<Real> op;
  op.a = in(thinned(weights));
  op.v = in(value ? value : values());
  return {&graph, out(graph.add(op).o)};
}

template <class Real>
Var<Real> Mixer<Real>::at_queries(Var<Real> x) {
  if (at_tokens()) return x;
  Pick<Real> op;
  op.x = in(x), op.position = ids(position());
  return {&graph, out(graph.add(op).y)};
}

template <class Real>
Var<Real> Mixer<Real>::gather(Var<Real>, std::optional<double>) {
  throw std::logic_error("[mixer] a model whose values are ids gathers them");
}

template <class Real>
double Mixer<Real>::scale() const {
  return 1 / std::sqrt(static_cast<double>(d));
}

template <class Real>
Var<Real> Mixer<Real>::constant(const std::function<double(int head)>& f) {
  bool same = true;
  for (int h = 1; h < H; ++h) same = same && f(h) == f(0);
  const int numbers = same && H > Constant<Real>::kMost ? 1 : int{H};
  if (numbers > Constant<Real>::kMost)
    throw OptionError("model.heads", "model.heads = " + std::to_string(H) +
                                         ": this memory has numbers of its own for at most " +
                                         std::to_string(Constant<Real>::kMost) + " heads");
  Constant<Real> op;
  op.y.value = shaped<Real>(graph.replicas(), {1, 1, numbers, 1});
  for (int h = 0; h < numbers; ++h) op.number[h] = f(h);
  return {&graph, out(graph.add(op).y)};
}

#define CROSSTALK_MIXER(Real)                                               \
  template Var<Real> operator+(Var<Real>, Var<Real>);                       \
  template Var<Real> operator-(Var<Real>, Var<Real>);                       \
  template Var<Real> operator*(Var<Real>, Var<Real>);                       \
  template Var<Real> larger(Var<Real>, Var<Real>);                          \
  template Var<Real> scan(Var<Real>, Var<Real>, Var<Real>);                 \
  template Var<Real> log_scan(Var<Real>, Var<Real>, Var<Real>, Var<Real>*); \
  template Var<Real> map(MapKind, Var<Real>, double, double);               \
  template Var<Real> expand(Var<Real>, std::initializer_list<Dimension>);   \
  template Var<Real> fold(Var<Real>, std::initializer_list<Dimension>);     \
  template Var<Real> view(Var<Real>, std::initializer_list<Dimension>);     \
  template Var<Real> swap(Var<Real>);                                       \
  template Var<Real> unit(Var<Real>);                                       \
  template Var<Real> softmax(Var<Real>);                                    \
  template Var<Real> maximum(Var<Real>);                                    \
  template Var<Real> rms(Var<Real>, double);                                \
  template class Mixer<Real>;
CROSSTALK_MIXER(float)
CROSSTALK_MIXER(double)

}  // namespace crosstalk

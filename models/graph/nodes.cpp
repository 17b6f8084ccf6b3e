// Nodes that are one op each.
// SPDX-License-Identifier: Apache-2.0
#include "models/graph/nodes.h"

#include "models/graph/node_parts.h"

namespace crosstalk {

template <class Real>
Variable<Real>* linear(Graph<Real>& g, Variable<Real>* x, Variable<Real>* w, Variable<Real>* b) {
  Linear<Real> op;
  op.precision = g.products();
  op.x = in(x), op.w = in(w), op.b = in(b);
  return out<Real>(g.add(op).y);
}

template <class Real>
Variable<Real>* feature_map(Graph<Real>& g, FeatureMap map, int number, Variable<Real>* x,
                            Variable<Real>* omega) {
  if (map == FeatureMap::identity) return x;
  MapFeatures<Real> op;
  op.map = map, op.number = number;
  op.x = in(x), op.omega = in(omega);
  return out<Real>(g.add(op).y);
}

template <class Real>
Variable<Real>* normalize(Graph<Real>& g, RowNorm norm, double eps, Variable<Real>* x) {
  Normalize<Real> op;
  op.norm = norm, op.eps = eps;
  op.x = in(x);
  return out<Real>(g.add(op).y);
}

template <class Real>
Variable<Real>* gather_values(Graph<Real>& g, Variable<Real>* a, int values, const BatchIds& batch,
                              std::optional<double> eps) {
  GatherValues<Real> op;
  op.divided = eps.has_value(), op.eps = eps.value_or(0), op.values = values;
  op.a = in(a), op.tokens = ids(batch.tokens);
  return out<Real>(g.add(op).y);
}

template <class Real>
Variable<Real>* favor_features(Graph<Real>& g, int m, int d, const Tensor<std::int32_t>* seed,
                               const Tensor<std::int32_t>* draw, std::uint32_t purpose) {
  auto* omega = g.variable({m, d}, false);
  auto* workspace = g.doubles({d, d});
  g.node(
      "favor_features", {}, {omega},
      [=](const Exec& e) {
        run(e, FavorFeatures<Real>{*seed, *draw, purpose, *workspace, omega->value});
      },
      [](const Exec&, const std::vector<Write>&) {});
  return omega;
}

template <class Real>
Variable<Real>* dropout(Graph<Real>& g, double rate, std::uint32_t site, Variable<Real>* x,
                        const Tensor<std::int32_t>* seed, const Tensor<std::int32_t>* draw) {
  Dropout<Real> op;
  op.rate = rate, op.site = site;
  op.x = in(x), op.seed = ids(seed), op.draw = ids(draw);
  return out<Real>(g.add(op).y);
}

namespace {

template <class Op, class Real>
QueryLoss<Real> add_loss(Graph<Real>& g, Op op) {
  op.with_gradients = g.train();
  const Op& added = g.add(op);
  return {out<Real>(added.query_loss), out<Real>(added.loss), added.correct.source};
}

}  // namespace

template <class Real>
QueryLoss<Real> squared_loss(Graph<Real>& g, Variable<Real>* y, const BatchIds& batch) {
  SquaredLoss<Real> op;
  op.y = in(y), op.target = ids(batch.target);
  return add_loss(g, op);
}

template <class Real>
QueryLoss<Real> cross_entropy(Graph<Real>& g, Variable<Real>* x, Variable<Real>* w, const BatchIds& batch) {
  CrossEntropy<Real> op;
  op.precision = g.products(), op.device = g.device();
  op.x = in(x), op.w = in(w), op.target = ids(batch.target);
  return add_loss(g, op);
}

#define CROSSTALK_NODES(Real)                                                                            \
  template Variable<Real>* linear(Graph<Real>&, Variable<Real>*, Variable<Real>*, Variable<Real>*);      \
  template Variable<Real>* feature_map(Graph<Real>&, FeatureMap, int, Variable<Real>*, Variable<Real>*); \
  template Variable<Real>* normalize(Graph<Real>&, RowNorm, double, Variable<Real>*);                    \
  template Variable<Real>* gather_values(Graph<Real>&, Variable<Real>*, int, const BatchIds&,            \
                                         std::optional<double>);                                         \
  template Variable<Real>* favor_features(Graph<Real>&, int, int, const Tensor<std::int32_t>*,           \
                                          const Tensor<std::int32_t>*, std::uint32_t);                   \
  template Variable<Real>* dropout(Graph<Real>&, double, std::uint32_t, Variable<Real>*,                 \
                                   const Tensor<std::int32_t>*, const Tensor<std::int32_t>*);            \
  template QueryLoss<Real> squared_loss(Graph<Real>&, Variable<Real>*, const BatchIds&);                 \
  template QueryLoss<Real> cross_entropy(Graph<Real>&, Variable<Real>*, Variable<Real>*, const BatchIds&);
CROSSTALK_NODES(float)
CROSSTALK_NODES(double)

}  // namespace crosstalk

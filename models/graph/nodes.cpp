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
  const int d = x->value.columns();
  if (omega) require(omega->value.columns() == d, "feature_map", x->value, omega->value);
  auto* y = g.like(x, map_width(map, d, number, omega ? omega->value.dim(0) : 0));
  g.node(
      "feature_map", {x, omega}, {y},
      [=](const Exec& e) {
        run(e, FeatureMapForward<Real>{map, number, x->value, value(omega), y->value});
      },
      [=](const Exec& e, const std::vector<Write>& m) {
        run(e, FeatureMapBackward<Real>{map, number, x->value, value(omega), y->value, y->gradient,
                                        x->gradient, m[0]});
      },
      FeatureMapNode<Real>{map, number, x, omega});
  return y;
}

template <class Real>
Variable<Real>* normalize(Graph<Real>& g, RowNorm norm, double eps, Variable<Real>* x) {
  Normalize<Real> op;
  op.norm = norm, op.eps = eps;
  op.x = in(x);
  Variable<Real>* y = out<Real>(g.add(op).y);
  g.nodes().back().info = NormalizeNode<Real>{norm, eps, x};
  return y;
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
  op.plan();
  Variable<Real>* y = g.tensor(op.y.value);
  auto* drawn = g.integers({1});
  const auto bound = [=](Write write) {
    Dropout<Real> now = op;
    now.x.value = x->value, now.x.gradient = x->gradient, now.x.write = write;
    now.y.value = y->value, now.y.gradient = y->gradient;
    now.seed.value = *seed, now.draw.value = *draw, now.drawn = *drawn;
    return now;
  };
  g.node(
      "dropout", {x}, {y}, [=](const Exec& e) { forward(e, bound(Write::none)); },
      [=](const Exec& e, const std::vector<Write>& m) { backward(e, bound(m[0])); });
  return y;
}

template <class Real>
QueryLoss<Real> squared_loss(Graph<Real>& g, Variable<Real>* y, const BatchIds& batch) {
  auto* query_loss = g.variable({batch.B, batch.Q}, false);
  auto* loss = g.variable({1}, false);
  auto* correct = g.integers({batch.B, batch.Q});
  const auto* target = batch.target;
  g.node(
      "squared_loss", {y}, {},
      [=](const Exec& e) {
        run(e, SquaredLossForward<Real>{y->value, query_loss->value, loss->value, *target, *correct,
                                        y->gradient});
      },
      [](const Exec&, const std::vector<Write>& m) {
        if (m[0] == Write::add) throw std::logic_error("[squared_loss] shares its input with a later node");
      });
  return {query_loss, loss, correct};
}

template <class Real>
QueryLoss<Real> cross_entropy(Graph<Real>& g, Variable<Real>* x, Variable<Real>* w, const BatchIds& batch) {
  CrossEntropy<Real> op;
  op.precision = g.products(), op.device = g.device();
  op.with_gradients = g.train();
  op.x = in(x), op.w = in(w), op.target = ids(batch.target);
  op.plan();
  Variable<Real>*query_loss = g.tensor(op.query_loss.value, false), *loss = g.tensor(op.loss.value, false),
  *logits = op.logits.value.rank > 0 ? g.tensor(op.logits.value, false) : nullptr,
  *tiles = op.tiles.value.rank > 0 ? g.tensor(op.tiles.value, false) : nullptr,
  *share = g.tensor(op.share.value, false);
  auto* correct = g.integers({batch.B, batch.Q});
  g.node(
      "cross_entropy", {x, w}, {},
      [=](const Exec& e) {
        CrossEntropy<Real> now = op;
        const auto bind = [](In<Real>& field, const Variable<Real>* v) {
          field.value = v->value, field.gradient = v->gradient;
          field.write = v->gradient.data ? Write::overwrite : Write::none;
        };
        bind(now.x, x), bind(now.w, w);
        now.target.value = *op.target.source;
        now.query_loss.value = query_loss->value, now.loss.value = loss->value;
        now.logits.value = value(logits), now.tiles.value = value(tiles), now.share.value = share->value;
        now.correct = *correct;
        forward(e, now);
      },
      [](const Exec&, const std::vector<Write>& m) {
        if (m[0] == Write::add || m[1] == Write::add)
          throw std::logic_error("[cross_entropy] shares an input with a later node");
      });
  return {query_loss, loss, correct};
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

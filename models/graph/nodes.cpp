// SPDX-License-Identifier: Apache-2.0
#include "models/graph/nodes.h"

#include "models/graph/node_parts.h"

namespace crosstalk {
template <class Real>
Variable<Real>* linear(Graph<Real>& g, Variable<Real>* x, Variable<Real>* w, Variable<Real>* b) {
  require(w->value.rank == 2 && x->value.columns() == w->value.dim(1), "linear", x->value, w->value);
  if (b) require(b->value.columns() == w->value.dim(0), "linear", w->value, b->value);
  auto* y = g.like(x, w->value.dim(0));
  const Precision products = g.products();
  g.node(
      "linear", {x, w, b}, {y},
      [=](const Exec& e) {
        run(e, LinearForward<Real>{x->value, w->value, value(b), y->value, products});
      },
      [=](const Exec& e, const std::vector<Write>& m) {
        run(e, LinearBackward<Real>{x->value, w->value, y->gradient, x->gradient, w->gradient, gradient(b),
                                    m[0], m[1], m[2], products});
      });
  return y;
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
  auto* y = g.like(x, x->value.columns());
  auto* inverse = g.like(x, 1);
  inverse->needs_gradient = false;
  g.node(
      "normalize", {x}, {y, inverse},
      [=](const Exec& e) {
        run(e, NormalizeForward<Real>{norm, eps, x->value, y->value, inverse->value});
      },
      [=](const Exec& e, const std::vector<Write>& m) {
        run(e, NormalizeBackward<Real>{norm, y->value, inverse->value, y->gradient, x->gradient, m[0]});
      },
      NormalizeNode<Real>{norm, eps, x});
  return y;
}

namespace {
template <class Real>
Variable<Real>* pointwise(Graph<Real>& g, PointMap map, double scale, double shift, Variable<Real>* x) {
  auto* y = g.like(x, x->value.columns());
  g.node(
      map == PointMap::sigmoid ? "sigmoid" : "affine", {x}, {y},
      [=](const Exec& e) {
        run(e, PointwiseForward<Real>{map, scale, shift, x->value, y->value});
      },
      [=](const Exec& e, const std::vector<Write>& m) {
        run(e, PointwiseBackward<Real>{map, scale, y->value, y->gradient, x->gradient, m[0]});
      });
  return y;
}
}  // namespace

template <class Real>
Variable<Real>* sigmoid(Graph<Real>& g, double scale, Variable<Real>* x) {
  return pointwise(g, PointMap::sigmoid, scale, 0, x);
}

template <class Real>
Variable<Real>* affine(Graph<Real>& g, double scale, double shift, Variable<Real>* x) {
  return pointwise(g, PointMap::affine, scale, shift, x);
}

template <class Real>
Variable<Real>* scores(Graph<Real>& g, double scale, Variable<Real>* k, Variable<Real>* q,
                       const BatchTensors& batch) {
  require(k->value.columns() == q->value.columns(), "scores", k->value, q->value);
  const auto* position = batch.position;
  auto* a = g.variable({batch.B, batch.Q, batch.T});
  g.node(
      "scores", {k, q}, {a},
      [=](const Exec& e) {
        run(e, ScoresForward<Real>{scale, k->value, q->value, a->value, *position});
      },
      [=](const Exec& e, const std::vector<Write>& m) {
        run(e, ScoresBackward<Real>{scale, k->value, q->value, a->gradient, k->gradient, q->gradient,
                                    *position, m[0], m[1]});
      },
      ScoresNode<Real>{scale, k, q, batch});
  return a;
}

template <class Real>
Variable<Real>* softmax(Graph<Real>& g, Variable<Real>* x, const BatchTensors& batch) {
  const auto* position = batch.position;
  auto* y = g.like(x, x->value.columns());
  g.node(
      "softmax", {x}, {y},
      [=](const Exec& e) {
        run(e, SoftmaxForward<Real>{x->value, y->value, *position});
      },
      [=](const Exec& e, const std::vector<Write>& m) {
        run(e, SoftmaxBackward<Real>{y->value, y->gradient, x->gradient, m[0]});
      });
  return y;
}

template <class Real>
Variable<Real>* recurrent_read(Graph<Real>& g, Variable<Real>* k, Variable<Real>* q, Variable<Real>* write,
                               Variable<Real>* erase, Variable<Real>* decay, const BatchTensors& batch,
                               bool contracting) {
  require(k->value.columns() == q->value.columns(), "recurrent_read", k->value, q->value);
  const int P = k->value.columns();
  const auto* position = batch.position;
  auto* a = g.variable({batch.B, batch.Q, batch.T});
  Variable<Real>*history = nullptr, *trail = nullptr;
  if (g.train() && contracting && batch.Q == 1 && !decay) {
    trail = g.variable({batch.B, P + (batch.T + 3) / 4 * 4}, false);
  } else if (g.train()) {
    history = g.variable({batch.B, batch.T, P}, false);
  }
  g.node(
      "recurrent_read", {k, q, write, erase, decay}, {a},
      [=](const Exec& e) {
        run(e, RecurrentReadForward<Real>{k->value, q->value, value(write), value(erase), value(decay),
                                          a->value, value(history), *position, value(trail)});
      },
      [=](const Exec& e, const std::vector<Write>& m) {
        run(e, RecurrentReadBackward<Real>{k->value, q->value, value(write), value(erase), value(decay),
                                           value(history), a->gradient, *position, k->gradient, q->gradient,
                                           gradient(write), gradient(erase), gradient(decay), m[0], m[1],
                                           m[2], m[3], m[4], value(trail)});
      });
  return a;
}

template <class Real>
PrefixDot<Real> prefix_dot(Graph<Real>& g, Variable<Real>* k, Variable<Real>* q, const BatchTensors& batch) {
  const auto* position = batch.position;
  auto* zk = g.variable({batch.B, batch.T});
  auto* zq = g.variable({batch.B, batch.Q});
  g.node(
      "prefix_dot", {k, q}, {zk, zq},
      [=](const Exec& e) {
        run(e, PrefixDotForward<Real>{k->value, q->value, zk->value, zq->value, *position});
      },
      [=](const Exec& e, const std::vector<Write>& m) {
        run(e, PrefixDotBackward<Real>{k->value, q->value, zk->gradient, zq->gradient, k->gradient,
                                       q->gradient, *position, m[0], m[1]});
      });
  return {zk, zq};
}

template <class Real>
Variable<Real>* erase_ratio(Graph<Real>& g, Variable<Real>* a, Variable<Real>* b) {
  require(a->value.size() == b->value.size(), "erase_ratio", a->value, b->value);
  auto* y = g.like(b, b->value.columns());
  g.node(
      "erase_ratio", {a, b}, {y},
      [=](const Exec& e) {
        run(e, EraseRatioForward<Real>{a->value, b->value, y->value});
      },
      [=](const Exec& e, const std::vector<Write>& m) {
        run(e,
            EraseRatioBackward<Real>{b->value, y->value, y->gradient, a->gradient, b->gradient, m[0], m[1]});
      });
  return y;
}

template <class Real>
Variable<Real>* row_divide(Graph<Real>& g, double eps, Variable<Real>* a, Variable<Real>* b) {
  require(a->value.rows() == b->value.size(), "row_divide", a->value, b->value);
  auto* y = g.like(a, a->value.columns());
  g.node(
      "row_divide", {a, b}, {y},
      [=](const Exec& e) {
        run(e, RowDivideForward<Real>{eps, a->value, b->value, y->value});
      },
      [=](const Exec& e, const std::vector<Write>& m) {
        run(e, RowDivideBackward<Real>{eps, b->value, y->value, y->gradient, a->gradient, b->gradient, m[0],
                                       m[1]});
      });
  return y;
}

template <class Real>
Variable<Real>* gather_values(Graph<Real>& g, Variable<Real>* a, int values, const BatchTensors& batch,
                              std::optional<double> eps) {
  const auto* tokens = batch.tokens;
  auto* y = g.like(a, values);
  auto* w = eps ? g.variable({batch.B, batch.Q, batch.T}, false) : nullptr;
  auto* inverse = eps ? g.variable({batch.B, batch.Q}, false) : nullptr;
  g.node(
      "gather_values", {a}, {y},
      [=](const Exec& e) {
        run(e, GatherValuesForward<Real>{a->value, y->value, *tokens, eps.value_or(0), value(w),
                                         value(inverse)});
      },
      [=](const Exec& e, const std::vector<Write>& m) {
        run(e, GatherValuesBackward<Real>{y->gradient, a->gradient, *tokens, m[0], value(w), value(inverse)});
      });
  return y;
}

template <class Real>
Variable<Real>* fwm_read(Graph<Real>& g, Variable<Real>* k, Variable<Real>* q, Variable<Real>* beta,
                         int values, const BatchTensors& batch) {
  const Device device = g.device();
  const int P = k->value.columns(), kept_columns = fwm_kept<Real>(device, batch.Q, P, values),
            kept_states = fwm_states<Real>(device, batch.T, batch.Q, P, values),
            states = fwm_workspace<Real>(device, batch.Q, P, values);
  const auto *tokens = batch.tokens, *position = batch.position;
  auto* y = g.variable({batch.B, batch.Q, values});
  auto* checkpoints = g.variable({batch.B, kept_states, values * P}, false);
  auto* kept = g.variable({batch.B, batch.T, kept_columns}, false);
  auto* workspace = g.train() ? g.variable({batch.B, states, values * P}, false) : nullptr;
  g.node(
      "fwm_read", {k, q, beta}, {y},
      [=](const Exec& e) {
        run(e, FwmReadForward<Real>{k->value, q->value, beta->value, y->value, checkpoints->value,
                                    kept->value, *tokens, *position});
      },
      [=](const Exec& e, const std::vector<Write>& m) {
        run(e, FwmReadBackward<Real>{k->value, q->value, beta->value, checkpoints->value, kept->value,
                                     workspace->value, y->gradient, k->gradient, q->gradient, beta->gradient,
                                     *tokens, *position, m[0], m[1], m[2]});
      });
  return y;
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
SquaredLoss<Real> squared_loss(Graph<Real>& g, Variable<Real>* y, const BatchTensors& batch) {
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

#define CROSSTALK_NODES(Real)                                                                               \
  template Variable<Real>* linear(Graph<Real>&, Variable<Real>*, Variable<Real>*, Variable<Real>*);         \
  template Variable<Real>* feature_map(Graph<Real>&, FeatureMap, int, Variable<Real>*, Variable<Real>*);    \
  template Variable<Real>* normalize(Graph<Real>&, RowNorm, double, Variable<Real>*);                       \
  template Variable<Real>* sigmoid(Graph<Real>&, double, Variable<Real>*);                                  \
  template Variable<Real>* affine(Graph<Real>&, double, double, Variable<Real>*);                           \
  template Variable<Real>* scores(Graph<Real>&, double, Variable<Real>*, Variable<Real>*,                   \
                                  const BatchTensors&);                                                     \
  template Variable<Real>* softmax(Graph<Real>&, Variable<Real>*, const BatchTensors&);                     \
  template Variable<Real>* recurrent_read(Graph<Real>&, Variable<Real>*, Variable<Real>*, Variable<Real>*,  \
                                          Variable<Real>*, Variable<Real>*, const BatchTensors&, bool);     \
  template PrefixDot<Real> prefix_dot(Graph<Real>&, Variable<Real>*, Variable<Real>*, const BatchTensors&); \
  template Variable<Real>* erase_ratio(Graph<Real>&, Variable<Real>*, Variable<Real>*);                     \
  template Variable<Real>* row_divide(Graph<Real>&, double, Variable<Real>*, Variable<Real>*);              \
  template Variable<Real>* gather_values(Graph<Real>&, Variable<Real>*, int, const BatchTensors&,           \
                                         std::optional<double>);                                            \
  template Variable<Real>* fwm_read(Graph<Real>&, Variable<Real>*, Variable<Real>*, Variable<Real>*, int,   \
                                    const BatchTensors&);                                                   \
  template Variable<Real>* favor_features(Graph<Real>&, int, int, const Tensor<std::int32_t>*,              \
                                          const Tensor<std::int32_t>*, std::uint32_t);                      \
  template SquaredLoss<Real> squared_loss(Graph<Real>&, Variable<Real>*, const BatchTensors&);
CROSSTALK_NODES(float)
CROSSTALK_NODES(double)

}  // namespace crosstalk

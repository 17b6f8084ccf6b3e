// The delta rule read straight from tables of keys. SPDX-License-Identifier: Apache-2.0
#include "models/graph/node_parts.h"

namespace crosstalk {

template <class Real>
Variable<Real>* table_recurrent_read(Graph<Real>& g, const std::vector<Table<Real>>& tables, FeatureMap map,
                                     int nu, RowNorm norm, double eps, Variable<Real>* q,
                                     Variable<Real>* beta, const BatchTensors& batch) {
  std::vector<Variable<Real>*> inputs = checked_tables("table_recurrent_read", *batch.tokens, tables);
  inputs.insert(inputs.begin(), {q, beta, beta});
  if (batch.Q != 1) throw std::logic_error("[table_recurrent_read] wants one query a sequence");
  const int d = tables[0].rows->value.columns(), P = q->value.columns();
  if (P != feature_dimension(map, d, nu, 0))
    throw std::logic_error("[table_recurrent_read] queries do not have the keys' features");
  auto* a = g.variable({batch.B, batch.Q, batch.T});
  auto* trail = g.train() ? g.variable({batch.B, P + (batch.T + 3) / 4 * 4}, false) : nullptr;
  auto* d_x = g.train() ? g.variable({batch.B, batch.T, d}, false) : nullptr;
  const auto *tokens = batch.tokens, *position = batch.position;
  const auto from = [=] {
    TableFeatures<Real> features;
    features.keys = table_keys(map, nu, *tokens, tables);
    features.normalised = true, features.norm = norm, features.eps = eps;
    return features;
  };
  g.node(
      "table_recurrent_read", inputs, {a},
      [=](const Exec& e) {
        TableRecurrenceForward<Real> args{from(), {}};
        args.read.q = q->value, args.read.write = args.read.erase = beta->value;
        args.read.a = a->value, args.read.position = *position;
        if (trail) args.read.trail = trail->value;
        run(e, args);
      },
      [=](const Exec& e, const std::vector<Write>& m) {
        TableRecurrenceBackward<Real> args{from(), {}, d_x->value};
        args.read.q = q->value, args.read.write = args.read.erase = beta->value;
        args.read.d_a = a->gradient, args.read.position = *position, args.read.trail = trail->value;
        args.read.d_q = q->gradient, args.read.write_q = m[0];
        args.read.d_write = args.read.d_erase = beta->gradient;
        args.read.write_write = m[1], args.read.write_erase = m[2];
        run(e, args);
        auto sums = table_gradients(*tokens, tables, {m.begin() + 3, m.end()});
        sums.d_y = d_x->value;
        run(e, sums);
      });
  return a;
}

template Variable<float>* table_recurrent_read(Graph<float>&, const std::vector<Table<float>>&, FeatureMap,
                                               int, RowNorm, double, Variable<float>*, Variable<float>*,
                                               const BatchTensors&);
template Variable<double>* table_recurrent_read(Graph<double>&, const std::vector<Table<double>>&, FeatureMap,
                                                int, RowNorm, double, Variable<double>*, Variable<double>*,
                                                const BatchTensors&);

}  // namespace crosstalk

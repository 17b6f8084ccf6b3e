// Nodes over tables of keys: rows looked up, and features of their sums.
// SPDX-License-Identifier: Apache-2.0
#include "models/graph/node_parts.h"

namespace crosstalk {

template <class Real>
Variable<Real>* lookup(Graph<Real>& g, const Tensor<std::int32_t>* from,
                       const std::vector<Table<Real>>& tables, Variable<Real>* bias) {
  checked_tables("lookup", *from, tables);
  Lookup<Real> op;
  op.ids = ids(from);
  op.bias = in(bias);
  for (const Table<Real>& table : tables) {
    op.channel[op.tables] = table.channel;
    op.order[op.tables] = ids(table.buckets.order), op.start[op.tables] = ids(table.buckets.start);
    op.table[op.tables++] = in(table.rows);
  }
  Variable<Real>* y = out<Real>(g.add(op).y);
  g.nodes().back().info = LookupNode<Real>{from, tables, bias};
  return y;
}

template <class Real>
void table_features(Graph<Real>& g, const Tensor<std::int32_t>* ids, const std::vector<Table<Real>>& tables,
                    FeatureMap map, int nu, const RowNorm* norm, double eps, Variable<Real>* y) {
  const std::vector<Variable<Real>*> inputs = checked_tables("table_features", *ids, tables);
  const int d = inputs[0]->value.columns(), B = ids->dim(0), T = ids->dim(1);
  auto* inverse = g.variable({B, T}, false);
  auto* d_x = g.variable({g.train() ? B : 1, T, d}, false);
  const auto from = [=, normalised = norm != nullptr, row_norm = norm ? *norm : RowNorm::sum] {
    return TableFeatures<Real>{table_keys(map, nu, *ids, tables), normalised, row_norm, eps};
  };
  g.node(
      "table_features", inputs, {y, inverse, d_x},
      [=](const Exec& e) {
        run_cpu(e, TableFeaturesForward<Real>{from(), y->value, inverse->value});
      },
      [=](const Exec& e, const std::vector<Write>& m) {
        run_cpu(e, TableFeaturesBackward<Real>{from(), inverse->value, y->gradient, d_x->value, y->value});
        auto args = table_gradients(*ids, tables, m);
        args.y.gradient = d_x->value;
        backward(e, args);
      });
}

#define CROSSTALK_TABLE_NODES(Real)                                                                        \
  template Variable<Real>* lookup(Graph<Real>&, const Tensor<std::int32_t>*,                               \
                                  const std::vector<Table<Real>>&, Variable<Real>*);                       \
  template void table_features(Graph<Real>&, const Tensor<std::int32_t>*, const std::vector<Table<Real>>&, \
                               FeatureMap, int, const RowNorm*, double, Variable<Real>*);
CROSSTALK_TABLE_NODES(float)
CROSSTALK_TABLE_NODES(double)

}  // namespace crosstalk

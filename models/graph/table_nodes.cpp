// Nodes over tables of keys: rows looked up.
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

template Variable<float>* lookup(Graph<float>&, const Tensor<std::int32_t>*, const std::vector<Table<float>>&,
                                 Variable<float>*);
template Variable<double>* lookup(Graph<double>&, const Tensor<std::int32_t>*,
                                  const std::vector<Table<double>>&, Variable<double>*);

}  // namespace crosstalk

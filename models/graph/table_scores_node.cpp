// Scores straight from tables of keys.
// SPDX-License-Identifier: Apache-2.0
#include "models/graph/node_parts.h"

namespace crosstalk {

template <class Real>
Variable<Real>* table_scores(Graph<Real>& g, double scale, FeatureMap map, int nu,
                             const std::vector<Table<Real>>& tables, Variable<Real>* omega,
                             Variable<Real>* query, const BatchIds& batch, Variable<Real>* a) {
  std::vector<Variable<Real>*> inputs = checked_tables("table_scores", *batch.tokens, tables);
  for (const auto& table : tables)
    if (g.train() && !table.buckets.order)
      throw std::logic_error("[table_scores] a table without lists has no gradient");
  inputs.insert(inputs.begin(), query);
  const int d = tables[0].rows->value.columns();
  std::vector<Variable<Real>*> projected;
  if (omega) {
    for (const auto& table : tables) projected.push_back(linear<Real>(g, table.rows, omega, nullptr));
    inputs.insert(inputs.end(), projected.begin(), projected.end());
  }
  if (query->value.columns() != d) throw std::logic_error("[table_scores] queries are no keys");
  const int p = map_width(map, d, nu, omega ? omega->value.dim(0) : 0);
  auto* q = g.variable({batch.B, batch.Q, p}, false);
  auto* d_q = g.variable({g.train() ? batch.B : 1, batch.Q, p}, false);
  if (!a) a = g.variable({batch.B, batch.Q, batch.T});
  auto* shift = omega ? g.variable({batch.B, batch.T}, false) : nullptr;
  const auto *tokens = batch.tokens, *position = batch.position;
  const auto keys_of = [=] {
    auto keys = table_keys(map, nu, *tokens, tables);
    for (std::size_t i = 0; i < projected.size(); ++i) keys.projected[i] = projected[i]->value;
    return keys;
  };
  const auto omega_of = [=] { return omega ? omega->value : Tensor<Real>{}; };
  const auto shift_of = [=] { return shift ? shift->value : Tensor<Real>{}; };
  g.node(
      "table_scores", inputs, {a},
      [=](const Exec& e) {
        run_fused(e, "table_scores",
                  TableScoresForward<Real>{keys_of(), scale, query->value, omega_of(), q->value, a->value,
                                           shift_of(), *position});
      },
      [=](const Exec& e, const std::vector<Write>& m) {
        TableScoresBackward<Real> args;
        args.keys = keys_of();
        args.scale = scale;
        args.query = query->value, args.omega = omega_of(), args.q = q->value, args.a = a->value,
        args.shift = shift_of(), args.d_a = a->gradient;
        args.position = *position;
        args.d_q = d_q->value, args.d_query = query->gradient, args.write_query = m[0];
        for (std::size_t i = 0; i < tables.size(); ++i) {
          args.order[i] = *tables[i].buckets.order, args.start[i] = *tables[i].buckets.start;
          args.d_table[i] = tables[i].rows->gradient, args.write_table[i] = m[1 + i];
          if (!omega) continue;
          args.d_projected[i] = projected[i]->gradient, args.write_projected[i] = m[1 + tables.size() + i];
        }
        run_fused(e, "table_scores", args);
      });
  return a;
}

template Variable<float>* table_scores(Graph<float>&, double, FeatureMap, int,
                                       const std::vector<Table<float>>&, Variable<float>*, Variable<float>*,
                                       const BatchIds&, Variable<float>*);
template Variable<double>* table_scores(Graph<double>&, double, FeatureMap, int,
                                        const std::vector<Table<double>>&, Variable<double>*,
                                        Variable<double>*, const BatchIds&, Variable<double>*);

}  // namespace crosstalk

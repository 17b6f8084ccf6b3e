// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>

#include "kernels/ops/all.h"
#include "models/graph/nodes.h"

namespace crosstalk {

template <class Real>
Variable<Real>* table_recurrent_read(Graph<Real>& g, const std::vector<Table<Real>>& tables, FeatureMap map,
                                     int nu, RowNorm norm, double eps, Variable<Real>* q,
                                     Variable<Real>* beta, const BatchTensors& batch) {
  if (tables.empty() || tables.size() > kMaxTables || batch.Q != 1)
    throw std::logic_error("[table_recurrent_read] wants 1 to 3 tables and one query a sequence");
  const int d = tables[0].rows->value.columns(), P = q->value.columns();
  std::vector<Variable<Real>*> inputs = {q, beta, beta};
  for (const auto& table : tables) {
    if (table.rows->value.columns() != d || table.channel >= batch.C)
      throw std::logic_error("[table_recurrent_read] tables do not fit each other or the tokens");
    inputs.push_back(table.rows);
  }
  if (P != feature_dimension(map, d, nu, 0))
    throw std::logic_error("[table_recurrent_read] queries do not have the keys' features");
  auto* a = g.variable({batch.B, batch.Q, batch.T});
  auto* trail = g.train() ? g.variable({batch.B, P + (batch.T + 3) / 4 * 4}, false) : nullptr;
  auto* d_x = g.train() ? g.variable({batch.B, batch.T, d}, false) : nullptr;
  const auto *tokens = batch.tokens, *position = batch.position;
  const auto from = [=] {
    TableFeatures<Real> features;
    features.keys.map = map, features.keys.nu = nu, features.keys.ids = *tokens;
    features.normalised = true, features.norm = norm, features.eps = eps;
    for (const auto& table : tables) {
      features.keys.channel[features.keys.tables] = table.channel;
      features.keys.table[features.keys.tables++] = table.rows->value;
    }
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
        LookupBackward<Real> sums;
        sums.ids = *tokens, sums.d_y = d_x->value;
        for (const auto& [rows, channel, buckets] : tables) {
          sums.channel[sums.tables] = channel;
          sums.write_table[sums.tables] = m[3 + static_cast<std::size_t>(sums.tables)];
          if (buckets.order) {
            sums.order[sums.tables] = *buckets.order;
            sums.start[sums.tables] = *buckets.start;
          }
          sums.d_table[sums.tables++] = rows->gradient;
        }
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

// Nodes of graphs: functions that check shapes, make the output and add the node. Ops without a function here
// are added as they are (Graph::add).
//
// Shape errors are bugs of a model, so they throw std::logic_error, naming the op and both shapes.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "kernels/feature_map/feature_map.h"
#include "kernels/norm/normalize.h"
#include "models/graph/graph.h"

namespace crosstalk {

/// The integer tensors of a batch inside a graph (see kernels/base/batch.h), as nodes read them.
struct BatchIds {
  const Tensor<std::int32_t>*tokens = nullptr, *query = nullptr, *position = nullptr, *target = nullptr;
  int B = 0, T = 0, C = 0, Q = 0;
};

/// The same for who makes and fills them.
struct BatchTensors {
  Tensor<std::int32_t>*tokens = nullptr, *query = nullptr, *position = nullptr, *target = nullptr;
  int B = 0, T = 0, C = 0, Q = 0;
  operator BatchIds() const { return {tokens, query, position, target, B, T, C, Q}; }
};

/// y = x w^T + b: x [R,N..,I], w [R,O,I], b [R,O] or nullptr -> [R,N..,O].
template <class Real>
Variable<Real>* linear(Graph<Real>& g, Variable<Real>* x, Variable<Real>* w, Variable<Real>* b);

/// Lists of where each id of a channel of `ids` stands (embedding/lookup.h), shared by all lookups of the
/// channel. No node makes them: ModelGraph::prepare() does, when ids have been filled.
struct Buckets {
  const Tensor<std::int32_t>* ids = nullptr;
  int channel = 0;
  Tensor<std::int32_t>*order = nullptr, *start = nullptr;
};

/// One table of a lookup and the channel of `ids` that chooses its rows.
template <class Real>
struct Table {
  Variable<Real>* rows;  ///< [R,n,D]
  int channel;
  Buckets buckets = {};  ///< of the channel; wanted in training on a GPU
};
/// ids int32 [R,B,T,C], tables [R,n,D], bias [R,D], or [R,m,D] for each position (m at least T), or nullptr
/// -> [R,B,T,D].
template <class Real>
Variable<Real>* lookup(Graph<Real>& g, const Tensor<std::int32_t>* ids,
                       const std::vector<Table<Real>>& tables, Variable<Real>* bias);

/// Facts of a lookup for passes (models/graph/passes.h) that replace it.
template <class Real>
struct LookupNode {
  const Tensor<std::int32_t>* ids;
  std::vector<Table<Real>> tables;
  Variable<Real>* bias;
};

/// phi of rows: [R,B,N,d] -> [R,B,N,p]. number: what the map counts (feature_map/feature_map.h). omega
/// [R,m,d] for FAVOR+, else nullptr.
template <class Real>
Variable<Real>* feature_map(Graph<Real>& g, FeatureMap map, int number, Variable<Real>* x,
                            Variable<Real>* omega);

template <class Real>
Variable<Real>* normalize(Graph<Real>& g, RowNorm norm, double eps, Variable<Real>* x);

/// Products scale q.k [R,B,Q,T] of feature_map() of the query and feature_map() of lookup(), 0 for tokens not
/// seen, in one op that writes no keys (fused/table_scores.h). In training the tables must have buckets. a:
/// where to, or a new variable.
template <class Real>
Variable<Real>* table_scores(Graph<Real>& g, double scale, FeatureMap map, int nu,
                             const std::vector<Table<Real>>& tables, Variable<Real>* omega,
                             Variable<Real>* query, const BatchIds& batch, Variable<Real>* a = nullptr);

/// Read weights [R,B,Q,T] to values [R,B,Q,V]; with eps, weights divided by (their sum + eps).
template <class Real>
Variable<Real>* gather_values(Graph<Real>& g, Variable<Real>* a, int values, const BatchIds& batch,
                              std::optional<double> eps = {});

/// omega [R,m,d] drawn anew in every forward pass from (seed [R,2], draw [R,1], purpose).
template <class Real>
Variable<Real>* favor_features(Graph<Real>& g, int m, int d, const Tensor<std::int32_t>* seed,
                               const Tensor<std::int32_t>* draw, std::uint32_t purpose);

/// x with numbers dropped (elementwise/dropout.h) by seed [R,2], draw [R,1] and `site`.
template <class Real>
Variable<Real>* dropout(Graph<Real>& g, double rate, std::uint32_t site, Variable<Real>* x,
                        const Tensor<std::int32_t>* seed, const Tensor<std::int32_t>* draw);

/// Results of a loss; unused query slots have loss 0 and correct -1.
template <class Real>
struct QueryLoss {
  Variable<Real>*query_loss, *loss;  ///< [R,B,Q], [R,1]
  Tensor<std::int32_t>* correct;     ///< [R,B,Q]
};
/// Squared loss against one-hot targets: a node without outputs.
template <class Real>
QueryLoss<Real> squared_loss(Graph<Real>& g, Variable<Real>* y, const BatchIds& batch);
/// Cross-entropy of logits x w^T (loss/cross_entropy.h): x [R,B,Q,D], w [R,V,D]. A node without outputs.
template <class Real>
QueryLoss<Real> cross_entropy(Graph<Real>& g, Variable<Real>* x, Variable<Real>* w, const BatchIds& batch);

}  // namespace crosstalk

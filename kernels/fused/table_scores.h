// Scores of queries against keys that exist only as sums of table rows: a_qt = scale phi(query_q).phi(k_t),
// k_t = sum_i table_i[ids[t, channel_i]].
//
// The chain lookup, feature maps, scores, which a CPU runs, in one op: for few queries a sequence, writing k
// [R,B,T,d] and phi(k) [R,B,T,p] and reading them and their gradients back costs more than computing them
// anew. FAVOR+ needs O k_t as well, which is a sum of rows of table_i O^T: rows x m products instead of
// tokens x m. position [R,B,Q] is the number of tokens that a query sees; scores of later tokens are 0 and
// pass no gradient.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/fused/table_keys.h"

namespace crosstalk {

/// query [R,B,Q,d], omega [R,m,d] for FAVOR+ only -> q = phi(query) [R,B,Q,p], which the backward pass wants,
/// and a [R,B,Q,T]; for FAVOR+ also shift_t = -(|k_t|^2 + log p) / 2 [R,B,T], the
/// part of its exponents that all features of a token share.
template <class Real>
struct TableScoresForward {
  TableKeys<Real> keys;
  double scale = 1;
  Tensor<Real> query, omega, q, a, shift;
  Tensor<std::int32_t> position;
};

/// d_a [R,B,Q,T] -> d_query, d_table, d_projected; d_q [R,B,Q,p] is workspace. Needs a and shift for FAVOR+.
/// order, start: lists of BucketIds of each table's channel; a row's gradient is the sum over its list.
template <class Real>
struct TableScoresBackward {
  TableKeys<Real> keys;
  double scale = 1;
  Tensor<Real> query, omega, q, a, shift, d_a;
  Tensor<std::int32_t> position, order[kMaxTables], start[kMaxTables];
  Tensor<Real> d_q, d_query, d_table[kMaxTables], d_projected[kMaxTables];
  Write write_query = Write::none;
  Write write_table[kMaxTables] = {Write::none, Write::none, Write::none};
  Write write_projected[kMaxTables] = {Write::none, Write::none, Write::none};
};

/// Maps of entries, DPFP and FAVOR+; on CUDA keys in the registers of a warp, DPFP's
/// neighbours in those of one lane.
constexpr int kTableScoresColumns = 128, kTableScoresNu = 3;
constexpr bool table_scores_cover(FeatureMap map, int d, int nu) {
  return d <= kTableScoresColumns &&
         (is_entry_map(map) || map == FeatureMap::favor || (map == FeatureMap::dpfp && nu <= kTableScoresNu));
}

CROSSTALK_STEP_ON(cuda, TableScoresForward)
CROSSTALK_STEP_ON(cuda, TableScoresBackward)

}  // namespace crosstalk

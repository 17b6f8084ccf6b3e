// Sum of table rows chosen by token channels: y_n = b + sum_c table_c[ids[n,c]]; absent ids (-1) add nothing.
// The bias b is one row, or one for each position in the sequence (learned positions).
//
// The product of a weight with one-hot or embedded tokens, without forming either: W [onehot(v); E[k]] is a
// row of W's transpose plus a row of the small product E W^T.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stdexcept>

#include "kernels/base/buffer.h"
#include "kernels/base/op.h"

namespace crosstalk {

constexpr int kMaxTables = 3;
/// Rows that a GPU adds to a table without lists.
constexpr int kFewIds = 256;

/// Lists of where each id stands: order int32 [R,N] lists the n with ids[n,channel] = 0, then 1, ... each in growing
/// order; those of id i lie at start[i] .. start[i+1]-1, start int32 [R,rows+1]. Absent ids are in no list.
/// `copies` batches, one after the other within a replica of each tensor, get lists of their own.
template <class Real>
struct BucketIds {
  Tensor<std::int32_t> ids;
  int channel = 0, copies = 1;
  Tensor<std::int32_t> order, start;
};

/// Backward: d_table[i][id] = sum over the n with that id of d_y[n], d_bias = sum over n, in the order of n.
/// Rows of a bias behind the sequence have a gradient of 0.
template <class Real>
struct Lookup {
  int tables = 0;
  int channel[kMaxTables] = {};
  Ids ids;                                   ///< int32 [R,N..,C]
  In<Real> table[kMaxTables];                ///< [R,rows_i,D], read with ids[..., channel[i]]
  In<Real> bias;                             ///< [R,D], or [R,m,D]: row t for token t < T <= m; may be absent
  Ids order[kMaxTables], start[kMaxTables];  ///< of BucketIds, for backward on CUDA (lookup_lists.cuh)
  Out<Real> y;                               ///< [R,N..,D]

  static constexpr const char* kName = "lookup";
  void fields(auto&& f) {
    f("ids", ids);
    f("table0", table[0]), f("table1", table[1]), f("table2", table[2]), f("bias", bias);
    f("order0", order[0]), f("order1", order[1]), f("order2", order[2]);
    f("start0", start[0]), f("start1", start[1]), f("start2", start[2]), f("y", y);
  }
  void plan() {
    y.value = shaped<Real>(table[0].value.R, {});
    y.value.rank = ids.value.rank;
    for (int i = 0; i + 1 < ids.value.rank; ++i) y.value.dims[i] = ids.value.dims[i];
    y.value.dims[ids.value.rank - 1] = table[0].value.columns();
    if (bias && (bias.value.columns() != y.value.columns() ||
                 (bias.value.rank == 2 && (y.value.rank != 3 || y.value.dim(1) > bias.value.dim(0)))))
      throw std::logic_error("[lookup] the bias does not fit");
  }
  /// Rows of the bias that tokens take in turn: the T of a sequence, or one for all.
  CT_HD int bias_rows() const { return bias.value.rank == 2 ? y.value.dim(1) : 1; }
};
CROSSTALK_OP(Lookup)

CROSSTALK_STEP(BucketIds)

}  // namespace crosstalk

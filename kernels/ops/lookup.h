// Sum of table rows chosen by token channels: y_n = b + sum_c table_c[ids[n,c]]; absent ids (-1) add nothing.
//
// The product of a weight with one-hot or embedded tokens, without forming either: W [onehot(v); E[k]] is a
// row of W's transpose plus a row of the small product E W^T. SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/exec.h"

namespace crosstalk {

constexpr int kMaxTables = 3;

/// ids int32 [R,N,C]; table[i] [R,rows_i,D] is read with ids[..., channel[i]]; bias [R,D] may be absent; y
/// [R,N,D].
template <class Real>
struct LookupForward {
  Tensor<std::int32_t> ids;
  int tables = 0;
  Tensor<Real> table[kMaxTables];
  int channel[kMaxTables] = {};
  Tensor<Real> bias, y;
};

/// Where each id stands: order int32 [R,N] lists the n with ids[n,channel] = 0, then 1, ... each in growing
/// order; those of id i lie at start[i] .. start[i+1]-1, start int32 [R,rows+1]. Absent ids are in no list.
/// `copies` batches, one after the other within a replica of each tensor, get lists of their own.
template <class Real>
struct BucketIds {
  Tensor<std::int32_t> ids;
  int channel = 0, copies = 1;
  Tensor<std::int32_t> order, start;
};

/// d_y [R,N,D] -> d_table[i][id] = sum over n of d_y[n], d_bias = sum over n, in the order of n.
template <class Real>
struct LookupBackward {
  Tensor<std::int32_t> ids;
  int tables = 0;
  Tensor<Real> d_table[kMaxTables];
  int channel[kMaxTables] = {};
  Write write_table[kMaxTables] = {Write::none, Write::none, Write::none};
  Tensor<std::int32_t> order[kMaxTables], start[kMaxTables];  ///< of BucketIds; absent: ids are searched
  Tensor<Real> d_y, d_bias;
  Write write_bias = Write::none;
};

template <class Real>
void run_cpu(const Exec& exec, const BucketIds<Real>& args);
template <class Real>
void run_cuda(const Exec& exec, const BucketIds<Real>& args);
template <class Real>
void run_cpu(const Exec& exec, const LookupForward<Real>& args);
template <class Real>
void run_cpu(const Exec& exec, const LookupBackward<Real>& args);
template <class Real>
void run_cuda(const Exec& exec, const LookupForward<Real>& args);
template <class Real>
void run_cuda(const Exec& exec, const LookupBackward<Real>& args);

}  // namespace crosstalk

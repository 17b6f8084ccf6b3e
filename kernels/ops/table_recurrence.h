// The erasing recurrence read over keys that exist only as features of table rows: RecurrentRead
// (ops/recurrence.h) after TableFeatures (ops/table_features.h) in one op, for one query a sequence.
//
// Equal to the two, but the features [R,B,T,P] and their gradient, which four kernels would write and read,
// never travel through memory: they are made where a chunk of tokens needs them, from tables that stay in the
// caches. SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/ops/recurrence.h"
#include "kernels/ops/table_features.h"

namespace crosstalk {

/// read without k and decay, Q = 1 and, for the backward pass, with a trail.
template <class Real>
struct TableRecurrenceForward {
  TableFeatures<Real> from;
  RecurrentReadForward<Real> read;
};

/// read without d_k; d_x [R,B,T,d] (overwritten) is what LookupBackward adds up into tables.
template <class Real>
struct TableRecurrenceBackward {
  TableFeatures<Real> from;
  RecurrentReadBackward<Real> read;
  Tensor<Real> d_x;
};

/// What the CUDA version covers: the keys of nearly all studies, whose rows fit half a warp.
constexpr bool table_recurrence_covers(FeatureMap map, int d, int nu) {
  return d == 64 && map != FeatureMap::favor_hyperbolic && map != FeatureMap::favor_positive &&
         (map != FeatureMap::dpfp || nu <= 2);
}

template <class Real>
void run_cpu(const Exec& exec, const TableRecurrenceForward<Real>& args);
template <class Real>
void run_cuda(const Exec& exec, const TableRecurrenceForward<Real>& args);
template <class Real>
void run_cpu(const Exec& exec, const TableRecurrenceBackward<Real>& args);
template <class Real>
void run_cuda(const Exec& exec, const TableRecurrenceBackward<Real>& args);

}  // namespace crosstalk

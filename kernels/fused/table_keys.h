// Keys that exist only as sums of table rows, and the feature map that reads them: what the ops over tables
// share.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/embedding/lookup.h"
#include "kernels/feature_map/feature_map.h"

namespace crosstalk {

/// Keys of tokens ids int32 [R,B,T,C]: table[i] [R,rows_i,d] is read with ids[..., channel[i]], absent ids
/// (-1) add nothing. projected[i] = table[i] O^T [R,rows_i,m] for FAVOR+ only.
template <class Real>
struct TableKeys {
  FeatureMap map = FeatureMap::identity;
  int nu = 1;
  Tensor<std::int32_t> ids;
  int tables = 0;
  Tensor<Real> table[kMaxTables], projected[kMaxTables];
  int channel[kMaxTables] = {};
};

}  // namespace crosstalk

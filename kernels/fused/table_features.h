// Normalised features of looked-up keys in one op: y_n = norm(phi(x_n)), x_n = sum_c table_c[ids[n,c]].
//
// Equal to Lookup, FeatureMap and Normalize one after the other, but x and phi(x) never travel through memory: they are made again in
// the backward pass (a few products a number, against four passes over [R,N,p]). Maps of single entries and DPFP; FAVOR+ has products of
// its own. The CPU runs that chain a few rows at a time, with the same bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/fused/table_keys.h"
#include "kernels/norm/normalize.h"

namespace crosstalk {

/// Maps of entries and DPFP; on a GPU of keys whose 32, 64 or 128 numbers are a few a lane. Others run the chain.
constexpr bool table_features_cover(FeatureMap map, int nu, int d, Device device = Device::cuda) {
  if (!is_entry_map(map) && map != FeatureMap::dpfp) return false;
  return device == Device::cpu || ((map != FeatureMap::dpfp || nu < 32) && (d == 32 || d == 64 || d == 128));
}

/// Features of the rows x [R,N,d] that the tables give: phi(x), normalised.
template <class Real>
struct TableFeatures {
  TableKeys<Real> keys;
  bool normalised = false;      ///< false: y = phi(x), and `inverse` is not touched
  RowNorm norm = RowNorm::sum;  ///< sum or l2
  double eps = 0;
};

/// -> y [R,N,p], inverse [R,N]: what rows of phi(x) were multiplied by.
template <class Real>
struct TableFeaturesForward {
  TableFeatures<Real> from;
  Tensor<Real> y, inverse;
};

/// inverse, d_y, y [R,N,p] -> d_x [R,N,d] (overwritten): what the backward pass of Lookup adds up into tables. A GPU makes y again.
template <class Real>
struct TableFeaturesBackward {
  TableFeatures<Real> from;
  Tensor<Real> inverse, d_y, d_x, y;
};

CROSSTALK_STEP(TableFeaturesForward)
CROSSTALK_STEP(TableFeaturesBackward)

}  // namespace crosstalk

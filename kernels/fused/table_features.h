// Normalised features of looked-up keys in one op: y_n = norm(phi(x_n)), x_n = sum_c table_c[ids[n,c]].
//
// Equal to Lookup, FeatureMap and Normalize one after the other, which the CPU runs a few rows at a time, with the same bits: x and phi(x)
// stay in its caches, and are made again in the backward pass. Of DPFP alone, whose gradient reads no features.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/fused/table_keys.h"
#include "kernels/norm/normalize.h"

namespace crosstalk {

/// DPFP-2 and wider; the features of others are too few for a gain (benchmarks/README.md: DPFP-1 1.02 times).
constexpr bool table_features_cover(FeatureMap map, int nu) { return map == FeatureMap::dpfp && nu >= 2; }

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

/// inverse, d_y, y [R,N,p] -> d_x [R,N,d] (overwritten): what the backward pass of Lookup adds up into tables.
template <class Real>
struct TableFeaturesBackward {
  TableFeatures<Real> from;
  Tensor<Real> inverse, d_y, d_x, y;
};

CROSSTALK_STEP_ON(cpu, TableFeaturesForward)
CROSSTALK_STEP_ON(cpu, TableFeaturesBackward)

}  // namespace crosstalk

// Feature maps of single entries on the device: phi(x), and phi'(x) times what comes in.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/ops/feature_map.h"

namespace crosstalk::device {

/// max(0, x), but NaN stays NaN: a diverged model must not look finite.
template <class Real>
__device__ __forceinline__ Real rectified(Real x) {
  return x < 0 ? Real(0) : x;
}

template <class Real>
__device__ __forceinline__ Real map_entry(FeatureMap map, Real x) {
  switch (map) {
    case FeatureMap::identity:
      return x;
    case FeatureMap::elu1:
      return x > 0 ? x + 1 : exp(x);
    case FeatureMap::relu:
      return rectified(x);
    default:
      return tanh(x);
  }
}

/// y = phi(x).
template <class Real>
__device__ __forceinline__ Real map_entry_backward(FeatureMap map, Real x, Real y, Real d_y) {
  switch (map) {
    case FeatureMap::identity:
      return d_y;
    case FeatureMap::elu1:  // 1 for x > 0, else exp(x) = phi
      return x > 0 ? d_y : d_y * y;
    case FeatureMap::relu:
      return x > 0 ? d_y : Real(0);
    default:
      return d_y * (1 - y * y);
  }
}

}  // namespace crosstalk::device

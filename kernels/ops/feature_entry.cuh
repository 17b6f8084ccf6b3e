// Feature maps of single entries on the device: phi(x), and phi'(x) times what comes in.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <type_traits>

#include "kernels/ops/feature_map.h"

namespace crosstalk::device {

/// max(0, x), but NaN stays NaN: a diverged model must not look finite.
template <class Real>
__device__ __forceinline__ Real rectified(Real x) {
  return x < 0 ? Real(0) : x;
}

/// The same in one instruction.
__device__ __forceinline__ float positive_part(float x) {
  float y;
  asm("max.NaN.f32 %0, %1, 0f00000000;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ double positive_part(double x) { return rectified(x); }

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

/// Calls f(map as a type), so that one choice serves several entries.
template <class F>
__device__ __forceinline__ void with_map(FeatureMap map, F&& f) {
  switch (map) {
    case FeatureMap::identity:
      return f(std::integral_constant<FeatureMap, FeatureMap::identity>());
    case FeatureMap::elu1:
      return f(std::integral_constant<FeatureMap, FeatureMap::elu1>());
    case FeatureMap::relu:
      return f(std::integral_constant<FeatureMap, FeatureMap::relu>());
    default:
      return f(std::integral_constant<FeatureMap, FeatureMap::tanh>());
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

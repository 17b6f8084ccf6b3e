// Feature maps of single entries on the device: phi(x), and phi'(x) times what comes in.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/feature_map/feature_map.h"

namespace crosstalk::device {

/// max(0, x), but NaN stays NaN: a diverged model must not look finite.
template <class Real>
CT_DEVICE Real rectified(Real x) {
  return x < 0 ? Real(0) : x;
}

/// The exponential that maps take.
struct PlainExp {
  template <class Real>
  static CT_DEVICE Real of(Real x) {
    return std::exp(x);
  }
};

template <class Map, class Exp = PlainExp, class Real>
CT_DEVICE Real entry_value(Real x) {
  if constexpr (Map::kFamily != maps::Family::entry)
    return x;  // not reached
  else if constexpr (Map::kCore == maps::Core::exp)
    return Map::value(x, Exp::of(Map::argument(x)));
  else if constexpr (Map::kCore == maps::Core::tanh)
    return Map::value(x, static_cast<Real>(std::tanh(Map::argument(x))));
  else
    return Map::value(x, x);
}

template <class Map, class Real>
CT_DEVICE Real entry_pull(Real x, Real y, Real g) {
  if constexpr (Map::kFamily != maps::Family::entry)
    return g;
  else
    return Map::pull(x, y, g);
}

template <class Real>
CT_DEVICE Real map_entry(FeatureMap map, Real x) {
  return visit_map(map, [&]<class Map>() { return entry_value<Map>(x); });
}

/// y = phi(x).
template <class Real>
CT_DEVICE Real map_entry_backward(FeatureMap map, Real x, Real y, Real d_y) {
  return visit_map(map, [&]<class Map>() { return entry_pull<Map>(x, y, d_y); });
}

}  // namespace crosstalk::device

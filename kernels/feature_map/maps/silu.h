// phi(x) = x / (1 + e^-x), the map of the DeltaNet family (Yang et al. 2024, arXiv 2406.06484).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/feature_map/maps/map_file.h"

namespace crosstalk::maps {

struct silu : EntryMap {
  static constexpr Core kCore = Core::exp;
  template <class Real>
  CT_HD static Real argument(Real x) {  // at most 0: no overflow
    return x > 0 ? -x : x;
  }
  template <class Real>
  CT_HD static Real value(Real x, Real e) {
    return x * sigmoid(x, e);
  }
  template <class Real>
  CT_HD static Real pull(Real x, Real y, Real g) {
    const Real s = sigmoid(x, std::exp(argument(x)));
    return g * (s + y * (1 - s));
  }
  static MapInfo info() {
    return {.name = "silu",
            .formula = "phi(x) = x / (1 + e^-x)",
            .d_dot = "d_key",
            .source = "Yang et al. 2024, arXiv 2406.06484 (with key_norm l2)"};
  }

 private:
  /// 1 / (1 + e^-x) with e = e^-|x|.
  template <class Real>
  CT_HD static Real sigmoid(Real x, Real e) {
    return x > 0 ? 1 / (1 + e) : e / (1 + e);
  }
};

}  // namespace crosstalk::maps

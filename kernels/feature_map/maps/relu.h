// phi(x) = max(0, x).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/feature_map/maps/map_file.h"

namespace crosstalk::maps {

struct relu : EntryMap {
  template <class Real>
  CT_HD static Real value(Real x, Real) {
    return x < 0 ? Real(0) : x;  // NaN stays NaN: a diverged model must not look finite
  }
  template <class Real>
  CT_HD static Real pull(Real x, Real, Real g) {
    return x > 0 ? g : Real(0);
  }
  static bool all_zero(std::int64_t) { return true; }
  static MapInfo info() {
    return {.name = "relu",
            .formula = "phi(x) = max(0, x)",
            .d_dot = "d_key",
            .source = "common",
            .positive = true,
            .divides = always,
            .smooth = false,
            .vanishes = all_zero};
  }
};

}  // namespace crosstalk::maps

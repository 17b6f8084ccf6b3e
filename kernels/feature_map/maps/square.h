// phi(x) = x^2, entry by entry (Based's ablation of feature maps: Arora et al. 2024, arXiv 2402.18668).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/feature_map/maps/map_file.h"

namespace crosstalk::maps {

struct square : EntryMap {
  template <class Real>
  CT_HD static Real value(Real x, Real) {
    return x * x;
  }
  template <class Real>
  CT_HD static Real pull(Real x, Real, Real g) {
    return 2 * x * g;
  }
  static MapInfo info() {
    return {.name = "square",
            .formula = "phi(x) = x^2",
            .d_dot = "d_key",
            .source = "Arora et al. 2024, arXiv 2402.18668",
            .positive = true,
            .divides = always};
  }
};

}  // namespace crosstalk::maps

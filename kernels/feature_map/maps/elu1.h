// phi(x) = elu(x) + 1 (Katharopoulos et al. 2020, arXiv 2006.16236).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/feature_map/maps/map_file.h"

namespace crosstalk::maps {

struct elu1 : EntryMap {
  static constexpr Core kCore = Core::exp;
  template <class Real>
  CT_HD static Real argument(Real x) {
    return x > 0 ? Real(0) : x;
  }
  template <class Real>
  CT_HD static Real value(Real x, Real e) {
    return x > 0 ? x + 1 : e;
  }
  template <class Real>
  CT_HD static Real pull(Real x, Real y, Real g) {  // phi' = 1 for x > 0, else exp(x) = phi
    return x > 0 ? g : g * y;
  }
  static MapInfo info() {
    return {.name = "elu1",
            .formula = "phi(x) = elu(x) + 1",
            .d_dot = "d_key",
            .source = "Katharopoulos et al. 2020, arXiv 2006.16236",
            .positive = true,
            .divides = always};
  }
};

}  // namespace crosstalk::maps

// All polynomials of degree two: phi(x) = ((A x)^2 + B x^2) / sqrt(2), A and B learned, N(0, 1/d) at first (Based's ablation
// of feature maps: Arora et al. 2024, arXiv 2402.18668). The map is that of u = A x; a model adds B x^2 / sqrt(2), and
// features change sign. What is given without a model has no B.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/feature_map/maps/map_file.h"

namespace crosstalk::maps {

struct all_poly : EntryMap {
  template <class Real>
  CT_HD static Real value(Real u, Real) {
    return u * u * Real(0.70710678118654752440);
  }
  template <class Real>
  CT_HD static Real pull(Real u, Real, Real g) {
    return 2 * u * g * Real(0.70710678118654752440);
  }
  static MapInfo info() {
    return {.name = "all_poly",
            .formula = "phi(x) = ((A x)^2 + B x^2) / sqrt(2), A and B learned",
            .d_dot = "d_key",
            .source = "Arora et al. 2024, arXiv 2402.18668",
            .projection = Projection::polynomial};
  }
};

}  // namespace crosstalk::maps

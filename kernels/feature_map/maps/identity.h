// phi(x) = x.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/feature_map/maps/map_file.h"

namespace crosstalk::maps {

struct identity : EntryMap {
  template <class Real>
  CT_HD static Real value(Real x, Real) {
    return x;
  }
  template <class Real>
  CT_HD static Real pull(Real, Real, Real g) {
    return g;
  }
  static MapInfo info() {
    return {.name = "identity",
            .formula = "phi(x) = x",
            .d_dot = "d_key",
            .source = "Schmidhuber 1991; Yang et al. 2024 (with key_norm l2)"};
  }
};

}  // namespace crosstalk::maps

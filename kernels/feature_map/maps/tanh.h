// phi(x) = tanh(x) (Schlag, Munkhdalai, Schmidhuber 2021, arXiv 2011.07831).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/feature_map/maps/map_file.h"

namespace crosstalk::maps {

struct tanh : EntryMap {
  static constexpr Core kCore = Core::tanh;
  template <class Real>
  CT_HD static Real value(Real, Real e) {
    return e;
  }
  template <class Real>
  CT_HD static Real pull(Real, Real y, Real g) {
    return g * (1 - y * y);
  }
  static MapInfo info() {
    return {.name = "tanh",
            .formula = "phi(x) = tanh(x)",
            .d_dot = "d_key",
            .source = "Schlag, Munkhdalai, Schmidhuber 2021, arXiv 2011.07831"};
  }
};

}  // namespace crosstalk::maps

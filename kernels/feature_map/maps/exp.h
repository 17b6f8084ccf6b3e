// phi(x) = e^x; with key_norm sum the softmax over the entries of a key.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/feature_map/maps/map_file.h"

namespace crosstalk::maps {

struct exp : EntryMap {
  static constexpr Core kCore = Core::exp;
  template <class Real>
  CT_HD static Real value(Real, Real e) {
    return e;
  }
  template <class Real>
  CT_HD static Real pull(Real, Real y, Real g) {
    return g * y;
  }
  static MapInfo info() {
    return {.name = "exp",
            .formula = "phi(x) = e^x (with key_norm sum: softmax over the entries)",
            .d_dot = "d_key",
            .source = "Irie, Schlag, Csordas, Schmidhuber 2021, arXiv 2106.06295",
            .positive = true,
            .divides = always};
  }
};

}  // namespace crosstalk::maps

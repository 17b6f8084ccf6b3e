// FAVOR+: phi(x) = exp(-|x|^2/2) [exp(O x); exp(-O x)] / sqrt(2 m), or exp(O x) / sqrt(m) alone (Choromanski
// et al. 2021, arXiv 2009.14794), with O [m,d] random (ops/favor_features.h). It estimates exp(q.k), as the
// code of Schlag, Irie, Schmidhuber 2021 does: no d^(-1/4) scaling. |x|^2 is summed beside the product O x.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/feature_map/maps/map_file.h"

namespace crosstalk::maps {

struct favor : FusedMap {
  /// number: features a row of O: 2 (hyperbolic) or 1 (positive).
  static std::int64_t width(std::int64_t, int number, std::int64_t m) { return number * m; }

  static int halves(const Options& options, std::int64_t) {
    return options.get_string("memory.favor_variant") == "positive" ? 1 : 2;
  }
  static std::int64_t resolve(MapSetting& s) { return resolve_features(s, halves(s.options, s.d)); }
  static MapInfo info() {
    return {
        .name = "favor",
        .formula =
            "phi(x) = exp(-|x|^2/2) [exp(O x); exp(-O x)] / sqrt(2 m), O random and orthogonal; variant positive: exp(O x) / sqrt(m) alone",
        .d_dot = "2 features (hyperbolic), features (positive)",
        .source = "Choromanski et al. 2021, arXiv 2009.14794",
        .positive = true,
        .divides = always,
        .projection = Projection::random,
        .options = {features_option(),
                    {"favor_variant",
                     std::string("hyperbolic"),
                     "FAVOR+ estimator: d_dot = 2 m (hyperbolic) or m (positive)",
                     0,
                     0,
                     {"hyperbolic", "positive"}},
                    redraw_option()},
        .resolve = resolve,
        .number = halves};
  }
};

}  // namespace crosstalk::maps

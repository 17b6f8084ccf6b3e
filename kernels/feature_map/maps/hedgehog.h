// Hedgehog: phi(x) = softmax([2 u; -2 u]), u = W x + b learned, W the identity at first (Zhang et al. 2024,
// arXiv 2402.04347); variant exp: [exp(u); exp(-u)].
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/feature_map/maps/map_file.h"

namespace crosstalk::maps {

/// Rows are u [d]; number is 1 for softmax, 0 for exp.
struct hedgehog : RowMap {
  static std::int64_t width(std::int64_t d, int, std::int64_t) { return 2 * d; }
  template <class Team, class Real>
  CT_HD static void forward(const Team& team, const MapRow<Real>& row, Real* y) {
    const int d = row.d;
    Real shift = 0, scale = 1;
    const Real factor = row.number == 1 ? 2 : 1;
    if (row.number == 1) {
      team.each(0, d, [&](int i) {
        const Real u = std::fabs(row.x[i]) * factor;
        shift = u > shift ? u : shift;
      });
      shift = team.max(shift);
      Real sum = 0;
      team.each(0, d, [&](int i) {
        sum += std::exp(factor * row.x[i] - shift) + std::exp(-factor * row.x[i] - shift);
      });
      scale = 1 / team.sum(sum);
    }
    team.each(0, d, [&](int i) {
      y[i] = scale * std::exp(factor * row.x[i] - shift);
      y[d + i] = scale * std::exp(-factor * row.x[i] - shift);
    });
  }
  template <class Team, class Real>
  CT_HD static void backward(const Team& team, const MapRow<Real>& row, const Real* y, const Real* d_y,
                             RowGradient<Real> d_x) {
    const int d = row.d;
    Real along = 0;
    const Real factor = row.number == 1 ? 2 : 1;
    if (row.number == 1) {
      team.each(0, d, [&](int i) { along += y[i] * d_y[i] + y[d + i] * d_y[d + i]; });
      along = team.sum(along);
    }
    team.each(0, d,
              [&](int i) { d_x(i, factor * (y[i] * (d_y[i] - along) - y[d + i] * (d_y[d + i] - along))); });
  }
  static std::int64_t resolve(MapSetting& s) { return s.agreed(2 * s.d, "it must equal 2 d_key"); }
  static int is_softmax(const Options& options, std::int64_t) {
    return options.get_string("memory.hedgehog_variant") == "softmax" ? 1 : 0;
  }
  static MapInfo info() {
    return {.name = "hedgehog",
            .formula = "phi(x) = softmax([2 u; -2 u]), u = W x + b learned; variant exp: [exp(u); exp(-u)]",
            .d_dot = "2 d_key",
            .source = "Zhang et al. 2024, arXiv 2402.04347",
            .positive = true,
            .divides = always,
            .projection = Projection::learned,
            .options = {{"hedgehog_variant",
                         std::string("softmax"),
                         "Hedgehog's features: softmax over both signs, or their exponentials as they are",
                         0,
                         0,
                         {"softmax", "exp"}}},
            .resolve = resolve,
            .number = is_softmax};
  }
};

}  // namespace crosstalk::maps

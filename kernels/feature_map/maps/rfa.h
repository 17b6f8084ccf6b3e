// Random feature attention: phi(x) = sqrt(e / m) [sin(O u); cos(O u)], u = x / |x|, O [m,d] random (Peng et
// al. 2021, arXiv 2103.02143). phi(q).phi(k) estimates exp(q.k / (|q||k|)): the Gaussian kernel of unit
// vectors, e^-1 of which sqrt(e) takes back. Without the paper's learned temperature. Features change sign.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/feature_map/maps/map_file.h"

namespace crosstalk::maps {

/// Rows are O u [m].
struct rfa : RowMap {
  static std::int64_t width(std::int64_t m, int, std::int64_t) { return 2 * m; }
  template <class Team, class Real>
  CT_HD static void forward(const Team& team, const MapRow<Real>& row, Real* y) {
    const Real scale = std::sqrt(std::exp(Real(1)) / static_cast<Real>(row.d));
    team.each(0, row.d, [&](int i) {
      y[i] = scale * std::sin(row.x[i]);
      y[row.d + i] = scale * std::cos(row.x[i]);
    });
  }
  template <class Team, class Real>
  CT_HD static void backward(const Team& team, const MapRow<Real>& row, const Real* y, const Real* d_y,
                             RowGradient<Real> d_x) {
    const int m = row.d;
    team.each(0, m, [&](int i) { d_x(i, y[m + i] * d_y[i] - y[i] * d_y[m + i]); });
  }
  static std::int64_t resolve(MapSetting& s) { return resolve_features(s, 2); }
  static MapInfo info() {
    return {.name = "rfa",
            .formula = "phi(x) = sqrt(e / m) [sin(O u); cos(O u)], u = x / |x|, O random and orthogonal",
            .d_dot = "2 features",
            .source = "Peng et al. 2021, arXiv 2103.02143",
            .divides = always,
            .projection = Projection::random,
            .unit_rows = true,
            .options = {features_option(), redraw_option()},
            .resolve = resolve};
  }
};

}  // namespace crosstalk::maps

// Generalised FAVOR with ReLU: phi(x) = (relu(d^(-1/4) O x) + 1e-3) / sqrt(m), O [m,d] random (Choromanski et
// al. 2021, arXiv 2009.14794; 1e-3 as in the released code). phi(q).phi(k) estimates the arc-cosine kernel of
// order 1, not exp(q.k).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/feature_map/maps/map_file.h"

namespace crosstalk::maps {

/// Rows are O x [m]; number is d.
struct favor_relu : RowMap {
  static constexpr double kEps = 1e-3;
  static std::int64_t width(std::int64_t m, int, std::int64_t) { return m; }
  template <class Team, class Real>
  CT_HD static void forward(const Team& team, const MapRow<Real>& row, Real* y) {
    const Real scale = outer(row), inner = scale * fourth_root(row);
    team.each(0, row.d, [&](int i) {
      y[i] = (row.x[i] < 0 ? Real(0) : inner * row.x[i]) + scale * static_cast<Real>(kEps);
    });
  }
  template <class Team, class Real>
  CT_HD static void backward(const Team& team, const MapRow<Real>& row, const Real*, const Real* d_y,
                             RowGradient<Real> d_x) {
    const Real inner = outer(row) * fourth_root(row);
    team.each(0, row.d, [&](int i) { d_x(i, row.x[i] > 0 ? inner * d_y[i] : Real(0)); });
  }
  static std::int64_t resolve(MapSetting& s) { return resolve_features(s, 1); }
  static int keys(const Options&, std::int64_t d) { return static_cast<int>(d); }
  static MapInfo info() {
    return {.name = "favor_relu",
            .formula = "phi(x) = (relu(d_key^(-1/4) O x) + 1e-3) / sqrt(m), O random and orthogonal",
            .d_dot = "features",
            .source = "Choromanski et al. 2021, arXiv 2009.14794, generalised attention",
            .positive = true,
            .divides = always,
            .smooth = false,
            .projection = Projection::random,
            .options = {features_option(), redraw_option()},
            .resolve = resolve,
            .number = keys};
  }

 private:
  template <class Real>
  CT_HD static Real outer(const MapRow<Real>& row) {
    return 1 / std::sqrt(static_cast<Real>(row.d));
  }
  template <class Real>
  CT_HD static Real fourth_root(const MapRow<Real>& row) {
    return 1 / std::sqrt(std::sqrt(static_cast<Real>(row.number)));
  }
};

}  // namespace crosstalk::maps

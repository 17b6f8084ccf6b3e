// cosFormer: phi(x_t) = [relu(x) cos(a_t); relu(x) sin(a_t)], a_t = pi t / (2 T), so that phi(q_i).phi(k_j) = relu(q).relu(k)
// cos(a_i - a_j) (Qin et al. 2022, arXiv 2202.08791). T is the length of the sequence, as in its code.
//
// The map makes the pair (relu(x_c), 0) of every channel, and whoever has positions turns the pairs by a_t (MapInfo::turned).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/feature_map/maps/map_file.h"

namespace crosstalk::maps {

struct cosformer : RowMap {
  static std::int64_t width(std::int64_t d, int, std::int64_t) { return 2 * d; }
  template <class Team, class Real>
  CT_HD static void forward(const Team& team, const MapRow<Real>& row, Real* y) {
    team.each(0, row.d, [&](int i) {
      y[2 * i] = row.x[i] < 0 ? Real(0) : row.x[i];  // NaN stays NaN
      y[2 * i + 1] = row.x[i] == row.x[i] ? Real(0) : row.x[i];
    });
  }
  template <class Team, class Real>
  CT_HD static void backward(const Team& team, const MapRow<Real>& row, const Real*, const Real* d_y,
                             RowGradient<Real> d_x) {
    team.each(0, row.d, [&](int i) { d_x(i, row.x[i] > 0 ? d_y[2 * i] : Real(0)); });
  }
  static bool all_zero(std::int64_t) { return true; }
  static std::int64_t resolve(MapSetting& s) { return s.agreed(2 * s.d, "it must equal 2 d_key"); }
  static MapInfo info() {
    return {
        .name = "cosformer",
        .formula =
            "phi(x_t) = [relu(x) cos(a); relu(x) sin(a)], a = pi t / (2 T): phi(q_i).phi(k_j) = relu(q).relu(k) cos(pi (i - j) / (2 T))",
        .d_dot = "2 d_key",
        .source = "Qin et al. 2022, arXiv 2202.08791",
        .positive = true,
        .divides = always,
        .smooth = false,
        .vanishes = all_zero,
        .turned = true,
        .resolve = resolve};
  }
};

}  // namespace crosstalk::maps

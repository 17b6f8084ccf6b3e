// DPFP: f = [relu(x); relu(-x)], phi(x) = [f * roll(f, 1); ...; f * roll(f, nu)]
// (Schlag, Irie, Schmidhuber 2021, arXiv 2102.11174, section 5.3 and listing 1). p = 2 d nu.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/feature_map/maps/map_file.h"

namespace crosstalk::maps {

struct dpfp : RowMap {
  static std::int64_t width(std::int64_t d, int nu, std::int64_t) { return 2 * d * nu; }
  CT_HD static std::int64_t work(std::int64_t d, int) { return 4 * d; }  // f and its gradient

  template <class Team, class Real>
  CT_HD static void forward(const Team& team, const MapRow<Real>& row, Real* y) {
    const int w = 2 * row.d;
    Real* f = split(team, row);
    for (int j = 1; j <= row.number; ++j, y += w) {  // y_i = f_i f_{i-j}, both indices modulo 2 d
      const int shift = j % w;
      team.each(0, shift, [&](int i) { y[i] = f[i] * f[i + w - shift]; });
      team.each(shift, w, [&](int i) { y[i] = f[i] * f[i - shift]; });
    }
  }

  // d_f_i = sum over j of d_y_j,i f_{i-j} + d_y_j,i+j f_{i+j}: gathered; loops vectorise, lanes do not meet.
  template <class Team, class Real>
  CT_HD static void backward(const Team& team, const MapRow<Real>& row, const Real*, const Real* d_y,
                             RowGradient<Real> d_x) {
    const int d = row.d, w = 2 * d;
    const Real* f = split(team, row);
    Real* d_f = row.work + w;
    team.each(0, w, [&](int i) { d_f[i] = 0; });
    for (int j = 1; j <= row.number; ++j, d_y += w) {
      const int shift = j % w, back = w - shift;
      team.each(0, shift, [&](int i) { d_f[i] += d_y[i] * f[i + back]; });
      team.each(shift, w, [&](int i) { d_f[i] += d_y[i] * f[i - shift]; });
      team.each(0, back, [&](int i) { d_f[i] += d_y[i + shift] * f[i + shift]; });
      team.each(back, w, [&](int i) { d_f[i] += d_y[i - back] * f[i - back]; });
    }
    team.sync();
    team.each(0, d, [&](int i) {
      const Real positive = d_f[i],
                 negative = d_f[d + i];  // read first: a choice of loads does not vectorise
      d_x(i, (row.x[i] > 0 ? positive : Real(0)) - (row.x[i] < 0 ? negative : Real(0)));
    });
  }

  static std::int64_t resolve(MapSetting& s) {
    std::int64_t nu = s.whole("nu");
    if (nu == 0) nu = s.d_dot == 0 ? 1 : s.d_dot / (2 * s.d);
    const std::int64_t d_dot =
        s.agreed(2 * s.d * nu, "d_dot must be 2 d_key nu = " + std::to_string(2 * s.d) + " nu");
    if (nu < 1 || nu > 2 * s.d - 1) {
      s.refuse("nu", "memory.nu = " + std::to_string(nu) +
                         " is out of range: DPFP's rolls repeat after 2 d_key - 1 = " +
                         std::to_string(2 * s.d - 1));
    }
    s.set("nu", nu);
    return d_dot;
  }
  static int nu_of(const Options& options, std::int64_t) {
    return static_cast<int>(options.get_int("memory.nu"));
  }
  /// +-+ has no two neighbours: all features of an odd number of alternating signs are 0.
  static bool odd(std::int64_t d) { return d % 2 == 1; }
  static MapInfo info() {
    return {.name = "dpfp",
            .formula = "f = [relu(x); relu(-x)]; phi(x) = [f * roll(f, 1); ...; f * roll(f, nu)]",
            .d_dot = "2 d_key nu",
            .source = "Schlag, Irie, Schmidhuber 2021, arXiv 2102.11174, section 5.3",
            .positive = true,
            .divides = always,
            .smooth = false,
            .vanishes = odd,
            .options = {{"nu", std::int64_t{0},
                         "DPFP's nu: d_dot = 2 d_key nu (0: 1 for dpfp, or from d_dot)", 0, 4096}},
            .resolve = resolve,
            .number = nu_of};
  }

 private:
  template <class Team, class Real>
  CT_HD static Real* split(const Team& team, const MapRow<Real>& row) {
    Real* f = row.work;
    const Real* x = row.x;
    const int d = row.d;
    team.sync();  // what the row before left has been read
    team.each(0, d, [&](int i) {
      f[i] = x[i] < 0 ? Real(0) : x[i];  // so that a NaN stays one
      f[d + i] = x[i] > 0 ? Real(0) : 0 - x[i];
    });
    team.sync();
    return f;
  }
};

}  // namespace crosstalk::maps

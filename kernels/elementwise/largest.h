// The largest numbers of a row: routers of mixtures.
//
//   largest       y_i = x_i where it is among the `count` largest of its row, else `otherwise`
//   mark_largest  y_i = 1 there, else 0
//
// Of equal numbers the first is the larger. The gradient of what stays is that of y.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stdexcept>

#include "kernels/base/sweep.h"

namespace crosstalk {

/// Tells whether entry i of a row of n numbers is among its `count` largest.
CT_HD inline bool among_largest(const auto* row, int n, int i, int count) {
  int larger = 0;
  for (int j = 0; j < n && larger < count; ++j) larger += row[j] > row[i] || (row[j] == row[i] && j < i);
  return larger < count;
}

template <class Real>
struct Largest {
  int count = 1;
  double otherwise = 0;
  In<Real> x;   ///< [R,..,D]
  Out<Real> y;  ///< as x

  static constexpr const char* kName = "largest";
  CROSSTALK_FIELDS(x, y)
  void plan() {
    if (!x || count < 1) throw std::logic_error("[largest] wants rows, and at least one number of each");
    y.value = without_memory(x.value);
  }
  CROSSTALK_SWEEP(x.value.size(), take)
  CROSSTALK_SWEEP_BACK(x, x.value.size(), give_back)
  CT_HD bool stays(int r, std::int64_t i) const {
    const int D = x.value.columns();
    return among_largest(x.value.at(r) + i / D * D, D, static_cast<int>(i % D), count);
  }
  CT_HD void take(int r, std::int64_t i) const {
    y.value.at(r)[i] = stays(r, i) ? x.value.at(r)[i] : static_cast<Real>(otherwise);
  }
  CT_HD void give_back(int r, std::int64_t i) const {
    put(x.write, x.gradient.at(r) + i, stays(r, i) ? y.gradient.at(r)[i] : Real(0));
  }
};
CROSSTALK_SWEPT(Largest)

template <class Real>
struct MarkLargest {
  int count = 1;
  In<Real> x;   ///< [R,..,D]
  Out<Real> y;  ///< as x

  static constexpr const char* kName = "mark_largest";
  static constexpr bool kWithoutGradient = true;
  CROSSTALK_FIELDS(x, y)
  void plan() {
    if (!x || count < 1) throw std::logic_error("[mark_largest] wants rows, and at least one number of each");
    y.value = without_memory(x.value);
  }
  CROSSTALK_SWEEP(x.value.size(), take)
  CT_HD void take(int r, std::int64_t i) const {
    const int D = x.value.columns();
    y.value.at(r)[i] = among_largest(x.value.at(r) + i / D * D, D, static_cast<int>(i % D), count);
  }
};
CROSSTALK_SWEPT(MarkLargest)

}  // namespace crosstalk

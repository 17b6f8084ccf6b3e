// Pairs of channels turned by angles that are given: channels 2c and 2c + 1 of a row are a point of the plane, turned by
// angle c of that row for c < A; further channels stay as they are, further angles have no effect (Mamba-3's data-dependent rotations).
//
//   dangle_c = dy_{2c+1} y_{2c} - dy_{2c} y_{2c+1}
//
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <stdexcept>

#include "kernels/base/buffer.h"
#include "kernels/base/functions.h"
#include "kernels/base/sweep.h"

namespace crosstalk {

template <class Real>
struct Turn {
  In<Real> x;      ///< [R,B,N,H,K]
  In<Real> angle;  ///< [R,B,N,H,A]
  Out<Real> y;     ///< as x

  static constexpr const char* kName = "turn";
  CROSSTALK_FIELDS(x, angle, y)
  CT_HD int K() const { return x.value.columns(); }
  CT_HD int A() const { return angle.value.columns(); }
  CT_HD int pairs() const { return 2 * A() < K() ? A() : K() / 2; }
  void plan() {
    if (!x || !angle || x.value.rank != 4 || angle.value.rank != 4 || x.value.rows() != angle.value.rows())
      throw std::logic_error("[turn] wants x [B,N,H,K] and angle [B,N,H,A]");
    y.value = without_memory(x.value);
  }
  CROSSTALK_ELEMENT(turn_row)
  CROSSTALK_ELEMENT(turn_back)
  void sweep_forward(const auto& sweep) const { sweep(x.value.rows(), turn_row_of{}); }
  void sweep_backward(const auto& sweep) const { sweep(x.value.rows(), turn_back_of{}); }

  CT_HD void turn_row(int r, std::int64_t row) const {
    const Real *from = x.value.at(r) + row * K(), *at = angle.value.at(r) + row * A();
    Real* to = y.value.at(r) + row * K();
    for (int c = 0; c < pairs(); ++c) {
      const Real cos = cos_(at[c]), sin = sin_(at[c]);
      to[2 * c] = cos * from[2 * c] - sin * from[2 * c + 1];
      to[2 * c + 1] = sin * from[2 * c] + cos * from[2 * c + 1];
    }
    for (int c = 2 * pairs(); c < K(); ++c) to[c] = from[c];
  }
  CT_HD void turn_back(int r, std::int64_t row) const {
    const Real *at = angle.value.at(r) + row * A(), *turned = y.value.at(r) + row * K();
    const Real* d_y = y.gradient.at(r) + row * K();
    if (angle.wanted()) {
      Real* to = angle.gradient.at(r) + row * A();
      for (int c = 0; c < pairs(); ++c)
        put(angle.write, to + c, d_y[2 * c + 1] * turned[2 * c] - d_y[2 * c] * turned[2 * c + 1]);
      for (int c = pairs(); c < A(); ++c) put(angle.write, to + c, Real(0));
    }
    if (!x.wanted()) return;
    Real* to = x.gradient.at(r) + row * K();
    for (int c = 0; c < pairs(); ++c) {
      const Real cos = cos_(at[c]), sin = sin_(at[c]);
      put(x.write, to + 2 * c, cos * d_y[2 * c] + sin * d_y[2 * c + 1]);
      put(x.write, to + 2 * c + 1, cos * d_y[2 * c + 1] - sin * d_y[2 * c]);
    }
    for (int c = 2 * pairs(); c < K(); ++c) put(x.write, to + c, d_y[c]);
  }
};
CROSSTALK_SWEPT(Turn)

}  // namespace crosstalk

// Rotary positions: channels 2c and 2c + 1 of row n are a point of the plane, turned by p_n base^{-2c / K},
// where row n stands at token p_n. Products of rotated rows then depend on the distance of their tokens
// alone. A last channel without a partner stays as it is (Su et al. 2021, arXiv 2104.09864).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <stdexcept>

#include "kernels/base/buffer.h"
#include "kernels/base/op.h"

namespace crosstalk {

template <class Real>
struct Rotate {
  double base = 10000;
  int period = 0;    ///< positions are counted modulo it; 0: not
  double angle = 0;  ///< not 0: what every pair turns by from token to token, whatever its channel

  In<Real> x;    ///< [R,B,N,H,K]
  Ids position;  ///< int32 [R,B,N]: tokens that a row sees; it stands at the last of them. Absent: row n
                 ///< stands at n
  Out<Real> y;   ///< as x

  static constexpr const char* kName = "rotate";
  CROSSTALK_FIELDS(x, position, y)
  void plan() {
    if (!x || x.value.rank != 4 || !(base > 1))
      throw std::logic_error("[rotate] wants x [B,N,H,K] and base > 1");
    y.value = x.value;
    y.value.data = nullptr;
  }
};
CROSSTALK_OP(Rotate)

/// Cosine and sine of the angle of pair c of row `row` = (b N + n), calculated in double: angles are large.
struct Turned {
  double cosine, sine;
};
template <class Real>
CT_HD inline Turned turned(const Rotate<Real>& op, int r, std::int64_t row, int c) {
  const int N = op.x.value.dim(1), K = op.x.value.dim(3);
  double at = static_cast<double>(row % N);
  if (op.position) at = op.position.value.at(r)[row] - 1;
  if (op.period > 0) at = ::fmod(at, static_cast<double>(op.period));
  const double angle = at * (op.angle != 0 ? op.angle : ::exp(-2.0 * c / K * ::log(op.base)));
  return {::cos(angle), ::sin(angle)};
}

/// Turns pair c of a row from `from` to `to`, backwards where `back`.
template <class Real>
CT_HD inline void turn_pair(Turned t, bool back, Write mode, const Real* from, Real* to) {
  const Real cosine = static_cast<Real>(t.cosine), sine = static_cast<Real>(back ? -t.sine : t.sine);
  const Real a = cosine * from[0] - sine * from[1], b = sine * from[0] + cosine * from[1];
  to[0] = mode == Write::add ? to[0] + a : a;
  to[1] = mode == Write::add ? to[1] + b : b;
}

}  // namespace crosstalk

// Rotary positions: channels 2c and 2c + 1 of row n are a point of the plane, turned by p_n base^{-2c / K},
// where row n stands at token p_n. Products of rotated rows then depend on the distance of their tokens
// alone. A last channel without a partner stays as it is (Su et al. 2021, arXiv 2104.09864).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <stdexcept>

#include "kernels/base/buffer.h"
#include "kernels/base/sweep.h"

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
    y.value = without_memory(x.value);
  }
  CROSSTALK_SWEEP(pairs(), turn)
  CROSSTALK_SWEEP_BACK(x, pairs(), turn_back)
  /// Pairs of channels of all rows; a last channel without a partner counts as one.
  CT_HD std::int64_t pairs() const {
    return static_cast<std::int64_t>(x.value.dim(0)) * x.value.dim(1) * ((x.value.dim(3) + 1) / 2);
  }
  CT_HD void turn(int r, std::int64_t i) const { turn_pair(r, i, x.value, y.value, 1, Write::overwrite); }
  CT_HD void turn_back(int r, std::int64_t i) const { turn_pair(r, i, y.gradient, x.gradient, -1, x.write); }

 private:
  /// Turns pair i of all heads. Angles are large: cosine and sine are calculated in double, once for all heads.
  CT_HD void turn_pair(int r, std::int64_t i, const Tensor<Real>& from, const Tensor<Real>& to, int sign,
                       Write mode) const {
    const int N = x.value.dim(1), H = x.value.dim(2), K = x.value.dim(3), n = (K + 1) / 2;
    const std::int64_t row = i / n, first = row * H * K + 2 * (i % n);
    const int c = static_cast<int>(i % n);
    const Real* a = from.at(r) + first;
    Real* b = to.at(r) + first;
    if (2 * c + 1 == K) {
      for (int h = 0; h < H; ++h) put(mode, b + h * K, a[h * K]);
      return;
    }
    double at = static_cast<double>(row % N);
    if (position) at = position.value.at(r)[row] - 1;
    if (period > 0) at = ::fmod(at, static_cast<double>(period));
    const double turned = at * (angle != 0 ? angle : ::exp(-2.0 * c / K * ::log(base)));
    const Real cosine = static_cast<Real>(::cos(turned)), sine = static_cast<Real>(sign * ::sin(turned));
    for (int h = 0; h < H; ++h, a += K, b += K) {
      const Real p = cosine * a[0] - sine * a[1], q = sine * a[0] + cosine * a[1];
      put(mode, b, p);
      put(mode, b + 1, q);
    }
  }
};
CROSSTALK_SWEPT(Rotate)

}  // namespace crosstalk

// Numbers of tokens as a query, or a later token, sees them.
//
//   pick   y_q = x_t of the last token t that query q sees, 0 where it sees none; no positions: of the last
//          token
//   signs  y_t = product of the signs of x_s over s <= t             a sign is 1 or -1, that of 0 is 1
//
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stdexcept>

#include "kernels/base/sweep.h"

namespace crosstalk {

template <class Real>
struct Pick {
  In<Real> x;    ///< [R,B,T,H,N]
  Ids position;  ///< int32 [R,B,Q]: tokens that a query sees; absent: Q = 1, which sees all
  Out<Real> y;   ///< [R,B,Q,H,N]

  static constexpr const char* kName = "pick";
  CROSSTALK_FIELDS(x, position, y)
  CROSSTALK_BF16_FIELDS(x, y)
  CT_HD bool is_bf16() const { return x.value.is_bf16(); }
  CT_HD int T() const { return x.value.dim(1); }
  CT_HD int Q() const { return position ? position.value.dim(1) : 1; }
  /// Numbers of a token, all heads.
  CT_HD int columns() const { return x.value.dim(2) * x.value.dim(3); }
  /// The token that query q of sequence b stands at, or -1.
  CT_HD int token(int r, int b, int q) const {
    if (!position) return T() - 1;
    const int seen = position.value.at(r)[b * Q() + q];
    return (seen < 0 ? 0 : seen > T() ? T() : seen) - 1;
  }
  void plan() {
    if (!x || x.value.rank != 4 ||
        (position && (position.value.rank != 2 || position.value.dim(0) != x.value.dim(0))))
      throw std::logic_error("[pick] shapes do not fit");
    for (const Tensor<Real>* t : {&x.gradient, &y.value, &y.gradient})
      if (t->format != x.value.format)
        throw std::logic_error("[pick] x, y and their gradients have one format");
    if (is_bf16() && columns() % 2 != 0) throw std::logic_error("[pick] numbers in bf16 are picked in pairs");
    y.value = shaped<Real>(x.value.R, {x.value.dim(0), Q(), x.value.dim(2), x.value.dim(3)});
  }
};
CROSSTALK_OP(Pick)

template <class Real>
struct Signs {
  In<Real> x;   ///< [R,B,T,H,N]
  Out<Real> y;  ///< like x; without a gradient

  static constexpr const char* kName = "signs";
  static constexpr bool kWithoutGradient = true;
  CROSSTALK_FIELDS(x, y)
  CT_HD int B() const { return x.value.dim(0); }
  CT_HD int T() const { return x.value.dim(1); }
  CT_HD int columns() const { return x.value.dim(2) * x.value.dim(3); }
  CROSSTALK_ELEMENT(walk)
  void sweep_forward(const auto& sweep) const {
    sweep(static_cast<std::int64_t>(B()) * columns(), walk_of{});
  }
  /// Column i % columns() of sequence i / columns().
  CT_HD void walk(int r, std::int64_t i) const {
    const std::int64_t b = i / columns(), n = i % columns();
    Real sign = 1;
    for (int t = 0; t < T(); ++t) {
      const std::int64_t at = (b * T() + t) * columns() + n;
      if (x.value.at(r)[at] < 0) sign = -sign;
      y.value.at(r)[at] = sign;
    }
  }
  void plan() {
    if (!x || x.value.rank != 4) throw std::logic_error("[signs] wants [B,T,H,N]");
    y.value = without_memory(x.value);
  }
};
CROSSTALK_OP(Signs)

}  // namespace crosstalk

// Real numbers that tokens hold as whole multiples of a unit: y = unit * ids of neighbouring channels of the first tokens.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stdexcept>

#include "kernels/base/sweep.h"

namespace crosstalk {

/// Channels first .. first + count - 1 of the first `rows` tokens of each sequence; without a gradient.
template <class Real>
struct TokenNumbers {
  int first = 0, count = 1, rows = 0;
  double unit = 1;
  Ids ids;      ///< int32 [R,B,T,C]
  Out<Real> y;  ///< [R,B,rows,count]

  static constexpr const char* kName = "token_numbers";
  static constexpr bool kWithoutGradient = true;
  CROSSTALK_FIELDS(ids, y)
  CROSSTALK_SWEEP(y.value.size(), number)
  /// Element i of y.
  CT_HD void number(int r, std::int64_t i) const {
    const std::int64_t n = i / count, b = n / rows, t = n % rows;
    const std::int64_t at = (b * ids.value.dim(1) + t) * ids.value.dim(2) + first + i % count;
    y.value.at(r)[i] = static_cast<Real>(unit * ids.value.at(r)[at]);
  }
  void plan() {
    if (!ids || ids.value.rank != 3 || first < 0 || count < 1 || first + count > ids.value.dim(2) ||
        rows < 1 || rows > ids.value.dim(1))
      throw std::logic_error("[token_numbers] shapes do not fit");
    y.value = shaped<Real>(ids.value.R, {ids.value.dim(0), rows, count});
  }
};
CROSSTALK_SWEPT(TokenNumbers)

}  // namespace crosstalk

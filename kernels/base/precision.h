// Precision of the operands of a product: what they are rounded to before they are multiplied. Sums are
// always in the type of the result.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <cstring>

#include <type_traits>

#include "kernels/base/host_device.h"

namespace crosstalk {

enum class Precision : int {
  full,  ///< as they are
  tf32,  ///< 11 significant bits, ties away from 0
  bf16,  ///< 8 significant bits, ties to even
};

/// x as an operand. Also of doubles, whose exponent keeps its range.
template <class Real>
CT_HD inline Real rounded(Precision precision, Real x) {
  using Bits = std::conditional_t<sizeof(Real) == 4, std::uint32_t, std::uint64_t>;
  if (precision == Precision::full || !(x - x == 0)) return x;  // infinities and NaN stay
  const int drop = (sizeof(Real) == 4 ? 23 : 52) - (precision == Precision::tf32 ? 10 : 7);
  Bits bits;
  memcpy(&bits, &x, sizeof bits);
  const Bits half = Bits(1) << (drop - 1);
  bits += precision == Precision::tf32 ? half : half - 1 + (bits >> drop & 1);
  bits &= ~((Bits(1) << drop) - 1);
  memcpy(&x, &bits, sizeof bits);
  return x;
}

}  // namespace crosstalk

// Dropout: y = x / (1 - rate) or, with probability `rate`, 0.
//
// What is dropped is a pure function of (seed, draw, site, element): the same on every device, and backward
// draws it again.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stdexcept>

#include "kernels/base/random.h"
#include "kernels/base/sweep.h"

namespace crosstalk {

template <class Real>
struct Dropout {
  double rate = 0;         ///< in [0, 1)
  std::uint32_t site = 0;  ///< which of a model's dropouts it is
  In<Real> x;              ///< any shape
  Ids seed;                ///< int32 [R,2]: low and high word
  Ids draw;                ///< int32 [R,1]: number of the training step
  OutIds drawn;            ///< [R,1]: the draw that forward used; the counter may move on before backward
  Out<Real> y;

  static constexpr const char* kName = "dropout";
  CROSSTALK_FIELDS(x, seed, draw, y, drawn)
  void plan() {
    if (!x || !seed || !draw || !(rate >= 0 && rate < 1))
      throw std::logic_error("[dropout] wants x, a seed, a draw and a rate in [0, 1)");
    y.value = without_memory(x.value);
    drawn.value = shaped<std::int32_t>(x.value.R, {1});
  }
  CROSSTALK_SWEEP((x.value.size() + 3) / 4, drop)
  CROSSTALK_SWEEP_BACK(x, (x.value.size() + 3) / 4, drop_back)
  /// Elements 4 i .. 4 i + 3 of y; of the gradient of x.
  CT_HD void drop(int r, std::int64_t i) const {
    const std::int32_t now = draw.value.at(r)[0];
    if (i == 0) drawn.value.at(r)[0] = now;
    give(r, i, now, x.value, y.value, Write::overwrite);
  }
  CT_HD void drop_back(int r, std::int64_t i) const {
    give(r, i, drawn.value.at(r)[0], y.gradient, x.gradient, x.write);
  }

 private:
  CT_HD void give(int r, std::int64_t i, std::int32_t number, const Tensor<Real>& from,
                  const Tensor<Real>& to, Write mode) const {
    const unsigned bits = kept(r, i, number);
    const Real scale = static_cast<Real>(1 / (1 - rate));
    const std::int64_t left = x.value.size() - 4 * i;
    const Real* a = from.at(r) + 4 * i;
    Real* b = to.at(r) + 4 * i;
    for (int j = 0; j < 4; ++j)
      if (j < left) put(mode, b + j, bits >> j & 1u ? a[j] * scale : Real(0));
  }
  /// Elements of 4 i .. 4 i + 3 that are kept, as bits.
  CT_HD unsigned kept(int r, std::int64_t i, std::int32_t number) const {
    const std::int32_t* words = seed.value.at(r);
    const auto low = static_cast<std::uint32_t>(words[0]), high = static_cast<std::uint32_t>(words[1]);
    const RandomStream stream(static_cast<std::uint64_t>(high) << 32 | low, RandomDomain::dropout,
                              static_cast<std::uint32_t>(number), site);
    const auto drawn4 = stream.block(static_cast<std::uint32_t>(i));
    const auto limit = static_cast<std::uint32_t>(rate * 4294967296.0);
    unsigned bits = 0;
    // Not as (... ? 1u : 0u) << j, of which GCC 12 with -fsanitize=undefined makes reads beyond v.
    for (unsigned j = 0; j < 4; ++j)
      if (drawn4.v[j] >= limit) bits |= 1u << j;
    return bits;
  }
};
CROSSTALK_SWEPT(Dropout)

}  // namespace crosstalk

// A causal convolution of every channel with a filter as long as the sequence:
//
//   y_t = sum_{s <= t} h_s x_{t-s}
//
// (Hyena: Poli et al. 2023, arXiv 2302.10866; long convolutions of Zoology: Arora et al. 2023, arXiv 2312.04927). Every
// version adds up the products themselves, T^2 / 2 a channel: for the lengths of such studies, up to 2,048 or so.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stdexcept>

#include "kernels/base/buffer.h"
#include "kernels/base/sweep.h"

namespace crosstalk {

template <class Real>
struct LongConv {
  In<Real> x;        ///< [R,B,T,C]
  In<Real> h;        ///< [R,L,C], L at least T
  Out<Real> y;       ///< [R,B,T,C]
  Work<Real> parts;  ///< [R,parts,L,C]: of the gradient of h on a GPU, by sequences

  static constexpr const char* kName = "long_conv";
  static constexpr int kMostParts = 64;
  CROSSTALK_FIELDS(x, h, y, parts)
  CT_HD int B() const { return x.value.dim(0); }
  CT_HD int T() const { return x.value.dim(1); }
  CT_HD int C() const { return x.value.dim(2); }
  CT_HD int L() const { return h.value.dim(0); }
  void plan() {
    if (!x || !h || x.value.rank != 3 || h.value.rank != 2 || h.value.dim(1) != x.value.dim(2) || L() < T())
      throw std::logic_error("[long_conv] wants x [B,T,C] and h [L,C], L at least T");
    y.value = without_memory(x.value);
    parts.value = shaped<Real>(x.value.R, {B() < kMostParts ? B() : kMostParts, L(), C()});
  }
  CROSSTALK_SWEEP(x.value.size(), convolve)
  CROSSTALK_ELEMENT(correlate)
  CROSSTALK_ELEMENT(filter_gradient)
  void sweep_backward(const auto& sweep) const {
    if (x.wanted()) sweep(x.value.size(), correlate_of{});
    if (h.wanted()) sweep(h.value.size(), filter_gradient_of{});
  }
  /// Element i of y; of the gradients of x and h.
  CT_HD void convolve(int r, std::int64_t i) const {
    const int b = static_cast<int>(i / C() / T()), t = static_cast<int>(i / C() % T()),
              c = static_cast<int>(i % C());
    const Real *from = x.value.at(r) + static_cast<std::int64_t>(b) * T() * C() + c,
               *filter = h.value.at(r) + c;
    Real sum = 0;
    for (int s = 0; s <= t; ++s)
      sum += filter[static_cast<std::int64_t>(s) * C()] * from[static_cast<std::int64_t>(t - s) * C()];
    y.value.at(r)[i] = sum;
  }
  CT_HD void correlate(int r, std::int64_t i) const {
    const int b = static_cast<int>(i / C() / T()), t = static_cast<int>(i / C() % T()),
              c = static_cast<int>(i % C());
    const Real *d_y = y.gradient.at(r) + static_cast<std::int64_t>(b) * T() * C() + c,
               *filter = h.value.at(r) + c;
    Real sum = 0;
    for (int s = 0; t + s < T(); ++s)
      sum += filter[static_cast<std::int64_t>(s) * C()] * d_y[static_cast<std::int64_t>(t + s) * C()];
    put(x.write, x.gradient.at(r) + i, sum);
  }
  CT_HD void filter_gradient(int r, std::int64_t i) const {
    const int s = static_cast<int>(i / C()), c = static_cast<int>(i % C());
    Real sum = 0;
    for (int b = 0; b < B(); ++b) {
      const std::int64_t first = static_cast<std::int64_t>(b) * T() * C() + c;
      const Real *from = x.value.at(r) + first, *d_y = y.gradient.at(r) + first;
      for (int t = s; t < T(); ++t)
        sum += d_y[static_cast<std::int64_t>(t) * C()] * from[static_cast<std::int64_t>(t - s) * C()];
    }
    put(h.write, h.gradient.at(r) + i, sum);
  }
};
CROSSTALK_SWEPT(LongConv)

}  // namespace crosstalk

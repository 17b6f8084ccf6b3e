// Values of the token before: y_t = x_{t-1}, y_0 = start, or 0.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stdexcept>

#include "kernels/base/buffer.h"
#include "kernels/base/sweep.h"

namespace crosstalk {

template <class Real>
struct Delay {
  In<Real> x;      ///< [R,B,T,H,N]
  In<Real> start;  ///< B H N numbers; absent: 0
  Out<Real> y;     ///< as x

  static constexpr const char* kName = "delay";
  CROSSTALK_FIELDS(x, start, y)
  CT_HD int T() const { return x.value.dim(1); }
  CT_HD int columns() const { return x.value.dim(2) * x.value.dim(3); }
  void plan() {
    if (!x || x.value.rank != 4 || (start && start.value.size() * T() != x.value.size()))
      throw std::logic_error("[delay] wants x [B,T,H,N] and start [B,H,N]");
    y.value = without_memory(x.value);
  }
  CROSSTALK_SWEEP(x.value.size(), take)
  CROSSTALK_ELEMENT(give_back)
  CROSSTALK_ELEMENT(give_start)
  template <class Sweep>
  void sweep_backward(const Sweep& sweep) const {
    if (x.wanted()) sweep(x.value.size(), give_back_of{});
    if (start.wanted()) sweep(start.value.size(), give_start_of{});
  }
  /// Element i of y; of the gradients of x and of start.
  CT_HD void take(int r, std::int64_t i) const {
    const int N = columns();
    const std::int64_t t = i / N % T(), b = i / N / T();
    y.value.at(r)[i] = t > 0 ? x.value.at(r)[i - N] : start ? start.value.at(r)[b * N + i % N] : Real(0);
  }
  CT_HD void give_back(int r, std::int64_t i) const {
    const int N = columns();
    put(x.write, x.gradient.at(r) + i, i / N % T() + 1 < T() ? y.gradient.at(r)[i + N] : Real(0));
  }
  CT_HD void give_start(int r, std::int64_t i) const {
    const int N = columns();
    put(start.write, start.gradient.at(r) + i, y.gradient.at(r)[i / N * T() * N + i % N]);
  }
};
CROSSTALK_SWEPT(Delay)

}  // namespace crosstalk

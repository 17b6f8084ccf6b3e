// Values of tokens before.
//
//   delay   y_t = x_{t-1}, y_0 = start, or 0
//   recent  the last `tokens` of start and, behind it, x; 0 before the first of them
//
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
  void sweep_backward(const auto& sweep) const {
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

template <class Real>
struct Recent {
  int tokens = 0;
  In<Real> x;      ///< [R,B,T,H,N]
  In<Real> start;  ///< [R,B,S,H,N]; absent: S = 0
  Out<Real> y;     ///< [R,B,tokens,H,N]

  static constexpr const char* kName = "recent";
  CROSSTALK_FIELDS(x, start, y)
  CT_HD int T() const { return x.value.dim(1); }
  CT_HD int S() const { return start ? start.value.dim(1) : 0; }
  CT_HD int columns() const { return x.value.dim(2) * x.value.dim(3); }
  void plan() {
    if (!x || x.value.rank != 4 || tokens <= 0 ||
        (start && (start.value.rank != 4 || start.value.size() * T() != x.value.size() * S())))
      throw std::logic_error("[recent] wants x [B,T,H,N] and start [B,S,H,N]");
    y.value = shaped<Real>(x.value.R, {x.value.dim(0), tokens, x.value.dim(2), x.value.dim(3)});
  }
  CROSSTALK_SWEEP(y.value.size(), take)
  CROSSTALK_ELEMENT(give_back)
  CROSSTALK_ELEMENT(give_start)
  void sweep_backward(const auto& sweep) const {
    if (x.wanted()) sweep(x.value.size(), give_back_of{});
    if (start.wanted()) sweep(start.value.size(), give_start_of{});
  }
  /// Element i of y; of the gradients of x and of start.
  CT_HD void take(int r, std::int64_t i) const {
    const int N = columns();
    const std::int64_t t = i / N % tokens + T() - tokens, b = i / N / tokens, n = i % N;
    y.value.at(r)[i] = t >= 0         ? x.value.at(r)[(b * T() + t) * N + n]
                       : t + S() >= 0 ? start.value.at(r)[(b * S() + t + S()) * N + n]
                                      : Real(0);
  }
  CT_HD Real given(int r, std::int64_t b, std::int64_t t, std::int64_t n) const {
    return t < 0 ? Real(0) : y.gradient.at(r)[(b * tokens + t) * columns() + n];
  }
  CT_HD void give_back(int r, std::int64_t i) const {
    const int N = columns();
    put(x.write, x.gradient.at(r) + i, given(r, i / N / T(), i / N % T() + tokens - T(), i % N));
  }
  CT_HD void give_start(int r, std::int64_t i) const {
    const int N = columns();
    put(start.write, start.gradient.at(r) + i,
        given(r, i / N / S(), i / N % S() + tokens - T() - S(), i % N));
  }
};
CROSSTALK_SWEPT(Recent)

}  // namespace crosstalk

// Rows of one sequence and head of a tensor [R,B,N,H,C] or [R,B,N,H]: row n is element n of the sequence.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "kernels/base/op.h"

namespace crosstalk {

template <class Real>
struct HeadRows {
  Real* first = nullptr;
  std::int64_t step = 0;
  HeadRows() = default;
  CT_HD HeadRows(Real* first_, std::int64_t step_) : first(first_), step(step_) {}
  /// Null where the tensor is absent.
  CT_HD HeadRows(const Tensor<Real>& t, int r, int b, int h, int N, int H, int C)
      : first(t.data ? t.at(r) + (static_cast<std::int64_t>(b) * N * H + h) * C : nullptr),
        step(static_cast<std::int64_t>(H) * C) {}
  CT_HD Real* operator()(int n) const { return first + n * step; }
  CT_HD explicit operator bool() const { return first != nullptr; }
};

/// An input's rows, and its gradient's where backward writes one.
template <class Real>
struct HeadField {
  HeadRows<Real> value, gradient;
  Write write = Write::none;
  int N = 0, C = 0;
  HeadField() = default;
  CT_HD HeadField(const In<Real>& in, int r, int b, int h, int N_, int H, int C_)
      : value(in.value, r, b, h, N_, H, C_), write(in.write), N(N_), C(C_) {
    if (in.wanted()) gradient = HeadRows<Real>(in.gradient, r, b, h, N_, H, C_);
  }
  CT_HD explicit operator bool() const { return static_cast<bool>(value); }
  /// Zeroes the gradient where backward overwrites it, so that everything may then be added. With fields in
  /// the order of fields() this is right too where one variable stands in several of them. CPU.
  void clear() const {
    if (write != Write::overwrite) return;
    for (int n = 0; n < N; ++n)
      for (int c = 0; c < C; ++c) gradient(n)[c] = 0;
  }
};

}  // namespace crosstalk

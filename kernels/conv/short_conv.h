// A short causal convolution of every channel with weights of its own, in front of keys, queries or values:
//
//   u_t = sum_{i < W} w_{W-1-i} x_{t-i},   y_t = u_t  or  u_t sigmoid(u_t)
//
// so that the last weight belongs to the token itself; what stands before the first token is 0 (Mamba: Gu and
// Dao 2023, arXiv 2312.00752; DeltaNet: Yang et al. 2024, arXiv 2406.06484).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "kernels/base/buffer.h"
#include "kernels/base/op.h"

namespace crosstalk {

template <class Real>
struct ShortConv {
  bool silu = false;

  In<Real> x;       ///< [R,B,T,C]
  In<Real> w;       ///< [R,C,W]
  Out<Real> y;      ///< [R,B,T,C]
  Work<Real> part;  ///< [R,P,C,W]: d_w of P pieces of the tokens (backward, CUDA)

  static constexpr const char* kName = "short_conv";
  CROSSTALK_FIELDS(x, w, y, part)
  /// Tokens of all sequences in a piece, and how many pieces there are.
  static int piece(int tokens) { return std::max(64, (tokens + 63) / 64); }
  static int pieces(int tokens) { return (tokens + piece(tokens) - 1) / piece(tokens); }
  void plan() {
    if (!x || !w || x.value.rank != 3 || w.value.rank != 2 || w.value.dim(0) != x.value.dim(2) ||
        w.value.dim(1) < 1)
      throw std::logic_error("[short_conv] wants x [B,T,C] and w [C,W]");
    y.value = x.value;
    y.value.data = nullptr;
    part.value =
        shaped<Real>(x.value.R, {pieces(x.value.dim(0) * x.value.dim(1)), w.value.dim(0), w.value.dim(1)});
  }
};
CROSSTALK_OP(ShortConv)

/// Channel c of sequence b, for both devices.
template <class Real>
struct ConvChannel {
  const Real *x, *w, *d_y;  ///< d_y null in forward
  int T, C, W;
  bool silu;

  CT_HD ConvChannel(const ShortConv<Real>& op, int r, int b, int c)
      : T(op.x.value.dim(1)), C(op.x.value.dim(2)), W(op.w.value.dim(1)), silu(op.silu) {
    const std::int64_t first = static_cast<std::int64_t>(b) * T * C + c;
    x = op.x.value.at(r) + first;
    w = op.w.value.at(r) + static_cast<std::int64_t>(c) * W;
    d_y = op.y.gradient.data ? op.y.gradient.at(r) + first : nullptr;
  }
  CT_HD std::int64_t at(int t) const { return static_cast<std::int64_t>(t) * C; }
  CT_HD Real u(int t) const {
    Real sum = 0;
    for (int i = 0; i < W && i <= t; ++i) sum += w[W - 1 - i] * x[at(t - i)];
    return sum;
  }
  CT_HD Real y(int t) const {
    const Real v = u(t);
    return silu ? v / (1 + exp_(-v)) : v;
  }
  CT_HD Real d_u(int t) const {
    if (!silu) return d_y[at(t)];
    const Real v = u(t), s = 1 / (1 + exp_(-v));
    return d_y[at(t)] * s * (1 + v * (1 - s));
  }
  CT_HD Real d_x(int t) const {
    Real sum = 0;
    for (int i = 0; i < W && t + i < T; ++i) sum += w[W - 1 - i] * d_u(t + i);
    return sum;
  }

 private:
  CT_HD static float exp_(float v) { return ::expf(v); }
  CT_HD static double exp_(double v) { return ::exp(v); }
};

}  // namespace crosstalk

// Zoology's base convolution: a short causal convolution of every channel, times a gate, added to its input
//
//   u_t = bias + sum_{i < W} w_{W-1-i} x_{t-i},   y_t = u_t gate_t + x_t
//
// (Arora et al. 2023, arXiv 2312.04927). The last weight is the token's own; before the first token stands 0.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <stdexcept>

#include "kernels/base/buffer.h"
#include "kernels/base/op.h"

namespace crosstalk {

template <class Real>
struct GatedConv {
  In<Real> x;       ///< [R,B,T,C]
  In<Real> w;       ///< [R,C,W]
  In<Real> bias;    ///< [R,C]
  In<Real> gate;    ///< [R,B,T,C]
  Out<Real> y;      ///< [R,B,T,C]
  Work<Real> part;  ///< [R,P,C,W+1]: d_w and d_bias of P pieces of the tokens (backward, CUDA)

  static constexpr const char* kName = "gated_conv";
  CROSSTALK_FIELDS(x, w, bias, gate, y, part)
  CT_HD int T() const { return y.value.dim(1); }
  CT_HD int C() const { return y.value.dim(2); }
  CT_HD int W() const { return w.value.dim(1); }
  /// Tokens of all sequences in a piece, and how many pieces there are.
  static int piece(int tokens) { return std::max(64, (tokens + 511) / 512); }
  static int pieces(int tokens) { return (tokens + piece(tokens) - 1) / piece(tokens); }
  void plan() {
    if (!x || !w || !bias || !gate || x.value.rank != 3 || w.value.rank != 2 ||
        w.value.dim(0) != x.value.dim(2) || w.value.dim(1) < 1 || bias.value.size() != x.value.dim(2) ||
        gate.value.size() != x.value.size())
      throw std::logic_error("[gated_conv] wants x and gate [B,T,C], w [C,W] and bias [C]");
    y.value = without_memory(x.value);
    const int tokens = x.value.dim(0) * x.value.dim(1);
    part.value = shaped<Real>(x.value.R, {pieces(tokens), x.value.dim(2), w.value.dim(1) + 1});
  }

  /// Of element n = (b T + t) C + c of replica r, on both devices.
  CT_HD Real conv(int r, std::int64_t n) const {
    const int c = static_cast<int>(n % C()), t = static_cast<int>(n / C() % T());
    const Real* taps = w.value.at(r) + static_cast<std::int64_t>(c) * W();
    Real sum = bias.value.at(r)[c];
    for (int i = 0; i < W() && i <= t; ++i)
      sum += taps[W() - 1 - i] * x.value.at(r)[n - static_cast<std::int64_t>(i) * C()];
    return sum;
  }
  CT_HD Real d_conv(int r, std::int64_t n) const { return y.gradient.at(r)[n] * gate.value.at(r)[n]; }
  CT_HD Real d_x(int r, std::int64_t n) const {
    const int c = static_cast<int>(n % C()), t = static_cast<int>(n / C() % T());
    const Real* taps = w.value.at(r) + static_cast<std::int64_t>(c) * W();
    Real sum = y.gradient.at(r)[n];
    for (int i = 0; i < W() && t + i < T(); ++i)
      sum += taps[W() - 1 - i] * d_conv(r, n + static_cast<std::int64_t>(i) * C());
    return sum;
  }
  /// What token n / C gives weight e of its channel, or (e = W) the bias.
  CT_HD Real d_weight(int r, std::int64_t n, int e) const {
    if (e == W()) return d_conv(r, n);
    const int i = W() - 1 - e;
    if (static_cast<int>(n / C() % T()) < i) return 0;
    return d_conv(r, n) * x.value.at(r)[n - static_cast<std::int64_t>(i) * C()];
  }
};
CROSSTALK_OP(GatedConv)

}  // namespace crosstalk

// A short causal convolution of every channel with weights of its own:
//
//   u_t = bias + sum_{i < W} w_{W-1-i} x_{t-i}
//   y_t = u_t,  u_t sigmoid(u_t) (silu)  or  u_t gate_t + x_t (a gate is given)
//
// The last weight belongs to the token itself; what stands before the first token is 0. In front of keys, queries or
// values: Mamba (Gu and Dao 2023, arXiv 2312.00752), DeltaNet (Yang et al. 2024, arXiv 2406.06484); with a gate, Zoology's
// base convolution (Arora et al. 2023, arXiv 2312.04927).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "kernels/base/buffer.h"
#include "kernels/base/functions.h"
#include "kernels/base/op.h"

namespace crosstalk {

template <class Real>
struct ShortConv {
  bool silu = false;

  In<Real> x;       ///< [R,B,T,C]
  In<Real> w;       ///< [R,C,W]
  In<Real> bias;    ///< [R,C]; absent: 0
  In<Real> gate;    ///< [R,B,T,C]; may be absent
  Out<Real> y;      ///< [R,B,T,C]
  Work<Real> part;  ///< [R,P,C,W+1]: d_w and d_bias of P pieces of the tokens (backward, CUDA)

  static constexpr const char* kName = "short_conv";
  CROSSTALK_FIELDS(x, w, bias, gate, y, part)
  CT_HD int T() const { return x.value.dim(1); }
  CT_HD int C() const { return x.value.dim(2); }
  CT_HD int W() const { return w.value.dim(1); }
  CT_HD int tokens() const { return x.value.dim(0) * T(); }
  /// Tokens of all sequences in a piece, and how many pieces there are.
  static int piece(int tokens) { return std::max(64, (tokens + 511) / 512); }
  static int pieces(int tokens) { return (tokens + piece(tokens) - 1) / piece(tokens); }
  void plan() {
    if (!x || !w || x.value.rank != 3 || w.value.rank != 2 || w.value.dim(0) != C() || W() < 1 ||
        (bias && bias.value.size() != C()) || (gate && (silu || gate.value.size() != x.value.size())))
      throw std::logic_error(
          "[short_conv] wants x [B,T,C], w [C,W], and maybe a bias [C] and a gate like x, without silu");
    y.value = without_memory(x.value);
    part.value = shaped<Real>(x.value.R, {pieces(tokens()), C(), W() + 1});
  }

  // Token of element n = (b T + t) C + c of replica r, on both devices.
  CT_HD int token(std::int64_t n) const { return static_cast<int>(n / C() % T()); }
  CT_HD const Real* taps(int r, std::int64_t n) const { return w.value.at(r) + n % C() * W(); }
  CT_HD Real u(int r, std::int64_t n) const {
    const Real* own = taps(r, n);
    Real sum = bias ? bias.value.at(r)[n % C()] : Real(0);
    for (int i = 0, t = token(n); i < W() && i <= t; ++i)
      sum += own[W() - 1 - i] * x.value.at(r)[n - static_cast<std::int64_t>(i) * C()];
    return sum;
  }
  /// y of u without a gate, and with silu its slope.
  CT_HD Real activated(Real v) const { return silu ? v / (1 + exp_(-v)) : v; }
  CT_HD static Real slope(Real v) {
    const Real s = 1 / (1 + exp_(-v));
    return s * (1 + v * (1 - s));
  }
  CT_HD Real output(int r, std::int64_t n) const {
    const Real v = u(r, n);
    return gate ? v * gate.value.at(r)[n] + x.value.at(r)[n] : activated(v);
  }
  CT_HD Real d_u(int r, std::int64_t n) const {
    const Real d_y = y.gradient.at(r)[n];
    if (gate) return d_y * gate.value.at(r)[n];
    return silu ? d_y * slope(u(r, n)) : d_y;
  }
  CT_HD Real d_x(int r, std::int64_t n) const {
    const Real* own = taps(r, n);
    Real sum = gate ? y.gradient.at(r)[n] : Real(0);
    for (int i = 0, t = token(n); i < W() && t + i < T(); ++i)
      sum += own[W() - 1 - i] * d_u(r, n + static_cast<std::int64_t>(i) * C());
    return sum;
  }
  /// d_u times this is a term of the gradient of weight e of the channel, or (e = W) of the bias.
  CT_HD Real factor(int r, std::int64_t n, int e) const {
    const int i = W() - 1 - e;
    if (i < 0) return 1;
    return token(n) < i ? Real(0) : x.value.at(r)[n - static_cast<std::int64_t>(i) * C()];
  }
  CT_HD bool wants_weights() const { return w.wanted() || bias.wanted(); }
  /// Takes gradient e of channel c to its place.
  CT_HD void put_weight(int r, int c, int e, Real sum) const {
    if (e < W() && w.wanted()) put(w.write, w.gradient.at(r) + static_cast<std::int64_t>(c) * W() + e, sum);
    if (e == W() && bias.wanted()) put(bias.write, bias.gradient.at(r) + c, sum);
  }
  /// Gradients of element n of x and of the gate.
  CT_HD void put_inputs(int r, std::int64_t n) const {
    if (x.wanted()) put(x.write, x.gradient.at(r) + n, d_x(r, n));
    if (gate.wanted()) put(gate.write, gate.gradient.at(r) + n, y.gradient.at(r)[n] * u(r, n));
  }

 private:
  CT_HD static void put(Write mode, Real* to, Real value) { *to = mode == Write::add ? *to + value : value; }
};
CROSSTALK_OP(ShortConv)

}  // namespace crosstalk

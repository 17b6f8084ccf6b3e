// The vector along which a token of PaTH reflects (Yang et al. 2025, arXiv 2505.16381): w = unit(silu(c * W2 W1 token + b)), c a
// causal convolution of every channel where memory.path_conv gives it a width, else none.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cmath>

#include "kernels/base/error.h"
#include "kernels/conv/short_conv.h"
#include "models/memories/memory_file.h"

namespace crosstalk {

/// memory.path_conv and its start, for both memories that reflect.
inline Part path_conv() {
  return {
      {{"path_conv", 0,
        "tokens that a causal convolution of w sees before its SiLU, the own one counted (0: none; its authors: 3)",
        0, 64},
       choice(
           "path_conv_start", "uniform",
           "how path_conv starts: U(-1/sqrt(path_conv), 1/sqrt(path_conv)), or N(0, 0.02^2), as its authors' model (normal)",
           {"uniform", "normal"})},
      [](Options& o) {
        if (o.get_int("memory.path_conv") == 0 && o.get_string("memory.path_conv_start") != "uniform")
          throw OptionError(
              "memory.path_conv_start",
              "memory.path_conv_start has no effect without a convolution; set memory.path_conv too");
      }};
}

/// w [B,T,H,K].
template <class Real>
Var<Real> path_key(Mixer<Real>& m) {
  const Var<Real> x = m.token("path_key", m.K, {}, std::min<int>(32, m.K));
  const int width = m.integer("path_conv");
  if (width == 0) return unit(map(MapKind::silu, x));
  const Var<Real> taps = m.parameter("path_key_conv", {m.H, m.K, width},
                                     m.text("path_conv_start") == "normal"
                                         ? Init::normal(0.02)
                                         : Init::uniform(1 / std::sqrt(static_cast<double>(width))));
  ShortConv<Real> op;
  op.silu = true;
  op.x = in(m.graph.view(x.variable, {m.B, m.T, m.H * m.K}));
  op.w = in(m.graph.view(taps.variable, {m.H * m.K, width}));
  return unit(Var<Real>{&m.graph, m.graph.view(out(m.graph.add(op).y), {m.B, m.T, m.H, m.K})});
}

/// Products of all pairs of tokens, of w with w and k, and a solve.
inline double path_flops(const Options&, double K, double, double T, double Q) {
  return 12 * K * T * (Q + T) + 2 * T * T * T;
}

/// The cache of an attention, and the tokens that the convolution looks back to.
inline std::int64_t path_state(const Options& options, std::int64_t K, std::int64_t V, std::int64_t T) {
  const std::int64_t width = options.get_int("memory.path_conv");
  return state::cache(options, K, V, T) + (width > 1 ? (width - 1) * K : 0);
}

}  // namespace crosstalk

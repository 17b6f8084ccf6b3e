// Filters of long convolutions that are functions of the distance, not tables: what Hyena, H3 and BaseConv have.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <vector>

#include "models/graph/nodes.h"
#include "models/laws.h"
#include "models/memories/memory_file.h"

namespace crosstalk {

/// Options of a memory that has such a filter.
inline std::vector<OptionSpec> filter_options() {
  return {memories::number("units", 16, "hidden units of the filter's network", 1, 1024, {2, 3}),
          memories::number("length", 256, "distance that counts as 1", 2, 1 << 20, {8})};
}

/// 0, 1, 2 .. over the tokens, [1,T,1,1].
template <class Real>
Var<Real> distances(Mixer<Real>& m) {
  const auto one = fold(m.constant([](int h) { return h == 0 ? 1.0 : 0.0; }), {1, 1, 1, 1});
  const auto ones = expand(one, {1, m.T, 1, 1});
  return -1.0 + scan(0.0 * ones, ones);
}

/// 1 where the last dimension is the token's own number, else 0, [1,T,1,T].
template <class Real>
Var<Real> one_hot_tokens(Mixer<Real>& m) {
  const auto l = distances(m), apart = l - view(l, {1, 1, 1, m.T});
  return map(MapKind::relu, 1.0 - apart * apart);
}

/// W x + b of rows x [1,T,1,n], W [out,n], b [out] or absent.
template <class Real>
Var<Real> filter_layer(Var<Real> x, Var<Real> weights, Var<Real> bias = {}) {
  const int n = x.dim(3), out = static_cast<int>(weights.variable->value.size()) / n;
  auto& graph = *x.graph;
  return {x.graph, linear<Real>(graph, x.variable, graph.view(weights.variable, {out, n}),
                                bias ? graph.view(bias.variable, {out}) : nullptr)};
}

/// The first layer of a network on the distance s: W [s / (length - 1); cos(a); -sin(a)] + b, a = 2e-4 pi s / length
/// (PositionalEmbedding of Zoology with one band), as inputs filter_time, filter_cos, filter_sin, filter_bias of n numbers.
template <class Real>
Var<Real> filter_features(Mixer<Real>& m, int n, int length) {
  const auto input = [&](const char* name) {
    return m.input(name, [&] { return m.parameter(name, {1, n}, Init::uniform(1 / std::sqrt(3.0))); });
  };
  const auto s = distances(m);
  const double pi = std::acos(-1.0);
  const auto a = (2e-4 * pi / length) * s;
  const auto time = input("filter_time"), cosine = input("filter_cos"), sine = input("filter_sin");
  return (1.0 / std::max(length - 1, 1)) * s * time + map(MapKind::sine, 0.5 * pi + a) * cosine -
         map(MapKind::sine, a) * sine + input("filter_bias");
}

/// y_t = sum_{s <= t} h_s x_{t-s}, x [B,T,H,n], the filter h [1,T,1 or H,1 or n].
template <class Real>
Var<Real> convolved(Mixer<Real>& m, Var<Real> x, Var<Real> h) {
  return long_conv(x, expand(h, {1, m.T, m.H, x.dim(3)}));
}

}  // namespace crosstalk

// Kernels of attention by name, and the weights of a row: what the oracles of kernel_attention and
// deltaformer share.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "models/testing/sequence.h"

namespace crosstalk::checks {

/// kappa(scale x.k); `order`, `digits` and `tau` are options.
inline double kernel_value(const Sequence& s, const std::string& name, const Vector& x, const Vector& k) {
  const double y = s.real("scale", 1) * dot(x, k);
  const int order = s.integer("order", 2);
  if (name == "linear") return y;
  if (name == "relu") return std::max(0.0, y);
  if (name == "relu2") return std::max(0.0, y) * std::max(0.0, y);
  if (name == "exp") return std::exp(y);
  if (name == "power") return std::pow(1 + y / order, order);
  if (name == "round") {
    const double unit = std::pow(10.0, s.integer("digits"));
    return std::nearbyint(y * unit) / unit;
  }
  if (name == "cosine_exp") {
    const double lengths = std::sqrt(dot(x, x) * dot(k, k));
    return std::exp(s.real("tau", 1) * ((lengths > 0 ? dot(x, k) / lengths : 0) - 1));
  }
  if (name != "taylor") throw std::logic_error("no kernel is called `" + name + "`");
  double sum = 1, term = 1;
  for (int m = 1; m <= order; ++m) sum += term *= y / m;
  return sum;
}

/// Weights that x gives to the first `count` keys; norm "sum" divides them by their sum (0 stays 0).
inline Vector row_weights(const Sequence& s, const std::string& name, const std::string& norm,
                          const Vector& x, int count) {
  double top = 0;  // a row of e^y that will be divided is taken relative to its largest element
  if (name == "exp" && norm == "sum") {
    top = -std::numeric_limits<double>::infinity();
    for (int j = 0; j < count; ++j) top = std::max(top, s.real("scale", 1) * dot(x, s.key(j)));
  }
  Vector weights;
  double sum = 0;
  for (int j = 0; j < count; ++j) {
    weights.push_back(name == "exp" ? std::exp(s.real("scale", 1) * dot(x, s.key(j)) - top)
                                    : kernel_value(s, name, x, s.key(j)));
    sum += weights.back();
  }
  return norm == "sum" && sum != 0 ? scaled(1 / sum, weights) : weights;
}

}  // namespace crosstalk::checks

// Least and greatest values of what a law calculates, by interval arithmetic.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "models/rules/recognise.h"

namespace crosstalk::rules {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Bounds bounds_of(Value node, const std::vector<Bounds>& a) {
  switch (node->kind) {
    case Kind::number:
      return {node->value, node->value};
    case Kind::ones:
      return {1, 1};
    case Kind::fill:
    case Kind::transpose:
      return a[0];
    case Kind::softmax:
      return {0, 1};
    case Kind::unit:
      return {-1, 1};
    case Kind::neg:
      return {-a[0].high, -a[0].low};
    case Kind::add:
      return {a[0].low + a[1].low, a[0].high + a[1].high};
    case Kind::sub:
      return {a[0].low - a[1].high, a[0].high - a[1].low};
    case Kind::mul: {
      if (node->args[0] == node->args[1]) return {0, kInfinity};
      Bounds out{kInfinity, -kInfinity};
      for (double x : {a[0].low, a[0].high}) {
        for (double y : {a[1].low, a[1].high}) {
          const double p = x == 0 || y == 0 ? 0 : x * y;
          out = {std::min(out.low, p), std::max(out.high, p)};
        }
      }
      return out;
    }
    case Kind::max:
      return {std::max(a[0].low, a[1].low), std::max(a[0].high, a[1].high)};
    case Kind::min:
      return {std::min(a[0].low, a[1].low), std::min(a[0].high, a[1].high)};
    case Kind::map: {
      const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
      const auto softplus = [](double x) { return x > 30 ? x : std::log1p(std::exp(x)); };
      const std::string& f = node->name;
      const auto [low, high] = a[0];
      if (f == "exp")
        return {low > -kInfinity ? std::exp(std::min(low, 80.0)) : 0, high < 80 ? std::exp(high) : kInfinity};
      if (f == "tanh") return {std::tanh(low), std::tanh(high)};
      if (f == "sigmoid") return {sigmoid(low), sigmoid(high)};
      if (f == "softplus") return {softplus(low), softplus(high)};
      if (f == "relu") return {std::max(low, 0.0), std::max(high, 0.0)};
      if (f == "log_sigmoid") return {-kInfinity, 0};
      if (f == "abs" || f == "sqrt") return {0, kInfinity};
      if (f == "positive") return {0, 1};
      if (f == "sign") return {-1, 1};
      return {-kInfinity, kInfinity};
    }
    default:
      return {-kInfinity, kInfinity};
  }
}

}  // namespace

Bounds bounds_of(Value root) {
  std::map<Value, Bounds> known;
  for (Value node : order({root})) {
    std::vector<Bounds> args;
    for (Value a : node->args) args.push_back(known.at(a));
    Bounds b = bounds_of(node, args);
    if (!(b.low <= b.high)) b = {-kInfinity, kInfinity};  // inf - inf
    known[node] = b;
  }
  return known.at(root);
}

}  // namespace crosstalk::rules

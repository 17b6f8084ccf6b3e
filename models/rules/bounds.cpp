// Least and greatest values of what a law calculates, by interval arithmetic.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "models/rules/recognise.h"

namespace crosstalk::rules {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Bounds product(Bounds a, Bounds b) {
  Bounds out{kInfinity, -kInfinity};
  for (double x : {a.low, a.high})
    for (double y : {b.low, b.high}) {
      const double p = x == 0 || y == 0 ? 0 : x * y;
      out = {std::min(out.low, p), std::max(out.high, p)};
    }
  return out;
}

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
    case Kind::mul:
      return node->args[0] == node->args[1] ? Bounds{0, kInfinity} : product(a[0], a[1]);
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

Bounds bounds_of(Law& law, Value root) {
  std::map<Value, Value> made;
  for (const Learned& one : law.learned)
    if (one.made && !one.any_sign)
      made[law.graph.leaf(one.kind, one.name, one.shape)] = law.graph.replaced(one.made, made);
  return bounds_of(made.empty() ? root : law.graph.replaced(root, made));
}

std::optional<Bounds> kept_of(Value step, Value state) {
  const std::set<Value> changed = reaching({step}, [&](Value n) { return n == state; });
  std::map<Value, std::optional<Bounds>> known;
  for (Value node : order({step})) {
    const auto of = [&](std::size_t i) { return known.at(node->args[i]); };
    const auto free = [&](std::size_t i) { return changed.count(node->args[i]) == 0; };
    const bool rank_one = node->kind == Kind::matmul && node->args[1]->shape.rows == 1;
    std::optional<Bounds> kept;
    if (node == state) {
      kept = {1, 1};
    } else if (rank_one || changed.count(node) == 0) {
      kept = {0, 0};
    } else if (node->kind == Kind::neg && of(0)) {
      kept = {-of(0)->high, -of(0)->low};
    } else if (node->kind == Kind::add && of(0) && of(1)) {
      kept = {of(0)->low + of(1)->low, of(0)->high + of(1)->high};
    } else if (node->kind == Kind::sub && of(0) && of(1)) {
      kept = {of(0)->low - of(1)->high, of(0)->high - of(1)->low};
    } else if (node->kind == Kind::div && node->args[1]->kind == Kind::number && of(0)) {
      kept = product(*of(0), {1 / node->args[1]->value, 1 / node->args[1]->value});
    } else if (node->kind == Kind::mul || node->kind == Kind::columns || node->kind == Kind::rows) {
      for (const std::size_t i : {0u, 1u})
        if (free(1 - i) && of(i)) kept = product(*of(i), bounds_of(node->args[1 - i]));
    }
    known[node] = kept;
  }
  return known.at(step);
}

}  // namespace crosstalk::rules

// SPDX-License-Identifier: Apache-2.0
#include "models/rules/hoist.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>

#include "models/graph/nodes.h"
#include "models/parts/parts.h"
#include "models/parts/ramps.h"
#include "models/rules/lower.h"

namespace crosstalk::rules {
namespace {

/// The number of a value that is made of numbers alone; `known`, so that what is shared is worked out once.
std::optional<double> number_of(Value x, std::map<Value, std::optional<double>>& known);

/// What numbers make; of(x): that of an argument.
template <class Of>
std::optional<double> worked_out(Value x, const Of& of) {
  if (x->kind == Kind::number) return x->value;
  if (!x->shape.number()) return {};
  std::vector<double> a;
  for (Value arg : x->args) {
    const auto one = of(arg);
    if (!one) return {};
    a.push_back(*one);
  }
  switch (x->kind) {
    case Kind::neg:
      return -a[0];
    case Kind::add:
      return a[0] + a[1];
    case Kind::sub:
      return a[0] - a[1];
    case Kind::mul:
      return a[0] * a[1];
    case Kind::div:
      return a[0] / a[1];
    default:
      return {};
  }
}

std::optional<double> number_of(Value x, std::map<Value, std::optional<double>>& known) {
  const auto it = known.find(x);
  if (it != known.end()) return it->second;
  return known[x] = worked_out(x, [&](Value arg) { return number_of(arg, known); });
}

/// The number of a value that numbers and the place of a head make, or none.
std::optional<double> number_at(Value x, double head) {
  if (x->kind == Kind::given && x->name == "head") return head;
  if (x->kind == Kind::map && (x->name == "exp" || x->name == "log")) {
    const auto a = number_at(x->args[0], head);  // as kernels do where there is no logarithm
    return !a ? a : x->name == "exp" ? std::exp(*a) : std::log(std::max(*a, 1e-30));
  }
  return worked_out(x, [&](Value arg) { return number_at(arg, head); });
}

/// r of r / (1 + abs(r)), or none.
Value inside_softsign(Value x) {
  if (x->kind != Kind::div || x->args[1]->kind != Kind::add) return nullptr;
  const Value one = x->args[1]->args[0], size = x->args[1]->args[1];
  const bool is = one->kind == Kind::number && one->value == 1 && size->kind == Kind::map &&
                  size->name == "abs" && size->args[0] == x->args[0];
  return is ? x->args[0] : nullptr;
}

}  // namespace

std::optional<Init> init_of(const Learned& one, int H, int n, double depth) {
  if (one.init.empty()) return {};
  if (one.init[0] == '"') return Init::listed(ramp(one.init.substr(1, one.init.size() - 2), H, n, depth));
  const double a = one.numbers[0], b = one.numbers.size() > 1 ? one.numbers[1] : a;
  if (one.init == "constant") return Init::constant(a);
  if (one.init == "normal") return Init::normal(a);
  if (one.init == "uniform") return Init{Init::Law::uniform, one.numbers.size() > 1 ? a : -a, b};
  if (one.init == "log_uniform") return Init::log_uniform(a, b);
  if (one.init == "logit_step") return Init::logit_step(a, b);
  if (one.init == "signed_step") return Init::signed_step(a, b);
  return Init::inverse_softplus(a, b);
}

template <class Real>
Hoist<Real>::Hoist(Mixer<Real>& m, const Law& law) : m_(m), law_(law) {
  const auto asks = [](Value n) { return n->kind == Kind::given && (n->name == "q" || n->name == "k"); };
  std::vector<Value> roots = law.roots();
  if (own_ && std::none_of(roots.begin(), roots.end(), [&](Value root) { return holds(root, asks); })) return;
  const auto [q, k] = features(m);
  given_["q"] = {Place::query, q};
  given_["k"] = {Place::token, k};
}

template <class Real>
void Hoist<Real>::count(const std::vector<Value>& roots) {
  for (Value node : order(roots))
    for (Value a : node->args) ++uses_[a];
  for (Value root : roots) ++uses_[root];
}

template <class Real>
typename Hoist<Real>::Made Hoist<Real>::made_given(const std::string& name) {
  if (name == "v" && given_.count("v") == 0) given_["v"] = {Place::token, m_.values()};
  return given_.at(name);
}

template <class Real>
std::optional<double> Hoist<Real>::number(Value x) {
  return number_of(x, numbers_);
}

template <class Real>
Var<Real> Hoist<Real>::constant(double x) {
  return m_.constant([x](int) { return x; });
}

template <class Real>
Var<Real> Hoist<Real>::wide(Made x, int n) {
  const int rows = x.place == Place::query ? m_.Q : m_.T;
  const Var<Real>& v = x.x;
  const bool each_write = x.place == Place::token && v.dim(1) == m_.writes();
  if (v.dim(0) == m_.B && (v.dim(1) == rows || each_write) && v.dim(2) == m_.H && v.dim(3) == n) return v;
  return expand(v, {m_.B, rows, m_.H, n});
}

template <class Real>
Var<Real> Hoist<Real>::moved(const Made& x, Place to) {
  if (x.place == to || x.place == Place::head || m_.at_tokens()) return x.x;
  return m_.at_queries(wide(x, x.x.dim(3)));
}

template <class Real>
Var<Real> Hoist<Real>::at_tokens(Value x, int n) {
  Made one = made(x);
  if (one.place == Place::query && !m_.at_tokens()) throw std::logic_error("[rules] a query has no token");
  one.place = Place::token;
  return wide(one, n);
}

template <class Real>
Var<Real> Hoist<Real>::at_queries(Value x, int n) {
  return wide({Place::query, moved(made(x), Place::query)}, n);
}

template <class Real>
Place Hoist<Real>::together(Value a, Value b, Var<Real>& x, Var<Real>& y) {
  const Made one = made(a), other = made(b);
  const Place place = std::max(one.place, other.place);
  x = moved(one, place), y = moved(other, place);
  return place;
}

template <class Real>
Var<Real> Hoist<Real>::widened(Var<Real> x, int n) {
  return x.dim(3) == n ? x : expand(x, {x.dim(0), x.dim(1), x.dim(2), n});
}

template <class Real>
typename Hoist<Real>::Made Hoist<Real>::learned(const Learned& one) {
  const int rows = size(one.shape.rows), columns = size(one.shape.columns);
  // Inputs of a memory are made of weights; those of a law that a study writes are weights themselves.
  const auto input = [&](const auto& law) { return one.weight ? law() : m_.input(one.name, law); };
  if (one.made)
    return {one.kind == Kind::parameter ? Place::head
            : one.kind == Kind::asking  ? Place::query
                                        : Place::token,
            input([&] { return made(one.made).x; })};
  const std::optional<Init> init = init_of(one, m_.H, one.shape.columns == 1 ? rows : columns, m_.depth());
  if (one.kind == Kind::parameter) {
    std::vector<int> dims = {m_.H};
    if (rows * columns > 1 || !one.shape.number()) dims.push_back(one.weight ? rows * columns : rows);
    if (one.shape.columns != 1 && !one.weight) dims.push_back(columns);
    return {Place::head, input([&] { return m_.parameter(one.name, dims, *init); })};
  }
  if (one.kind == Kind::asking) return {Place::query, input([&] { return m_.asking(one.name, rows, init); })};
  const int rank = one.rank == kRankOfKeys ? m_.d : one.rank;
  const Through through(rank, one.through.empty() ? MapKind::affine : MapKind::tanh, one.weights);
  return {Place::token, input([&] { return m_.token(one.name, rows, init, through, one.each_write); })};
}

/// scale f(x).
template <class Real>
typename Hoist<Real>::Made Hoist<Real>::mapped(const std::string& f, Value argument, double scale) {
  static const std::map<std::string, MapKind> kKinds = {
      {"exp", MapKind::exp},   {"log", MapKind::log},         {"sigmoid", MapKind::sigmoid},
      {"tanh", MapKind::tanh}, {"relu", MapKind::relu},       {"softplus", MapKind::softplus},
      {"silu", MapKind::silu}, {"inverse", MapKind::inverse}, {"log_sigmoid", MapKind::log_sigmoid},
      {"sin", MapKind::sine}};
  if (own_ && f == "log" && argument->kind == Kind::map && argument->name == "abs") {
    const Made a = made(argument->args[0]);
    return {a.place, 0.5 * scale * log(a.x * a.x)};
  }
  const Made x = made(argument);
  if (const auto it = kKinds.find(f); it != kKinds.end()) return {x.place, map(it->second, x.x, scale)};
  // 1 where x > 0: relu(x) / relu(x), and 0 / 0 is 0.
  const auto positive = [](Var<Real> y) {
    const Var<Real> above = map(MapKind::relu, y);
    return above * map(MapKind::inverse, above);
  };
  Var<Real> y;
  if (f == "abs" && own_) {
    y = larger(x.x, 0.0 * x.x);
  } else if (f == "abs") {  // slope 0 at 0
    y = map(MapKind::relu, x.x) + map(MapKind::relu, -x.x);
  } else if (f == "positive") {
    y = positive(x.x);
  } else if (f == "sign") {
    y = positive(x.x) - positive(-x.x);
  } else {  // sqrt, with slope 0 at 0
    y = positive(x.x) * exp(0.5 * log(x.x));
  }
  return {x.place, scale == 1 ? y : scale * y};
}

/// number * sigmoid(x) is one operation, as the built-in gates have it; so is number * (x / (1 + |x|)).
template <class Real>
typename Hoist<Real>::Made Hoist<Real>::scaled(double scale, Value x) {
  if (own_ && uses_[x] <= 1 && x->kind == Kind::neg) return scaled(-scale, x->args[0]);
  if (x->kind == Kind::map && uses_[x] <= 1) return mapped(x->name, x->args[0], scale);
  if (const Value inner = inside_softsign(x); inner && uses_[x] <= 1 && own_) {
    const Made a = made(inner);
    return {a.place, map(MapKind::softsign, a.x, scale)};
  }
  const Made a = made(x);
  return {a.place, scale * a.x};
}

template <class Real>
typename Hoist<Real>::Made Hoist<Real>::made(Value node) {
  const auto it = made_.find(node);
  return it != made_.end() ? it->second : made_[node] = make(node);
}

template <class Real>
typename Hoist<Real>::Made Hoist<Real>::make(Value node) {
  const auto& args = node->args;
  if (const auto number = number_of(node, numbers_)) return {Place::head, constant(*number)};
  if (number_at(node, 0)) return {Place::head, m_.constant([node](int h) { return *number_at(node, h); })};
  const auto length = [&](Value x) { return std::max(size(x->shape.rows), size(x->shape.columns)); };
  const auto both = [&](auto f) {
    Var<Real> x, y;
    const Place place = together(args[0], args[1], x, y);
    return Made{place, f(x, y)};
  };
  std::optional<double> first, second;
  // max and min: of equal ones the first has the slope, and a number is not the first (gradient.cpp).
  const bool behind = args.size() == 2 && args[0]->kind == Kind::number && args[1]->kind != Kind::number;
  const auto above = [&](Var<Real> x) {  // max(x, 0)
    return behind ? x + map(MapKind::relu, -x) : map(MapKind::relu, x);
  };
  if (args.size() == 2) first = number_of(args[0], numbers_), second = number_of(args[1], numbers_);
  switch (node->kind) {
    case Kind::ones: {
      const int n = length(node);
      return {Place::head, n == 1 ? constant(1) : expand(constant(1), {1, 1, m_.H, n})};
    }
    case Kind::given:
      return made_given(node->name);
    case Kind::input:
      return inputs_.at(node->name);
    case Kind::token:
    case Kind::asking:
    case Kind::parameter:
      return learned(law_.quantity(node));
    case Kind::add:
      if (first || second) {
        const Made a = made(args[first ? 1 : 0]);
        return {a.place, (first ? *first : *second) + a.x};
      }
      return both([](auto x, auto y) { return x + y; });
    case Kind::sub:
      // 1 - exp(x) to the last digits of small x, as the built-in gates have it.
      if (first == 1.0 && args[1]->kind == Kind::map && args[1]->name == "exp") {
        const Made a = made(args[1]->args[0]);
        return {a.place, map(MapKind::expm1, a.x, -1)};
      }
      if (first || second) {
        const Made a = made(args[first ? 1 : 0]);
        return {a.place, first ? *first - a.x : -*second + a.x};
      }
      return both([](auto x, auto y) { return x - y; });
    case Kind::neg: {
      // The sign of a product goes to the operand that is one for all tokens, as the built-in decays have it.
      const Value product = args[0];
      const auto factor = product->kind == Kind::mul ? number_of(product->args[0], numbers_) : std::nullopt;
      if (factor && own_) {
        const Made a = made(product->args[1]);
        return {a.place, -*factor * a.x};
      }
      if (const auto scale =
              product->kind == Kind::mul ? number_of(product->args[0], numbers_) : std::nullopt)
        return scaled(-*scale, product->args[1]);
      if (product->kind == Kind::mul && uses_[product] <= 1 && !number_of(product->args[0], numbers_) &&
          !number_of(product->args[1], numbers_)) {
        const bool one = made(product->args[0]).place == Place::head,
                   other = made(product->args[1]).place == Place::head;
        if (one != other) {
          Var<Real> x, y;
          const Place place = together(product->args[0], product->args[1], x, y);
          return {place, one ? -x * y : x * -y};
        }
      }
      const Made a = made(args[0]);
      return {a.place, -a.x};
    }
    case Kind::mul:
    case Kind::columns:
    case Kind::rows:
      if (first || second) return scaled(first ? *first : *second, args[first ? 1 : 0]);
      return both([](auto x, auto y) { return x * y; });
    case Kind::div:
      if (const Value a = own_ ? rms_of(node) : nullptr; a && centred_of(a)) {
        const Made x = made(centred_of(a));
        const Value eps = args[1]->args[0]->args[1];
        return {
            x.place,
            {&m_.graph, normalize(m_.graph, RowNorm::layer, eps->value, widened(x.x, length(a)).variable)}};
      }
      if (second) {
        const Made a = made(args[0]);
        return {a.place, (1 / *second) * a.x};
      }
      if (first) {
        const Made a = made(args[1]);
        return {a.place, map(MapKind::reciprocal, a.x, *first)};
      }
      return both([](auto x, auto y) { return x * map(MapKind::reciprocal, y); });
    case Kind::max:
      return both([&](auto x, auto y) { return x + above(y - x); });
    case Kind::min:
      return both([&](auto x, auto y) { return x - above(x - y); });
    case Kind::map:
      return mapped(node->name, args[0], 1);
    case Kind::matmul:  // x^T y
      return both([&](auto x, auto y) {
        const Var<Real> p = widened(x * y, length(args[0]));
        return fold(p, {p.dim(0), p.dim(1), p.dim(2), 1});
      });
    case Kind::transpose:
      return made(args[0]);
    case Kind::sum:
    case Kind::row_sums: {
      const Made a = made(args[0]);
      const Var<Real> all = widened(a.x, length(args[0]));
      return {a.place, fold(all, {all.dim(0), all.dim(1), all.dim(2), 1})};
    }
    case Kind::fill: {
      const Made a = made(args[0]);
      return {a.place, widened(a.x, length(node))};
    }
    case Kind::softmax:
    case Kind::unit: {
      const Made a = made(args[0]);
      const Var<Real> all = widened(a.x, length(node));
      return {a.place, node->kind == Kind::unit ? unit(all) : softmax(all)};
    }
    case Kind::largest: {
      const Made a = made(args[0]);
      return {a.place, largest(widened(a.x, length(node)), static_cast<int>(node->value), 0)};
    }
    default:
      throw std::logic_error("[rules] a matrix is no number or vector");
  }
}

template class Hoist<float>;
template class Hoist<double>;

}  // namespace crosstalk::rules

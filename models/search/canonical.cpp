// One text for laws that differ in order, signs, factors and names alone.
//
//   every value     = number * (scalars in order) * (what is left)
//   a sum           = terms by what is left of them, smaller ones first, the first one positive
//   linear in x     : f(number * scalars * x) = number * scalars * f(x)
//   number * projection that nothing else looks at -> projection
//
// The parser has rewrites of its own (models/rules/graph.h), so both turn about until the text stays, or comes again: then the first
// one of the circle is taken.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "models/rules/walk.h"
#include "models/search/candidate.h"
#include "models/search/term.h"

namespace crosstalk::search {
namespace {

using namespace rules;

/// c * scalars * rest; rest nullptr: 1.
struct Product {
  double c = 1;
  std::vector<Value> scalars = {};
  Value rest = nullptr;
  Shape shape = {};
};

class Simplifier {
 public:
  explicit Simplifier(Law& law) : law_(law), g_(law.graph) {
    for (Value node : order(law.roots()))
      for (Value a : node->args) ++uses_[a];
    for (Value root : law.roots()) ++uses_[root];
  }

  Value simple(Value root) {
    for (Value node : order({root}))
      if (made_.count(node) == 0) {
        Product p = product(node);
        p.shape = node->shape;
        if (!std::isfinite(p.c)) p = whole(g_.with(node, built(node->args)));
        std::sort(p.scalars.begin(), p.scalars.end(), [&](Value a, Value b) { return before(a, b); });
        made_.emplace(node, p);
      }
    return built(made_.at(root));
  }

 private:
  Product whole(Value x) {
    if (x->kind == Kind::number && x->name.empty()) return {x->value};
    return x->shape.number() ? Product{1, {x}, nullptr} : Product{1, {}, x, x->shape};
  }
  Value built(const Product& p) {
    if (p.c == 0 || !p.rest) {
      const Value x = p.c == 0 ? g_.number(0) : scaled(p.c, p.scalars);
      return g_.fill(x, p.shape);
    }
    if (p.scalars.empty() && p.c == 1) return p.rest;
    if (p.rest->kind == Kind::ones) return g_.fill(scaled(p.c, p.scalars), p.shape);
    if (p.scalars.empty() && p.c == -1) return g_.neg(p.rest);
    return g_.mul(scaled(p.c, p.scalars), p.rest);
  }
  std::vector<Value> built(const std::vector<Value>& args) {
    std::vector<Value> out;
    for (Value a : args) out.push_back(built(made_.at(a)));
    return out;
  }
  Value scaled(double c, const std::vector<Value>& scalars) {
    if (scalars.empty()) return g_.number(c);
    Value all = scalars[0];
    for (std::size_t i = 1; i < scalars.size(); ++i) all = g_.mul(all, scalars[i]);
    return c == 1 ? all : c == -1 ? g_.neg(all) : g_.mul(g_.number(c), all);
  }

  Product product(Value node) {
    const auto arg = [&](std::size_t i) -> const Product& { return made_.at(node->args[i]); };
    // f of the rest of the first argument, whose factors come out; those of the second too where it is linear in both.
    const auto linear = [&](auto f) {
      Product out = whole(f(arg(0).rest ? arg(0).rest : g_.ones(node->args[0]->shape)));
      return times(out, arg(0));
    };
    const auto bilinear = [&](auto f) {
      return times(times(whole(f(arg(0).rest, arg(1).rest)), arg(0)), arg(1));
    };
    switch (node->kind) {
      case Kind::neg: {
        Product out = arg(0);
        out.c = -out.c;
        return out;
      }
      case Kind::add:
      case Kind::sub:
        return sum(node);
      case Kind::mul: {
        Product out = times(times({}, arg(0)), arg(1));
        out.rest = entrywise(arg(0).rest, arg(1).rest);
        return out;
      }
      case Kind::div:
        return quotient(node, arg(0), arg(1));
      case Kind::map:
        return mapped(node, arg(0));
      case Kind::matmul: {
        if (!arg(0).rest || !arg(1).rest) break;
        return bilinear([&](Value a, Value b) {
          const bool turned = node->shape.number() && before(b, g_.transpose(a));
          return turned ? g_.product(g_.transpose(b), g_.transpose(a)) : g_.product(a, b);
        });
      }
      case Kind::columns:
      case Kind::rows: {
        if (!arg(0).rest || !arg(1).rest) break;
        return bilinear([&](Value a, Value x) { return g_.with(node, {a, x}); });
      }
      case Kind::transpose:
        return linear([&](Value x) { return g_.transpose(x); });
      case Kind::diag:
        return linear([&](Value x) { return g_.diag(x); });
      case Kind::diagonal:
        return linear([&](Value x) { return g_.diagonal(x); });
      case Kind::sum:
        return linear([&](Value x) { return g_.sum(x); });
      case Kind::row_sums:
        return linear([&](Value x) { return g_.row_sums(x); });
      case Kind::fill: {
        Product out = arg(0);
        out.rest = g_.ones(node->shape);
        return out;
      }
      default:
        break;
    }
    return whole(node->is_leaf() ? node : g_.with(node, built(node->args)));
  }
  static Product times(Product a, const Product& b) {
    a.c *= b.c;
    a.scalars.insert(a.scalars.end(), b.scalars.begin(), b.scalars.end());
    return a;
  }

  /// a * b entry by entry, factors in order.
  Value entrywise(Value a, Value b) {
    if (!a || !b) return a ? a : b;
    std::vector<Value> factors;
    for (std::vector<Value> todo = {a, b}; !todo.empty();) {
      const Value x = todo.back();
      todo.pop_back();
      if (x->kind == Kind::mul) {
        todo.insert(todo.end(), x->args.begin(), x->args.end());
      } else if (x->kind != Kind::ones) {
        factors.push_back(x);
      }
    }
    if (factors.empty()) return a;
    std::sort(factors.begin(), factors.end(), [&](Value x, Value y) { return before(x, y); });
    Value all = factors[0];
    for (std::size_t i = 1; i < factors.size(); ++i) all = g_.mul(all, factors[i]);
    return all;
  }

  Product quotient(Value node, const Product& a, const Product& b) {
    if (const Value x = mean_of(node)) {
      const Product& of = made_.at(x);
      return times(whole(g_.mean(of.rest ? of.rest : g_.ones(x->shape))), of);
    }
    Product out = a;
    out.c = a.c / b.c;
    if (!b.scalars.empty()) {
      const Value by = scaled(1, b.scalars);
      if (a.rest && !b.rest) {
        out.rest = g_.div(a.rest, by);
      } else {
        out.scalars.push_back(g_.div(g_.number(1), by));
      }
    }
    if (b.rest) out.rest = g_.div(a.rest ? a.rest : g_.number(1), b.rest);
    out.shape = node->shape;
    return out;
  }

  Product mapped(Value node, const Product& x) {
    const Value made = g_.with(node, {built(x)});
    if (x.rest || !x.scalars.empty()) return whole(made);
    Walk walk({made}, 1, 1, 1);  // a number
    walk.run();
    return {walk.of(made)[0]};
  }

  using Terms = std::vector<Product>;
  Product sum(Value node) {
    Terms all;
    for (std::size_t i = 0; i < 2; ++i) {
      Product p = made_.at(node->args[i]);
      if (i == 1 && node->kind == Kind::sub) p.c = -p.c;
      const Value one = !p.rest && p.scalars.size() == 1 ? p.scalars[0]
                        : p.scalars.empty()              ? p.rest
                                                         : nullptr;
      const auto inner = sums_.find(one);
      // A sum that others use too stays one: several writes of a token are told by it.
      if (inner == sums_.end() || uses_[node->args[i]] > 1) {
        all.push_back(p);
      } else {
        for (Product t : inner->second) t.c *= p.c, all.push_back(t);
      }
    }
    Terms terms;
    for (const Product& p : all) {
      const auto same = std::find_if(terms.begin(), terms.end(), [&](const Product& t) {
        return t.rest == p.rest && t.scalars == p.scalars && t.shape == p.shape;
      });
      if (same == terms.end()) {
        terms.push_back(p);
      } else {
        same->c += p.c;
      }
    }
    std::erase_if(terms, [](const Product& t) { return t.c == 0; });
    Product out{1, {}, nullptr, node->shape};
    if (terms.empty()) return out.c = 0, out;
    const auto bare = [&](Product t) { return t.c = 1, built(t); };
    const auto number = [](const Product& t) { return !t.rest && t.scalars.empty(); };
    std::stable_sort(terms.begin(), terms.end(), [&](const Product& a, const Product& b) {
      return number(a) != number(b) ? number(b) : before(bare(a), bare(b));
    });
    const bool equal = std::all_of(terms.begin(), terms.end(),
                                   [&](const Product& t) { return std::abs(t.c) == std::abs(terms[0].c); });
    const auto positive = std::count_if(terms.begin(), terms.end(), [](const Product& t) { return t.c > 0; });
    const auto negative = static_cast<std::ptrdiff_t>(terms.size()) - positive;
    const double leads = (number(terms.back()) ? terms.back() : terms[0]).c;
    const bool turned = negative > positive || (negative == positive && leads < 0);
    const double c = (equal ? std::abs(terms[0].c) : 1) * (turned ? -1 : 1);
    const bool full =
        std::any_of(terms.begin(), terms.end(), [&](const Product& t) { return t.shape == node->shape; });
    for (Product& t : terms) t.c /= c;
    if (terms.size() == 1 && full) return terms[0].c *= c, terms[0];
    std::stable_partition(terms.begin(), terms.end(), [](const Product& t) { return t.c > 0; });
    Value made = built(terms[0]);
    for (std::size_t i = 1; i < terms.size(); ++i) {
      Product t = terms[i];
      const bool minus = t.c < 0;
      t.c = std::abs(t.c);
      made = minus ? g_.sub(made, built(t)) : g_.add(made, built(t));
    }
    if (terms.size() > 1) sums_[made] = terms;
    out = whole(made);
    if (!full) out.rest = g_.ones(node->shape);
    out.c *= c;
    return out;
  }

  /// Leaves and what looks at no state first, and smaller ones; by their text with quantities as they are made, then by names.
  bool before(Value a, Value b) {
    const auto key = [&](Value x) { return std::tuple(size(x), said(x, false), said(x, true)); };
    return a != b && key(a) < key(b);
  }
  int size(Value x) {
    if (const auto it = sizes_.find(x); it != sizes_.end()) return it->second;
    int all = x->kind == Kind::transpose ? 0 : 1;
    for (Value a : x->args) all = std::min(1000000, all + size(a) + (a->kind == Kind::state ? 1000 : 0));
    return sizes_[x] = all;
  }
  const std::string& said(Value x, bool names) {
    std::string& text = said_[{x, names}];
    if (text.empty()) text = expression_text(law_, x, names);
    return text;
  }

  const Law& law_;
  LawGraph& g_;
  std::map<Value, Product> made_;
  std::map<Value, Terms> sums_;
  std::map<Value, int> uses_, sizes_;
  std::map<std::pair<Value, bool>, std::string> said_;
};

std::string turned_about(const std::string& text) {
  const std::unique_ptr<Law> law = parse_law(steps_of(text));
  Simplifier simplifier(*law);
  for (LawState& one : law->states) one.step = simplifier.simple(one.step);
  law->read = simplifier.simple(law->read);
  return text_of(*law);
}

}  // namespace

std::string canonical_text(const std::string& law) {
  constexpr std::size_t kMostTurns = 40;
  std::vector<std::string> seen = {accept_law(steps_of(law)).text};
  while (seen.size() < kMostTurns) {
    const std::string next = accept_law(steps_of(turned_about(seen.back()))).text;
    const auto again = std::find(seen.begin(), seen.end(), next);
    if (again != seen.end()) return *std::min_element(again, seen.end());
    seen.push_back(next);
  }
  return seen.back();
}

}  // namespace crosstalk::search

// SPDX-License-Identifier: Apache-2.0
#include "models/search/term.h"

#include <fmt/format.h>

#include <algorithm>

namespace crosstalk::search {

using namespace rules;

Value Terms::learned(Learned one, bool known) {
  std::vector<const Learned*> alike;
  for (const Learned& other : law_.learned)
    if (learned_text(other) == learned_text(one)) alike.push_back(&other);
  if (known && !alike.empty()) {
    one = *one_of(alike);
  } else {
    one.name = fmt::format("new{}", law_.learned.size());
    law_.learned.push_back(one);
  }
  return g_.leaf(one.kind, one.name, one.shape);
}

Value Terms::gate(Shape shape) {
  Learned one{.kind = Kind::token, .shape = shape};
  const auto kind = random_.below(10);
  if (kind < 2) one.init = "constant", one.numbers = {kind == 0 ? 3.0 : -3.0};
  const bool full = limits_.gates > 0 && static_cast<int>(law_.learned.size()) >= limits_.gates;
  const Value x = learned(one, full || chance(40));
  if (kind < 7) return g_.map("sigmoid", x);
  if (kind == 7) return g_.map("tanh", x);
  return kind == 8 ? g_.map("exp", g_.neg(g_.map("softplus", x))) : x;
}

Value Terms::mapped(Value x) {
  const bool given = x->kind == Kind::given && x->name != "v";  // q and k are 1 long
  if (x->shape.columns == 1 && !x->shape.number() && !given && chance(25)) return g_.unit(x);
  return g_.map(one_of<const char*>({"tanh", "sigmoid", "relu"}), x);
}

Value Terms::leaf(Shape shape, bool read) {
  std::vector<Value> all;
  for (const LawState& one : law_.states)
    if (one.shape == shape) all.push_back(g_.leaf(Kind::state, one.name, shape));
  if (read && shape == Shape{kK, 1}) all.assign(3, g_.leaf(Kind::given, "q", shape));
  if (!read && shape == Shape{kK, 1}) all.insert(all.end(), 3, g_.leaf(Kind::given, "k", shape));
  if (!read && shape == Shape{kV, 1}) all.insert(all.end(), 3, g_.leaf(Kind::given, "v", shape));
  if (!read && shape.columns == 1 && (all.empty() || chance(20))) return gate(shape);
  return one_of(all);
}

Value Terms::product(int rows, int deep, bool read) {
  std::vector<std::pair<Value, bool>> all;
  for (const LawState& one : law_.states) {
    const Value state = g_.leaf(Kind::state, one.name, one.shape);
    if (one.shape.rows == 1 || one.shape.columns == 1) continue;
    if (one.shape.rows == rows) all.push_back({state, false});
    if (one.shape.columns == rows && one.shape.rows != rows) all.push_back({state, true});
  }
  const auto [state, turned] = one_of(all);
  const Value matrix = turned ? g_.transpose(state) : state;
  return g_.product(matrix, grow({matrix->shape.columns, 1}, deep - 1, read));
}

Value Terms::grow(Shape s, int deep, bool read) {
  const auto inner = [&](Shape shape) { return grow(shape, deep - 1, read); };
  // The first one is drawn first.
  const auto two = [&](auto f, Shape a, Shape b) {
    const Value x = inner(a), y = inner(b);
    return (g_.*f)(x, y);
  };
  const auto outer = [&](int rows, int columns) {
    const Value x = inner({rows, 1}), y = inner({columns, 1});
    return rows == columns && s.number() ? g_.product(g_.transpose(x), y) : g_.product(x, g_.transpose(y));
  };
  if (s.number()) {
    const auto kind = deep <= 0 ? 0 : random_.below(10);
    const int size = chance(50) ? kK : kV;
    if (kind == 6) return outer(size, size);
    if (kind == 7) return g_.norm(inner({size, 1}));
    if (kind == 8) return mapped(inner({}));
    if (kind == 9) return g_.sub(g_.number(1), inner({}));
    return read || chance(25) ? g_.number(one_of<double>({0.5, 2})) : gate({});
  }
  const bool vector = s.columns == 1;
  const bool made = read && s == Shape{kV, 1};  // by states alone
  if (vector && (chance(s.rows == kV ? 35 : 15) || (made && deep <= 0)))
    return product(s.rows, std::min(deep, 1), read);
  if (!made && (deep <= 0 || chance(35)))
    return vector || chance(60) ? leaf(s, read) : outer(s.rows, s.columns);
  switch (random_.below(vector ? 6 : 7)) {
    case 0:
      return two(&LawGraph::add, s, s);
    case 1:
      return two(&LawGraph::sub, s, s);
    case 2:
      return two(&LawGraph::mul, {}, s);
    case 3:
      return mapped(inner(s));
    case 4:
      return vector ? two(&LawGraph::mul, s, s) : two(&LawGraph::columns, s, {s.columns, 1});
    case 5:
      return vector ? product(s.rows, deep, read) : two(&LawGraph::rows, s, {s.rows, 1});
    default:
      return outer(s.rows, s.columns);
  }
}

std::string random_candidate(RandomStream& random, const Limits& limits) {
  constexpr int kMost = 200;  // some 0.1 s; few laws, or none, keep to narrow limits
  for (int i = 0; i < kMost; ++i) {
    try {
      Law law;
      Terms terms(law, random, limits);
      law.states.push_back({"S", {kV, kK}});
      law.states[0].step = terms.grow({kV, kK}, 3, false);
      const Value S = law.graph.leaf(Kind::state, "S", {kV, kK}),
                  q = law.graph.leaf(Kind::given, "q", {kK, 1});
      law.read = random.below(5) == 0 ? terms.grow({kV, 1}, 2, true) : law.graph.product(S, q);
      const std::string text = canonical_text(text_of(law));
      const std::unique_ptr<Law> read = parse_law(steps_of(text));
      const auto given = [](Value n) { return n->kind == Kind::given || n->kind == Kind::token; };
      const bool changes = std::all_of(read->states.begin(), read->states.end(),
                                       [&](const LawState& one) { return holds(one.step, given); });
      if (changes && !exceeds(price(text, limits.K, limits.V), limits)) return text;
    } catch (const ShapeRefused&) {
    } catch (const LawError&) {
    }
  }
  return canonical_text(kPlainSum);
}

}  // namespace crosstalk::search

// Children of laws: one edge of the graph, a value where it is used, gets another value of its shape.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "models/search/candidate.h"
#include "models/search/term.h"

namespace crosstalk::search {
namespace {

using namespace rules;

/// A use of a value: an argument of a node below the step of a state, or the reading behind them; node nullptr: all of it.
struct Edge {
  std::size_t root;
  Value node;
  std::size_t arg;
  Value value;
};

class Changer {
 public:
  Changer(Law& law, RandomStream& random, const Limits& limits)
      : law_(law), g_(law.graph), random_(random), limits_(limits), terms_(law, random, limits) {}

  /// Changes the law and says how. Throws ShapeRefused where what was drawn does not go here.
  std::string change() {
    static const std::vector<std::pair<int, std::string (Changer::*)()>> kinds = {
        {22, &Changer::insert}, {14, &Changer::erase}, {18, &Changer::replace}, {8, &Changer::map},
        {16, &Changer::gate},   {4, &Changer::number}, {4, &Changer::bias},     {4, &Changer::share},
        {3, &Changer::split},   {5, &Changer::sum_up}, {4, &Changer::drop},     {2, &Changer::turn}};
    auto at = static_cast<int>(random_.below(104));
    for (const auto& [weight, kind] : kinds) {
      if (at < weight) return (this->*kind)();
      at -= weight;
    }
    return {};
  }

  std::string cross(Law& other) {
    if (random_.below(8) == 0) {
      law_.read = brought(other, other.read), law_.before = other.before;
      return "takes the other law's reading " + said(law_.read);
    }
    std::vector<Value> all;
    for (const LawState& one : other.states)
      for (Value node : order({one.step}))
        if (node->shape.rows != 1 && node->kind != Kind::state) all.push_back(node);
    const Value term = brought(other, terms_.one_of(all));
    const Edge edge = pick([&](const Edge& e) { return !reads(e) && e.value->shape == term->shape; });
    const std::string what =
        fmt::format("takes {} of the other law in place of {}", said(term), said(edge.value));
    put(edge, term);
    return what;
  }

 private:
  bool reads(const Edge& edge) const { return edge.root == law_.states.size(); }
  Value& root(std::size_t i) { return i < law_.states.size() ? law_.states[i].step : law_.read; }
  std::string said(Value x) const { return expression_text(law_, x, false); }

  Edge pick(const std::function<bool(const Edge&)>& fits = {}) {
    std::vector<Edge> all;
    for (std::size_t r = 0; r <= law_.states.size(); ++r) {
      all.push_back({r, nullptr, 0, root(r)});
      for (Value node : order({root(r)}))
        for (std::size_t i = 0; i < node->args.size(); ++i) all.push_back({r, node, i, node->args[i]});
    }
    const bool read = random_.below(5) == 0;  // one of five changes the reading
    std::erase_if(all, [&](const Edge& e) {
      const Shape s = e.value->shape;
      return (s.rows == 1 && s.columns != 1) || reads(e) != read || (fits && !fits(e));
    });
    return terms_.one_of(all);
  }
  void put(const Edge& edge, Value value) {
    Value& all = root(edge.root);
    if (!edge.node) {
      all = value;
      return;
    }
    std::vector<Value> args = edge.node->args;
    args[edge.arg] = value;
    all = g_.replaced(all, {{edge.node, g_.with(edge.node, args)}});
  }
  void everywhere(const std::map<Value, Value>& made) {
    for (LawState& one : law_.states) one.step = g_.replaced(one.step, made);
    law_.read = g_.replaced(law_.read, made);
  }

  std::string insert() {
    const Edge edge = pick();
    const Value x = edge.value, y = terms_.grow(x->shape, 1, reads(edge));
    switch (random_.below(x->shape.columns == 1 ? 4 : 3)) {
      case 0:
        put(edge, g_.add(x, y));
        return fmt::format("adds {} to {}", said(y), said(x));
      case 3:
        put(edge, g_.mul(x, y));
        return fmt::format("multiplies {} by {}", said(x), said(y));
      default:
        put(edge, g_.sub(x, y));
        return fmt::format("takes {} from {}", said(y), said(x));
    }
  }
  std::string write(const Edge& edge, Value y) {
    put(edge, y);
    return fmt::format("writes {} in place of {}", said(y), said(edge.value));
  }
  static bool is_made(const Edge& edge) { return !edge.value->is_leaf(); }
  std::string erase() {
    const Edge edge = pick(is_made);
    const Value x = edge.value;
    std::vector<Value> inner = x->args;
    std::erase_if(inner, [&](Value a) { return a->shape != x->shape; });
    return write(edge, inner.empty() ? terms_.grow(x->shape, 0, reads(edge)) : terms_.one_of(inner));
  }
  std::string replace() {
    const Edge edge = pick();
    return write(edge, terms_.grow(edge.value->shape, static_cast<int>(random_.below(3)), reads(edge)));
  }
  std::string map() {
    const Edge edge = pick(is_made);
    const bool other = edge.value->kind == Kind::map && random_.below(2) == 0;
    return write(edge, terms_.mapped(other ? edge.value->args[0] : edge.value));
  }
  std::string number() {
    const Edge edge =
        pick([](const Edge& e) { return e.value->kind == Kind::number && e.value->name.empty(); });
    return write(edge, g_.number(edge.value->value * terms_.one_of<double>({0.5, 0.9, 2, -1})));
  }
  std::string gate() {
    const Edge edge = pick();
    const Value x = edge.value;
    const bool along = !x->shape.number() && !reads(edge) && random_.below(3) == 0;
    const bool columns = x->shape.columns != 1 && random_.below(2) == 0;
    const Shape shape = along ? Shape{columns ? x->shape.columns : x->shape.rows, 1} : Shape{};
    Value g = reads(edge) ? terms_.grow({}, 0, true) : terms_.gate(shape);
    if (!reads(edge) && random_.below(4) == 0) g = g_.sub(g_.number(1), g);
    put(edge, !along                  ? g_.mul(g, x)
              : x->shape.columns == 1 ? g_.mul(x, g)
              : columns               ? g_.columns(x, g)
                                      : g_.rows(x, g));
    return fmt::format("gates {} by {}{}", said(x), said(g),
                       along && x->shape.columns != 1 ? columns ? ", column by column" : ", row by row" : "");
  }
  std::string bias() {
    const Edge edge = pick([&](const Edge& e) { return e.value->kind == Kind::token; });
    Learned one = law_.quantity(edge.value);
    const double now = one.init == "constant" ? one.numbers[0] : 0, bias = terms_.one_of<double>({-3, 0, 3});
    if ((!one.init.empty() && one.init != "constant") || bias == now) throw ShapeRefused("it has this start");
    one.init = bias == 0 ? "" : "constant", one.numbers.assign(bias == 0 ? 0 : 1, bias);
    const std::string what = fmt::format("starts {} at {}", said(edge.value), bias);
    everywhere({{edge.value, terms_.learned(one)}});
    return what;
  }
  std::string share() {
    const Value x = pick([](const Edge& e) { return is_learned_kind(e.value->kind); }).value;
    const Value y = pick([&](const Edge& e) {
                      return e.value->kind == x->kind && e.value->shape == x->shape && e.value != x;
                    }).value;
    everywhere({{x, y}});
    return fmt::format("lets two uses share {}", said(y));
  }
  std::string split() {
    // What is made of one quantity alone and used twice: sigmoid(token).
    const auto quantities = [](Value x) {
      std::vector<Value> all;
      for (Value node : order({x}))
        if (node->is_leaf() && node->kind != Kind::number) all.push_back(node);
      return all;
    };
    std::map<Value, int> uses;
    for (Value node : order(law_.roots()))
      for (Value a : node->args) ++uses[a];
    const Edge edge = pick([&](const Edge& e) {
      const std::vector<Value> all = quantities(e.value);
      return uses[e.value] > 1 && all.size() == 1 && is_learned_kind(all[0]->kind);
    });
    const Value x = edge.value, old = quantities(x)[0];
    put(edge, g_.replaced(x, {{old, terms_.learned(law_.quantity(old))}}));
    return fmt::format("gives one use of {} a projection of its own", said(x));
  }
  /// A second state: a term summed up over tokens where it stood, or keys whose sum divides the reading.
  std::string sum_up() {
    if (limits_.states > 0 && static_cast<int>(law_.states.size()) >= limits_.states)
      throw ShapeRefused("it has all states that are allowed");
    const std::string name = fmt::format("T{}", law_.states.size());
    const bool divides = random_.below(4) == 0;
    const Value k = g_.leaf(Kind::given, "k", {kK, 1}), q = g_.leaf(Kind::given, "q", {kK, 1});
    Edge edge{0, nullptr, 0, k};
    if (!divides) edge = pick([&](const Edge& e) { return !reads(e) && e.value->kind != Kind::state; });
    const Value old = g_.leaf(Kind::state, name, edge.value->shape);
    const Value kept = random_.below(3) == 0 ? old : g_.mul(terms_.gate({}), old);
    const Value step = g_.add(kept, edge.value);
    if (divides) {
      law_.read = g_.div(
          law_.read, g_.extreme(Kind::max, g_.map("abs", g_.product(g_.transpose(old), q)), g_.number(1)));
    } else {
      put(edge, step);
    }
    law_.states.push_back({name, edge.value->shape, nullptr, step});
    return divides ? "divides the reading by a sum of keys, at least 1"
                   : fmt::format("sums {} up in a state of its own", said(edge.value));
  }
  std::string drop() {
    const LawState one = terms_.one_of(law_.states);
    if (law_.states.size() < 2 || one.name == "S") throw ShapeRefused("it is the only state");
    std::erase_if(law_.states, [&](const LawState& s) { return s.name == one.name; });
    everywhere({{g_.leaf(Kind::state, one.name, one.shape), g_.fill(g_.number(0), one.shape)}});
    return "drops the state " + one.name;
  }
  std::string turn() {
    const auto of_token = [](Value n) {
      return n->kind == Kind::token || (n->kind == Kind::given && n->name != "q" && n->name != "head");
    };
    if (holds(law_.read, of_token)) throw ShapeRefused("the reading looks at its token");
    law_.before = !law_.before;
    return law_.before ? "reads before the token is written" : "reads after the token is written";
  }

  /// A value of another law in this one: states by their shape, quantities its own or those that are made alike.
  Value brought(Law& from, Value root) {
    std::map<Value, Value> made;
    for (Value node : order({root})) {
      std::vector<Value> args;
      for (Value a : node->args) args.push_back(made.at(a));
      if (node->kind == Kind::state) {
        std::vector<Value> all;
        for (const LawState& one : law_.states)
          if (one.shape == node->shape) all.push_back(g_.leaf(Kind::state, one.name, one.shape));
        made[node] = terms_.one_of(all);
      } else if (is_learned_kind(node->kind)) {
        made[node] = terms_.learned(from.quantity(node), random_.below(2) == 0);
      } else {
        made[node] = g_.make(node->kind, args, node->shape, node->name, node->value);
      }
    }
    return made.at(root);
  }

  Law& law_;
  LawGraph& g_;
  RandomStream& random_;
  const Limits& limits_;
  Terms terms_;
};

/// What a change makes of a law, in canonical text, within the limits; some are drawn until one is another law.
Change child(const std::string& law, RandomStream& random, const Limits& limits,
             const std::function<std::string(Changer&)>& change) {
  const std::string parent = canonical_text(law);
  for (int tries = 0; tries < 64; ++tries) {
    try {
      const std::unique_ptr<Law> graph = parse_law(steps_of(parent));
      Changer changer(*graph, random, limits);
      std::string what = change(changer), text = canonical_text(text_of(*graph));
      if (text != parent && !exceeds(price(text, limits.K, limits.V), limits)) return {text, what};
    } catch (const ShapeRefused&) {
    } catch (const LawError&) {
    }
  }
  return {parent, ""};
}

}  // namespace

Change mutated(const std::string& law, RandomStream& random, const Limits& limits) {
  return child(law, random, limits, [&](Changer& changer) {
    std::string what = changer.change();
    while (random.below(4) == 0) what += "; " + changer.change();
    return what;
  });
}

Change crossed(const std::string& a, const std::string& b, RandomStream& random, const Limits& limits) {
  return child(a, random, limits, [&](Changer& changer) {
    const std::unique_ptr<Law> other = parse_law(steps_of(b));
    return changer.cross(*other);
  });
}

}  // namespace crosstalk::search

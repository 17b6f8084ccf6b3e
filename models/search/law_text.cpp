// SPDX-License-Identifier: Apache-2.0
#include "models/search/term.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

namespace crosstalk::search {

using namespace rules;

namespace {

/// S, P of values times keys, H of keys times keys, z over keys, y over values, n; g, a, b of tokens: a number, over keys, over values.
const char* letter_of(Kind kind, Shape shape) {
  const bool number = shape.number(), key = shape == Shape{kK, 1}, value = shape == Shape{kV, 1};
  switch (kind) {
    case Kind::state:
      return shape == Shape{kV, kK}   ? "P"
             : shape == Shape{kK, kK} ? "H"
             : key                    ? "z"
             : value                  ? "y"
             : number                 ? "n"
                                      : "B";
    case Kind::token:
      return number ? "g" : key ? "a" : value ? "b" : "w";
    case Kind::asking:
      return "r";
    default:
      return "p";
  }
}

/// number * w -> w of projections that nothing else looks at: their weights take it up.
std::map<Value, Value> taken_up(const Law& law) {
  const std::vector<Value> roots = law.roots();
  std::map<Value, std::set<Value>> users;
  const std::set<Value> outside(roots.begin(), roots.end());
  for (Value node : order(roots))
    for (Value a : node->args) users[a].insert(node);
  std::map<Value, Value> out;
  for (const auto& [x, by] : users) {
    if (!is_learned_kind(x->kind) || !signed_freely(law.quantity(x)) || by.size() != 1 ||
        outside.count(x) != 0)
      continue;
    const Value user = *by.begin();
    const bool number = user->kind == Kind::mul && user->args[0]->kind == Kind::number &&
                        user->args[0]->name.empty() && user->args[1] == x && user->args[0]->value != 0;
    if (number || user->kind == Kind::neg) out[user] = x;
  }
  return out;
}

}  // namespace

bool signed_freely(const Learned& one) {
  return one.init.empty() || ((one.init == "normal" || one.init == "uniform") && one.numbers.size() == 1);
}

std::string text_of(Law& law) {
  const std::map<Value, Value> taken = taken_up(law);
  for (LawState& one : law.states) one.step = law.graph.replaced(one.step, taken);
  law.read = law.graph.replaced(law.read, taken);
  std::map<std::string, int> count;
  std::map<Value, Value> renamed;
  std::vector<LawState> states;
  std::vector<Learned> learned;
  bool main = false;
  const auto look = [&](Value root) {
    for (Value node : order({root})) {
      const bool state = node->kind == Kind::state;
      if ((!state && !is_learned_kind(node->kind)) || renamed.count(node) != 0) continue;
      std::string name = letter_of(node->kind, node->shape);
      const int n = ++count[name];
      if (!state || n > 1) name += fmt::format("{}", n);
      if (state && node->shape == Shape{kV, kK} && !std::exchange(main, true)) name = "S", count["P"] = 0;
      if (state) {
        states.push_back(law.state(node->name));
        states.back().name = name;
      } else {
        learned.push_back(law.quantity(node));
        learned.back().name = name;
      }
      renamed[node] = law.graph.make(node->kind, {}, node->shape, name, node->value);
    }
  };
  look(law.read);
  for (std::size_t i = 0; i < states.size(); ++i) {
    look(states[i].step);
    if (states[i].start) look(states[i].start);
  }
  if (states.empty()) throw LawError(1, 1, "what is read depends on no state");
  for (LawState& one : states) {
    one.step = law.graph.replaced(one.step, renamed);
    if (one.start) one.start = law.graph.replaced(one.start, renamed);
  }
  std::sort(states.begin(), states.end(),
            [](const LawState& a, const LawState& b) { return a.name < b.name; });
  std::stable_partition(states.begin(), states.end(),
                        [](const LawState& one) { return one.name != "S" || one.start; });
  law.read = law.graph.replaced(law.read, renamed);
  law.states = states, law.learned = learned;
  return fmt::format("{}", fmt::join(canonical(law), "; "));
}

}  // namespace crosstalk::search

// SPDX-License-Identifier: Apache-2.0
#include "models/rules/law.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "models/apply_model.h"
#include "models/rules/law_values.h"

namespace crosstalk::rules {
namespace {

bool has_meaning(const std::string& name) {
  static const std::set<std::string> kReserved = {"I", "K", "V", "q", "k", "v", "state", "read"};
  return kReserved.count(name) != 0 || is_learned(name) || is_function(name) || is_init(name);
}

/// Column where a name stands first, or 0.
int place_of(const Tree& tree, const std::string& name) {
  if (tree.name == name && (tree.kind == Tree::Kind::name || tree.kind == Tree::Kind::call))
    return tree.column;
  for (const auto& part : tree.parts)
    if (const int at = place_of(*part, name)) return at;
  return 0;
}

class Reader {
 public:
  Reader(const std::vector<std::string>& lines, const std::vector<NamedNumber>& numbers,
         const MemoryText* memory)
      : law_(std::make_unique<Law>()), g_(law_->graph), values_(*law_, memory), memory_(memory) {
    if (memory) g_.deepen();
    if (lines.size() > static_cast<std::size_t>(kMostOperations))
      throw LawError(kMostOperations, 1, fmt::format("a law has at most {} steps", kMostOperations));
    for (std::size_t i = 0; i < lines.size(); ++i)
      steps_.push_back(parse_step(lines[i], static_cast<int>(i) + 1));
    end_ = {static_cast<int>(lines.size()), lines.empty() ? 1 : static_cast<int>(lines.back().size()) + 1};
    if (end_.first == 0) end_.first = 1;
    values_.names()["q"] = g_.leaf(Kind::given, "q", {kK, 1});
    values_.names()["k"] = g_.leaf(Kind::given, "k", {kK, 1});
    values_.names()["v"] = g_.leaf(Kind::given, "v", {kV, 1});
    const auto no_step = [&](const std::string& name) {
      return std::none_of(steps_.begin(), steps_.end(), [&](const Step& s) { return s.name == name; });
    };
    if (no_step("head")) values_.names()["head"] = g_.leaf(Kind::given, "head", {});
    for (const NamedNumber& one : numbers)
      if (no_step(one.name))
        values_.names()[one.name] =
            memory && memory->study ? g_.number(one.value) : g_.named_number(one.name, one.value);
    for (std::size_t i = 0; memory && i < memory->inputs.size(); ++i) {
      const Learned& one = memory->inputs[i];
      if (std::any_of(steps_.begin(), steps_.end(), [&](const Step& s) { return s.name == one.name; }))
        continue;
      law_->learned.push_back(one);
      values_.names()[one.name] =
          is_absent(one.name) ? g_.fill(g_.number(0), one.shape) : g_.leaf(one.kind, one.name, one.shape);
    }
  }

  std::unique_ptr<Law> law() {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      values_.at_step(static_cast<int>(i) + 1);
      if (steps_[i].kind == Step::Kind::state) declare(steps_[i]);
    }
    for (const Step& step : steps_)
      if (step.value) values_.differentiate_by(*step.value);
    const bool own = values_.is_state("S");
    if (!own) add_state("S", {kV, kK});
    std::size_t last = 0;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const Step& step = steps_[i];
      if (step.kind != Step::Kind::state && step.kind != Step::Kind::read && values_.is_state(step.name))
        last = i + 1;
    }
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      values_.at_step(static_cast<int>(i) + 1);
      if (last > 0 && i == last) settle();
      try {
        statement(steps_[i]);
      } catch (const ShapeRefused& refused) {
        values_.fail(steps_[i].column, refused.what());
      }
    }
    if (!settled_) settle();
    finish(own);
    return std::move(law_);
  }

 private:
  void add_state(const std::string& name, Shape shape) {
    law_->states.push_back({name, shape});
    values_.names()[name] = g_.leaf(Kind::state, name, shape);
  }

  void declare(const Step& step) {
    if (has_meaning(step.name))
      values_.fail(step.column,
                   fmt::format("{} has a meaning of its own; give the state another name", step.name));
    if (values_.is_state(step.name))
      values_.fail(step.column, fmt::format("the state {} is there already", step.name));
    if (step.sizes.size() > 2)
      values_.fail(step.column, "a state is a number, a vector or a matrix: at most two sizes");
    if (law_->states.size() >= 64) values_.fail(step.column, "a law has at most 64 states");
    Shape shape{values_.size(*step.sizes[0]), 1};
    if (step.sizes.size() == 2) shape.columns = values_.size(*step.sizes[1]);
    if (step.name == "S" && shape != Shape{kV, kK})
      values_.fail(step.column, fmt::format("the state S is V x K; give {} another name", shape_text(shape)));
    add_state(step.name, shape);
  }

  /// A state's name behind its last change means what it is now, and what saw it before is gone.
  void settle() {
    settled_ = true;
    for (auto& [name, node] : values_.names())
      if (LawState* one = values_.state_at(name)) {
        values_.settled(name, node);
        one->step = values_.expanded(node);
        node = g_.leaf(Kind::state, name, one->shape);
      } else if (node && has_state(values_.expanded(node))) {
        node = nullptr;
      }
  }

  void statement(const Step& step) {
    values_.begin(step.kind == Step::Kind::read ? "read" : step.name, step.kind == Step::Kind::state,
                  step.kind == Step::Kind::read);
    if (step.kind == Step::Kind::state) return start(step);
    if (step.kind == Step::Kind::read) return reading(step);
    const std::string& name = step.name;
    const bool of_memory = memory_ && is_input(name);
    if (has_meaning(name) && !of_memory)
      values_.fail(step.column, fmt::format("{} has a meaning of its own; take another name", name));
    LawState* state = values_.state_at(name);
    if (state && law_->read && !law_->before)
      values_.fail(step.column, "read stands between steps of states; put it before all of them or behind");
    if (!state && values_.names().count(name) != 0 && !of_memory)
      values_.fail(step.column,
                   fmt::format("{} is set already; only states change, take another name", name));
    const char* sign = step.kind == Step::Kind::add ? "+=" : "-=";
    if (!state && step.kind != Step::Kind::set)
      values_.fail(
          step.column,
          fmt::format("{0} is no state; {1} changes a state (state {0}[K] declares one)", name, sign));
    const Meaning meaning = values_.value(*step.value);
    if (!state) {
      if (meaning.is_identity()) values_.fail(step.column, "I alone has no size; write it where it is used");
      values_.names()[name] = values_.kept(name, input(name, meaning.value));
      law_->values.emplace_back(name, meaning.value);
      set_at_.push_back({name, {values_.step(), step.column}});
      return;
    }
    if (!meaning.is_identity() && !(memory_ && memory_->asks_at_tokens)) {
      for (Value node : order({values_.expanded(meaning.value)})) {
        if (node->kind != Kind::asking && !(node->kind == Kind::given && node->name == "q")) continue;
        const std::string what = node->kind == Kind::asking ? "asking" : "q";
        const int at = place_of(*step.value, what);
        values_.fail(
            at > 0 ? at : step.column,
            fmt::format("{} asks, so only read may use it; a state's step sees the token: k, v, token",
                        what));
      }
    }
    Value node = values_.shaped(meaning, state->shape, step.column);
    if (step.kind == Step::Kind::add) node = g_.add(values_.names()[name], node);
    if (step.kind == Step::Kind::subtract) node = g_.sub(values_.names()[name], node);
    changed_.try_emplace(name, values_.step(), step.column);
    values_.names()[name] = values_.kept(name, node);
  }

  bool is_absent(const std::string& name) const {
    return std::count(memory_->absent.begin(), memory_->absent.end(), name) > 0;
  }
  bool is_input(const std::string& name) const {
    return std::any_of(memory_->inputs.begin(), memory_->inputs.end(),
                       [&](const Learned& one) { return one.name == name; });
  }
  /// An input of the memory is a leaf to what follows; of the token, unless parameters and numbers make it.
  Value input(const std::string& name, Value made) {
    if (!memory_ || memory_->study || !is_input(name)) return made;
    if (is_absent(name)) return g_.fill(g_.number(0), made->shape);
    const bool of_token = holds(made, [](Value n) {
      return n->kind == Kind::token || (n->kind == Kind::given && n->name != "head");
    });
    const bool asks = holds(made, [](Value n) { return n->kind == Kind::asking; });
    const Kind kind = asks ? Kind::asking : of_token ? Kind::token : Kind::parameter;
    law_->learned.push_back({.kind = kind, .name = name, .shape = made->shape, .made = made});
    for (const Learned& one : memory_->inputs)
      if (one.name == name) law_->learned.back().any_sign = one.any_sign;
    return g_.leaf(kind, name, made->shape);
  }

  void start(const Step& step) {
    if (!step.value) return;
    LawState& state = *values_.state_at(step.name);
    const Value node = values_.expanded(values_.shaped(values_.value(*step.value), state.shape, step.column));
    if (holds(node, [](Value n) {
          return n->kind == Kind::given || n->kind == Kind::token || n->kind == Kind::asking ||
                 n->kind == Kind::state;
        }))
      values_.fail(step.column, "a state starts as parameters and numbers say: no token is there yet");
    const auto weight = [&](Value n) {
      return n->kind == Kind::parameter && !(memory_ && is_input(n->name));
    };
    if (memory_ && memory_->given && holds(node, weight)) return;
    for (Value n : order({node}))
      if (!memory_ && n->kind == Kind::parameter && !n->name.starts_with(step.name + "_start"))
        values_.fail(
            step.column,
            fmt::format("a start has parameters of its own: state {}[...] = parameter(...)", step.name));
    state.start = node;
  }

  void reading(const Step& step) {
    if (law_->read) values_.fail(step.column, "read stands once; a law has one reading");
    law_->before = changed_.empty();
    law_->read = values_.expanded(values_.shaped(values_.value(*step.value), {kV, 1}, step.column));
  }

  void finish(bool own) {
    if (!law_->read)
      throw LawError(end_.first, end_.second, "nothing is read; end with a step such as: read S q");
    for (auto& [name, value] : law_->values) value = values_.expanded(value);
    for (LawGradient& one : law_->gradients)
      one = {values_.expanded(one.gradient), values_.expanded(one.of), values_.expanded(one.by)};
    auto& states = law_->states;
    const auto is_S = [](const LawState& one) { return one.name == "S"; };
    const bool looked_at =
        holds(law_->read, [](Value n) { return n->kind == Kind::state && n->name == "S"; }) ||
        std::any_of(states.begin(), states.end(), [&](const LawState& one) {
          return one.name != "S" &&
                 holds(one.step, [](Value n) { return n->kind == Kind::state && n->name == "S"; });
        });
    if (!own && changed_.count("S") == 0 && !looked_at) std::erase_if(states, is_S);
    if (states.empty())
      throw LawError(end_.first, end_.second, "nothing changes; add a step such as: S += v k^T");
    // With some options a memory has no use for a state.
    std::set<std::string> used;
    for (std::vector<Value> todo = {law_->read}; !todo.empty();) {
      const Value next = todo.back();
      todo.pop_back();
      for (Value node : order({next}))
        if (node->kind == Kind::state && used.insert(node->name).second)
          todo.push_back(law_->state(node->name).step);
    }
    if (memory_) std::erase_if(states, [&](const LawState& one) { return used.count(one.name) == 0; });
    // The state that needs no declaration stands last, declared or not.
    std::stable_partition(states.begin(), states.end(), [&](const LawState& one) {
      return !is_S(one) || one.start || one.shape != Shape{kV, kK};
    });
    for (const LawState& one : states) {
      const auto at = changed_.find(one.name);
      if (at == changed_.end())
        throw LawError(end_.first, end_.second,
                       fmt::format("the state {0} never changes; add a step {0} = ... or make it a parameter",
                                   one.name));
      if (used.count(one.name) == 0)
        throw LawError(
            at->second.first, at->second.second,
            fmt::format("nothing that is read depends on the state {}; take its steps away", one.name));
    }
    for (const auto& [name, at] : set_at_)
      if (!values_.used(name))
        throw LawError(at.first, at.second, fmt::format("{} is never used; take the step away", name));
    std::vector<Value> all = law_->roots();
    for (const LawState& one : states)
      if (one.start) all.push_back(one.start);
    for (auto one = law_->learned.rbegin(); one != law_->learned.rend(); ++one) {
      const Value leaf = g_.leaf(one->kind, one->name, one->shape);
      if (one->made && holds_any(all, leaf)) all.push_back(one->made);
    }
    const std::vector<Value> nodes = order(all);
    if (nodes.size() > static_cast<std::size_t>(kMostOperations))
      throw LawError(end_.first, end_.second,
                     fmt::format("the law has more than {} operations", kMostOperations));
    // Quantities that only unreached values have learned are no part of the law.
    const std::set<Value> there(nodes.begin(), nodes.end());
    std::erase_if(law_->learned, [&](const Learned& one) { return there.count(values_.leaf(one)) == 0; });
    for (const Learned& one : law_->learned)
      if (one.weight) law_->weights.push_back(one);
    std::erase_if(law_->learned, [](const Learned& one) { return one.weight; });
    if (memory_ && !memory_->study && memory_->given) {  // what a step sees is given to apply
      for (Value node : order(law_->roots()))
        if (is_learned_kind(node->kind) && law_->quantity(node).weight)
          throw LawError(end_.first, end_.second,
                         fmt::format("{} is learned and no input; add it to .inputs", node->name));
    }
    check_names_of_apply();
    std::map<std::string, std::string> taken;
    for (const LawState& one : states) {
      std::string lower = one.name;
      std::transform(lower.begin(), lower.end(), lower.begin(),
                     [](unsigned char c) { return std::tolower(c); });
      const auto [it, added] = taken.emplace(lower, one.name);
      if (!added)
        throw LawError(
            end_.first, end_.second,
            fmt::format("the states {} and {} differ in case alone; rename one", it->second, one.name));
    }
  }

  /// Names of apply: starts of states (s0, w1_0), the gradient of what is read, and those by inputs (d_k, d_beta).
  void check_names_of_apply() const {
    std::map<std::string, std::string> taken = {{"d_o", "the gradient of what is read"}};
    if (memory_) return;  // a memory's own starts are inputs that are called so
    const auto by = [&](const std::string& input) {
      taken.emplace("d_" + input, fmt::format("the gradient by {}", input));
    };
    for (const char* given : {"q", "k", "v"}) by(given);
    for (const Learned& one : law_->learned) by(one.name);
    for (const LawState& state : law_->states) {
      const std::string start = start_name(state.name);
      taken.emplace(start, fmt::format("the state {} before the first token", state.name));
      by(start);
    }
    for (const Learned& one : law_->learned) {
      const auto what = taken.find(one.name);
      if (what == taken.end()) continue;
      std::pair<int, int> at = end_;
      for (const auto& [name, place] : set_at_)
        if (name == one.name) at = place;
      throw LawError(at.first, at.second,
                     fmt::format("{} is what crosstalk apply calls {}; give the quantity another name",
                                 one.name, what->second));
    }
  }

  static bool holds_any(const std::vector<Value>& roots, Value leaf) {
    return std::any_of(roots.begin(), roots.end(),
                       [&](Value root) { return holds(root, [&](Value n) { return n == leaf; }); });
  }

  std::unique_ptr<Law> law_;
  LawGraph& g_;
  LawValues values_;
  const MemoryText* memory_;  ///< nullptr: a law of a study
  std::vector<Step> steps_;
  std::vector<std::pair<std::string, std::pair<int, int>>> set_at_;
  std::map<std::string, std::pair<int, int>> changed_;  ///< states, and where first
  std::pair<int, int> end_;
  bool settled_ = false;
};

}  // namespace

const LawState& Law::state(const std::string& name) const {
  return *std::find_if(states.begin(), states.end(), [&](const LawState& one) { return one.name == name; });
}
const Learned& Law::quantity(Value node) const {
  const auto& all = node->value != 0 ? weights : learned;
  return *std::find_if(all.begin(), all.end(), [&](const Learned& one) { return one.name == node->name; });
}
std::vector<Value> Law::roots() const {
  std::vector<Value> out;
  for (const LawState& one : states) out.push_back(one.step);
  out.push_back(read);
  return out;
}

std::unique_ptr<Law> parse_law(const std::vector<std::string>& steps, const std::vector<NamedNumber>& numbers,
                               const MemoryText* memory) {
  return Reader(steps, numbers, memory).law();
}

Accepted accept_law(const std::vector<std::string>& steps, const std::vector<NamedNumber>& numbers) {
  Accepted out{parse_law(steps, numbers), ""};
  const std::vector<std::string> text = canonical(*out.law);
  bool same = false;
  try {
    same = canonical(*parse_law(text, numbers)) == text;
  } catch (const LawError&) {
  }
  if (!same)
    throw LawError(static_cast<int>(steps.size()), 1,
                   "the law is too large when it is written out; name parts of it, or leave some away");
  for (const std::string& step : text) out.text += (out.text.empty() ? "" : "; ") + step;
  return out;
}

}  // namespace crosstalk::rules

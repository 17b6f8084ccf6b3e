// SPDX-License-Identifier: Apache-2.0
#include "models/rules/law.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>

namespace crosstalk::rules {
namespace {

bool has_meaning(const std::string& name) {
  static const std::set<std::string> kReserved = {"I", "K", "V", "q", "k", "v", "state", "read"};
  return kReserved.count(name) != 0 || is_learned(name) || is_function(name) || is_init(name);
}

/// The name at an edit distance of at most 1 + length / 3, or "".
std::string closest(const std::string& name, const std::set<std::string>& names) {
  std::string best;
  if (name.size() == 1) return "";
  std::size_t least = 1 + name.size() / 3;
  bool found = false;
  for (const std::string& other : names) {
    std::vector<std::size_t> row(other.size() + 1);
    for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= name.size(); ++i) {
      std::size_t last = row[0];
      row[0] = i;
      for (std::size_t j = 1; j <= other.size(); ++j) {
        const std::size_t here =
            std::min({row[j] + 1, row[j - 1] + 1, last + (name[i - 1] != other[j - 1] ? 1u : 0u)});
        last = row[j], row[j] = here;
      }
    }
    if (row.back() < least || (!found && row.back() == least)) best = other, least = row.back(), found = true;
  }
  return best;
}

/// Column where a name stands first, or 0.
int place_of(const Tree& tree, const std::string& name) {
  if (tree.name == name && (tree.kind == Tree::Kind::name || tree.kind == Tree::Kind::call))
    return tree.column;
  for (const auto& part : tree.parts) {
    if (const int at = place_of(*part, name)) return at;
  }
  return 0;
}

/// A value, or a number times I, whose size its neighbour decides.
struct Meaning {
  Value value = nullptr, identity = nullptr;
  bool is_identity() const { return identity != nullptr; }
};

class Reader {
 public:
  Reader(const std::vector<std::string>& lines, const std::vector<NamedNumber>& numbers)
      : law_(std::make_unique<Law>()), g_(law_->graph) {
    if (lines.size() > static_cast<std::size_t>(kMostOperations))
      throw LawError(kMostOperations, 1, fmt::format("a law has at most {} steps", kMostOperations));
    for (std::size_t i = 0; i < lines.size(); ++i)
      steps_.push_back(parse_step(lines[i], static_cast<int>(i) + 1));
    end_ = {static_cast<int>(lines.size()), lines.empty() ? 1 : static_cast<int>(lines.back().size()) + 1};
    if (end_.first == 0) end_.first = 1;
    names_["q"] = g_.leaf(Kind::given, "q", {kK, 1});
    names_["k"] = g_.leaf(Kind::given, "k", {kK, 1});
    names_["v"] = g_.leaf(Kind::given, "v", {kV, 1});
    for (const NamedNumber& one : numbers) {
      if (std::none_of(steps_.begin(), steps_.end(), [&](const Step& s) { return s.name == one.name; }))
        names_[one.name] = g_.named_number(one.name, one.value);
    }
  }

  std::unique_ptr<Law> law() {
    for (at_ = 1; at_ <= static_cast<int>(steps_.size()); ++at_) {
      if (const Step& step = here(); step.kind == Step::Kind::state) declare(step);
    }
    const bool own = is_state("S");
    if (!own) add_state("S", {kV, kK});
    std::size_t last = 0;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const Step& step = steps_[i];
      if (step.kind != Step::Kind::state && step.kind != Step::Kind::read && is_state(step.name))
        last = i + 1;
    }
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      at_ = static_cast<int>(i) + 1;
      if (last > 0 && i == last) settle();
      try {
        statement(steps_[i]);
      } catch (const ShapeRefused& refused) {
        throw LawError(at_, steps_[i].column, refused.what());
      }
    }
    if (!settled_) settle();
    finish(own);
    return std::move(law_);
  }

 private:
  const Step& here() const { return steps_[static_cast<std::size_t>(at_) - 1]; }
  bool is_state(const std::string& name) const { return state_at(name) != nullptr; }
  LawState* state_at(const std::string& name) const {
    for (LawState& one : law_->states) {
      if (one.name == name) return &one;
    }
    return nullptr;
  }
  [[noreturn]] void fail(int column, const std::string& message) const {
    throw LawError(at_, column, message);
  }

  void add_state(const std::string& name, Shape shape) {
    law_->states.push_back({name, shape});
    names_[name] = g_.leaf(Kind::state, name, shape);
  }

  void declare(const Step& step) {
    if (has_meaning(step.name))
      fail(step.column, fmt::format("{} has a meaning of its own; give the state another name", step.name));
    if (is_state(step.name)) fail(step.column, fmt::format("the state {} is there already", step.name));
    if (step.sizes.size() > 2)
      fail(step.column, "a state is a number, a vector or a matrix: at most two sizes");
    if (law_->states.size() >= 64) fail(step.column, "a law has at most 64 states");
    Shape shape{size(*step.sizes[0]), 1};
    if (step.sizes.size() == 2) shape.columns = size(*step.sizes[1]);
    if (step.name == "S" && shape != Shape{kV, kK})
      fail(step.column, fmt::format("the state S is V x K; give {} another name", shape_text(shape)));
    add_state(step.name, shape);
  }

  int size(const Tree& tree) const {
    if (tree.kind == Tree::Kind::name && tree.name == "K") return kK;
    if (tree.kind == Tree::Kind::name && tree.name == "V") return kV;
    if (tree.kind == Tree::Kind::number && tree.number == std::floor(tree.number) && tree.number >= 1 &&
        tree.number <= 4096)
      return static_cast<int>(tree.number);
    fail(tree.column, "a size is K, V or a whole number from 1 to 4096");
  }

  /// Behind the last change of a state its name means what it is now, and what saw it before is gone.
  void settle() {
    settled_ = true;
    for (auto& [name, node] : names_) {
      if (LawState* one = state_at(name)) {
        one->step = node;
        node = g_.leaf(Kind::state, name, one->shape);
      } else if (node && has_state(node)) {
        node = nullptr;
      }
    }
  }

  void statement(const Step& step) {
    definition_ = step.name, learned_here_ = 0, starts_ = step.kind == Step::Kind::state;
    if (step.kind == Step::Kind::state) return start(step);
    if (step.kind == Step::Kind::read) return reading(step);
    const std::string& name = step.name;
    if (has_meaning(name))
      fail(step.column, fmt::format("{} has a meaning of its own; take another name", name));
    LawState* state = state_at(name);
    if (state && law_->read && !law_->before)
      fail(step.column, "read stands between steps of states; put it before all of them or behind");
    if (!state && names_.count(name) != 0)
      fail(step.column, fmt::format("{} is set already; only states change, take another name", name));
    const char* sign = step.kind == Step::Kind::add ? "+=" : "-=";
    if (!state && step.kind != Step::Kind::set)
      fail(step.column,
           fmt::format("{0} is no state; {1} changes a state (state {0}[K] declares one)", name, sign));
    const Meaning meaning = value(*step.value);
    if (!state) {
      if (meaning.is_identity()) fail(step.column, "I alone has no size; write it where it is used");
      names_[name] = meaning.value;
      law_->values.emplace_back(name, meaning.value);
      set_at_.push_back({name, {at_, step.column}});
      return;
    }
    if (!meaning.is_identity()) {
      for (Value node : order({meaning.value})) {
        if (node->kind != Kind::asking && !(node->kind == Kind::given && node->name == "q")) continue;
        const std::string what = node->kind == Kind::asking ? "asking" : "q";
        const int at = place_of(*step.value, what);
        fail(at > 0 ? at : step.column,
             fmt::format("{} asks, so only read may use it; a state's step sees the token: k, v, token",
                         what));
      }
    }
    Value node = shaped(meaning, state->shape, step.column);
    if (step.kind == Step::Kind::add) node = g_.add(names_[name], node);
    if (step.kind == Step::Kind::subtract) node = g_.sub(names_[name], node);
    changed_.insert(name);
    names_[name] = node;
  }

  void start(const Step& step) {
    if (!step.value) return;
    LawState& state = *state_at(step.name);
    const Value node = shaped(value(*step.value), state.shape, step.column);
    if (holds(node, [](Value n) {
          return n->kind == Kind::given || n->kind == Kind::token || n->kind == Kind::asking ||
                 n->kind == Kind::state;
        }))
      fail(step.column, "a state starts as parameters and numbers say: no token is there yet");
    for (Value n : order({node})) {
      if (n->kind == Kind::parameter && !n->name.starts_with(step.name + "_start"))
        fail(step.column,
             fmt::format("a start has parameters of its own: state {}[...] = parameter(...)", step.name));
    }
    state.start = node;
  }

  void reading(const Step& step) {
    if (law_->read) fail(step.column, "read stands once; a law has one reading");
    definition_ = "read";
    law_->before = changed_.empty();
    law_->read = shaped(value(*step.value), {kV, 1}, step.column);
  }

  void finish(bool own) {
    if (!law_->read)
      throw LawError(end_.first, end_.second, "nothing is read; end with a step such as: read S q");
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
    // The state that needs no declaration stands last, declared or not.
    std::stable_partition(states.begin(), states.end(), [&](const LawState& one) {
      return !is_S(one) || one.start || one.shape != Shape{kV, kK};
    });
    for (const LawState& one : states) {
      if (changed_.count(one.name) == 0)
        throw LawError(end_.first, end_.second,
                       fmt::format("the state {0} never changes; add a step {0} = ... or make it a parameter",
                                   one.name));
    }
    for (const auto& [name, at] : set_at_) {
      if (used_.count(name) == 0)
        throw LawError(at.first, at.second, fmt::format("{} is never used; take the step away", name));
    }
    std::vector<Value> all = law_->roots();
    for (const LawState& one : states) {
      if (one.start) all.push_back(one.start);
    }
    const std::vector<Value> nodes = order(all);
    if (nodes.size() > static_cast<std::size_t>(kMostOperations))
      throw LawError(end_.first, end_.second,
                     fmt::format("the law has more than {} operations", kMostOperations));
    // What only values that nothing reaches have learned is no part of the law.
    const std::set<Value> there(nodes.begin(), nodes.end());
    std::erase_if(law_->learned, [&](const Learned& one) {
      return there.count(g_.leaf(one.kind, one.name, one.shape)) == 0;
    });
    // Starts are named after their states by apply: s0, w1_0.
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

  Value shaped(const Meaning& meaning, Shape shape, int column) {
    if (meaning.is_identity()) {
      if (shape.rows != shape.columns) fail(column, "I is square, and here stands " + shape_text(shape));
      return g_.mul(meaning.identity, g_.eye(shape.rows));
    }
    const Value node = meaning.value;
    if (node->shape.number() && !shape.number() && node->kind == Kind::number) return g_.fill(node, shape);
    if (node->shape != shape)
      fail(column, fmt::format("this is {}, and {} is wanted{}", shape_text(node->shape), shape_text(shape),
                               node->shape.transposed() == shape ? "; is a transpose ^T missing?" : ""));
    return node;
  }

  Meaning value(const Tree& tree) {
    try {
      return made(tree);
    } catch (const ShapeRefused& refused) {
      fail(tree.column, refused.what());
    }
  }

  /// A value that is no I.
  Value plain(const Tree& tree, int column) {
    const Meaning meaning = value(tree);
    if (meaning.is_identity())
      fail(column, "I may be added, subtracted and multiplied; diag(x) has other entries");
    return meaning.value;
  }

  Meaning named(const Tree& tree) {
    if (tree.name == "I") return {nullptr, g_.number(1)};
    const auto it = names_.find(tree.name);
    if (it == names_.end()) {
      std::set<std::string> known, all = {"token", "asking", "parameter"};
      std::string list;
      for (const auto& [name, node] : names_) list += (list.empty() ? "" : ", ") + name, all.insert(name);
      all.insert(function_names().begin(), function_names().end());
      if (tree.name == definition_)
        fail(tree.column,
             fmt::format("{0} has no value before its own step; what is kept from token to token is "
                         "declared first, a matrix as state {0}[V, K]",
                         tree.name));
      const std::string near = closest(tree.name, all);
      fail(tree.column, fmt::format("unknown name {}; {}", tree.name,
                                    near.empty() ? "so far there are " + list +
                                                       ", and what is learned is token(...) or parameter(...)"
                                                 : "did you mean " + near + "?"));
    }
    if (!it->second)
      fail(tree.column,
           fmt::format("{} saw states as they were before their steps; read sees them as they are: write out "
                       "what it wants of them",
                       tree.name));
    used_.insert(tree.name);
    return {it->second};
  }

  Meaning made(const Tree& tree) {
    using Shape_ = Tree::Kind;
    switch (tree.kind) {
      case Shape_::number:
        return {g_.number(tree.number)};
      case Shape_::name:
        return named(tree);
      case Shape_::call:
        return {call(tree)};
      case Shape_::transpose: {
        const Meaning a = value(*tree.parts[0]);
        return a.is_identity() ? a : Meaning{g_.transpose(a.value)};
      }
      case Shape_::power:
        return {g_.power(plain(*tree.parts[0], tree.column), tree.power)};
      case Shape_::negative: {
        const Meaning a = value(*tree.parts[0]);
        if (a.is_identity()) return {nullptr, g_.neg(a.identity)};
        return {g_.neg(a.value)};
      }
      default:
        break;
    }
    Meaning a = value(*tree.parts[0]), b = value(*tree.parts[1]);
    if (tree.kind == Shape_::add || tree.kind == Shape_::subtract) {
      const auto combined = [&](Value x, Value y) {
        return tree.kind == Shape_::add ? g_.add(x, y) : g_.sub(x, y);
      };
      if (a.is_identity() && b.is_identity()) return {nullptr, combined(a.identity, b.identity)};
      const Shape shape = a.is_identity() ? b.value->shape : a.value->shape;
      return {combined(a.is_identity() ? shaped(a, shape, tree.column) : a.value,
                       b.is_identity() ? shaped(b, shape, tree.column) : b.value)};
    }
    if (tree.kind != Shape_::divide && (a.is_identity() || b.is_identity())) {
      if (a.is_identity() && b.is_identity()) return {nullptr, g_.mul(a.identity, b.identity)};
      const Value one = a.is_identity() ? a.identity : b.identity,
                  other = a.is_identity() ? b.value : a.value;
      if (other->shape.number()) return {nullptr, g_.mul(one, other)};
      return {g_.mul(one, other)};
    }
    if (a.is_identity() || b.is_identity())
      fail(tree.column, "I may be added, subtracted and multiplied; diag(x) has other entries");
    if (tree.kind == Shape_::joined) return {g_.product(a.value, b.value)};
    return {tree.kind == Shape_::times ? g_.mul(a.value, b.value) : g_.div(a.value, b.value)};
  }

  void wants_arguments(const Tree& tree) const {
    static const std::map<std::string, std::pair<std::size_t, std::size_t>> kWanted = {
        {"max", {2, 2}},  {"min", {2, 2}},  {"dot", {2, 2}}, {"outer", {2, 2}},    {"grad", {2, 2}},
        {"ones", {1, 2}}, {"fill", {2, 3}}, {"rms", {1, 2}}, {"layernorm", {1, 2}}};
    const auto it = kWanted.find(tree.name);
    const auto [low, high] = it == kWanted.end() ? std::pair<std::size_t, std::size_t>{1, 1} : it->second;
    if (std::any_of(tree.names.begin(), tree.names.end(), [](const std::string& n) { return !n.empty(); }))
      fail(tree.column, tree.name + " takes no named arguments");
    if (tree.parts.size() < low || tree.parts.size() > high)
      fail(tree.column,
           fmt::format("{} takes {} argument{}, and here {} {}", tree.name,
                       low == high ? fmt::format("{}", low) : fmt::format("{} to {}", low, high),
                       high > 1 ? "s" : "", tree.parts.size() == 1 ? "is" : "are", tree.parts.size()));
  }

  Value call(const Tree& tree) {
    const std::string& name = tree.name;
    if (is_learned(name)) return learn(tree);
    if (is_init(name))
      fail(tree.column,
           fmt::format("{0} is how a parameter or a bias starts: parameter({0}(...)), token(bias = {0}(...))",
                       name));
    wants_arguments(tree);
    if (name == "ones" || name == "fill") {
      const std::size_t first = name == "fill" ? 1 : 0;
      Shape shape{size(*tree.parts[first]), 1};
      if (tree.parts.size() > first + 1) shape.columns = size(*tree.parts[first + 1]);
      if (name == "ones") return g_.ones(shape);
      const Meaning a = value(*tree.parts[0]);
      if (a.is_identity() || !a.value->shape.number())
        fail(tree.column, "fill wants a number, then a size or two: fill(0.1, V, K)");
      return g_.fill(a.value, shape);
    }
    std::vector<Value> parts;
    for (const auto& part : tree.parts) parts.push_back(plain(*part, tree.column));
    const Value a = parts[0], b = parts.size() > 1 ? parts[1] : nullptr;
    if (is_map(name)) return g_.map(name, a);
    if (name == "max" || name == "min") return g_.extreme(name == "max" ? Kind::max : Kind::min, a, b);
    if (name == "dot") {
      if (a->shape != b->shape)
        throw ShapeRefused(
            fmt::format("dot of {} and {}; both have one shape", shape_text(a->shape), shape_text(b->shape)));
      return a->shape.columns == 1 ? g_.product(g_.transpose(a), b) : g_.sum(g_.mul(a, b));
    }
    if (name == "outer") return g_.product(a, g_.transpose(b));
    if (name == "column_sums") return g_.row_sums(g_.transpose(a));
    if (name == "row_sums") return g_.row_sums(a);
    if (name == "diag") return g_.diag(a);
    if (name == "diagonal") return g_.diagonal(a);
    if (name == "sum") return g_.sum(a);
    if (name == "mean") return g_.mean(a);
    if (name == "norm") return g_.norm(a);
    if (name == "unit") return g_.unit(a);
    if (name == "softmax") return g_.softmax(a);
    if (name == "rms") return g_.rms(a, b ? b : g_.number(1e-5));
    if (name == "layernorm") return g_.rms(g_.sub(a, g_.mean(a)), b ? b : g_.number(1e-5));
    // grad
    if (!a->shape.number())
      throw ShapeRefused("grad wants a number to descend on, not " + shape_text(a->shape));
    const Value found = gradients(g_, {{a, g_.number(1)}}, {b})[0];
    if (found) law_->gradients.push_back({found, a, b});
    return found ? found : g_.fill(g_.number(0), b->shape);
  }

  Value learn(const Tree& tree) {
    Learned one;
    one.kind = tree.name == "token" ? Kind::token : tree.name == "asking" ? Kind::asking : Kind::parameter;
    const bool parameter = one.kind == Kind::parameter;
    std::vector<int> sizes;
    for (std::size_t i = 0; i < tree.parts.size(); ++i) {
      const Tree& part = *tree.parts[i];
      const std::string& key = tree.names[i];
      if (!parameter && key == "bias") {
        init(part, one);
      } else if (one.kind == Kind::token && key == "rank") {
        if (part.kind == Tree::Kind::name && part.name == "d") {
          one.rank = kRankOfKeys;
        } else if (part.kind == Tree::Kind::number && part.number == std::floor(part.number) &&
                   part.number >= 1 && part.number <= 4096) {
          one.rank = static_cast<int>(part.number);
        } else {
          fail(part.column, "rank is a whole number or d, the size of a key before its feature map");
        }
      } else if (!key.empty()) {
        fail(tree.column, fmt::format("{} has no argument {}; it has {}", tree.name, key,
                                      parameter                  ? "its sizes and how it starts"
                                      : one.kind == Kind::asking ? "a width and bias"
                                                                 : "a width, rank and bias"));
      } else if (parameter && (part.kind == Tree::Kind::call || part.kind == Tree::Kind::negative ||
                               (part.kind == Tree::Kind::number && part.number != std::floor(part.number)))) {
        init(part, one);
      } else {
        sizes.push_back(size(part));
      }
    }
    if (sizes.size() > (parameter ? 2u : 1u)) fail(tree.column, tree.name + " has too many sizes");
    one.shape = {sizes.empty() ? 1 : sizes[0], sizes.size() > 1 ? sizes[1] : 1};
    ++learned_here_;
    std::string base = definition_;
    if (is_state(base) || base == "read") base += starts_ ? "_start" : "_" + tree.name;
    one.name = learned_here_ == 1 ? base : fmt::format("{}_{}", base, learned_here_);
    for (const Learned& other : law_->learned) {
      if (other.name == one.name)
        fail(tree.column,
             fmt::format(
                 "the parameter {} is there already; give this one a name of its own first: name = {}(...)",
                 one.name, tree.name));
    }
    if (parameter && one.init.empty()) one.init = "uniform", one.numbers = {1};
    law_->learned.push_back(one);
    return g_.leaf(one.kind, one.name, one.shape);
  }

  void init(const Tree& tree, Learned& one) const {
    const bool minus = tree.kind == Tree::Kind::negative;
    const Tree& inner = minus ? *tree.parts[0] : tree;
    if (inner.kind == Tree::Kind::number) {
      one.init = "constant", one.numbers = {minus ? -inner.number : inner.number};
      return;
    }
    const std::size_t wanted = inner.name == "log_uniform" || inner.name == "inverse_softplus" ? 2 : 1;
    if (minus || inner.kind != Tree::Kind::call || !is_init(inner.name) || inner.parts.size() != wanted)
      fail(inner.column,
           "a start is a number, constant(x), normal(deviation), uniform(bound), log_uniform(a, b) or "
           "inverse_softplus(a, b)");
    one.init = inner.name, one.numbers.clear();
    for (const auto& part : inner.parts) {
      const bool less = part->kind == Tree::Kind::negative;
      const Tree& x = less ? *part->parts[0] : *part;
      if (x.kind != Tree::Kind::number) fail(x.column, "how something starts is said in numbers");
      one.numbers.push_back(less ? -x.number : x.number);
    }
    if (wanted == 2 && !(0 < one.numbers[0] && one.numbers[0] <= one.numbers[1]))
      fail(inner.column, fmt::format("{}(a, b) wants 0 < a <= b", inner.name));
    if ((inner.name == "normal" || inner.name == "uniform") && one.numbers[0] < 0)
      fail(inner.column, fmt::format("{} wants a number that is not negative", inner.name));
  }

  std::unique_ptr<Law> law_;
  LawGraph& g_;
  std::vector<Step> steps_;
  std::map<std::string, Value> names_;
  std::vector<std::pair<std::string, std::pair<int, int>>> set_at_;
  std::set<std::string> used_, changed_;
  std::pair<int, int> end_;
  int at_ = 1, learned_here_ = 0;
  std::string definition_;
  bool starts_ = false, settled_ = false;
};

}  // namespace

const LawState& Law::state(const std::string& name) const {
  return *std::find_if(states.begin(), states.end(), [&](const LawState& one) { return one.name == name; });
}
const Learned& Law::quantity(const std::string& name) const {
  return *std::find_if(learned.begin(), learned.end(), [&](const Learned& one) { return one.name == name; });
}
std::vector<Value> Law::roots() const {
  std::vector<Value> out;
  for (const LawState& one : states) out.push_back(one.step);
  out.push_back(read);
  return out;
}

std::unique_ptr<Law> parse_law(const std::vector<std::string>& steps,
                               const std::vector<NamedNumber>& numbers) {
  return Reader(steps, numbers).law();
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

// Expressions of a law as nodes of its graph, and what is wrong with them.
// SPDX-License-Identifier: Apache-2.0
#include "models/rules/law_values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "kernels/base/text/names.h"
#include "models/parts/ramps.h"

namespace crosstalk::rules {
namespace {

/// The same with other nodes in place of some, as if it were made anew, rewrites and all.
Value rebuilt(LawGraph& g, Value root, std::map<Value, Value> made) {
  const auto built = [&](Value node, const std::vector<Value>& a) {
    switch (node->kind) {
      case Kind::neg:
        return g.neg(a[0]);
      case Kind::mul:
        return g.mul(a[0], a[1]);
      case Kind::div:
        return g.div(a[0], a[1]);
      case Kind::matmul:
        return g.product(a[0], a[1]);
      case Kind::transpose:
        return g.transpose(a[0]);
      case Kind::columns:
        return g.columns(a[0], a[1]);
      case Kind::rows:
        return g.rows(a[0], a[1]);
      default:
        return g.with(node, a);
    }
  };
  for (Value node : order({root})) {
    if (made.count(node) != 0) continue;
    std::vector<Value> args;
    for (Value a : node->args) args.push_back(made.at(a));
    made[node] = args == node->args ? node : built(node, args);
  }
  return made.at(root);
}

bool is_square(Value a) { return a->shape.rows == a->shape.columns && !a->shape.number(); }

}  // namespace

LawState* LawValues::state_at(const std::string& name) const {
  for (LawState& one : law_.states)
    if (one.name == name) return &one;
  return nullptr;
}

void LawValues::differentiate_by(const Tree& tree) {
  const bool grad = tree.kind == Tree::Kind::call && tree.name == "grad" && tree.parts.size() == 2;
  if (grad && tree.parts[1]->kind == Tree::Kind::name) by_.insert(tree.parts[1]->name);
  for (const auto& part : tree.parts) differentiate_by(*part);
}

Value LawValues::kept(const std::string& name, Value node) {
  const bool own =
      node->is_leaf() && node->kind != Kind::number && node->kind != Kind::ones && node->kind != Kind::input;
  if (by_.count(name) == 0 || own) return node;
  const Value leaf = g_.leaf(Kind::input, fmt::format("by.{}", leaves_.size()), node->shape);
  leaves_.emplace_back(leaf, node);
  return leaf;
}

Value LawValues::expanded(Value root, Value but) {
  if (leaves_.empty()) return root;
  std::map<Value, Value> made;
  for (const auto& [leaf, value] : leaves_) {
    made[leaf] = leaf;
    if (leaf != but) made[leaf] = rebuilt(g_, value, made);
  }
  return rebuilt(g_, root, made);
}

std::set<Value> LawValues::reached(Value root, const std::set<Value>& but) const {
  const std::vector<Value> nodes = order({root}, [&](Value node) {
    if (but.count(node) != 0) return std::vector<Value>{};
    for (const auto& [leaf, value] : leaves_)
      if (leaf == node) return std::vector<Value>{value};
    return node->args;
  });
  return {nodes.begin(), nodes.end()};
}

void LawValues::check_gradient(const Tree& tree, Value of, Value by) {
  const std::string& name = tree.parts[1]->name;
  const std::set<Value> inside = reached(of);
  const auto behind = by->kind == Kind::state ? settled_.find(by->name) : settled_.end();
  const Value was = behind == settled_.end() ? by : behind->second;  // in the steps of other states
  std::set<Value> others = {by};
  const LawState* changed = nullptr;  // whose present value it is by
  for (const LawState& one : law_.states) {
    const Value now = names_.at(one.name), leaf = g_.leaf(Kind::state, one.name, one.shape);
    const auto step = settled_.find(one.name);
    if (step != settled_.end() && leaf != by && inside.count(leaf) != 0 &&
        reached(step->second).count(was) != 0)
      fail(
          tree.column,
          fmt::format(
              "read sees {0} as it is, so grad would miss the way from {1} through the step of {0}; write the gradient out, or, where no q "
              "is in it, take it in a step of a state behind: state G[{2}]; G = grad(...)",
              one.name, name, sizes_text(by->shape)));
    if (now->kind == Kind::state) continue;
    if (now == by) changed = &one;
    others.insert(now);
    if (now != by && inside.count(now) != 0 && reached(now).count(by) != 0)
      law_.notes.push_back(fmt::format(
          "grad in the step of {0} goes through the step of {1} before it, so {1} is no constant in it; write "
          "the gradient out where {1} is to stay as it is",
          definition_, one.name));
  }
  if (inside.count(by) == 0)
    fail(
        tree.column,
        fmt::format(
            "what grad is of does not depend on {0}{1}", name,
            changed
                ? fmt::format(
                      " as it is now: it saw {0} as it was before; put the step that makes it behind that of {0}",
                      name)
                : ""));
  if (!changed) return;
  for (Value node : reached(of, others))
    if (node->kind == Kind::state && node->name == changed->name)
      law_.notes.push_back(fmt::format(
          "grad by {0} in the step of {1} holds what saw {0} as it was before its last step for a constant",
          changed->name, definition_));
}

int LawValues::size(const Tree& tree) {
  if (tree.kind == Tree::Kind::name && tree.name == "K") return kK;
  if (tree.kind == Tree::Kind::name && tree.name == "V") return kV;
  if (tree.kind == Tree::Kind::name && tree.name == "M") return kM;
  const auto n = number(tree);
  if (n && *n == std::floor(*n) && *n >= 1 && *n <= 4096) return static_cast<int>(*n);
  fail(tree.column, "a size is K, V, M (4 K) or a whole number from 1 to 4096");
}

Value LawValues::shaped(const Meaning& meaning, Shape shape, int column) {
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

Meaning LawValues::value(const Tree& tree) {
  try {
    return made(tree);
  } catch (const ShapeRefused& refused) {
    fail(tree.column, refused.what());
  }
}

/// A value that is no I.
Value LawValues::plain(const Tree& tree, int column) {
  const Meaning meaning = value(tree);
  if (meaning.is_identity())
    fail(column, "I may be added, subtracted and multiplied; diag(x) has other entries");
  return meaning.value;
}

Meaning LawValues::named(const Tree& tree) {
  if (tree.name == "I") return {nullptr, g_.number(1)};
  const auto it = names_.find(tree.name);
  if (it == names_.end()) {
    if (tree.name == "state" || tree.name == "read")
      fail(tree.column, tree.name + " begins a step; it is no value");
    std::vector<std::string> all = {"token", "asking", "parameter"};
    std::string list;
    for (const auto& [name, node] : names_) list += (list.empty() ? "" : ", ") + name, all.push_back(name);
    all.insert(all.end(), function_names().begin(), function_names().end());
    if (tree.name == definition_)
      fail(
          tree.column,
          fmt::format(
              "{0} has no value before its own step; what is kept from token to token is declared first, a matrix as state {0}[V, K]",
              tree.name));
    // Every other letter would be near a single one.
    const std::string near = tree.name.size() == 1 ? "" : nearest_name(tree.name, all);
    fail(tree.column, fmt::format("unknown name {}; {}", tree.name,
                                  near.empty() ? "so far there are " + list +
                                                     ", and what is learned is token(...) or parameter(...)"
                                               : "did you mean " + near + "?"));
  }
  if (!it->second)
    fail(
        tree.column,
        fmt::format(
            "{} saw states as they were before their steps; read sees them as they are: write out what it wants of them",
            tree.name));
  used_.insert(tree.name);
  return {it->second};
}

void LawValues::use(const Tree& tree) {
  used_.insert(tree.name);
  for (const auto& part : tree.parts) use(*part);
}

bool LawValues::is_so(const Tree& condition) const {
  if (!memory_)
    fail(condition.column,
         "? : chooses by an option of a memory, and a law of a study has none; write two laws");
  const bool equal = condition.kind == Tree::Kind::equal;
  const Tree& name = equal ? *condition.parts[0] : condition;
  const auto option = memory_->options.find(name.name);
  if (const auto size = names_.find(name.name); equal && size != names_.end() && size->second &&
                                                size->second->kind == Kind::number &&
                                                option == memory_->options.end())
    return size->second->value == condition.parts[1]->number;
  if (name.kind != Tree::Kind::name || option == memory_->options.end())
    fail(name.column, "a condition names an option of the memory: flag ? a : b, option == \"word\" ? a : b");
  if (!equal) return option->second == "true";
  const Tree& is = *condition.parts[1];
  return is.kind == Tree::Kind::number ? std::stod(option->second) == is.number : option->second == is.name;
}

const Tree& LawValues::chosen(const Tree& tree) {
  if (tree.kind != Tree::Kind::choice) return tree;
  const bool so = is_so(*tree.parts[0]);
  use(*tree.parts[so ? 2 : 1]);
  return chosen(*tree.parts[so ? 1 : 2]);
}

std::optional<double> LawValues::number(const Tree& tree) {
  using Of = Tree::Kind;
  if (tree.kind == Of::number) return tree.number;
  if (tree.kind == Of::name) {
    const auto named = names_.find(tree.name);
    if (named == names_.end() || !named->second || named->second->kind != Kind::number) return {};
    return named->second->value;
  }
  if (tree.kind == Of::choice) return number(chosen(tree));
  std::vector<double> a;
  for (const auto& part : tree.parts) {
    const auto one = number(*part);
    if (!one) return {};
    a.push_back(*one);
  }
  if (tree.kind == Of::negative) return -a[0];
  if (tree.kind == Of::add) return a[0] + a[1];
  if (tree.kind == Of::subtract) return a[0] - a[1];
  if (tree.kind == Of::times || tree.kind == Of::joined) return a[0] * a[1];
  if (tree.kind == Of::divide) return a[0] / a[1];
  if (tree.kind != Of::call || a.size() != 1) return {};
  if (tree.name == "sqrt") return std::sqrt(a[0]);
  if (tree.name == "exp") return std::exp(a[0]);
  if (tree.name == "log") return std::log(a[0]);
  if (tree.name == "positive") return a[0] > 0 ? 1 : 0;
  return {};
}

Meaning LawValues::made(const Tree& tree) {
  using Shape_ = Tree::Kind;
  switch (tree.kind) {
    case Shape_::number:
      return {g_.number(tree.number)};
    case Shape_::name:
      return named(tree);
    case Shape_::call:
      return {call(tree)};
    case Shape_::choice:
      return value(chosen(tree));
    case Shape_::word:
    case Shape_::equal:
      fail(tree.column,
           "a word is a value of an option, and stands in a condition: option == \"word\" ? a : b");
    case Shape_::transpose: {
      const Meaning a = value(*tree.parts[0]);
      return a.is_identity() ? a : Meaning{g_.transpose(a.value)};
    }
    case Shape_::power:
      if (tree.parts.size() == 2) {  // x^y = e^(y log x)
        const Value x = plain(*tree.parts[0], tree.column), y = plain(*tree.parts[1], tree.column);
        if (x->kind == Kind::number && !(x->value > 0))
          fail(tree.column, "x^(y) is e^(y log x), of x above 0");
        return {g_.map(
            "exp", g_.mul(x->kind == Kind::number ? g_.number(std::log(x->value)) : g_.map("log", x), y))};
      }
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
    if (a.value && b.value && a.value->shape.number() != b.value->shape.number() &&
        (is_square(a.value) || is_square(b.value)))
      law_.notes.emplace_back(
          "a number beside a square matrix is added to, or subtracted at, every entry; the identity is I: I - k k^T");
    if (a.is_identity() && b.is_identity()) return {nullptr, combined(a.identity, b.identity)};
    const Shape shape = a.is_identity() ? b.value->shape : a.value->shape;
    if ((a.is_identity() || b.is_identity()) && shape.number())
      fail(tree.column,
           "I and a number have no sum: write 0.1 I for the diagonal, fill(0.1, K, K) for all entries");
    return {combined(a.is_identity() ? shaped(a, shape, tree.column) : a.value,
                     b.is_identity() ? shaped(b, shape, tree.column) : b.value)};
  }
  if (tree.kind != Shape_::divide && (a.is_identity() || b.is_identity())) {
    if (a.is_identity() && b.is_identity()) return {nullptr, g_.mul(a.identity, b.identity)};
    const Value one = a.is_identity() ? a.identity : b.identity, other = a.is_identity() ? b.value : a.value;
    if (other->shape.number()) return {nullptr, g_.mul(one, other)};
    if (tree.kind == Shape_::joined) return {g_.mul(one, other)};
    // Entry by entry I keeps the diagonal.
    if (!is_square(other))
      fail(tree.column, "* goes entry by entry, and I is square; a product with I is written I a");
    return {g_.mul(one, g_.diag(g_.diagonal(other)))};
  }
  if (a.is_identity() || b.is_identity())
    fail(tree.column, "I may be added, subtracted and multiplied; diag(x) has other entries");
  if (tree.kind == Shape_::joined) return {g_.product(a.value, b.value)};
  const Tree& below = *tree.parts[1];
  if (tree.kind == Shape_::divide && below.kind == Shape_::call && below.name == "rms")
    fail(below.column,
         "rms(x) is x divided by its root mean square and no number; that is sqrt(mean(x * x))");
  return {tree.kind == Shape_::times ? g_.mul(a.value, b.value) : g_.div(a.value, b.value)};
}

void LawValues::wants_arguments(const Tree& tree) const {
  static const std::map<std::string, std::pair<std::size_t, std::size_t>> kWanted = {
      {"max", {2, 2}},  {"min", {2, 2}},     {"dot", {2, 2}},  {"outer", {2, 2}},     {"grad", {2, 2}},
      {"ones", {1, 2}}, {"fill", {2, 3}},    {"rms", {1, 2}},  {"layernorm", {1, 2}}, {"share", {1, 2}},
      {"fit", {2, 2}},  {"largest", {2, 2}}, {"solve", {2, 2}}};
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

Value LawValues::call(const Tree& tree) {
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
  if (name == "fit") return g_.fit(plain(*tree.parts[0], tree.column), size(*tree.parts[1]));
  if (name == "largest") {
    const auto n = number(*tree.parts[1]);
    if (!n || *n != std::floor(*n) || *n < 1)
      fail(tree.parts[1]->column, "largest(x, n) keeps n entries of x, a whole number from 1");
    return g_.largest(plain(*tree.parts[0], tree.column), static_cast<int>(*n));
  }
  std::vector<Value> parts;
  for (const auto& part : tree.parts) parts.push_back(plain(*part, tree.column));
  const Value a = parts[0], b = parts.size() > 1 ? parts[1] : nullptr;
  if (name == "inverse" && is_square(a))
    throw ShapeRefused(fmt::format(
        "inverse goes entry by entry, which is not the inverse of {}; write 1 / M for 1 over every entry of M",
        shape_text(a->shape)));
  if (name == "sqrt" && memory_ && a->kind == Kind::number) return g_.number(std::sqrt(a->value));
  if (is_map(name)) return g_.map(name, a);
  if (name == "cos") return g_.map("sin", g_.add(a, g_.number(kQuarterTurn)));
  if (name == "solve") return g_.solve(a, b);
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
  if (name == "share") return b ? g_.div(a, g_.add(g_.sum(a), b)) : g_.div(a, g_.sum(a));
  if (name == "layernorm") return g_.rms(g_.sub(a, g_.mean(a)), b ? b : g_.number(1e-5));
  // grad
  if (!a->shape.number())
    throw ShapeRefused("grad wants a number to descend on, not " + shape_text(a->shape));
  if (!b->is_leaf())
    fail(tree.parts[1]->column,
         "grad is by what has a name: name this value in a step before what depends on it");
  const std::set<Value> inside = reached(a);
  for (const Inner& one : inner_)
    if (one.through.count(b) != 0 && inside.count(one.gradient) != 0)
      fail(
          tree.column,
          "this grad is of a gradient that went through what it is by, and would miss that part; write the inner gradient out");
  check_gradient(tree, a, b);
  const Value of = expanded(a, b);
  Value found = gradients(g_, {{of, g_.number(1)}}, {b})[0];
  if (!found) return g_.fill(g_.number(0), b->shape);
  // 1 / x and 0 where x is 0, which the text says of a square matrix in other words.
  std::map<Value, Value> written;
  for (Value node : order({found})) {
    std::vector<Value> args;
    for (Value x : node->args) args.push_back(written.at(x));
    const Value x = args.empty() ? nullptr : args[0];
    const bool other = node->kind == Kind::map && node->name == "inverse" && is_square(x);
    written[node] = other ? g_.div(x, g_.extreme(Kind::max, g_.mul(x, x), g_.number(1e-37)))
                          : g_.with(node, std::move(args));
  }
  found = written.at(found);
  law_.gradients.push_back({found, of, b});
  Inner inner{found, {}};
  for (const auto& [leaf, value] : leaves_)
    if (leaf != b && inside.count(leaf) != 0) inner.through.insert(leaf);
  inner_.push_back(std::move(inner));
  return found;
}

Value LawValues::learn(const Tree& tree) {
  Learned one;
  one.kind = tree.name == "token" ? Kind::token : tree.name == "asking" ? Kind::asking : Kind::parameter;
  const bool parameter = one.kind == Kind::parameter;
  std::vector<int> sizes;
  for (std::size_t i = 0; i < tree.parts.size(); ++i) {
    const Tree& part = chosen(*tree.parts[i]);
    const std::string& key = tree.names[i];
    if (!parameter && key == "bias") {
      init(part, one);
    } else if (one.kind == Kind::token && key == "weights") {
      const auto n = number(part);
      if (!n || *n < 0)
        fail(part.column, "weights start as the model's do times a number that is not negative");
      one.weights = *n;
    } else if (one.kind == Kind::token && key == "through") {
      if (part.kind != Tree::Kind::word || part.name != "tanh")
        fail(part.column, "what the numbers of a rank go through is \"tanh\"");
      one.through = part.name;
    } else if (one.kind == Kind::token && key == "rank") {
      if (part.kind == Tree::Kind::name && part.name == "d") {
        one.rank = kRankOfKeys;
      } else if (const auto n = number(part);
                 n && (memory_ || *n == std::floor(*n)) && *n > 0 && *n <= (memory_ ? 1 << 20 : 4096)) {
        one.rank = static_cast<int>(std::ceil(*n));  // a memory's own is perhaps a share of a size
      } else {
        fail(part.column,
             "rank is a whole number from 1 to 4096 or d, the size of a key before its feature map");
      }
    } else if (!key.empty()) {
      fail(tree.column, fmt::format("{} has no argument {}; it has {}", tree.name, key,
                                    parameter                  ? "its sizes and how it starts"
                                    : one.kind == Kind::asking ? "a width and bias"
                                                               : "a width, rank, through, weights and bias"));
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
  const bool own = memory_ && !memory_->study && !reads_;  // which may call an input so
  if (is_state(base) || (base == "read" && !own)) base += starts_ ? "_start" : "_" + tree.name;
  one.name = learned_here_ == 1 ? base : fmt::format("{}_{}", base, learned_here_);
  for (const Learned& other : law_.learned)
    if (other.name == one.name && !other.made)
      fail(tree.column,
           fmt::format(
               "the parameter {} is there already; give this one a name of its own first: name = {}(...)",
               one.name, tree.name));
  if (parameter && one.init.empty()) one.init = "uniform", one.numbers = {1};
  for (std::size_t i = 0; memory_ && i < memory_->inputs.size(); ++i)
    if (memory_->inputs[i].name == definition_) one.each_write = memory_->inputs[i].each_write;
  one.weight = memory_ && !memory_->study && !memory_->inputs.empty();
  law_.learned.push_back(one);
  return leaf(one);
}

void LawValues::init(const Tree& tree, Learned& one) {
  if (const auto n = number(tree)) {
    one.init = "constant", one.numbers = {*n};
    return;
  }
  const Tree& inner = tree;
  if (inner.kind == Tree::Kind::call && inner.name == "ramp") {
    const bool word = inner.parts.size() == 1 && inner.parts[0]->kind == Tree::Kind::word;
    if (!word || ramp(inner.parts[0]->name, 1, 1, 0).empty())
      fail(inner.column,
           fmt::format("a ramp is one of {}: ramp(\"{}\")", fmt::join(ramp_names(), ", "), ramp_names()[0]));
    one.init = fmt::format("\"{}\"", inner.parts[0]->name);
    return;
  }
  const bool step =
      inner.name == "inverse_softplus" || inner.name == "logit_step" || inner.name == "signed_step";
  const std::size_t wanted = inner.name == "log_uniform" || step ? 2 : 1;
  const bool between = inner.name == "uniform" && inner.parts.size() == 2;
  if (inner.kind != Tree::Kind::call || !is_init(inner.name) || (inner.parts.size() != wanted && !between))
    fail(
        inner.column,
        "a start is a number, constant(x), normal(deviation), uniform(bound), uniform(a, b), log_uniform(a, b), "
        "inverse_softplus(a, b), logit_step(a, b), signed_step(a, b) or ramp(\"name\")");
  one.init = inner.name, one.numbers.clear();
  for (const auto& part : inner.parts) {
    const auto n = number(*part);
    if (!n) fail(part->column, "how something starts is said in numbers");
    one.numbers.push_back(*n);
  }
  const bool from_0 = one.init == "log_uniform";  // the logarithm of U(0, b)
  if (wanted == 2 && !((from_0 ? 0 <= one.numbers[0] && 0 < one.numbers[1] : 0 < one.numbers[0]) &&
                       one.numbers[0] <= one.numbers[1]))
    fail(inner.column, fmt::format("{}(a, b) wants 0 {} a <= b", inner.name, from_0 ? "<=" : "<"));
  if (between && one.numbers[0] > one.numbers[1]) fail(inner.column, "uniform(a, b) wants a <= b");
  if ((inner.name == "normal" || inner.name == "uniform") && !between && one.numbers[0] < 0)
    fail(inner.column, fmt::format("{} wants a number that is not negative", inner.name));
}

}  // namespace crosstalk::rules

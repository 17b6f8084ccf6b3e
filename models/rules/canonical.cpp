// Laws as text: what equal laws have in common.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "models/rules/law.h"

namespace crosstalk::rules {
namespace {

enum Level { level_sum, level_product, level_joined, level_power, level_atom };

class Writer {
 public:
  explicit Writer(const Law& law) : law_(law) {}

  std::vector<std::string> steps();

  std::string text(Value node, Level level) const {
    const auto it = names_.find(node);
    if (it != names_.end()) return it->second;
    const auto [out, at] = spelled(node);
    return at < level ? "(" + out + ")" : out;
  }

  std::map<Value, std::string> names_;

 private:
  struct Spelled {
    std::string text;
    Level level;
  };

  Spelled spelled(Value node) const {
    const auto arg = [&](std::size_t i, Level level) { return text(node->args[i], level); };
    const auto sizes = [&] { return sizes_text(node->shape); };
    switch (node->kind) {
      case Kind::number:
        if (!node->name.empty()) return {node->name, level_atom};
        if (node->value < 0) return {"-" + number_text(-node->value), level_sum};
        return {number_text(node->value), level_atom};
      case Kind::given:
      case Kind::state:
      case Kind::input:
        return {node->name, level_atom};
      case Kind::eye:
        return {"I", level_atom};
      case Kind::ones:
        return {node->shape.rows == 1 ? fmt::format("ones(1, {})", size_text(node->shape.columns))
                                      : fmt::format("ones({})", sizes()),
                level_atom};
      case Kind::add:
        return {arg(0, level_sum) + " + " + arg(1, level_product), level_sum};
      case Kind::sub:
        return {arg(0, level_sum) + " - " + arg(1, level_product), level_sum};
      case Kind::neg:
        return {"-" + arg(0, level_product), level_sum};
      case Kind::mul:
        return {arg(0, level_product) + " * " + arg(1, level_joined), level_product};
      case Kind::div:
        return {arg(0, level_product) + " / " + arg(1, level_power), level_product};
      case Kind::matmul:
        return {arg(0, level_joined) + " " + arg(1, level_power), level_joined};
      case Kind::columns:
        return {fmt::format("{} diag({})", arg(0, level_joined), arg(1, level_sum)), level_joined};
      case Kind::rows:
        return {fmt::format("diag({}) {}", arg(1, level_sum), arg(0, level_power)), level_joined};
      case Kind::transpose:
        return {arg(0, level_power) + "^T", level_power};
      case Kind::fill:
        return {node->shape.rows == 1
                    ? fmt::format("fill({}, 1, {})", arg(0, level_sum), size_text(node->shape.columns))
                    : fmt::format("fill({}, {})", arg(0, level_sum), sizes()),
                level_atom};
      case Kind::token:
      case Kind::asking:
      case Kind::parameter:
        return {learned_text(law_.quantity(node)), level_atom};
      case Kind::max:
        return call("max", node);
      case Kind::min:
        return call("min", node);
      case Kind::map:
        return call(node->name, node);
      case Kind::diag:
        return call("diag", node);
      case Kind::diagonal:
        return call("diagonal", node);
      case Kind::sum:
        return call("sum", node);
      case Kind::row_sums:
        return call("row_sums", node);
      case Kind::softmax:
        return call("softmax", node);
      case Kind::unit:
        return call("unit", node);
      case Kind::fit:
        return {fmt::format("fit({}, {})", arg(0, level_sum), sizes()), level_atom};
      case Kind::largest:
        return {fmt::format("largest({}, {})", arg(0, level_sum), number_text(node->value)), level_atom};
      case Kind::solve:
        return call("solve", node);
    }
    return {"", level_atom};
  }
  Spelled call(const std::string& function, Value node) const {
    std::string out = function + "(";
    for (std::size_t i = 0; i < node->args.size(); ++i)
      out += (i > 0 ? ", " : "") + text(node->args[i], level_sum);
    return {out + ")", level_atom};
  }

  std::string fresh() {
    while (true) {
      const std::string name = fmt::format("x{}", ++last_);
      const auto taken = [&](const auto& all) {
        return std::any_of(all.begin(), all.end(), [&](const auto& one) { return one.name == name; });
      };
      if (!taken(law_.learned) && !taken(law_.states)) return name;
    }
  }

  using Uses = std::map<Value, int>;
  /// Steps for what is learned under `root`, and for what is needed twice.
  void settle(Value root, const Uses& uses) {
    for (Value node : order({root})) {
      if (names_.count(node) != 0) continue;
      if (is_learned_kind(node->kind)) {
        names_[node] = node->name;
        out_.push_back(fmt::format("{} = {}", node->name, learned_text(law_.quantity(node))));
      } else if (!node->is_leaf() && uses.count(node) != 0 && uses.at(node) > 1) {
        const std::string body = spelled(node).text;
        names_[node] = fresh();
        out_.push_back(names_[node] + " = " + body);
      }
    }
  }

  void reading(const Uses& uses) {
    Uses own;
    for (Value node : order({law_.read}))
      for (Value a : node->args) ++own[a];
    settle(law_.read, law_.before ? uses : own);
    out_.push_back("read " + text(law_.read, level_sum));
  }

  /// Tells whether the text of `root` spells the state out, not only through values that have names.
  bool spells(Value root, const std::string& state) const {
    std::vector<Value> stack = {root};
    std::set<Value> seen;
    while (!stack.empty()) {
      const Value node = stack.back();
      stack.pop_back();
      if (node->kind == Kind::state && node->name == state) return names_.count(node) == 0;
      if (names_.count(node) != 0 || !seen.insert(node).second) continue;
      stack.insert(stack.end(), node->args.begin(), node->args.end());
    }
    return false;
  }

  void steps_of_states();

  const Law& law_;
  std::vector<std::string> out_;
  int last_ = 0;
};

/// A state's step is written when no other step that is still to come spells its old value.
void Writer::steps_of_states() {
  std::vector<const LawState*> left;
  for (const LawState& one : law_.states) left.push_back(&one);
  const auto wanted = [&](const LawState* one) {
    return std::any_of(left.begin(), left.end(),
                       [&](const LawState* other) { return other != one && spells(other->step, one->name); });
  };
  while (!left.empty()) {
    auto next = std::find_if(left.begin(), left.end(), [&](const LawState* one) { return !wanted(one); });
    if (next == left.end()) {  // they exchange values: one keeps its old value under a name
      const LawState* one = left.front();
      for (Value node : order(law_.roots())) {
        if (node->kind != Kind::state || node->name != one->name) continue;
        names_[node] = fresh();
        out_.push_back(names_[node] + " = " + one->name);
      }
      continue;
    }
    out_.push_back(fmt::format("{} = {}", (*next)->name, text((*next)->step, level_sum)));
    left.erase(next);
  }
}

std::vector<std::string> Writer::steps() {
  std::vector<Value> all = law_.roots();
  for (const LawState& one : law_.states)
    if (one.start) all.push_back(one.start);
  Uses uses;
  for (Value node : order(all))
    for (Value a : node->args) ++uses[a];
  for (Value root : law_.roots()) ++uses[root];
  for (const LawState& one : law_.states) {
    if (one.name == "S" && one.shape == Shape{kV, kK} && !one.start) continue;
    const std::string declared =
        fmt::format("state {}[{}]", one.name,
                    one.shape.rows == 1 && one.shape.columns != 1 ? "1, " + size_text(one.shape.columns)
                                                                  : sizes_text(one.shape));
    out_.push_back(one.start ? declared + " = " + text(one.start, level_sum) : declared);
  }
  if (law_.before) reading(uses);
  for (const LawState& one : law_.states) settle(one.step, uses);
  steps_of_states();
  if (!law_.before) {
    const std::set<Value> old = reaching(law_.roots(), [](Value n) { return n->kind == Kind::state; });
    std::erase_if(names_, [&](const auto& one) { return old.count(one.first) != 0; });
    reading(uses);
  }
  return out_;
}

}  // namespace

std::string learned_text(const Learned& one) {
  std::vector<std::string> parts;
  if (!one.shape.number())
    parts.push_back(one.shape.rows == 1 ? "1, " + size_text(one.shape.columns) : sizes_text(one.shape));
  std::vector<std::string> numbers;
  for (double x : one.numbers) numbers.push_back(number_text(x));
  const std::string init = one.init.empty()     ? ""
                           : one.init[0] == '"' ? fmt::format("ramp({})", one.init)
                                                : fmt::format("{}({})", one.init, fmt::join(numbers, ", "));
  if (one.rank != 0) parts.push_back("rank = " + (one.rank == kRankOfKeys ? "d" : number_text(one.rank)));
  if (!one.through.empty()) parts.push_back(fmt::format("through = \"{}\"", one.through));
  if (one.weights != 1) parts.push_back("weights = " + number_text(one.weights));
  if (!init.empty()) parts.push_back(one.kind == Kind::parameter ? init : "bias = " + init);
  const char* kind = one.kind == Kind::token ? "token" : one.kind == Kind::asking ? "asking" : "parameter";
  return parts.empty() ? kind : fmt::format("{}({})", kind, fmt::join(parts, ", "));
}

std::vector<std::string> canonical(const Law& law) { return Writer(law).steps(); }

std::string expression_text(const Law& law, Value root, bool names) {
  Writer writer(law);
  constexpr int kLongest = 300;
  std::map<Value, int> lengths;  // written out, what is shared stands in every place
  for (Value node : order({root})) {
    int length = 1;
    for (Value a : node->args) length = std::min(kLongest, length + lengths.at(a));
    lengths[node] = length;
  }
  if (lengths.at(root) >= kLongest) return "(a long expression)";
  for (Value node : order({root}))
    if (names && is_learned_kind(node->kind)) writer.names_[node] = node->name;
  return writer.text(root, level_sum);
}

}  // namespace crosstalk::rules

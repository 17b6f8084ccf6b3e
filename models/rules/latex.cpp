// SPDX-License-Identifier: Apache-2.0
#include "models/rules/latex.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <set>

namespace crosstalk::rules {
namespace {

enum Level { level_sum, level_entries, level_product, level_power, level_atom };

struct Text {
  std::string tex;
  Level level;
};

bool is_greek(const std::string& name) {
  static const std::set<std::string> kNames = {
      "alpha", "beta",  "gamma", "delta", "epsilon", "zeta",  "eta", "theta",   "iota", "kappa", "lambda",
      "mu",    "nu",    "xi",    "pi",    "rho",     "sigma", "tau", "upsilon", "phi",  "chi",   "psi",
      "omega", "Gamma", "Delta", "Theta", "Lambda",  "Xi",    "Pi",  "Sigma",   "Phi",  "Psi",   "Omega"};
  return kNames.count(name) != 0;
}

std::string plain(const std::string& name) {
  if (is_greek(name)) return "\\" + name;
  return name.size() == 1 || std::isdigit(static_cast<unsigned char>(name[0])) != 0
             ? name
             : fmt::format("\\mathrm{{{}}}", name);
}

/// beta_2 of a number: \beta_{2}; with an index: \beta_{2,t}. Vectors and matrices are bold.
std::string symbol(const std::string& name, Shape shape, const std::string& index = "") {
  std::vector<std::string> parts;
  std::string part;
  for (std::size_t i = 0; i <= name.size(); ++i) {
    const bool number = i < name.size() && name[i] >= '0' && name[i] <= '9';
    const bool cut = i == name.size() || name[i] == '_' ||
                     (number && !part.empty() && !(part.back() >= '0' && part.back() <= '9'));
    if (cut && !part.empty()) parts.push_back(part), part.clear();
    if (i < name.size() && name[i] != '_') part += name[i];
  }
  if (parts.empty()) parts = {"\\_"};
  std::string tex;
  if (shape.number()) {
    tex = plain(parts[0]);
  } else {
    tex = is_greek(parts[0]) ? fmt::format("\\boldsymbol{{\\{}}}", parts[0])
                             : fmt::format("\\mathbf{{{}}}", parts[0]);
  }
  std::vector<std::string> below;
  for (std::size_t i = 1; i < parts.size(); ++i) below.push_back(plain(parts[i]));
  if (!index.empty()) below.push_back(index);
  if (below.empty()) return tex;
  const std::string all = fmt::format("{}", fmt::join(below, ","));
  return all.size() == 1 ? tex + "_" + all : fmt::format("{}_{{{}}}", tex, all);
}

std::string number(double x) {
  const std::string text = number_text(x);
  const std::size_t e = text.find('e');
  if (e == std::string::npos) return text;
  const std::string power = fmt::format("10^{{{}}}", std::stoi(text.substr(e + 1)));
  const std::string front = text.substr(0, e);
  return front == "1" ? power : front + " \\cdot " + power;
}

class Equations {
 public:
  explicit Equations(const Law& law) : law_(law) {
    std::set<std::string> taken;
    for (const auto& [name, value] : law.values) taken.insert(name);
    for (const LawState& one : law.states) taken.insert(one.name);
    for (const Learned& one : law.learned) taken.insert(one.name);
    const auto free = [&](std::initializer_list<const char*> names) {
      for (const char* name : names)
        if (taken.count(name) == 0) return fmt::format("\\mathbf{{{}}}", name);
      return std::string("\\hat{\\mathbf{v}}");
    };
    read_ = free({"o", "y"}), token_ = free({"x", "u"});
    for (const char* letter : {"z", "x", "a", "u"}) {
      const bool clear = std::none_of(taken.begin(), taken.end(), [&](const std::string& name) {
        return name[0] == *letter &&
               (name.size() == 1 || name[1] == '_' || (name[1] >= '0' && name[1] <= '9'));
      });
      if (repeated_.empty() && clear) repeated_ = letter;
    }
    if (repeated_.empty()) repeated_ = "part";
    for (const LawGradient& one : law.gradients)
      if (!one.of->is_leaf()) gradients_.emplace(one.gradient, &one);
  }

  std::vector<std::string> all() {
    for (const LawState& one : law_.states)
      if (one.start) equation(symbol(one.name, one.shape, "0"), one.start);
    values(false);
    if (law_.before) reading();
    for (const LawState& one : law_.states) equation(symbol(one.name, one.shape, "t"), one.step);
    if (!law_.before) {
      // A state behind the steps is what it has become, and values that saw it before are others.
      behind_ = true;
      std::erase_if(names_, [](const auto& one) { return has_state(one.first); });
      values(true);
      reading();
    }
    return out_;
  }

 private:
  void equation(const std::string& left, Value right) {
    name_what_repeats(right);
    out_.push_back(left + " &= " + spelled(right).tex);
  }
  void reading() { equation(read_ + "_t", law_.read); }

  /// Gives a long value that stands in several places an equation of its own.
  void name_what_repeats(Value root) {
    std::map<Value, int> long_;
    for (Value node : in_order(behind_ ? std::vector<Value>{law_.read} : law_.roots()))
      for (Value a : shown(node)) uses_[behind_][a].insert(node);
    for (Value node : in_order({root})) {
      int length = node->is_leaf() || node->kind == Kind::transpose ? 0 : 1;
      for (Value a : shown(node)) length = std::min(kLong, length + long_[a]);
      const bool known = names_.count(node) != 0 || gradients_.count(node) != 0 || is_step(node);
      long_[node] = known ? 0 : length;
      if (known || length < kLong || node == root || uses_[behind_][node].size() < 2) continue;
      const std::string tex = symbol(fmt::format("{}{}", repeated_, ++last_), node->shape, "t");
      out_.push_back(tex + " &= " + spelled(node).tex);
      names_.emplace(node, tex);
      long_[node] = 0;
    }
  }
  bool is_step(Value node) const {
    return !behind_ && !node->is_leaf() &&
           std::any_of(law_.states.begin(), law_.states.end(),
                       [&](const LawState& one) { return one.step == node; });
  }

  /// Values in the order of the text: what only the reading needs stands in front of it.
  void values(bool of_reading) {
    std::set<Value> before, after;
    std::vector<Value> steps;
    for (const LawState& one : law_.states) steps.push_back(one.step);
    for (Value node : in_order(steps)) before.insert(node);
    for (Value node : in_order({law_.read})) after.insert(node);
    for (const auto& [name, value] : law_.values) {
      const bool parameter = value->kind == Kind::parameter;
      const bool turned = value->kind == Kind::transpose && value->args[0]->is_leaf();
      const bool leaf = turned || is_step(value) || (value->is_leaf() && !is_learned_kind(value->kind));
      const bool needed = of_reading ? after.count(value) != 0 : law_.before || before.count(value) != 0;
      if (leaf || !needed || names_.count(value) != 0 || !said_.insert(name).second) continue;
      const std::string tex = symbol(name, value->shape, parameter || !moves(value) ? "" : "t");
      if (!parameter) equation(tex, value);
      names_.emplace(value, tex);
    }
  }

  /// The values whose text stands in that of a node: of a gradient, what it is of.
  std::vector<Value> shown(Value node) const {
    if (const auto it = gradients_.find(node); it != gradients_.end())
      return {it->second->of, it->second->by};
    if (const Value a = mean_of(node)) return {a};
    if (const Value a = square_of(node)) return {a};
    if (const Value a = centred_of(node)) return {a};
    if (const Value a = rms_of(node)) return centred_of(a) ? shown(a) : std::vector<Value>{a};
    if (is_map_of(node, "sqrt") && square_of(node->args[0])) return shown(node->args[0]);
    return node->args;
  }
  /// All of them, parts first.
  std::vector<Value> in_order(const std::vector<Value>& roots) const {
    return order(roots, [&](Value node) { return shown(node); });
  }

  /// Tells whether it is another one at every token.
  static bool moves(Value value) {
    return holds(value, [](Value n) {
      return n->kind == Kind::given || n->kind == Kind::state || n->kind == Kind::token ||
             n->kind == Kind::asking;
    });
  }

  std::string text(Value node, Level level) const {
    const Text out = named(node);
    if (out.level >= level) return out.tex;
    const bool tall = out.tex.find("\\frac") != std::string::npos;
    return tall ? fmt::format("\\left({}\\right)", out.tex) : fmt::format("({})", out.tex);
  }
  Text named(Value node) const {
    if (const auto it = names_.find(node); it != names_.end()) return {it->second, level_atom};
    for (const LawState& one : law_.states)
      if (!behind_ && one.step == node && !node->is_leaf())
        return {symbol(one.name, one.shape, "t"), level_atom};
    return spelled(node);
  }

  std::string inside(Value node) const {
    const std::string tex = named(node).tex;
    const bool tall = tex.find("\\frac") != std::string::npos;
    return tall ? fmt::format("\\left({}\\right)", tex) : fmt::format("({})", tex);
  }
  Text call(const std::string& function, Value argument) const {
    return {function + inside(argument), level_atom};
  }
  Text operation(const char* name, Value argument) const {
    return call(fmt::format("\\operatorname{{{}}}", name), argument);
  }

  Text learned(Value node) const;
  Text map(Value node) const;
  Text product(Value a, Value b, Level of_right) const;
  Text pair(Value node) const;
  Text spelled(Value node) const;

  const Law& law_;
  std::vector<std::string> out_;
  std::map<Value, std::string> names_;
  std::map<Value, const LawGradient*> gradients_;
  std::set<std::string> said_;
  std::map<bool, std::map<Value, std::set<Value>>> uses_;  ///< by whether behind the steps
  std::string read_, token_, repeated_;
  static constexpr int kLong = 5;  ///< operations
  int last_ = 0;
  bool behind_ = false;
};

Text Equations::learned(Value node) const {
  const Learned& one = law_.quantity(node);
  const std::string of = symbol(one.name, {});
  if (one.kind == Kind::parameter)
    return {fmt::format("{}_{{{}}}",
                        node->shape.number()   ? "\\theta"
                        : node->shape.vector() ? "\\boldsymbol{\\theta}"
                                               : "\\boldsymbol{\\Theta}",
                        of),
            level_atom};
  const std::string x = token_ + (one.kind == Kind::token ? "_t" : "^{\\mathrm{q}}_t");
  std::string tex = node->shape.number() && one.rank == 0
                        ? fmt::format("\\mathbf{{w}}_{{{}}}^{{\\top}} {}", of, x)
                    : one.rank == 0 ? fmt::format("\\mathbf{{W}}_{{{}}} {}", of, x)
                                    : fmt::format("\\mathbf{{W}}_{{{0}}} \\mathbf{{W}}'_{{{0}}} {1}", of, x);
  if (one.init.empty()) return {tex, level_product};
  return {fmt::format("{} + {}_{{{}}}", tex, node->shape.number() ? "b" : "\\mathbf{b}", of), level_sum};
}

Text Equations::map(Value node) const {
  const std::string& f = node->name;
  const Value a = node->args[0];
  if (f == "exp" || f == "log" || f == "tanh") return call("\\" + f, a);
  if (f == "sin") {
    const bool quarter =
        a->kind == Kind::add && a->args[1]->kind == Kind::number && a->args[1]->value == kQuarterTurn;
    return quarter ? call("\\cos", a->args[0]) : call("\\sin", a);
  }
  if (f == "sigmoid") return call("\\sigma", a);
  if (f == "log_sigmoid") return call("\\log \\sigma", a);
  if (f == "softplus") return operation("softplus", a);
  if (f == "relu") return operation("ReLU", a);
  if (f == "silu") return operation("SiLU", a);
  if (f == "sign") return operation("sign", a);
  if (f == "abs") return {fmt::format("|{}|", named(a).tex), level_atom};
  if (f == "positive") return {fmt::format("\\mathbf{{1}}[{} > 0]", named(a).tex), level_atom};
  if (f == "inverse")
    return a->shape.number() ? Text{fmt::format("\\frac{{1}}{{{}}}", named(a).tex), level_atom}
                             : Text{fmt::format("1 \\oslash {}", text(a, level_product)), level_entries};
  if (const Value squared = square_of(a))
    return {fmt::format("\\|{}\\|{}", named(squared).tex,
                        squared->shape.columns != 1 && squared->shape.rows != 1 ? "_{\\mathrm{F}}" : ""),
            level_atom};
  return {fmt::format("\\sqrt{{{}}}", named(a).tex), level_atom};
}

Text Equations::product(Value a, Value b, Level of_right) const {
  const std::string left = text(a, level_product), right = text(b, of_right);
  const bool digit = right[0] >= '0' && right[0] <= '9';
  return {left + (digit ? " \\cdot " : " ") + right, level_product};
}

/// Entry by entry.
Text Equations::pair(Value node) const {
  const auto unfilled = [&](Value x) {  // a number that is repeated is that number
    return x->kind == Kind::fill && node->kind == Kind::mul ? x->args[0] : x;
  };
  const Value a = unfilled(node->args[0]), b = unfilled(node->args[1]);
  const bool number_a = a->shape.number(), number_b = b->shape.number();
  if (node->kind == Kind::mul) {
    if (a == b && number_a) return {text(a, level_atom) + "^{2}", level_power};
    const auto is_one = [](Value x) { return x->kind == Kind::number && x->name.empty() && x->value == 1; };
    if (is_one(a) || is_one(b)) return named(is_one(a) ? b : a);
    if (number_a || number_b) return product(number_a ? a : b, number_a ? b : a, level_product);
    return {text(a, level_entries) + " \\odot " + text(b, level_product), level_entries};
  }
  if (number_b) return {fmt::format("\\frac{{{}}}{{{}}}", named(a).tex, named(b).tex), level_atom};
  return {text(a, level_entries) + " \\oslash " + text(b, level_product), level_entries};
}

Text Equations::spelled(Value node) const {
  const auto arg = [&](std::size_t i, Level level) { return text(node->args[i], level); };
  if (const auto it = gradients_.find(node); it != gradients_.end())
    return {fmt::format("\\nabla_{{{}}} {}", named(it->second->by).tex, text(it->second->of, level_atom)),
            level_product};
  switch (node->kind) {
    case Kind::number:
      if (!node->name.empty()) return {symbol(node->name, {}), level_atom};
      return {number(node->value), node->value < 0 ? level_sum : level_atom};
    case Kind::given:
      return {symbol(node->name, node->shape, "t"), level_atom};
    case Kind::state:
      return {symbol(node->name, node->shape, behind_ ? "t" : "t-1"), level_atom};
    case Kind::input:
      return {symbol(node->name, node->shape), level_atom};
    case Kind::token:
    case Kind::asking:
    case Kind::parameter:
      return learned(node);
    case Kind::ones:
      return {node->shape.columns == 1 ? "\\mathbf{1}" : "\\mathbf{1}\\mathbf{1}^{\\top}", level_product};
    case Kind::eye:
      return {"\\mathbf{I}", level_atom};
    case Kind::fill:
      return {fmt::format("{} \\mathbf{{1}}{}", arg(0, level_product),
                          node->shape.columns == 1 ? "" : "\\mathbf{1}^{\\top}"),
              level_product};
    case Kind::add:
      if (node->args[0] == node->args[1]) return {"2 " + arg(0, level_product), level_product};
      return {arg(0, level_sum) + " + " + arg(1, level_entries), level_sum};
    case Kind::sub:
      if (const Value a = centred_of(node)) return operation("centre", a);
      return {arg(0, level_sum) + " - " + arg(1, level_entries), level_sum};
    case Kind::neg:
      return {fmt::format("-{}", arg(0, level_entries)), level_sum};
    case Kind::mul:
      return pair(node);
    case Kind::div:
      if (const Value a = mean_of(node)) return operation("mean", a);
      if (const Value a = rms_of(node)) {
        const Value inner = centred_of(a);
        return operation(inner ? "LN" : "RMS", inner ? inner : a);
      }
      return pair(node);
    case Kind::max:
    case Kind::min:
      return {fmt::format("\\{}({}, {})", node->kind == Kind::max ? "max" : "min", named(node->args[0]).tex,
                          named(node->args[1]).tex),
              level_atom};
    case Kind::map:
      return map(node);
    case Kind::matmul:
      return product(node->args[0], node->args[1], level_power);
    case Kind::transpose:
      return {arg(0, level_atom) + "^{\\top}", level_power};
    case Kind::columns:
      return {fmt::format("{} \\operatorname{{Diag}}{}", arg(0, level_product), inside(node->args[1])),
              level_product};
    case Kind::rows:
      return {fmt::format("\\operatorname{{Diag}}{} {}", inside(node->args[1]), arg(0, level_power)),
              level_product};
    case Kind::diag:
      return operation("Diag", node->args[0]);
    case Kind::diagonal:
      return operation("diag", node->args[0]);
    case Kind::sum:
      if (const Value a = square_of(node))
        return {fmt::format("\\|{}\\|{}^{{2}}", named(a).tex,
                            a->shape.columns != 1 && a->shape.rows != 1 ? "_{\\mathrm{F}}" : ""),
                level_power};
      return operation("sum", node->args[0]);
    case Kind::row_sums:
      return {arg(0, level_product) + " \\mathbf{1}", level_product};
    case Kind::softmax:
      return operation("softmax", node->args[0]);
    case Kind::unit:
      return operation("unit", node->args[0]);
    case Kind::fit:
      return call(fmt::format("\\operatorname{{fit}}_{}", size_text(node->shape.rows)), node->args[0]);
    case Kind::largest:
      return call(fmt::format("\\operatorname{{largest}}_{{{}}}", number_text(node->value)), node->args[0]);
    case Kind::solve:
      return {fmt::format("{}^{{-1}} {}", text(node->args[0], level_atom), arg(1, level_power)), level_power};
  }
  return {"", level_atom};
}

}  // namespace

std::vector<std::string> latex_equations(const Law& law) { return Equations(law).all(); }

std::string latex(const Law& law) {
  return fmt::format("\\begin{{aligned}}\n{}\n\\end{{aligned}}", fmt::join(latex_equations(law), " \\\\\n"));
}

}  // namespace crosstalk::rules

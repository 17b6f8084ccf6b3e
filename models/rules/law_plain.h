// A law's text worked out number by number in double: reads, states at the end, gradients of all inputs. Only the parser of text is
// shared with what runs laws: no graph, no rewrites, no adjoint of models/rules/gradient.cpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "models/rules/text.h"

namespace crosstalk::rules::plain {

/// Numbers with what they were made of. Gradients are such numbers too, and have gradients.
class Tape {
 public:
  /// Distance of arguments from where a function has a kink or a pole, and the largest number: what a comparison must know.
  double kink = 1, largest = 0;

  int leaf(double x) { return push({'=', -1, -1, x, {}}); }
  int add(int a, int b) { return push({'+', a, b, at(a) + at(b), {}}); }
  int sub(int a, int b) { return push({'-', a, b, at(a) - at(b), {}}); }
  int mul(int a, int b) { return push({'*', a, b, at(a) * at(b), {}}); }
  int div(int a, int b) { return away(at(b)), push({'/', a, b, at(a) / at(b), {}}); }
  int copy(int a) { return push({'?', a, -1, at(a), {}}); }
  /// Of equal ones the first.
  int extreme(bool most, int a, int b) {
    away(at(a) - at(b));
    const bool second = most ? at(b) > at(a) : at(b) < at(a);
    return push({'?', second ? b : a, -1, at(second ? b : a), {}});
  }
  int map(std::string_view f, int a) {
    const double x = at(a);
    for (const char* bent : {"relu", "abs", "sign", "positive", "sqrt", "inverse", "log"})
      if (f == bent) away(x);
    return push({'f', a, -1, function(f, x), f});
  }
  double at(int i) const { return all_[static_cast<std::size_t>(i)].value; }

  /// d of / d wanted, which are leaves to it; so are `walls`.
  std::vector<int> gradients(int of, const std::vector<int>& wanted, const std::vector<int>& walls = {}) {
    const auto index = [](int i) { return static_cast<std::size_t>(i); };
    std::vector<char> active(index(of) + 1), stop(index(of) + 1);
    for (int w : walls)
      if (w <= of) stop[index(w)] = 1;
    for (int w : wanted)
      if (w <= of) active[index(w)] = stop[index(w)] = 1;
    for (std::size_t i = 0; i <= index(of); ++i) {
      const Number& n = all_[i];
      if (stop[i]) continue;
      active[i] = (n.a >= 0 && active[index(n.a)]) || (n.b >= 0 && active[index(n.b)]);
    }
    std::vector<int> found(index(of) + 1, -1);
    const auto give = [&](int to, int x) {
      found[index(to)] = found[index(to)] < 0 ? x : add(found[index(to)], x);
    };
    if (active[index(of)]) give(of, leaf(1));
    for (int i = of; i >= 0; --i) {
      if (found[index(i)] < 0 || stop[index(i)]) continue;
      const Number n = all_[index(i)];
      const int x = found[index(i)];
      const bool in_a = n.a >= 0 && active[index(n.a)], in_b = n.b >= 0 && active[index(n.b)];
      if (n.code == '+' || n.code == '-' || n.code == '?') {
        if (in_a) give(n.a, x);
        if (in_b) give(n.b, n.code == '+' ? x : sub(leaf(0), x));
      } else if (n.code == '*') {
        if (in_a) give(n.a, mul(x, n.b));
        if (in_b) give(n.b, mul(x, n.a));
      } else if (n.code == '/') {
        if (in_a) give(n.a, div(x, n.b));
        if (in_b) give(n.b, sub(leaf(0), div(mul(x, i), n.b)));
      } else if (n.code == 'f' && in_a) {
        give(n.a, mul(x, slope(n.name, n.a, i)));
      }
    }
    std::vector<int> out;
    for (int w : wanted) out.push_back(w <= of && found[index(w)] >= 0 ? found[index(w)] : leaf(0));
    return out;
  }

 private:
  struct Number {
    char code;
    int a, b;
    double value;
    std::string_view name;  ///< of the function: the law's text, or a literal
  };
  int push(const Number& n) {
    if (!(std::abs(n.value) <= largest) && !std::isnan(largest)) largest = std::abs(n.value);
    all_.push_back(n);
    return static_cast<int>(all_.size()) - 1;
  }
  /// 0 itself is 0 in every form.
  void away(double x) {
    if (x != 0) kink = std::min(kink, std::abs(x));
  }
  static double function(std::string_view f, double x) {
    if (f == "exp") return std::exp(x);
    if (f == "log") return std::log(x);
    if (f == "sigmoid") return 1 / (1 + std::exp(-x));
    if (f == "softplus") return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
    if (f == "log_sigmoid") return std::min(x, 0.0) - std::log1p(std::exp(-std::abs(x)));
    if (f == "tanh") return std::tanh(x);
    if (f == "relu") return std::max(x, 0.0);
    if (f == "silu") return x / (1 + std::exp(-x));
    if (f == "sqrt") return std::sqrt(x);
    if (f == "abs") return std::abs(x);
    if (f == "sign") return x > 0 ? 1 : x < 0 ? -1 : 0;
    if (f == "positive") return x > 0 ? 1 : 0;
    if (f == "inverse") return x == 0 ? 0 : 1 / x;
    if (f == "sin") return std::sin(x);
    if (f == "cos") return std::cos(x);
    throw std::logic_error("no such function");
  }
  int slope(std::string_view f, int x, int y) {
    if (f == "exp") return y;
    if (f == "log") return div(leaf(1), x);
    if (f == "sigmoid") return mul(y, sub(leaf(1), y));
    if (f == "softplus") return map("sigmoid", x);
    if (f == "log_sigmoid") return sub(leaf(1), map("sigmoid", x));
    if (f == "tanh") return sub(leaf(1), mul(y, y));
    if (f == "relu") return map("positive", x);
    if (f == "silu") {
      const int s = map("sigmoid", x);
      return add(s, mul(y, sub(leaf(1), s)));
    }
    if (f == "sqrt") return mul(leaf(0.5), map("inverse", y));
    if (f == "abs") return map("sign", x);
    if (f == "inverse") return sub(leaf(0), mul(y, y));
    if (f == "sin") return map("cos", x);
    if (f == "cos") return sub(leaf(0), map("sin", x));
    return leaf(0);
  }

  std::vector<Number> all_;
};

/// Row by row, places on a tape. `identity`: a number times I, whose size its neighbour decides.
struct Matrix {
  int rows = 1, columns = 1;
  std::vector<int> x;
  bool identity = false;
  bool number() const { return !identity && x.size() == 1; }
  int at(int i, int j) const { return number() ? x[0] : x[static_cast<std::size_t>(i * columns + j)]; }
};

struct Sizes {
  int T, K, V;
};
using Given = std::map<std::string, std::vector<double>>;
/// A memory's own text: its options, of which ?: chooses, numbers that it may name, inputs that no step makes with their rows and
/// columns.
struct Own {
  std::map<std::string, std::string> options = {};
  std::map<std::string, double> numbers = {};
  std::map<std::string, std::pair<int, int>> inputs = {};
  std::set<std::string> of_writes = {};  ///< quantities of every write of a token, k and v among them
  int writes = 1;                        ///< a token: a step of a state that names k or v is one of each
  bool given = false;                    ///< inputs are given, not what they are made of
};

class Evaluator {
 public:
  /// `given`: q, k, v, what is learned, inputs of a memory, and states before the first token by the names of states with a 0;
  /// tokens row by row.
  Evaluator(const std::vector<std::string>& text, const Sizes& s, const Given& given, const Own& own = {})
      : own_(own), s_(s) {
    for (const auto& [name, x] : own.numbers) names_[name] = constant(x);
    for (std::size_t i = 0; i < text.size(); ++i)
      steps_.push_back(parse_step(text[i], static_cast<int>(i) + 1));
    for (const auto& [name, numbers] : given)
      for (double x : numbers) inputs_[name].push_back(tape.leaf(x));
    for (const Step& step : steps_) {
      if (step.kind != Step::Kind::state) continue;
      begin(step, 0);
      states[step.name] = started(step.name, size(*step.sizes[0]),
                                  step.sizes.size() > 1 ? size(*step.sizes[1]) : 1, step.value.get());
    }
    if (states.count("S") == 0) states["S"] = started("S", s.V, s.K, nullptr);
    for (const Step& step : steps_)
      if (step.kind != Step::Kind::read && states.count(step.name) != 0) last_ = &step;
    for (int t = 0; t < s.T; ++t) token(t);
  }
  Tape tape;
  std::vector<int> read;  ///< T rows
  std::map<std::string, Matrix> states;
  const std::vector<int>& input(const std::string& name) const { return inputs_.at(name); }
  /// What a step gave at the last token.
  std::vector<double> named(const std::string& name) const {
    std::vector<double> numbers;
    for (int x : names_.at(name).x) numbers.push_back(tape.at(x));
    return numbers;
  }

 private:
  int size(const Tree& tree) const {
    const auto number = own_.numbers.find(tree.name);
    return tree.name == "K"               ? s_.K
           : tree.name == "V"             ? s_.V
           : tree.name == "M"             ? 4 * s_.K
           : number == own_.numbers.end() ? static_cast<int>(tree.number)
                                          : static_cast<int>(number->second);
  }
  Matrix made(int rows, int columns, const auto& f) {
    Matrix y{rows, columns, {}, false};
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < columns; ++j) y.x.push_back(f(i, j));
    return y;
  }
  Matrix number(int x) { return {1, 1, {x}, false}; }
  Matrix constant(double x) { return number(tape.leaf(x)); }
  Matrix taken(const std::string& name, int rows, int columns, int t) {
    const auto it = inputs_.find(name);
    return made(rows, columns, [&](int i, int j) {  // what the law does not depend on is not given
      return it == inputs_.end() ? tape.leaf(0.5)
                                 : it->second.at(static_cast<std::size_t>((t * rows + i) * columns + j));
    });
  }
  Matrix started(const std::string& name, int rows, int columns, const Tree* start) {
    if (inputs_.count(name + "0") != 0) return taken(name + "0", rows, columns, 0);
    // apply knows no parameters, and where states are given, the others begin at 0.
    const bool others = std::any_of(steps_.begin(), steps_.end(), [&](const Step& step) {
      return (step.kind == Step::Kind::state && inputs_.count(step.name + "0") != 0) ||
             inputs_.count("S0") != 0;
    });
    const bool written = start && (start->kind == Tree::Kind::number || start->kind == Tree::Kind::negative);
    const bool unknown = start && start->kind == Tree::Kind::name && names_.count(start->name) == 0;
    const bool nothing = !start || unknown || (own_.given && (others || !written));
    return filled(nothing ? constant(0) : value(*start), rows, columns);
  }
  Matrix filled(const Matrix& a, int rows, int columns) {
    if (a.identity) return sized(a, rows);
    return made(rows, columns,
                [&](int i, int j) { return tape.copy(a.at(i, j)); });  // gradients are by each entry
  }
  /// From here on the name of a state is a value of its own.
  void settle() {
    for (const auto& [name, state] : states)
      names_[name] = filled(names_.at(name), state.rows, state.columns);
  }
  void begin(const Step& step, int t) { step_ = &step, learned_ = 0, t_ = t; }

  void token(int t) {
    names_.clear();
    names_["head"] = constant(0);
    for (const auto& [name, x] : own_.numbers) names_[name] = constant(x);
    for (const auto& [name, state] : states) names_[name] = state;
    settle();
    walls_.clear();  // no grad() looks at what states of the token before were made of
    for (const auto& [name, state] : states)
      walls_.insert(walls_.end(), names_.at(name).x.begin(), names_.at(name).x.end());
    for (const char* name : {"q", "k", "v"})
      if (own_.inputs.count(name) == 0) names_[name] = taken(name, *name == 'v' ? s_.V : s_.K, 1, t);
    for (const auto& [name, shape] : own_.inputs) names_[name] = taken(name, shape.first, shape.second, t);
    for (const Step& step : steps_) {
      if (step.kind == Step::Kind::state) continue;
      begin(step, t);
      const bool writes = own_.writes > 1 && states.count(step.name) != 0 && names(*step.value, {"k", "v"});
      for (int n = 0; n < (writes ? own_.writes : 1); ++n) {
        for (const std::string& name : own_.of_writes) {
          const int size = name == "k" ? s_.K : name == "v" ? s_.V : 1;
          if (writes) names_[name] = taken(name, size, 1, t * own_.writes + n);
        }
        one_step(step, t);
      }
    }
    for (auto& [name, state] : states) state = names_.at(name);
  }
  static bool names(const Tree& tree, const std::set<std::string>& any) {
    return (tree.kind == Tree::Kind::name && any.count(tree.name) != 0) ||
           std::any_of(tree.parts.begin(), tree.parts.end(),
                       [&](const auto& part) { return names(*part, any); });
  }
  void one_step(const Step& step, int t) {
    const auto given = inputs_.find(step.name);
    const bool is_input = own_.given && given != inputs_.end();
    const auto of = own_.inputs.find(step.name);
    Matrix y = !is_input ? value(*step.value)
               : of != own_.inputs.end()
                   ? taken(step.name, of->second.first, of->second.second, t)
                   : taken(step.name, static_cast<int>(given->second.size()) / s_.T, 1, t);
    if (step.kind == Step::Kind::read) {
      y = filled(y, s_.V, 1);
      read.insert(read.end(), y.x.begin(), y.x.end());
      return;
    }
    if (const auto state = states.find(step.name); state != states.end())
      y = filled(y, state->second.rows, state->second.columns);
    if (step.kind != Step::Kind::set)
      y = pair(step.kind == Step::Kind::add ? '+' : '-', names_.at(step.name), y);
    const bool another = step.value->kind != Tree::Kind::name;  // else it is the same value by two names
    names_[step.name] = another ? filled(y, y.rows, y.columns) : y;
    if (&step == last_) settle();
  }

  Matrix sized(const Matrix& a, int n) {
    return made(n, n, [&](int i, int j) { return i == j ? a.x[0] : tape.leaf(0); });
  }
  Matrix pair(char code, const Matrix& a, const Matrix& b) {
    const auto f = [&](int x, int y) {
      return code == '+'   ? tape.add(x, y)
             : code == '-' ? tape.sub(x, y)
             : code == '*' ? tape.mul(x, y)
             : code == '/' ? tape.div(x, y)
                           : tape.extreme(code == '>', x, y);
    };
    if (a.identity && (b.identity || b.number())) return {1, 1, {f(a.x[0], b.x[0])}, true};
    if (b.identity && a.number()) return {1, 1, {f(a.x[0], b.x[0])}, true};
    if (a.identity) return pair(code, sized(a, b.rows), b);
    if (b.identity) return pair(code, a, sized(b, a.rows));
    const Matrix& like = a.number() ? b : a;
    return made(like.rows, like.columns, [&](int i, int j) { return f(a.at(i, j), b.at(i, j)); });
  }
  Matrix product(const Matrix& a, const Matrix& b) {
    if (a.identity || b.identity || a.number() || b.number()) {
      if (a.identity && !b.identity) return pair('*', number(a.x[0]), b);
      if (b.identity && !a.identity) return pair('*', a, number(b.x[0]));
      return pair('*', a, b);
    }
    return made(a.rows, b.columns, [&](int i, int j) {
      int sum = tape.mul(a.at(i, 0), b.at(0, j));
      for (int l = 1; l < a.columns; ++l) sum = tape.add(sum, tape.mul(a.at(i, l), b.at(l, j)));
      return sum;
    });
  }
  Matrix mapped(std::string_view f, const Matrix& a) {
    return made(a.rows, a.columns, [&](int i, int j) { return tape.map(f, a.at(i, j)); });
  }
  Matrix turned(const Matrix& a) {
    if (a.identity) return a;
    return made(a.columns, a.rows, [&](int i, int j) { return a.at(j, i); });
  }
  Matrix sum(const Matrix& a) {
    int all = tape.leaf(0);
    for (int x : a.x) all = tape.add(all, x);
    return number(all);
  }
  /// x of A x = b, by elimination.
  Matrix solved(Matrix a, Matrix b) {
    const int n = a.rows;
    const auto entry = [n](int i, int j) { return static_cast<std::size_t>(i * n + j); };
    const auto row = [](int i) { return static_cast<std::size_t>(i); };
    for (int c = 0; c < n; ++c)
      for (int i = c + 1; i < n; ++i) {
        const int by = tape.div(a.at(i, c), a.at(c, c));
        for (int j = c; j < n; ++j) a.x[entry(i, j)] = tape.sub(a.at(i, j), tape.mul(by, a.at(c, j)));
        b.x[row(i)] = tape.sub(b.x[row(i)], tape.mul(by, b.x[row(c)]));
      }
    for (int i = n; i-- > 0;) {
      for (int j = i + 1; j < n; ++j) b.x[row(i)] = tape.sub(b.x[row(i)], tape.mul(a.at(i, j), b.x[row(j)]));
      b.x[row(i)] = tape.div(b.x[row(i)], a.at(i, i));
    }
    return b;
  }
  Matrix largest(Matrix a, std::size_t count) {
    std::vector<std::size_t> left;
    for (std::size_t i = 0; i < a.x.size(); ++i) left.push_back(i);
    while (left.size() > count) {  // the smallest goes, of equal ones the last
      auto smallest = left.begin();
      for (auto i = left.begin(); i != left.end(); ++i)
        if (tape.at(a.x[*i]) <= tape.at(a.x[*smallest])) smallest = i;
      a.x[*smallest] = tape.leaf(0), left.erase(smallest);
    }
    return a;
  }
  Matrix square(const Matrix& a) { return sum(pair('*', a, a)); }
  Matrix mean(const Matrix& a) { return pair('/', sum(a), constant(static_cast<double>(a.x.size()))); }
  Matrix root(const Matrix& a) { return mapped("sqrt", a); }
  Matrix row_sums(const Matrix& a) { return product(a, filled(constant(1), a.columns, 1)); }
  Matrix rms(const Matrix& a, const Matrix& eps) {
    return pair('/', a, root(pair('+', mean(pair('*', a, a)), eps)));
  }

  Matrix value(const Tree& tree) {
    const auto part = [&](std::size_t i) { return value(*tree.parts[i]); };
    switch (tree.kind) {
      case Tree::Kind::number:
        return constant(tree.number);
      case Tree::Kind::name:
        if (tree.name == "I") return {1, 1, {tape.leaf(1)}, true};
        return is_learned(tree.name) ? call(tree) : names_.at(tree.name);
      case Tree::Kind::call:
        return call(tree);
      case Tree::Kind::transpose:
        return turned(part(0));
      case Tree::Kind::power: {
        const Matrix a = part(0);
        if (tree.parts.size() == 2) return mapped("exp", pair('*', mapped("log", a), part(1)));
        Matrix y = a;
        for (int i = 1; i < std::abs(tree.power); ++i) y = pair('*', y, a);
        return tree.power > 0 ? y : pair('/', constant(1), y);
      }
      case Tree::Kind::negative:
        return product(constant(-1), part(0));
      case Tree::Kind::choice:
        return part(is_so(*tree.parts[0]) ? 1 : 2);
      default: {
        const char code = tree.kind == Tree::Kind::add        ? '+'
                          : tree.kind == Tree::Kind::subtract ? '-'
                          : tree.kind == Tree::Kind::times    ? '*'
                                                              : '/';
        const Matrix a = part(0), b = part(1);
        const bool joined = tree.kind == Tree::Kind::joined || (code == '*' && (a.identity || b.identity));
        return joined ? product(a, b) : pair(code, a, b);
      }
    }
  }
  bool is_so(const Tree& condition) const {
    if (condition.kind == Tree::Kind::name) return own_.options.at(condition.name) == "true";
    const Tree& is = *condition.parts[1];
    const auto size = own_.numbers.find(condition.parts[0]->name);
    if (size != own_.numbers.end() && own_.options.count(size->first) == 0) return size->second == is.number;
    const std::string& option = own_.options.at(condition.parts[0]->name);
    return is.kind == Tree::Kind::word ? option == is.name : std::stod(option) == is.number;
  }
  Matrix call(const Tree& tree) {
    const std::string& f = tree.name;
    if (is_learned(f)) return learned(tree);
    if (f == "ones" || f == "fill") {
      const std::size_t first = f == "fill" ? 1 : 0;
      const Matrix a = first ? value(*tree.parts[0]) : constant(1);
      return filled(a, size(*tree.parts[first]),
                    tree.parts.size() > first + 1 ? size(*tree.parts[first + 1]) : 1);
    }
    if (f == "fit") {
      const Matrix x = value(*tree.parts[0]);
      return made(size(*tree.parts[1]), 1,
                  [&](int i, int) { return i < x.rows ? x.at(i, 0) : tape.leaf(0); });
    }
    const Matrix a = value(*tree.parts[0]),
                 b = tree.parts.size() > 1 ? value(*tree.parts[1]) : constant(1e-5);
    if (is_map(f) || f == "cos") return mapped(f, a);
    if (f == "solve") return solved(a, b);
    if (f == "largest") return largest(a, static_cast<std::size_t>(tape.at(b.x[0])));
    if (f == "max" || f == "min") {  // a number that is written out has no slope: max(1, x) is max(x, 1)
      const bool swapped = is_written(*tree.parts[0]) && !is_written(*tree.parts[1]);
      return pair(f == "max" ? '>' : '<', swapped ? b : a, swapped ? a : b);
    }
    if (f == "dot") return sum(pair('*', a, b));
    if (f == "outer") return product(a, turned(b));
    if (f == "row_sums") return row_sums(a);
    if (f == "column_sums") return row_sums(turned(a));
    if (f == "diag")
      return made(a.rows, a.rows, [&](int i, int j) { return i == j ? a.at(i, 0) : tape.leaf(0); });
    if (f == "diagonal") return made(a.rows, 1, [&](int i, int) { return a.at(i, i); });
    if (f == "sum") return sum(a);
    if (f == "mean") return mean(a);
    if (f == "norm") return root(square(a));
    if (f == "unit") return pair('/', a, root(pair('+', square(a), constant(1e-6))));
    if (f == "softmax") {
      double most = tape.at(a.x[0]);
      for (int x : a.x) most = std::max(most, tape.at(x));
      const Matrix e = mapped("exp", pair('-', a, constant(most)));
      return pair('/', e, sum(e));
    }
    if (f == "rms") return rms(a, b);
    if (f == "share") return pair('/', a, tree.parts.size() > 1 ? pair('+', sum(a), b) : sum(a));
    if (f == "layernorm") return rms(pair('-', a, mean(a)), b);
    if (f != "grad") throw std::logic_error("no function " + f);
    Matrix y = b;
    y.x = tape.gradients(a.x[0], b.x, walls_);
    return y;
  }
  static bool is_written(const Tree& tree) {
    return tree.kind == Tree::Kind::number ||
           (tree.kind == Tree::Kind::negative && is_written(*tree.parts[0]));
  }
  Matrix learned(const Tree& tree) {
    std::vector<int> sizes;
    for (std::size_t i = 0; i < tree.parts.size(); ++i) {
      const Tree& part = *tree.parts[i];
      const bool whole = part.kind == Tree::Kind::number && part.number == std::floor(part.number);
      if (tree.names[i].empty() && (whole || part.kind == Tree::Kind::name)) sizes.push_back(size(part));
    }
    const bool starts = step_->kind == Step::Kind::state;
    const bool reads = step_->kind == Step::Kind::read;
    std::string name = reads ? "read" : step_->name;
    if (reads || states.count(name) != 0 || starts) name += starts ? "_start" : "_" + tree.name;
    if (++learned_ > 1) name.append("_").append(std::to_string(learned_));
    return taken(name, sizes.empty() ? 1 : sizes[0], sizes.size() > 1 ? sizes[1] : 1,
                 tree.name == "parameter" ? 0 : t_);
  }

  const Own own_;
  const Sizes s_;
  std::vector<Step> steps_;
  std::map<std::string, std::vector<int>> inputs_;
  std::map<std::string, Matrix> names_;
  const Step *step_ = nullptr, *last_ = nullptr;  ///< at hand; the last that changes a state
  int learned_ = 0, t_ = 0;
  std::vector<int> walls_;
};

}  // namespace crosstalk::rules::plain

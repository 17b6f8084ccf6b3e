// Laws drawn at random: of every operation and shape, half of them such as the engines of built-in memories take.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <random>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "models/rules/graph.h"

namespace crosstalk::rules {

class RandomLaw {
 public:
  explicit RandomLaw(int seed) : random_(static_cast<unsigned>(seed)) {}

  std::string text() {
    engines_ = chance(45);
    for (const Shape s : {kNumber, kKey, kValue, kNumber})
      if (chance(60)) learn("token", s);
    if (chance(20)) learn("token", {3, 1});
    if (chance(30)) learn("parameter", one_of<Shape>({kNumber, kKey, kValue, kState, {kK, kK}}));
    if (chance(20)) learn("asking", kKey);
    names_.insert(names_.end(), {{"q", kKey, true}, {"k", kKey}, {"v", kValue}, {"S", kState, false, true}});
    std::vector<Named> states;
    for (const Named& one : std::vector<Named>{{"z", kKey},
                                               {"a", kNumber},
                                               {"H", {kK, kV}},
                                               {"M", {kK, kK}},
                                               {"r", {1, kK}},
                                               {"y", kValue},
                                               {"B", {3, kK}}}) {
      if (!chance(16) || states.size() > 2 || (engines_ && one.shape.columns != 1)) continue;
      states.push_back(one);
      steps_.push_back(fmt::format(
          "state {}[{}]{}", one.name,
          one.shape.rows == 1 && one.shape.columns != 1 ? "1, K" : sizes_text(one.shape),
          chance(25) && !engines_ ? fmt::format(" = fill({}, {}, {})", decimal(), size_text(one.shape.rows),
                                                size_text(one.shape.columns))
                                  : ""));
      names_.push_back({one.name, one.shape, false, true});
    }
    for (int i = below(3); i > 0; --i)
      define(one_of<Shape>({kNumber, kKey, kValue, engines_ ? kNumber : kState}));
    const bool before = chance(20);
    if (before) read();
    states.push_back({"S", kState});
    for (std::size_t i = states.size(); i-- > 0;) change(states[(i + states.size() - 1) % states.size()]);
    if (!before) {
      std::erase_if(names_, [](const Named& one) { return one.seen; });
      read();
    }
    return joined();
  }

 private:
  struct Named {
    std::string name;
    Shape shape;
    bool asks = false, state = false, seen = false;  ///< seen: it saw a state
  };
  static constexpr Shape kNumber{1, 1}, kKey{kK, 1}, kValue{kV, 1}, kState{kV, kK};

  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  bool chance(int percent) { return below(100) < percent; }
  template <class T>
  T one_of(const std::vector<T>& all) {
    return all[static_cast<std::size_t>(below(static_cast<int>(all.size())))];
  }
  std::string decimal() { return one_of<std::string>({"0.3", "0.7", "1.1", "1.5", "-0.4", "0.2"}); }
  std::string sizes(Shape s) {
    return size_text(s.rows) + (s.columns == 1 && chance(70) ? "" : ", " + size_text(s.columns));
  }

  void learn(const std::string& how, Shape s) {
    const std::string name = fmt::format("w{}", ++last_);
    steps_.push_back(fmt::format("{} = {}{}", name, how, s.number() ? "" : "(" + sizes_text(s) + ")"));
    names_.push_back({name, s, how == "asking"});
  }
  void define(Shape s) {
    saw_ = false;
    const std::string name = fmt::format("w{}", ++last_), text = of(s, 3);
    steps_.push_back(name + " = " + text);
    names_.push_back({name, s, false, false, saw_});
  }

  /// A name of the shape, or of its transpose, or numbers.
  std::string leaf(Shape s) {
    std::vector<std::pair<std::string, bool>> all;
    for (const Named& one : names_) {
      if ((one.asks && !reading_)) continue;
      const bool sees = one.state || one.seen;
      if (sees && engines_) continue;
      if (one.shape == s) all.insert(all.end(), {{one.name, sees}, {one.name, sees}});
      if (one.shape.transposed() == s && !s.number()) all.push_back({one.name + "^T", sees});
    }
    if (all.empty() || chance(15)) {
      if (s.number()) return "(" + decimal() + ")";
      return chance(40) ? fmt::format("ones({})", sizes(s))
                        : fmt::format("fill({}, {})", decimal(), sizes(s));
    }
    const auto [name, sees] = one_of(all);
    saw_ = saw_ || sees;
    return name;
  }
  Shape any() {
    if (engines_) return one_of<Shape>({kKey, kValue, {1, kK}, {3, 1}});
    return one_of<Shape>({kKey, kValue, kState, kState, {kK, kV}, {kK, kK}, {1, kK}, {3, 1}, {3, kK}});
  }
  int letter() { return one_of<int>({kK, kV, kK, 3}); }

  /// An expression of that shape.
  std::string of(Shape s, int deep) {
    if (deep <= 0 || chance(10)) return leaf(s);
    const auto x = [&](Shape t) { return of(t, deep - 1); };
    const auto two = [&](const char* text, Shape a, Shape b) {
      const std::string first = x(a), second = x(b);
      return fmt::format(fmt::runtime(text), first, second);
    };
    const auto one = [&](const char* text, Shape a) { return fmt::format(fmt::runtime(text), x(a)); };
    const bool vector = s.columns == 1;
    if (s.number() && chance(55)) {
      const Shape t = any();
      const int n = letter();
      return one_of<std::function<std::string()>>(
          {[&] { return one("sum({})", t); }, [&] { return one("mean({})", t); },
           [&] { return one("norm({})", t); }, [&] { return two("dot({}, {})", t, t); },
           [&] {
             return two("({}^T {})", {n, 1}, {n, 1});
           },
           [&] { return two("sum({} * {})", t, t); },
           [&] { return fmt::format("sum(fill({}, {}) * {})", x(kNumber), sizes(t), x(t)); },
           [&] { return fmt::format("mean(max(fill({}, {}), {}))", x(kNumber), sizes(t), x(t)); }})();
    }
    if (!s.number() && chance(55)) {
      const int n = letter();
      std::vector<std::function<std::string()>> all = {
          [&] { return fmt::format("fill({}, {})", x(kNumber), sizes(s)); },
          [&] { return fmt::format("({} fill({}, {}))", x(kNumber), x(kNumber), sizes(s)); },
          [&] { return one("{}^T", s.transposed()); },
          [&] { return one("unit({})", s); },
          [&] { return one("rms({})", s); },
          [&] {
            // Of equal numbers it is 0 but for rounding, which unit() makes large: rms in its place.
            const std::string y = one("layernorm({}, 0.1)", s);
            const bool equal = y.starts_with("layernorm(fill(") || y.starts_with("layernorm(ones(");
            return equal ? "rms" + y.substr(9, y.size() - 15) + ")" : y;
          }};
      if (vector) all.push_back([&] { return one("softmax({})", s); });
      if (!engines_) all.push_back([&] { return two("({} {})", {s.rows, n}, {n, s.columns}); });
      if (engines_) {
      } else if (vector) {
        all.insert(all.end(), {[&] {
                                 return one("row_sums({})", {s.rows, n});
                               },
                               [&] {
                                 return one("column_sums({})", {n, s.rows});
                               },
                               [&] {
                                 return one("diagonal({})", {s.rows, s.rows});
                               },
                               [&] {
                                 return two("({} {})", {s.rows, n}, {n, 1});
                               },
                               [&] {
                                 return two("({}^T {})", {n, s.rows}, {n, 1});
                               }});
      } else {
        all.insert(all.end(), {[&] {
                                 return two("({} {}^T)", {s.rows, 1}, {s.columns, 1});
                               },
                               [&] {
                                 return two("outer({}, {})", {s.rows, 1}, {s.columns, 1});
                               },
                               [&] {
                                 return two("({} diag({}))", s, {s.columns, 1});
                               },
                               [&] {
                                 return two("(diag({}) {})", {s.rows, 1}, s);
                               }});
      }
      if (s.rows == s.columns)
        all.insert(all.end(), {[&] { return two("(I - {} {})", kNumber, s); },
                               [&] {
                                 return one("diag({})", {s.rows, 1});
                               }});
      return one_of(all)();
    }
    if (s != kNumber && chance(8)) {  // a gradient by a name
      std::vector<std::string> all;
      for (const Named& n : names_)
        if (n.shape == s && !n.asks && !(engines_ && (n.state || n.seen))) all.push_back(n.name);
      if (!all.empty()) {
        saw_ = true;
        const std::string by = one_of(all);
        return fmt::format("(0.3 grad({} + sum({} * {}), {}))", x(kNumber), by, x(s), by);
      }
    }
    return one_of<std::function<std::string()>>(
        {[&] { return two("({} + {})", s, s); }, [&] { return two("({} - {})", s, s); },
         [&] { return two("({} * {})", s, s); }, [&] { return two("({} * {})", kNumber, s); },
         [&] { return two("({} {})", s, kNumber); }, [&] { return one("(-{})", s); },
         [&] { return two("({} / (1.2 + abs({})))", s, kNumber); },
         [&] { return two("({} / (1.5 + sigmoid({})))", s, s); }, [&] { return two("max({}, {})", s, s); },
         [&] { return two("min({}, {})", kNumber, s); },
         [&] {
           return one(
               one_of<const char*>({"tanh({})", "sigmoid({})", "silu({})", "softplus({})", "relu({})",
                                    "abs({})", "exp(tanh({}))", "log_sigmoid({})", "sqrt(abs({}) + 0.5)",
                                    "log(abs({}) + 0.5)", "positive({})", "tanh({})"}),
               s);
         },
         [&] { return two("({} + fill(0.3, K)^T fill({}, K))", s, kNumber); }})();
  }

  bool has(const std::string& name) const {
    return std::any_of(names_.begin(), names_.end(), [&](const Named& one) { return one.name == name; });
  }
  /// Without a state: what the engines' gates may be.
  std::string gate(Shape s, const char* kind) {
    std::string out;
    do {
      saw_ = false, out = of(s, 1);
    } while (saw_);
    return fmt::format("{}({})", kind, out);
  }
  void change(const Named& state) {
    saw_ = false;
    const auto add = [&](const std::string& text) { steps_.push_back(text); };
    const std::string& name = state.name;
    if (state.name == "S" && (engines_ || chance(50))) {  // a recurrence
      const char* squash = one_of<const char*>({"sigmoid", "tanh", "0.9 sigmoid", "exp(-softplus", "abs"});
      const std::string end = std::string(squash).find('(') != std::string::npos ? ")" : "";
      const std::string key = chance(70) ? "k" : gate(kKey, "unit"),
                        beta = chance(60) ? gate(kNumber, "sigmoid")
                                          : one_of<std::string>({"1", "0.5", "(-0.5)"});
      std::string kept =
          one_of<std::string>({"S", "0.9 S", "(-S)", "(-0.5 S)", "0 S", "(S / 2)", "0.5 (S + S)"});
      if (chance(25)) kept = gate(kNumber, squash) + end + " S";
      if (chance(20)) kept = "S diag(" + gate(kKey, squash) + end + ")";
      if (chance(8)) kept = "diag(" + gate(kValue, squash) + end + ") " + kept;
      if (engines_ && has("z") && chance(50)) {  // the sum of its keys
        const std::string gain = chance(50) ? gate(kNumber, "exp") : beta,
                          fade = chance(50) ? gate(kNumber, "sigmoid") + " " : "";
        std::erase_if(steps_, [](const std::string& step) { return step.rfind("z = ", 0) == 0; });
        add(fmt::format("z = {}z + {} {}", fade, gain, key));
        return add(fmt::format("S = {}S + {} v {}^T", fade, gain, key));
      }
      switch (below(5)) {
        case 0:
          return add(fmt::format("S = {} + {} v {}^T", kept, beta, key));
        case 1:
          add("S = " + kept);
          return add(fmt::format("S += {} (v - S {}) {}^T", beta, key, key));
        case 2:
          return add(fmt::format("S = {} + {} (v - S {}) {}^T", kept, beta, key, key));
        case 3:
          add(fmt::format("S = {} - {} (S {}) {}^T", kept, beta, gate(kKey, "unit"), key));
          return add(fmt::format("S += v {}^T", key));
        default:
          add(fmt::format("S = {}", kept));
          for (int i = 1 + below(2); i >= 0; --i)
            add(fmt::format("S += {} ({} - S {}) {}^T", beta, chance(50) ? "v" : gate(kValue, "tanh"),
                            i == 0 ? key : "unit(k)", i == 0 ? key : "unit(k)"));
          return;
      }
    }
    if (state.shape.columns == 1 && (engines_ || chance(40)))  // a scan
      return add(
          fmt::format("{0} = {1} * {0} + {2}", name,
                      gate(chance(50) ? kNumber : state.shape, one_of<const char*>({"sigmoid", "tanh"})),
                      gate(state.shape, "0.7 silu")));
    switch (below(4)) {
      case 0: {
        std::string loss = "sum(" + name + " * " + of(state.shape, 1) + ") + " + of(kNumber, 3);
        if (chance(30)) {  // it sees the state as it was
          const std::string early = fmt::format("w{}", ++last_);
          add(early + " = " + loss), add(fmt::format("{0} = 0.8 {0}", name));
          loss = chance(30) ? early : fmt::format("{0} * sum({1} * {1})", early, name);
        }
        return add(fmt::format("{} -= 0.1 grad({}, {})", name, loss, name));
      }
      case 1:
        return add(fmt::format("{0} = 0.5 {0} + 0.3 tanh({1})", name, of(state.shape, 4)));
      case 2:
        return add(fmt::format("{} = tanh({})", name, of(state.shape, 4)));
      default:
        return add(fmt::format("{} += 0.3 {}", name, of(state.shape, 3)));
    }
  }
  void read() {
    reading_ = true;
    std::vector<std::string> all = {"S q",       "S q",       "S unit(q)",
                                    "tanh(S q)", "S (q * k)", "S softmax(q) - S k"};
    if (!engines_) all.push_back("S S^T S q");
    if (has("z")) all.insert(all.end(), {"S (q * z)", "S q / (1.5 + z^T q)", "S q / max(abs(z^T q), 1)"});
    std::string text = one_of(all);
    if (chance(40)) text += one_of<std::string>({" + ", " - ", " * "}) + of(kValue, 3);
    if (chance(20)) text = fmt::format("({}) / (1.1 + abs({}))", text, of(kNumber, 2));
    steps_.push_back("read " + text);
    reading_ = false;
  }

  /// The steps on which what is read depends: a law with others is refused.
  std::string joined() {
    static const std::regex kSet("(?:state )?(\\w+).*"), kName("[A-Za-z_]\\w*");
    std::set<std::string> needed = {"read"};
    const auto is_needed = [&](const std::string& step) {
      return needed.count(std::regex_replace(step, kSet, "$1")) != 0;
    };
    for (std::size_t before = 0; before != needed.size();) {
      before = needed.size();
      for (const std::string& step : steps_)
        for (std::sregex_iterator it(step.begin(), step.end(), kName), end; it != end && is_needed(step);
             ++it)
          needed.insert(it->str());
    }
    std::string out;
    for (const std::string& step : steps_)
      if (is_needed(step)) out += (out.empty() ? "" : "; ") + step;
    return out;
  }

  std::mt19937 random_;
  std::vector<std::string> steps_;
  std::vector<Named> names_;
  bool engines_ = false, reading_ = false, saw_ = false;
  int last_ = 0;
};

}  // namespace crosstalk::rules

// SPDX-License-Identifier: Apache-2.0
#include "models/rules/recognise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <stdexcept>

namespace crosstalk::rules {
namespace {

/// Why a step is not of the form.
struct NotSuch : std::runtime_error {
  using std::runtime_error::runtime_error;
};

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Bounds bounds_of(Value node, const std::vector<Bounds>& a) {
  switch (node->kind) {
    case Kind::number:
      return {node->value, node->value};
    case Kind::ones:
      return {1, 1};
    case Kind::fill:
    case Kind::transpose:
      return a[0];
    case Kind::softmax:
      return {0, 1};
    case Kind::unit:
      return {-1, 1};
    case Kind::neg:
      return {-a[0].high, -a[0].low};
    case Kind::add:
      return {a[0].low + a[1].low, a[0].high + a[1].high};
    case Kind::sub:
      return {a[0].low - a[1].high, a[0].high - a[1].low};
    case Kind::mul: {
      if (node->args[0] == node->args[1]) return {0, kInfinity};
      Bounds out{kInfinity, -kInfinity};
      for (double x : {a[0].low, a[0].high}) {
        for (double y : {a[1].low, a[1].high}) {
          const double p = x == 0 || y == 0 ? 0 : x * y;
          out = {std::min(out.low, p), std::max(out.high, p)};
        }
      }
      return out;
    }
    case Kind::max:
      return {std::max(a[0].low, a[1].low), std::max(a[0].high, a[1].high)};
    case Kind::min:
      return {std::min(a[0].low, a[1].low), std::min(a[0].high, a[1].high)};
    case Kind::map: {
      const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
      const auto softplus = [](double x) { return x > 30 ? x : std::log1p(std::exp(x)); };
      const std::string& f = node->name;
      const auto [low, high] = a[0];
      if (f == "exp")
        return {low > -kInfinity ? std::exp(std::min(low, 80.0)) : 0, high < 80 ? std::exp(high) : kInfinity};
      if (f == "tanh") return {std::tanh(low), std::tanh(high)};
      if (f == "sigmoid") return {sigmoid(low), sigmoid(high)};
      if (f == "softplus") return {softplus(low), softplus(high)};
      if (f == "relu") return {std::max(low, 0.0), std::max(high, 0.0)};
      if (f == "log_sigmoid") return {-kInfinity, 0};
      if (f == "abs" || f == "sqrt") return {0, kInfinity};
      if (f == "positive") return {0, 1};
      if (f == "sign") return {-1, 1};
      return {-kInfinity, kInfinity};
    }
    default:
      return {-kInfinity, kInfinity};
  }
}

/// c Diag(l) S Diag(m), c (Diag(l) S x), c (Diag(l) S x) y^T, or without S: c x, c x y^T. nullptr: 1.
struct Term {
  enum class Of { state, column, rank_one, free } of = Of::free;
  Value c = nullptr, l = nullptr, m = nullptr, x = nullptr, y = nullptr;
};

struct RankOne {
  Value c, x, y;
};

class Recogniser {
 public:
  explicit Recogniser(Law& law) : law_(law), g_(law.graph) {}

  Plan plan() {
    Plan out;
    for (const LawState& one : law_.states) {
      const bool alone =
          !holds(one.step, [&](Value n) { return n->kind == Kind::state && n->name != one.name; });
      if (one.shape.columns != 1 || !alone || one.start) continue;
      try {
        const ScanPlan plan = scan(one);
        for (Value part : {plan.factor, plan.addend}) hoistable(part);
        scans_.insert(one.name);
        out.states.push_back({one.name, plan});
      } catch (const NotSuch&) {
      }
    }
    for (const LawState& one : law_.states) {
      if (scans_.count(one.name) != 0) continue;
      StatePlan plan{one.name};
      try {
        if (one.start) throw NotSuch("it starts elsewhere than at 0");
        plan.transposed = read_transposed(one);
        out.transposed = out.transposed || plan.transposed;
        S_ = g_.leaf(Kind::state, one.name, plan.transposed ? one.shape.transposed() : one.shape);
        plan.recurrence = fields(now(plan.transposed ? upright(one, g_.transpose(one.step)) : one.step));
      } catch (const NotSuch& why) {
        plan.reason = why.what();
        if (out.reason.empty()) out.reason = fmt::format("{}: {}", one.name, why.what());
      }
      out.states.push_back(plan);
    }
    try {
      reading(out);
    } catch (const NotSuch& why) {
      if (out.reason.empty()) out.reason = fmt::format("read: {}", why.what());
    }
    return out;
  }

 private:
  Value times(Value a, Value b) { return !a ? b : !b ? a : g_.mul(a, b); }
  Value negative(Value c) { return c ? g_.neg(c) : g_.number(-1); }
  bool holds_S(Value node) const {
    return holds(node, [&](Value n) { return n == S_; });
  }
  static bool one(Value c) { return !c || (c->kind == Kind::number && c->name.empty() && c->value == 1); }

  /// What the graph can do for all tokens at once: numbers and vectors.
  void hoistable(Value root) const {
    if (!root) return;
    for (Value node : order({root})) {
      const bool vector = node->shape.rows == 1 || node->shape.columns == 1;
      if (node->kind == Kind::state) throw NotSuch("it looks at the state " + node->name);
      if (!vector || node->kind == Kind::diag || node->kind == Kind::diagonal || node->kind == Kind::eye)
        throw NotSuch(fmt::format("the token makes {} that is no outer product", shape_text(node->shape)));
    }
  }

  /// The reading asks H^T: H is kept as S = H^T.
  bool read_transposed(const LawState& one) const {
    const Value H = g_.leaf(Kind::state, one.name, one.shape);
    return one.shape.rows != 1 && one.shape.columns != 1 &&
           holds(law_.read, [&](Value n) { return n->kind == Kind::transpose && n->args[0] == H; });
  }
  /// A node with S in place of H^T, where H is left nowhere.
  Value upright(const LawState& one, Value node) const {
    const Value H = g_.leaf(Kind::state, one.name, one.shape);
    const Value S = g_.leaf(Kind::state, one.name, one.shape.transposed());
    return g_.replaced(node, {{g_.transpose(H), S}, {H, g_.make(Kind::transpose, {S}, one.shape)}});
  }
  /// The node with what scans give at this token as leaves.
  Value now(Value root) {
    std::map<Value, Value> made;
    for (const LawState& one : law_.states) {
      if (scans_.count(one.name) != 0) made[one.step] = g_.leaf(Kind::input, now_name(one.name), one.shape);
    }
    return g_.replaced(root, made);
  }

  ScanPlan scan(const LawState& one) {
    S_ = g_.leaf(Kind::state, one.name, one.shape);
    ScanPlan out;
    walk_scan(one.step, nullptr, out);
    if (!out.factor) throw NotSuch("nothing of it is kept");
    if (rules::bounds_of(out.factor).low < 0) throw NotSuch("its factor may be negative");
    return out;
  }
  void walk_scan(Value node, Value c, ScanPlan& out) {
    const auto added = [&](Value to, Value x) { return to ? g_.add(to, x) : x; };
    if (node == S_) {
      out.factor = added(out.factor, c ? c : g_.number(1));
    } else if (!holds_S(node)) {
      out.addend = added(out.addend, times(c, node));
    } else if (node->kind == Kind::add || node->kind == Kind::sub) {
      walk_scan(node->args[0], c, out);
      walk_scan(node->args[1], node->kind == Kind::add ? c : negative(c), out);
    } else if (node->kind == Kind::neg) {
      walk_scan(node->args[0], negative(c), out);
    } else if (node->kind == Kind::mul || node->kind == Kind::rows) {
      const int i = holds_S(node->args[0]) ? 0 : 1;
      if (holds_S(node->args[static_cast<std::size_t>(1 - i)])) throw NotSuch("not linear in S");
      walk_scan(node->args[static_cast<std::size_t>(i)],
                times(c, node->args[static_cast<std::size_t>(1 - i)]), out);
    } else {
      throw NotSuch("not entry by entry");
    }
  }

  std::vector<Term> terms(Value node);
  std::vector<Term> terms_of_product(Value node);
  std::vector<Term> free_terms(Value node, Value c);
  std::pair<Value, Value> factor(Value vector);
  std::string key(Value x) const;
  bool same(Value a, Value b) const { return key(a) == key(b); }
  std::vector<RankOne> joined(const std::vector<RankOne>& parts);
  std::optional<std::pair<Value, Value>> without(Value e, Value x, Value decay);
  Value without_factor(Value node, Value decay);
  Value negated(Value c);
  void decays(RecurrencePlan& out, Value decay, Value rows);
  RecurrencePlan fields(Value step);
  std::string summed(Value product, Value query) const;
  std::optional<Asked> quotient(const Plan& plan, Value node) const;
  Reading asked(const Plan& plan, bool divide);
  void reading(Plan& out);

  Law& law_;
  LawGraph& g_;
  std::set<std::string> scans_;
  Value S_ = nullptr;
};

std::vector<Term> Recogniser::terms(Value node) {
  const std::string& name = S_->name;
  if (node == S_) return {{Term::Of::state}};
  if (!holds_S(node)) {
    for (Value n : order({node})) {
      if (n->kind == Kind::state) throw NotSuch(fmt::format("the state {} takes part", n->name));
    }
    return free_terms(node, nullptr);
  }
  const auto& a = node->args;
  for (Value x : a) {
    if (holds_S(x)) continue;
    for (Value n : order({x})) {
      if (n->kind == Kind::state) throw NotSuch(fmt::format("the state {} takes part", n->name));
    }
  }
  switch (node->kind) {
    case Kind::add:
    case Kind::sub: {
      if (a[0]->shape != a[1]->shape)
        throw NotSuch(fmt::format("a number that depends on {} is added to all entries", name));
      std::vector<Term> out = terms(a[0]), right = terms(a[1]);
      for (Term& t : right) {
        if (node->kind == Kind::sub) t.c = negative(t.c);
        out.push_back(t);
      }
      return out;
    }
    case Kind::neg: {
      std::vector<Term> out = terms(a[0]);
      for (Term& t : out) t.c = negative(t.c);
      return out;
    }
    case Kind::mul:
    case Kind::div:
    case Kind::matmul:
    case Kind::columns:
    case Kind::rows:
      return terms_of_product(node);
    case Kind::map:
      throw NotSuch(fmt::format("it is not linear in {}: {}() of the state", name, node->name));
    case Kind::softmax:
      throw NotSuch(fmt::format("it is not linear in {}: softmax of the state", name));
    case Kind::max:
    case Kind::min:
      throw NotSuch(fmt::format("it is not linear in {}: {} of the state", name,
                                node->kind == Kind::max ? "max" : "min"));
    case Kind::unit:
      throw NotSuch(fmt::format("it is not linear in {}: unit() of the state", name));
    case Kind::sum:
      throw NotSuch("a sum over the state's entries");
    case Kind::transpose:
      throw NotSuch(fmt::format("{} is transposed", name));
    case Kind::fill:
      throw NotSuch(fmt::format("a number that depends on {} fills a matrix", name));
    default:
      throw NotSuch(fmt::format("its entries are taken out of {}", name));
  }
}

std::vector<Term> Recogniser::terms_of_product(Value node) {
  const std::string& name = S_->name;
  const Value a = node->args[0], b = node->args[1];
  const bool in_a = holds_S(a), in_b = holds_S(b);
  const auto scaled_rows = [&](std::vector<Term> out, Value by) {
    for (Term& t : out) {
      if (t.of == Term::Of::free) {
        t.x = g_.mul(t.x, by);
      } else {
        t.l = times(t.l, by);
      }
    }
    return out;
  };
  switch (node->kind) {
    case Kind::mul:
    case Kind::div: {
      if ((in_a && in_b) || (node->kind == Kind::div && in_b))
        throw NotSuch(fmt::format("it is not linear in {0}: {0} is {1} what depends on {0}", name,
                                  node->kind == Kind::mul ? "multiplied by" : "divided by"));
      Value by = in_a ? b : a;
      if (node->kind == Kind::div) by = g_.div(g_.number(1), by);
      std::vector<Term> out = terms(in_a ? a : b);
      if (by->shape.number()) {
        for (Term& t : out) t.c = times(by, t.c);
        return out;
      }
      if (by->shape.columns == 1) return scaled_rows(out, by);
      throw NotSuch(fmt::format("every entry of {} has a factor of its own", name));
    }
    case Kind::matmul: {
      if (in_a && in_b)
        throw NotSuch(fmt::format("it is not linear in {0}: {0} meets itself in a product", name));
      if (!in_a) throw NotSuch(fmt::format("{} is multiplied from the left", name));
      std::vector<Term> out = terms(a);
      for (Term& t : out) {
        if (b->shape.columns == 1 && t.of == Term::Of::state) {
          t.of = Term::Of::column, t.x = times(t.m, b), t.m = nullptr;
        } else if (b->shape.rows == 1 && (t.of == Term::Of::column || (t.of == Term::Of::free && !t.y))) {
          if (t.of == Term::Of::column) t.of = Term::Of::rank_one;
          t.y = g_.transpose(b);
        } else if (b->shape.columns == 1 && t.y) {
          if (t.of == Term::Of::rank_one) t.of = Term::Of::column;
          t.c = times(t.c, g_.product(g_.transpose(t.y), b)), t.y = nullptr;
        } else {
          throw NotSuch(fmt::format("{} is multiplied by a full matrix", name));
        }
      }
      return out;
    }
    case Kind::columns: {
      if (in_b)
        throw NotSuch(
            fmt::format("it is not linear in {0}: columns are scaled by what depends on {0}", name));
      std::vector<Term> out = terms(a);
      for (Term& t : out) {
        if (t.of == Term::Of::state) {
          t.m = times(t.m, b);
        } else if (t.y) {
          t.y = g_.mul(t.y, b);
        } else {
          throw NotSuch("columns are scaled of what has one");
        }
      }
      return out;
    }
    default:
      if (in_b)
        throw NotSuch(fmt::format("it is not linear in {0}: rows are scaled by what depends on {0}", name));
      return scaled_rows(terms(a), b);
  }
}

/// What holds no state: a column, or a sum of outer products.
std::vector<Term> Recogniser::free_terms(Value node, Value c) {
  if (node->shape.columns == 1 && node->shape.rows != 1) return {{Term::Of::free, c, nullptr, nullptr, node}};
  const auto& a = node->args;
  const auto joined_terms = [&](std::vector<Term> left, const std::vector<Term>& right) {
    left.insert(left.end(), right.begin(), right.end());
    return left;
  };
  switch (node->kind) {
    case Kind::add:
      return joined_terms(free_terms(a[0], c), free_terms(a[1], c));
    case Kind::sub:
      return joined_terms(free_terms(a[0], c), free_terms(a[1], negative(c)));
    case Kind::neg:
      return free_terms(a[0], negative(c));
    case Kind::mul:
      if (a[0]->shape.number()) return free_terms(a[1], times(c, a[0]));
      break;
    case Kind::div:
      if (a[1]->shape.number()) return free_terms(a[0], times(c, g_.div(g_.number(1), a[1])));
      break;
    case Kind::matmul:
      if (a[1]->shape.rows == 1) return {{Term::Of::free, c, nullptr, nullptr, a[0], g_.transpose(a[1])}};
      break;
    case Kind::columns:
    case Kind::rows: {
      std::vector<Term> out = free_terms(a[0], c);
      for (Term& t : out) {
        if (node->kind == Kind::rows) {
          t.x = g_.mul(t.x, a[1]);
        } else if (t.y) {
          t.y = g_.mul(t.y, a[1]);
        } else {
          throw NotSuch("what is written is no outer product");
        }
      }
      return out;
    }
    default:
      break;
  }
  throw NotSuch("what is written is no outer product");
}

/// vector = number * rest.
std::pair<Value, Value> Recogniser::factor(Value vector) {
  Value c = nullptr;
  while (true) {
    if (vector->kind == Kind::mul && vector->args[0]->shape.number() && !vector->shape.number()) {
      c = times(c, vector->args[0]), vector = vector->args[1];
    } else if (vector->kind == Kind::neg) {
      c = negative(c), vector = vector->args[0];
    } else {
      return {c, vector};
    }
  }
}

/// Equal whatever the order of factors.
std::string Recogniser::key(Value x) const {
  if (!x) return "1";
  std::vector<int> parts;
  std::vector<Value> todo = {x};
  while (!todo.empty()) {
    const Value n = todo.back();
    todo.pop_back();
    if (n->kind == Kind::mul) {
      todo.insert(todo.end(), n->args.begin(), n->args.end());
    } else {
      parts.push_back(n->id);
    }
  }
  std::sort(parts.begin(), parts.end());
  std::string out;
  for (int id : parts) out += fmt::format("{} ", id);
  return out;
}

/// c1 x y^T + c2 x y^T = (c1 + c2) x y^T; x1 y^T + x2 y^T = (x1 + x2) y^T.
std::vector<RankOne> Recogniser::joined(const std::vector<RankOne>& parts) {
  std::vector<RankOne> out;
  const auto or_one = [&](Value c) { return c ? c : g_.number(1); };
  for (const RankOne& part : parts) {
    bool done = false;
    for (RankOne& other : out) {
      if (other.x == part.x && other.y == part.y) {
        other.c = g_.add(or_one(other.c), or_one(part.c));
        done = true;
      } else if (other.y == part.y || other.x == part.x) {
        Value& to = other.y == part.y ? other.x : other.y;
        const Value from = other.y == part.y ? part.x : part.y;
        if (same(other.c, part.c)) {
          to = g_.add(to, from);
        } else {
          to = g_.add(times(other.c, to), times(part.c, from));
          other.c = nullptr;
        }
        done = true;
      }
      if (done) break;
    }
    if (!done) out.push_back(part);
  }
  return out;
}

/// The minus comes out of any factor.
Value Recogniser::negated(Value c) {
  if (!c) return g_.number(-1);
  if (c->kind == Kind::mul) {
    for (int i : {0, 1}) {
      const Value inner = negated(c->args[static_cast<std::size_t>(i)]);
      if (inner->kind == Kind::neg || (inner->kind == Kind::number && inner->value < 0)) continue;
      return i == 0 ? g_.mul(inner, c->args[1]) : g_.mul(c->args[0], inner);
    }
  }
  return g_.neg(c);
}

Value Recogniser::without_factor(Value node, Value decay) {
  if (node == decay) return g_.number(1);
  if (node->kind != Kind::mul) return nullptr;
  for (std::size_t i : {0u, 1u}) {
    if (const Value rest = without_factor(node->args[i], decay)) return g_.mul(rest, node->args[1 - i]);
  }
  return nullptr;
}

/// e and x without the factor `decay`, or nothing.
std::optional<std::pair<Value, Value>> Recogniser::without(Value e, Value x, Value decay) {
  if (decay->shape.number()) {
    if (const Value rest = without_factor(e, decay)) return std::pair{rest, x};
  } else if (const Value rest = without_factor(x, decay)) {
    return std::pair{e, rest};
  }
  return {};
}

void Recogniser::decays(RecurrencePlan& out, Value decay, Value rows) {
  const auto logarithm = [&](Value x) {
    if (x->kind == Kind::map && x->name == "exp") return x->args[0];
    if (x->kind == Kind::map && x->name == "sigmoid") return g_.map("log_sigmoid", x->args[0]);
    return g_.map("log", x);
  };
  if (decay && !one(decay)) {
    const bool known = decay->kind == Kind::map && (decay->name == "exp" || decay->name == "sigmoid");
    const double low = rules::bounds_of(decay).low;
    if (known || (low >= 0 && !decay->shape.number())) {
      out.log_decay = logarithm(decay);
    } else if (low >= 0) {
      out.decay = decay;
    } else {
      out.log_decay = g_.map("log", g_.map("abs", decay)), out.sign = decay;
      if (!out.decayed) throw NotSuch("a decay with a sign wants erases of the decayed state");
      if (law_.before) throw NotSuch("a decay with a sign wants reads behind the step");
    }
  }
  if (rows) {
    if (rules::bounds_of(rows).low < 0)
      throw NotSuch("rows may change sign, so their decay has no logarithm");
    out.value_log_decay = logarithm(rows);
  }
}

RecurrencePlan Recogniser::fields(Value step) {
  if (S_->shape.columns == 1) throw NotSuch("it is a vector, and its step is no a * z + b entry by entry");
  Value decay = nullptr, rows = nullptr;
  int kept = 0;
  std::vector<RankOne> erases, writes;
  for (const Term& t : terms(step)) {
    if (t.of == Term::Of::state) {
      if ((t.l && kept > 0) || (rows && kept > 0)) throw NotSuch("rows fade in several ways");
      const Value d = times(t.c, t.m);
      rows = t.l;
      decay = kept == 0 ? d : g_.add(decay ? decay : g_.number(1), d ? d : g_.number(1));
      ++kept;
    } else if (t.of == Term::Of::rank_one) {
      if (t.l) throw NotSuch("rows are erased at rates of their own");
      erases.push_back({t.c, t.x, t.y});
    } else if (t.of == Term::Of::free && t.y) {
      const auto [cx, x] = factor(t.x);
      const auto [cy, y] = factor(t.y);
      writes.push_back({times(times(t.c, cx), cy), x, y});
    } else {
      throw NotSuch("a vector is added to the state");
    }
  }
  if (kept == 0) throw NotSuch(fmt::format("nothing of {} is kept", S_->name));
  erases = joined(erases), writes = joined(writes);
  if (erases.size() > 1 || writes.size() > 1)
    throw NotSuch(fmt::format("it has {} erases and {} writes along different directions", erases.size(),
                              writes.size()));
  if (rows && !erases.empty()) throw NotSuch("rows fade and something is erased");
  if (erases.empty() && writes.empty()) throw NotSuch("nothing is written");
  RecurrencePlan out;
  if (!writes.empty()) out.gain = writes[0].c, out.value = writes[0].x, out.key = writes[0].y;
  if (!erases.empty()) {
    auto [c, x, y] = erases[0];
    Value e = negated(c);
    if (decay && !one(decay)) {
      if (const auto stripped = without(e, x, decay)) {
        e = stripped->first, x = stripped->second;
      } else {
        out.decayed = false;
      }
    }
    const auto [cx, bare_x] = factor(x);
    const auto [cy, bare_y] = factor(y);
    if (writes.empty()) out.key = bare_y, out.value = g_.fill(g_.number(0), {S_->shape.rows, 1});
    const Value all = times(times(e, cx), cy);
    const auto plain = [&](Value v) { return one(v) ? nullptr : v; };
    if (bare_x == out.key && bare_y == out.key && same(plain(all), plain(out.gain)) && !writes.empty()) {
      out.erase = RecurrencePlan::Erase::delta;
    } else if (bare_y == out.key) {
      out.erase = RecurrencePlan::Erase::tied;
      out.erase_read = x, out.erase_gain = plain(times(e, cy));
    } else {
      out.erase = RecurrencePlan::Erase::free;
      out.erase_read = x, out.erase_write = y, out.erase_gain = plain(e);
    }
  }
  if (one(out.gain)) out.gain = nullptr;
  if (decay && !one(decay)) out.kept = decay;
  const Bounds gain = out.gain ? rules::bounds_of(out.gain) : Bounds{1, 1};
  out.contracting = out.erase == RecurrencePlan::Erase::delta && gain.low >= 0 && gain.high <= 2 &&
                    out.key == g_.leaf(Kind::given, "k", {kK, 1});
  decays(out, decay, rows);
  for (Value part : {out.key, out.value, out.gain, out.log_decay, out.decay, out.value_log_decay, out.sign,
                     out.erase_read, out.erase_write, out.erase_gain})
    hoistable(part);
  return out;
}

/// z of a vector's product z^T q with this q, or "".
std::string Recogniser::summed(Value product, Value query) const {
  if (product->kind != Kind::matmul) return "";
  for (const std::size_t i : {0u, 1u}) {
    const Value row = product->args[0], column = product->args[1];
    if (row->kind != Kind::transpose) return "";
    const Value state = i == 0 ? row->args[0] : column, other = i == 0 ? column : row->args[0];
    if (state->kind == Kind::state && scans_.count(state->name) != 0 && other == query) return state->name;
  }
  return "";
}

/// S q / (z^T q + eps) and S q / max(|z^T q|, 1), where z is what S is with values of 1.
std::optional<Asked> Recogniser::quotient(const Plan& plan, Value node) const {
  if (node->kind != Kind::div || law_.before) return {};
  const Value above = node->args[0], below = node->args[1];
  if (above->kind != Kind::matmul || above->args[0]->kind != Kind::state || has_state(above->args[1]))
    return {};
  Asked out{"", above->args[0]->name, above->args[1]};
  const auto number = [](Value x) { return x->kind == Kind::number; };
  if (below->kind == Kind::max) {
    const bool first = number(below->args[0]);
    const Value least = below->args[first ? 0 : 1], size = below->args[first ? 1 : 0];
    if (!one(least) || size->kind != Kind::map || size->name != "abs") return {};
    out.sum = summed(size->args[0], out.query);
  } else if (below->kind == Kind::add && (number(below->args[0]) || number(below->args[1]))) {
    const bool first = number(below->args[0]);
    out.sum = summed(below->args[first ? 1 : 0], out.query);
    out.eps = below->args[first ? 0 : 1]->value;
  } else {
    out.sum = summed(below, out.query), out.eps = 0;
  }
  const StatePlan *S = nullptr, *z = nullptr;
  for (const StatePlan& one : plan.states) {
    if (one.name == out.state) S = &one;
    if (one.name == out.sum) z = &one;
  }
  if (!S || !z || !S->recurrence) return {};
  const RecurrencePlan& r = *S->recurrence;
  if (r.erase != RecurrencePlan::Erase::none || r.value_log_decay || r.sign || !r.key || !z->scan->addend)
    return {};
  const Value written = r.gain ? g_.mul(r.gain, r.key) : r.key;
  const Value kept = r.kept ? r.kept : g_.number(1);
  if (!same(z->scan->addend, written) || !same(z->scan->factor, kept)) return {};
  if (out.eps) return out;
  // i = e^x, or a number times that.
  if (!r.gain || !r.log_decay || !r.log_decay->shape.number()) return {};
  double scale = 1;
  Value gate = r.gain;
  while (gate->kind == Kind::mul && gate->args[0]->kind == Kind::number)
    scale *= gate->args[0]->value, gate = gate->args[1];
  if (gate->kind != Kind::map || gate->name != "exp" || !(scale > 0)) return {};
  out.log_gain = scale == 1 ? gate->args[0] : g_.add(g_.number(std::log(scale)), gate->args[0]);
  return out;
}

/// Products of states with what holds none, or with what an earlier such product gave.
Reading Recogniser::asked(const Plan& plan, bool divide) {
  Reading out;
  Value root = now(law_.read);
  for (const StatePlan& one : plan.states) {
    if (one.transposed) root = upright(law_.state(one.name), root);
  }
  std::map<Value, Value> made;
  const auto leaf = [&](Asked asked, Shape shape) {
    asked.name = fmt::format("read.{}", out.asked.size());
    out.asked.push_back(asked);
    return g_.leaf(Kind::input, asked.name, shape);
  };
  for (Value node : order({root})) {
    std::vector<Value> args;
    for (Value a : node->args) args.push_back(made.at(a));
    made[node] = g_.with(node, args);
    if (node->kind == Kind::state && scans_.count(node->name) != 0) {
      if (law_.before) throw NotSuch(fmt::format("{} is read before its step", node->name));
      made[node] = g_.leaf(Kind::input, now_name(node->name), node->shape);
    } else if (const auto one = divide ? quotient(plan, node) : std::nullopt) {
      made[node] = leaf(*one, node->shape);
    } else if (node->kind == Kind::matmul && node->args[0]->kind == Kind::state &&
               node->args[0]->shape.columns != 1 && !has_state(args[1]) && args[1]->shape.columns == 1) {
      made[node] = leaf({"", node->args[0]->name, args[1]}, node->shape);
    }
  }
  out.after = made.at(root);
  if (has_state(out.after)) throw NotSuch("the reading looks at the state otherwise than by S x");
  // What only stands in a quotient that is one read is not asked for.
  std::vector<Asked> needed;
  for (auto one = out.asked.rbegin(); one != out.asked.rend(); ++one) {
    std::vector<Value> roots = {out.after};
    for (const Asked& other : needed) roots.push_back(other.query);
    const bool there = std::any_of(roots.begin(), roots.end(), [&](Value needs) {
      return holds(needs, [&](Value n) { return n->kind == Kind::input && n->name == one->name; });
    });
    if (there) needed.insert(needed.begin(), *one);
  }
  out.asked = needed;
  for (const Asked& one : out.asked) hoistable(one.query);
  hoistable(out.after);
  return out;
}

void Recogniser::reading(Plan& out) {
  const Reading plain = asked(out, false);
  out.asked = plain.asked, out.after = plain.after;
  Reading divided = asked(out, true);
  if (std::any_of(divided.asked.begin(), divided.asked.end(),
                  [](const Asked& one) { return !one.sum.empty(); }))
    out.divided = divided;
  if (!law_.before) return;
  std::vector<Value> all = {out.after};
  for (const Asked& one : out.asked) all.push_back(one.query);
  std::map<Value, Value> zeros;
  for (Value node : order(all)) {
    if (node->kind == Kind::token || (node->kind == Kind::given && node->name != "q"))
      zeros[node] = g_.fill(g_.number(0), node->shape);
  }
  out.after_beside = g_.replaced(out.after, zeros);
  for (Asked& one : out.asked) one.query_beside = g_.replaced(one.query, zeros);
}

}  // namespace

Bounds bounds_of(Value root) {
  std::map<Value, Bounds> known;
  for (Value node : order({root})) {
    std::vector<Bounds> args;
    for (Value a : node->args) args.push_back(known.at(a));
    Bounds b = bounds_of(node, args);
    if (!(b.low <= b.high)) b = {-kInfinity, kInfinity};  // inf - inf
    known[node] = b;
  }
  return known.at(root);
}

std::string now_name(const std::string& state) { return state + ".now"; }

Plan recognise(Law& law) { return Recogniser(law).plan(); }

}  // namespace crosstalk::rules

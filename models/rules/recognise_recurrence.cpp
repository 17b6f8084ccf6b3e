// Steps as fields of a Recurrence: sums of terms in the state, joined to one erase and one write.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>

#include "models/rules/recogniser.h"

namespace crosstalk::rules {
namespace {

std::vector<Value> factors_of(Value node) {
  return node->kind == Kind::mul ? node->args : std::vector<Value>{};
}

}  // namespace

std::vector<Term> Recogniser::terms(Value node) {
  const std::string& name = S_->name;
  if (node == S_) return {{Term::Of::state}};
  if (!holds_S(node)) {
    for (Value n : order({node}))
      if (n->kind == Kind::state) throw NotSuch(fmt::format("the state {} takes part", n->name));
    return free_terms(node, nullptr);
  }
  const auto& a = node->args;
  for (Value x : a) {
    if (holds_S(x)) continue;
    for (Value n : order({x}))
      if (n->kind == Kind::state) throw NotSuch(fmt::format("the state {} takes part", n->name));
  }
  switch (node->kind) {
    case Kind::add:
    case Kind::sub: {
      if (a[0]->shape != a[1]->shape)
        throw NotSuch(fmt::format("a number that depends on {} is added to all entries", name));
      std::vector<Term> left = terms(a[0]), right = terms(a[1]);
      for (Term& t : right)
        if (node->kind == Kind::sub) t.c = negative(t.c);
      return together(std::move(left), right);
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
    for (Term& t : out)
      if (t.of == Term::Of::free) {
        t.x = g_.mul(t.x, by);
      } else {
        t.l = times(t.l, by);
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
      for (Term& t : out)
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
      return out;
    }
    case Kind::columns: {
      if (in_b)
        throw NotSuch(
            fmt::format("it is not linear in {0}: columns are scaled by what depends on {0}", name));
      std::vector<Term> out = terms(a);
      for (Term& t : out)
        if (t.of == Term::Of::state) {
          t.m = times(t.m, b);
        } else if (t.y) {
          t.y = g_.mul(t.y, b);
        } else {
          throw NotSuch("columns are scaled of what has one");
        }
      return out;
    }
    default:
      if (in_b)
        throw NotSuch(fmt::format("it is not linear in {0}: rows are scaled by what depends on {0}", name));
      return scaled_rows(terms(a), b);
  }
}

std::vector<Term> Recogniser::together(std::vector<Term> left, const std::vector<Term>& right) {
  left.insert(left.end(), right.begin(), right.end());
  if (left.size() > kMostTerms) throw NotSuch(fmt::format("it is a sum of more than {} terms", kMostTerms));
  return left;
}

/// Terms that hold no state: a column, or a sum of outer products.
std::vector<Term> Recogniser::free_terms(Value node, Value c) {
  if (node->shape.columns == 1 && node->shape.rows != 1) return {{Term::Of::free, c, nullptr, nullptr, node}};
  const auto& a = node->args;
  switch (node->kind) {
    case Kind::add:
      return together(free_terms(a[0], c), free_terms(a[1], c));
    case Kind::sub:
      return together(free_terms(a[0], c), free_terms(a[1], negative(c)));
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
      for (Term& t : out)
        if (node->kind == Kind::rows) {
          t.x = g_.mul(t.x, a[1]);
        } else if (t.y) {
          t.y = g_.mul(t.y, a[1]);
        } else {
          throw NotSuch("what is written is no outer product");
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
  while (true)
    if (vector->kind == Kind::mul && vector->args[0]->shape.number() && !vector->shape.number()) {
      c = times(c, vector->args[0]), vector = vector->args[1];
    } else if (vector->kind == Kind::neg) {
      c = negative(c), vector = vector->args[0];
    } else {
      return {c, vector};
    }
}

/// Equal whatever the order of factors.
std::string Recogniser::key(Value x) const {
  if (!x) return "1";
  std::map<Value, std::uint64_t> times = {{x, 1}};  // how often it is a factor
  const std::vector<Value> nodes = order({x}, factors_of);
  std::map<int, std::uint64_t> parts;
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node)
    if ((*node)->kind == Kind::mul) {
      for (Value a : (*node)->args) times[a] += times.at(*node);
    } else {
      parts[(*node)->id] = times.at(*node);
    }
  std::string out;
  for (const auto& [id, often] : parts) out += fmt::format("{}^{} ", id, often);
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
  std::map<Value, Value> made;
  for (Value node : order({c}, factors_of)) {
    made[node] = g_.neg(node);
    for (const std::size_t i : {1u, 0u}) {  // the first that takes it
      if (node->kind != Kind::mul) continue;
      const Value inner = made.at(node->args[i]);
      if (inner->kind == Kind::neg || (inner->kind == Kind::number && inner->value < 0)) continue;
      made[node] = i == 0 ? g_.mul(inner, node->args[1]) : g_.mul(node->args[0], inner);
    }
  }
  return made.at(c);
}

/// The product without one factor `decay`; nullptr where it has none.
Value Recogniser::without_factor(Value product, Value decay) {
  std::map<Value, Value> made;
  for (Value node : order({product}, factors_of)) {
    made[node] = node == decay ? g_.number(1) : nullptr;
    for (const std::size_t i : {0u, 1u}) {
      if (made[node] || node->kind != Kind::mul || !made.at(node->args[i])) continue;
      made[node] = g_.mul(made.at(node->args[i]), node->args[1 - i]);
    }
  }
  return made.at(product);
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
  const bool absent = decay && decay->kind == Kind::map && decay->name == "exp" &&
                      decay->args[0]->kind == Kind::number && decay->args[0]->value == 0;
  if (decay && !one(decay) && !absent) {
    const bool known = decay->kind == Kind::map && (decay->name == "exp" || decay->name == "sigmoid");
    const double low = bounds_of(decay).low;
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
    if (bounds_of(rows).low < 0) throw NotSuch("rows may change sign, so their decay has no logarithm");
    if (out.sign) throw NotSuch("a decay with a sign wants rows that do not decay");
    out.value_log_decay = logarithm(rows);
  }
}

RecurrencePlan Recogniser::fields(Value step) {
  if (S_->shape.columns == 1) throw NotSuch("it is a vector, and its step is no a * z + b entry by entry");
  Value decay = nullptr, rows = nullptr;
  int kept = 0;
  std::vector<RankOne> erases, writes;
  for (const Term& t : terms(step))
    if (t.of == Term::Of::state) {
      if ((t.l && kept > 0) || (rows && kept > 0)) throw NotSuch("rows decay in several ways");
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
  if (kept == 0) throw NotSuch(fmt::format("nothing of {} is kept", S_->name));
  erases = joined(erases), writes = joined(writes);
  if (erases.size() > 1 || writes.size() > 1)
    throw NotSuch(fmt::format("it has {} erases and {} writes along different directions", erases.size(),
                              writes.size()));
  if (rows && !erases.empty()) throw NotSuch("rows decay and something is erased");
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
      const bool added = e->kind == Kind::number && e->name.empty() && e->value == -1;  // S + (S a) b^T
      out.erase = RecurrencePlan::Erase::free;
      out.erase_read = added ? g_.neg(x) : x, out.erase_write = y,
      out.erase_gain = added ? nullptr : plain(e);
    }
  }
  if (one(out.gain)) out.gain = nullptr;
  if (decay && !one(decay)) out.kept = decay;
  const Bounds gain = out.gain ? bounds_of(out.gain) : Bounds{1, 1};
  out.contracting = out.erase == RecurrencePlan::Erase::delta && gain.low >= 0 && gain.high <= 2 &&
                    out.key == g_.leaf(Kind::given, "k", {kK, 1});
  if (out.erase == RecurrencePlan::Erase::delta && out.gain && out.gain->kind == Kind::div) {
    const Value x = out.gain->args[0], square = g_.product(g_.transpose(out.key), out.key);
    out.shrinks = bounds_of(x).low >= 0 && out.gain->args[1] == g_.add(g_.number(1), g_.mul(x, square));
  }
  decays(out, decay, rows);
  for (Value part : {out.key, out.value, out.gain, out.log_decay, out.decay, out.value_log_decay, out.sign,
                     out.erase_read, out.erase_write, out.erase_gain})
    hoistable(part);
  return out;
}

/// Delta rules one after the other: the step of P is one without a decay, and P is a step of S.
RecurrencePlan Recogniser::several(Value step, int writes) {
  try {
    return fields(step);
  } catch (const NotSuch&) {
    if (writes >= kMostWrites) throw;
    using Erases = RecurrencePlan::Erase;
    const Value S = S_, P = g_.leaf(Kind::state, S->name + "'", S->shape);
    const std::vector<Value> nodes = order({step});
    Value first = nullptr;
    RecurrencePlan write;
    int tried = 0;
    for (auto node = nodes.rbegin(); node != nodes.rend() && !first && tried < kMostWrites; ++node) {
      const bool sum = (*node)->kind == Kind::add || (*node)->kind == Kind::sub ||
                       (*node)->kind == Kind::columns || (*node)->kind == Kind::mul;
      if ((*node)->shape != S->shape || !sum || *node == step || !holds_S(*node)) continue;
      ++tried;
      const Value last = g_.replaced(step, {{*node, P}});
      if (holds_S(last)) continue;
      S_ = P;
      try {
        write = fields(last);
        if (write.erase == Erases::delta && !write.kept && !write.value_log_decay) first = *node;
      } catch (const NotSuch&) {
      }
      S_ = S;
    }
    if (!first) throw;
    RecurrencePlan out = several(first, writes + 1);
    if (out.erase != Erases::delta || out.value_log_decay || out.sign || !out.decayed) throw;
    out.more.push_back({write.key, write.value, write.gain});
    out.contracting = out.contracting && write.contracting;
    return out;
  }
}

}  // namespace crosstalk::rules

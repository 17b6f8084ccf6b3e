// SPDX-License-Identifier: Apache-2.0
#include "models/rules/recognise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/rules/program.h"
#include "models/rules/recogniser.h"

namespace crosstalk::rules {

Plan Recogniser::plan() {
  Plan out;
  const bool matrices = std::any_of(law_.states.begin(), law_.states.end(), [](const LawState& one) {
    return one.shape.rows != 1 && one.shape.columns != 1;
  });
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
      if (!matrices || law_.before) continue;
      if (LawAlone itself = law_alone(one); !refused_by_program(itself.law).empty()) continue;
      walks_.insert(one.name);
      out.states.push_back({.name = one.name, .walked = true});
    } catch (const ShapeRefused&) {  // too large
    }
  }
  for (const LawState& one : law_.states) {
    if (scans_.count(one.name) != 0 || walks_.count(one.name) != 0) continue;
    StatePlan plan{one.name};
    try {
      if (one.start) throw NotSuch("it starts elsewhere than at 0");
      plan.transposed = read_transposed(one);
      out.transposed = out.transposed || plan.transposed;
      S_ = g_.leaf(Kind::state, one.name, plan.transposed ? one.shape.transposed() : one.shape);
      plan.recurrence = several(now(plan.transposed ? upright(one, g_.transpose(one.step)) : one.step, true));
    } catch (const NotSuch& why) {
      plan.reason = why.what();
      if (out.reason.empty()) out.reason = fmt::format("{}: {}", one.name, why.what());
    } catch (const ShapeRefused& why) {
      plan.reason = why.what();
      if (out.reason.empty()) out.reason = fmt::format("{}: {}", one.name, why.what());
    }
    out.states.push_back(plan);
  }
  try {
    reading(out);
  } catch (const NotSuch& why) {
    if (out.reason.empty()) out.reason = fmt::format("read: {}", why.what());
  } catch (const ShapeRefused& why) {
    if (out.reason.empty()) out.reason = fmt::format("read: {}", why.what());
  }
  return out;
}

void Recogniser::hoistable(Value root) const {
  if (!root) return;
  for (Value node : order({root})) {
    const bool vector = node->shape.rows == 1 || node->shape.columns == 1;
    if (node->kind == Kind::state) throw NotSuch("it looks at the state " + node->name);
    if (!vector || node->kind == Kind::diag || node->kind == Kind::diagonal || node->kind == Kind::eye)
      throw NotSuch(fmt::format("the token makes {} that is no outer product", shape_text(node->shape)));
  }
}

bool Recogniser::read_transposed(const LawState& one) const {
  const Value H = g_.leaf(Kind::state, one.name, one.shape);
  return one.shape.rows != 1 && one.shape.columns != 1 &&
         holds(law_.read, [&](Value n) { return n->kind == Kind::transpose && n->args[0] == H; });
}

Value Recogniser::upright(const LawState& one, Value node) const {
  const Value H = g_.leaf(Kind::state, one.name, one.shape);
  const Value S = g_.leaf(Kind::state, one.name, one.shape.transposed());
  return g_.replaced(node, {{g_.transpose(H), S}, {H, g_.make(Kind::transpose, {S}, one.shape)}});
}

Value Recogniser::now(Value root, bool in_step) {
  std::map<Value, Value> made;
  for (const LawState& one : law_.states) {
    if (scans_.count(one.name) == 0 && walks_.count(one.name) == 0) continue;
    made[one.step] = g_.leaf(Kind::input, now_name(one.name), one.shape);
    if (in_step && walks_.count(one.name) != 0)
      made[g_.leaf(Kind::state, one.name, one.shape)] =
          g_.leaf(Kind::input, before_name(one.name), one.shape);
  }
  return g_.replaced(root, made);
}

ScanPlan Recogniser::scan(const LawState& one) {
  S_ = g_.leaf(Kind::state, one.name, one.shape);
  ScanPlan out;
  walk_scan(one.step, nullptr, out);
  if (!out.factor) throw NotSuch("nothing of it is kept");
  if (bounds_of(out.factor).low < 0) throw NotSuch("its factor may be negative");
  return out;
}

void Recogniser::walk_scan(Value node, Value c, ScanPlan& out) {
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
    walk_scan(node->args[static_cast<std::size_t>(i)], times(c, node->args[static_cast<std::size_t>(1 - i)]),
              out);
  } else {
    throw NotSuch("not entry by entry");
  }
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
  Value root = now(law_.weights.empty() ? law_.read : without_zeros(law_.read), false);
  for (const StatePlan& one : plan.states)
    if (one.transposed) root = upright(law_.state(one.name), root);
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
    if (node->kind == Kind::state && scans_.count(node->name) + walks_.count(node->name) != 0) {
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
  // A value that only stands in a quotient that is one read is not asked for.
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

/// The same without products with 0 and sums of 0: what a token has of its own is no part of a reading beside the sequence.
Value Recogniser::without_zeros(Value root) {
  std::map<Value, Value> made;
  const auto zero = [](Value x) {
    while (x->kind == Kind::fill || x->kind == Kind::transpose) x = x->args[0];
    return x->kind == Kind::number && x->name.empty() && x->value == 0;
  };
  for (Value node : order({root})) {
    std::vector<Value> args;
    for (Value a : node->args) args.push_back(made.at(a));
    const bool sum = node->kind == Kind::add || node->kind == Kind::sub;
    const bool product = node->kind == Kind::mul || node->kind == Kind::matmul ||
                         node->kind == Kind::columns || node->kind == Kind::rows;
    Value& now = made[node] = g_.with(node, args);
    if (product && (zero(args[0]) || zero(args[1]))) now = g_.fill(g_.number(0), node->shape);
    if (sum && zero(args[1]) && args[0]->shape == node->shape) now = args[0];
    if (node->kind == Kind::add && zero(args[0]) && args[1]->shape == node->shape) now = args[1];
  }
  return made.at(root);
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
  for (Value node : order(all))
    if (node->kind == Kind::token || (node->kind == Kind::given && node->name != "q" && node->name != "head"))
      zeros[node] = g_.fill(g_.number(0), node->shape);
  out.after_beside = without_zeros(g_.replaced(out.after, zeros));
  for (Asked& one : out.asked) one.query_beside = g_.replaced(one.query, zeros);
}

std::string now_name(const std::string& state) { return state + ".now"; }
std::string before_name(const std::string& state) { return state + ".before"; }

Plan recognise(Law& law) { return Recogniser(law).plan(); }

}  // namespace crosstalk::rules

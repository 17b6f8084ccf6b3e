// Reverse mode from nodes to nodes: the adjoint of a law is made of the same operations.
// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>

#include "models/rules/graph.h"
#include "models/rules/text.h"

namespace crosstalk::rules {
namespace {

/// f'(x), with y = f(x); nullptr where it is 0 everywhere.
Value slope(LawGraph& g, const std::string& f, Value x, Value y) {
  const Value one = g.number(1);
  if (f == "exp") return y;
  if (f == "log") return g.map("inverse", x);
  if (f == "sigmoid") return g.mul(y, g.sub(one, y));
  if (f == "softplus") return g.map("sigmoid", x);
  if (f == "log_sigmoid") return g.map("sigmoid", g.neg(x));
  if (f == "tanh") return g.sub(one, g.mul(y, y));
  if (f == "relu") return g.map("positive", x);
  if (f == "silu") {
    const Value s = g.map("sigmoid", x);
    return g.add(s, g.mul(y, g.sub(one, s)));
  }
  if (f == "sqrt") return g.mul(g.number(0.5), g.map("inverse", y));
  if (f == "abs") return g.map("sign", x);
  if (f == "inverse") return g.neg(g.mul(y, y));
  if (f == "sin") return g.map("sin", g.add(x, g.number(kQuarterTurn)));
  return nullptr;  // sign, positive
}

}  // namespace

std::vector<Value> gradients(LawGraph& g, const std::vector<std::pair<Value, Value>>& outputs,
                             const std::vector<Value>& wanted) {
  const std::set<Value> stop(wanted.begin(), wanted.end());
  std::vector<Value> roots;
  for (const auto& [node, gradient] : outputs) roots.push_back(node);
  const std::set<Value> active = reaching(roots, [&](Value n) { return stop.count(n) != 0; });
  std::map<Value, Value> found;
  const auto give = [&](Value to, Value x) {
    if (active.count(to) == 0) return;
    if (x->shape.number()) x = g.fill(x, to->shape);
    const auto [it, added] = found.try_emplace(to, x);
    if (!added) it->second = g.add(it->second, x);
  };
  // Sums what was repeated to a larger shape.
  const auto as = [&](Value x, Value like) {
    return like->shape.number() && !x->shape.number() ? g.sum(x) : x;
  };
  const auto times = [&](Value x, Value b) {
    return g.adjoint() && x->kind == Kind::fill && !b->shape.number() ? g.mul(x->args[0], b) : g.mul(x, b);
  };
  for (const auto& [node, gradient] : outputs) give(node, gradient);
  const std::vector<Value> nodes = order(roots);
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
    const Value node = *it;
    if (found.count(node) == 0 || stop.count(node) != 0 || node->is_leaf()) continue;
    const Value x = found.at(node), a = node->args[0], b = node->args.size() > 1 ? node->args[1] : nullptr;
    const bool of_b = b && active.count(b) != 0;
    switch (node->kind) {
      case Kind::add:
      case Kind::sub:
        give(a, as(x, a));
        give(b, as(node->kind == Kind::add ? x : g.neg(x), b));
        break;
      case Kind::neg:
        give(a, g.neg(x));
        break;
      case Kind::mul:
        if (g.adjoint() && a == b) {
          const bool filled = x->kind == Kind::fill && !a->shape.number();
          give(a,
               times(filled ? g.fill(g.mul(g.number(2), x->args[0]), x->shape) : g.mul(g.number(2), x), a));
          break;
        }
        if (active.count(a) != 0) give(a, as(times(x, b), a));
        if (of_b) give(b, as(times(x, a), b));
        break;
      case Kind::div:
        give(a, as(g.div(x, b), a));
        if (!of_b) break;
        if (g.adjoint() && b->shape.number()) {
          // Not with the quotient, which nobody else may want.
          give(b, g.neg(g.div(g.div(g.sum(g.mul(x, a)), b), b)));
          break;
        }
        give(b, as(g.neg(g.div(g.mul(x, node), b)), b));
        break;
      case Kind::max:
      case Kind::min: {  // of equal ones the first, and a number that is written out behind what is none
        const bool swapped = a->kind == Kind::number && b->kind != Kind::number;
        const Value first = swapped ? b : a, second = swapped ? a : b;
        const Value later =
            g.map("positive", node->kind == Kind::max ? g.sub(second, first) : g.sub(first, second));
        give(first, as(g.mul(x, g.sub(g.number(1), later)), first));
        give(second, as(g.mul(x, later), second));
        break;
      }
      case Kind::map:
        if (const Value s = slope(g, node->name, a, node)) give(a, g.mul(x, s));
        break;
      case Kind::matmul:
        if (active.count(a) != 0) give(a, g.product(x, g.transpose(b)));
        if (of_b) give(b, g.product(g.transpose(a), x));
        break;
      case Kind::transpose:
        give(a, g.transpose(x));
        break;
      case Kind::columns:
        give(a, g.columns(x, b));
        if (of_b) give(b, g.row_sums(g.transpose(g.mul(x, a))));
        break;
      case Kind::rows:
        give(a, g.rows(x, b));
        if (of_b) give(b, g.row_sums(g.mul(x, a)));
        break;
      case Kind::diag:
        give(a, g.diagonal(x));
        break;
      case Kind::diagonal:
        give(a, g.diag(x));
        break;
      case Kind::sum:
        give(a, g.fill(x, a->shape));
        break;
      case Kind::fill:
        give(a, g.sum(x));
        break;
      case Kind::row_sums:
        give(a, g.product(x, g.ones({1, a->shape.columns})));
        break;
      case Kind::fit:
        give(a, g.fit(x, a->shape.rows));
        break;
      case Kind::unit:  // (g - y (y.g)) / |x|
        give(a, g.div(g.sub(x, g.mul(g.sum(g.mul(node, x)), node)), g.length(a)));
        break;
      case Kind::solve: {
        const Value y = g.solve(g.transpose(a), x);
        if (active.count(a) != 0) give(a, g.neg(g.product(y, g.transpose(node))));
        if (of_b) give(b, y);
        break;
      }
      case Kind::softmax: {
        const Value along = g.mul(x, node);
        give(a, g.sub(along, g.mul(g.sum(along), node)));
        break;
      }
      default:
        throw std::logic_error("[rules] an operation without a gradient");
    }
  }
  std::vector<Value> out;
  for (Value w : wanted) {
    const auto it = found.find(w);
    out.push_back(it == found.end() ? nullptr : it->second);
  }
  return out;
}

}  // namespace crosstalk::rules

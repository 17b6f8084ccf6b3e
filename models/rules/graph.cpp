// SPDX-License-Identifier: Apache-2.0
#include "models/rules/graph.h"

#include <fmt/format.h>

#include <algorithm>

namespace crosstalk::rules {
namespace {

bool is_number(Value a) { return a->shape.number(); }
bool scaled(Value a) { return a->kind == Kind::mul && is_number(a->args[0]) && !is_number(a); }
bool one(Value a) { return a->kind == Kind::number && a->name.empty() && a->value == 1; }

bool thin(Kind kind, const std::vector<Value>& args) {
  switch (kind) {
    case Kind::eye:
    case Kind::diag:
      return true;
    case Kind::matmul:
      return args[1]->shape.rows == 1;
    case Kind::neg:
    case Kind::columns:
    case Kind::rows:
      return args[0]->thin;
    case Kind::mul:
      return is_number(args[0]) && args[1]->thin;
    case Kind::add:
    case Kind::sub:
      return !is_number(args[0]) && !is_number(args[1]) && args[0]->thin && args[1]->thin;
    default:
      return false;
  }
}

}  // namespace

std::string size_text(int size) {
  return size == kK ? "K" : size == kV ? "V" : size == kM ? "M" : fmt::format("{}", size);
}
std::string shape_text(Shape s) {
  if (s.number()) return "a number";
  if (s.columns == 1) return "a vector over " + size_text(s.rows);
  if (s.rows == 1) return "a row over " + size_text(s.columns);
  return fmt::format("a {} x {} matrix", size_text(s.rows), size_text(s.columns));
}
std::string sizes_text(Shape s) {
  return s.columns == 1 ? size_text(s.rows) : fmt::format("{}, {}", size_text(s.rows), size_text(s.columns));
}

Value LawGraph::make(Kind kind, std::vector<Value> args, Shape shape, const std::string& name, double value) {
  std::vector<int> ids;
  int depth = 1;
  for (Value a : args) ids.push_back(a->id), depth = std::max(depth, a->depth + 1);
  const auto [it, added] = known_.try_emplace(Key{kind, ids, value, name, shape}, nullptr);
  if (added) {
    if (nodes_.size() >= 40 * kMostOperations && !adjoint()) {
      known_.erase(it);
      throw ShapeRefused("the law is too large");
    }
    if (depth > deepest_) {
      known_.erase(it);
      throw ShapeRefused(
          fmt::format("the law has more than {} operations that wait for each other", deepest_));
    }
    const bool is_thin = thin(kind, args);
    nodes_.push_back(
        {kind, std::move(args), value, name, shape, static_cast<int>(nodes_.size()), depth, is_thin});
    it->second = &nodes_.back();
  }
  return it->second;
}

Value LawGraph::both(Kind kind, Value a, Value b, const char* sign) {
  if (a->shape != b->shape && !is_number(a) && !is_number(b)) {
    const Shape x = a->shape, y = b->shape;
    const std::string s = sign;
    const char* hint = "";
    if (s == "+" || s == "-") {
      hint = "; both sides of a sum have one shape";
    } else if (s == "*" && y.columns == 1 && x.columns == y.rows && x.rows != 1) {
      hint = "; A x without * is the product, and A diag(x) scales the columns of A";
    } else if (s == "*" && x.columns == 1 && x.rows == y.rows) {
      hint = "; diag(x) A scales the rows of A";
    } else if (s == "*" && x.columns == y.rows) {
      hint = "; without * it is their product";
    }
    throw ShapeRefused(fmt::format("{} of {} and {}{}", s, shape_text(x), shape_text(y), hint));
  }
  return make(kind, {a, b}, is_number(a) ? b->shape : a->shape);
}

Value LawGraph::neg(Value a) {
  if (a->kind == Kind::neg) return a->args[0];
  if (a->kind == Kind::number && a->name.empty()) return number(-a->value);
  return make(Kind::neg, {a}, a->shape);
}

Value LawGraph::mul(Value a, Value b) {
  if (one(a)) return b;
  if (one(b)) return a;
  if (is_number(b) && !is_number(a)) std::swap(a, b);
  if (is_number(a) && !is_number(b)) {
    if (scaled(b)) return mul(mul(a, b->args[0]), b->args[1]);
    if (b->kind == Kind::matmul && b->args[1]->shape.rows == 1)
      return make(Kind::matmul, {mul(a, b->args[0]), b->args[1]}, b->shape);
  }
  return both(Kind::mul, a, b, "*");
}

Value LawGraph::div(Value a, Value b) { return one(b) ? a : both(Kind::div, a, b, "/"); }

Value LawGraph::transpose(Value a) {
  if (const auto it = transposed_.find(a); it != transposed_.end()) return it->second;
  const Value made = made_transpose(a);
  return transposed_[a] = made;
}

Value LawGraph::made_transpose(Value a) {
  if (a->shape.number() || a->kind == Kind::eye || a->kind == Kind::diag) return a;
  if (a->kind == Kind::transpose) return a->args[0];
  if (a->shape.columns == 1) return make(Kind::transpose, {a}, a->shape.transposed());
  if (adjoint() && a->shape.rows != 1 && !a->thin && a->kind != Kind::ones && a->kind != Kind::fill)
    return make(Kind::transpose, {a}, a->shape.transposed());
  switch (a->kind) {
    case Kind::add:
    case Kind::sub:
    case Kind::mul:
    case Kind::div:
    case Kind::max:
    case Kind::min:
    case Kind::neg:
    case Kind::map: {
      std::vector<Value> args;
      for (Value x : a->args) args.push_back(transpose(x));
      return make(a->kind, args, a->shape.transposed(), a->name);
    }
    case Kind::matmul:
      return product(transpose(a->args[1]), transpose(a->args[0]));
    case Kind::columns:
      return rows(transpose(a->args[0]), a->args[1]);
    case Kind::rows:
      return columns(transpose(a->args[0]), a->args[1]);
    case Kind::ones:
    case Kind::fill:
      return make(a->kind, a->args, a->shape.transposed());
    default:
      return make(Kind::transpose, {a}, a->shape.transposed());
  }
}

Value LawGraph::columns(Value a, Value x) {
  return a->kind == Kind::eye ? diag(x) : make(Kind::columns, {a, x}, a->shape);
}
Value LawGraph::rows(Value a, Value x) {
  return a->kind == Kind::eye ? diag(x) : make(Kind::rows, {a, x}, a->shape);
}

Value LawGraph::diag(Value x) {
  if (x->shape.columns != 1) throw ShapeRefused("diag wants a vector, not " + shape_text(x->shape));
  return x->shape.number() ? x : make(Kind::diag, {x}, {x->shape.rows, x->shape.rows});
}

Value LawGraph::diagonal(Value a) {
  if (a->shape.rows != a->shape.columns)
    throw ShapeRefused("diagonal wants a square matrix, not " + shape_text(a->shape));
  return a->shape.number() ? a : make(Kind::diagonal, {a}, {a->shape.rows, 1});
}

Value LawGraph::row_sums(Value a) {
  return a->shape.columns == 1 ? a : make(Kind::row_sums, {a}, {a->shape.rows, 1});
}

Value LawGraph::softmax(Value a) {
  if (a->shape.columns != 1)
    throw ShapeRefused(fmt::format("softmax wants a vector, not {}{}", shape_text(a->shape),
                                   a->shape.rows == 1 ? "; write softmax(x^T)^T for a row" : ""));
  return make(Kind::softmax, {a}, a->shape);
}

Value LawGraph::fit(Value a, int size) {
  if (a->shape.columns != 1) throw ShapeRefused("fit wants a vector, not " + shape_text(a->shape));
  return a->shape.rows == size ? a : make(Kind::fit, {a}, {size, 1});
}

Value LawGraph::largest(Value a, int count) {
  if (a->shape.columns != 1) throw ShapeRefused("largest wants a vector, not " + shape_text(a->shape));
  if (has_state(a)) throw ShapeRefused("largest picks among values that no state makes");
  return make(Kind::largest, {a}, a->shape, "", count);
}

Value LawGraph::solve(Value a, Value b) {
  if (a->shape.rows != a->shape.columns || a->shape.number())
    throw ShapeRefused("solve wants a square matrix, not " + shape_text(a->shape));
  if (b->shape != Shape{a->shape.rows, 1})
    throw ShapeRefused(fmt::format("solve(A, b) of {} wants a vector over {}, not {}", shape_text(a->shape),
                                   size_text(a->shape.rows), shape_text(b->shape)));
  return make(Kind::solve, {a, b}, b->shape);
}

Value LawGraph::rms(Value a, Value eps) {
  if (eps->kind != Kind::number) throw ShapeRefused("eps is a number written out");
  return div(a, map("sqrt", add(mean(mul(a, a)), eps)));
}

Value LawGraph::power(Value a, int n) {
  if (a->shape.rows != 1 && a->shape.columns != 1)
    throw ShapeRefused(fmt::format("a power goes entry by entry, and here stands {}; write A * A, or A A",
                                   shape_text(a->shape)));
  Value p = a;
  for (int i = 1; i < std::abs(n); ++i) p = mul(p, a);
  return n > 0 ? p : div(number(1), p);
}

Value LawGraph::product(Value a, Value b) {
  if (const auto it = products_.find({a, b}); it != products_.end()) return it->second;
  const Value made = made_product(a, b);
  return products_[{a, b}] = made;
}

Value LawGraph::made_product(Value a, Value b) {
  const Shape x = a->shape, y = b->shape;
  if (is_number(a) || is_number(b)) return mul(a, b);
  if (x.columns != y.rows) {
    const char* hint = "";
    if (x.columns == 1 && y.columns == 1) {
      hint = x.rows == y.rows ? "; a^T b is a number, a b^T their outer product, a * b goes entry by entry"
                              : "; a b^T is their outer product";
    } else if (x.columns == 1 && y.columns != 1 && y.rows != 1 && (x.rows == y.rows || x.rows == y.columns)) {
      hint = x.rows == y.rows ? "; diag(a) B scales the rows of B" : "; B diag(a) scales the columns of B";
    } else if (x.rows == y.rows || x.columns == y.columns) {
      hint = "; is a transpose ^T missing?";
    }
    throw ShapeRefused(fmt::format("product of {} and {}{}", shape_text(x), shape_text(y), hint));
  }
  if (a->kind == Kind::eye) return b;
  if (b->kind == Kind::eye) return a;
  if (b->kind == Kind::diag) return columns(a, b->args[0]);
  if (a->kind == Kind::diag) return rows(b, a->args[0]);
  const auto combined = [&](Value of, Value left, Value right) {
    return of->kind == Kind::add ? add(left, right) : sub(left, right);
  };
  if (b->thin && x.columns != 1) {
    switch (b->kind) {
      case Kind::add:
      case Kind::sub:
        return combined(b, product(a, b->args[0]), product(a, b->args[1]));
      case Kind::neg:
        return neg(product(a, b->args[0]));
      case Kind::mul:
        return mul(b->args[0], product(a, b->args[1]));
      case Kind::columns:
        return columns(product(a, b->args[0]), b->args[1]);
      case Kind::rows:
        return product(columns(a, b->args[1]), b->args[0]);
      case Kind::matmul:
        return product(product(a, b->args[0]), b->args[1]);
      default:
        break;
    }
  }
  if (a->thin && y.rows != 1) {
    switch (a->kind) {
      case Kind::add:
      case Kind::sub:
        return combined(a, product(a->args[0], b), product(a->args[1], b));
      case Kind::neg:
        return neg(product(a->args[0], b));
      case Kind::mul:
        return mul(a->args[0], product(a->args[1], b));
      case Kind::rows:
        return rows(product(a->args[0], b), a->args[1]);
      case Kind::columns:
        return product(a->args[0], rows(b, a->args[1]));
      case Kind::matmul:
        return product(a->args[0], product(a->args[1], b));
      default:
        break;
    }
  }
  if (x.columns == 1) {  // an outer product
    if (scaled(b)) return product(mul(b->args[0], a), b->args[1]);
    if (b->kind == Kind::neg) return product(neg(a), b->args[0]);
  } else {
    if (scaled(a)) return mul(a->args[0], product(a->args[1], b));
    if (a->kind == Kind::neg) return neg(product(a->args[0], b));
    if (scaled(b)) return mul(b->args[0], product(a, b->args[1]));
    if (b->kind == Kind::neg) return neg(product(a, b->args[0]));
  }
  if (b->kind == Kind::rows && b->args[0]->shape.columns != 1 && x.rows != 1)
    return product(columns(a, b->args[1]), b->args[0]);
  return make(Kind::matmul, {a, b}, {x.rows, y.columns});
}

Value LawGraph::replaced(Value root, std::map<Value, Value> made) {
  for (Value node : order({root})) {
    if (made.count(node) != 0) continue;
    std::vector<Value> args;
    for (Value a : node->args) args.push_back(made.at(a));
    made[node] = with(node, std::move(args));
  }
  return made.at(root);
}

std::vector<Value> order(const std::vector<Value>& roots,
                         const std::function<std::vector<Value>(Value)>& parts) {
  std::set<Value> done;
  std::vector<Value> out;
  std::vector<std::pair<Value, bool>> stack;
  for (Value root : roots) {
    stack.push_back({root, false});
    while (!stack.empty()) {
      const auto [node, opened] = stack.back();
      stack.pop_back();
      if (opened) {
        out.push_back(node);
      } else if (done.insert(node).second) {
        stack.push_back({node, true});
        std::vector<Value> found;
        const std::vector<Value>& below = parts ? found = parts(node) : node->args;
        for (auto a = below.rbegin(); a != below.rend(); ++a)
          if (done.count(*a) == 0) stack.push_back({*a, false});
      }
    }
  }
  return out;
}

std::set<Value> reaching(const std::vector<Value>& roots, const std::function<bool(Value)>& leaf) {
  std::set<Value> found;
  for (Value node : order(roots))
    if (leaf(node) ||
        std::any_of(node->args.begin(), node->args.end(), [&](Value a) { return found.count(a) != 0; }))
      found.insert(node);
  return found;
}

bool holds(Value root, const std::function<bool(Value)>& leaf) {
  for (Value node : order({root}))
    if (leaf(node)) return true;
  return false;
}
bool has_state(Value root) {
  return holds(root, [](Value n) { return n->kind == Kind::state; });
}

bool is_map_of(Value node, const char* name) { return node->kind == Kind::map && node->name == name; }

Value mean_of(Value node) {
  if (node->kind != Kind::div || node->args[0]->kind != Kind::sum) return nullptr;
  const Value count = node->args[1];
  const bool ones = count->kind == Kind::sum && count->args[0]->kind == Kind::ones;
  return ones && count->args[0]->shape == node->args[0]->args[0]->shape ? node->args[0]->args[0] : nullptr;
}
Value square_of(Value node) {
  if (node->kind != Kind::sum || node->args[0]->kind != Kind::mul) return nullptr;
  const auto& a = node->args[0]->args;
  return a[0] == a[1] ? a[0] : nullptr;
}
Value rms_of(Value node) {
  if (node->kind != Kind::div || !is_map_of(node->args[1], "sqrt")) return nullptr;
  const Value inside = node->args[1]->args[0];
  if (inside->kind != Kind::add || inside->args[1]->kind != Kind::number) return nullptr;
  const Value mean = mean_of(inside->args[0]);
  const bool square = mean && mean->kind == Kind::mul && mean->args[0] == mean->args[1];
  return square && mean->args[0] == node->args[0] ? node->args[0] : nullptr;
}
Value centred_of(Value node) {
  return node->kind == Kind::sub && mean_of(node->args[1]) == node->args[0] ? node->args[0] : nullptr;
}

}  // namespace crosstalk::rules

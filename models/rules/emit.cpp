// SPDX-License-Identifier: Apache-2.0
#include "models/rules/emit.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "kernels/elementwise/elementwise.h"

namespace crosstalk::rules {
namespace {

bool is_matrix(Value x) { return x->shape.rows != 1 && x->shape.columns != 1; }
bool pairwise(Value x) {
  switch (x->kind) {
    case Kind::add:
    case Kind::sub:
    case Kind::mul:
    case Kind::div:
    case Kind::max:
    case Kind::min:
      return true;
    default:
      return false;
  }
}
/// A matrix times a number, or divided by one.
bool scaled(Value x) {
  if (!is_matrix(x) || (x->kind != Kind::mul && x->kind != Kind::div)) return false;
  return x->args[x->kind == Kind::mul ? 0 : 1]->shape.number() &&
         is_matrix(x->args[x->kind == Kind::mul ? 1 : 0]);
}
bool outer(Value x) { return x->kind == Kind::matmul && x->args[1]->shape.rows == 1 && is_matrix(x); }

std::uint8_t map_of(const std::string& f) {
  static const std::map<std::string, int> all = {{"exp", static_cast<int>(MapKind::exp)},
                                                 {"log", static_cast<int>(MapKind::log)},
                                                 {"sigmoid", static_cast<int>(MapKind::sigmoid)},
                                                 {"softplus", static_cast<int>(MapKind::softplus)},
                                                 {"log_sigmoid", static_cast<int>(MapKind::log_sigmoid)},
                                                 {"tanh", static_cast<int>(MapKind::tanh)},
                                                 {"relu", static_cast<int>(MapKind::relu)},
                                                 {"silu", static_cast<int>(MapKind::silu)},
                                                 {"inverse", static_cast<int>(MapKind::inverse)},
                                                 {"sin", static_cast<int>(MapKind::sine)},
                                                 {"sqrt", kRuleSqrt},
                                                 {"abs", kRuleAbs},
                                                 {"sign", kRuleSign},
                                                 {"positive", kRulePositive}};
  return static_cast<std::uint8_t>(all.at(f));
}

RuleCode code_of(Kind kind) {
  switch (kind) {
    case Kind::add:
      return RuleCode::add;
    case Kind::sub:
      return RuleCode::sub;
    case Kind::mul:
      return RuleCode::mul;
    case Kind::div:
      return RuleCode::div;
    case Kind::max:
      return RuleCode::max;
    case Kind::min:
      return RuleCode::min;
    case Kind::neg:
      return RuleCode::neg;
    case Kind::map:
      return RuleCode::map;
    case Kind::matmul:
      return RuleCode::product;
    case Kind::transpose:
      return RuleCode::transpose;
    case Kind::columns:
      return RuleCode::columns;
    case Kind::rows:
      return RuleCode::rows;
    case Kind::diag:
      return RuleCode::diag;
    case Kind::diagonal:
      return RuleCode::diagonal;
    case Kind::sum:
      return RuleCode::sum;
    case Kind::ones:
    case Kind::fill:
      return RuleCode::fill;
    case Kind::eye:
      return RuleCode::eye;
    case Kind::row_sums:
      return RuleCode::row_sums;
    case Kind::softmax:
      return RuleCode::softmax;
    case Kind::unit:
      return RuleCode::unit;
    case Kind::solve:
      return RuleCode::solve;
    default:
      throw std::logic_error("[rules] a leaf is no operation");
  }
}

}  // namespace

/// The value whose numbers an alias has: a transposed vector, or a matrix that its users read transposed.
Value Emitter::stored(Value x) const {
  while (aliases_.count(x) != 0) x = x->args[0];
  return x;
}

/// Tells whether the numbers of a value stand at its place one by one, in its own order: not those of a fill that stands for one
/// number, nor of a matrix that its reader turns. Nothing else may be read as so many numbers.
bool Emitter::array(Value x) const {
  return aliases_.count(x) == 0 || (x->kind == Kind::transpose && !is_matrix(x) && array(x->args[0]));
}

/// Values that an operation reads, with those that go together with it.
std::vector<Value> Emitter::arguments(Value node) const {
  std::vector<Value> out;
  for (Value a : node->args)
    if (absorbed_.count(a) != 0) {
      for (Value inner : arguments(a)) out.push_back(inner);
    } else {
      out.push_back(a);
    }
  return out;
}

int Emitter::place(Value x) const {
  x = stored(x);
  if (x->kind == Kind::number) return places_.constants.at(x->value);
  if (const auto it = at_.find(x); it != at_.end()) return it->second;
  return places_.of.at(x);
}

void Emitter::look_at(const std::vector<Value>& nodes, const std::vector<std::pair<Value, int>>& outputs) {
  for (Value node : nodes) {
    uses_.try_emplace(node, 0);
    for (Value a : node->args) ++uses_[a], users_[a].push_back(node);
  }
  std::set<Value> roots;
  for (const auto& [node, place] : outputs) ++uses_[node], roots.insert(node);
  const auto only = [&](Value x, auto f) {
    const auto& users = users_[x];
    return roots.count(x) == 0 && std::all_of(users.begin(), users.end(), f);
  };
  for (Value node : nodes)
    if (node->kind == Kind::transpose) {
      const bool products = only(node, [](Value user) { return user->kind == Kind::matmul; });
      if (!is_matrix(node) || products) aliases_.insert(node);
    } else if (node->kind == Kind::fill) {
      const bool pairs = only(node, [&](Value user) {
        return pairwise(user) && user->args[0] != user->args[1] && user->shape == node->shape &&
               std::all_of(user->args.begin(), user->args.end(), [&](Value a) {
                 return a == node || (a->shape == node->shape && a->kind != Kind::fill);
               });
      });
      if (pairs) aliases_.insert(node);
    }
  for (Value node : nodes) {
    const auto take = [&](Value part) {
      if (used_once(part) && absorbed_.count(part) == 0 && aliases_.count(part) == 0) absorbed_.insert(part);
    };
    const auto same = [&](Value x) {
      return full(x->args[0], x) && full(x->args[1], x) && array(x->args[0]) && array(x->args[1]);
    };
    if (node->kind == Kind::sum) {
      if (node->args[0]->kind == Kind::mul && same(node->args[0])) take(node->args[0]);
    } else if (node->kind == Kind::row_sums) {
      const Value x = node->args[0];
      if (x->kind == Kind::mul && same(x) && used_once(x)) {
        take(x);
        const auto turned = [&](Value a) {
          return a->kind == Kind::transpose && is_matrix(a) && used_once(a);
        };
        if (x->args[0] != x->args[1] && turned(x->args[0]) && turned(x->args[1]))
          aliases_.insert(x->args[0]), aliases_.insert(x->args[1]);
      } else if (x->kind == Kind::transpose && used_once(x)) {
        const Value y = x->args[0];
        if (y->kind == Kind::mul && same(y) && used_once(y) && absorbed_.count(y) == 0) {
          aliases_.erase(x), absorbed_.insert(x), absorbed_.insert(y);
        } else {
          aliases_.insert(x);
        }
      }
    } else if (node->kind == Kind::add || node->kind == Kind::sub) {
      // Terms of a sum: an outer product before others, since only it need not be a matrix anywhere.
      std::vector<std::size_t> which = {1, 0};
      if (node->kind == Kind::sub) {
        which = {1};
      } else if (outer(node->args[0]) && !outer(node->args[1])) {
        which = {0, 1};
      }
      for (std::size_t i : which) {
        const Value x = node->args[i], c = node->args[1 - i];
        if (!full(x, node) || !full(c, node) || x == c || !used_once(x) || aliases_.count(c) != 0) continue;
        const bool product = x->kind == Kind::mul && full(x->args[1], x) && aliases_.count(x->args[1]) == 0 &&
                             aliases_.count(x->args[0]) == 0 &&
                             (full(x->args[0], x) || x->args[0]->shape.number());
        if (outer(x) || product) {
          take(x);
          if (absorbed_.count(x) != 0 && scaled(c) && array(c->args[0]) && array(c->args[1])) take(c);
          break;
        }
      }
    }
  }
}

/// An order in which few numbers are held at once: of what can be done, that which holds the fewest more.
std::vector<Value> Emitter::scheduled(const std::vector<Value>& nodes) const {
  std::map<Value, int> users, waits;
  std::map<Value, std::vector<Value>> waiting;
  const std::set<Value> made(nodes.begin(), nodes.end());
  const auto read = [&](Value node) {
    std::set<Value> out;
    for (Value a : arguments(node)) out.insert(stored(a));
    return out;
  };
  for (Value node : nodes)
    for (Value a : read(node)) {
      ++users[a];
      if (made.count(a) != 0) ++waits[node], waiting[a].push_back(node);
    }
  for (const auto& [node, place] : wanted_at_) ++users[node];
  std::vector<Value> ready, out;
  for (Value node : nodes)
    if (waits.count(node) == 0) ready.push_back(node);
  while (!ready.empty()) {
    const auto more = [&](Value node) {
      if (numbers(node) == 1 &&
          std::all_of(node->args.begin(), node->args.end(), [&](Value a) { return numbers(stored(a)) == 1; }))
        return std::numeric_limits<int>::min();  // they go together
      int held = numbers(node);
      for (Value a : read(node)) {
        const bool given = made.count(a) == 0 && places_.replaced.count(a) == 0;
        if (users.at(a) == 1 && !given) held -= numbers(a);
      }
      return held;
    };
    auto best = ready.begin();
    int fewest = more(*best);
    for (auto it = best + 1; it != ready.end(); ++it)
      if (const int held = more(*it); held < fewest) best = it, fewest = held;
    const Value node = *best;
    ready.erase(best);
    out.push_back(node);
    for (Value a : read(node)) --users.at(a);
    for (Value next : waiting[node])
      if (--waits.at(next) == 0) ready.push_back(next);
  }
  return out;
}

RuleOperation Emitter::operation(Value node) const {
  RuleOperation op;
  op.code = code_of(node->kind);
  op.rows = size(node->shape.rows), op.columns = size(node->shape.columns);
  const auto& args = node->args;
  const auto number = [&](Value x) { return stored(x)->shape.number() && !node->shape.number(); };
  if (node->kind == Kind::ones) {
    op.a = places_.constants.at(1);
    return op;
  }
  if (args.empty()) return op;
  const Value a = args[0], b = args.size() > 1 ? args[1] : nullptr;
  const bool first = absorbed_.count(a) != 0, second = b && absorbed_.count(b) != 0;
  if ((node->kind == Kind::add || node->kind == Kind::sub) && (first || second)) {
    // One operation for both: the sum of something and of a matrix times a number.
    const bool last = first && second
                          ? node->kind == Kind::sub || (b->kind != Kind::div && (outer(b) || !outer(a)))
                          : second;
    const Value x = last ? b : a;
    Value c = last ? a : b;
    op.code = x->kind == Kind::mul ? RuleCode::add_product : RuleCode::add_outer;
    if (first && second) {
      const bool divided = c->kind == Kind::div;
      op.flags |= RuleOperation::kScaled | (divided ? RuleOperation::kDivided : 0);
      op.inner = place(c->args[divided ? 1 : 0]), c = c->args[divided ? 0 : 1];
    }
    op.a = place(x->args[0]), op.b = place(x->args[1]), op.c = place(c);
    if (node->kind == Kind::sub) op.flags |= RuleOperation::kMinus;
    if (x->kind == Kind::mul && number(x->args[0])) op.flags |= RuleOperation::kNumberA;
    return op;
  }
  if (node->kind == Kind::sum || node->kind == Kind::row_sums) {
    if (first && a->kind == Kind::transpose) {
      const Value y = a->args[0];
      op.code = RuleCode::column_sums, op.inner = size(a->shape.columns);
      op.a = place(y->args[0]), op.b = place(y->args[1]);
      return op;
    }
    const Value x = first ? a->args[0] : a;
    op.a = place(x);
    if (first) op.b = place(a->args[1]);
    if (node->kind == Kind::sum) {
      op.inner = numbers(a);
    } else {
      op.inner = size(a->shape.columns);
      if (aliases_.count(x) != 0 && is_matrix(x)) op.code = RuleCode::column_sums;
    }
    return op;
  }
  op.a = place(a);
  if (b) op.b = place(b);
  if (node->kind == Kind::map) op.map = map_of(node->name);
  if (pairwise(node)) {
    if (number(a)) op.flags |= RuleOperation::kNumberA;
    if (number(b)) op.flags |= RuleOperation::kNumberB;
  } else if (node->kind == Kind::matmul) {
    op.inner = size(a->shape.columns);
    if (is_matrix(a) && aliases_.count(a) != 0) op.flags |= RuleOperation::kTransposedA;
    if (is_matrix(b) && aliases_.count(b) != 0) op.flags |= RuleOperation::kTransposedB;
  }
  return op;
}

int Emitter::free_place(int numbers, Value node) {
  for (Block& block : blocks_)
    if (!block.held && block.numbers == numbers) {
      block.held = node;
      return block.place;
    }
  const int place = numbers < 4 ? end_ : aligned(end_);
  blocks_.push_back({place, numbers, node});
  end_ = place + numbers;
  return place;
}

/// Place of an operation's value: over an argument that nobody wants any more, where entries meet only themselves;
/// to its own place, where that is free; else elsewhere.
int Emitter::target(Value node, const RuleOperation& op, int now) {
  const int n = numbers(node);
  const auto own = wanted_at_.find(node);
  const auto block_at = [&](int place) {
    return std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& b) { return b.place == place; });
  };
  std::vector<int> over;
  switch (op.code) {
    case RuleCode::add:
    case RuleCode::sub:
    case RuleCode::mul:
    case RuleCode::div:
    case RuleCode::max:
    case RuleCode::min:
      if (!(op.flags & RuleOperation::kNumberA)) over.push_back(op.a);
      if (!(op.flags & RuleOperation::kNumberB)) over.push_back(op.b);
      break;
    case RuleCode::add_outer:
      over = {op.c};
      break;
    case RuleCode::add_product:
      over = {op.c, op.b};
      if (!(op.flags & RuleOperation::kNumberA)) over.push_back(op.a);
      break;
    case RuleCode::neg:
    case RuleCode::map:
    case RuleCode::columns:
    case RuleCode::rows:
      over = {op.a};
      break;
    default:
      break;
  }
  const auto elsewhere = [&](int place) {  // an argument that is read otherwise than entry by entry
    if (op.code == RuleCode::add_outer) return place == op.a || place == op.b;
    if (op.code == RuleCode::columns || op.code == RuleCode::rows) return place == op.b;
    return false;
  };
  if (own != wanted_at_.end()) {
    const auto it = block_at(own->second);
    if (it == blocks_.end()) return own->second;  // nobody else ever stands there
    if (!it->held && it->numbers == n) {
      it->held = node;
      return it->place;
    }
    std::stable_partition(over.begin(), over.end(), [&](int place) { return place == own->second; });
  }
  for (int place : over) {
    const auto it = block_at(place);
    if (it == blocks_.end() || !it->held || it->numbers != n || elsewhere(place)) continue;
    const auto last = last_.find(it->held);
    if (last == last_.end() || last->second != now) continue;
    it->held = node;
    return place;
  }
  return free_place(n, node);
}

void Emitter::release(Value node, int now) {
  for (Value a : arguments(node)) {
    const Value x = stored(a);
    const auto last = last_.find(x);
    if (last == last_.end() || last->second != now) continue;
    for (Block& block : blocks_)
      if (block.held == x) block.held = nullptr;
  }
}

/// Marks operations of numbers that follow each other.
void Emitter::gather_numbers(int first) {
  auto& all = program_.operations;
  const std::vector<RuleOperation> made(all.begin() + first, all.end());
  all.resize(static_cast<std::size_t>(first));
  const auto number = [](const RuleOperation& op) {
    return op.rows == 1 && op.columns == 1 && op.code <= RuleCode::add_product;
  };
  for (auto op = made.begin(); op != made.end();) {
    const auto end = std::find_if_not(op, made.end(), number);
    if (end != op) {
      RuleOperation mark;
      mark.code = RuleCode::numbers, mark.inner = static_cast<int>(end - op);
      all.push_back(mark);
      all.insert(all.end(), op, end);
      op = end;
    } else {
      all.push_back(*op++);
    }
  }
}

std::pair<RuleProgram::Part, int> Emitter::emit(const std::vector<std::pair<Value, int>>& outputs) {
  uses_.clear(), last_.clear(), at_.clear(), wanted_at_.clear(), users_.clear();
  absorbed_.clear(), aliases_.clear(), blocks_.clear();
  std::vector<Value> roots;
  for (const auto& [node, place] : outputs) roots.push_back(node);
  const std::vector<Value> nodes = order(roots);
  look_at(nodes, outputs);
  std::vector<Value> todo;
  for (Value node : nodes) {
    const bool leaf = node->is_leaf() && node->kind != Kind::ones && node->kind != Kind::eye;
    if (!leaf && absorbed_.count(node) == 0 && aliases_.count(node) == 0) todo.push_back(node);
  }
  for (const auto& [node, place] : outputs)
    if (node == stored(node)) wanted_at_.try_emplace(node, place);
  todo = scheduled(todo);
  const int never = static_cast<int>(todo.size());
  for (int now = 0; now < never; ++now)
    for (Value a : arguments(todo[static_cast<std::size_t>(now)])) last_[stored(a)] = now;
  for (const auto& [node, place] : outputs) last_[stored(node)] = never;
  // A replaced value stands in a block of its own that others may have after it.
  for (const Value leaf : places_.replaced)
    blocks_.push_back({places_.of.at(leaf), numbers(leaf), uses_.count(leaf) != 0 ? leaf : nullptr});
  end_ = places_.first_temporary;
  RuleProgram::Part part{static_cast<int>(program_.operations.size()), 0};
  for (int now = 0; now < never; ++now) {
    const Value node = todo[static_cast<std::size_t>(now)];
    RuleOperation op = operation(node);
    op.y = target(node, op, now);
    if (op.code == RuleCode::solve) op.c = aligned(end_), end_ = op.c + op.rows * op.rows;
    at_[node] = op.y;
    release(node, now);
    program_.operations.push_back(op);
    program_.largest = std::max(program_.largest, numbers(node));
  }
  // A value that stands where another output goes moves out of its way first.
  const auto copied = [&](int from, int to, int n) {
    RuleOperation op;
    op.code = RuleCode::copy, op.rows = n, op.a = from, op.y = to;
    program_.operations.push_back(op);
  };
  std::vector<std::pair<int, int>> late;  // from, output
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const int n = numbers(outputs[i].first);
    int from = place(outputs[i].first);
    if (from == outputs[i].second) continue;
    for (std::size_t j = 0; j < outputs.size(); ++j) {
      const int to = outputs[j].second;
      if (j == i || from >= to + numbers(outputs[j].first) || to >= from + n) continue;
      end_ = aligned(end_);
      copied(from, end_, n);
      from = end_, end_ += n;
      break;
    }
    late.push_back({from, static_cast<int>(i)});
  }
  for (const auto& [from, i] : late) {
    const auto& [node, to] = outputs[static_cast<std::size_t>(i)];
    copied(from, to, numbers(node));
  }
  gather_numbers(part.first);
  part.count = static_cast<int>(program_.operations.size()) - part.first;
  return {part, end_};
}

}  // namespace crosstalk::rules

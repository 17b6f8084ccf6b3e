// One part of a law's program (rule_source.h) as source: its operations as values that are worked out once, each in the layouts
// in which it is wanted.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "kernels/elementwise/elementwise.h"
#include "kernels/rule/rule_program.h"

namespace crosstalk::source {

/// Layouts of a vector: along rows, along columns (rule_registers.cuh).
inline constexpr unsigned kRow = 1, kColumn = 2, kBoth = 3;
inline unsigned lowest(unsigned layouts) { return layouts & kRow ? kRow : kColumn; }
inline const char* suffix(unsigned layout) { return layout == kRow ? "_r" : "_c"; }

struct Shape {
  int rows = 1, columns = 1;
  bool number() const { return rows == 1 && columns == 1; }
  bool matrix() const { return rows > 1 && columns > 1; }
  bool vector() const { return !number() && !matrix(); }
  int numbers() const { return rows * columns; }
  std::string type(unsigned layout) const {
    if (number()) return "Real";
    if (matrix()) return fmt::format("Matrix<{}, {}>", rows, columns);
    return fmt::format("{}<{}>", layout == kRow ? "Row" : "Column", numbers());
  }
};

inline const char* end_of(const Shape& shape, unsigned layout) {
  return shape.vector() ? suffix(layout) : "";
}
/// f(layout, suffix) for each variable of a value: a vector has one in each of its layouts, others have one.
void each_layout(const Shape& shape, unsigned layouts, auto&& f) {
  for (const unsigned layout : {kRow, kColumn})
    if ((shape.vector() ? layouts : kRow) & layout) f(layout, end_of(shape, layout));
}

inline Shape shape_of(const RuleProgram::Input& x) {
  return x.rows > 1 ? Shape{x.rows, x.width / x.rows} : Shape{x.width, 1};
}

struct Grid {
  int row_threads = 8, column_threads = 4;
  int threads() const { return row_threads * column_threads; }
};

inline int power_above(int n) {
  int power = 1;
  while (power < n) power *= 2;
  return power;
}

/// Threads follow from the largest value: a thread has 32 numbers of it, so that small states need no more than a warp, and
/// fewer where so many values of this size are held at once that registers would not do. Eight are neighbours of a row.
inline Grid grid_of(const RuleProgram& program, bool backward) {
  int rows = 1, columns = 1;
  for (const RuleOperation& op : program.operations)
    if (Shape{op.rows, op.columns}.matrix() && op.rows * op.columns > rows * columns)
      rows = op.rows, columns = op.columns;
  if (rows == 1) return {1, 32};
  const int held = (backward ? program.backward_numbers : program.forward_numbers) / (rows * columns);
  int numbers = 32;
  while (numbers > 8 && numbers * held > 256) numbers /= 2;
  const int threads = std::clamp(power_above(rows * columns / numbers), 32, 512);
  const int column_threads = std::clamp(power_above((columns + 7) / 8), 2, 32);
  return {threads / column_threads, column_threads};
}

/// A value that a part finds where it begins.
struct Leaf {
  Shape shape;
  std::string name;  ///< of the variable; of vectors without the suffix of a layout
  bool literal = false;
};

struct Node {
  const RuleOperation* op = nullptr;  ///< null: a leaf
  Shape shape;
  std::string name;
  int a = -1, b = -1, c = -1, scale = -1;
  int place = -1;           ///< of a leaf
  unsigned native = kBoth;  ///< layouts in which a vector can be worked out
  unsigned need = 0;        ///< layouts that are wanted; of numbers and matrices: 1
  unsigned computed = 0;    ///< layouts that are worked out; the others of `need` are exchanged
};

/// Functions of rule_registers.cuh that take values entry by entry: of two values, and of one.
inline const std::map<RuleCode, const char*> kPairs = {
    {RuleCode::add, "add"}, {RuleCode::sub, "sub"},     {RuleCode::mul, "mul"},
    {RuleCode::div, "div"}, {RuleCode::max, "largest"}, {RuleCode::min, "smallest"}};
inline const std::map<int, const char*> kMaps = {{kRuleSqrt, "map_sqrt"},
                                                 {kRuleAbs, "map_abs"},
                                                 {kRuleSign, "map_sign"},
                                                 {kRulePositive, "map_positive"},
                                                 {static_cast<int>(MapKind::exp), "map_exp"},
                                                 {static_cast<int>(MapKind::log), "map_log"},
                                                 {static_cast<int>(MapKind::sigmoid), "map_sigmoid"},
                                                 {static_cast<int>(MapKind::softplus), "map_softplus"},
                                                 {static_cast<int>(MapKind::log_sigmoid), "map_log_sigmoid"},
                                                 {static_cast<int>(MapKind::tanh), "map_tanh"},
                                                 {static_cast<int>(MapKind::relu), "map_relu"},
                                                 {static_cast<int>(MapKind::silu), "map_silu"},
                                                 {static_cast<int>(MapKind::inverse), "map_inverse"},
                                                 {static_cast<int>(MapKind::sine), "map_sine"}};

/// Numbers of shared memory that a law needs.
struct Shared {
  int exchange = 32, stage = 0;
};

/// One part of a program: its operations as values that are worked out once, in the layouts in which they are wanted.
class PartSource {
 public:
  PartSource(const RuleProgram& program, RuleProgram::Part part, const std::map<int, Leaf>& leaves) {
    for (const auto& [place, leaf] : leaves) {
      Node node;
      node.shape = leaf.shape, node.name = leaf.name, node.place = leaf.literal ? -1 : place;
      now_[place] = add(node);
    }
    for (int i = 0; i < part.count; ++i) {
      const RuleOperation& op = program.operations[static_cast<std::size_t>(part.first + i)];
      if (op.code == RuleCode::numbers) continue;
      Node node;
      node.op = &op;
      if (op.a >= 0) node.a = now_.at(op.a);
      if (op.b >= 0) node.b = now_.at(op.b);
      if (op.c >= 0) node.c = now_.at(op.c);
      if (op.flags & RuleOperation::kScaled) node.scale = now_.at(op.inner);
      node.shape = {op.rows, op.columns};
      if (op.code == RuleCode::copy) node.shape = nodes_[static_cast<std::size_t>(node.a)].shape;
      if (op.code == RuleCode::row_sums || op.code == RuleCode::column_sums) node.shape = {op.rows, 1};
      if (op.code == RuleCode::sum) node.shape = {1, 1};
      node.name = fmt::format("t{}", i);
      node.native = native_of(node);
      now_[op.y] = add(node);
    }
  }
  const Node& value(int place) const { return nodes_[static_cast<std::size_t>(now_.at(place))]; }
  const std::vector<Node>& nodes() const { return nodes_; }

  /// Asks for values at places in layouts (0: any), and works out what else is needed for them.
  void want(const std::map<int, unsigned>& outputs) {
    for (Node& node : nodes_) node.need = node.computed = 0;
    for (const auto& [place, layouts] : outputs) {
      Node& node = nodes_[static_cast<std::size_t>(now_.at(place))];
      node.need |= node.shape.vector() ? (layouts ? layouts : lowest(node.native)) : kRow;
    }
    for (std::size_t i = nodes_.size(); i-- > 0;)
      if (nodes_[i].need && nodes_[i].op) spread(nodes_[i]);
  }
  /// Statements of the values that are wanted.
  std::string text(Shared& shared, const Grid& grid) const {
    std::string out;
    for (const Node& node : nodes_) {
      if (!node.op || !node.need) continue;
      each_layout(node.shape, node.computed, [&](unsigned layout, const char* end) {
        out += fmt::format("    const auto {}{} = {};\n", node.name, end, call(node, layout, shared, grid));
      });
      if (!node.shape.vector()) continue;
      for (unsigned layout : {kRow, kColumn}) {
        if (!(node.need & layout) || (node.computed & layout)) continue;
        shared.exchange = std::max(shared.exchange, node.shape.numbers() + 32);
        out += fmt::format("    const auto {0}{1} = {2}(block, {0}{3});\n", node.name, suffix(layout),
                           layout == kRow ? "to_row" : "to_column", suffix(layout ^ kBoth));
      }
    }
    return out;
  }

 private:
  int add(const Node& node) {
    nodes_.push_back(node);
    return static_cast<int>(nodes_.size()) - 1;
  }
  Node& node(int i) { return nodes_[static_cast<std::size_t>(i)]; }
  const Node& node(int i) const { return nodes_[static_cast<std::size_t>(i)]; }
  bool transposed(const Node& x, int flag) const { return (x.op->flags & flag) != 0; }
  /// Vectors that meet entry by entry.
  std::vector<int> vectors(const Node& x) const {
    std::vector<int> out;
    for (int i : {x.a, x.b, x.c})
      if (i >= 0 && node(i).shape.vector()) out.push_back(i);
    return out;
  }

  unsigned native_of(const Node& x) const {
    if (!x.shape.vector()) return kBoth;
    const RuleOperation& op = *x.op;
    switch (op.code) {
      case RuleCode::product:
        if (op.inner == 1) break;
        if (op.columns == 1) return transposed(x, RuleOperation::kTransposedA) ? kColumn : kRow;
        return transposed(x, RuleOperation::kTransposedB) ? kRow : kColumn;
      case RuleCode::row_sums:
      case RuleCode::diagonal:
        return kRow;
      case RuleCode::column_sums:
        return kColumn;
      default:
        break;
    }
    unsigned native = kBoth;
    const std::vector<int> all = vectors(x);
    for (int i : all) native &= node(i).native;
    return native || all.empty() ? native : node(all[0]).native;
  }
  /// The layout in which vectors are summed up: along columns no warp waits for another.
  unsigned summed_in(const Node& x) const {
    unsigned native = kBoth;
    for (int i : vectors(x)) native &= node(i).native;
    return native == kRow ? kRow : kColumn;
  }

  /// The number that a sum adds again and again.
  int repeated(const Node& x) const {
    const Node& a = node(x.a);
    return x.b < 0 && a.op && a.op->code == RuleCode::fill ? a.a : -1;
  }

  void spread(Node& x) {
    const RuleOperation& op = *x.op;
    if (x.shape.vector()) x.computed = x.need & x.native ? x.need & x.native : lowest(x.native);
    const auto ask = [&](int i, unsigned layouts) {
      if (i >= 0) node(i).need |= node(i).shape.vector() ? layouts : kRow;
    };
    ask(x.scale, kRow);
    switch (op.code) {
      case RuleCode::sum:
        if (const int number = repeated(x); number >= 0) {
          ask(number, kRow);
          return;
        }
        ask(x.a, summed_in(x)), ask(x.b, summed_in(x));
        return;
      case RuleCode::product:
        if (op.inner == 1) break;
        if (x.shape.number()) {
          ask(x.a, summed_in(x)), ask(x.b, summed_in(x));
        } else if (x.shape.vector()) {
          const unsigned other = x.native == kRow ? kColumn : kRow;
          ask(x.a, other), ask(x.b, other);
        } else {
          ask(x.a, kRow), ask(x.b, kRow);
        }
        return;
      case RuleCode::row_sums:
      case RuleCode::column_sums:
        if (x.shape.number()) return ask(x.a, summed_in(x)), ask(x.b, summed_in(x));
        break;
      default:
        break;
    }
    if (x.shape.matrix()) {
      ask(x.a, kRow), ask(x.c, kRow);
      ask(x.b, op.code == RuleCode::rows ? kRow : kColumn);
    } else if (x.shape.vector()) {
      ask(x.a, x.computed), ask(x.b, x.computed), ask(x.c, x.computed);
    } else {
      ask(x.a, kColumn), ask(x.b, kColumn), ask(x.c, kColumn);
    }
  }

  std::string named(int i, unsigned layout) const { return node(i).name + end_of(node(i).shape, layout); }
  std::string scaled(const Node& x, unsigned layout) const {
    const std::string c = named(x.c, layout);
    if (x.scale < 0) return c;
    return fmt::format("{}({}, {})", x.op->flags & RuleOperation::kDivided ? "div" : "mul", c,
                       named(x.scale, kRow));
  }
  std::string call(const Node& x, unsigned layout, Shared& shared, const Grid& grid) const {
    const RuleOperation& op = *x.op;
    const bool minus = transposed(x, RuleOperation::kMinus);
    const auto arg = [&](int i) { return named(i, layout); };
    const auto pair = [&](const char* f) { return fmt::format("{}({}, {})", f, arg(x.a), arg(x.b)); };
    const auto one = [&](const char* f) { return fmt::format("{}({})", f, arg(x.a)); };
    const auto over_rows = [&](int n) {
      const int width = (n + grid.column_threads - 1) / grid.column_threads * grid.column_threads;
      shared.exchange = std::max(shared.exchange, grid.threads() / 32 * width);
    };
    if (const auto found = kPairs.find(op.code); found != kPairs.end()) return pair(found->second);
    switch (op.code) {
      case RuleCode::neg:
        return one("neg");
      case RuleCode::map:
        return one(kMaps.at(op.map));
      case RuleCode::copy:
        return arg(x.a);
      case RuleCode::fill:
        return x.shape.number() ? arg(x.a) : fmt::format("filled<{}>({})", x.shape.type(layout), arg(x.a));
      case RuleCode::eye:
        return x.shape.number() ? "Real(1)" : fmt::format("eye<{}, {}>()", op.rows, op.columns);
      case RuleCode::columns:
        return x.shape.matrix() ? fmt::format("scale_columns({}, {})", named(x.a, kRow), named(x.b, kColumn))
                                : pair("mul");
      case RuleCode::rows:
        return x.shape.matrix() ? fmt::format("scale_rows({}, {})", named(x.a, kRow), named(x.b, kRow))
                                : pair("mul");
      case RuleCode::transpose:
        if (!x.shape.matrix()) return arg(x.a);
        shared.stage = std::max(shared.stage, x.shape.numbers());
        return fmt::format("transpose<{}, {}>(block, {})", op.rows, op.columns, arg(x.a));
      case RuleCode::diag:
        return fmt::format("diag({})", named(x.a, kRow));
      case RuleCode::diagonal:
        shared.exchange = std::max(shared.exchange, x.shape.numbers());
        return fmt::format("diagonal(block, {})", named(x.a, kRow));
      case RuleCode::sum: {
        const unsigned in = summed_in(x);
        if (const int number = repeated(x); number >= 0)
          return fmt::format("mul(Real({}), {})", node(x.a).shape.numbers(), named(number, kRow));
        return x.b < 0 ? fmt::format("sum(block, {})", named(x.a, in))
                       : fmt::format("sum(block, mul({}, {}))", named(x.a, in), named(x.b, in));
      }
      case RuleCode::row_sums:
      case RuleCode::column_sums: {
        const bool rows = op.code == RuleCode::row_sums;
        const unsigned in = node(x.a).shape.vector() && x.shape.number() ? summed_in(x) : kRow;
        const std::string of =
            x.b < 0 ? named(x.a, in) : fmt::format("mul({}, {})", named(x.a, in), named(x.b, in));
        if (x.shape.number()) return fmt::format("sum(block, {})", of);
        if (rows && node(x.a).shape.vector()) return of;  // of one column
        if (!rows) over_rows(x.shape.numbers());
        return rows ? fmt::format("row_sums({})", of) : fmt::format("column_sums(block, {})", of);
      }
      case RuleCode::softmax:
        return x.shape.number() ? "Real(1)" : fmt::format("softmax(block, {})", arg(x.a));
      case RuleCode::unit:
        return fmt::format("unit(block, {})", arg(x.a));
      case RuleCode::add_outer:
        return fmt::format("add_outer({}, Real({}), {}, {})", scaled(x, kRow), minus ? -1 : 1,
                           named(x.a, kRow), named(x.b, kColumn));
      case RuleCode::add_product:
        return fmt::format("add_product({}, {}, {})", scaled(x, layout),
                           minus ? fmt::format("neg({})", arg(x.a)) : arg(x.a), arg(x.b));
      default:  // product
        break;
    }
    const bool ta = transposed(x, RuleOperation::kTransposedA),
               tb = transposed(x, RuleOperation::kTransposedB);
    if (op.inner == 1) {
      if (x.shape.matrix()) return fmt::format("outer({}, {})", named(x.a, kRow), named(x.b, kColumn));
      return pair("mul");
    }
    if (x.shape.number()) {
      const unsigned in = summed_in(x);
      return fmt::format("sum(block, mul({}, {}))", named(x.a, in), named(x.b, in));
    }
    if (x.shape.vector()) {
      const int matrix = op.columns == 1 ? x.a : x.b, vector = op.columns == 1 ? x.b : x.a;
      if (x.native == kRow)
        return fmt::format("row_sums({}, {})", named(matrix, kRow), named(vector, kColumn));
      over_rows(x.shape.numbers());
      return fmt::format("column_sums(block, {}, {})", named(matrix, kRow), named(vector, kRow));
    }
    shared.stage = std::max(shared.stage, (op.rows + op.columns) * op.inner);
    return fmt::format("product<{}, {}, {}, {}, {}>(block, {}, {})", op.rows, op.columns, op.inner, ta, tb,
                       named(x.a, kRow), named(x.b, kRow));
  }

  std::vector<Node> nodes_;
  std::map<int, int> now_;  ///< by place: the value that stands there
};

}  // namespace crosstalk::source

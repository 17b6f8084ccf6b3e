// SPDX-License-Identifier: Apache-2.0
#include "kernels/law/rule_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <vector>

#include <rule_library.h>
#include "kernels/elementwise/elementwise.h"

namespace crosstalk {
namespace {

/// Layouts of a vector: along rows, along columns (rule_registers.cuh).
constexpr unsigned kRow = 1, kColumn = 2, kBoth = 3;
unsigned lowest(unsigned layouts) { return layouts & kRow ? kRow : kColumn; }
const char* suffix(unsigned layout) { return layout == kRow ? "_r" : "_c"; }

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

const char* end_of(const Shape& shape, unsigned layout) { return shape.vector() ? suffix(layout) : ""; }
/// f(layout, suffix) for each variable of a value: a vector has one in each of its layouts, others have one.
template <class F>
void each_layout(const Shape& shape, unsigned layouts, F&& f) {
  for (const unsigned layout : {kRow, kColumn}) {
    if ((shape.vector() ? layouts : kRow) & layout) f(layout, end_of(shape, layout));
  }
}

Shape shape_of(const RuleProgram::Input& x) {
  return x.rows > 1 ? Shape{x.rows, x.width / x.rows} : Shape{x.width, 1};
}

struct Grid {
  int row_threads = 8, column_threads = 4;
  int threads() const { return row_threads * column_threads; }
};

int power_above(int n) {
  int power = 1;
  while (power < n) power *= 2;
  return power;
}

/// Threads follow from the largest value: a thread has 32 numbers of it, so that small states need no more than a warp, and
/// fewer where so many values of this size are held at once that registers would not do. Eight are neighbours of a row.
Grid grid_of(const RuleProgram& program, bool backward) {
  int rows = 1, columns = 1;
  for (const RuleOperation& op : program.operations) {
    if (Shape{op.rows, op.columns}.matrix() && op.rows * op.columns > rows * columns)
      rows = op.rows, columns = op.columns;
  }
  if (rows == 1) return {1, 32};
  const int held = (backward ? program.backward_numbers : program.forward_numbers) / (rows * columns);
  int numbers = 32;
  while (numbers > 8 && numbers * held > 256) numbers /= 2;
  const int threads = std::clamp(power_above(rows * columns / numbers), 32, 512);
  const int column_threads = std::clamp(power_above((columns + 7) / 8), 2, 32);
  return {threads / column_threads, column_threads};
}

/// What a part finds where it begins.
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
const std::map<RuleCode, const char*> kPairs = {{RuleCode::add, "add"},     {RuleCode::sub, "sub"},
                                                {RuleCode::mul, "mul"},     {RuleCode::div, "div"},
                                                {RuleCode::max, "largest"}, {RuleCode::min, "smallest"}};
const std::map<int, const char*> kMaps = {{kRuleSqrt, "map_sqrt"},
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
                                          {static_cast<int>(MapKind::inverse), "map_inverse"}};

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
    for (std::size_t i = nodes_.size(); i-- > 0;) {
      if (nodes_[i].need && nodes_[i].op) spread(nodes_[i]);
    }
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
    for (int i : {x.a, x.b, x.c}) {
      if (i >= 0 && node(i).shape.vector()) out.push_back(i);
    }
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

  /// Of a sum of one number again and again: the number.
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
        if (x.shape.number()) {
          ask(x.a, summed_in(x)), ask(x.b, summed_in(x));
          return;
        }
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
        return fmt::format("eye<{}, {}>()", op.rows, op.columns);
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

/// The struct of one direction: a law's lasting values, and its parts.
class LawSource {
 public:
  LawSource(const RuleProgram& program, bool backward, const Grid& grid, Shared& shared)
      : program_(program), backward_(backward), grid_(grid), shared_(shared) {
    for (const RuleProgram::Constant& one : program.constants)
      literals_[one.place] = {{1, 1}, fmt::format("Real({:.17g})", one.value), true};
    for (std::size_t i = 0; i < program.states.size(); ++i) {
      const RuleProgram::State& one = program.states[i];
      lasting_[one.place] = {{one.rows, one.columns}, fmt::format("s{}", i)};
      states_.push_back(one.place);
      if (!backward) continue;
      const int gradient = program.state_gradient + one.place;
      lasting_[gradient] = {{one.rows, one.columns}, fmt::format("g{}", i)};
      state_gradients_.push_back(gradient);
    }
    for (std::size_t i = 0; i < program.sums.size() && backward; ++i) {
      const RuleProgram::State& one = program.sums[i];
      lasting_[one.place] = {{one.rows, one.columns}, fmt::format("m{}", i)};
      sums_.push_back(one.place);
    }
    for (std::size_t i = 0; i < program.inputs.size(); ++i) {
      const RuleProgram::Input& one = program.inputs[i];
      const Shape shape = shape_of(one);
      const char* group = one.per == RulePer::token ? "token." : one.per == RulePer::query ? "query." : "";
      inputs_[one.place] = {shape, fmt::format("{}x{}", group, i)};
      if (backward) lasting_[one.gradient] = {shape, fmt::format("d{}", i)};
    }
    make_parts();
    settle();
  }

  std::string text(const char* name) {
    std::string out = fmt::format("struct {} {{\n  static constexpr int size = {}, kept = {};\n", name,
                                  program_.size, program_.kept);
    out += "  struct Token {\n" + declared(RulePer::token) + "  };\n";
    out += "  struct Query {\n" + declared(RulePer::query) + "  };\n";
    out += "  const Place& at;\n  Block block;\n" + declared(RulePer::sequence, "  ");
    for (const auto& [place, leaf] : lasting_) out += declared(leaf, kept(place), "  ");
    out += "\n" + loads();
    for (Made& one : parts_) out += part_text(one);
    return out + "};\n";
  }

 private:
  struct Made {
    std::string head;
    PartSource source;
    std::vector<int> replaced;  ///< lasting places that the part writes
    int stored = -1;            ///< the place of what is read, stored to o
    bool reads_gradient = false;
  };

  static bool contains(const std::vector<int>& all, int place) {
    return std::find(all.begin(), all.end(), place) != all.end();
  }
  unsigned kept(int place) const {
    const auto it = kept_.find(place);
    return it == kept_.end() ? 0 : it->second;
  }
  std::map<int, Leaf> leaves(bool gradient_of_read) const {
    std::map<int, Leaf> all = literals_;
    all.insert(lasting_.begin(), lasting_.end());
    all.insert(inputs_.begin(), inputs_.end());
    if (gradient_of_read) all[program_.output_gradient] = {{program_.outputs, 1}, "d_o"};
    return all;
  }
  /// A part changes states, or gradients; where it has others' places, these hold what nobody wants any more.
  void add_part(const std::string& head, RuleProgram::Part part, bool changes_states, bool reads = false,
                bool gradient = false) {
    Made made{head, PartSource(program_, part, leaves(gradient)), {}, reads ? program_.output : -1, gradient};
    for (const auto& [place, leaf] : lasting_) {
      const bool state = contains(states_, place) || contains(sums_, place);
      if (state != changes_states) continue;
      if (made.source.value(place).op || made.source.value(place).place != place)
        made.replaced.push_back(place);
    }
    parts_.push_back(std::move(made));
  }
  void make_parts() {
    if (backward_) {
      add_part("start_again()", program_.start_again, true);
      add_part("step_again(const Token& token)", program_.step_again, true);
      add_part("read_back(const Query& query, int i)", program_.read_back, false, false, true);
      add_part("step_back(const Token& token)", program_.step_back, false);
      add_part("start_back()", program_.start_back, false);
    } else {
      add_part("start()", program_.start, true);
      add_part("step(const Token& token)", program_.step, true);
      add_part("read(const Query& query, int i)", program_.read, true, true);
    }
  }
  /// Layouts of lasting vectors and of inputs: those in which any part wants them.
  void settle() {
    for (bool changed = true; changed;) {
      changed = false;
      for (Made& one : parts_) {
        std::map<int, unsigned> wanted;
        for (int place : one.replaced) {
          const Node& value = one.source.value(place);
          unsigned& layouts = kept_[place];
          if (value.shape.vector() && !layouts) layouts = lowest(value.native), changed = true;
          wanted[place] = layouts;
        }
        if (one.stored >= 0) wanted[one.stored] = 0;
        one.source.want(wanted);
        for (const Node& node : one.source.nodes()) {
          if (node.op || node.place < 0 || !node.need) continue;
          unsigned& layouts = kept_[node.place];
          if ((layouts | node.need) != layouts) layouts |= node.need, changed = true;
        }
      }
    }
  }

  static std::string declared(const Leaf& leaf, unsigned layouts, const char* indent) {
    std::string out;
    each_layout(leaf.shape, layouts, [&](unsigned layout, const char* end) {
      out += fmt::format("{}{} {}{};\n", indent, leaf.shape.type(layout), leaf.name, end);
    });
    return out;
  }
  /// f(number, input, layouts) for the inputs of a kind that are looked at.
  template <class F>
  void each_input(RulePer per, F&& f) const {
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
      const RuleProgram::Input& one = program_.inputs[i];
      if (one.per == per) f(i, one, kept(one.place));
    }
  }
  std::string declared(RulePer per, const char* indent = "    ") const {
    std::string out;
    each_input(per, [&](std::size_t i, const RuleProgram::Input& one, unsigned layouts) {
      if (layouts) out += declared({shape_of(one), fmt::format("x{}", i)}, layouts, indent);
    });
    return out;
  }
  /// f(variable) for each variable of a value.
  template <class F>
  void each_variable(const std::string& name, Shape shape, unsigned layouts, F&& f) const {
    each_layout(shape, layouts, [&](unsigned, const char* end) { f(name + end); });
  }
  std::string one_variable(const std::string& name, Shape shape, unsigned layouts) const {
    return name + end_of(shape, lowest(layouts));
  }
  std::string load_inputs(RulePer per, const char* head, const char* from, const char* rows,
                          const char* n) const {
    std::string out = fmt::format("  DEVICE void {} {{\n", head);
    each_input(per, [&](std::size_t i, const RuleProgram::Input& one, unsigned layouts) {
      if (!layouts) return;
      each_variable(fmt::format("{}x{}", from, i), shape_of(one), layouts, [&](const std::string& x) {
        out += fmt::format("    load(at.value({}, {}, {}, {}), {});\n", i, rows, one.width, n, x);
      });
    });
    return out + "  }\n";
  }
  std::string store_gradients(RulePer per, const char* head, const char* rows, const char* n) const {
    std::string out = fmt::format("  DEVICE void {} {{\n", head);
    each_input(per, [&](std::size_t i, const RuleProgram::Input& one, unsigned) {
      const std::string to = fmt::format("at.gradient({}, {}, {}, {})", i, rows, one.width, n);
      const Shape shape = shape_of(one);
      const unsigned layouts = kept(one.gradient);
      const std::string from = shape.vector() && !layouts
                                   ? fmt::format("filled<{}>(0)", shape.type(kRow))
                                   : one_variable(fmt::format("d{}", i), shape, layouts);
      out += fmt::format("    if (at.a.inputs[{0}].gradient) store({1}, {2}, at.a.inputs[{0}].adds);\n", i,
                         to, from);
    });
    return out + "  }\n";
  }
  std::string loads() const {
    std::string out = load_inputs(RulePer::sequence, "begin()", "", "1", "0");
    out += load_inputs(RulePer::token, "token(Token& to, int t) const", "to.", "at.a.T", "t");
    out += load_inputs(RulePer::query, "query(Query& to, int i) const", "to.", "at.a.Q", "i");
    std::string keep, recall, end;
    for (std::size_t i = 0; i < states_.size(); ++i) {
      const Leaf& leaf = lasting_.at(states_[i]);
      const std::string one = one_variable(leaf.name, leaf.shape, kept(states_[i]));
      keep += fmt::format("    store(to + {}, {});\n", states_[i], one);
      each_variable(leaf.name, leaf.shape, kept(states_[i]), [&](const std::string& x) {
        recall += fmt::format("    load(from + {}, {});\n", states_[i], x);
      });
      end += fmt::format(
          "    if (at.a.ends[{0}].value) store(at.a.ends[{0}].value + at.r * at.a.ends[{0}].value_stride + "
          "at.item * {1}ll, {2});\n",
          i, leaf.shape.numbers(), one);
    }
    out += "  DEVICE void keep(Real* to) const {\n" + keep + "  }\n";
    if (!backward_) return out + "  DEVICE void end() const {\n" + end + "  }\n";
    out += "  DEVICE void recall(const Real* from) {\n" + recall + "  }\n";
    std::string keep_sums, recall_sums;
    for (int place : sums_) {
      const Leaf& leaf = lasting_.at(place);
      if (leaf.shape.vector() && !kept(place)) continue;  // nobody looks at it
      keep_sums +=
          fmt::format("    store(to + {}, {});\n", place, one_variable(leaf.name, leaf.shape, kept(place)));
      each_variable(leaf.name, leaf.shape, kept(place), [&](const std::string& x) {
        recall_sums += fmt::format("    load(from + {}, {});\n", place, x);
      });
    }
    out += "  DEVICE void keep_sums(Real* to) const {\n" + keep_sums + "  }\n";
    out += "  DEVICE void recall_sums(const Real* from) {\n" + recall_sums + "  }\n";
    out += "  DEVICE void begin_gradients() {\n";
    for (const auto& [place, leaf] : lasting_) {
      if (contains(states_, place) || contains(sums_, place)) continue;
      each_variable(leaf.name, leaf.shape, kept(place),
                    [&](const std::string& x) { out += fmt::format("    {0} = zero_like({0});\n", x); });
    }
    for (std::size_t i = 0; i < states_.size(); ++i) {
      const Leaf& leaf = lasting_.at(state_gradients_[i]);
      each_variable(leaf.name, leaf.shape, kept(state_gradients_[i]), [&](const std::string& x) {
        out += fmt::format(
            "    if (at.a.ends[{0}].gradient) load(at.a.ends[{0}].gradient + at.r * "
            "at.a.ends[{0}].gradient_stride + "
            "at.item * {1}ll, {2});\n",
            i, leaf.shape.numbers(), x);
      });
    }
    out += "  }\n";
    out += store_gradients(RulePer::token, "store_token(int t) const", "at.a.T", "t");
    out += store_gradients(RulePer::query, "store_query(int i) const", "at.a.Q", "i");
    return out + store_gradients(RulePer::sequence, "store_sequence() const", "1", "0");
  }

  std::string part_text(Made& one) {
    std::string out = fmt::format("  DEVICE void {} {{\n", one.head);
    if (one.reads_gradient) {
      unsigned need = 0;
      for (const Node& node : one.source.nodes()) {
        if (!node.op && node.place == program_.output_gradient) need = node.need;
      }
      const Leaf leaf{{program_.outputs, 1}, "d_o"};
      out += declared(leaf, need, "    ");
      each_variable("d_o", leaf.shape, need, [&](const std::string& x) {
        out += fmt::format("    load(at.d_o({}, i), {});\n", program_.outputs, x);
      });
    }
    out += one.source.text(shared_, grid_);
    // Values that stand elsewhere move together.
    std::string moved, put;
    for (int place : one.replaced) {
      const Node& value = one.source.value(place);
      const Leaf& leaf = lasting_.at(place);
      each_layout(value.shape, kept(place), [&](unsigned, const char* end) {
        moved += fmt::format("    const auto new_{0}{2} = {1}{2};\n", leaf.name, value.name, end);
        put += fmt::format("    {0}{1} = new_{0}{1};\n", leaf.name, end);
      });
    }
    out += moved + put;
    if (one.stored >= 0) {
      const Node& value = one.source.value(one.stored);
      out += fmt::format("    store(at.o({}, i), {});\n", program_.outputs,
                         one_variable(value.name, value.shape, value.need));
    }
    return out + "  }\n";
  }

  const RuleProgram& program_;
  const bool backward_;
  const Grid grid_;
  Shared& shared_;
  std::map<int, Leaf> literals_, lasting_, inputs_;  ///< by place
  std::vector<int> states_, sums_, state_gradients_;
  std::map<int, unsigned> kept_;  ///< layouts by place
  std::vector<Made> parts_;
};

/// What one direction is compiled as.
struct Direction {
  Grid grid;
  Shared shared;
  std::string text;
  int window = 0;
};

/// Tokens whose states, and sums, fit the shared memory of as many blocks as registers allow: about those of the matrices
/// that are held at once, and 54. Fewer than two: none.
int window_of(const RuleProgram& program, const Direction& made, bool wide, std::size_t shared) {
  const auto number = [&](int n) { return static_cast<std::size_t>(n) * (wide ? 8 : 4); };
  const int threads = made.grid.threads(), held = (program.backward_numbers + threads - 1) / threads;
  const int registers = std::min(255, (wide ? 2 : 1) * held + 54);
  const std::size_t each =
      shared / static_cast<std::size_t>(std::clamp(65536 / (registers * threads), 1, 32));
  const std::size_t own = 1024 + number(2 * made.shared.exchange + made.shared.stage + 8);
  if (each <= own) return 0;
  const auto window =
      static_cast<int>(std::min<std::size_t>((each - own) / number(program.size + program.kept), 8));
  return window < 2 ? 0 : window;
}

Direction direction_of(const RuleProgram& program, bool backward, bool wide, bool positions,
                       std::size_t available) {
  Direction out;
  out.grid = grid_of(program, backward);
  const std::string law = LawSource(program, backward, out.grid, out.shared).text("Law");
  const int exchange = (out.shared.exchange + 3) / 4 * 4;
  if (backward) out.window = window_of(program, out, wide, available);
  out.text = fmt::format(
      "#define CROSSTALK_REAL {}\n#define CROSSTALK_ROW_THREADS {}\n#define CROSSTALK_COLUMN_THREADS {}\n"
      "#define CROSSTALK_POSITIONS {}\n#define CROSSTALK_BEFORE {}\n#define CROSSTALK_WINDOW {}\n",
      wide ? "double" : "float", out.grid.row_threads, out.grid.column_threads, positions ? "true" : "false",
      program.before && !positions ? "true" : "false", out.window);
  out.text += fmt::format(R"({}
namespace crosstalk {{

{}
}}  // namespace crosstalk

using namespace crosstalk;
extern "C" __global__ void __launch_bounds__(kThreads) rule_walk(const __grid_constant__ Arguments a) {{
  __shared__ __align__(16) Real exchange[{}];
  __shared__ __align__(16) Real stage[{}];
  const Place at{{a, static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.x)}};
  Law law{{at, {{{{exchange, {}}}, stage}}}};
  {}(law, at);
}}
)",
                          kRuleLibrary, law, 2 * exchange, std::max(out.shared.stage, 1), exchange,
                          backward ? "walk_backward" : "walk_forward");
  return out;
}

}  // namespace

RuleSource rule_source(const RuleProgram& program, bool wide, bool positions, std::size_t shared) {
  RuleSource out;
  for (const RuleProgram::State& one : program.states) {
    if (one.numbers() > 128 * 128)
      out.refused = fmt::format("a state of {} x {} numbers fits no block's registers (at most 128 x 128)",
                                one.rows, one.columns);
  }
  if (!out.refused.empty()) return out;
  const auto whole = [](int place) { return place % 4 == 0; };  // what moves in accesses of four numbers
  if (!whole(program.size) || !std::all_of(program.states.begin(), program.states.end(),
                                           [&](const RuleProgram::State& one) { return whole(one.place); }))
    throw std::logic_error("[rule_source] states do not lie at multiples of four numbers");
  const Direction forward = direction_of(program, false, wide, positions, shared);
  const Direction backward = direction_of(program, true, wide, positions, shared);
  for (const Direction& one : {forward, backward}) {
    if ((2 * one.shared.exchange + one.shared.stage + 8) * (wide ? 8 : 4) > 48 * 1024)
      out.refused = "it multiplies or turns matrices that are too large for a block's shared memory";
  }
  if (!out.refused.empty()) return out;
  out.forward = forward.text, out.backward = backward.text;
  out.window = backward.window;
  out.window_bytes = static_cast<std::size_t>(out.window) *
                     static_cast<std::size_t>(program.size + program.kept) * (wide ? 8 : 4);
  out.forward_threads = forward.grid.threads(), out.backward_threads = backward.grid.threads();
  return out;
}

}  // namespace crosstalk

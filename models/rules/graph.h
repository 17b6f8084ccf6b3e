// The operations of a law as a graph: equal operations are one node.
//
// Rewrites by shape and structure alone keep a rank-one or diagonal factor from becoming a matrix:
//   A diag(a), diag(a) A      scale columns and rows
//   A (B + x y^T)             A B + (A x) y^T
//   s (A B)                   numbers meet each other first, then the smaller side
//   transposes                go to the leaves
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace crosstalk::rules {

/// Rows and columns: kK, kV, kM (4 K: hidden units) or a whole number. Compared by name, not by value.
inline constexpr int kK = -1, kV = -2, kM = -4;
template <class N>
constexpr N sized(int size, N K, N V) {
  return size == kK ? K : size == kV ? V : size == kM ? 4 * K : N{size};
}
struct Shape {
  int rows = 1, columns = 1;
  bool number() const { return rows == 1 && columns == 1; }
  bool vector() const { return columns == 1 && rows != 1; }
  Shape transposed() const { return {columns, rows}; }
  friend auto operator<=>(const Shape&, const Shape&) = default;
};
std::string size_text(int size);      ///< "K", "V", "6"
std::string shape_text(Shape shape);  ///< "a vector over K"
std::string sizes_text(Shape shape);  ///< "V, K"; "K" of a vector

enum class Kind {
  // leaves
  number,  ///< `value`, or the number called `name`
  ones,
  eye,
  given,  ///< q, k, v
  state,  ///< as it was before the token's step; in the reading: as it is then
  token,
  asking,
  parameter,
  input,  ///< of a program: what was worked out before; `name` says what
  // entry by entry
  add,
  sub,
  mul,
  div,
  max,
  min,
  neg,
  map,  ///< `name` says which
  // products
  matmul,
  transpose,
  columns,  ///< a diag(x)
  rows,     ///< diag(x) a: the args are a, x
  diag,
  diagonal,
  // of a whole value
  sum,
  fill,
  row_sums,
  softmax,
  unit,
  fit,      ///< a vector cut to another size, or filled with 0
  largest,  ///< the `value` largest entries of a vector, 0 in place of the others
  solve,    ///< x of A x = b, A symmetric and positive definite
};

inline bool is_learned_kind(Kind kind) {
  return kind == Kind::token || kind == Kind::asking || kind == Kind::parameter;
}

struct Node {
  Kind kind;
  std::vector<const Node*> args;
  double value = 0;
  std::string name;
  Shape shape;
  int id = 0, depth = 1;
  bool thin = false;  ///< a matrix that is never formed: of rank one, diagonal, or a sum of such
  bool is_leaf() const { return args.empty(); }
};
using Value = const Node*;

/// Shapes that do not fit, and perhaps what would be right; who catches it knows where.
struct ShapeRefused : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

class LawGraph {
 public:
  Value make(Kind kind, std::vector<Value> args, Shape shape, const std::string& name = "", double value = 0);
  Value number(double x) { return make(Kind::number, {}, {}, "", x == 0 ? 0 : x); }
  Value named_number(const std::string& name, double x) { return make(Kind::number, {}, {}, name, x); }
  Value leaf(Kind kind, const std::string& name, Shape shape) { return make(kind, {}, shape, name); }
  Value ones(Shape shape) { return shape.number() ? number(1) : make(Kind::ones, {}, shape); }
  Value eye(int n) { return make(Kind::eye, {}, {n, n}); }

  Value add(Value a, Value b) { return both(Kind::add, a, b, "+"); }
  Value sub(Value a, Value b) { return both(Kind::sub, a, b, "-"); }
  Value neg(Value a);
  Value mul(Value a, Value b);
  Value div(Value a, Value b);
  Value extreme(Kind kind, Value a, Value b) { return both(kind, a, b, kind == Kind::max ? "max" : "min"); }
  Value map(const std::string& f, Value a) { return make(Kind::map, {a}, a->shape, f); }
  Value transpose(Value a);
  Value product(Value a, Value b);
  Value columns(Value a, Value x);
  Value rows(Value a, Value x);
  Value diag(Value x);
  Value diagonal(Value a);
  Value sum(Value a) { return a->shape.number() ? a : make(Kind::sum, {a}, {}); }
  Value fill(Value a, Shape shape) { return shape.number() ? a : make(Kind::fill, {a}, shape); }
  Value row_sums(Value a);
  Value softmax(Value a);
  Value unit(Value a) { return make(Kind::unit, {a}, a->shape); }
  Value fit(Value a, int size);
  Value largest(Value a, int count);
  Value solve(Value a, Value b);
  Value norm(Value a) { return map("sqrt", sum(mul(a, a))); }
  Value mean(Value a) { return div(sum(a), sum(ones(a->shape))); }
  /// sqrt(|a|^2 + 1e-6): what unit divides by.
  Value length(Value a) { return map("sqrt", add(sum(mul(a, a)), number(1e-6))); }
  Value rms(Value a, Value eps);
  Value power(Value a, int n);
  /// The same operation of other arguments, as it is: no rewrites.
  Value with(Value a, std::vector<Value> args) {
    return args == a->args ? a : make(a->kind, std::move(args), a->shape, a->name, a->value);
  }
  /// The root with other nodes in place of some.
  Value replaced(Value root, std::map<Value, Value> made);
  /// Marks nodes from here on as an adjoint's, which may be deeper and larger than a law, and which nobody reads: what has been
  /// worked out is not worked out again transposed, and numbers come out of sums.
  void begin_adjoint() { adjoint_ = true, deepen(), transposed_.clear(); }
  bool adjoint() const { return adjoint_; }
  /// Operations that wait for each other may be many: in an adjoint, or where a memory's text repeats a step.
  void deepen() { deepest_ = 40 * kDeepest; }

 private:
  static constexpr int kDeepest = 400;
  int deepest_ = kDeepest;
  bool adjoint_ = false;
  Value both(Kind kind, Value a, Value b, const char* sign);
  Value made_product(Value a, Value b);
  Value made_transpose(Value a);
  using Key = std::tuple<Kind, std::vector<int>, double, std::string, Shape>;
  std::map<Key, Value> known_;
  /// What rewrites gave: a value that is used twice is walked once.
  std::map<std::pair<Value, Value>, Value> products_;
  std::map<Value, Value> transposed_;
  std::deque<Node> nodes_;
};

/// Nodes that the roots need, arguments first.
std::vector<Value> order(const std::vector<Value>& roots,
                         const std::function<std::vector<Value>(Value)>& parts = {});
/// Nodes of which `leaf` holds, or of one somewhere below.
std::set<Value> reaching(const std::vector<Value>& roots, const std::function<bool(Value)>& leaf);
bool holds(Value root, const std::function<bool(Value)>& leaf);
bool has_state(Value root);

bool is_map_of(Value node, const char* name);
/// a of sum(a) / sum(ones), of sum(a * a), of a / sqrt(mean(a * a) + eps) and of a - mean(a), or nullptr.
Value mean_of(Value node);
Value square_of(Value node);
Value rms_of(Value node);
Value centred_of(Value node);

/// Gradients of a sum of products (output, its gradient) by `wanted`, which are leaves to it; nullptr where
/// nothing depends.
/// They are nodes of the same graph, so they may be differentiated again.
std::vector<Value> gradients(LawGraph& graph, const std::vector<std::pair<Value, Value>>& outputs,
                             const std::vector<Value>& wanted);

/// Most operations of a law.
inline constexpr int kMostOperations = 2000;

}  // namespace crosstalk::rules

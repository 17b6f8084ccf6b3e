// Programs from nodes, run operation by operation: values and places against a walk over the nodes (walk.h).
// SPDX-License-Identifier: Apache-2.0
#include "models/rules/emit.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/rule/rule_execute.h"
#include "models/rules/walk.h"

namespace crosstalk::rules::emit_test {

constexpr int kKeys = 4, kValues = 3;
int size_of(int letter) { return sized(letter, kKeys, kValues); }

/// A team of one that goes from the last entry to the first: what reads a number after it was written over is wrong.
struct Backwards : law::Alone {
  void each(int n, auto&& f) const {
    for (int i = n; i-- > 0;) f(i);
  }
  template <class Real>
  void fill(int n, Real* y, auto&& f) const {
    each(n, [&](int i) { y[i] = f(i); });
  }
  template <class Real>
  void cells(int rows, int columns, Real* y, auto&& row) const {
    each(rows, [&](int i) {
      const auto f = row(i);
      fill(columns, y + i * columns, f);
    });
  }
  template <class Real>
  void entries(int rows, int columns, Real* y, auto&& f) const {
    cells(rows, columns, y, [&](int i) { return [i, &f](int j) { return f(i, j); }; });
  }
  template <class Real>
  void number(Real* y, Real x) const {
    *y = x;
  }
};

class EmittedPart : public ::testing::Test {
 protected:
  Value leaf(const std::string& name, Shape shape) {
    const Value x = g.leaf(Kind::input, name, shape);
    std::vector<double>& numbers = leaves_[name];
    numbers.resize(static_cast<std::size_t>(size_of(shape.rows) * size_of(shape.columns)));
    for (double& one : numbers) one = ++drawn_, one = std::sin(1.3 * drawn_ + 0.2 * drawn_ * drawn_);
    places_.of[x] = take(static_cast<int>(numbers.size()));
    return x;
  }
  /// Emits and runs; each output goes to the place of a leaf, whose numbers nobody wants then, or to one of its own.
  void expect(const std::vector<std::pair<Value, Value>>& outputs) {
    std::vector<Value> roots;
    for (const auto& [node, to] : outputs) {
      roots.push_back(node);
      if (to) places_.replaced.insert(to);
    }
    for (Value node : order(roots))
      if (node->kind == Kind::number) places_.constants.try_emplace(node->value, 0);
    places_.constants.try_emplace(0, 0), places_.constants.try_emplace(1, 0);
    for (auto& [x, place] : places_.constants) place = take(1);
    std::vector<std::pair<Value, int>> at;
    for (const auto& [node, to] : outputs)
      at.push_back(
          {node, to ? places_.of.at(to) : take(size_of(node->shape.rows) * size_of(node->shape.columns))});
    places_.first_temporary = take(1);
    program.operations.clear();
    const auto [part, end] = Emitter(program, places_, kKeys, kValues).emit(at);
    std::vector<double> memory(static_cast<std::size_t>(end), 1e300);
    for (const auto& [x, place] : places_.constants) memory[static_cast<std::size_t>(place)] = x;
    const auto numbers = [&](Value x) -> const std::vector<double>& { return leaves_.at(x->name); };
    for (const auto& [x, place] : places_.of)
      std::copy(numbers(x).begin(), numbers(x).end(), &memory[static_cast<std::size_t>(place)]);
    for (int i = part.first, alone = 0; i < part.first + part.count; ++i) {
      const RuleOperation& op = program.operations[static_cast<std::size_t>(i)];
      if (op.code == RuleCode::numbers) {
        alone = op.inner;
      } else if (alone-- > 0) {
        law::execute_number(op, memory.data());
      } else {
        law::execute(Backwards{}, op, memory.data());
      }
    }
    for (const auto& [node, place] : at)
      close(walked(node), &memory[static_cast<std::size_t>(place)], fmt::format("output at {}", place));
    for (const auto& [x, place] : places_.of)
      if (places_.replaced.count(x) == 0)
        close(numbers(x), &memory[static_cast<std::size_t>(place)], x->name + " stays");
    places_.replaced.clear(), places_.constants.clear();
  }
  std::vector<double> walked(Value node) const {
    Walk walk({node}, 1, kKeys, kValues);
    for (Value leaf : walk.leaves()) *walk.leaf(leaf) = leaves_.at(leaf->name);
    walk.run();
    return walk.of(node);
  }
  void close(const std::vector<double>& want, const double* got, const std::string& what) {
    for (std::size_t i = 0; i < want.size(); ++i)
      ASSERT_TRUE(std::abs(got[i] - want[i]) <= 1e-12 * (1 + std::abs(want[i])))
          << what << ", " << i << ": " << got[i] << ", not " << want[i];
  }
  std::string codes() const {
    std::string out;
    for (const RuleOperation& op : program.operations) {
      static const char* kNames[] = {
          "",         "add",         "sub",     "mul",  "div",         "max",       "min",
          "neg",      "map",         "copy",    "fill", "add_product", "add_outer", "eye",
          "product",  "transpose",   "columns", "rows", "diag",        "diagonal",  "sum",
          "row_sums", "column_sums", "softmax", "unit", "solve"};
      if (op.code != RuleCode::numbers) out += std::string(kNames[static_cast<int>(op.code)]) + " ";
    }
    return out.substr(0, out.size() - 1);
  }
  int take(int n) {
    const int at = aligned(next_);
    next_ = at + n;
    return at;
  }

  std::map<std::string, std::vector<double>> leaves_;
  Places places_;
  int next_ = 0, drawn_ = 0;
  LawGraph g;
  RuleProgram program;
  const Value a = leaf("a", {}), b = leaf("b", {}), k = leaf("k", {kK, 1}), w = leaf("w", {kK, 1}),
              v = leaf("v", {kV, 1}), S = leaf("S", {kV, kK}), P = leaf("P", {kV, kK}),
              M = leaf("M", {kK, kV}), r = leaf("r", {1, kK});
};

/// A number that fills a value is repeated by those who meet it entry by entry, and by nobody else.
TEST_F(EmittedPart, FillsAreNumbersOnlyToPairs) {
  const Value of_k = g.fill(a, {kK, 1}), of_S = g.fill(a, {kV, kK}), of_M = g.fill(a, {kK, kV});
  const auto expect_codes = [&](Value root, const std::string& want) {
    expect({{root, nullptr}});
    EXPECT_EQ(codes(), want);
  };
  expect_codes(g.add(of_k, k), "add");
  expect_codes(g.sub(of_S, S), "sub");
  expect_codes(g.extreme(Kind::max, k, of_k), "max");
  expect_codes(g.sum(g.mul(of_k, k)), "mul sum");
  expect_codes(g.sum(g.mul(k, of_k)), "mul sum");
  expect_codes(g.row_sums(g.mul(of_S, S)), "mul row_sums");
  expect_codes(g.row_sums(g.make(Kind::transpose, {g.mul(S, of_S)}, {kK, kV})), "mul column_sums");
  expect_codes(g.add(g.mul(of_k, k), w), "mul add");
  expect_codes(g.add(w, g.mul(k, of_k)), "mul add");
  expect_codes(g.add(of_k, g.mul(k, w)), "mul add");
  expect_codes(g.add(of_S, g.product(v, g.transpose(k))), "product add");
  expect_codes(g.add(g.mul(of_M, M), g.product(k, g.transpose(v))), "mul add_outer");
  // Wanted as so many numbers elsewhere too.
  expect_codes(g.product(S, of_k), "fill product");
  expect_codes(g.add(g.mul(of_k, k), g.transpose(g.product(g.transpose(of_k), g.product(k, g.transpose(w))))),
               "fill product mul add_product");
  expect_codes(g.mul(of_k, of_k), "fill mul");
  expect({{of_k, nullptr}, {g.mul(of_k, w), nullptr}});
}

TEST_F(EmittedPart, SumsTakeProductsThatNobodyElseWants) {
  const auto expect_codes = [&](Value root, const std::string& want) {
    expect({{root, nullptr}});
    EXPECT_EQ(codes(), want);
  };
  const Value turned = g.make(Kind::transpose, {S}, {kK, kV}), other = g.make(Kind::transpose, {P}, {kK, kV});
  const Value write = g.product(v, g.transpose(k));
  expect_codes(g.sum(g.mul(S, P)), "sum");
  expect_codes(g.sum(g.mul(g.transpose(k), r)), "sum");
  expect_codes(g.sum(g.mul(M, turned)), "transpose sum");
  expect_codes(g.row_sums(g.mul(S, P)), "row_sums");
  expect_codes(g.row_sums(g.mul(S, S)), "row_sums");
  expect_codes(g.row_sums(g.mul(turned, other)), "column_sums");
  expect_codes(g.row_sums(g.mul(turned, M)), "transpose row_sums");
  expect_codes(g.row_sums(turned), "column_sums");
  expect_codes(g.row_sums(g.make(Kind::transpose, {g.mul(S, P)}, {kK, kV})), "column_sums");
  expect_codes(g.add(k, g.mul(w, w)), "add_product");
  expect_codes(g.sub(k, g.mul(a, w)), "add_product");
  expect_codes(g.sub(g.mul(a, w), k), "mul sub");
  expect_codes(g.add(S, write), "add_outer");
  expect_codes(g.sub(write, S), "product sub");
  for (Value c : {g.mul(a, S), g.div(S, b)}) {
    expect_codes(g.add(c, write), "add_outer");
    expect_codes(g.add(write, c), "add_outer");
    expect_codes(g.sub(c, write), "add_outer");
    expect_codes(g.sub(c, g.mul(S, P)), "add_product");
    expect_codes(g.add(c, g.mul(b, P)), "add_product");
  }
  expect_codes(g.add(write, g.product(v, g.transpose(w))), "product add_outer");
  const Value shared = g.mul(k, w);
  expect_codes(g.add(g.sum(shared), g.sum(g.map("tanh", shared))), "mul sum map sum add");
  expect({{g.add(k, shared), nullptr}, {shared, nullptr}});
}

TEST_F(EmittedPart, ProductsTurnMatrices) {
  const Value turned = g.make(Kind::transpose, {S}, {kK, kV});
  for (Value root : {g.make(Kind::matmul, {turned, v}, {kK, 1}), g.make(Kind::matmul, {turned, P}, {kK, kK}),
                     g.make(Kind::matmul, {P, turned}, {kV, kV}), g.make(Kind::matmul, {r, turned}, {1, kV}),
                     g.make(Kind::matmul, {g.transpose(k), M}, {1, kV})}) {
    expect({{root, nullptr}});
    EXPECT_EQ(codes(), "product");
  }
  expect({{g.add(g.make(Kind::matmul, {turned, P}, {kK, kK}), g.make(Kind::matmul, {turned, S}, {kK, kK})),
           nullptr}});
  expect({{turned, M}, {g.make(Kind::matmul, {turned, v}, {kK, 1}), nullptr}});  // also an output
  expect({{g.add(turned, M), M}, {g.make(Kind::matmul, {turned, v}, {kK, 1}), nullptr}});
}

/// Values that replace what they are made of, and what others still want.
TEST_F(EmittedPart, StandOverWhatNobodyWantsAnyMore) {
  const Value write = g.product(v, g.transpose(k)), tanh = g.map("tanh", S);
  const int states = take(0);
  expect({{g.add(g.mul(a, S), write), S}});
  EXPECT_EQ(program.operations.back().y, program.operations.back().c);
  expect({{g.columns(S, k), S}});
  expect({{g.rows(tanh, g.product(S, k)), S}});                    // S again, behind its map
  expect({{g.add(tanh, S), S}, {g.product(S, k), v}});             // v is read by nobody
  expect({{g.product(S, k), v}, {g.add(S, g.product(v, r)), S}});  // v and S by each other
  expect({{g.product(S, g.product(M, S)), S}});                    // nowhere entry by entry
  expect({{g.neg(k), k}, {g.mul(k, w), w}, {g.add(k, w), nullptr}});
  expect({{g.columns(r, g.transpose(r)), r}});
  expect({{g.mul(a, b), a}, {g.add(a, b), b}});
  expect({{g.extreme(Kind::min, g.fill(g.sum(k), {kK, 1}), k), k}, {g.sum(w), a}});
  expect({{g.mul(g.sum(S), g.add(P, S)), P}, {g.make(Kind::softmax, {g.product(S, w)}, {kV, 1}), v}});
  EXPECT_GT(take(0), states);
}

/// Outputs that are leaves, or stand where others go.
TEST_F(EmittedPart, OutputsMoveOutOfEachOthersWay) {
  expect({{k, w}, {w, k}});
  expect({{S, P}, {P, S}, {g.make(Kind::transpose, {S}, {kK, kV}), M}});
  expect({{a, b}, {b, a}});
  expect({{k, w}, {w, nullptr}});
  expect({{k, w}, {k, nullptr}, {g.transpose(k), r}});
  expect({{g.transpose(r), k}, {g.transpose(k), r}});
  expect({{g.map("tanh", k), w}, {w, k}});
  expect({{g.map("tanh", k), w}, {g.map("tanh", k), k}});
  expect({{k, k}, {g.add(k, w), w}});
  const Value late = g.product(S, g.add(k, w));
  expect({{late, v}, {g.add(v, late), nullptr}, {w, k}, {k, w}});
}

}  // namespace crosstalk::rules::emit_test

// Chains of elementwise ops against their formulas, number by number.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise/map_chain.h"

#include <cmath>

#include "kernels/testing/op_fields.h"

namespace crosstalk::checks::map_chain_test {
namespace {

using Dims = std::vector<int>;

int size_of(const Dims& dims) {
  int n = 1;
  for (const int d : dims) n *= d;
  return n;
}
/// Number n of a tensor of `dims`, in one whose dimensions of 1 are repeated.
double at(const Numbers& x, const Dims& dims, const Dims& part, int n) {
  int index[4], place = 0;
  for (int d = 3; d >= 0; --d) index[d] = n % dims[std::size_t(d)], n /= dims[std::size_t(d)];
  for (int d = 0; d < 4; ++d)
    place = place * part[std::size_t(d)] + (part[std::size_t(d)] == 1 ? 0 : index[d]);
  return x[std::size_t(place)];
}
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
void divide_rows(Numbers& x, int D, double eps, bool mean) {
  for (std::size_t row = 0; row < x.size(); row += std::size_t(D)) {
    double squares = 0;
    for (int j = 0; j < D; ++j) squares += x[row + std::size_t(j)] * x[row + std::size_t(j)];
    for (int j = 0; j < D; ++j) x[row + std::size_t(j)] /= std::sqrt((mean ? squares / D : squares) + eps);
  }
}

/// A chain by its steps. `inputs`: w of the chain's shape, p so and positive, d a parameter of heads and columns, h a number a
/// head, c so and far from the others, f so and far from what it is compared with, r a number a row.
struct Steps {
  std::string name, inputs;
  std::vector<ChainStep> steps;
  std::vector<int> made;
  double condition = 16;
};
double mapped_here(const OperandMap& m, double x) {
  const auto f = [&] {
    switch (m.map) {
      case MapKind::exp:
        return std::exp(x);
      case MapKind::log:
        return std::log(x);
      case MapKind::sigmoid:
        return sigmoid(x);
      case MapKind::log_sigmoid:
        return std::log(sigmoid(x));
      case MapKind::softplus:
        return std::log1p(std::exp(x));
      case MapKind::tanh:
        return std::tanh(x);
      case MapKind::silu:
        return x * sigmoid(x);
      case MapKind::reciprocal:
        return 1 / x;
      case MapKind::softsign:
        return x / (1 + std::abs(x));
      default:
        return x;
    }
  };
  return m.scale * f() + m.shift;
}
OpCase chain_of(const Steps& chain, const Dims& dims, int terms) {
  const auto shape_of = [dims](char input) {
    return input == 'h' || input == 'c' || input == 'f' ? Dims{1, 1, dims[2], 1}
           : input == 'd'                               ? Dims{1, 1, dims[2], dims[3]}
           : input == 'r'                               ? Dims{dims[0], dims[1], dims[2], 1}
                                                        : dims;
  };
  OpCase op(chain.name);
  for (std::size_t i = 0; i < chain.inputs.size(); ++i)
    op.input(fmt::format("x{}", i), shape_of(chain.inputs[i]),
             chain.inputs[i] == 'p' || chain.inputs[i] == 'r' ? uniform(0.5, 2)
             : chain.inputs[i] == 'c'                         ? uniform(2, 3)
             : chain.inputs[i] == 'f'
                 ? Fill([](RandomStream&, int, std::int64_t n) { return n % 2 == 0 ? -4.0 : 3.0; })
                 : normal());
  for (std::size_t o = 0; o < chain.made.size(); ++o) op.output(fmt::format("y{}", o), dims);
  call_planned<MapChain>(op, [=](auto& o) {
    o.inputs = static_cast<int>(chain.inputs.size()), o.outputs = static_cast<int>(chain.made.size());
    o.steps = static_cast<int>(chain.steps.size());
    std::copy_n(dims.begin(), 4, o.dims);
    std::copy(chain.steps.begin(), chain.steps.end(), o.step);
    std::copy(chain.made.begin(), chain.made.end(), o.made_by);
  });
  op.oracle([=](const Values& in, Values& out) {
    const int size = static_cast<int>(size_of(dims)), D = dims[3];
    std::vector<Numbers> all;
    for (std::size_t i = 0; i < chain.inputs.size(); ++i) {
      all.emplace_back();
      for (int n = 0; n < size; ++n)
        all.back().push_back(at(in[fmt::format("x{}", i)], dims, shape_of(chain.inputs[i]), n));
    }
    for (const ChainStep& step : chain.steps) {
      Numbers y;
      for (int n = 0; n < size; ++n) {
        const auto number = static_cast<std::size_t>(n);
        const auto one = [&](int m) {
          return mapped_here(step.of_a, all[std::size_t(step.a)][static_cast<std::size_t>(m)]);
        };
        const double a = one(n), b = mapped_here(step.of_b, all[std::size_t(step.b)][number]);
        double sum = 0;
        for (int m = n / D * D, end = m + D; m < end; ++m) sum += one(m);
        y.push_back(step.kind == ChainKind::add        ? step.scale_a * a + step.scale_b * b
                    : step.kind == ChainKind::multiply ? a * b
                    : step.kind == ChainKind::larger   ? std::max(std::abs(a), std::abs(b))
                    : step.kind == ChainKind::row_sum  ? sum
                                                       : a);
      }
      if (step.kind == ChainKind::l2 || step.kind == ChainKind::rms)
        divide_rows(y, D, step.eps, step.kind == ChainKind::rms);
      all.push_back(y);
    }
    for (std::size_t o = 0; o < chain.made.size(); ++o)
      out.real[fmt::format("y{}", o)] = all[static_cast<std::size_t>(chain.made[o])];
  });
  return op.roundings(terms).condition(chain.condition).gradient_elements(60);
}
const OperandMap kOpen{MapKind::sigmoid, 1, 0}, kInverse{MapKind::reciprocal, 1, 0};
ChainStep l2(int a) { return {.kind = ChainKind::l2, .a = a, .eps = 0.01}; }
ChainStep map(int a, OperandMap f) { return {.kind = ChainKind::map, .a = a, .of_a = f}; }
ChainStep multiply(int a, int b, OperandMap f = {}, OperandMap g = {}) {
  return {.kind = ChainKind::multiply, .a = a, .b = b, .of_a = f, .of_b = g};
}
ChainStep less(int a, int b, OperandMap f = {}) {
  return {.kind = ChainKind::add, .a = a, .b = b, .of_a = f, .scale_b = -1};
}

/// A sum with what stands beside every row and every head, the larger of two, a number squared, and rows of one mean square.
OpCase mixture(const std::string& name, const Dims& dims, int terms) {
  return chain_of({name,
                   "wrfw",
                   {{.kind = ChainKind::add, .a = 0, .b = 1, .of_b = {MapKind::tanh, 2, 0}, .scale_b = -0.5},
                    map(2, {MapKind::exp, 1, 0}),
                    multiply(4, 4),
                    {.kind = ChainKind::rms, .a = 6, .of_a = {MapKind::silu, 1, 0.5}, .eps = 0.1},
                    {.kind = ChainKind::larger, .a = 7, .b = 5},
                    {.kind = ChainKind::row_sum, .a = 8, .of_a = {MapKind::affine, 0.25, 0}},
                    multiply(9, 3)},
                   {8, 10}},
                  dims, terms);
}

/// One step alone, of rows: known to the compiler.
OpCase one_step(const std::string& name, const Dims& dims, ChainKind kind, OperandMap f, int terms) {
  return chain_of({name, "w", {{.kind = kind, .of_a = f, .eps = 0.01}}, {1}, 8}, dims, terms);
}
/// The gates of RWKV-7: decays, kappa, written keys and rate * kappa, of keys, two projections and two parameters.
OpCase gates(const std::string& name, const Dims& dims, int terms) {
  return chain_of({name,
                   "wdwwd",
                   {map(2, {MapKind::sigmoid, -0.6, 0}), multiply(0, 1), l2(6), map(3, kOpen),
                    multiply(8, 4, {MapKind::affine, 1, -1}), multiply(0, 9, {}, {MapKind::affine, 1, 1}),
                    multiply(8, 7)},
                   {5, 7, 10, 11},
                   8},
                  dims, terms);
}
/// Directions along which RWKV-7 erases, and keys: gates() without decays.
OpCase keys(const std::string& name, const Dims& dims, int terms) {
  return chain_of({name,
                   "wdwd",
                   {multiply(0, 1), l2(4), map(2, kOpen), multiply(6, 3, {MapKind::affine, 1, -1}),
                    multiply(0, 7, {}, {MapKind::affine, 1, 1}), multiply(6, 5)},
                   {5, 8, 9},
                   8},
                  dims, terms);
}
/// Two numbers a head and token, as Mamba-2 makes them of one projection and one rate a head.
OpCase steps(const std::string& name, const Dims& dims, int terms) {
  return chain_of({name,
                   "wh",
                   {map(0, {MapKind::softplus, 1, 0}), map(1, {MapKind::exp, 1, 0}),
                    multiply(3, 2, {MapKind::affine, -1, 0})},
                   {2, 4},
                   8},
                  dims, terms);
}
/// Decays of key channels as KDA makes them of one projection and one rate a head, or a channel.
OpCase decays(const std::string& name, const Dims& dims, bool of_heads, int terms) {
  return chain_of({name,
                   of_heads ? "wh" : "wd",
                   {multiply(1, 0, {MapKind::exp, -0.5, 0}, {MapKind::softplus, 1, 0})},
                   {2},
                   8},
                  dims, terms);
}
/// RWKV-6's bonus: o + v ((q * u) . k), a sum over a row.
OpCase bonus(const std::string& name, const Dims& dims, int terms) {
  return chain_of({name,
                   "dwwww",
                   {multiply(0, 1),
                    multiply(2, 5),
                    {.kind = ChainKind::row_sum, .a = 6},
                    multiply(7, 3),
                    {.kind = ChainKind::add, .a = 4, .b = 8}},
                   {9}},
                  dims, terms);
}
/// A number through two maps, both of which are given; or rows of one length times a gate (l2).
OpCase two_steps(const std::string& name, const Dims& dims, bool of_rows, int terms) {
  if (of_rows) return chain_of({name, "ww", {l2(0), multiply(1, 2, kOpen)}, {2, 3}, 8}, dims, terms);
  return chain_of(
      {name, "w", {map(0, {MapKind::log_sigmoid, 1, 0}), map(1, {MapKind::exp, -1, 1})}, {1, 2}, 8}, dims,
      terms);
}

std::vector<OpCase> of_memories(const Dims& dims, int terms) {
  const std::vector<Steps> all = {
      {"RowsOfOneNumber", "r", {map(0, {MapKind::affine, 2, 1})}, {1}},
      {"Feedback", "whhw", {l2(0), multiply(1, 4, kOpen), multiply(2, 5), l2(3), less(7, 6)}, {4, 5, 8}},
      {"FeedbackKeys", "wh", {l2(0), multiply(1, 2, kOpen)}, {2, 3}},
      {"Corrected", "whw", {l2(0), multiply(1, 2), less(3, 4)}, {5}},
      {"Squares", "wr", {l2(0), multiply(2, 2), multiply(1, 3, kOpen)}, {2, 4}},
      {"Preconditioned",
       "pcw",
       {map(0, {MapKind::affine, 1, 0.01}), less(3, 1, {MapKind::log, 1, 0}),
        map(4, {MapKind::softsign, -0.4, 0}), multiply(5, 2, {MapKind::exp, 1, 0})},
       {6}},
      {"ScaledAndWritten", "wr", {map(0, {MapKind::affine, 0.125, 0}), multiply(1, 2)}, {2, 3}},
      {"AtLeast",
       "wwrw",
       {multiply(0, 1),
        {.kind = ChainKind::row_sum, .a = 4},
        {.kind = ChainKind::larger, .a = 5, .b = 2},
        multiply(3, 6, {}, kInverse)},
       {7}},
      {"Divided",
       "ppw",
       {multiply(0, 1),
        {.kind = ChainKind::row_sum, .a = 3},
        map(4, {MapKind::affine, 1, 0.01}),
        multiply(2, 5, {}, kInverse)},
       {6}}};
  std::vector<OpCase> cases;
  for (Steps chain : all) {
    if (dims[1] > 10) chain.name += "Large";
    cases.push_back(chain_of(chain, dims, terms));
  }
  return cases;
}

std::vector<OpCase> with(std::vector<OpCase> some, const std::vector<OpCase>& more) {
  some.insert(some.end(), more.begin(), more.end());
  return some;
}

std::vector<OpCase> cases() {
  return {one_step("SiluOfRows", {1, 3, 2, 16}, ChainKind::l2, {MapKind::silu, 1, 0}, 60),
          one_step("Affine", {1, 3, 2, 4}, ChainKind::map, {MapKind::affine, -0.5, 2}, 20),
          decays("Decays", {1, 3, 2, 16}, true, 60),
          keys("Keys", {1, 3, 2, 16}, 60),
          bonus("Bonus", {1, 3, 2, 16}, 60),
          two_steps("ForgetAndInput", {1, 3, 2, 16}, false, 60),
          two_steps("GatedRows", {1, 3, 2, 16}, true, 60),
          gates("Gates", {2, 3, 2, 8}, 60),
          gates("GatesOfLongRows", {1, 5, 1, 64}, 100),
          mixture("Mixture", {2, 3, 2, 4}, 60),
          mixture("MixtureOfLongRows", {2, 5, 3, 32}, 120),
          steps("StepsOfHeads", {2, 6, 2, 1}, 40),
          steps("StepsOfThreeHeads", {4, 5, 3, 1}, 80)};
}
/// Several blocks, several turns of a block, spans that leave threads idle.
std::vector<OpCase> large() {
  return {one_step("SiluOfManyRows", {3, 704, 2, 64}, ChainKind::l2, {MapKind::silu, 1, 0}, 400),
          one_step("LongRows", {5, 64, 1, 128}, ChainKind::l2, {MapKind::affine, 1, 0}, 600),
          one_step("RowsOfEight", {4, 68, 4, 8}, ChainKind::l2, {MapKind::affine, 2, 0}, 100),
          one_step("Affine", {5, 70, 2, 64}, ChainKind::map, {MapKind::affine, -0.5, 2}, 20),
          one_step("Exp", {5, 70, 2, 64}, ChainKind::map, {MapKind::exp, -1, 0}, 40),
          one_step("Sigmoid", {5, 70, 2, 64}, ChainKind::map, {MapKind::sigmoid, -0.6, 0}, 40),
          one_step("LogSigmoid", {5, 70, 2, 64}, ChainKind::map, {MapKind::log_sigmoid, 0.0625, 0}, 40),
          one_step("Tanh", {5, 70, 2, 64}, ChainKind::map, {MapKind::tanh, 1, 0}, 40),
          one_step("Silu", {5, 70, 2, 64}, ChainKind::map, {MapKind::silu, 1, 0}, 40),
          one_step("SiluOfBrokenWarps", {3, 70, 2, 20}, ChainKind::map, {MapKind::silu, 2, 0.5}, 60),
          decays("DecaysOfHeads", {4, 150, 2, 64}, true, 800),
          decays("DecaysOfChannels", {4, 150, 2, 64}, false, 800),
          decays("DecaysOfThreeHeads", {4, 64, 3, 64}, true, 3000),
          keys("KeysOfManyTokens", {4, 1060, 2, 64}, 5000),
          bonus("BonusOfManyTokens", {4, 110, 2, 64}, 800),
          two_steps("ForgetAndInputOfManyTokens", {4, 110, 2, 64}, false, 100),
          two_steps("GatedRowsOfManyTokens", {4, 110, 2, 64}, true, 400),
          gates("GatesOfManyTokens", {4, 300, 2, 64}, 2000),
          gates("GatesOfThreeHeads", {3, 70, 3, 16}, 600),
          gates("GatesOfManyBlocks", {4, 1200, 2, 64}, 5000),
          mixture("MixtureOfManyTokens", {5, 90, 2, 128}, 2000),
          mixture("MixtureOfShortRows", {5, 90, 6, 4}, 600),
          steps("StepsOfManyTokens", {64, 1025, 2, 1}, 70000),
          steps("StepsOfManyHeads", {3, 100, 25, 1}, 600)};
}

INSTANTIATE_TEST_SUITE_P(MapChain, OpCheck,
                         ::testing::ValuesIn(with(cases(), of_memories({2, 3, 2, 16}, 100))), case_name);
INSTANTIATE_TEST_SUITE_P(MapChain, CudaOpCheck,
                         ::testing::ValuesIn(with(large(), of_memories({4, 300, 2, 64}, 3000))), case_name);

TEST(MapChain, SaysWhatCudaDoesNotCover) {
  MapChain<float> op;
  op.inputs = 1, op.outputs = 1, op.steps = 1, op.made_by[0] = 1;
  const auto covered = [&](const Dims& dims, const Dims& x, ChainKind kind) {
    std::copy_n(dims.begin(), 4, op.dims);
    op.x[0].value = shaped<float>(1, {x[0], x[1], x[2], x[3]});
    op.step[0].kind = kind;
    return op.covers();
  };
  EXPECT_TRUE(covered({2, 3, 2, 64}, {2, 3, 2, 64}, ChainKind::l2));
  EXPECT_TRUE(covered({2, 3, 2, 6}, {2, 3, 2, 6}, ChainKind::map));
  EXPECT_FALSE(covered({2, 3, 2, 6}, {2, 3, 2, 6}, ChainKind::l2));       // lanes would share fours
  EXPECT_TRUE(covered({2, 3, 2, 256}, {2, 3, 2, 256}, ChainKind::l2));    // known: eight numbers a lane
  EXPECT_FALSE(covered({2, 3, 2, 256}, {2, 3, 2, 256}, ChainKind::rms));  // a row is more than a warp
  EXPECT_FALSE(covered({1, 3, 1, 3}, {1, 3, 1, 3}, ChainKind::map));      // no fours
  EXPECT_FALSE(covered({2, 3, 2, 64}, {1, 3, 2, 64}, ChainKind::map));    // repeated over sequences alone
  EXPECT_FALSE(covered({2, 2, 40, 64}, {1, 1, 40, 64}, ChainKind::map));  // a token is more than a block has
}

}  // namespace
}  // namespace crosstalk::checks::map_chain_test

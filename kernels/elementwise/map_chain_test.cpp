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

/// The gates of RWKV-7: decays, kappa, written keys and rate * kappa, of keys, two projections and two parameters.
OpCase gates(const std::string& name, const Dims& dims, int terms) {
  const Dims heads = {1, 1, dims[2], dims[3]};
  OpCase op(name);
  op.input("x0", dims, normal()).input("x1", heads, normal()).input("x2", dims, normal());
  op.input("x3", dims, normal()).input("x4", heads, normal());
  for (const char* y : {"y0", "y1", "y2", "y3"}) op.output(y, dims);
  call_planned<MapChain>(op, [=](auto& o) {
    o.inputs = 5, o.outputs = 4, o.steps = 7;
    std::copy_n(dims.begin(), 4, o.dims);
    o.step[0] = {.kind = ChainKind::map, .a = 2, .of_a = {MapKind::sigmoid, -0.6, 0}};
    o.step[1] = {.kind = ChainKind::multiply, .a = 0, .b = 1};
    o.step[2] = {.kind = ChainKind::l2, .a = 6, .eps = 0.01};
    o.step[3] = {.kind = ChainKind::map, .a = 3, .of_a = {MapKind::sigmoid, 1, 0}};
    o.step[4] = {.kind = ChainKind::multiply, .a = 8, .b = 4, .of_a = {MapKind::affine, 1, -1}};
    o.step[5] = {.kind = ChainKind::multiply, .a = 0, .b = 9, .of_b = {MapKind::affine, 1, 1}};
    o.step[6] = {.kind = ChainKind::multiply, .a = 8, .b = 7};
    o.made_by[0] = 5, o.made_by[1] = 7, o.made_by[2] = 10, o.made_by[3] = 11;
  });
  op.oracle([=](const Values& in, Values& out) {
    Numbers &decay = out.real["y0"], &kappa = out.real["y1"], &key = out.real["y2"], &erased = out.real["y3"];
    for (int n = 0; n < size_of(dims); ++n) {
      const double k = in["x0"][std::size_t(n)], rate = sigmoid(in["x3"][std::size_t(n)]);
      decay.push_back(-0.6 * sigmoid(in["x2"][std::size_t(n)]));
      kappa.push_back(k * at(in["x1"], dims, heads, n));
      key.push_back(k * (1 + (rate - 1) * at(in["x4"], dims, heads, n)));
      erased.push_back(rate);
    }
    divide_rows(kappa, dims[3], 0.01, false);
    for (std::size_t n = 0; n < kappa.size(); ++n) erased[n] *= kappa[n];
  });
  return op.roundings(terms).condition(8).gradient_elements(60);
}

/// A sum with what stands beside every row and every head, the larger of two, a number squared, and rows of one mean square.
OpCase mixture(const std::string& name, const Dims& dims, int terms) {
  const Dims of_rows = {dims[0], dims[1], dims[2], 1}, of_heads = {1, 1, dims[2], 1};
  OpCase op(name);
  op.input("x0", dims, normal())
      .input("x1", of_rows, normal())
      .input("x2", of_heads, [](RandomStream&, int, std::int64_t i) {
        return i % 2 == 0 ? -4.0 : 3.0;  // far from what it is compared with
      });
  op.input("x3", dims, normal()).output("y0", dims).output("y1", dims);
  call_planned<MapChain>(op, [=](auto& o) {
    o.inputs = 4, o.outputs = 2, o.steps = 7;
    std::copy_n(dims.begin(), 4, o.dims);
    o.step[0] = {.kind = ChainKind::add, .a = 0, .b = 1, .of_b = {MapKind::tanh, 2, 0}, .scale_b = -0.5};
    o.step[1] = {.kind = ChainKind::map, .a = 2, .of_a = {MapKind::exp, 1, 0}};
    o.step[2] = {.kind = ChainKind::multiply, .a = 4, .b = 4};
    o.step[3] = {.kind = ChainKind::rms, .a = 6, .of_a = {MapKind::silu, 1, 0.5}, .eps = 0.1};
    o.step[4] = {.kind = ChainKind::larger, .a = 7, .b = 5};
    o.step[5] = {.kind = ChainKind::row_sum, .a = 8, .of_a = {MapKind::affine, 0.25, 0}};
    o.step[6] = {.kind = ChainKind::multiply, .a = 9, .b = 3};
    o.made_by[0] = 8, o.made_by[1] = 10;
  });
  op.oracle([=](const Values& in, Values& out) {
    Numbers &larger = out.real["y0"], &y = out.real["y1"];
    for (int n = 0; n < size_of(dims); ++n) {
      const double sum = in["x0"][std::size_t(n)] - std::tanh(at(in["x1"], dims, of_rows, n));
      larger.push_back(sum * sum * sigmoid(sum * sum) + 0.5);
    }
    divide_rows(larger, dims[3], 0.1, true);
    for (int n = 0; n < size_of(dims); ++n) {
      double& one = larger[std::size_t(n)];
      one = std::max(std::abs(one), std::exp(at(in["x2"], dims, of_heads, n)));
    }
    for (std::size_t n = 0, D = std::size_t(dims[3]); n < larger.size(); ++n) {
      double sum = 0;
      for (std::size_t j = 0; j < D; ++j) sum += larger[n / D * D + j];
      y.push_back(0.25 * sum * in["x3"][n]);
    }
  });
  return op.roundings(terms).condition(16).gradient_elements(60);
}

/// Two numbers a head and token, as Mamba-2 makes them of one projection and one rate a head.
OpCase steps(const std::string& name, const Dims& dims, int terms) {
  const Dims heads = {1, 1, dims[2], 1};
  OpCase op(name);
  op.input("x0", dims, normal()).input("x1", heads, normal()).output("y0", dims).output("y1", dims);
  call_planned<MapChain>(op, [=](auto& o) {
    o.inputs = 2, o.outputs = 2, o.steps = 3;
    std::copy_n(dims.begin(), 4, o.dims);
    o.step[0] = {.kind = ChainKind::map, .a = 0, .of_a = {MapKind::softplus, 1, 0}};
    o.step[1] = {.kind = ChainKind::map, .a = 1, .of_a = {MapKind::exp, 1, 0}};
    o.step[2] = {.kind = ChainKind::multiply, .a = 3, .b = 2, .of_a = {MapKind::affine, -1, 0}};
    o.made_by[0] = 2, o.made_by[1] = 4;
  });
  op.oracle([=](const Values& in, Values& out) {
    for (int n = 0; n < size_of(dims); ++n) {
      const double step = std::log1p(std::exp(in["x0"][std::size_t(n)]));
      out.real["y0"].push_back(step);
      out.real["y1"].push_back(-std::exp(at(in["x1"], dims, heads, n)) * step);
    }
  });
  return op.roundings(terms).condition(8).gradient_elements(60);
}

/// One step alone, of rows: known to the compiler.
OpCase one_step(const std::string& name, const Dims& dims, ChainKind kind, OperandMap map, int terms) {
  OpCase op(name);
  op.input("x0", dims, normal()).output("y0", dims);
  call_planned<MapChain>(op, [=](auto& o) {
    o.inputs = o.outputs = o.steps = 1, o.made_by[0] = 1;
    std::copy_n(dims.begin(), 4, o.dims);
    o.step[0] = {.kind = kind, .of_a = map, .eps = 0.01};
  });
  op.oracle([=](const Values& in, Values& out) {
    for (const double x : in["x0"]) out.real["y0"].push_back(Mapping<double>(map).value(x));
    if (kind != ChainKind::map) divide_rows(out.real["y0"], dims[3], 0.01, kind == ChainKind::rms);
  });
  return op.roundings(terms).condition(8).gradient_elements(60);
}

/// Decays of key channels as KDA makes them of one projection and one rate a head, or a channel.
OpCase decays(const std::string& name, const Dims& dims, bool of_heads, int terms) {
  const Dims rates = {1, 1, dims[2], of_heads ? 1 : dims[3]};
  OpCase op(name);
  op.input("x0", dims, normal()).input("x1", rates, normal()).output("y0", dims);
  call_planned<MapChain>(op, [=](auto& o) {
    o.inputs = 2, o.outputs = 1, o.steps = 1, o.made_by[0] = 2;
    std::copy_n(dims.begin(), 4, o.dims);
    o.step[0] = {.kind = ChainKind::multiply,
                 .a = 1,
                 .b = 0,
                 .of_a = {MapKind::exp, -0.5, 0},
                 .of_b = {MapKind::softplus, 1, 0}};
  });
  op.oracle([=](const Values& in, Values& out) {
    for (int n = 0; n < size_of(dims); ++n)
      out.real["y0"].push_back(-0.5 * std::exp(at(in["x1"], dims, rates, n)) *
                               std::log1p(std::exp(in["x0"][std::size_t(n)])));
  });
  return op.roundings(terms).condition(8).gradient_elements(60);
}

/// Directions along which RWKV-7 erases, and keys: gates() without decays.
OpCase keys(const std::string& name, const Dims& dims, int terms) {
  const Dims heads = {1, 1, dims[2], dims[3]};
  OpCase op(name);
  op.input("x0", dims, normal()).input("x1", heads, normal()).input("x2", dims, normal());
  op.input("x3", heads, normal());
  for (const char* y : {"y0", "y1", "y2"}) op.output(y, dims);
  call_planned<MapChain>(op, [=](auto& o) {
    o.inputs = 4, o.outputs = 3, o.steps = 6;
    std::copy_n(dims.begin(), 4, o.dims);
    o.step[0] = {.kind = ChainKind::multiply, .a = 0, .b = 1};
    o.step[1] = {.kind = ChainKind::l2, .a = 4, .eps = 0.01};
    o.step[2] = {.kind = ChainKind::map, .a = 2, .of_a = {MapKind::sigmoid, 1, 0}};
    o.step[3] = {.kind = ChainKind::multiply, .a = 6, .b = 3, .of_a = {MapKind::affine, 1, -1}};
    o.step[4] = {.kind = ChainKind::multiply, .a = 0, .b = 7, .of_b = {MapKind::affine, 1, 1}};
    o.step[5] = {.kind = ChainKind::multiply, .a = 6, .b = 5};
    o.made_by[0] = 5, o.made_by[1] = 8, o.made_by[2] = 9;
  });
  op.oracle([=](const Values& in, Values& out) {
    Numbers &kappa = out.real["y0"], &key = out.real["y1"], &erased = out.real["y2"];
    for (int n = 0; n < size_of(dims); ++n) {
      const double k = in["x0"][std::size_t(n)], rate = sigmoid(in["x2"][std::size_t(n)]);
      kappa.push_back(k * at(in["x1"], dims, heads, n));
      key.push_back(k * (1 + (rate - 1) * at(in["x3"], dims, heads, n)));
      erased.push_back(rate);
    }
    divide_rows(kappa, dims[3], 0.01, false);
    for (std::size_t n = 0; n < kappa.size(); ++n) erased[n] *= kappa[n];
  });
  return op.roundings(terms).condition(8).gradient_elements(60);
}

/// RWKV-6's bonus: o + v ((q * u) . k), a sum over a row.
OpCase bonus(const std::string& name, const Dims& dims, int terms) {
  const Dims heads = {1, 1, dims[2], dims[3]};
  OpCase op(name);
  op.input("x0", heads, normal());
  for (const char* x : {"x1", "x2", "x3", "x4"}) op.input(x, dims, normal());
  op.output("y0", dims);
  call_planned<MapChain>(op, [=](auto& o) {
    o.inputs = 5, o.outputs = 1, o.steps = 5, o.made_by[0] = 9;
    std::copy_n(dims.begin(), 4, o.dims);
    o.step[0] = {.kind = ChainKind::multiply, .a = 0, .b = 1};
    o.step[1] = {.kind = ChainKind::multiply, .a = 2, .b = 5};
    o.step[2] = {.kind = ChainKind::row_sum, .a = 6};
    o.step[3] = {.kind = ChainKind::multiply, .a = 7, .b = 3};
    o.step[4] = {.kind = ChainKind::add, .a = 4, .b = 8};
  });
  op.oracle([=](const Values& in, Values& out) {
    for (int n = 0; n < size_of(dims); ++n) {
      double sum = 0;
      for (int m = n / dims[3] * dims[3], end = m + dims[3]; m < end; ++m)
        sum += at(in["x0"], dims, heads, m) * in["x1"][std::size_t(m)] * in["x2"][std::size_t(m)];
      out.real["y0"].push_back(in["x4"][std::size_t(n)] + sum * in["x3"][std::size_t(n)]);
    }
  });
  return op.roundings(terms).condition(16).gradient_elements(60);
}

/// A number through two maps, both of which are given; or rows of one length times a gate (l2).
OpCase two_steps(const std::string& name, const Dims& dims, bool l2, int terms) {
  OpCase op(name);
  op.input("x0", dims, normal());
  if (l2) op.input("x1", dims, normal());
  op.output("y0", dims).output("y1", dims);
  call_planned<MapChain>(op, [=](auto& o) {
    o.inputs = l2 ? 2 : 1, o.outputs = o.steps = 2;
    std::copy_n(dims.begin(), 4, o.dims);
    if (l2) {
      o.step[0] = {.kind = ChainKind::l2, .a = 0, .eps = 0.01};
      o.step[1] = {.kind = ChainKind::multiply, .a = 1, .b = 2, .of_a = {MapKind::sigmoid, 1, 0}};
    } else {
      o.step[0] = {.kind = ChainKind::map, .a = 0, .of_a = {MapKind::log_sigmoid, 1, 0}};
      o.step[1] = {.kind = ChainKind::map, .a = 1, .of_a = {MapKind::exp, -1, 1}};
    }
    o.made_by[0] = o.inputs, o.made_by[1] = o.inputs + 1;
  });
  op.oracle([=](const Values& in, Values& out) {
    Numbers &first = out.real["y0"], &second = out.real["y1"];
    for (const double x : in["x0"]) first.push_back(l2 ? x : std::log(sigmoid(x)));
    if (l2) divide_rows(first, dims[3], 0.01, false);
    for (std::size_t n = 0; n < first.size(); ++n)
      second.push_back(l2 ? sigmoid(in["x1"][n]) * first[n] : 1 - std::exp(first[n]));
  });
  return op.roundings(terms).condition(8).gradient_elements(60);
}

/// A chain of a memory by its steps. `inputs`: w of the chain's shape, p so and positive, h a number a head, c so and far
/// from the others, r a number a row.
struct Steps {
  std::string name, inputs;
  std::vector<ChainStep> steps;
  std::vector<int> made;
};
double mapped_here(const OperandMap& m, double x) {
  const double y = m.map == MapKind::exp          ? std::exp(x)
                   : m.map == MapKind::log        ? std::log(x)
                   : m.map == MapKind::sigmoid    ? sigmoid(x)
                   : m.map == MapKind::reciprocal ? 1 / x
                   : m.map == MapKind::softsign   ? x / (1 + std::abs(x))
                                                  : x;
  return m.scale * y + m.shift;
}
OpCase of_memory(const Steps& chain, const Dims& dims, int terms) {
  const auto shape_of = [dims](char input) {
    return input == 'h' || input == 'c' ? Dims{1, 1, dims[2], 1}
           : input == 'r'               ? Dims{dims[0], dims[1], dims[2], 1}
                                        : dims;
  };
  OpCase op(chain.name + (dims[1] > 10 ? "Large" : ""));
  for (std::size_t i = 0; i < chain.inputs.size(); ++i)
    op.input(fmt::format("x{}", i), shape_of(chain.inputs[i]),
             chain.inputs[i] == 'p' || chain.inputs[i] == 'r' ? uniform(0.5, 2)
             : chain.inputs[i] == 'c'                         ? uniform(2, 3)
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
      if (step.kind == ChainKind::l2) divide_rows(y, D, step.eps, false);
      all.push_back(y);
    }
    for (std::size_t o = 0; o < chain.made.size(); ++o)
      out.real[fmt::format("y{}", o)] = all[static_cast<std::size_t>(chain.made[o])];
  });
  return op.roundings(terms).condition(16).gradient_elements(60);
}
std::vector<OpCase> of_memories(const Dims& dims, int terms) {
  using Kind = ChainKind;
  const OperandMap open{MapKind::sigmoid, 1, 0}, inverse{MapKind::reciprocal, 1, 0};
  const auto l2 = [](int a) { return ChainStep{.kind = Kind::l2, .a = a, .eps = 0.01}; };
  const auto map = [](int a, OperandMap f) { return ChainStep{.kind = Kind::map, .a = a, .of_a = f}; };
  const auto of_two = [](Kind kind, int a, int b, OperandMap f = {}, OperandMap g = {}) {
    return ChainStep{.kind = kind, .a = a, .b = b, .of_a = f, .of_b = g};
  };
  const auto less = [](int a, int b, OperandMap f = {}) {
    return ChainStep{.kind = Kind::add, .a = a, .b = b, .of_a = f, .scale_b = -1};
  };
  const std::vector<Steps> all = {
      {"RowsOfOneNumber", "r", {map(0, {MapKind::affine, 2, 1})}, {1}},
      {"Feedback",
       "whhw",
       {l2(0), of_two(Kind::multiply, 1, 4, open), of_two(Kind::multiply, 2, 5), l2(3), less(7, 6)},
       {4, 5, 8}},
      {"FeedbackKeys", "wh", {l2(0), of_two(Kind::multiply, 1, 2, open)}, {2, 3}},
      {"Corrected", "whw", {l2(0), of_two(Kind::multiply, 1, 2), less(3, 4)}, {5}},
      {"Squares", "wr", {l2(0), of_two(Kind::multiply, 2, 2), of_two(Kind::multiply, 1, 3, open)}, {2, 4}},
      {"Preconditioned",
       "pcw",
       {map(0, {MapKind::affine, 1, 0.01}), less(3, 1, {MapKind::log, 1, 0}),
        map(4, {MapKind::softsign, -0.4, 0}), of_two(Kind::multiply, 5, 2, {MapKind::exp, 1, 0})},
       {6}},
      {"ScaledAndWritten", "wr", {map(0, {MapKind::affine, 0.125, 0}), of_two(Kind::multiply, 1, 2)}, {2, 3}},
      {"AtLeast",
       "wwrw",
       {of_two(Kind::multiply, 0, 1),
        {.kind = Kind::row_sum, .a = 4},
        of_two(Kind::larger, 5, 2),
        of_two(Kind::multiply, 3, 6, {}, inverse)},
       {7}},
      {"Divided",
       "ppw",
       {of_two(Kind::multiply, 0, 1),
        {.kind = Kind::row_sum, .a = 3},
        map(4, {MapKind::affine, 1, 0.01}),
        of_two(Kind::multiply, 2, 5, {}, inverse)},
       {6}}};
  std::vector<OpCase> cases;
  for (const Steps& chain : all) cases.push_back(of_memory(chain, dims, terms));
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

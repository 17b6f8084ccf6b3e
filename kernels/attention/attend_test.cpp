// Attention as a matrix against sums in long double without a maximum, its bias by running sums.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/attend.h"

#include <cstdlib>

#include "kernels/testing/cuda_test.h"
#include "kernels/testing/op_fields.h"

namespace crosstalk::checks::attend_test {
namespace {

struct Shape {
  int B = 2, T = 6, Q = 3, H = 2, K = 3;
  Kernel kernel = Kernel::exp;
  bool normalised = true, strict = false, decays = false, slopes = false, positions = true, sinks = false,
       extras = false,
       given = false;  ///< scores are `extras` alone
  double eps = 0, scale = 0.7, offset = 0;
  int window = 0, order = 3, digits = 1;
};

void configure(const Shape& s, auto& o) {
  o.kernel = s.kernel, o.normalised = s.normalised, o.strict = s.strict;
  o.eps = s.eps, o.scale = s.scale, o.offset = s.offset, o.window = s.window, o.order = s.order,
  o.digits = s.digits;
}

long double rounded_to(long double x, int digits) {  // by way of its decimals
  char text[64];
  std::snprintf(text, sizeof text, "%.*Lf", digits, x);
  return std::strtold(text, nullptr);
}

long double kappa(const Shape& shape, long double s) {
  switch (shape.kernel) {
    case Kernel::identity:
      return s;
    case Kernel::exp:
      return std::exp(s + shape.offset);
    case Kernel::relu:
      return (s + std::abs(s)) / 2;
    case Kernel::relu2:
      return s * (s + std::abs(s)) / 2;
    case Kernel::round:
      return rounded_to(s, shape.digits);
    case Kernel::taylor: {
      long double total = 1;  // Horner
      for (int m = shape.order; m > 0; --m) total = 1 + s / m * total;
      return total;
    }
    case Kernel::power:
      return std::pow(1 + s / shape.order, static_cast<long double>(shape.order));
  }
  return 0;
}

Numbers attention(const Shape& s, const Values& in) {
  Numbers a;
  const auto entry = [&](const char* name, int b, int n, int h, int count, int width, int j) -> long double {
    return in[name][((b * count + n) * s.H + h) * width + j];
  };
  for (int row = 0; row < s.B * s.H * s.Q; ++row) {
    const int i = row % s.Q, h = row / s.Q % s.H, b = row / s.Q / s.H;
    const int p = s.positions ? in.integer.at("position")[b * s.Q + i] : i + 1;
    std::vector<long double> sums(1, 0), n(static_cast<std::size_t>(s.T), 0);
    for (int t = 0; t < s.T; ++t)
      sums.push_back(sums.back() + (s.decays ? entry("log_decay", b, t, h, s.T, 1, 0) : 0));
    long double total = 0;
    for (int j = 0; j < s.T; ++j) {
      const int ago = p - 1 - j;
      if (ago < (s.strict ? 1 : 0) || (s.window > 0 && ago >= s.window)) continue;
      long double product = 0;
      for (int c = 0; c < s.K && !s.given; ++c) {
        const long double x = entry("x", b, i, h, s.Q, s.K, c), k = entry("k", b, j, h, s.T, s.K, c);
        product += x * k;
      }
      product *= s.scale;
      if (s.extras) product += in["extra"][row * s.T + j];
      long double bias = sums[p] - sums[j + 1];
      if (s.slopes) bias -= in["slope"][h] * ago;
      total += n[j] = kappa(s, product) * std::exp(bias);
    }
    if (s.sinks) total += std::exp(static_cast<long double>(in["sink"][h]));
    for (long double x : n)
      a.push_back(static_cast<double>(!s.normalised ? x : x == 0 ? 0 : x / (total + s.eps)));
  }
  return a;
}

/// Every third token's entries are negative, all are away from 0, and so are all products.
Fill signed_keys(const Shape& s) {
  return [=](RandomStream& random, int, std::int64_t i) {
    const double size = 0.2 + random.uniform();
    return i / (s.H * s.K) % 3 == 1 ? -size : size;
  };
}

OpCase make(const std::string& name, const Shape& s, const Fill& key = normal(),
            const Fill& gate = uniform(-1.5, 0)) {
  OpCase op(name);
  const bool steps = s.kernel == Kernel::round;  // its gradient is no derivative
  const bool kinks = s.kernel == Kernel::relu || s.kernel == Kernel::relu2;
  const auto add = [&](const char* field, const std::vector<int>& dims, const Fill& fill) {
    if (steps)
      op.parameter(field, dims, fill);
    else
      op.input(field, dims, fill);
  };
  if (s.given) {
    op.absent("x").absent("k");
  } else {
    add("x", {s.B, s.Q, s.H, s.K}, kinks ? uniform(0.2, 1.2) : normal());
    add("k", {s.B, s.T, s.H, s.K}, kinks ? signed_keys(s) : key);
  }
  op.optional(s.decays, "log_decay", {s.B, s.T, s.H}, gate);
  op.optional(s.slopes, "slope", {s.H}, uniform(0.1, 1));
  op.optional(s.sinks, "sink", {s.H}, normal());
  if (s.extras)
    add("extra", {s.B, s.H, s.Q, s.T}, s.given ? key : kinks ? uniform(0.01, 0.03) : normal(0.5));
  else
    op.absent("extra");
  if (s.positions) op.integers("position", {s.B, s.Q}, positions(s.T));
  op.output("a", {s.B, s.H, s.Q, s.T}).workspace("row", {s.B, s.H, s.Q, 2});
  op.workspace("d_s", {s.B, s.H, s.Q, s.T});
  call<Attend>(op, [s](auto& o) { configure(s, o); });
  op.oracle([s](const Values& in, Values& out) { out.real["a"] = attention(s, in); });
  return op.roundings(2 * s.K + s.T + 8).condition(2).gradient_elements(40);
}

std::vector<OpCase> cases() {
  std::vector<OpCase> all;
  const Shape plain;
  Shape biased;
  biased.decays = biased.slopes = true;
  const std::pair<const char*, Kernel> kernels[] = {
      {"Identity", Kernel::identity}, {"Exp", Kernel::exp},     {"Relu", Kernel::relu},
      {"Relu2", Kernel::relu2},       {"Round", Kernel::round}, {"ExpOffset", Kernel::exp},
      {"Taylor", Kernel::taylor},     {"Power", Kernel::power},
  };
  for (const auto& [word, kernel] : kernels) {
    const std::string name = word;
    const bool signs = kernel == Kernel::identity || kernel == Kernel::round;
    Shape s = kernel == Kernel::round ? biased : plain;
    s.kernel = kernel, s.offset = name == "ExpOffset" ? -2 : 0;
    s.eps = signs ? 25 : 0;  // sums of both signs would come near 0
    all.push_back(make(name, s));
    s.normalised = false;
    all.push_back(make(name + "NotNormalised", s));
    const double offset = s.offset;
    s = biased, s.kernel = kernel, s.offset = offset, s.eps = signs ? 25 : 0.5;
    all.push_back(make(name + "Biased", s));
    s.sinks = s.extras = true;
    all.push_back(make(name + "SinkExtra", s));
    s.sinks = s.extras = false;
    s.strict = true, s.window = 3;
    all.push_back(make(name + "BiasedStrictWindow", s));
  }
  const auto add = [&](const std::string& name, const Shape& s,
                       const Fill& gate = uniform(-1.5, 0)) -> OpCase& {
    return all.emplace_back(make(name, s, normal(), gate));
  };
  add("EveryToken", {.Q = 6, .positions = false});
  add("EveryTokenStrict", {.Q = 6, .strict = true, .positions = false});
  add("EveryTokenWindow", {.Q = 6, .decays = true, .positions = false, .window = 2});
  add("WindowOfOne", {.Q = 6, .decays = true, .positions = false, .window = 1});
  add("StrictWindowOfOne",  // nobody sees anything
      {.Q = 6, .strict = true, .decays = true, .positions = false, .window = 1});
  Shape s = biased;
  s.strict = true, s.positions = false, s.Q = s.T, s.kernel = Kernel::identity, s.normalised = false;
  add("EveryTokenDelta", s);
  s = biased, s.B = s.T = s.Q = s.H = s.K = 1;
  add("Ones", s);
  add("SinkStrict", {.strict = true, .sinks = true});  // rows that see nothing but the sink
  add("SinkHuge", {.strict = true, .sinks = true}).edit("sink", [](int, Numbers& x) { x = {900, -900}; });
  add("ExtraNotNormalised", {.normalised = false, .extras = true});
  add("SinkExtraEveryToken", {.B = 1, .T = 37, .Q = 37, .positions = false, .sinks = true, .extras = true})
      .gradient_elements(25);
  add("TaylorFirst", {.kernel = Kernel::taylor, .eps = 20, .order = 1});
  add("PowerFirst", {.kernel = Kernel::power, .eps = 20, .order = 1});
  s = biased, s.Q = 1, s.B = 4;
  add("OneQuery", s);
  s = biased, s.B = 1, s.T = 67, s.Q = 35, s.H = 3, s.K = 37, s.scale = 0.15;
  add("Large", s, uniform(-0.3, 0)).gradient_elements(25);
  s.H = 1, s.offset = -2;
  add("LargeOffset", s, uniform(-0.3, 0)).gradient_elements(25);
  s.offset = 0;
  s.positions = false, s.Q = s.T, s.kernel = Kernel::relu2, s.window = 40, s.normalised = false;
  add("LargeRelu2Window", s, uniform(-0.3, 0)).gradient_elements(25);
  add("WideHeads", {.B = 1, .T = 9, .K = 300, .scale = 0.05});
  s = {.T = 9, .decays = true};
  add("Resets", s, resets()).roundings(100);
  s.kernel = Kernel::taylor, s.strict = true, s.order = 2;  // strict: the nearest token may lie behind e^-60
  add("ResetsStrict", s, resets()).roundings(100);
  s.normalised = false;
  add("ResetsNotNormalised", s, resets()).roundings(100);
  add("FarBelow", {.strict = true, .decays = true}, constant(-150)).roundings(400);  // e^-150 is no float
  make_huge(add("HugeScores", {.K = 2, .scale = 1})).roundings(6000);
  const auto zero_keys = [](int, Numbers& k) { std::fill_n(k.begin() + 6, 6, 0); };
  for (const auto& [word, kernel] : kernels) {
    if (kernel != Kernel::identity && kernel != Kernel::taylor && kernel != Kernel::exp) continue;
    add(std::string("ZeroKeys") + word, {.kernel = kernel, .eps = 25}).edit("k", zero_keys);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Attend, OpCheck, ::testing::ValuesIn(cases()), case_name);

/// Products alone: the sum rule.
Shape products(int B, int T, int Q, int K, double scale) {
  return {.B = B,
          .T = T,
          .Q = Q,
          .H = 1,
          .K = K,
          .kernel = Kernel::identity,
          .normalised = false,
          .scale = scale};
}
/// Weights of scores that are given.
Shape given(int B, int T, int Q, Kernel kernel = Kernel::exp) {
  return {.B = B, .T = T, .Q = Q, .H = 1, .kernel = kernel, .extras = true, .given = true};
}

std::vector<OpCase> product_and_score_cases() {
  std::vector<OpCase> all = {make("Products", products(4, 7, 1, 5, 1)),
                             make("ProductsScaled", products(4, 7, 3, 5, 0.125)),
                             make("ProductsOneToken", products(4, 1, 3, 4, 2)),
                             make("ProductsOneDimension", products(4, 5, 2, 1, 1)),
                             make("ProductsLarge", products(3, 45, 5, 33, 0.25)),
                             make("Given", given(4, 7, 1)),
                             make("GivenManyQueries", given(4, 6, 3), normal(2)),
                             make("GivenOneToken", given(4, 1, 3)),
                             make("GivenLong", given(4, 67, 2)),
                             make("GivenSharp", given(4, 9, 2), normal(30)).roundings(9 + 8 * 30),
                             make("GivenTaylor", given(3, 6, 2, Kernel::taylor))};
  Shape s = given(3, 6, 2);
  s.decays = s.slopes = s.sinks = true, s.H = 2;
  all.push_back(make("GivenFadingWithSinks", s));
  OpCase huge = make("GivenHuge", given(4, 6, 2));
  huge.edit("extra", [](int, Numbers& x) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += i % 4 == 0 ? 3000 : 2998;  // exp overflows
  });
  all.push_back(huge.roundings(4000));
  // One query: a warp a key.
  for (int H : {1, 2}) {
    Shape one = {.T = 37, .Q = 1, .H = H, .K = 9};
    all.push_back(make(fmt::format("OneQueryH{}", H), one));
    one.strict = true, one.window = 5, one.decays = true;
    all.push_back(make(fmt::format("OneQueryInAWindowH{}", H), one));
    one = {.T = 21, .Q = 1, .H = H, .K = 5, .kernel = Kernel::taylor, .normalised = false};
    all.push_back(make(fmt::format("OneQueryTaylorH{}", H), one));
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(AttendProductsAndScores, OpCheck, ::testing::ValuesIn(product_and_score_cases()),
                         case_name);

/// Shapes that cut the CUDA form's warps and tiles.
std::vector<OpCase> size_cases() {
  std::vector<OpCase> all;
  for (const auto& [B, T, K, Q] : kReadShapes) {
    const std::string size = fmt::format("_B{}_T{}_K{}_Q{}", B, T, K, Q);
    all.push_back(make("Products" + size, products(B, T, Q, K, 0.7)));
    all.push_back(make("Given" + size, given(B, T, Q), uniform(-8, 8)).condition(8));
    all.push_back(
        make("Softmax" + size, {.B = B, .T = T, .Q = Q, .H = 1, .K = K, .scale = 1 / std::sqrt(K)}));
  }
  return all;
}

class AttendSizes : public CudaTest, public ::testing::WithParamInterface<OpCase> {};
TEST_P(AttendSizes, OnCudaAreThoseOfTheCpu) { GetParam().check_cuda(); }
INSTANTIATE_TEST_SUITE_P(Cuda, AttendSizes, ::testing::ValuesIn(size_cases()), case_name);

/// An Attend over a set of tensors x, k with everything that training needs.
TensorSet<double>& filled(TensorSet<double>& set, const OpCase& op) {
  op.fill(set, {0, 1});
  return set;
}

TEST(AttendTest, RoundPassesItsGradientStraightThrough) {
  Shape s;
  s.normalised = false, s.kernel = Kernel::identity, s.decays = true;
  const OpCase identity = make("Straight", s);
  s.kernel = Kernel::round;
  OpCase round = make("Straight", s);
  TensorSet<double> a, b;
  filled(a, identity), filled(b, identity);  // the same tensors, gradients of x and k included
  call<Attend>(round, [s](auto& o) { configure(s, o); });
  identity.run_forward({}, a), identity.run_backward({}, a);
  round.run_forward({}, b), round.run_backward({}, b);
  EXPECT_FALSE(close("a", b.real("a"), a.real("a"), 1e-6)) << "round did not round";
  for (const char* name : {"d_x", "d_k"}) EXPECT_TRUE(close(name, b.real(name), a.real(name), 0)) << name;
}

TEST(AttendTest, EvaluationKeepsNoRows) {
  Shape s;
  const OpCase op = make("Rows", s);
  TensorSet<double> with, without;
  filled(with, op), filled(without, op);
  op.run_forward({}, with);
  auto evaluated = bound<Attend, double>(without, [&](auto& o) { configure(s, o); });
  evaluated.row = {};
  forward({}, evaluated);
  EXPECT_TRUE(close("a", without.real("a"), with.real("a"), 0));
}

// x and k the same variable: the first overwrites the gradient, the second adds.
TEST(AttendTest, OneVariableInTwoFields) {
  Shape s;
  s.positions = false, s.Q = s.T, s.strict = true, s.decays = true;
  const OpCase op = make("Twice", s);
  TensorSet<double> two, one;
  filled(two, op), filled(one, op);
  for (int r = 0; r < 2; ++r) std::copy_n(two.real("k").at(r), two.real("k").size(), two.real("x").at(r));
  op.run_forward({}, two), op.run_backward({}, two);
  auto tied = bound<Attend, double>(one, [&](auto& o) { configure(s, o); });
  tied.x = tied.k;
  tied.k.write = Write::add;
  forward({}, tied), backward({}, tied);
  for (int r = 0; r < 2; ++r)
    for (std::int64_t i = 0; i < two.real("d_k").size(); ++i)
      two.real("d_k").at(r)[i] += two.real("d_x").at(r)[i];
  EXPECT_TRUE(close("d_k", one.real("d_k"), two.real("d_k"), 1e-13));
  EXPECT_TRUE(close("d_log_decay", one.real("d_log_decay"), two.real("d_log_decay"), 1e-13));
}

}  // namespace
}  // namespace crosstalk::checks::attend_test

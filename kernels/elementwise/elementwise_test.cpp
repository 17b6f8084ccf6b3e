// The algebra of gates: maps, sums and products that broadcast.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise/elementwise.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "kernels/testing/op_fields.h"

namespace crosstalk::checks::elementwise_test {
namespace {

OpCase map_case(const std::string& name, MapKind kind, const Fill& fill, long double (*f)(long double),
                const std::vector<int>& dims = {3, 5, 2, 7}) {
  OpCase op(name);
  op.input("x", dims, fill).output("y", dims);
  call<Map>(op, [=](auto& o) { o.map = kind, o.scale = 1.75, o.shift = -0.5; });
  op.oracle([=](const Values& in, Values& out) {
    for (const double x : in["x"]) out.real["y"].push_back(static_cast<double>(1.75L * f(x) - 0.5L));
  });
  return op.roundings(8).condition(8).gradient_elements(210);
}

// No difference quotient reaches over the pole at 0.
OpCase inverse_of_zeros() {
  OpCase op("InverseOfZeros");
  op.parameter("x", {4, 7}, off_zero()).output("y", {4, 7});
  op.edit("x", [](int r, Numbers& x) {
    for (std::size_t i = 0; i < x.size(); i += 3) x[i] = r % 2 == 0 ? 0.0 : -0.0;
  });
  call_forward<Map>(op, [](auto& o) { o.map = MapKind::inverse; });
  op.oracle([](const Values& in, Values& out) {
    for (const double x : in["x"]) out.real["y"].push_back(x == 0 ? 0 : 1 / x);
  });
  return op.roundings(2);
}

int at(const std::vector<int>& dims, const int (&i)[4]) {
  int index = 0;
  for (int d = 0; d < 4; ++d) {
    const auto n = static_cast<std::size_t>(d);
    index = index * dims[n] + (dims[n] == 1 ? 0 : i[d]);
  }
  return index;
}

// Calls f with every index of `dims`.
void each_index(const std::vector<int>& dims, const auto& f) {
  int i[4];
  for (i[0] = 0; i[0] < dims[0]; ++i[0])
    for (i[1] = 0; i[1] < dims[1]; ++i[1])
      for (i[2] = 0; i[2] < dims[2]; ++i[2])
        for (i[3] = 0; i[3] < dims[3]; ++i[3]) f(i);
}

OpCase combine_case(const std::string& name, CombineKind kind, const std::vector<int>& a,
                    const std::vector<int>& b, int roundings = 40) {
  OpCase op(name);
  std::vector<int> y;
  for (std::size_t d = 0; d < 4; ++d) y.push_back(std::max(a[d], b[d]));
  op.input("a", a, normal()).input("b", b, normal()).output("y", y);
  call_planned<Combine>(op, [=](auto& o) { o.kind = kind, o.scale_a = 0.5, o.scale_b = -3; });
  op.oracle([=](const Values& in, Values& out) {
    each_index(y, [&](const int(&i)[4]) {
      const double p = in["a"][at(a, i)], q = in["b"][at(b, i)];
      out.real["y"].push_back(kind == CombineKind::add        ? 0.5 * p - 3 * q
                              : kind == CombineKind::multiply ? p * q
                                                              : std::max(std::abs(p), std::abs(q)));
    });
  });
  return op.roundings(roundings).condition(6).gradient_elements(2000);
}

OpCase fold_case(const std::string& name, const std::vector<int>& x, const std::vector<int>& y) {
  OpCase op(name);
  op.input("x", x, normal()).output("y", y);
  call_planned<Fold>(op, [=](auto&) {});
  op.oracle([=](const Values& in, Values& out) {
    out.real["y"].assign(static_cast<std::size_t>(y[0] * y[1] * y[2] * y[3]), 0);
    std::size_t n = 0;
    each_index(x, [&](const int(&i)[4]) { out.real["y"][at(y, i)] += in["x"][n++]; });
  });
  return op.roundings(80).condition(4);
}

OpCase expand_case(const std::string& name, const std::vector<int>& x, const std::vector<int>& y) {
  OpCase op(name);
  op.input("x", x, normal()).output("y", y);
  call_planned<Expand>(op, [=](auto&) {});
  op.oracle([=](const Values& in, Values& out) {
    each_index(y, [&](const int(&i)[4]) { out.real["y"].push_back(in["x"][at(x, i)]); });
  });
  return op.roundings(40).condition(4);
}

std::vector<OpCase> cases() {
  using L = long double;
  const Fill wide = uniform(-30, 30), small = uniform(-3, 3), positive = uniform(0.2, 3);
  const Fill far_out = [](RandomStream& random, int, std::int64_t i) {
    return 3 * random.uniform() + (i % 3 == 0 ? -800 : i % 3 == 1 ? 800 : 0);
  };
  const auto sigmoid = [](L x) { return (1 + std::tanh(x / 2)) / 2; };
  return {
      map_case("Affine", MapKind::affine, small, [](L x) { return x; }),
      map_case("Exp", MapKind::exp, small, [](L x) { return std::exp(x); }),
      map_case("Log", MapKind::log, positive, [](L x) { return std::log(x); }),
      map_case("Sigmoid", MapKind::sigmoid, small, sigmoid),
      map_case("SigmoidLarge", MapKind::sigmoid, small, sigmoid, {40, 77}),
      map_case("SigmoidFarOut", MapKind::sigmoid, far_out, sigmoid, {4, 6}),
      map_case("SigmoidScalar", MapKind::sigmoid, small, sigmoid, {1}),
      map_case("Softplus", MapKind::softplus, wide, [](L x) { return x > 40 ? x : std::log1p(std::exp(x)); }),
      map_case("LogSigmoid", MapKind::log_sigmoid, wide, [](L x) { return -std::log1p(std::exp(-x)); }),
      map_case("Tanh", MapKind::tanh, small, [](L x) { return std::tanh(x); }),
      map_case("Relu", MapKind::relu, off_zero(), [](L x) { return x > 0 ? x : L(0); }),
      map_case("Silu", MapKind::silu, small, [](L x) { return x / (1 + std::exp(-x)); }),
      map_case("Reciprocal", MapKind::reciprocal, positive, [](L x) { return 1 / x; }),
      map_case(
          "Inverse", MapKind::inverse,
          [](RandomStream& random, int, std::int64_t i) {
            return (i % 2 == 0 ? 1 : -1) * (0.2 + 2.8 * random.uniform());
          },
          [](L x) { return 1 / x; }),
      inverse_of_zeros(),
      map_case("Gelu", MapKind::gelu, small, [](L x) { return x / 2 * (1 + std::erf(x / std::sqrt(L(2)))); }),
      map_case("Expm1", MapKind::expm1, wide, [](L x) { return std::expm1(x); }),
      map_case("Expm1Small", MapKind::expm1, uniform(-1e-6, 0), [](L x) { return std::expm1(x); }),
      map_case("Sine", MapKind::sine, small, [](L x) { return std::sin(x); }),
      map_case("Softsign", MapKind::softsign, off_zero(), [](L x) { return x / (1 + std::abs(x)); }),
      combine_case("Add", CombineKind::add, {2, 3, 2, 5}, {2, 3, 2, 5}),
      combine_case("AddOfHeads", CombineKind::add, {2, 3, 2, 5}, {1, 1, 2, 1}),
      combine_case("Multiply", CombineKind::multiply, {2, 3, 2, 5}, {2, 3, 2, 5}),
      combine_case("MultiplyGate", CombineKind::multiply, {2, 9, 2, 1}, {2, 9, 2, 5}),
      combine_case("MultiplyChannels", CombineKind::multiply, {1, 1, 2, 5}, {2, 40, 2, 5}),
      combine_case("MultiplyRows", CombineKind::multiply, {1, 1, 37, 67}, {1, 1, 37, 1}),
      combine_case("Larger", CombineKind::larger, {2, 9, 2, 5}, {2, 9, 2, 1}),
      combine_case("MultiplyBoth", CombineKind::multiply, {2, 1, 3, 1}, {1, 7, 1, 4}),
      combine_case("MultiplyLong", CombineKind::multiply, {1, 1, 2, 1}, {1, 33001, 2, 1}, 33001)
          .gradient_elements(4),
      combine_case("AddRows", CombineKind::add, {1, 1, 3, 4}, {7, 150, 3, 4}, 1050).gradient_elements(24),
      combine_case("MultiplyLongRows", CombineKind::multiply, {1, 1, 2, 5}, {3, 11000, 2, 5}, 33000)
          .gradient_elements(20),
      // Elements enough for a few at once.
      combine_case("MultiplyMany", CombineKind::multiply, {1, 90007, 1, 2}, {1, 90007, 1, 2})
          .gradient_elements(8),
      combine_case("MultiplyManyHeads", CombineKind::multiply, {1, 70001, 1, 1}, {1, 70001, 2, 1})
          .gradient_elements(8),
      combine_case("AddOfTokens", CombineKind::add, {2, 3, 2, 5}, {1, 3, 2, 1}),
      combine_case("LargerOfTwo", CombineKind::larger, {2, 3, 2, 5}, {2, 3, 2, 5}),
      fold_case("FoldManyRows", {5, 300, 1, 11}, {1, 1, 1, 11}).gradient_elements(20),
      expand_case("ExpandManyRows", {1, 1, 9, 1}, {20, 60, 9, 1}).gradient_elements(9),
      fold_case("FoldLong", {3, 5501, 1, 3}, {1, 1, 1, 3}).roundings(16503).gradient_elements(20),
      fold_case("FoldLongRows", {3, 5501, 1, 9}, {1, 1, 1, 9}).roundings(16503).gradient_elements(20),
      fold_case("FoldHeads", {2, 3, 4, 5}, {2, 3, 1, 5}), fold_case("FoldRows", {2, 3, 4, 50}, {2, 3, 4, 1}),
      fold_case("FoldAll", {2, 3, 4, 5}, {1, 1, 1, 1}), fold_case("FoldNothing", {2, 3, 4, 5}, {2, 3, 4, 5}),
      expand_case("ExpandHeads", {2, 3, 1, 5}, {2, 3, 4, 5}),
      expand_case("ExpandAll", {1, 1, 1, 1}, {2, 3, 4, 5})};
}

/// Elements enough for four at a time, repeated in every way.
std::vector<OpCase> fours() {
  const std::vector<int> all = {4, 130, 2, 64};
  const auto cube = [](long double x) { return std::tanh(x); };
  std::vector<OpCase> cases = {map_case("FourTanh", MapKind::tanh, uniform(-3, 3), cube, all),
                               map_case("FourAffine", MapKind::affine, uniform(-3, 3), cube, all),
                               expand_case("FourHeads", {4, 130, 1, 64}, {4, 130, 5, 64}),
                               expand_case("FourManyHeads", {4, 260, 1, 64}, {4, 260, 16, 64}),
                               expand_case("FourOfOne", {4, 130, 2, 1}, all)};
  int n = 0;
  for (const std::vector<int>& b : {all, {4, 130, 2, 1}, {1, 1, 2, 64}, {4, 130, 1, 64}, {1, 130, 1, 1}}) {
    for (const CombineKind kind : {CombineKind::add, CombineKind::multiply, CombineKind::larger}) {
      cases.push_back(combine_case("FourCombine" + std::to_string(n++), kind, all, b, 600));
      cases.push_back(combine_case("FourCombine" + std::to_string(n++), kind, b, all, 600));
    }
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Elementwise, CudaOpCheck, ::testing::ValuesIn(fours()), case_name);

// The quick ways of Broadcast say what the definition says, which walks the indices.
TEST(Broadcasts, FindElementsInEveryWay) {
  int rows = 0;
  for (int bits = 0; bits < 256; ++bits) {  // of each dimension: is it 1 in the whole, is it 1 in the part
    Tensor<float> full = shaped<float>(1, {1, 1, 1, 1}), part = full;
    const std::vector<int> sizes = {2, 3, 4, 5};
    for (int d = 0; d < 4; ++d) {
      full.dims[d] = bits >> d & 1 ? 1 : sizes[d];
      part.dims[d] = bits >> (4 + d) & 1 ? 1 : full.dims[d];
    }
    Broadcast quick = broadcast(full, part), plain = quick;
    EXPECT_TRUE(quick.narrow);
    plain.same = plain.narrow = plain.single = false;
    for (std::int64_t i = 0; i < full.size(); ++i) ASSERT_EQ(quick.index(i), plain.index(i)) << bits;
    for (std::int64_t j = 0; j < part.size(); ++j) {
      for (std::int64_t n = 0; n < quick.repeats(); ++n) {
        ASSERT_EQ(quick.element(j, n), plain.element(j, n)) << bits;
        ASSERT_EQ(quick.index(quick.element(j, n)), j) << bits;
        if (quick.repeats_rows()) {
          ASSERT_EQ(quick.element(j, n), n * part.size() + j) << bits;
        }
      }
    }
    rows += quick.repeats_rows();
  }
  EXPECT_GT(rows, 50);
  EXPECT_LT(rows, 250);
}

TEST(Maps, ExpStaysFiniteInBothPrecisions) {
  EXPECT_EQ(mapped(MapKind::exp, 500.0), std::exp(80.0));
  EXPECT_TRUE(std::isfinite(mapped(MapKind::exp, 500.0F)));
  EXPECT_EQ(map_slope(MapKind::exp, 500.0), 0);
  EXPECT_EQ(mapped(MapKind::exp, 79.0), std::exp(79.0));
}

TEST(Maps, InverseOfZeroIsZeroAndFlat) {
  for (const double zero : {0.0, -0.0}) {
    EXPECT_EQ(mapped(MapKind::inverse, zero), 0);
    EXPECT_EQ(map_slope(MapKind::inverse, zero), 0);
  }
  EXPECT_EQ(mapped(MapKind::inverse, -4.0), -0.25);
  EXPECT_EQ(map_slope(MapKind::inverse, -4.0), -1.0 / 16);
}

INSTANTIATE_TEST_SUITE_P(Elementwise, OpCheck, ::testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace crosstalk::checks::elementwise_test

// Linear maps, of operands as they are and of rounded ones.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear/linear.h"

#include <array>
#include <cstdlib>
#include <vector>

#include "kernels/base/buffer.h"
#include "kernels/testing/cuda_test.h"
#include "kernels/testing/op_fields.h"

namespace crosstalk::checks::linear_test {
namespace {

OpCase make(const std::string& name, int N, int I, int O, bool bias) {
  OpCase op(name);
  op.input("x", {N, I}, normal()).input("w", {O, I}, normal());
  op.optional(bias, "b", {O}, normal());
  op.output("y", {N, O});
  const bool many = N >= Linear<float>::kLeastForPieces, pieces = many && O > 1;
  if (pieces)
    op.workspace("pieces", {Linear<float>::kPieces, Linear<float>::padded(O * I) + Linear<float>::padded(O)});
  call<Linear>(op, [](auto&) {});
  op.oracle([=](const Values& in, Values& out) {
    for (int n = 0; n < N; ++n) {
      for (int o = 0; o < O; ++o) {
        long double y = bias ? in["b"][o] : 0.0;
        for (int i = 0; i < I; ++i) y += static_cast<long double>(in["x"][n * I + i]) * in["w"][o * I + i];
        out.real["y"].push_back(static_cast<double>(y));
      }
    }
  });
  return op.roundings(std::max({N, I, O})).gradient_elements(many ? 4 : 200);
}

/// x to `bits` significant bits, by arithmetic instead of on its representation.
double rounded_to(Precision precision, double x) {
  int exponent = 0;
  const int bits = precision == Precision::tf32 ? 11 : 8;
  const double scaled = std::ldexp(std::frexp(x, &exponent), bits);
  return std::ldexp(precision == Precision::tf32 ? std::round(scaled) : std::nearbyint(scaled),
                    exponent - bits);
}

Numbers rounded_to(Precision precision, Numbers x) {
  for (double& e : x) e = rounded_to(precision, e);
  return x;
}

/// sum over k of x_k y_k, for n pairs that lie apart by the steps.
double sum_of_products(const double* x, int x_step, const double* y, int y_step, int n) {
  long double sum = 0;
  for (int k = 0; k < n; ++k) sum += static_cast<long double>(x[k * x_step]) * y[k * y_step];
  return static_cast<double>(sum);
}

// Rounded operands. The results are products of what was rounded: the tolerance is that of the sums alone,
// some 2^-24 a term. Differences of the outputs say nothing about such a map's gradient, so backward has an
// oracle too: the three products of the header.
OpCase rounding_forward(const std::string& name, Precision precision, int N, int I, int O) {
  OpCase op(name);
  op.input("x", {N, I}, normal()).input("w", {O, I}, normal()).input("b", {O}, normal());
  op.output("y", {N, O});
  call_forward<Linear>(op, [=](auto& o) { o.precision = precision; });
  op.oracle([=](const Values& in, Values& out) {
    const Numbers x = rounded_to(precision, in["x"]), w = rounded_to(precision, in["w"]);
    for (int n = 0; n < N; ++n)
      for (int o = 0; o < O; ++o)
        out.real["y"].push_back(in["b"][o] + sum_of_products(x.data() + n * I, 1, w.data() + o * I, 1, I));
  });
  return op.roundings(std::max(I, 2));
}

OpCase rounding_backward(const std::string& name, Precision precision, int N, int I, int O) {
  OpCase op(name);
  op.input("x", {N, I}, normal()).input("w", {O, I}, normal()).input("g", {N, O}, normal());
  op.output_without_gradient("x_out", {N, I}).output_without_gradient("w_out", {O, I});
  op.output_without_gradient("b_out", {O});
  op.forward([=]<class Real>(const Exec& exec, TensorSet<Real>& s) {
    Linear<Real> linear;
    linear.precision = precision;
    linear.x.value = s.real("x"), linear.w.value = s.real("w"), linear.y.gradient = s.real("g");
    linear.x.gradient = s.real("x_out"), linear.w.gradient = s.real("w_out");
    linear.b.gradient = s.real("b_out");
    linear.x.write = linear.w.write = linear.b.write = Write::overwrite;
    backward(exec, linear);
  });
  op.oracle([=](const Values& in, Values& out) {
    const Numbers x = rounded_to(precision, in["x"]), w = rounded_to(precision, in["w"]),
                  g = rounded_to(precision, in["g"]);
    for (int n = 0; n < N; ++n) {
      for (int i = 0; i < I; ++i)
        out.real["x_out"].push_back(sum_of_products(g.data() + n * O, 1, w.data() + i, I, O));
    }
    for (int o = 0; o < O; ++o) {
      for (int i = 0; i < I; ++i)
        out.real["w_out"].push_back(sum_of_products(g.data() + o, O, x.data() + i, I, N));
      const Numbers ones(static_cast<std::size_t>(N), 1);
      out.real["b_out"].push_back(sum_of_products(in["g"].data() + o, O, ones.data(), 1, N));
    }
  });
  return op.roundings(std::max({N, I, O}));
}

TEST(Rounded, ByHand) {
  for (double sign : {1.0, -1.0}) {
    // 1 + 2^-11 lies between 1 and 1 + 2^-10; 1 + 2^-8 and 1 + 3 2^-8 between their neighbours in bf16.
    EXPECT_EQ(rounded(Precision::tf32, sign * (1 + 0x1p-11)), sign * (1 + 0x1p-10));
    EXPECT_EQ(rounded(Precision::tf32, sign * (1 + 0x1p-12)), sign);
    EXPECT_EQ(rounded(Precision::tf32, sign * 1.99999f), sign * 2);
    EXPECT_EQ(rounded(Precision::bf16, sign * (1 + 0x1p-8)), sign);
    EXPECT_EQ(rounded(Precision::bf16, sign * (1 + 3 * 0x1p-8)), sign * (1 + 0x1p-6));
    EXPECT_EQ(rounded(Precision::full, sign * (1 + 0x1p-23f)), sign * (1 + 0x1p-23f));
    for (Precision precision : {Precision::tf32, Precision::bf16}) {
      EXPECT_EQ(rounded(precision, sign * 0.0f), 0.0f);
      EXPECT_EQ(rounded(precision, sign * std::numeric_limits<float>::infinity()),
                sign * std::numeric_limits<float>::infinity());
      EXPECT_TRUE(std::isnan(rounded(precision, std::numeric_limits<float>::quiet_NaN())));
    }
  }
}

TEST(Rounded, IsTheNearest) {
  RandomStream random(5, RandomDomain::initialisation, 0);
  for (int i = 0; i < 10000; ++i) {
    const double x = normal_from_uniform(random.uniform()) * std::pow(10, i % 9 - 4);
    const float y = static_cast<float>(x);
    for (Precision precision : {Precision::tf32, Precision::bf16}) {
      EXPECT_EQ(rounded(precision, x), rounded_to(precision, x)) << x;
      EXPECT_EQ(static_cast<double>(rounded(precision, y)), rounded_to(precision, static_cast<double>(y)))
          << y;
    }
  }
}

std::vector<OpCase> cases() {
  return {rounding_forward("Tf32", Precision::tf32, 67, 65, 34),
          rounding_forward("Bf16", Precision::bf16, 67, 65, 34),
          rounding_forward("Tf32LongRows", Precision::tf32, 40, 520, 34),
          rounding_forward("Bf16LongRows", Precision::bf16, 40, 520, 34),
          rounding_forward("Tf32OneOutput", Precision::tf32, 6, 45, 1),
          rounding_forward("Bf16OneOutput", Precision::bf16, 6, 45, 1),
          rounding_backward("Tf32Backward", Precision::tf32, 67, 65, 34),
          rounding_backward("Bf16Backward", Precision::bf16, 67, 65, 34),
          rounding_backward("Tf32ManyRowsBackward", Precision::tf32, 520, 36, 40),
          rounding_backward("Tf32OneOutputBackward", Precision::tf32, 40, 7, 1),
          rounding_backward("Bf16OneOutputBackward", Precision::bf16, 40, 7, 1),
          make("Bias", 5, 7, 3, true),
          make("NoBias", 5, 7, 3, false),
          make("OneRow", 1, 9, 4, true),
          make("OneInput", 6, 1, 4, true),
          make("OneOutput", 6, 5, 1, true),
          make("Blocks", 67, 65, 34, true),
          make("ManyRows", 301, 3, 5, true),
          make("Wide", 3, 5, 130, false),
          make("Pieces", Linear<float>::kLeastForPieces, 9, 6, true),
          make("PiecesNoBias", Linear<float>::kLeastForPieces, 9, 5, false),
          make("LongGate", 33001, 3, 1, true),
          make("LongGateOfMany", 33001, 20, 1, false)};
}

INSTANTIATE_TEST_SUITE_P(Linear, OpCheck, ::testing::ValuesIn(cases()), case_name);

class LinearOnCuda : public CudaTest {};

// Of a matrix that is 0 but for its last row, which lies behind 2^31 numbers.
TEST_F(LinearOnCuda, MoreThanTwoToThe31Numbers) {
  constexpr int N = (1 << 20) + 200, I = 2048, O = 2;
  constexpr std::size_t kRow = I * sizeof(float), kBytes = N * kRow;
  if (few_replicas()) {
    GTEST_SKIP() << "too slow";
  }
  if (free_memory(Device::cuda) < kBytes + kBytes / 4) {
    GTEST_SKIP() << "needs 11 GiB";
  }
  Buffer large(Device::cuda, kBytes), small(Device::cuda, 2 * N * O * sizeof(float)),
      weights(Device::cuda, 2 * O * kRow);
  large.fill_zero(), small.fill_zero(), weights.fill_zero();
  std::vector<float> last(I), w(O * I);
  for (int i = 0; i < I; ++i) last[i] = static_cast<float>(i % 7 - 3);
  for (int i = 0; i < O * I; ++i) w[i] = static_cast<float>(i % 5 - 2);
  large.copy_from_host(last.data(), kRow, kBytes - kRow);
  weights.copy_from_host(w.data(), O * kRow);
  const auto on = [](const Buffer& buffer, std::int64_t offset, std::initializer_list<Dimension> dims) {
    Tensor<float> t = shaped<float>(1, dims);
    t.data = static_cast<float*>(buffer.data()) + offset;
    t.replica_stride = t.size();
    return t;
  };
  Linear<float> op;
  op.x.value = on(large, 0, {N, I}), op.w.value = on(weights, 0, {O, I}), op.y.value = on(small, 0, {N, O});
  const CudaStream stream;
  Exec exec;
  exec.device = Device::cuda, exec.stream = stream.get();
  const auto read = [&](const Buffer& buffer, std::size_t n, std::size_t from) {
    std::vector<float> host(n);
    buffer.copy_to_host(host.data(), n * sizeof(float), from * sizeof(float));
    return host;
  };
  forward(exec, op);
  stream.synchronise();
  float want[O] = {};
  for (int o = 0; o < O; ++o)
    for (int i = 0; i < I; ++i) want[o] += last[i] * w[o * I + i];
  EXPECT_EQ(read(small, 2 * O, static_cast<std::size_t>(N - 2) * O),
            (std::vector<float>{0, 0, want[0], want[1]}));
  // d_w = d_y^T x: of the last row alone; then d_x takes the place of x.
  const float d_y[O] = {3, -2};
  small.copy_from_host(d_y, sizeof d_y, 2 * N * O * sizeof(float) - sizeof d_y);
  op.y.gradient = on(small, N * O, {N, O});
  op.w.gradient = on(weights, O * I, {O, I}), op.w.write = Write::overwrite;
  backward(exec, op);
  stream.synchronise();
  const std::vector<float> d_w = read(weights, O * I, O * I);
  for (int i = 0; i < O * I; ++i) ASSERT_EQ(d_w[i], d_y[i / I] * last[i % I]) << i;
  op.w.write = Write::none;
  op.x.gradient = op.x.value, op.x.write = Write::overwrite;
  backward(exec, op);
  stream.synchronise();
  const std::vector<float> d_x = read(large, I, static_cast<std::size_t>(N - 1) * I);
  for (int i = 0; i < I; ++i) ASSERT_EQ(d_x[i], d_y[0] * w[i] + d_y[1] * w[I + i]) << i;
}

// Rounded operands are the same on both devices: the tolerance is that of the sums.
std::vector<OpCase> tiles() {
  std::vector<OpCase> all;
  const std::array<int, 3> sizes[] = {{1, 1, 1},      {5, 3, 2},     {33, 65, 1},    {70, 64, 64},
                                      {129, 37, 67},  {600, 64, 1},  {1100, 20, 5},  {2100, 5, 1},
                                      {900, 72, 600}, {32, 968, 64}, {440, 603, 64}, {20, 700, 130},
                                      {64, 2500, 3}};
  for (const auto& [N, I, O] : sizes) {
    for (const auto& [format, precision] : {std::pair{"", Precision::full},
                                            {"Unbiased", Precision::full},
                                            {"Tf32", Precision::tf32},
                                            {"Bf16", Precision::bf16}}) {
      OpCase op(fmt::format("{}x{}x{}{}", N, I, O, format));
      op.input("x", {N, I}, uniform(-1, 1)).input("w", {O, I}, uniform(-1, 1)).output("y", {N, O});
      if (std::string(format) != "Unbiased") op.input("b", {O}, uniform(-1, 1));
      call<Linear>(op, [precision = precision](auto& o) { o.precision = precision; });
      const double most = std::max(N, O);
      all.push_back(
          op.on_cuda({1.0 * I, 1}, {most, 1}).heavy(N * I > (precision == Precision::full ? 50000 : 5000)));
    }
  }
  OpCase weights("GradientOfWeightsAlone");
  weights.parameter("x", {40, 8}, uniform(-1, 1)).input("w", {6, 8}, uniform(-1, 1)).output("y", {40, 6});
  weights.parameter("b", {6}, uniform(-1, 1));
  call<Linear>(weights, [](auto&) {});
  all.push_back(weights.on_cuda({8, 1}, {40, 1}));
  return all;
}

INSTANTIATE_TEST_SUITE_P(Linear, CudaOpCheck, ::testing::ValuesIn(tiles()), case_name);

}  // namespace
}  // namespace crosstalk::checks::linear_test

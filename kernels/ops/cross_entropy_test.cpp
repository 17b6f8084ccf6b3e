// Cross-entropy against logarithms of long sums, in one block of rows and in several.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/cross_entropy.h"

#include "kernels/testing/op_fields.h"

namespace crosstalk::checks {
namespace {

OpCase make(const std::string& name, int B, int Q, int D, int V, int block, int lowest = -1,
            bool eager = false, Precision precision = Precision::full) {
  OpCase op(name);
  op.input("x", {B, Q, D}, normal()).input("w", {V, D}, normal());
  op.integers("target", {B, Q}, integer_in(lowest, V - 1));
  op.loss("loss").output_without_gradient("query_loss", {B, Q}).integer_output("correct", {B, Q});
  op.workspace("logits", {block, V}).workspace("share", {1});
  const auto set_up = [=]<class Real>(TensorSet<Real>& s) {
    auto call = bound<CrossEntropy, Real>(s, [](auto&) {});
    call.precision = precision, call.with_gradients = eager;
    call.correct = s.integer("correct");
    return call;
  };
  op.forward([=](const Exec& exec, auto& s) { forward(exec, set_up(s)); });
  op.backward([=](const Exec& exec, auto& s) { backward(exec, set_up(s)); });
  op.oracle([=](const Values& in) {
    Values out;
    long double sum = 0;
    int used = 0;
    for (int n = 0; n < B * Q; ++n) {
      const int target = in.integer.at("target")[static_cast<std::size_t>(n)];
      out.real["query_loss"].push_back(0);
      out.integer["correct"].push_back(-1);
      if (target < 0) continue;
      std::vector<long double> y;
      for (int v = 0; v < V; ++v) {
        y.push_back(0);
        for (int i = 0; i < D; ++i)
          y.back() += static_cast<long double>(in["x"][static_cast<std::size_t>(n * D + i)]) *
                      in["w"][static_cast<std::size_t>(v * D + i)];
      }
      const long double right = y[static_cast<std::size_t>(target)];
      long double all = 0;
      int others = 0;
      for (int v = 0; v < V; ++v) {
        all += std::exp(y[static_cast<std::size_t>(v)] - right);
        others += v != target && y[static_cast<std::size_t>(v)] >= right;
      }
      out.real["query_loss"].back() = static_cast<double>(std::log(all));
      out.integer["correct"].back() = others == 0;
      sum += std::log(all);
      ++used;
    }
    out.real["loss"].push_back(used ? static_cast<double>(sum / used) : 0);
    return out;
  });
  return op.roundings(D + V + B * Q).condition(2).gradient_elements(200);
}

std::vector<OpCase> cases() {
  const auto whole = [](int, Numbers& x) {
    for (double& e : x) e = std::round(e);
  };
  return {
      make("One", 1, 1, 1, 1, 1),           make("Small", 3, 2, 4, 5, 6),
      make("Used", 3, 2, 4, 5, 6, 0),       make("Blocks", 5, 7, 6, 9, 8),
      make("BlocksThatFit", 4, 4, 6, 9, 4), make("Wide", 2, 3, 5, 1031, 4),
      make("Large", 9, 5, 33, 67, 16),      make("Ties", 6, 4, 2, 3, 7).edit("x", whole).edit("w", whole)};
}

INSTANTIATE_TEST_SUITE_P(CrossEntropy, OpCheck, ::testing::ValuesIn(cases()), case_name);

// More logits than the registers of a block hold, for the GPU; blocks are of the op's own choice.
std::vector<OpCase> wide() {
  const int block = CrossEntropy<float>::block(3, 9001);
  return {make("MoreThanRegisters", 1, 3, 4, 9001, block).gradient_elements(20)};
}
INSTANTIATE_TEST_SUITE_P(CrossEntropyWide, OpCheck, ::testing::ValuesIn(wide()), case_name);

TEST(CrossEntropyTest, BlocksHoldAFewMegabytesOfLogits) {
  EXPECT_EQ(CrossEntropy<float>::block(4096, 8192), 1024);
  EXPECT_EQ(CrossEntropy<float>::block(100, 8192), 100);
  EXPECT_EQ(CrossEntropy<float>::block(4096, 1 << 24), 64);
}

// Gradients on the way are those of a backward pass of their own.
TEST(CrossEntropyTest, GradientsWithTheLoss) {
  const OpCase apart = make("Eager", 5, 7, 6, 9, 8), eager = make("Eager", 5, 7, 6, 9, 8, -1, true);
  TensorSet<double> a, b;
  apart.fill(a, {0, 1}), eager.fill(b, {0, 1});
  apart.run_forward(Exec{}, a), apart.run_backward(Exec{}, a);
  eager.run_forward(Exec{}, b);
  for (const char* name : {"d_x", "d_w"}) {
    for (int r = 0; r < 2; ++r)
      EXPECT_TRUE(identical(name, b.real(name).at(r), a.real(name).at(r), a.real(name).size()));
  }
}

// No slot used: nothing to average over, and nothing to learn.
TEST(CrossEntropyTest, NoUsedSlot) {
  const OpCase op = make("NoUsedSlot", 2, 3, 4, 5, 4);
  TensorSet<double> s;
  op.fill(s, {0});
  upload(Device::cpu, s.integer("target"), 0, Integers(6, -1));
  op.run_forward(Exec{}, s);
  op.run_backward(Exec{}, s);
  EXPECT_EQ(s.real("loss").data[0], 0);
  for (int i = 0; i < 24; ++i) EXPECT_EQ(s.real("d_x").data[i], 0);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(s.real("d_w").data[i], 0);
}

// A diverged model must not look right, and its loss must not look finite.
TEST(CrossEntropyTest, NanIsNeverCorrect) {
  OpCase op = make("Nan", 2, 3, 4, 5, 4, 0);
  op.edit("x", [](int, Numbers& x) { x[0] = std::nan(""); });
  TensorSet<double> s;
  op.fill(s, {0});
  op.run_forward(Exec{}, s);
  EXPECT_TRUE(std::isnan(s.real("loss").data[0]));
  EXPECT_EQ(s.integer("correct").data[0], 0);
}

// Logits that no exponential holds.
TEST(CrossEntropyTest, LargeLogitsStayFinite) {
  OpCase op = make("Huge", 2, 3, 4, 5, 4, 0);
  op.edit("x", [](int, Numbers& x) {
    for (double& e : x) e *= 1e4;
  });
  TensorSet<float> s;
  op.fill(s, {0});
  op.run_forward(Exec{}, s);
  op.run_backward(Exec{}, s);
  EXPECT_TRUE(std::isfinite(s.real("loss").data[0]));
  for (int i = 0; i < 24; ++i) EXPECT_TRUE(std::isfinite(s.real("d_x").data[i]));
}

// The operands of its products are rounded, sums are not.
TEST(CrossEntropyTest, RoundedOperands) {
  const OpCase full = make("Round", 3, 2, 4, 5, 6, 0),
               bf16 = make("Round", 3, 2, 4, 5, 6, 0, false, Precision::bf16);
  TensorSet<double> a, b;
  full.fill(a, {0}), bf16.fill(b, {0});
  for (const char* name : {"x", "w"}) {
    const Tensor<double> t = a.real(name);
    for (std::int64_t i = 0; i < t.size(); ++i) t.at(0)[i] = rounded(Precision::bf16, t.at(0)[i]);
  }
  full.run_forward(Exec{}, a), bf16.run_forward(Exec{}, b);
  EXPECT_EQ(a.real("loss").data[0], b.real("loss").data[0]);
}

}  // namespace
}  // namespace crosstalk::checks

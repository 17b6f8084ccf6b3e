// Cross-entropy against logarithms of long sums, in one block of rows and in several.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/loss/cross_entropy.h"

#include <fmt/format.h>

#include "kernels/testing/cuda_test.h"
#include "kernels/testing/op_fields.h"

namespace crosstalk::checks::cross_entropy_test {
namespace {

OpCase make(const std::string& name, int B, int Q, int D, int V, int block, int lowest = -1,
            bool eager = false, Precision precision = Precision::full) {
  OpCase op(name);
  op.input("x", {B, Q, D}, normal()).input("w", {V, D}, normal());
  op.integers("target", {B, Q}, integer_in(lowest, V - 1));
  op.loss("loss").output_without_gradient("query_loss", {B, Q}).integer_output("correct", {B, Q});
  op.workspace("logits", {block, V}).workspace("share", {1});
  if (precision == Precision::bf16)
    op.workspace(
        "tiles",
        {static_cast<int>(std::max(EntropyTiles(B * Q, V, D).size, EntropyBlocks(B * Q, V, D, block).size))});
  call<CrossEntropy>(op, [=](auto& o) { o.precision = precision, o.with_gradients = eager; });
  op.oracle([=](const Values& in, Values& out) {
    long double sum = 0;
    int used = 0;
    for (int n = 0; n < B * Q; ++n) {
      const int target = in.integer.at("target")[n];
      out.real["query_loss"].push_back(0);
      out.integer["correct"].push_back(-1);
      if (target < 0) continue;
      std::vector<long double> y;
      for (int v = 0; v < V; ++v) {
        y.push_back(0);
        for (int i = 0; i < D; ++i)
          y.back() += static_cast<long double>(in["x"][n * D + i]) * in["w"][v * D + i];
      }
      const long double right = y[target];
      long double all = 0;
      int others = 0;
      for (int v = 0; v < V; ++v) {
        all += std::exp(y[v] - right);
        others += v != target && y[v] >= right;
      }
      out.real["query_loss"].back() = static_cast<double>(std::log(all));
      out.integer["correct"].back() = others == 0;
      sum += std::log(all);
      ++used;
    }
    out.real["loss"].push_back(used ? static_cast<double>(sum / used) : 0);
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
      make("Large", 9, 5, 33, 67, 16),      make("ARowAWarp", 5, 3, 6, 256, 7),
      make("ARowABlock", 5, 3, 6, 257, 7),  make("Ties", 6, 4, 2, 3, 7).edit("x", whole).edit("w", whole)};
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
  for (const char* name : {"d_x", "d_w"})
    for (int r = 0; r < 2; ++r)
      EXPECT_TRUE(identical(name, b.real(name).at(r), a.real(name).at(r), a.real(name).size()));
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

// A graph asks for the workspace of one form alone.
TEST(CrossEntropyTest, TilesAreForBf16OnAGpu) {
  const auto planned = [](Device device, Precision precision, int D, int V = 5) {
    CrossEntropy<float> op;
    op.device = device, op.precision = precision;
    op.x.value = shaped<float>(1, {2, 3, D}), op.w.value = shaped<float>(1, {V, D});
    op.target.value = shaped<std::int32_t>(1, {2, 3});
    op.plan();
    return op;
  };
  EXPECT_EQ(planned(Device::cuda, Precision::bf16, 128).logits.value.rank, 0);
  EXPECT_EQ(planned(Device::cuda, Precision::bf16, 128).tiles.value.columns(), EntropyTiles(6, 5, 128).size);
  for (const auto& op :
       {planned(Device::cpu, Precision::bf16, 128), planned(Device::cuda, Precision::tf32, 128),
        planned(Device::cuda, Precision::bf16, 257)}) {
    EXPECT_EQ(op.tiles.value.rank, 0);
    EXPECT_EQ(op.logits.value.rank, 2);
  }
  const auto wide = planned(Device::cuda, Precision::bf16, 264, 16);
  EXPECT_EQ(wide.logits.value.rank, 2);
  EXPECT_EQ(wide.tiles.value.columns(), EntropyBlocks(6, 16, 264, 6).size);
}

class CrossEntropyOnCuda : public CudaTest {};

// Rounding a gradient of the logits differs where the number before it does by a little.
TEST_F(CrossEntropyOnCuda, InTiles) {
  Exec exec;
  exec.device = Device::cuda;
  struct Size {
    int B, Q, D, V, lowest;
    double growth = 0;    // of words: largest logits come late, and what was summed before them is scaled
    int block = 1 << 20;  // of rows of wide products
  };
  for (const Size& s :
       {Size{1, 1, 1, 1, 0}, Size{3, 5, 7, 65, -1}, Size{5, 33, 32, 200, -1}, Size{2, 150, 33, 129, 0},
        Size{7, 19, 64, 1031, -1}, Size{3, 50, 100, 333, -1}, Size{40, 33, 128, 3001, -1},
        Size{9, 31, 64, 1031, -1, 9}, Size{2, 150, 136, 129, 0}, Size{7, 19, 200, 65, -1},
        Size{40, 33, 256, 3001, -1}, Size{9, 31, 255, 1031, -1, 9}, Size{3, 50, 264, 336, -1},
        Size{40, 33, 512, 3000, -1, 0, 500}, Size{1, 1, 520, 8, 0}, Size{1, 40, 320, 9000, -1, 9}}) {
    if (few_replicas() && s.B * s.V > 10000) continue;
    OpCase op =
        make("Tiles", s.B, s.Q, s.D, s.V, std::min(s.block, s.B * s.Q), s.lowest, false, Precision::bf16);
    const double factor = 2 / std::sqrt(s.D);
    op.edit("x", [&](int, Numbers& x) {
      for (double& e : x) e = static_cast<float>(factor * e);  // or it is rounded twice on the one side
    });
    op.edit("w", [&](int, Numbers& w) {
      for (std::size_t i = 0; i < w.size(); ++i)
        w[i] = static_cast<float>(w[i] *
                                  (1 + s.growth * static_cast<double>(i) / static_cast<double>(w.size())));
    });
    const std::vector<int> replicas = few_replicas() ? std::vector{0, 1} : std::vector{0, 1, 2};
    TensorSet<double> want;
    TensorSet<float> got(Device::cuda);
    op.fill(want, replicas), op.fill(got, replicas);
    op.run_forward({}, want), op.run_backward({}, want);
    op.run_forward(exec, got), op.run_backward(exec, got);
    for (int r : replicas) {
      const auto expect_close = [&](const std::string& name, double limit) {
        const auto x = download(Device::cuda, got.real(name), r);
        const auto y = download(Device::cpu, want.real(name), r);
        const auto n = static_cast<std::int64_t>(y.size());
        EXPECT_TRUE(close(fmt::format("{}, {} columns, {} words, replica {}", name, s.D, s.V, r), x.data(),
                          y.data(), n, limit * std::max(1e-2, magnitude(y.data(), n))));
      };
      expect_close("query_loss", 1e-5), expect_close("loss", 1e-5);
      expect_close("d_x", 8e-3), expect_close("d_w", 8e-3);
      EXPECT_EQ(download(Device::cuda, got.integer("correct"), r),
                download(Device::cpu, want.integer("correct"), r));
      TensorSet<float> alone(Device::cuda);
      op.fill(alone, {r});
      op.run_forward(exec, alone), op.run_backward(exec, alone);
      for (const char* name : {"query_loss", "loss", "d_x", "d_w"})
        EXPECT_EQ(download(Device::cuda, alone.real(name), 0), download(Device::cuda, got.real(name), r))
            << name;
    }
    // What is added to, and forward alone.
    got.writes["x"] = got.writes["w"] = Write::add;
    const auto loss = download(Device::cuda, got.real("loss"), 1),
               once = download(Device::cuda, got.real("d_w"), 1);
    op.run_forward(exec, got);
    EXPECT_EQ(download(Device::cuda, got.real("loss"), 1), loss);
    op.run_backward(exec, got);
    const auto twice = download(Device::cuda, got.real("d_w"), 1);
    for (std::size_t i = 0; i < once.size(); ++i) EXPECT_EQ(twice[i], once[i] + once[i]);
  }
}

TEST_F(CrossEntropyOnCuda, TilesOfEqualAndOfBrokenLogits) {
  Exec exec;
  exec.device = Device::cuda;
  OpCase op = make("Equal", 6, 4, 2, 3, 24, -1, false, Precision::bf16);
  const auto whole = [](int, Numbers& x) {
    for (double& e : x) e = std::round(e);
  };
  op.edit("x", whole).edit("w", whole);
  op.edit("x", [](int, Numbers& x) { x[0] = std::nan(""); });
  TensorSet<double> want;
  TensorSet<float> got(Device::cuda);
  op.fill(want, {0, 1}), op.fill(got, {0, 1});
  op.run_forward({}, want), op.run_forward(exec, got);
  for (int r = 0; r < 2; ++r) {
    auto correct = download(Device::cpu, want.integer("correct"), r);
    EXPECT_EQ(download(Device::cuda, got.integer("correct"), r), correct);
    const auto x = download(Device::cuda, got.real("query_loss"), r);
    const auto y = download(Device::cpu, want.real("query_loss"), r);
    for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(x[i]), std::isnan(y[i])) << i;
  }
}

}  // namespace
}  // namespace crosstalk::checks::cross_entropy_test

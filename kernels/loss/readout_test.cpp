// Values gathered by read weights, and the squared loss against one-hot targets.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/loss/readout.h"

#include <array>

#include "kernels/testing/op_fields.h"

namespace crosstalk::checks::readout_test {
namespace {

/// eps > 0: weights, all positive, are divided by their sum.
OpCase gather(const std::string& name, int B, int T, int Q, int V, int C, int lowest_id, double eps = 0) {
  OpCase op(name);
  op.input("a", {B, Q, T}, eps > 0 ? uniform(0.5, 1.5) : normal());
  op.integers("tokens", {B, T, C}, integer_in(lowest_id, V - 1));
  op.output("y", {B, Q, V});
  if (eps > 0)
    op.output_without_gradient("w", {B, Q, T}).output_without_gradient("inverse", {B, Q});
  else
    op.absent("w").absent("inverse");
  call<GatherValues>(op, [=](auto& o) { o.eps = eps; });
  op.oracle([=](const Values& in, Values& out) {  // a product with dense one-hot values
    for (int bq = 0; bq < B * Q; ++bq) {
      long double sum = eps;
      for (int t = 0; t < T; ++t) sum += in["a"][bq * T + t];
      for (int t = 0; t < T; ++t) out.real["w"].push_back(static_cast<double>(in["a"][bq * T + t] / sum));
      out.real["inverse"].push_back(static_cast<double>(1 / sum));
      for (int v = 0; v < V; ++v) {
        long double y = 0;
        for (int t = 0; t < T; ++t) {
          const int id = in.integer.at("tokens")[(bq / Q * T + t) * C + 1];
          y += (id == v ? 1.0L : 0.0L) * in["a"][bq * T + t];
        }
        out.real["y"].push_back(static_cast<double>(eps > 0 ? y / sum : y));
      }
    }
  });
  return op.roundings(eps > 0 ? 2 * T + 2 : T).gradient_elements(200);
}

OpCase loss(const std::string& name, int B, int Q, int V, int lowest_target, bool eager = false) {
  OpCase op(name);
  op.input("y", {B, Q, V}, normal()).integers("target", {B, Q}, integer_in(lowest_target, V - 1));
  op.loss("loss").output_without_gradient("query_loss", {B, Q}).integer_output("correct", {B, Q});
  call<SquaredLoss>(op, [=](auto& o) { o.with_gradients = eager; });
  op.oracle([=](const Values& in, Values& out) {
    long double sum = 0;
    int used = 0;
    for (int i = 0; i < B * Q; ++i) {
      const int target = in.integer.at("target")[i];
      const double* y = in["y"].data() + i * V;
      if (target < 0) {
        out.real["query_loss"].push_back(0);
        out.integer["correct"].push_back(-1);
        continue;
      }
      long double square = 0;
      int larger = 0;
      for (int v = 0; v < V; ++v) {
        const long double difference = y[v] - (v == target ? 1.0L : 0.0L);
        square += difference * difference;
        larger += v != target && y[v] >= y[target];
      }
      out.real["query_loss"].push_back(static_cast<double>(square / 2));
      out.integer["correct"].push_back(larger == 0);
      sum += square / 2;
      ++used;
    }
    out.real["loss"].push_back(used ? static_cast<double>(sum / used) : 0);
  });
  return op.roundings(V + B * Q).gradient_elements(200);
}

std::vector<OpCase> cases() {
  const auto ties = [](int, Numbers& y) {
    for (double& e : y) e = std::round(e);
  };
  return {gather("Gather", 4, 7, 1, 5, 2, 0),
          gather("GatherAbsentValues", 4, 7, 3, 5, 2, -1),
          gather("GatherThreeChannels", 3, 6, 2, 9, 3, -1),
          gather("GatherOneToken", 4, 1, 2, 3, 2, -1),
          gather("GatherOneValue", 4, 5, 2, 1, 2, -1),
          gather("GatherLarge", 3, 90, 4, 67, 2, -1),
          gather("GatherDivided", 4, 7, 3, 5, 2, -1, 1e-6),
          gather("GatherDividedLarge", 3, 300, 2, 67, 2, -1, 0.1),
          loss("Loss", 4, 1, 7, 0),
          loss("LossUnusedSlots", 4, 5, 3, -1),
          loss("LossOneValue", 3, 4, 1, -1),
          loss("LossLarge", 33, 3, 67, -1),
          loss("LossTies", 6, 4, 3, -1).edit("y", ties)};
}

INSTANTIATE_TEST_SUITE_P(Readout, OpCheck, ::testing::ValuesIn(cases()), case_name);

std::vector<OpCase> sizes() {
  std::vector<OpCase> all;
  const std::array<int, 4> sizes[] = {{1, 1, 1, 1},     {3, 2, 40, 7},  {2, 5, 100, 90},  {2, 1, 65, 1},
                                      {1, 3, 50, 1500}, {2, 1, 700, 5}, {1, 2, 600, 5000}};
  for (const auto& [B, Q, T, V] : sizes) {
    const std::string shape = fmt::format("{}x{}x{}x{}", B, Q, T, V);
    all.push_back(gather("Gather" + shape, B, T, Q, V, 3, -1).on_cuda({1.0 * T, 1}, {1, 1}));
    all.push_back(
        gather("GatherDivided" + shape, B, T, Q, V, 3, -1, 1e-6).on_cuda({1.0 * T, 1}, {1.0 * T, 1}));
  }
  for (const auto& [B, Q, V] : {std::tuple{1, 1, 1}, {1, 2, 600}, {5, 3, 33}, {32, 1, 100}, {20, 30, 17}}) {
    OpCase op = loss(fmt::format("Loss{}x{}x{}", B, Q, V), B, Q, V, -1);
    all.push_back(op.on_cuda({1.0 * (V + B * Q), 1}, {1, 1}));
    OpCase at_once(fmt::format("LossAndGradient{}x{}x{}", B, Q, V));
    at_once.parameter("y", {B, Q, V}, normal()).integers("target", {B, Q}, integer_in(-1, V - 1));
    at_once.output_without_gradient("loss", {}).output_without_gradient("query_loss", {B, Q});
    at_once.output_without_gradient("d_y", {B, Q, V}).integer_output("correct", {B, Q});
    at_once.forward([]<class Real>(const Exec& exec, TensorSet<Real>& s) {
      auto bound_op = bound<SquaredLoss, Real>(s, [](auto& o) { o.with_gradients = true; });
      bound_op.y.write = Write::overwrite;
      forward(exec, bound_op);
    });
    all.push_back(at_once.on_cuda({1.0 * (V + B * Q), 1}, {1, 1}));
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Readout, CudaOpCheck, ::testing::ValuesIn(sizes()), case_name);

// The gradient on the way is that of the op of its own.
TEST(SquaredLoss, GradientWithTheLoss) {
  const OpCase apart = loss("Gradient", 5, 3, 4, -1), eager = loss("Gradient", 5, 3, 4, -1, true);
  TensorSet<double> a, b;
  apart.fill(a, {0}), eager.fill(b, {0});
  apart.run_forward(Exec{}, a), apart.run_backward(Exec{}, a);
  eager.run_forward(Exec{}, b);
  EXPECT_TRUE(identical("d_y", b.real("d_y").at(0), a.real("d_y").at(0), 60));
}

// No slot used: nothing to average over, and nothing to learn.
TEST(SquaredLoss, NoUsedSlot) {
  OpCase op = loss("NoUsedSlot", 2, 3, 4, 0);
  TensorSet<double> s;
  op.fill(s, {0});
  upload(Device::cpu, s.integer("target"), 0, Integers(6, -1));
  op.run_forward(Exec{}, s);
  op.run_backward(Exec{}, s);
  EXPECT_EQ(s.real("loss").data[0], 0);
  for (int i = 0; i < 24; ++i) EXPECT_EQ(s.real("d_y").data[i], 0);
}

// A diverged model must not look right, and its loss must not look finite.
TEST(SquaredLoss, NanIsNeverCorrect) {
  OpCase op = loss("Nan", 2, 3, 4, 0);
  op.edit("y", [](int, Numbers& y) { std::fill(y.begin(), y.end(), std::nan("")); });
  TensorSet<double> s;
  op.fill(s, {0});
  op.run_forward(Exec{}, s);
  EXPECT_TRUE(std::isnan(s.real("loss").data[0]));
  for (int i = 0; i < 6; ++i) EXPECT_EQ(s.integer("correct").data[i], 0);
}

TEST(SquaredLoss, NanElsewhereIsNotCorrect) {
  OpCase op = loss("NanElsewhere", 1, 1, 3, 0);
  op.edit("y", [](int, Numbers& y) { y = {std::nan(""), 5, 1}; });
  TensorSet<double> s;
  op.fill(s, {0});
  upload(Device::cpu, s.integer("target"), 0, Integers{1});
  op.run_forward(Exec{}, s);
  EXPECT_EQ(s.integer("correct").data[0], 0) << "5 is not larger than every other entry";
}

}  // namespace
}  // namespace crosstalk::checks::readout_test

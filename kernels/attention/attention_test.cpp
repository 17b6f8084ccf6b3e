// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/attention.h"

#include "kernels/testing/op_fields.h"

namespace crosstalk::checks {
namespace {

int position(const Values& in, int i) { return in.integer.at("position")[static_cast<std::size_t>(i)]; }

OpCase scores(const std::string& name, int B, int T, int Q, int P, double scale) {
  OpCase op(name);
  op.input("k", {B, T, P}, normal())
      .input("q", {B, Q, P}, normal())
      .integers("position", {B, Q}, positions(T));
  op.output("a", {B, Q, T});
  call<Scores>(op, [=](auto& o) { o.scale = scale; });
  op.oracle([=](const Values& in) {
    Values out;
    for (int bq = 0; bq < B * Q; ++bq) {
      for (int t = 0; t < T; ++t) {
        long double a = 0;
        for (int p = 0; p < P; ++p)
          a += static_cast<long double>(in["q"][static_cast<std::size_t>(bq * P + p)]) *
               in["k"][static_cast<std::size_t>((bq / Q * T + t) * P + p)];
        out.real["a"].push_back(t < position(in, bq) ? static_cast<double>(scale * a) : 0);
      }
    }
    return out;
  });
  return op.roundings(std::max({P, T, Q})).gradient_elements(150);
}

/// `size`: scale of the logits.
OpCase softmax(const std::string& name, int B, int T, int Q, double size) {
  OpCase op(name);
  op.input("x", {B, Q, T}, normal(size)).integers("position", {B, Q}, positions(T)).output("y", {B, Q, T});
  call<Softmax>(op, [](auto&) {});
  op.oracle([=](const Values& in) {  // 1 / sum_j exp(x_j - x_t): no maximum is taken out
    Values out;
    for (int bq = 0; bq < B * Q; ++bq) {
      const double* x = in["x"].data() + bq * T;
      for (int t = 0; t < T; ++t) {
        long double sum = 0;
        for (int j = 0; j < position(in, bq); ++j) sum += std::exp(static_cast<long double>(x[j]) - x[t]);
        out.real["y"].push_back(t < position(in, bq) ? static_cast<double>(1 / sum) : 0);
      }
    }
    return out;
  });
  // An error of eps |x| in the exponent is a relative error of the weight.
  return op.roundings(T + 8 * size).condition(2).gradient_elements(150);
}

std::vector<OpCase> cases() {
  OpCase huge = softmax("SoftmaxHugeLogits", 4, 6, 2, 1).edit("x", [](int, Numbers& x) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += i % 4 == 0 ? 3000 : 2998;  // exp overflows
  });
  return {scores("Scores", 4, 7, 1, 5, 1),
          scores("ScoresScaled", 4, 7, 3, 5, 0.125),
          scores("ScoresOneToken", 4, 1, 3, 4, 2),
          scores("ScoresOneDimension", 4, 5, 2, 1, 1),
          scores("ScoresLarge", 3, 45, 5, 33, 0.25),
          softmax("Softmax", 4, 7, 1, 1),
          softmax("SoftmaxManyQueries", 4, 6, 3, 2),
          softmax("SoftmaxOneToken", 4, 1, 3, 1),
          softmax("SoftmaxLong", 4, 67, 2, 1),
          softmax("SoftmaxSharp", 4, 9, 2, 30),
          huge.roundings(4000)};
}

INSTANTIATE_TEST_SUITE_P(Attention, OpCheck, ::testing::ValuesIn(cases()), case_name);

std::vector<OpCase> reads() {
  std::vector<OpCase> all;
  for (const auto& [B, T, P, Q] : kReadShapes) {
    const std::string shape = fmt::format("{}x{}x{}x{}", B, T, P, Q);
    all.push_back(scores("Scores" + shape, B, T, Q, P, 0.7).on_cuda({1.0 * P, 1}, {1.0 * std::max(T, Q), 1}));
    all.push_back(softmax("Softmax" + shape, B, T, Q, 3).on_cuda({1.0 * T, 1}, {1.0 * T, 1}));
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Attention, CudaOpCheck, ::testing::ValuesIn(reads()), case_name);

}  // namespace
}  // namespace crosstalk::checks

// Sum and norm with gain and bias against long sums; the variance as the mean square of pairwise differences.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm/residual_norm.h"

#include "kernels/testing/op_fields.h"

namespace crosstalk::checks::residual_norm_test {
namespace {

OpCase make(const std::string& name, RowNorm norm, int N, int D, bool branch, bool bias, double eps = 1e-2,
            const RowGate* gate = nullptr) {
  OpCase op(name);
  op.input("x", {N, D}, normal()).input("gain", {D}, normal());
  if (branch)
    op.input("branch", {N, D}, normal());
  else
    op.absent("branch");
  if (branch)
    op.output("sum", {N, D});
  else
    op.absent("sum");
  op.optional(bias, "bias", {D}, normal());
  op.optional(gate, "gate", {N, D}, normal(2));
  const RowGate by = gate ? *gate : RowGate::silu;
  const bool gated = gate != nullptr;
  op.output("y", {N, D}).workspace("mean", {N}).workspace("inverse", {N});
  op.workspace("part", {ResidualNorm<float>::pieces(N), 2, D});
  call<ResidualNorm>(op, [=](auto& o) { o.norm = norm, o.eps = eps, o.gate_by = by; });
  op.oracle([=](const Values& in, Values& out) {
    for (int n = 0; n < N; ++n) {
      std::vector<long double> s;
      long double sum = 0, square = 0, pairs = 0;
      for (int i = 0; i < D; ++i) {
        const auto at = static_cast<std::size_t>(n * D + i);
        s.push_back(in["x"][at] + (branch ? static_cast<long double>(in["branch"][at]) : 0));
        for (int j = 0; j < i; ++j) pairs += (s.back() - s[j]) * (s.back() - s[j]);
        sum += s.back(), square += s.back() * s.back();
      }
      const bool layer = norm == RowNorm::layer;
      const long double mean = layer ? sum / D : 0,
                        deviation = std::sqrt((layer ? pairs / D / D : square / D) + eps);
      for (int i = 0; i < D; ++i) {
        const auto at = static_cast<std::size_t>(i);
        if (branch) out.real["sum"].push_back(static_cast<double>(s[at]));
        long double y = in["gain"][at] * (s[at] - mean) / deviation + (bias ? in["bias"][at] : 0);
        if (gated) {
          const long double g = in["gate"][static_cast<std::size_t>(n * D + i)];
          y *= (by == RowGate::silu ? g : 1) / (1 + std::exp(-g));
        }
        out.real["y"].push_back(static_cast<double>(y));
      }
    }
  });
  return op.roundings(D + N / 8 + 8).condition(8).gradient_elements(100);
}

std::vector<OpCase> cases() {
  std::vector<OpCase> all;
  for (const RowNorm norm : {RowNorm::layer, RowNorm::rms}) {
    const std::string word = norm == RowNorm::layer ? "Layer" : "Rms";
    for (const RowGate gate : {RowGate::silu, RowGate::sigmoid}) {
      const std::string by = word + (gate == RowGate::silu ? "Silu" : "Sigmoid");
      all.push_back(make(by, norm, 5, 7, false, true, 1e-2, &gate));
      all.push_back(make(by + "Branch", norm, 37, 64, true, false, 1e-2, &gate));
      all.push_back(make(by + "Fours", norm, 69, 128, false, false, 1e-2, &gate));
      all.push_back(make(by + "TwoFours", norm, 35, 256, false, true, 1e-2, &gate));
    }
    all.push_back(make(word, norm, 5, 7, true, true));
    all.push_back(make(word + "First", norm, 5, 7, false, true));
    all.push_back(make(word + "WithoutBias", norm, 5, 7, true, false));
    all.push_back(make(word + "FirstWithoutBias", norm, 5, 7, false, false));
    all.push_back(make(word + "OneColumn", norm, 4, 1, true, true, 0.5));
    all.push_back(make(word + "Pieces", norm, 131, 67, true, true));
    all.push_back(make(word + "Fours", norm, 131, 64, true, true));
    all.push_back(make(word + "FoursFirst", norm, 69, 100, false, true));
    all.push_back(make(word + "FoursWithoutBias", norm, 67, 128, true, false));
    all.push_back(make(word + "TwoFours", norm, 35, 200, true, true));
    all.push_back(make(word + "Wide", norm, 35, 300, true, true));
    all.push_back(make(word + "WideFirst", norm, 33, 512, false, true));
    all.push_back(make(word + "MoreThanRegisters", norm, 35, 531, true, true));
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(ResidualNorm, OpCheck, ::testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace crosstalk::checks::residual_norm_test

// Rows divided by their sum, length, root mean square or standard deviation.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm/normalize.h"

#include "kernels/testing/cuda_test.h"
#include "kernels/testing/op_fields.h"

namespace crosstalk::checks::normalize_test {
namespace {

OpCase make(const std::string& name, RowNorm norm, int N, int D, double eps, const Fill& fill) {
  OpCase op(name);
  op.input("x", {N, D}, fill).output("y", {N, D}).output_without_gradient("inverse", {N});
  call<Normalize>(op, [=](auto& o) { o.norm = norm, o.eps = eps; });
  op.oracle([=](const Values& in, Values& out) {
    for (int n = 0; n < N; ++n) {
      const double* x = in["x"].data() + n * D;
      long double sum = 0, square = 0, pairs = 0, shift = 0, scale = 0;
      for (int i = 0; i < D; ++i) {
        sum += x[i];
        square += static_cast<long double>(x[i]) * x[i];
        for (int j = 0; j < i; ++j) pairs += (static_cast<long double>(x[i]) - x[j]) * (x[i] - x[j]);
      }
      switch (norm) {
        case RowNorm::sum:
          scale = 1 / (sum + eps);
          break;
        case RowNorm::l2:
          scale = 1 / std::sqrt(square + eps);
          break;
        case RowNorm::rms:
          scale = std::sqrt(D / (square + D * eps));
          break;
        case RowNorm::softmax: {  // of its own, without the largest taken off: e^x / sum e^x (eps 0)
          long double total = 0;
          for (int i = 0; i < D; ++i) total += std::exp(static_cast<long double>(x[i]));
          const double top = *std::max_element(x, x + D);
          for (int i = 0; i < D; ++i)
            out.real["y"].push_back(static_cast<double>(std::exp(static_cast<long double>(x[i])) / total));
          out.real["inverse"].push_back(static_cast<double>(std::exp(static_cast<long double>(top)) / total));
          continue;
        }
        case RowNorm::layer:  // the variance as the mean square of pairwise differences
          shift = sum / D;
          scale = 1 / std::sqrt(pairs / D / D + eps);
          break;
      }
      for (int i = 0; i < D; ++i) out.real["y"].push_back(static_cast<double>((x[i] - shift) * scale));
      out.real["inverse"].push_back(static_cast<double>(scale));
    }
  });
  return op.roundings(D + 4).condition(4).gradient_elements(200);
}

std::vector<OpCase> cases() {
  const auto zero_rows = [](int, Numbers& x) { std::fill(x.begin() + 4, x.begin() + 8, 0); };
  const auto constant_row = [](int, Numbers& x) { std::fill(x.begin() + 4, x.begin() + 8, 1.75); };
  std::vector<OpCase> all = {
      make("Sum", RowNorm::sum, 5, 7, 0, uniform(0.1, 1)),
      make("SumEps", RowNorm::sum, 5, 7, 0.25, uniform(0.1, 1)),
      make("SumMixedSigns", RowNorm::sum, 5, 7, 1e-3, uniform(-0.2, 1)),
      make("SumOneColumn", RowNorm::sum, 5, 1, 0.5, uniform(0.1, 1)),
      make("SumWide", RowNorm::sum, 35, 67, 1e-6, uniform(0.1, 1)),
      make("SumZeroRow", RowNorm::sum, 5, 4, 0.25, uniform(0.1, 1)).edit("x", zero_rows),
      make("L2", RowNorm::l2, 5, 7, 0, normal()),
      make("L2Eps", RowNorm::l2, 5, 7, 0.25, normal()),
      make("L2OneColumn", RowNorm::l2, 5, 1, 0.5, normal()),
      make("L2Wide", RowNorm::l2, 35, 67, 1e-6, normal()),
      make("L2ZeroRow", RowNorm::l2, 5, 4, 0.25, normal()).edit("x", zero_rows),
      make("Rms", RowNorm::rms, 5, 7, 0, normal()),
      make("RmsEps", RowNorm::rms, 5, 7, 0.25, normal()),
      make("RmsOneColumn", RowNorm::rms, 5, 1, 0.5, normal()),
      make("RmsWide", RowNorm::rms, 35, 67, 1e-6, normal()),
      make("RmsZeroRow", RowNorm::rms, 5, 4, 0.25, normal()).edit("x", zero_rows),
      make("Layer", RowNorm::layer, 5, 7, 0, normal()),
      make("LayerEps", RowNorm::layer, 5, 7, 0.25, normal()),
      make("LayerOneColumn", RowNorm::layer, 5, 1, 0.5, normal()),
      make("LayerTwoColumns", RowNorm::layer, 5, 2, 0.5, normal()),
      make("LayerWide", RowNorm::layer, 35, 67, 1e-5, normal()),
      make("Softmax", RowNorm::softmax, 5, 7, 0, normal()),
      make("SoftmaxOneColumn", RowNorm::softmax, 5, 1, 0, normal()),
      make("SoftmaxWide", RowNorm::softmax, 35, 67, 0, normal()),
      make("SoftmaxOfLargeNumbers", RowNorm::softmax, 5, 9, 0, uniform(800, 806)).condition(4000),
      make("SoftmaxVeryWide", RowNorm::softmax, 3, 700, 0, normal()),
      make("LayerConstantRow", RowNorm::layer, 5, 4, 0.25, normal()).edit("x", constant_row)};
  // mean far larger than the spread: the two-pass variance loses log2(100) bits, not twice as many
  all.push_back(make("LayerShifted", RowNorm::layer, 5, 9, 1e-5, normal())
                    .edit("x",
                          [](int, Numbers& x) {
                            for (double& e : x) e += 100;
                          })
                    .condition(400));
  return all;
}

INSTANTIATE_TEST_SUITE_P(Normalize, OpCheck, ::testing::ValuesIn(cases()), case_name);

// A zero has no direction: it stays, and has no gradient. Where eps is 0 no derivative says so.
void expect_zero_rows_stay(Device device) {
  const OpCase op = make("L2OfZeros", RowNorm::l2, 5, 4, 0, normal()).edit("x", [](int, Numbers& x) {
    std::fill(x.begin() + 4, x.begin() + 8, 0);
  });
  TensorSet<double> set(device);
  op.fill(set, {0});
  Exec exec;
  exec.device = device;
  op.run_forward(exec, set), op.run_backward(exec, set);
  for (const char* name : {"y", "d_x"}) {
    const auto got = download(device, set.real(name), 0);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(got[i] == 0, i >= 4 && i < 8) << name << i;
  }
}
TEST(NormalizeTest, AZeroHasNoDirection) { expect_zero_rows_stay(Device::cpu); }
class NormalizeOnCuda : public CudaTest {};
TEST_F(NormalizeOnCuda, AZeroHasNoDirection) { expect_zero_rows_stay(Device::cuda); }

std::vector<OpCase> widths() {
  std::vector<OpCase> all;
  for (const auto& [name, norm] : {std::pair{"Sum", RowNorm::sum},
                                   {"L2", RowNorm::l2},
                                   {"Layer", RowNorm::layer},
                                   {"Rms", RowNorm::rms}}) {
    for (const int D : {1, 5, 64, 130, 300, 600}) {
      OpCase op = make(fmt::format("{}{}", name, D), norm, 19, D, 1e-2,
                       uniform(norm == RowNorm::layer ? -1 : 0.1, 1));
      all.push_back(op.on_cuda({1.0 * D, 2}, {1.0 * D, 4}));
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Normalize, CudaOpCheck, ::testing::ValuesIn(widths()), case_name);

}  // namespace
}  // namespace crosstalk::checks::normalize_test

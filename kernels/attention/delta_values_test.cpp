// What the delta rule writes, against its state: S_t = S_{t-1} + u_t k_t^T, u_t = gain_t (v_t - S_{t-1} k_t).
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/delta_values.h"

#include <fmt/format.h>

#include <array>
#include <map>

#include "kernels/testing/cuda_test.h"
#include "kernels/testing/op_fields.h"

namespace crosstalk::checks::delta_values_test {
namespace {

struct Shape {
  int B, T, H, K, V;
};

Numbers written(const Values& in, const Shape& s) {
  Numbers u(static_cast<std::size_t>(s.B * s.T * s.H * s.V));
  for (int bh = 0; bh < s.B * s.H; ++bh) {
    std::vector<long double> S(static_cast<std::size_t>(s.V * s.K), 0);
    for (int t = 0; t < s.T; ++t) {
      const int row = (bh / s.H * s.T + t) * s.H + bh % s.H;
      for (int a = 0; a < s.V; ++a) {
        long double held = 0;
        for (int j = 0; j < s.K; ++j) held += S[a * s.K + j] * in["k"][row * s.K + j];
        u[row * s.V + a] = static_cast<double>(in["gain"][row] * (in["v"][row * s.V + a] - held));
      }
      for (int c = 0; c < s.V * s.K; ++c)
        S[c] += static_cast<long double>(u[row * s.V + c / s.K]) * in["k"][row * s.K + c % s.K];
    }
  }
  return u;
}

OpCase make(const std::string& name, const Shape& s) {
  OpCase op(name);
  op.input("k", {s.B, s.T, s.H, s.K}, normal(1 / std::sqrt(s.K))).input("v", {s.B, s.T, s.H, s.V}, normal());
  op.input("gain", {s.B, s.T, s.H}, uniform(-0.2, 1.2)).output("u", {s.B, s.T, s.H, s.V});
  op.workspace("z", {s.B, s.T, s.H, (s.V + 1) / 2}).workspace("part", {s.B, s.T, s.H, 4});
  call<DeltaValues>(op, [](auto&) {});
  op.oracle([s](const Values& in, Values& out) { out.real["u"] = written(in, s); });
  return op.roundings(4 * s.T + 2 * s.K).condition(4).gradient_elements(40);
}

std::vector<OpCase> cases() {
  return {make("One", {1, 1, 1, 1, 1}), make("Few", {2, 5, 2, 3, 4}), make("Long", {1, 40, 2, 6, 3}),
          make("Wide", {1, 7, 1, 20, 33})};
}
class DeltaValuesCheck : public ::testing::TestWithParam<OpCase> {};
TEST_P(DeltaValuesCheck, Reference) { GetParam().check_reference(); }
TEST_P(DeltaValuesCheck, Gradient) { GetParam().check_gradient(); }
TEST_P(DeltaValuesCheck, Replicas) { GetParam().check_replicas(); }
INSTANTIATE_TEST_SUITE_P(DeltaValues, DeltaValuesCheck, ::testing::ValuesIn(cases()), case_name);

/// Numbers and gradients of one replica: in chunks on the GPU, whose operands are bf16, or of doubles on the CPU.
template <class Real>
std::map<std::string, Numbers> run(const Shape& s, Device device, Write write,
                                   Format format = Format::native) {
  TensorSet<Real> set(device);
  const std::pair<const char*, std::vector<int>> fields[] = {{"k", {s.B, s.T, s.H, s.K}},
                                                             {"v", {s.B, s.T, s.H, s.V}},
                                                             {"u", {s.B, s.T, s.H, s.V}},
                                                             {"gain", {s.B, s.T, s.H}}};
  for (const auto& [name, dims] : fields) {
    const Format of = dims.size() == 4 ? format : Format::native;
    set.reals.add(name, 1, dims, of), set.reals.add(std::string("d_") + name, 1, dims, of);
    set.writes[name] = write;
  }
  set.reals.add("z", 1, {s.B, s.T, s.H, (s.V + 1) / 2}), set.reals.add("part", 1, {s.B, s.T, s.H, 4});
  set.allocate();
  RandomStream random(11, RandomDomain::initialisation, 0);
  const auto draw = [&](const std::string& name, const Fill& fill) {
    Numbers x;
    for (std::int64_t i = 0; i < set.real(name).size(); ++i) x.push_back(fill(random, 0, i));
    upload(device, set.real(name), 0, x);
  };
  draw("k", normal(1 / std::sqrt(s.K))), draw("v", normal()), draw("gain", uniform(0, 1));
  for (const char* name : {"d_k", "d_v", "d_u", "d_gain"}) draw(name, normal());
  Exec exec;
  exec.device = device;
  const auto op = bound<DeltaValues, Real>(set, [](auto&) {});
  forward(exec, op), backward(exec, op);
  set.check_overruns();
  std::map<std::string, Numbers> out;
  for (const char* name : {"u", "d_k", "d_v", "d_gain"}) {
    const auto x = download(device, set.real(name), 0);
    out[name] = Numbers(x.begin(), x.end());
  }
  return out;
}

class DeltaValuesOnCuda : public CudaTest {};

TEST_F(DeltaValuesOnCuda, AgreesWithTheCpu) {
  for (const auto& [B, T, H, K, V] : {std::array{1, 1, 1, 136, 8},
                                      {2, 63, 1, 256, 256},
                                      {1, 64, 2, 144, 200},
                                      {1, 150, 2, 256, 136},
                                      {1, 256, 1, 200, 256}}) {
    const Shape s = {B, T, H, K, V};
    if (!DeltaValues<float>::takes(K, V)) {
      GTEST_SKIP() << "does not fit this GPU";
    }
    for (const Write write : {Write::overwrite, Write::add}) {
      const auto want = run<double>(s, Device::cpu, write);
      for (const Format format : {Format::native, Format::bf16}) {
        const auto got = run<float>(s, Device::cuda, write, format);
        for (const auto& [name, x] : want)
          EXPECT_LE(relative_error(got.at(name), x), 3e-2)
              << fmt::format("{}: T {} K {} V {} bf16 {}", name, T, K, V, format == Format::bf16);
        if (few_replicas()) continue;
        EXPECT_EQ(got, run<float>(s, Device::cuda, write, format)) << "another launch, other bits";
      }
    }
  }
}

}  // namespace
}  // namespace crosstalk::checks::delta_values_test

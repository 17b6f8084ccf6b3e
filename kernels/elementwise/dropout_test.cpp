// Dropout against its stream, word by word.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise/dropout.h"

#include "kernels/testing/op_fields.h"

namespace crosstalk::checks::dropout_test {
namespace {

OpCase make(const std::string& name, std::vector<int> dims, double rate, std::uint32_t site) {
  OpCase op(name);
  int n = 1;
  for (const int d : dims) n *= d;
  op.input("x", dims, normal())
      .integers("seed", {2}, integer_in(-5, 5))
      .integers("draw", {1}, integer_in(0, 9));
  op.output("y", dims).integer_output("drawn", {1});
  call<Dropout>(op, [=](auto& o) { o.rate = rate, o.site = site; });
  op.oracle([=](const Values& in, Values& out) {
    const auto& words = in.integer.at("seed");
    const auto draw = static_cast<std::uint32_t>(in.integer.at("draw")[0]);
    RandomStream stream(static_cast<std::uint64_t>(static_cast<std::uint32_t>(words[1])) << 32 |
                            static_cast<std::uint32_t>(words[0]),
                        RandomDomain::dropout, draw, site);
    for (int i = 0; i < n; ++i)
      out.real["y"].push_back(stream.next() * 0x1p-32 < rate ? 0 : in["x"][i] / (1 - rate));
    out.integer["drawn"] = in.integer.at("draw");
  });
  return op.roundings(3).gradient_elements(100);
}

std::vector<OpCase> cases() {
  return {make("One", {1}, 0.5, 0), make("Some", {3, 5}, 0.25, 1), make("None", {2, 9}, 0, 2),
          make("Many", {7, 9, 37}, 0.1, 3)};
}

INSTANTIATE_TEST_SUITE_P(Dropout, OpCheck, ::testing::ValuesIn(cases()), case_name);

double zeros_of(double rate, std::uint32_t site, std::int32_t draw, std::int32_t seed) {
  const OpCase op = make("Share", {100, 100}, rate, site);
  TensorSet<float> s;
  op.fill(s, {0});
  upload(Device::cpu, s.integer("draw"), 0, Integers{draw});
  upload(Device::cpu, s.integer("seed"), 0, Integers{seed, 0});
  op.run_forward({}, s);
  double zeros = 0;
  for (int i = 0; i < 10000; ++i) zeros += s.real("y").data[i] == 0;
  return zeros;
}

// Four standard deviations of 10,000 draws.
TEST(DropoutTest, DropsTheShareThatItSays) { EXPECT_NEAR(zeros_of(0.1, 1, 2, 3), 1000, 120); }

TEST(DropoutTest, DrawsAnewByStepSiteAndSeed) {
  EXPECT_EQ(zeros_of(0.1, 1, 2, 3), zeros_of(0.1, 1, 2, 3));
  EXPECT_NE(zeros_of(0.1, 2, 2, 3), zeros_of(0.1, 1, 2, 3));
  EXPECT_NE(zeros_of(0.1, 1, 3, 3), zeros_of(0.1, 1, 2, 3));
  EXPECT_NE(zeros_of(0.1, 1, 2, 4), zeros_of(0.1, 1, 2, 3));
}

// The counter moves on before the backward pass, which must drop what the forward pass dropped.
TEST(DropoutTest, BackwardDropsWhatForwardDropped) {
  const OpCase op = make("Later", {9, 11}, 0.5, 1);
  TensorSet<double> s;
  op.fill(s, {0});
  op.run_forward({}, s);
  upload(Device::cpu, s.integer("draw"), 0, Integers{77});
  op.run_backward({}, s);
  for (int i = 0; i < 99; ++i) EXPECT_EQ(s.real("d_x").data[i] == 0, s.real("y").data[i] == 0);
}

}  // namespace
}  // namespace crosstalk::checks::dropout_test

// Compiled laws (kernels/rule/rule_source.h) against the CPU's interpreter in double: what is read, states at the end, all gradients.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/device/nvrtc.h"
#include "kernels/base/error.h"
#include "kernels/rule/rule_source.h"
#include "kernels/testing/cuda_test.h"
#include "kernels/testing/refused.h"
#include "models/rules/law.h"
#include "models/rules/law_examples.h"
#include "models/rules/program.h"
#include "models/rules/rule_run.h"

namespace crosstalk::rules::compiled_test {

std::shared_ptr<const RuleProgram> program_at(const std::string& text, bool beside, int K, int V) {
  const std::unique_ptr<Law> law = parse_law(steps_of(text), {});
  return program_of(*law, cut(*law, beside), K, V);
}
const std::string& example(const std::string& name) {
  for (const Example& one : examples())
    if (one.name == name) return one.law;
  throw std::logic_error("no example " + name);
}

template <class Real>
std::vector<std::vector<Real>> ran(const RuleRun<Real>& run, int times = 1) {
  Exec exec;
  exec.device = run.op().device;
  for (int i = 0; i < times; ++i)
    if (exec.device == Device::cuda) {
      const CudaStream stream;
      exec.stream = stream.get();
      forward(exec, run.op()), backward(exec, run.op());
      stream.synchronise();
    } else {
      forward(exec, run.op()), backward(exec, run.op());
    }
  return run.results();
}

/// Sources are the compiler's, without a GPU: a law of every kind of operation, and the shapes that registers do not divide evenly.
TEST(CompiledRule, SourcesCompile) {
  if (!nvrtc().found) {
    GTEST_SKIP() << nvrtc().missing;
  }
  for (const char* name : {"fwm", "nonsense", "gsa", "m2rnn"}) {
    const bool odd = std::string(name) != "nonsense";
    const RuleSource source =
        rule_source(*program_at(example(name), odd, odd ? 20 : 8, odd ? 24 : 8), odd, odd);
    ASSERT_EQ(source.refused, "") << name;
    EXPECT_GT(compile_cuda(source.forward, 90, name).size(), 1000u);
    EXPECT_GT(compile_cuda(source.backward, 90, name).size(), 1000u);
  }
}
TEST(CompiledRule, WhatDoesNotCompileSaysSo) {
  if (!nvrtc().found) {
    GTEST_SKIP() << nvrtc().missing;
  }
  const auto found = checks::refused<DeviceError>([] { compile_cuda("this is no program", 90, "the law"); });
  EXPECT_TRUE(found.says("NVRTC")) << found.why;
}
TEST(CompiledRule, StatesThatFitNoBlockAreRefused) {
  EXPECT_NE(rule_source(*program_at(example("fwm"), false, 256, 128), false, false).refused, "");
  EXPECT_NE(rule_source(*program_at(example("m2rnn"), false, 128, 128), false, false).refused, "");
  EXPECT_EQ(rule_source(*program_at(example("fwm"), false, 128, 128), false, false).refused, "");
}
TEST(CompiledRule, SolveIsRefused) {
  EXPECT_NE(rule_source(*program_at(example("ridge"), false, 8, 8), false, false).refused.find("solve()"),
            std::string::npos);
}

class CompiledLaw : public ::testing::TestWithParam<Example> {
 protected:
  void SetUp() override {
    checks::want_cuda();
    if (!nvrtc().found) {
      GTEST_SKIP() << nvrtc().missing;
    }
  }
};
TEST_P(CompiledLaw, IsTheInterpretersOnCuda) {
  if (GetParam().law.find("solve(") != std::string::npos) {
    GTEST_SKIP() << "not compiled";
  }
  struct Case {
    RuleRunSize size;
    int K, V;
  };
  const std::vector<Case> all = {
      {{1, 2, 37, 0, true}, 16, 16}, {{1, 2, 21, 9, true}, 20, 12}, {{1, 1, 1, 0, false}, 33, 40}};
  for (Case one : all) {
    if (GetParam().name == "linear_attention") {
      one.size.positive = true;
      // Of one token its reading is v whatever k and q are: their gradients are 0 but for rounding.
      one.size.T = std::max(one.size.T, 2);
    }
    const auto program = program_at(GetParam().law, one.size.Q > 0, one.K, one.V);
    const auto truth = ran(RuleRun<double>(program, one.size, Device::cpu, false));
    EXPECT_LT(farthest(ran(RuleRun<double>(program, one.size, Device::cuda, true)), truth), 1e-10);
    EXPECT_LT(farthest(ran(RuleRun<float>(program, one.size, Device::cuda, true)), truth), 1e-3);
    if (checks::few_replicas()) return;
  }
}
TEST_P(CompiledLaw, HasTheSameBitsInPacksAndAgainOnCuda) {
  if (GetParam().law.find("solve(") != std::string::npos) {
    GTEST_SKIP() << "not compiled";
  }
  const auto program = program_at(GetParam().law, false, 20, 24);
  const RuleRunSize alone{1, 2, 19, 0, true};
  RuleRunSize pack = alone;
  pack.R = 3;
  const auto want = ran(RuleRun<float>(program, alone, Device::cuda, true));
  const RuleRun<float> run(program, pack, Device::cuda, true);
  ran(run, 2);
  for (int r = 0; r < pack.R; ++r) EXPECT_EQ(run.results(r), want) << "replica " << r;
}
INSTANTIATE_TEST_SUITE_P(Laws, CompiledLaw, ::testing::ValuesIn(examples()),
                         [](const auto& one) { return one.param.name; });

}  // namespace crosstalk::rules::compiled_test

// Laws that run token after token: what is refused, their programs, and, on a GPU, the CPU's numbers.
// SPDX-License-Identifier: Apache-2.0
#include "models/rules/sequential.h"

#include <fmt/format.h>

#include "models/rules/applied.h"
#include "models/rules/law_examples.h"
#include "models/rules/program.h"
#include "models/testing/model_run.h"
#include "models/testing/variants.h"

namespace crosstalk::rules::sequential_test {

Options options_of(const std::string& law) {
  const Memory& kind = *find_memory("rule");
  Options options = checks::memory_options(kind, 4, checks::kKeys, checks::kValues);
  options.set("memory.law", law);
  return checks::resolved(kind, options);
}

TEST(SequentialRules, AreRefusedWhereTheyLookAtTooMuch) {
  std::string law = "S = tanh(S) + v k^T";
  for (int i = 0; i < 30; ++i) law += fmt::format("; x{0} = token(V); S += x{0} tanh(S k)^T S", i);
  law += "; read S q";
  const Rule& rule = rule_of(law, {});
  EXPECT_NE(rule.refused.find("values that tokens, queries and parameters make"), std::string::npos)
      << rule.refused;
  EXPECT_THROW(options_of(law), OptionError);
}

TEST(SequentialRules, HaveOneForm) {
  const Memory& kind = *find_memory("rule");
  for (const std::string form : {"automatic", "recurrent", "chunk", "parallel", "query"}) {
    Options options = checks::memory_options(kind, 4, checks::kKeys, checks::kValues);
    options.set("memory.law", std::string("S = tanh(S) + v k^T; read S q"));
    options.set("memory.form", form);
    if (form == "automatic" || form == "recurrent") {
      EXPECT_NO_THROW(checks::resolved(kind, options)) << form;
    } else {
      EXPECT_THROW(checks::resolved(kind, options), OptionError) << form;
    }
  }
}

std::shared_ptr<const RuleProgram> program_of_example(const std::string& name, int K, int V) {
  const auto one = std::find_if(examples().begin(), examples().end(),
                                [&](const Example& example) { return example.name == name; });
  const std::unique_ptr<Law> law = parse_law(steps_of(one->law), {});
  return program_of(*law, cut(*law, false), K, V);
}
/// Matrices that are alive at once bound how many sequences a multiprocessor holds: the state, its gradient and one more of the
/// fast weight memory; two of each and two more of Titans.
TEST(SequentialRules, HoldFewMatrices) {
  EXPECT_LT(program_of_example("fwm", 32, 32)->forward_numbers, 1.3 * 32 * 32);
  EXPECT_LT(program_of_example("fwm", 32, 32)->backward_numbers, 3.5 * 32 * 32);
  EXPECT_LT(program_of_example("titans_linear", 32, 32)->backward_numbers, 6.5 * 32 * 32);
}
/// A row that moves in accesses of four numbers stands at multiples of four.
TEST(SequentialRules, ValuesAreAligned) {
  for (const Example& example : examples()) {
    const auto program = program_of_example(example.name, 13, 6);
    EXPECT_EQ(program->size % 4 + program->kept % 4 + program->state_gradient % 4, 0) << example.name;
    const auto aligned = [&](int place, int numbers) {
      EXPECT_TRUE(numbers < 4 || place % 4 == 0) << example.name << ": " << numbers << " at " << place;
    };
    for (const RuleOperation& op : program->operations)
      if (op.code != RuleCode::numbers) aligned(op.y, op.rows * op.columns);
    for (const RuleProgram::Input& one : program->inputs)
      aligned(one.place, one.width), aligned(one.gradient, one.width);
    for (const RuleProgram::State& one : program->sums) aligned(one.place, one.numbers());
  }
}

class SequentialRuleOnCuda : public checks::CudaTest, public ::testing::WithParamInterface<Example> {};

TEST_P(SequentialRuleOnCuda, IsTheCpus) {
  if (rule_of(GetParam().law, {}).plan.reason.empty()) {
    GTEST_SKIP() << "it is lowered";
  }
  for (const ApplySizes& sizes : {ApplySizes{.B = 2, .T = 7, .H = 2, .K = 4, .V = 3},
                                  ApplySizes{.B = 1, .T = 30, .H = 2, .K = 33, .V = 20},
                                  ApplySizes{.B = 1, .T = 9, .H = 1, .K = 64, .V = 70}}) {
    const std::map<std::string, OptionValue> law = {{"law", GetParam().law}};
    const Numbers want = applied<double>("rule", law, sizes, {});
    const bool steep = std::any_of(want.begin(), want.end(), [](const auto& one) {
      return std::any_of(one.second.begin(), one.second.end(), [](double x) { return !(std::abs(x) < 1e6); });
    });
    if (steep) continue;  // a law that runs away at this size says nothing
    expect_close(applied<double>("rule", law, sizes, {}, Device::cuda), want, 1e-10);
    EXPECT_EQ(applied<float>("rule", law, sizes, {}, Device::cuda),
              applied<float>("rule", law, sizes, {}, Device::cuda));
  }
}
INSTANTIATE_TEST_SUITE_P(Laws, SequentialRuleOnCuda, ::testing::ValuesIn(examples()),
                         [](const auto& one) { return one.param.name; });

}  // namespace crosstalk::rules::sequential_test

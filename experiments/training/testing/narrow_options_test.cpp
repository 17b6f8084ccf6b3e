// No option of 64 bits is used with 32 unless its bounds say that it fits.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "experiments/study/schema.h"
#include "experiments/study/study.h"
#include "results/test_refusal.h"

namespace crosstalk {
namespace {

/// Read with 64 bits wherever they are used.
const std::set<std::string> kWide = {"task.examples"};

void expect_narrow(const std::string& prefix, const std::vector<OptionSpec>& specs) {
  for (const OptionSpec& spec : specs) {
    if (!std::holds_alternative<std::int64_t>(spec.default_value) || kWide.count(prefix + spec.name) != 0)
      continue;
    EXPECT_LE(spec.max, std::numeric_limits<std::int32_t>::max()) << prefix << spec.name;
    EXPECT_GE(spec.min, std::numeric_limits<std::int32_t>::min()) << prefix << spec.name;
  }
}

TEST(NarrowOptions, BoundsOfWholeNumbersFitInto32Bits) {
  const Schema& schema = default_schema();
  for (const SchemaTask& task : schema.tasks) expect_narrow("task.", task.options);
  for (const auto& memory : schema.memories) expect_narrow("memory.", memory.options);
  expect_narrow("model.", schema.model);
  expect_narrow("train.", schema.train);
  expect_narrow("eval.", schema.eval);
}

std::string problem_of(const std::string& task) {
  const std::string text =
      "[study]\nname = \"s\"\n[base]\n" + task +
      "model.name = \"language\"\nmodel.width = 4\ntrain.batch = 1\n[memories.m]\nname = \"softmax\"\n";
  return crosstalk::testing::refusal_of<ConfigError>([&] { parse_study(text, "s.toml", {}); }, "accepted");
}

TEST(NarrowOptions, AMixtureIsRefusedWhereItStands) {
  const std::string mqar = "task.name = \"mqar\"\ntask.length = 16\ntask.pairs = 2\n";
  EXPECT_EQ(problem_of(mqar), "accepted");
  for (const char* count : {"4294967297", "4294967296", "2147483648"}) {
    const std::string problem = problem_of(mqar + "task.test_segments = \"16:2:" + count + "\"\n");
    EXPECT_NE(problem.find("s.toml:7:"), std::string::npos) << problem;
    EXPECT_NE(problem.find("task.test_segments"), std::string::npos) << problem;
  }
  // An epoch of more steps than are counted.
  EXPECT_EQ(problem_of("task.name = \"mqar\"\ntask.segments = \"16:2:2147483647\"\n"), "accepted");
  const std::string problem =
      problem_of("task.name = \"mqar\"\ntask.segments = \"16:2:2147483647 16:1:1\"\n");
  EXPECT_NE(problem.find("s.toml:5:"), std::string::npos) << problem;
  EXPECT_NE(problem.find("epoch of 2147483648 steps"), std::string::npos) << problem;
}

}  // namespace
}  // namespace crosstalk

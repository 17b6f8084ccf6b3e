// Preconditioned KDA (arXiv 2604.21100): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"
#include "models/testing/preconditioned.h"

namespace crosstalk::checks::precond_kda_test {
namespace {

CROSSTALK_HALF_LIFE(precond_kda, 0.14055);
CROSSTALK_START(precond_kda, start, "steps", 9.347, 0);
CROSSTALK_INPUT_START(precond_kda, log_decay_a, 8.92);

// With biases of 0 a released layer would forget within a token; its authors' model draws them. One draw of a few heads lies between 5
// and 17 tokens.
TEST(PrecondKdaGates, PublishedLayerHoldsForTokensAtTheStart) {
  std::vector<std::pair<std::string, OptionValue>> settings;
  for (const auto& [key, value] : find_memory("precond_kda")->published.set)
    if (key.starts_with("memory.")) settings.emplace_back(key, value);
  const auto median = [&](const auto& of) {
    return decay_start(input_at_start("precond_kda", "log_decay", of), true).median();
  };
  EXPECT_NEAR(median(settings), 9.35, 0.2);
  EXPECT_LT(median(std::vector<std::pair<std::string, OptionValue>>{}), 0.2);
}

TEST(PrecondKdaOracle, WithoutSquashIsKda) { expect_plain_without_squash("precond_kda", "kda", 4); }
TEST(PrecondKdaOracle, AChannelThatWasWrittenMuchIsWrittenLess) {
  expect_less_written_where_much_was("precond_kda", 4);
}

}  // namespace
}  // namespace crosstalk::checks::precond_kda_test

// Memories with a state over 70,001 tokens, on the CPU and on a GPU: positions and segments beyond 2^16. Minutes on the CPU.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/testing/cuda_test.h"
#include "models/testing/extremes.h"

namespace crosstalk::checks {
namespace {

constexpr int kTokens = 70001;

void expect_long(const std::string& memory, Device device) {
  if (find_memory(memory)->states.empty()) {
    GTEST_SKIP() << "keeps its keys, not a state";
  }
  Extreme e = extreme(memory, {.B = 1, .T = kTokens, .H = 1, .K = 2, .V = 2});
  const bool forms =
      forms_of({e.one.memory, "", {.B = 1, .T = 2, .H = 1, .K = 2, .V = 2, .N = e.one.sizes.N}, {}, {}})
          .size() > 1;
  const char *walk = forms ? "recurrent" : "", *chunks = forms ? "chunk" : "";
  const ApplyResult want = apply<double>(e.one, walk, e.data);
  for (const auto& [name, x] : apply<double>(e.one, chunks, e.data, device))
    ASSERT_TRUE(
        close(name, x.data(), want.at(name).data(), std::ssize(x), 1e-7 * (1 + size_of(want.at(name)))));
  for (const auto& [name, x] : apply<float>(e.one, chunks, e.data, device))
    for (const double number : x) ASSERT_TRUE(std::isfinite(number)) << name;
}

class LongSequences : public ::testing::TestWithParam<std::string> {};
class LongSequencesOnCuda : public CudaTest, public ::testing::WithParamInterface<std::string> {};
TEST_P(LongSequences, AreReadToTheEnd) { expect_long(GetParam(), Device::cpu); }
TEST_P(LongSequencesOnCuda, AreReadToTheEnd) { expect_long(GetParam(), Device::cuda); }
INSTANTIATE_TEST_SUITE_P(Registry, LongSequences, every_memory(), memory_name);
INSTANTIATE_TEST_SUITE_P(Registry, LongSequencesOnCuda, every_memory(), memory_name);

}  // namespace
}  // namespace crosstalk::checks

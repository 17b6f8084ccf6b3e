// Every memory of the registry at the ends of what its inputs may be (extremes.h): on the CPU, and on a GPU where there is one.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/extremes.h"

#include "kernels/testing/cuda_test.h"

namespace crosstalk::checks::extremes_test {

const std::vector<int> kFew = {1, 2, 3, 4, 5, 6, 7, 8}, kBorders = {63, 64, 65, 127, 129};

class Extremes : public ::testing::TestWithParam<std::string> {};
class ExtremesOnCuda : public CudaTest, public ::testing::WithParamInterface<std::string> {};

TEST_P(Extremes, KeepTheDigitsOfDecays) { expect_decays(GetParam(), Device::cpu); }
TEST_P(ExtremesOnCuda, KeepTheDigitsOfDecays) { expect_decays(GetParam(), Device::cuda); }

TEST_P(Extremes, TakeGatesOfThousands) { expect_gates(GetParam(), Device::cpu); }
TEST_P(ExtremesOnCuda, TakeGatesOfThousands) { expect_gates(GetParam(), Device::cuda); }

TEST_P(Extremes, StayFiniteAtLargeInputs) { expect_large(GetParam(), Device::cpu); }
TEST_P(ExtremesOnCuda, StayFiniteAtLargeInputs) { expect_large(GetParam(), Device::cuda); }

TEST_P(Extremes, ReadFewTokens) { expect_lengths(GetParam(), Device::cpu, kFew, 3); }
TEST_P(ExtremesOnCuda, ReadFewTokens) { expect_lengths(GetParam(), Device::cuda, kFew, 16); }
TEST_P(ExtremesOnCuda, ReadToTheBordersOfChunks) { expect_lengths(GetParam(), Device::cuda, kBorders, 16); }

TEST_P(Extremes, ReadPiecesAsTheWhole) { expect_all_pieces(GetParam(), Device::cpu, 67, {1, 64}, 3); }
TEST_P(ExtremesOnCuda, ReadPiecesAsTheWhole) {
  expect_all_pieces(GetParam(), Device::cuda, 129, {1, 63, 64, 65, 127}, 16);
}

// States of 2^31 numbers and more, planned without memory: refused, or as large as they are. What wraps around is neither.
TEST_P(Extremes, AreRefusedWhereAStateIsTooLarge) {
  const Memory& kind = *find_memory(GetParam());
  int refused = 0;
  for (const auto& [K, V] : {std::pair{46341, 46341}, {65536, 65536}, {92682, 92682}}) {
    ApplySizes sizes{.B = 1, .T = 2, .H = 1, .K = K, .V = V};
    sizes = with_letters(kind, sizes, {});
    const Options options = apply_options(kind, sizes, {});
    for (const Device device : {Device::cpu, Device::cuda}) {
      const MemoryMeasure measure;
      try {
        ApplyModel<float> model(kind, options, sizes, {}, device, true);
        double kept = 0;
        for (const auto& [name, state] : model.states()) kept += static_cast<double>(state->value.size());
        if (kind.states.empty()) continue;
        EXPECT_EQ(kept, static_cast<double>(kind.state(options, K, V, 2))) << K << " " << V;
        EXPECT_GE(static_cast<double>(model.graph().bytes()), 4 * kept);
      } catch (const ShapeError& error) {
        EXPECT_NE(std::string(error.what()).find("numbers in a row"), std::string::npos) << error.what();
        ++refused;
      }
    }
  }
  if (GetParam() == "delta") {
    EXPECT_EQ(refused, 6);
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, Extremes, every_memory(), memory_name);
INSTANTIATE_TEST_SUITE_P(Registry, ExtremesOnCuda, every_memory(), memory_name);

}  // namespace crosstalk::checks::extremes_test

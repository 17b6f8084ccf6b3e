// The state that a language model keeps of a sequence, against the bytes that Zoology's figures are drawn over (4 bytes a float, after
// 1024 tokens).
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/language.h"

namespace crosstalk::checks {
namespace {

std::int64_t state_bytes(const std::string& memory, Settings settings, std::int64_t length = 1024) {
  settings.insert(settings.begin(), {{"model.width", std::int64_t{64}},
                                     {"model.layers", std::int64_t{2}},
                                     {"model.stack", std::string("base_conv memory")}});
  return 4 * find_memory(memory)->state_size(language_options_of(memory, settings), 0, length);
}

TEST(LanguageState, IsThatOfZoologysFigures) {
  using Int = std::int64_t;
  const std::pair<std::string, OptionValue> two_heads = {"model.heads", Int{2}};
  EXPECT_EQ(state_bytes("deltanet", {two_heads}), 8'960);
  EXPECT_EQ(state_bytes("softmax", {}), 525'056);
  EXPECT_EQ(state_bytes("softmax", {two_heads}), 525'056);
  EXPECT_EQ(state_bytes("gla", {two_heads, {"model.d_key", Int{32}}}), 4'864);
  EXPECT_EQ(state_bytes("gated_delta", {}), 17'152);
  EXPECT_EQ(state_bytes("linear_attention", {{"model.d_key", Int{8}},
                                             {"memory.feature_map", std::string("taylor")},
                                             {"memory.read_norm", std::string("attention")}}),
            12'468);
  EXPECT_EQ(state_bytes("mamba2", {{"model.stack", std::string("memory")},
                                   {"model.d_key", Int{8}},
                                   {"model.d_value", Int{128}}}),
            8'192);
  EXPECT_EQ(
      state_bytes("sliding_window", {{"memory.window", Int{8}}, {"model.stack", std::string("memory")}}),
      2 * 4 * 8 * 2 * 64);
}

// Layer by layer, with the tokens that convolutions and shifts look back to.
TEST(LanguageState, IsTheSumOverLayers) {
  using Int = std::int64_t;
  const Settings parts = {{"model.short_conv", std::string("qkv")}, {"model.token_shift", std::string("k")}};
  EXPECT_EQ(state_bytes("deltanet", parts), 4 * (64 * 64 + 3 * 3 * 64 + 64 + 3 * 64));
  EXPECT_EQ(state_bytes("delta",
                        {{"model.layers", Int{4}},
                         {"model.stack", std::string("memory(heads=2) sliding_window(window=5, d_key=16)")}}),
            4 * 2 * (2 * 32 * 32 + 5 * (16 + 64)));
  EXPECT_EQ(state_bytes("softmax", {{"model.conv_width", Int{5}}}, 7), 4 * (7 * 128 + 5 * 64));
}

}  // namespace
}  // namespace crosstalk::checks

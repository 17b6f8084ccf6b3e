// The state that a language model keeps of a sequence, against the bytes that Zoology's figures are drawn over (4 bytes a float, after
// 1024 tokens).
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/language.h"

namespace crosstalk::checks::language_state_test {

std::int64_t state_bytes(const std::string& memory, Settings settings, std::int64_t length = 1024) {
  settings.insert(settings.begin(),
                  {{"model.width", 64}, {"model.layers", 2}, {"model.stack", "base_conv memory"}});
  return 4 * find_memory(memory)->state_size(language_options_of(memory, settings), 0, length);
}

TEST(LanguageState, IsThatOfZoologysFigures) {
  const std::pair<std::string, OptionValue> two_heads = {"model.heads", 2};
  EXPECT_EQ(state_bytes("deltanet", {two_heads}), 8'960);
  EXPECT_EQ(state_bytes("softmax", {}), 525'056);
  EXPECT_EQ(state_bytes("softmax", {two_heads}), 525'056);
  EXPECT_EQ(state_bytes("gla", {two_heads, {"model.d_key", 32}}), 4'864);
  EXPECT_EQ(state_bytes("gated_delta", {}), 17'152);
  EXPECT_EQ(
      state_bytes("linear_attention",
                  {{"model.d_key", 8}, {"memory.feature_map", "taylor"}, {"memory.read_norm", "attention"}}),
      12'468);
  EXPECT_EQ(state_bytes("mamba2", {{"model.stack", "memory"}, {"model.d_key", 8}, {"model.d_value", 128}}),
            8'192);
  EXPECT_EQ(state_bytes("sliding_window", {{"memory.window", 8}, {"model.stack", "memory"}}),
            2 * 4 * 8 * 2 * 64);
}

// Layer by layer, with the tokens that convolutions and shifts look back to.
TEST(LanguageState, IsTheSumOverLayers) {
  const Settings parts = {{"model.short_conv", "qkv"}, {"model.token_shift", "k"}};
  EXPECT_EQ(state_bytes("deltanet", parts), 4 * (64 * 64 + 3 * 3 * 64 + 64 + 3 * 64));
  EXPECT_EQ(state_bytes("delta", {{"model.layers", 4},
                                  {"model.stack", "memory(heads=2) sliding_window(window=5, d_key=16)"}}),
            4 * 2 * (2 * 32 * 32 + 5 * (16 + 64)));
  EXPECT_EQ(state_bytes("softmax", {{"model.conv_width", 5}}, 7), 4 * (7 * 128 + 5 * 64));
  EXPECT_EQ(state_bytes("path", {{"memory.path_conv", 3}}) - state_bytes("path", {}), 4 * 2 * 64);
}

}  // namespace crosstalk::checks::language_state_test

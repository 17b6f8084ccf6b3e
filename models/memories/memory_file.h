// Includes that the file of a memory needs: Memory (models/memory.h), the parts, the engines and the algebra of gates. The file
// NAME.cpp holds a function `Memory NAME()` in namespace crosstalk::memories; the build finds it, and NAME_test.cpp beside it.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "models/parts/parts.h"
#include "models/parts/tokens.h"

namespace crosstalk::memories {

/// Settings of the layers of flash-linear-attention: convolutions that start as `start` says and SiLU before q, k and v, what a
/// layer has of its own, a norm of heads with one gain, and a gate: "silu", "sigmoid", "low rank" (a sigmoid), or "" for none.
inline std::vector<std::pair<std::string, OptionValue>> convolved_layer(
    const std::string& start, std::vector<std::pair<std::string, OptionValue>> own, const std::string& gate) {
  std::vector<std::pair<std::string, OptionValue>> set = {{"model.short_conv", "qkv"}, {"model.silu", "qkv"}};
  if (start != "uniform") set.emplace_back("model.short_conv_start", start);
  set.insert(set.end(), own.begin(), own.end());
  set.insert(set.end(), {{"model.out_norm", "rms"}, {"model.out_norm_gain", "shared"}});
  if (!gate.empty()) set.emplace_back("model.out_gate", gate == "low rank" ? "sigmoid" : gate);
  if (gate == "low rank") set.emplace_back("model.out_gate_rank", -1);
  return set;
}

}  // namespace crosstalk::memories

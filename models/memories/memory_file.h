// Includes that the file of a memory needs: Memory (models/memory.h), the parts, the engines and the algebra of gates. The file
// NAME.cpp declares the memory NAME: CROSSTALK_MEMORY(NAME) { return {.summary = ...}; }. The build finds it, and NAME_test.cpp beside it.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "models/parts/parts.h"
#include "models/parts/tokens.h"

/// The head of the function Memory crosstalk::memories::NAME(), which the registry calls.
#define CROSSTALK_MEMORY(name)    \
  namespace crosstalk::memories { \
  Memory name();                  \
  }                               \
  crosstalk::Memory crosstalk::memories::name()

namespace crosstalk::memories {

/// An option of a number; `tried`: values that tests go through.
inline OptionSpec number(std::string name, OptionValue standard, std::string help, double min, double max,
                         std::vector<OptionValue> tried = {}) {
  return {std::move(name), std::move(standard), std::move(help), min, max, {}, false, std::move(tried)};
}

/// PublishedLayer::source of a layer of flash-linear-attention, behind the source of the memory.
inline std::string fla_layers(const std::string& file) {
  return "; fla-org/flash-linear-attention@bc3b101d fla/layers/" + file;
}

/// Settings of the layers of flash-linear-attention: convolutions that start as `start` says and SiLU before q, k and v, what a
/// layer has of its own, a norm of heads with one gain, and a gate: "silu", "sigmoid", "low rank" (a sigmoid), or "" for none.
inline std::string convolved_layer(const std::string& start, const std::string& own,
                                   const std::string& gate) {
  std::string set = "short_conv=qkv, silu=qkv";
  if (start != "uniform") set += ", short_conv_start=" + start;
  if (!own.empty()) set += ", " + own;
  set += ", out_norm=rms, out_norm_gain=shared";
  if (!gate.empty()) set += ", out_gate=" + (gate == "low rank" ? "sigmoid" : gate);
  if (gate == "low rank") set += ", out_gate_rank=-1";
  return set;
}

}  // namespace crosstalk::memories

// What the text of a law says of its memory: of `rule`, whose text stands in a study, and of memories whose law is Memory::law.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <compare>
#include <string>
#include <vector>

#include "models/memory.h"
#include "models/rules/law.h"

namespace crosstalk::rules {

/// Adds inputs that are not there yet, states with their starts, whether it reads before it writes, and the rank of what is read.
void follow(const Law& law, Memory& memory);
/// Numbers that the states of a head hold, of a memory with a text without those that count tokens.
std::int64_t numbers_of_states(const Law& law, std::int64_t K, std::int64_t V,
                               const Memory* memory = nullptr);

/// What the text of a memory may name beside its options: sizes of a head (keys after the feature map, values, keys before it), of
/// all heads and of a token, eps of the denominators of reads, the scale of queries and, as odds, the share of layers before.
/// `learned`: a model makes the inputs; `beside`: its queries stand beside the sequence.
struct TextPlace {
  double keys = 64, values = 64, d = 64, heads = 1, width = 64;
  double eps = 1e-6, scale = 1, earlier = 0;
  bool learned = false, beside = false;
  friend auto operator<=>(const TextPlace&, const TextPlace&) = default;
};

/// The text of Memory::law, a step a line, with what it may name.
struct OwnText {
  std::vector<std::string> steps;
  std::size_t of_inputs = 0;  ///< steps up to that of the last input
  std::vector<NamedNumber> numbers;
  MemoryText memory;
};
OwnText own_text(const Memory& memory, const Options& options, const TextPlace& place = {});
/// Tells whether a state of its text is one that is handed on: one of those that its file names beside S, else any but a number.
bool hands_on(const Memory& memory, const LawState& state);

/// The law of a memory at these options whose inputs are given. Kept.
const Law& given_law(const Memory& memory, const Options& options);
/// The law of a memory as a study may have it, at these options: what inputs are made of is learned, or, with `given`, inputs are.
std::unique_ptr<Law> study_law(const Memory& memory, const Options& options, bool given = false);

}  // namespace crosstalk::rules

namespace crosstalk {

/// Fills in what follows from Memory::law where it stands: equation, inputs, states and their sizes, operations, and how it is built,
/// but for what the memory's file says itself. Throws std::logic_error for a text that is wrong.
void follow_law(Memory& memory);

}  // namespace crosstalk

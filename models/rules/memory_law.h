// What the text of a law says of its memory: of `rule`, whose text stands in a study, and of memories whose law is Memory::law.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "models/memory.h"
#include "models/rules/law.h"

namespace crosstalk::rules {

/// Adds inputs that are not there yet, states with their starts, whether it reads before it writes, and the rank of what is read.
void follow(const Law& law, Memory& memory);
/// Numbers that the states of a head hold.
std::int64_t numbers_of_states(const Law& law, std::int64_t K, std::int64_t V);

/// The text of Memory::law, a step a line, with what it may name: options of the memory, eps of the denominators of reads, and the
/// scale of queries.
struct OwnText {
  std::vector<std::string> steps;
  std::size_t of_inputs = 0;  ///< steps up to that of the last input
  std::vector<NamedNumber> numbers;
  MemoryText memory;
};
OwnText own_text(const Memory& memory, const Options& options, double eps, double scale = 1);

/// The law of a memory as a study may have it, at these options: what inputs are made of is learned, or, with `given`, inputs are.
std::unique_ptr<Law> study_law(const Memory& memory, const Options& options, bool given = false);

}  // namespace crosstalk::rules

namespace crosstalk {

/// Fills in what follows from Memory::law where it stands: equation, inputs, states and their sizes, operations, and how it is built,
/// but for what the memory's file says itself. Throws std::logic_error for a text that is wrong.
void follow_law(Memory& memory);

}  // namespace crosstalk

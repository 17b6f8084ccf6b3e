// A memory whose law is text: the options of `rule`, and the Memory that a law makes.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "models/memory.h"
#include "models/rules/recognise.h"

namespace crosstalk::rules {

/// A law, read from its canonical text, and how it runs.
struct Rule {
  std::unique_ptr<Law> law;
  std::string text;
  Plan plan;
  std::string refused;  ///< why nothing runs it; "" where something does
  Memory memory;        ///< as the registry has it, with this law's inputs, states and equation
};

/// The law of a text in any spelling; kept, so that addresses stay. Throws LawError.
const Rule& rule_of(const std::string& text, const std::vector<NamedNumber>& numbers);
/// The law of memory.law. Throws OptionError.
const Rule& rule_of(const Options& options);

/// Numbers that a law may name: c, c2, c3.
const std::vector<OptionSpec>& number_options();
/// Their values; 1 where `options` has none.
std::vector<NamedNumber> numbers_of(const Options& options);
/// The memory `rule` with a law.
Memory memory_with(const Rule& rule);
/// `memory.law` in canonical text; refuses what is wrong with it, and numbers that it does not name.
void resolve_law(Options& options);

/// Finds what is wrong with a law, by its steps: nothing, or where and what. One string has all steps, with ;
/// between them, and the
/// column is that in the string.
std::optional<LawError> refused_law(const std::vector<std::string>& steps);

}  // namespace crosstalk::rules

namespace crosstalk {

/// The memory that options name, with what depends on them: of `rule` that of its law.
const Memory& memory_of(const Options& options);

}  // namespace crosstalk

// Report of a law for people: the type of every name, its states, and which engine runs it or why none does.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "models/rules/recognise.h"

namespace crosstalk::rules {

using Rows = std::vector<std::vector<std::string>>;

struct LawReport {
  Rows names;                         ///< name, type, where it comes from; of states too
  Rows engines;                       ///< state or `read`, and what runs it or why nothing does
  std::vector<std::string> notes;     ///< what words of it mean that may be read otherwise
  std::vector<std::string> warnings;  ///< what cannot go well
  std::string without_state,
      with_state;  ///< operations of a token: those for all tokens at once, and the others
};

/// How many a token takes with these sizes.
double operations_of(const Law& law, double K, double V);

/// Additions, products and functions of numbers that one value after the other takes, as "4 V K + 2 V + 3".
/// Products of matrices count both; transposes and diagonals are free.
std::string operations_text(const std::vector<Value>& nodes);

/// What cannot go well: states that grow.
std::vector<std::string> warnings_of(const Law& law);

/// `written` is the law as its author has it, with names of values; `law` with its plan, the same from canonical text.
LawReport report(const Law& written, const Law& law, const Plan& plan);

}  // namespace crosstalk::rules

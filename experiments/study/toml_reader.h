// Reads TOML into a small tree that keeps the order of the file and the place of every key and value.
// The only door to toml++: nothing of that library shows here.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "experiments/study/text_guard.h"
#include "kernels/base/text/options.h"

namespace crosstalk {

struct TomlEntry;

/// A scalar, an array or a table.
struct TomlNode {
  enum class Kind { scalar, array, table };
  Kind kind = Kind::scalar;
  Position at;
  OptionValue value;               ///< scalar
  std::vector<TomlNode> items;     ///< array
  std::vector<TomlEntry> entries;  ///< table, in file order

  const TomlEntry* find(const std::string& key) const;
};

/// `at` is where the whole dotted key begins ("task" of task.associations = 20).
struct TomlEntry {
  std::string key;
  Position at;
  TomlNode node;
};

/// Parses a whole file. Throws TomlError.
///
/// Refused beyond what TOML refuses: bytes that are not UTF-8, control characters, a byte order mark, letters
/// beyond ASCII outside whole-line comments and a title's string, dates, nan and inf, strings over several
/// lines, files above 4 MiB.
TomlNode parse_toml(const std::string& text);

/// A scalar as it could stand behind "key = " in a file (64, 1e-3, true, "dpfp"); nullopt if it is none.
std::optional<OptionValue> parse_toml_scalar(const std::string& text);

}  // namespace crosstalk

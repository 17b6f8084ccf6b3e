// A study file as it was written: settings, memories and grid blocks with their places, checked against the
// schema but not yet expanded.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "experiments/study/schema.h"
#include "experiments/study/toml_reader.h"

namespace crosstalk {

/// Who said it: a place in the file, or the n-th --set.
struct Origin {
  Position at;
  int set = -1;
};

struct Setting {
  OptionValue value;
  Origin from;
};

/// The values of one key in a grid: a list, or a range that is not spelled out (it may have 10^12 values).
struct AxisValues {
  std::string key;  ///< "memory", "seeds" or a dotted key
  Origin from;
  std::vector<Setting> list;
  bool ranged = false, logarithmic = false;
  OptionValue begin, step;  ///< of a range; step is the factor of a logarithmic one
  std::int64_t range_count = 0;

  std::int64_t count() const { return ranged ? range_count : static_cast<std::int64_t>(list.size()); }
  Setting value(std::int64_t index) const;
};

/// One axis of a block: one key, or several that advance together ([[grid.zip]]).
struct Axis {
  std::vector<AxisValues> columns;
  std::int64_t count() const { return columns.front().count(); }
};

/// [[grid.skip]]: a combination that has one of the values for each of the keys is left out.
struct Skip {
  Position at;
  std::vector<std::pair<std::string, std::vector<Setting>>> conditions;
};

struct Block {
  Position at;
  std::vector<Axis> axes;  ///< one of them has the key "memory"
  std::vector<Skip> skips;
};

/// [memories.LABEL]
struct MemoryTable {
  std::string label, name, title;
  Position at, name_at;
  std::map<std::string, Setting> settings;  ///< by dotted key
  bool added = false;                       ///< by every_memory, not by a table
};

struct StudyFile {
  std::string name, title;
  Position at;  ///< of [study]
  AxisValues seeds;
  std::map<std::string, Setting> base;
  std::vector<MemoryTable> memories;
  std::unordered_map<std::string, std::size_t> places;  ///< label -> place in memories
  std::vector<Block> blocks;

  const MemoryTable* find_memory(const std::string& label) const;
  std::vector<std::string> labels() const;
};

/// Turns places and messages into ConfigError.
struct Blame {
  std::string path;
  std::vector<std::string> sets;
  [[noreturn]] void fail(const Origin& origin, const std::string& message) const;
  [[noreturn]] void fail(Position at, const std::string& message) const { fail(Origin{at, -1}, message); }
  /// The same, after other laws have been read: all that is refused is told together, by settle() or by what fails next.
  void refuse(const Origin& origin, const std::string& message) const;
  void settle() const;
  /// Refuses what is wrong with a law, a string of the file or of --set; tells whether something is.
  bool refuse_law(const Schema& schema, const Setting& law) const;
  mutable std::vector<std::pair<Position, std::string>> refused = {};
};

/// Checks and sorts what the file says. Throws ConfigError.
StudyFile read_study_file(const Schema& schema, const TomlNode& root, const Blame& blame);

/// Replaces what --set KEY=VALUE[,VALUE] names, for every entry of blame.sets.
void apply_sets(const Schema& schema, const Blame& blame, StudyFile& file);

/// Where --set KEY=VALUE names a value that grids have among others: that --where KEY=VALUE takes the runs that have it; else "".
std::string conditions_instead(const StudyFile& file, const std::vector<std::string>& sets);

/// The task and memory keys of base and blocks must mean something to a task and a memory of the study.
void check_keys_apply(const Schema& schema, const Blame& blame, const StudyFile& file);

/// Fails unless some task or memory has this key and takes this value.
void check_setting(const Schema& schema, const Blame& blame, const std::string& key, const Setting& setting);

/// The value of an option as the run gets it. Throws OptionError.
OptionValue option_value(const OptionSpec& spec, const std::string& key, const Setting& setting);

/// A range from its numbers: [first, last] or [first, last, step]; logarithmic: [first, last] and a factor.
/// Throws std::invalid_argument with what would be right.
AxisValues make_range(const std::vector<OptionValue>& numbers);
AxisValues make_logrange(const std::vector<OptionValue>& numbers, const OptionValue& base);

/// A step to suggest where [first, last] would be more than 20 numbers of associations one by one, which nobody means;
/// 0 for everything else.
std::int64_t missing_step(const std::string& key, const std::vector<OptionValue>& numbers);

}  // namespace crosstalk

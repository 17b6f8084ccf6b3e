// Declarative options of registered things: what a study file may set, with type, default, range and help.
//
// Tasks, memories, models and the trainer each declare a list of OptionSpec. The command line's help, `list`,
// `describe`, the configuration reader and the documentation all read these lists; nothing is written twice.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace crosstalk {

/// One value in a configuration. A float option accepts an integer literal and stores a double.
using OptionValue = std::variant<bool, std::int64_t, double, std::string>;

/// Text of a value as it stands in a study file: true, 64, 0.001, "dpfp" (strings quoted). Numbers
/// round-trip.
std::string to_text(const OptionValue& value);

/// One option: the type is that of `default_value`.
struct OptionSpec {
  std::string name;  ///< without prefix: "associations"
  OptionValue
      default_value;  ///< what a study that does not say it gets; 0 or "" may mean "derived" (help says so)
  std::string help;   ///< one line, sentence case, no full stop
  double min = -std::numeric_limits<double>::infinity();  ///< inclusive, numbers only
  double max = std::numeric_limits<double>::infinity();   ///< inclusive, numbers only
  std::vector<std::string> choices = {};                  ///< strings only; empty = any
  bool min_exclusive = false;                             ///< true: value must be > min
  /// Values that tests go through; where nothing is said, all choices, and both values of a boolean.
  std::vector<OptionValue> tried = {};
};

/// Resolved options by dotted name ("task.associations"), sorted. Typed access; a wrong name or type is a bug
/// and throws std::logic_error, since the reader has checked user input before. Keys and texts are stored once for the whole
/// program (an option takes 24 bytes): studies of 100,000 runs name the same hundred keys and few texts.
class Options {
 public:
  void set(const std::string& key, const OptionValue& value);
  bool has(const std::string& key) const { return find(key) != nullptr; }
  bool get_bool(const std::string& key) const;
  std::int64_t get_int(const std::string& key) const;
  double get_double(const std::string& key) const;  ///< an integer value converts
  const std::string& get_string(const std::string& key) const;
  OptionValue at(const std::string& key) const;
  /// All keys with their values, sorted.
  std::vector<std::pair<const std::string&, OptionValue>> values() const;
  friend bool operator==(const Options&, const Options&) = default;

 private:
  using Stored = std::variant<bool, std::int64_t, double, const std::string*>;
  struct Entry {
    const std::string* key;
    Stored value;
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  const Stored* find(const std::string& key) const;
  const Stored& stored(const std::string& key) const;
  std::vector<Entry> entries_;
};

/// Adds every option of `specs` that `options` lacks, at its default, under `prefix` + '.'.
void fill_defaults(Options& options, const std::string& prefix, const std::vector<OptionSpec>& specs);

/// Checks type, range and choices of one value; converts an integer to double where the option is a float.
/// Throws OptionError(key = prefix.name) with a message that says what was got and what would be right.
OptionValue check_option(const OptionSpec& spec, const std::string& prefix, const OptionValue& value);

/// The name in `names` that somebody meant who wrote `name`, or "" if none is near (kernels/base/text/names.h).
std::string nearest_name(std::string_view name, const std::vector<std::string>& names);

}  // namespace crosstalk

// Options: defaults, checks and messages.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/text/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "kernels/base/error.h"
#include "kernels/base/text/names.h"

namespace crosstalk {
namespace {

const char* type_name(const OptionValue& value) {
  static constexpr const char* names[] = {"true or false", "an integer", "a number", "a string"};
  return names[value.index()];
}

[[noreturn]] void wrong_type(const std::string& key, const char* want) {
  throw std::logic_error(fmt::format("[options] {} is not {}", key, want));
}

std::string bounds_text(const OptionSpec& spec) {
  const bool low = std::isfinite(spec.min), high = std::isfinite(spec.max);
  const char* lower = spec.min_exclusive ? "greater than" : "at least";
  if (low && high && !spec.min_exclusive)
    return fmt::format("between {:.15g} and {:.15g}", spec.min, spec.max);
  if (low && high) return fmt::format("greater than {:.15g} and at most {:.15g}", spec.min, spec.max);
  return low ? fmt::format("{} {:.15g}", lower, spec.min) : fmt::format("at most {:.15g}", spec.max);
}

}  // namespace

std::string to_text(const OptionValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *integer);
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  return fmt::format("\"{}\"", std::get<std::string>(value));
}

const OptionValue& Options::at(const std::string& key) const {
  const auto it = values_.find(key);
  if (it == values_.end())
    throw std::logic_error(
        fmt::format("[options] {} was never set: no option of this name is declared", key));
  return it->second;
}

bool Options::get_bool(const std::string& key) const {
  const auto* value = std::get_if<bool>(&at(key));
  if (!value) wrong_type(key, "a bool");
  return *value;
}

std::int64_t Options::get_int(const std::string& key) const {
  const auto* value = std::get_if<std::int64_t>(&at(key));
  if (!value) wrong_type(key, "an integer");
  return *value;
}

double Options::get_double(const std::string& key) const {
  const OptionValue& value = at(key);
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
  const auto* number = std::get_if<double>(&value);
  if (!number) wrong_type(key, "a number");
  return *number;
}

const std::string& Options::get_string(const std::string& key) const {
  const auto* value = std::get_if<std::string>(&at(key));
  if (!value) wrong_type(key, "a string");
  return *value;
}

void fill_defaults(Options& options, const std::string& prefix, const std::vector<OptionSpec>& specs) {
  for (const OptionSpec& spec : specs) {
    const std::string key = prefix + "." + spec.name;
    if (!options.has(key)) options.set(key, spec.default_value);
  }
}

OptionValue check_option(const OptionSpec& spec, const std::string& prefix, const OptionValue& value) {
  const std::string key = prefix.empty() ? spec.name : prefix + "." + spec.name;
  OptionValue result = value;
  if (std::holds_alternative<double>(spec.default_value) && std::holds_alternative<std::int64_t>(value)) {
    result = static_cast<double>(std::get<std::int64_t>(value));
  }
  if (result.index() != spec.default_value.index()) {
    throw OptionError(key,
                      fmt::format("{} wants {}, got {}", key, type_name(spec.default_value), to_text(value)));
  }
  if (const auto* text = std::get_if<std::string>(&result); text && !spec.choices.empty()) {
    if (std::find(spec.choices.begin(), spec.choices.end(), *text) == spec.choices.end()) {
      const std::string near = nearest_name(*text, spec.choices);
      throw OptionError(key, fmt::format("{} = {} is not known{}; it can be {}", key, to_text(value),
                                         near.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", near),
                                         fmt::join(spec.choices, ", ")));
    }
  }
  if (result.index() == 1 || result.index() == 2) {
    const double number =
        result.index() == 1 ? static_cast<double>(std::get<std::int64_t>(result)) : std::get<double>(result);
    const bool above = spec.min_exclusive ? number > spec.min : number >= spec.min;
    if (!(above && number <= spec.max)) {
      throw OptionError(
          key, fmt::format("{} = {} is out of range; it must be {}", key, to_text(value), bounds_text(spec)));
    }
  }
  return result;
}

}  // namespace crosstalk

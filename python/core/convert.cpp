// SPDX-License-Identifier: Apache-2.0
#include "python/core/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/program/help/topics.h"
#include "kernels/base/error.h"
#include "kernels/base/text/names.h"

namespace crosstalk::python {
namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return text;
}

/// The end of a message: what somebody meant, or what there is.
std::string hint(const std::string& name, const std::vector<std::string>& names, const char* what) {
  const std::string near = nearest_name(name, names);
  if (!near.empty()) return fmt::format("did you mean {}?", near);
  return names.empty() ? fmt::format("it has no {}", what) : fmt::format("there are {}", joined(names));
}

template <class T>
const T& named(const T* kind, const std::string& name, const std::vector<T>& all, const char* what) {
  if (kind != nullptr) return *kind;
  std::vector<std::string> names;
  for (const T& one : all) names.push_back(one.name);
  std::string told = hint(name, names, what);
  if (nearest_name(name, names).empty()) {  // something else may be called so, as `crosstalk describe` knows
    if (program::is_described(name))
      told = fmt::format("it is something else, which describe(\"{}\") explains", name);
    else if (const std::string meant = program::meant_by(name); !meant.empty())
      told = meant;
  }
  throw nb::value_error(fmt::format("unknown {} '{}'; {}", what, name, told).c_str());
}

}  // namespace

OptionValue value_of(nb::handle value) {
  if (nb::isinstance<nb::bool_>(value)) return nb::cast<bool>(value);
  if (nb::isinstance<nb::int_>(value)) {
    std::int64_t whole = 0;
    if (nb::try_cast(value, whole)) return whole;
    throw nb::value_error(
        fmt::format("{} has more than 64 bits; no option is that large", nb::repr(value).c_str()).c_str());
  }
  if (nb::isinstance<nb::float_>(value)) return nb::cast<double>(value);
  if (nb::isinstance<nb::str>(value)) {
    std::string text;
    if (nb::try_cast(value, text)) return text;
    throw nb::value_error(fmt::format("{} is no text in UTF-8", nb::repr(value).c_str()).c_str());
  }
  throw nb::type_error(fmt::format("an option is a bool, an int, a float or a str, not {}",
                                   nb::type_name(value.type()).c_str())
                           .c_str());
}

nb::object object_of(const OptionValue& value) {
  return std::visit([](const auto& v) -> nb::object { return nb::cast(v); }, value);
}

nb::dict dict_of(const Options& options) {
  nb::dict all;
  for (const auto& [key, value] : options.values()) all[key.c_str()] = object_of(value);
  return all;
}

Options options_of(const nb::dict& given) {
  Options options;
  for (const auto& [key, value] : given) options.set(nb::cast<std::string>(key), value_of(value));
  return options;
}

std::map<std::string, OptionValue> checked(const nb::dict& given, const std::vector<OptionSpec>& specs,
                                           const std::string& prefix, const std::string& whose) {
  std::vector<std::string> names, keys;  // synonyms are of whole keys
  for (const OptionSpec& spec : specs) {
    names.push_back(spec.name);
    keys.push_back(prefix + "." + spec.name);
  }
  std::map<std::string, OptionValue> values;
  for (const auto& [key, value] : given) {
    const auto name = nb::cast<std::string>(key);
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end()) {
      const std::string meant = synonym_of(name, keys);
      const std::string told = meant.empty()
                                   ? hint(name, names, "options")
                                   : fmt::format("did you mean {}?", meant.substr(prefix.size() + 1));
      throw OptionError(prefix + "." + name, fmt::format("{} has no option {}; {}", whose, name, told));
    }
    values[name] = check_option(specs[static_cast<std::size_t>(at - names.begin())], prefix, value_of(value));
  }
  return values;
}

const Memory& named_memory(const std::string& name) {
  return named(find_memory(name), name, all_memories(), "memory");
}

const TaskKind& named_task(const std::string& name) {
  return named(find_task(name), name, task_kinds(), "task");
}

nb::list list_of(const std::vector<OptionSpec>& specs) {
  nb::list all;
  for (const OptionSpec& spec : specs) {
    nb::dict one;
    one["name"] = spec.name;
    one["type"] = std::holds_alternative<bool>(spec.default_value)           ? "bool"
                  : std::holds_alternative<std::int64_t>(spec.default_value) ? "int"
                  : std::holds_alternative<double>(spec.default_value)       ? "float"
                                                                             : "str";
    one["default"] = object_of(spec.default_value);
    one["min"] = std::isfinite(spec.min) ? nb::cast(spec.min) : nb::none();
    one["max"] = std::isfinite(spec.max) ? nb::cast(spec.max) : nb::none();
    one["choices"] = spec.choices;
    one["help"] = spec.help;
    all.append(one);
  }
  return all;
}

}  // namespace crosstalk::python

// Help for the tests of tasks: making one from a few options, and a chi-square test.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/base/text/options.h"
#include "tasks/task.h"

namespace crosstalk::testing {

using Settings = std::map<std::string, OptionValue>;

/// Settings without which a task makes no sense, such as a folder of files; made when they are first asked for.
inline std::map<std::string, Settings (*)()>& needs() {
  static std::map<std::string, Settings (*)()> all;
  return all;
}

/// What makes random settings fit together, of tasks where few would.
inline std::map<std::string, void (*)(Settings&)>& fit() {
  static std::map<std::string, void (*)(Settings&)> all;
  return all;
}

/// Options of `kind` with `settings` (names without "task."), checked, filled up and resolved.
inline Options resolved_options(const TaskKind& kind, const Settings& settings = {}) {
  Options options;
  Settings all = settings;
  if (const auto needed = needs().find(kind.name); needed != needs().end()) all.merge(needed->second());
  for (const auto& [name, value] : all) {
    const OptionSpec* spec = nullptr;
    for (const OptionSpec& candidate : kind.options)
      if (candidate.name == name) spec = &candidate;
    if (!spec) throw std::logic_error("task " + kind.name + " has no option " + name);
    options.set("task." + name, check_option(*spec, "task", value));
  }
  fill_defaults(options, "task", kind.options);
  if (kind.resolve != nullptr) kind.resolve(options);
  return options;
}

inline std::unique_ptr<Task> make_task(const std::string& name, const Settings& settings = {}) {
  const TaskKind* kind = find_task(name);
  if (!kind) throw std::logic_error("no task " + name);
  return kind->make(resolved_options(*kind, settings));
}

/// Whole number `name` of settings, or its default.
inline std::int64_t whole_of(const Settings& settings, const std::string& name, std::int64_t standard) {
  const auto found = settings.find(name);
  return found == settings.end() ? standard : std::get<std::int64_t>(found->second);
}

inline OptionValue whole(int value) { return std::int64_t{value}; }

/// Chi-square of counts against their expectations, as a standard normal score (Wilson and Hilferty 1931):
/// above 4 happens once in 30,000 if they are right.
inline double chi_square_score(const std::vector<int>& counts, const std::vector<double>& expected) {
  double chi_square = 0;
  for (std::size_t i = 0; i < counts.size(); ++i)
    chi_square += (counts[i] - expected[i]) * (counts[i] - expected[i]) / expected[i];
  const double freedom = static_cast<double>(counts.size()) - 1;
  const double scale = 2.0 / (9.0 * freedom);
  return (std::cbrt(chi_square / freedom) - (1.0 - scale)) / std::sqrt(scale);
}

/// Against equal expectations.
inline double uniformity_score(const std::vector<int>& counts) {
  double total = 0;
  for (const int count : counts) total += count;
  return chi_square_score(counts,
                          std::vector<double>(counts.size(), total / static_cast<double>(counts.size())));
}

}  // namespace crosstalk::testing

// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/planning/budget.h"

#include <fmt/format.h>

#include <iterator>
#include <map>
#include <set>

#include "experiments/common/text.h"

namespace crosstalk::program {
namespace {

std::set<std::string> labels_among(const std::vector<const Run*>& runs) {
  std::set<std::string> labels;
  for (const Run* run : runs) labels.insert(run->labels.begin(), run->labels.end());
  return labels;
}

}  // namespace

std::optional<double> option_number(const Options& config, const std::string& key) {
  if (!config.has(key)) return std::nullopt;
  const OptionValue value = config.at(key);
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return static_cast<double>(*whole);
  const auto* real = std::get_if<double>(&value);
  return real ? std::optional(*real) : std::nullopt;
}

Part part_within(const std::vector<const Run*>& runs, double budget, const TimeForecast& time) {
  const std::string rate = "train.learning_rate";
  std::vector<std::string> axes = {"seed", rate};
  for (const char* prefix : {"task.", "model."})
    for (const auto& [key, value] : runs.front()->config.values())
      if (key.starts_with(prefix)) axes.push_back(key);
  Part part{{}, runs, time.seconds_of(runs)};
  for (const std::string& axis : axes) {
    if (part.seconds <= budget) break;
    std::map<double, std::vector<const Run*>> by_value;
    for (const Run* run : part.runs)
      if (const auto number = option_number(run->config, axis)) by_value[*number].push_back(run);
    Part cut;
    for (std::size_t all = by_value.size(), n = all; n-- > 1;) {
      cut = {part.where, {}, 0};
      cut.where.push_back({axis, {}});
      auto at = std::next(by_value.begin(), axis == rate ? static_cast<std::ptrdiff_t>((all - n) / 2) : 0);
      for (std::size_t i = 0; i < n; ++i, ++at) {
        cut.where.back().second.push_back(fmt::format("{}", at->first));
        cut.runs.insert(cut.runs.end(), at->second.begin(), at->second.end());
      }
      cut.seconds = time.seconds_of(cut.runs);
      if (cut.seconds <= budget) break;
    }
    if (labels_among(cut.runs) == labels_among(runs)) part = std::move(cut);
  }
  return part;
}

std::string budget_text(const std::vector<const Run*>& runs, const TimeForecast& time,
                        const Arguments& arguments, double budget, const std::string& program) {
  const std::string allowed = arguments.get("budget"), all = plural(std::ssize(runs), "run");
  if (runs.empty()) return "nothing is left to train";
  if (!time.seconds_of) return "the time is not known";
  const Part part = part_within(runs, budget, time);
  if (part.where.empty()) return fmt::format("all {} fit into {}", all, allowed);
  std::vector<std::string> words = {program, "run", arguments.positional.at(0)}, where;
  for (const char* option : {"set", "where", "out", "chosen-of", "best", "best-by", "max-runs"})
    for (const std::string& value : arguments.all(option))
      words.insert(words.end(), {fmt::format("--{}", option), value});
  for (const auto& [key, values] : part.where) {
    where.push_back(fmt::format("{} = {}", key, join(values, ", ")));
    words.insert(words.end(), {"--where", fmt::format("{}={}", key, join(values, ","))});
  }
  const std::string some = fmt::format("{} of {} with {}", part.runs.size(), all, join(where, ", ", " and "));
  return part.seconds > budget
             ? fmt::format("nothing fits into {}: {} take {}; fewer steps would ('crosstalk pilot')", allowed,
                           some, duration(part.seconds))
             : fmt::format("into {} fit {}, in about {}:\n  {}", allowed, some, duration(part.seconds),
                           shell_quote(words));
}

}  // namespace crosstalk::program

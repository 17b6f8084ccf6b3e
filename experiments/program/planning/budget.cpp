// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/planning/budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "experiments/common/text.h"

namespace crosstalk::program {
namespace {

const char* const kRateAxis = "train.learning_rate";

std::optional<double> number_on(const std::string& axis, const Run& run) {
  return axis == "seed" ? std::optional(static_cast<double>(run.seed)) : option_number(run.config, axis);
}

/// The seed, the rate, and numbers of task and model that vary, in the order in which they are cut.
std::vector<std::string> cut_axes(const std::vector<const Run*>& runs) {
  std::vector<std::string> axes = {"seed", kRateAxis};
  for (const char* prefix : {"task.", "model."}) {
    std::map<std::string, std::set<double>> seen;
    for (const Run* run : runs)
      for (const auto& [key, value] : run->config.values())
        if (key.starts_with(prefix))
          if (const auto number = option_number(run->config, key)) seen[key].insert(*number);
    for (const auto& [key, values] : seen)
      if (values.size() > 1) axes.push_back(key);
  }
  return axes;
}

std::size_t count_labels(const std::vector<const Run*>& runs) {
  std::set<std::string> labels;
  for (const Run* run : runs) labels.insert(run->labels.begin(), run->labels.end());
  return labels.size();
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
  Part part{{}, runs, time.seconds_of(runs)};
  for (const std::string& axis : cut_axes(runs)) {
    if (part.seconds <= budget) break;
    std::set<double> seen;
    for (const Run* run : part.runs)
      if (const auto number = number_on(axis, *run)) seen.insert(*number);
    if (seen.size() < 2) continue;
    const std::vector<double> sorted(seen.begin(), seen.end());
    std::vector<double> values;
    for (std::size_t i = 0, middle = sorted.size() / 2; i < sorted.size(); ++i)
      values.push_back(sorted[axis != kRateAxis ? i : i % 2 == 1 ? middle - (i + 1) / 2 : middle + i / 2]);
    Part cut;
    for (std::size_t n = values.size() - 1; n > 0; --n) {
      const std::set<double> kept(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(n));
      cut = {part.where, {}, 0};
      cut.where.push_back({axis, {}});
      for (const double value : kept) cut.where.back().second.push_back(fmt::format("{}", value));
      std::copy_if(part.runs.begin(), part.runs.end(), std::back_inserter(cut.runs), [&](const Run* run) {
        const auto number = number_on(axis, *run);
        return number && kept.count(*number) != 0;
      });
      cut.seconds = time.seconds_of(cut.runs);
      if (cut.seconds <= budget) break;
    }
    if (count_labels(cut.runs) == count_labels(runs)) part = std::move(cut);
  }
  return part;
}

void print_budget(const std::vector<const Run*>& runs, const TimeForecast& time, double budget,
                  const Arguments& arguments, Console& console) {
  const std::string allowed = arguments.get("budget");
  if (runs.empty() || !time.seconds_of) {
    console.out << fmt::format("budget: {}\n",
                               runs.empty() ? "nothing is left to train" : "the time is not known");
    return;
  }
  const Part part = part_within(runs, budget, time);
  if (part.where.empty()) {
    console.out << fmt::format("budget: all {} fit into {}\n", plural(std::ssize(runs), "run"), allowed);
    return;
  }
  std::vector<std::string> words = {console.program, "run", arguments.positional.at(0)}, where;
  for (const char* option : {"set", "where", "out", "chosen-of", "best", "best-by", "max-runs"})
    for (const std::string& value : arguments.all(option))
      words.insert(words.end(), {fmt::format("--{}", option), value});
  for (const auto& [key, values] : part.where) {
    where.push_back(fmt::format("{} = {}", key, join(values, ", ")));
    words.insert(words.end(), {"--where", fmt::format("{}={}", key, join(values, ","))});
  }
  const std::string said = fmt::format("{} of {} with {}", part.runs.size(), plural(std::ssize(runs), "run"),
                                       join(where, ", ", " and "));
  if (part.seconds > budget)
    console.out << fmt::format(
        "budget: nothing fits into {}: {} take {}; fewer steps would ('crosstalk pilot')\n", allowed, said,
        duration(part.seconds));
  else
    console.out << fmt::format("budget: into {} fit {}, in about {}:\n  {}\n", allowed, said,
                               duration(part.seconds), shell_quote(words));
}

}  // namespace crosstalk::program

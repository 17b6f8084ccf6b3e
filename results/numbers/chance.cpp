// SPDX-License-Identifier: Apache-2.0
#include "results/numbers/chance.h"

#include <fmt/format.h>

#include <cmath>
#include <set>

#include "results/numbers/verdict.h"

namespace crosstalk {
namespace {

std::optional<double> metric_in(const Record& record, const char* name) {
  const auto found = record.metrics.find(name);
  return found == record.metrics.end() || !std::isfinite(found->second) ? std::nullopt
                                                                        : std::optional(found->second);
}

std::optional<double> loss_of_nothing(const Record& record) {
  const auto constant = metric_in(record, "constant_loss");
  return constant ? constant : metric_in(record, "chance_loss");
}

/// "accuracy 0.0312", "accuracy 0.0156 to 0.0312"; "" of no values.
std::string range_text(const char* name, const std::set<double>& values) {
  if (values.empty()) return "";
  const std::string low = fmt::format("{:.3g}", *values.begin()),
                    high = fmt::format("{:.3g}", *values.rbegin());
  return low == high ? fmt::format("{} {}", name, low) : fmt::format("{} {} to {}", name, low, high);
}

}  // namespace

std::optional<bool> is_within_chance(const Record& record, const std::string& metric,
                                     const AnswersOf& answers) {
  if (record.status != RunStatus::done || config_number(record, "train.max_steps") == 0) return std::nullopt;
  const bool test = metric.starts_with("test") && metric_in(record, "test_accuracy");
  const double accuracy = test ? *metric_in(record, "test_accuracy") : record.eval_accuracy;
  const auto chance = metric_in(record, "chance_accuracy");
  if (chance && std::isfinite(accuracy)) {
    const auto read = answers ? answers(record, test ? "test_accuracy" : "eval_accuracy") : std::nullopt;
    const double noise = read && *read >= 1 ? kChanceDeviations * std::sqrt(*chance * (1 - *chance) / *read)
                                            : kChanceMargin * (1 - *chance);
    return accuracy <= *chance + noise;
  }
  const auto nothing = loss_of_nothing(record);
  if (!nothing || !std::isfinite(record.eval_loss)) return std::nullopt;
  return record.eval_loss >= (1 - kTrend) * *nothing;
}

ChanceCount chance_of(const RecordList& records, const std::string& metric, const AnswersOf& answers) {
  ChanceCount count;
  std::set<double> accuracies, losses;
  for (const Record* record : records) {
    const auto within = is_within_chance(*record, metric, answers);
    if (!within) continue;
    ++count.runs;
    count.within += *within ? 1 : 0;
    if (const auto chance = metric_in(*record, "chance_accuracy")) accuracies.insert(*chance);
    if (const auto nothing = loss_of_nothing(*record)) losses.insert(*nothing);
  }
  if (count.runs == 0) return count;
  if (metric.find("accuracy") != std::string::npos && !accuracies.empty()) losses.clear();
  const std::string accuracy = range_text("accuracy", accuracies), loss = range_text("loss", losses);
  count.text = fmt::format(
      "Chance: {}{}{}; {} within its noise.", accuracy, accuracy.empty() || loss.empty() ? "" : ", ", loss,
      count.within == 0 ? "no run lies"
      : count.within == count.runs
          ? fmt::format("all {} runs lie", count.runs)
          : fmt::format("{} of {} runs {}", count.within, count.runs, count.within == 1 ? "lies" : "lie"));
  return count;
}

}  // namespace crosstalk

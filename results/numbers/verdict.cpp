// SPDX-License-Identifier: Apache-2.0
#include "results/numbers/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>

#include "results/numbers/select.h"
#include "results/numbers/statistics.h"

namespace crosstalk {
namespace {

/// The word of somebody's table.
std::optional<Verdict> given(const Record& record) {
  const auto word = record.provenance.find("verdict");
  if (word == record.provenance.end() || !word->is_string()) return std::nullopt;
  for (const Verdict verdict : verdicts())
    if (to_text(verdict) == word->get<std::string>()) return verdict;
  return std::nullopt;
}

bool is_solved(const Record& record) {
  const double loss = config_number(record, "train.stop_loss").value_or(0),
               accuracy = config_number(record, "train.stop_accuracy").value_or(0);
  if (loss > 0 || accuracy > 0)
    return (loss > 0 && record.eval_loss <= loss) || (accuracy > 0 && record.eval_accuracy >= accuracy);
  return config_text(record, "model.name") == "language" && record.eval_accuracy >= kSolvedAccuracy;
}

bool is_at_chance(const Record& record) {
  const auto chance = record.metrics.find("chance_accuracy");
  return chance != record.metrics.end() &&
         record.eval_accuracy <= chance->second + kChanceMargin * (1 - chance->second);
}

/// Answering the zero vector, or as often each of all answers, would have had the smaller loss. A model of single tokens may
/// be right where it is sure, and so wrong elsewhere that its loss is above: that is no such run.
bool is_worse_than_nothing(const Record& record) {
  const auto above = [&](const char* name) {
    const auto nothing = record.metrics.find(name);
    return nothing != record.metrics.end() && record.eval_loss > (1 + kTrend) * nothing->second;
  };
  return record.metrics.count("constant_loss") != 0 ? above("constant_loss")
                                                    : above("chance_loss") && is_at_chance(record);
}

/// Finite validation losses since the last stage of a curriculum began.
std::vector<double> last_losses(const Record& record) {
  const auto curve = record.curves.find("eval_loss");
  if (curve == record.curves.end()) return {};
  double begin = 0;
  if (const auto stages = record.profiles.find("steps_by_stage"); stages != record.profiles.end())
    for (std::size_t i = 0; i + 1 < stages->second.y.size(); ++i) begin += stages->second.y[i];
  std::vector<double> losses;
  const Series& series = curve->second;
  for (std::size_t i = 0; i < std::min(series.x.size(), series.y.size()); ++i)
    if (series.x[i] > begin && std::isfinite(series.y[i])) losses.push_back(series.y[i]);
  return losses;
}

/// Of a run that went to its last step.
Verdict end_of(const std::vector<double>& losses) {
  if (losses.size() < kLeastEvaluations) return Verdict::out_of_steps;
  const auto quarter = static_cast<std::ptrdiff_t>(losses.size() / 4);
  const double before = median({losses.end() - 2 * quarter, losses.end() - quarter}),
               last = median({losses.end() - quarter, losses.end()});
  if (last < (1 - kTrend) * before) return Verdict::still_falling;
  return last > (1 + kTrend) * before ? Verdict::rising : Verdict::plateau;
}

/// What the head, the configuration and the metrics tell.
std::optional<Verdict> without_curve(const Record& record) {
  if (const auto word = given(record)) return word;
  if (record.status == RunStatus::failed) return Verdict::failed;
  // A row of a table may be known by its accuracy alone.
  if (record.status == RunStatus::diverged || (!lacks_loss(record) && !std::isfinite(record.eval_loss)))
    return Verdict::diverged;
  const auto most = config_number(record, "train.max_steps");
  if (most && *most == 0) return Verdict::not_trained;
  if (record.metrics.count(kOutrun) != 0) return Verdict::outrun;
  if (is_solved(record)) return Verdict::solved;
  if (is_worse_than_nothing(record)) return Verdict::worse_than_nothing;
  if (!most || static_cast<double>(record.steps) >= *most) return std::nullopt;
  return is_at_chance(record) ? Verdict::at_chance : Verdict::plateau;
}

}  // namespace

bool is_outrun(const Record& record) {
  const auto word = given(record);
  return word ? *word == Verdict::outrun : record.metrics.count(kOutrun) != 0;
}

bool knows_steps(const Record& record) {
  return record.steps > 0 || record.config.contains("train.max_steps");
}

Verdict verdict_of(const Record& record) {
  if (const auto verdict = without_curve(record)) return *verdict;
  const Verdict end = end_of(last_losses(record));
  if (end != Verdict::plateau && end != Verdict::out_of_steps) return end;
  if (is_at_chance(record)) return Verdict::at_chance;
  return end == Verdict::out_of_steps && !knows_steps(record) ? Verdict::unknown : end;
}

const std::vector<std::string>& verdict_keys() {
  static const std::vector<std::string> keys = {"train.stop_loss", "train.stop_accuracy", "model.name",
                                                "train.max_steps"};
  return keys;
}

bool verdict_needs_curve(const Record& record) { return !without_curve(record); }

std::string to_text(Verdict verdict) {
  switch (verdict) {
    case Verdict::failed:
      return "failed";
    case Verdict::diverged:
      return "diverged";
    case Verdict::not_trained:
      return "not_trained";
    case Verdict::outrun:
      return "outrun";
    case Verdict::solved:
      return "solved";
    case Verdict::worse_than_nothing:
      return "worse_than_nothing";
    case Verdict::at_chance:
      return "at_chance";
    case Verdict::plateau:
      return "plateau";
    case Verdict::still_falling:
      return "still_falling";
    case Verdict::rising:
      return "rising";
    case Verdict::out_of_steps:
      return "out_of_steps";
    case Verdict::unknown:
      return "unknown";
  }
  throw std::logic_error("unknown Verdict");
}

const std::vector<Verdict>& verdicts() {
  static const std::vector<Verdict> all = {
      Verdict::solved,        Verdict::plateau,  Verdict::at_chance,    Verdict::worse_than_nothing,
      Verdict::still_falling, Verdict::rising,   Verdict::out_of_steps, Verdict::not_trained,
      Verdict::outrun,        Verdict::diverged, Verdict::failed,       Verdict::unknown};
  return all;
}

std::string words_of(Verdict verdict) {
  std::string words = to_text(verdict);
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

std::vector<std::string> counted(const VerdictCounts& counts) {
  std::vector<std::string> texts;
  for (const Verdict verdict : verdicts())
    if (const auto n = counts.find(verdict); n != counts.end())
      texts.push_back(fmt::format("{} {}", n->second, words_of(verdict)));
  return texts;
}

}  // namespace crosstalk

// Runs of a study at the values that turned out best in other runs.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/chosen.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>

#include "experiments/common/stores.h"
#include "experiments/common/text.h"
#include "experiments/sharing/session_options.h"
#include "experiments/sharing/shares.h"
#include "experiments/training/state/record_of.h"
#include "results/csv.h"

namespace crosstalk::program {
namespace {

using Texts = std::vector<std::string>;

/// Equal numbers have equal texts, however an export wrote them.
std::string same_for_equal(const std::string& text) {
  const auto number = number_in(text);
  return number ? fmt::format("{}", *number) : text;
}

std::string text_of_value(const OptionValue& value) { return same_for_equal(unquoted(value)); }

std::string value_in(const Options& config, const std::string& key) {
  return config.has(key) ? text_of_value(config.at(key)) : "";
}

Texts values_in(const Options& config, const Texts& keys) {
  Texts values;
  for (const std::string& key : keys) values.push_back(value_in(config, key));
  return values;
}

Texts values_in(const Record& record, const Texts& keys) {
  Texts values;
  for (const std::string& key : keys) values.push_back(same_for_equal(config_text(record, key).value_or("")));
  return values;
}

/// The keys in which runs differ, `keys` and seeds apart.
Texts telling_apart(const std::vector<Run>& runs, const Texts& keys) {
  std::map<std::string, std::set<std::string>> seen;
  std::map<std::string, std::size_t> times;
  for (const Run& run : runs)
    for (const auto& [key, value] : run.config.values()) {
      if (is_seed_key(key) || std::ranges::find(keys, key) != keys.end()) continue;
      seen[key].insert(text_of_value(value));
      ++times[key];
    }
  Texts differing;
  for (const auto& [key, values] : seen)
    if (values.size() > 1 || times[key] < runs.size()) differing.push_back(key);
  return differing;
}

/// Adds what the store has more than one value of, the study's among them: a study of one memory or task finds its own in a store of
/// six. In their training alone they may differ, for rates may be tried with fewer steps.
void tell_apart_tried(const std::vector<Run>& runs, const RecordList& tried, const Texts& keys,
                      Texts& differing) {
  std::map<std::string, std::set<std::string>> asked;
  for (const Run& run : runs)
    for (const auto& [key, value] : run.config.values())
      if (key.starts_with("task.") || key.starts_with("model.") || key.starts_with("memory."))
        asked[key].insert(text_of_value(value));
  for (const auto& [key, values] : asked) {
    if (std::ranges::find(keys, key) != keys.end() || std::ranges::find(differing, key) != differing.end())
      continue;
    std::set<std::string> seen;
    for (const Record* record : tried) seen.insert(same_for_equal(config_text(*record, key).value_or("")));
    if (seen.size() > 1 && std::ranges::includes(seen, values)) differing.push_back(key);
  }
}

/// "deltanet, task.motif = 3, task.vocabulary = 16": of the keys that tell runs apart, those that a study says rather than derives.
std::string place_text(const Run& run, const Texts& differing) {
  static const std::set<std::string> said = {"model.width", "model.layers", "model.heads", "model.stack"};
  std::string text = run.label;
  for (const std::string& key : differing)
    if (run.config.has(key) && (key.starts_with("task.") || said.count(key) != 0))
      text += fmt::format(", {} = {}", key, value_in(run.config, key));
  return text;
}

/// "; the nearest run differs in model.out_norm_eps (1e-05, asked 0.00128)": of those that were tried under the label of `run`.
std::string nearest_text(const Run& run, const RecordList& tried, const Texts& differing) {
  const Texts asked = values_in(run.config, differing);
  Texts fewest;
  for (const Record* record : tried) {
    if (record->label != run.label || record->status == RunStatus::failed) continue;
    const Texts theirs = values_in(*record, differing);
    Texts differ;
    for (std::size_t i = 0; i < differing.size(); ++i)
      if (theirs[i] != asked[i])
        differ.push_back(fmt::format("{} ({}, asked {})", differing[i], theirs[i], asked[i]));
    if (fewest.empty() || differ.size() < fewest.size()) fewest = differ;
  }
  return fewest.empty() ? "" : "; the nearest run differs in " + join(fewest, ", ", " and ");
}

/// The runs that --only names (by id or a beginning of it).
std::vector<Run> named_runs(const Study& study, const std::vector<std::string>& only) {
  std::vector<Run> runs;
  for (const std::string& id : only) {
    const auto match = [&](const Run& run) { return run.id.rfind(id, 0) == 0; };
    const auto count = std::ranges::count_if(study.runs, match);
    if (count == 0)
      throw UsageError(
          fmt::format("--only {}: the study has no such run ('crosstalk plan STUDY --json' lists ids; a run "
                      "that was planned with --set needs the same --set)",
                      id));
    if (count > 1 && id.size() < study.runs[0].id.size())
      throw UsageError(fmt::format("--only {}: {} runs begin so; give more of the id", id, count));
    runs.push_back(*std::ranges::find_if(study.runs, match));
  }
  return runs;
}

/// Leaves of `runs` those of one of several parts of the study, a pure function of the study: processes that know nothing of
/// each other train everything, once, whatever their devices and stores.
void keep_shard(std::vector<Run>& runs, const Study& study, const Place& place) {
  TrainingOptions any;
  any.device = Device::cuda;  // keeps runs that make a pack together, which costs no CPU anything
  const Share share = share_out(study.runs, place.n, any).at(static_cast<std::size_t>(place.i - 1));
  std::set<std::string> ids;
  for (const Unit& unit : share) ids.insert(unit.begin(), unit.end());
  std::erase_if(runs, [&](const Run& run) { return ids.count(run.id) == 0; });
}

/// Of a study what --where asks for.
void keep_part(const Arguments& arguments, Study& study) {
  const std::map<std::string, std::string> conditions = conditions_of(arguments);
  if (conditions.empty()) return;
  for (const char* key : {"status", "verdict", "semantics", "study_version"})
    if (const auto one = conditions.find(key); one != conditions.end())
      throw UsageError(fmt::format(
          "--where {}={}: {} is known of records, and these are runs to come; 'crosstalk status STORE "
          "--where {}={}' counts records, 'crosstalk retry' trains failed ones again",
          key, one->second, key, key, one->second));
  std::map<std::string, Record> rows;
  for (const Run& run : study.runs) rows.emplace(run.id, record_of(study.name, run, RunStatus::done));
  try {
    keep_matching(rows, conditions);
  } catch (const std::invalid_argument& error) {  // which speaks of records, and these are runs to come
    std::string text = error.what();
    if (const auto at = text.find(": no record "); at != std::string::npos) text.replace(at, 12, ": no run ");
    throw UsageError(text);
  }
  const std::size_t all = study.runs.size();
  std::erase_if(study.runs, [&](const Run& run) { return rows.count(run.id) == 0; });
  study.product = fmt::format("{} of the study's {} runs: where {}{}", study.runs.size(), all,
                              join(arguments.all("where"), ", "), study.bare);
}

}  // namespace

std::vector<CommandOption> chosen_options() {
  return {
      {"where", "KEY=VALUE",
       "Only runs of the study that match; KEY is a dotted key, label (or memory: [memories.LABEL], whose kind is "
       "memory.name) or seed; VALUE may be A,B and may hold * and ?",
       true},
      {"chosen-of", "STORE",
       "Only runs at the best values of --best among the runs of STORE (a store, an export or a study), in "
       "which rates were tried with fewer seeds or steps"},
      {"best", "KEY,KEY", "Of --chosen-of: the keys whose value is chosen, by the validation loss", true},
      best_by_option()};
}

std::vector<Run> chosen_runs(const std::vector<Run>& runs, const RecordList& tried, const Texts& keys,
                             BestBy by, const std::string& what, std::vector<std::string>& warnings) {
  for (const std::string& key : keys)
    if (std::ranges::none_of(runs, [&](const Run& run) { return run.config.has(key); }))
      throw std::invalid_argument(fmt::format("{}: no run of the study has the key \"{}\"", what, key));
  Texts differing = telling_apart(runs, keys);
  tell_apart_tried(runs, tried, keys, differing);
  struct Point {
    std::set<Texts> asked, tried, best;
    bool found = false;
  };
  std::map<Texts, Point> points;
  for (const Run& run : runs)
    points[values_in(run.config, differing)].asked.insert(values_in(run.config, keys));
  const auto point_of = [&](const Record* record) -> Point* {
    const auto found = points.find(values_in(*record, differing));
    return found == points.end() ? nullptr : &found->second;
  };
  RecordList here;  // what the study does not ask for has no say
  for (const Record* record : tried)
    if (Point* point = record->status == RunStatus::failed ? nullptr : point_of(record)) {
      here.push_back(record);
      point->tried.insert(values_in(*record, keys));
    }
  if (here.empty())
    throw std::invalid_argument(
        fmt::format("{}: none of its {} is at a point of the study", what, plural(std::ssize(tried), "run")));
  for (const Record* record : choose_best(here, keys, by))
    point_of(record)->best.insert(values_in(*record, keys));
  std::vector<Run> chosen;
  std::int64_t incomplete = 0, untried = 0;
  std::string first_untried;
  for (const Run& run : runs) {
    Point& point = points.at(values_in(run.config, differing));
    if (point.best.empty()) {
      if (first_untried.empty())
        first_untried = place_text(run, differing) + nearest_text(run, tried, differing);
      untried += point.found ? 0 : 1;
      point.found = true;
      continue;
    }
    if (point.best.size() > 1)
      throw std::invalid_argument(fmt::format(
          "{}: at {} it has {} best values of {}, of runs that differ in something else or were raced (train.race); give one of them",
          what, place_text(run, differing), point.best.size(), join(keys, ",")));
    const Texts& best = *point.best.begin();
    if (point.asked.count(best) == 0)
      throw std::invalid_argument(fmt::format("{}: at {} the best {} is {}, which the study does not have",
                                              what, place_text(run, differing), join(keys, ","),
                                              join(best, ",")));
    if (!point.found) {
      point.found = true;
      if (!std::ranges::includes(point.tried, point.asked)) ++incomplete;
    }
    if (values_in(run.config, keys) == best) chosen.push_back(run);
  }
  if (untried > 0)
    warnings.push_back(fmt::format("{}: nothing was tried at {} of {}, whose runs are left out: {}{}", what,
                                   untried, plural(std::ssize(points), "point"), first_untried,
                                   untried > 1 ? "; and others" : ""));
  if (incomplete > 0)
    warnings.push_back(fmt::format("{}: at {} of {} not all values of {} that the study has were tried", what,
                                   incomplete, plural(std::ssize(points), "point"), join(keys, ",")));
  if (const std::string unequal = unequal_seeds_text(here, keys); !unequal.empty())
    warnings.push_back(fmt::format("{}: {}", what, unequal));
  return chosen;
}

void keep_chosen(const Arguments& arguments, Study& study, Console& console) {
  keep_part(arguments, study);
  if (!arguments.has("chosen-of")) {
    for (const char* option : {"best", "best-by"})
      if (arguments.has(option))
        throw UsageError(fmt::format("--{}: needs --chosen-of STORE, the runs to choose by", option));
    return;
  }
  const Texts keys = keys_of(arguments, "best");
  const std::string store = arguments.get("chosen-of"), what = fmt::format("--chosen-of {}", store);
  if (keys.empty()) throw UsageError(what + ": needs --best KEY, such as --best train.learning_rate");
  const LabelledRecords tried = load_rows({store}, Arguments(), console);
  std::vector<std::string> warnings;
  study.runs = chosen_runs(study.runs, list_of(tried.rows), keys, best_by_of(arguments), what, warnings);
  for (const std::string& warning : warnings) print_note(console, warning);
  study.product += fmt::format(", {} at the {} chosen of {}", study.runs.size(), join(keys, ", "), store);
}

std::optional<std::vector<Run>> part_of(const Arguments& arguments, const Study& study) {
  const std::vector<std::string> only = arguments.all("only");
  if (only.empty() && !arguments.has("shard")) return std::nullopt;
  std::vector<Run> part = only.empty() ? study.runs : named_runs(study, only);
  if (arguments.has("shard")) keep_shard(part, study, place_of(arguments.get("shard"), "--shard"));
  return part;
}

}  // namespace crosstalk::program

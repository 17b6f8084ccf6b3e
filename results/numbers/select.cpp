// Choosing records.
// SPDX-License-Identifier: Apache-2.0
#include "results/numbers/select.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <set>
#include <sstream>
#include <stdexcept>
#include <tuple>
#include <unordered_map>

#include "kernels/base/text/names.h"
#include "results/csv.h"
#include "results/numbers/statistics.h"
#include "results/numbers/verdict.h"
#include "results/replay/published.h"
#include "results/store/record_io.h"

namespace crosstalk {
namespace {

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\"");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\"") - first + 1);
}

/// Those that records say: where one does not, it is not known to differ.
std::set<std::string> known_semantics(const RecordList& records) {
  std::set<std::string> known;
  for (const Record* record : records)
    if (auto semantics = field_text(*record, "semantics")) known.insert(std::move(*semantics));
  return known;
}

using Values = std::vector<std::string>;
/// Everything but the keys and seeds -> values of the keys -> runs.
using Groups = std::map<std::string, std::map<Values, RecordList>>;

Groups groups_of(const RecordList& records, const std::vector<std::string>& keys) {
  std::vector<std::string> others;  // what is equal in all records tells no groups apart
  for (const auto& [key, varies] : config_keys(records))
    if (varies && !is_seed_key(key) && std::ranges::find(keys, key) == keys.end()) others.push_back(key);
  const bool apart = known_semantics(records).size() > 1;
  using Of = std::vector<const Configuration::Value*>;
  std::map<std::tuple<std::string, std::string, Of>, std::map<Values, RecordList>*>
      found;  // equal values are one
  Groups groups;
  for (const Record* record : records) {
    if (record->status == RunStatus::failed) continue;
    Of of;
    for (const std::string& key : others) of.push_back(record->config.value_of(key));
    const std::string semantics = apart ? field_text(*record, "semantics").value_or("") : "";
    auto& group = found[{record->label, semantics, std::move(of)}];
    if (group == nullptr) {
      std::string rest = record->label + '\n' + semantics + '\n';
      for (const std::string& key : others)
        if (const auto* value = record->config.find(key)) rest += key + '=' + value->dump() + '\n';
      group = &groups[rest];
    }
    Values values;
    for (const std::string& key : keys) values.push_back(config_text(*record, key).value_or(""));
    (*group)[values].push_back(record);
  }
  return groups;
}

/// The smaller, the better.
double score_of(const Record& run, BestBy by) {
  const double score = by == BestBy::loss ? run.eval_loss : -run.eval_accuracy;
  return run.status == RunStatus::done && std::isfinite(score) ? score
                                                               : std::numeric_limits<double>::infinity();
}

/// Of which seeds all candidates have a run, and whether some have others besides.
struct SharedSeeds {
  std::set<std::string> all;
  bool unequal = false;
};

SharedSeeds shared_seeds(const std::map<Values, RecordList>& candidates) {
  SharedSeeds shared;
  std::set<std::string> any;
  bool first = true;
  for (const auto& [values, runs] : candidates) {
    std::set<std::string> own, both;
    for (const Record* run : runs) own.insert(seeds_of(*run));
    any.insert(own.begin(), own.end());
    if (first) shared.all = own;
    std::set_intersection(shared.all.begin(), shared.all.end(), own.begin(), own.end(),
                          std::inserter(both, both.begin()));
    shared.all = both;
    first = false;
  }
  shared.unequal = any != shared.all;
  return shared;
}

/// The runs with the best median. Throws std::invalid_argument where there is none to choose by.
const std::pair<const Values, RecordList>& best_of(const std::map<Values, RecordList>& candidates,
                                                   BestBy by) {
  const std::pair<const Values, RecordList>* best = nullptr;
  double least = 0;
  const SharedSeeds shared = shared_seeds(candidates);
  for (const auto& candidate : candidates) {
    std::vector<double> losses;
    for (const Record* run : candidate.second) {
      if (!shared.all.empty() && shared.all.count(seeds_of(*run)) == 0) continue;
      if (candidates.size() > 1 && by == BestBy::accuracy && std::isnan(run->eval_accuracy) &&
          run->status == RunStatus::done)
        throw std::invalid_argument(fmt::format(
            "--best-by accuracy: the runs of \"{}\" have no eval_accuracy; choose by loss", run->label));
      if (candidates.size() > 1 && by == BestBy::loss && lacks_loss(*run))
        throw std::invalid_argument(fmt::format(
            "--best: the runs of \"{}\" have no eval_loss, by which the best value is chosen; add the column, or take one value with --where",
            run->label));
      losses.push_back(score_of(*run, by));
    }
    const double loss = median(losses);
    if (best != nullptr && !(loss < least)) continue;
    best = &candidate;
    least = loss;
  }
  return *best;
}

/// The runs of best_of(); of a point that was raced (train.race) the best run of each seed, for how well the others would have done
/// there nobody knows.
RecordList best_runs(const std::map<Values, RecordList>& candidates, BestBy by) {
  std::map<std::string, const Record*> of_seed;
  bool raced = false;
  for (const auto& [values, runs] : candidates)
    for (const Record* run : runs) {
      if (is_outrun(*run)) {
        raced = true;
        continue;
      }
      const auto [best, is_new] = of_seed.try_emplace(seeds_of(*run), run);
      if (!is_new && score_of(*run, by) < score_of(*best->second, by)) best->second = run;
    }
  if (!raced) return best_of(candidates, by).second;
  RecordList best;
  for (const auto& [seeds, run] : of_seed) best.push_back(run);
  return best;
}

}  // namespace

std::string task_setting(const Record& record) {
  std::string text;
  for (const auto& [key, value] : record.config)
    if (key.starts_with("task.")) text += key + "=" + value.dump() + "\n";
  return text;
}

std::optional<std::string> config_text(const Record& record, const std::string& key) {
  const Configuration::Value* found = record.config.value_of(key);
  return found == nullptr ? std::nullopt : std::optional(*found->text);
}

std::optional<double> config_number(const Record& record, const std::string& key) {
  const nlohmann::json* found = record.config.find(key);
  return found == nullptr || !found->is_number() ? std::nullopt : std::optional(found->get<double>());
}

double metric_in(const Record& record, const std::string& name) {
  const auto found = record.metrics.find(name);
  return found == record.metrics.end() ? std::numeric_limits<double>::quiet_NaN() : found->second;
}

std::optional<std::string> field_text(const Record& record, const std::string& key) {
  if (key == "id") return record.id;
  if (key == "label") return record.label;
  if (key == "memory") {  // as in the grid of a study
    const auto own = config_text(record, key);
    return own ? own : record.label;
  }
  if (key == "study") return record.study;
  if (key == "study_version") return record.version;
  if (key == "status") return to_text(record.status);
  // Whoever has only a part of the record writes the word into its configuration.
  if (key == "verdict") {
    const auto known = config_text(record, key);
    return known ? known : to_text(verdict_of(record));
  }
  if (key == "semantics")
    if (const auto number = record.provenance.find(key); number != record.provenance.end())
      return number->dump();
  if (key == "seed") return std::to_string(record.seed);
  if (key == "d_dot") return std::to_string(record.d_dot);
  if (key == "state_size" && record.state_size > 0)
    return std::to_string(record.state_size);  // else not known
  return config_text(record, key);
}

std::string seeds_of(const Record& record) {
  std::string seeds = std::to_string(record.seed);
  for (const char* key : {"data_seed", "init_seed"})
    if (const auto own = config_text(record, key); own && *own != std::to_string(record.seed))
      seeds += fmt::format(" ({} {})", key, *own);
  return seeds;
}

bool same_text(const std::string& a, const std::string& b) {
  if (a == b) return true;
  const auto x = number_in(a), y = number_in(b);
  return x && y && *x == *y;
}

namespace {

/// "A, B" in pieces.
std::vector<std::string> alternatives_of(const std::string& wanted) {
  std::vector<std::string> all;
  std::istringstream pieces(wanted);
  for (std::string one; std::getline(pieces, one, ',');) all.push_back(trimmed(one));
  return all;
}

}  // namespace

bool matches(const std::string& value, const std::string& wanted) {
  const auto b = number_in(value);
  return std::ranges::any_of(alternatives_of(wanted), [&](const std::string& one) {
    const auto a = number_in(one);
    return one == value || fnmatch(one.c_str(), value.c_str(), 0) == 0 || (a && b && *a == *b);
  });
}

namespace {

/// One entry of `where`; "none" among its alternatives takes records without the key, too (runs of another task, say).
bool meets(const Record& record, const std::string& key, const std::string& wanted) {
  if (const auto value = field_text(record, key)) return matches(*value, wanted);
  return std::ranges::count(alternatives_of(wanted), "none") > 0;
}

}  // namespace

bool matches_all(const Record& record, const std::map<std::string, std::string>& where) {
  return std::ranges::all_of(
      where, [&](const auto& condition) { return meets(record, condition.first, condition.second); });
}

std::vector<std::string> sorted_values(const std::vector<std::string>& values) {
  const std::set<std::string> distinct(values.begin(), values.end());
  std::vector<std::string> sorted(distinct.begin(), distinct.end());
  std::ranges::stable_sort(sorted, [](const std::string& a, const std::string& b) {
    const auto x = number_in(a), y = number_in(b);
    if (x && y) return *x < *y;
    return x.has_value() && !y.has_value();
  });
  return sorted;
}

std::map<std::string, bool> config_keys(const RecordList& records) {
  if (records.empty()) return {};
  const std::vector<Configuration::Entry>& first = records.front()->config.entries();
  std::vector<bool> varies(first.size());
  std::map<std::string, bool> keys;
  for (const Record* record : records) {
    const std::vector<Configuration::Entry>& other = record->config.entries();
    std::size_t a = 0, b = 0;  // both are sorted
    while (a < first.size() || b < other.size()) {
      const int order = a == first.size()              ? 1
                        : b == other.size()            ? -1
                        : first[a].key == other[b].key ? 0
                                                       : first[a].key->compare(*other[b].key);
      if (order > 0)
        keys[*other[b].key] = true;
      else if (!varies[a])  // 1 and 1.0 are two values, and equal
        varies[a] =
            order < 0 || (first[a].value != other[b].value && first[a].value->json != other[b].value->json);
      if (order <= 0) ++a;
      if (order >= 0) ++b;
    }
  }
  for (std::size_t a = 0; a < first.size(); ++a) keys[*first[a].key] = varies[a];
  return keys;
}

bool is_seed_key(const std::string& key) {
  return key == "seed" || (key.size() > 5 && key.ends_with("_seed")) || key.ends_with(".seed");
}

RecordList list_of(const std::map<std::string, Record>& records) {
  RecordList list;
  for (const auto& [key, record] : records) list.push_back(&record);
  return list;
}

std::string nearest_key(const RecordList& records, const std::string& key) {
  std::set<std::string> keys = {"label",     "memory", "study", "status",    "verdict",
                                "semantics", "seed",   "d_dot", "state_size"};
  for (const Record* record : records)
    for (const auto& [name, value] : record->config) keys.insert(name);
  if (keys.count(key) != 0) return key;
  return keys.count(key + ".name") != 0 ? key + ".name" : nearest_of(key, {keys.begin(), keys.end()});
}

namespace {

/// "no record has the key "lr"; did you mean "train.learning_rate"?"
std::string unknown_to_all(const RecordList& records, const std::string& key) {
  const std::string nearest = nearest_key(records, key);
  return fmt::format("no record has the key \"{}\"{}", key,
                     nearest.empty() || nearest == key ? "" : fmt::format("; did you mean \"{}\"?", nearest));
}

/// Refuses what is listed and stands in no record, before other conditions take any away: a name with a slip would
/// silently leave its line out.
void check_alternatives(const RecordList& records, const std::string& key, const std::string& wanted) {
  std::vector<std::string> values;
  for (const Record* record : records)
    if (auto value = field_text(*record, key)) values.push_back(std::move(*value));
  if (values.empty())
    throw std::invalid_argument(fmt::format("--where {}={}: {}", key, wanted, unknown_to_all(records, key)));
  values = sorted_values(values);
  for (const std::string& other : alternatives_of(wanted)) {
    if (other.empty() ||
        std::ranges::any_of(values, [&](const std::string& value) { return matches(value, other); }) ||
        std::ranges::any_of(records, [&](const Record* record) {
          return !field_text(*record, key) && meets(*record, key, other);
        }))
      continue;
    const std::size_t sign = other.find('=');
    const bool condition =
        sign != std::string::npos && std::ranges::any_of(records, [&](const Record* record) {
          return field_text(*record, other.substr(0, sign)).has_value();
        });
    throw std::invalid_argument(fmt::format(
        "--where {}={}: {}", key, wanted,
        condition
            ? fmt::format("a comma stands between values of {}; give another condition by itself: --where {}",
                          key, other)
            : fmt::format("no record matches{}; there are {}{}", wanted == other ? "" : " " + other,
                          key == "memory" ? "the labels " : "", fmt::join(values, ", "))));
  }
}

}  // namespace

void check_key(const RecordList& records, const std::string& option, const std::string& key) {
  if (std::ranges::none_of(records,
                           [&](const Record* record) { return field_text(*record, key).has_value(); }))
    throw std::invalid_argument(fmt::format("{} {}: {}", option, key, unknown_to_all(records, key)));
}

void check_varies(const RecordList& records, const std::vector<std::string>& best) {
  for (const std::string& key : best) {
    std::set<std::string> values;
    for (const Record* record : records) values.insert(field_text(*record, key).value_or(""));
    if (values.size() == 1)
      throw std::invalid_argument(fmt::format(
          "--best {}: it is {} in all runs, so there is nothing to choose", key, *values.begin()));
  }
}

RecordList choose_records(const RecordList& records, const std::map<std::string, std::string>& where) {
  RecordList chosen = records;
  for (const auto& [key, wanted] : where) check_alternatives(records, key, wanted);
  for (const auto& [key, wanted] : where) {
    RecordList matching;
    std::vector<std::string> values;
    for (const Record* record : chosen) {
      if (auto value = field_text(*record, key)) values.push_back(std::move(*value));
      if (meets(*record, key, wanted)) matching.push_back(record);
    }
    if (matching.empty())
      throw std::invalid_argument(fmt::format(
          "--where {}={}: no record matches{}", key, wanted,
          values.empty() ? fmt::format("; those that the other conditions leave have no {}", key)
                         : fmt::format("; there are {}", fmt::join(sorted_values(values), ", "))));
    chosen = matching;
  }
  return chosen;
}

RecordList choose_best(const RecordList& records, const std::vector<std::string>& keys, BestBy by) {
  for (const std::string& key : keys)
    if (is_seed_key(key))
      throw std::invalid_argument(fmt::format(
          "--best {}: it would take the luckiest of the repeats; seeds are pooled: leave it out (--where {}=1 takes one)",
          key, key));
  std::map<std::string, std::set<std::string>> seen;
  for (const Record* record : records)
    for (const std::string& key : keys)
      if (const auto value = config_text(*record, key); value && record->status != RunStatus::failed)
        seen[key].insert(*value);
  for (const std::string& key : keys) {
    if (seen.count(key) != 0) continue;
    const bool field = std::ranges::any_of(
        records, [&](const Record* record) { return field_text(*record, key).has_value(); });
    const std::string why = field
                                ? "it chooses among values of a key of the study, such as train.learning_rate"
                                : unknown_to_all(records, key);
    throw std::invalid_argument(fmt::format("--best {}: {}", key, why));
  }
  RecordList chosen;
  bool any = false;
  for (const auto& [rest, candidates] : groups_of(records, keys)) {
    any = any || candidates.size() > 1;
    const RecordList best = best_runs(candidates, by);
    chosen.insert(chosen.end(), best.begin(), best.end());
  }
  if (!any)
    throw std::invalid_argument(fmt::format(
        "--best {}: no two runs differ in it alone, so there is nothing to choose; it is {} in all of them or goes together with another key",
        fmt::join(keys, ","), keys.empty() ? "" : fmt::format("{}", fmt::join(seen[keys[0]], " or "))));
  return chosen;
}

std::string unequal_seeds_text(const RecordList& records, const std::vector<std::string>& keys) {
  std::set<std::string> shared;
  int points = 0, unequal = 0, without = 0;
  for (const auto& [rest, candidates] : groups_of(records, keys)) {
    if (candidates.size() < 2) continue;
    ++points;
    const SharedSeeds seeds = shared_seeds(candidates);
    if (!seeds.unequal) continue;
    ++unequal;
    without += seeds.all.empty() ? 1 : 0;
    if (!seeds.all.empty())
      shared.insert(fmt::format("{}", fmt::join(sorted_values({seeds.all.begin(), seeds.all.end()}), ", ")));
  }
  if (unequal == 0) return "";
  std::string text = fmt::format(
      "At {} of {} points the values were tried with unequal seeds: chosen by the seeds ", unequal, points);
  if (!shared.empty()) text += fmt::format("that all of them share ({})", fmt::join(shared, "; "));
  if (without > 0)
    text += fmt::format("{}that each has{}", shared.empty() ? "" : ", or by those ",
                        shared.empty() ? ", for they share none"
                                       : fmt::format(" where they share none ({} points)", without));
  return text + ".";
}

std::vector<EdgeChoice> edge_choices(const RecordList& records, const std::vector<std::string>& keys,
                                     const std::string& key, BestBy by) {
  const auto index = static_cast<std::size_t>(std::ranges::find(keys, key) - keys.begin());
  std::map<std::string, EdgeChoice> of_label;
  for (const auto& [rest, candidates] : groups_of(records, keys)) {
    std::set<double> grid;
    bool raced = false;  // and solved: no better rate is needed
    for (const auto& [values, runs] : candidates)
      raced |= std::any_of(runs.begin(), runs.end(), [](const Record* run) { return is_outrun(*run); });
    if (raced) continue;
    for (const auto& [values, runs] : candidates)
      if (const auto number = number_in(values.at(index))) grid.insert(*number);
    const auto& [values, runs] = best_of(candidates, by);
    const auto chosen = number_in(values.at(index));
    if (grid.size() < 2 || !chosen) continue;
    EdgeChoice& choice = of_label[runs.front()->label];
    choice.label = runs.front()->label;
    ++choice.choices;
    choice.smallest += *chosen == *grid.begin();
    choice.largest += *chosen == *grid.rbegin();
  }
  std::vector<EdgeChoice> choices;
  for (const auto& [label, choice] : of_label)
    if (choice.smallest + choice.largest > 0) choices.push_back(choice);
  return choices;
}

std::string edges_text(const std::vector<EdgeChoice>& edges) {
  std::vector<std::string> sides;
  for (const auto& [which, count] :
       {std::pair{"largest", &EdgeChoice::largest}, {"smallest", &EdgeChoice::smallest}}) {
    std::vector<std::string> memories;
    for (const EdgeChoice& edge : edges)
      if (edge.*count > 0)
        memories.push_back(fmt::format("{} ({} of {} points)", edge.label, edge.*count, edge.choices));
    if (memories.empty()) continue;
    const std::string last = memories.back();
    memories.pop_back();
    sides.push_back(fmt::format("the {} tried for {}{}{}", which, fmt::join(memories, ", "),
                                memories.empty() ? "" : " and ", last));
  }
  if (sides.empty()) return "";
  return fmt::format("The best learning rate is {}: a better one may lie beyond.", fmt::join(sides, "; "));
}

double state_bytes(const Record& record) {
  if (const double given = metric_in(record, kStateBytes); given > 0) return given;
  return 4.0 * static_cast<double>(std::max<std::int64_t>(record.state_size, 0));
}

double state_floats(const Record& record) {
  return record.state_size > 0 ? static_cast<double>(record.state_size) : state_bytes(record) / 4;
}

bool lacks_loss(const Record& record) {
  const auto is_result = [](const auto& metric) {
    return metric.first.ends_with("accuracy") && std::isfinite(metric.second) &&
           !metric.first.starts_with("chance") && !metric.first.starts_with("baseline");
  };
  return record.status == RunStatus::done && std::isnan(record.eval_loss) &&
         std::isnan(record.best_eval_loss) &&
         (std::isfinite(record.eval_accuracy) || std::ranges::any_of(record.metrics, is_result));
}

void keep_matching(std::map<std::string, Record>& records, const std::map<std::string, std::string>& where) {
  if (where.empty() || records.empty()) return;
  const RecordList kept = choose_records(list_of(records), where);
  const std::set<const Record*> keep(kept.begin(), kept.end());
  std::erase_if(records, [&](const auto& entry) { return keep.count(&entry.second) == 0; });
}

namespace {

/// What tells configurations apart, however a table or a store spells it; an empty text is as no key.
class Spelling {
 public:
  std::string operator()(const Record& record) {
    std::string text = record.label;
    for (const auto& [key, value] : record.config.entries()) {
      if (is_seed_key(*key) || value->text->empty()) continue;
      text.append("\n").append(*key).append("=").append(spelt(*value));
    }
    return text;
  }

 private:
  const std::string& spelt(const Configuration::Value& value) {
    std::string& text = known_[&value];
    if (!text.empty()) return text;
    const auto number = value.json.is_number() ? value.json.get<double>() : number_in(*value.text);
    return text = number ? fmt::format("{}", *number) : *value.text;
  }

  std::unordered_map<const Configuration::Value*, std::string> known_;
};

/// The seeds of its data and of its initialisation, where there is one: a training is the same whatever else it is counted under.
std::pair<std::string, std::string> drawn_by(const Record& record) {
  const std::string seed = std::to_string(record.seed);
  const bool given = !config_text(record, "train.init_from").value_or("").empty();
  return {config_text(record, "data_seed").value_or(seed),
          given ? "" : config_text(record, "init_seed").value_or(seed)};
}

}  // namespace

std::string drop_repeats(std::map<std::string, Record>& rows,
                         const std::map<std::string, std::string>& places) {
  using Row = std::map<std::string, Record>::iterator;
  std::unordered_multimap<std::size_t, Row> seen;
  const auto place = [&](const Row& row) {
    const auto known = places.find(row->first);
    const auto semantics = field_text(row->second, "semantics");
    return (known != places.end() ? known->second : "run " + row->second.id) +
           (semantics ? fmt::format(" (semantics {})", *semantics) : "");
  };
  Spelling configuration_text;
  std::string told;
  std::size_t count = 0;
  for (auto row = rows.begin(); row != rows.end();) {
    const Record& record = row->second;
    if (record.status == RunStatus::failed) {
      ++row;
      continue;
    }
    const std::string configuration = configuration_text(record);
    const std::size_t hash = std::hash<std::string>()(configuration);
    const auto [begin, end] = seen.equal_range(hash);
    const auto same = std::find_if(begin, end, [&](const auto& other) {
      const Record& one = other.second->second;
      return drawn_by(one) == drawn_by(record) && configuration_text(one) == configuration;
    });
    if (same == end) {
      seen.emplace(hash, row++);
      continue;
    }
    const Row first = same->second;
    Record again = record;
    again.seed = first->second.seed;
    if (!agree_where_known(first->second, again))
      throw std::invalid_argument(fmt::format(
          "{} and {} are of one label (\"{}\"), configuration and {}, and differ in their results: give each its seed, add a column of what tells "
          "them apart (such as model.variant), leave one of them out, or take one with --where",
          place(first), place(row), record.label,
          first->second.seed == record.seed
              ? fmt::format("seed ({})", record.seed)
              : fmt::format("data_seed ({}) and initialisation, whatever their seeds ({}, {})",
                            drawn_by(record).first, first->second.seed, record.seed)));
    if (++count == 1) told = fmt::format("{} repeats {}", place(row), place(first));
    // A run of a store knows more than its row in a table.
    if (first->second.curves.empty() && !record.curves.empty()) {
      rows.erase(first);
      same->second = row++;
    } else {
      row = rows.erase(row);
    }
  }
  return count < 2 ? told : fmt::format("{}, and {} more rows repeat others", told, count - 1);
}

Pooled pooled_differences(const RecordList& records) {
  static const std::string blank = "(blank)";
  std::map<std::string, std::set<std::string>> values;
  for (const Record* record : records) {
    for (const auto& [key, value] : record->config)
      if (!is_seed_key(key)) values[key].insert(*config_text(*record, key));
  }
  // Later versions of the program know more keys; in somebody's table a blank cell beside a value is a difference.
  const bool any_table =
      std::ranges::any_of(records, [](const Record* record) { return !record->id.starts_with("ct-"); });
  for (auto& [key, texts] : values)
    for (const Record* record : records)
      if (any_table && !record->config.contains(key) && texts.count("") == 0) texts.insert(blank);
  values["semantics"] = known_semantics(records);
  std::erase_if(values, [](const auto& entry) { return entry.second.size() < 2; });
  Pooled pooled;
  // Loads decide sizes of vocabularies and embeddings, which differ with them.
  for (const char* key : {"task.associations", "task.pairs", "model.d_key", "model.width"})
    if (pooled.key.empty() && values.count(key) != 0) pooled.key = key;
  // A learning rate last: where --best chose it, it differs because something else does.
  for (const auto& [key, texts] : values)
    if (pooled.key.empty() && key != "train.learning_rate" && !follows_load(key)) pooled.key = key;
  if (pooled.key.empty() && values.count("train.learning_rate") != 0) pooled.key = "train.learning_rate";
  if (pooled.key.empty() && !values.empty()) pooled.key = values.begin()->first;
  for (const auto& [key, texts] : values) {
    const auto sorted = sorted_values({texts.begin(), texts.end()});
    pooled.differing.push_back(fmt::format("{} ({})", key, fmt::join(sorted, ", ")));
    if (key == pooled.key) pooled.value = sorted.front() == blank ? sorted.back() : sorted.front();
  }
  return pooled;
}

std::string semantics_text(const RecordList& records) {
  const std::set<std::string> known = known_semantics(records);
  if (known.size() < 2) return "";
  return fmt::format("Runs of semantics {} stand side by side: their programs give other results.",
                     fmt::join(sorted_values({known.begin(), known.end()}), " and "));
}

std::string nearest_of(const std::string& name, const std::vector<std::string>& names) {
  return nearest_name(name, names);
}

}  // namespace crosstalk

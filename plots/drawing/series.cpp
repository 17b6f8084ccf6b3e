// Records chosen for a figure and sorted into lines; their places on an axis.
// SPDX-License-Identifier: Apache-2.0
#include "plots/drawing/series.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <set>
#include <stdexcept>
#include <tuple>

#include "plots/drawing/drawing.h"
#include "results/csv.h"
#include "results/numbers/statistics.h"
#include "results/numbers/verdict.h"

namespace crosstalk {
namespace {

/// Refuses a point whose records differ in anything but seeds: their median would mean nothing.
void check_pooled(const RecordLine& line, double x, const RecordList& records, const std::string& x_name) {
  const Pooled pooled = pooled_differences(records);
  if (pooled.differing.empty()) return;
  throw std::invalid_argument(
      fmt::format("the {} runs of \"{}\"{} differ in {}, and a figure pools over seeds only; pick one, for "
                  "example: --where {} (--by KEY draws a line for each, --best KEY takes the best)",
                  records.size(), line.label, x_name.empty() ? "" : fmt::format(" at {} = {}", x_name, x),
                  fmt::join(pooled.differing, " and "), pooled.key + "=" + pooled.value));
}

/// Refuses a line whose places belong to several tasks: no place alone shows it, but what is read along the line (a
/// capacity, a trend) would be that of neither.
void check_one_task(const RecordLine& line) {
  std::set<std::string> tasks;
  for (const auto& [place, records] : line.points)
    for (const Record* record : records)
      if (auto task = config_text(*record, "task.name")) tasks.insert(std::move(*task));
  if (tasks.size() < 2) return;
  throw std::invalid_argument(fmt::format(
      "the runs of \"{}\" along one line differ in task.name ({}), and a line is of one task; pick one, "
      "for example: --where task.name={} (--by task.name draws a line for each)",
      line.label, fmt::join(tasks, ", "), *tasks.begin()));
}

}  // namespace

std::vector<RecordLine> make_lines(const RecordList& records,
                                   const std::function<std::optional<double>(const Record&)>& x,
                                   const std::string& x_name, Apart apart) {
  std::map<std::tuple<std::string, std::int64_t, double>, RecordLine> lines;
  for (const Record* record : records) {
    const auto place = x(*record);
    if (!place) continue;
    const double d_key =
        apart == Apart::d_dot_and_d_key ? config_number(*record, "model.d_key").value_or(0) : 0;
    const std::int64_t d_dot = apart == Apart::label ? 0 : record->d_dot;
    RecordLine& line = lines[{record->label, d_dot, d_key}];
    line.label = record->label;
    line.d_dot = d_dot;
    line.d_key = d_key;
    line.points[*place].push_back(record);
  }
  std::vector<RecordLine> sorted;
  for (auto& [key, line] : lines) {
    for (auto& [place, point] : line.points) check_pooled(line, place, point, x_name);
    if (!x_name.empty()) check_one_task(line);  // places without a name are no quantity
    sorted.push_back(std::move(line));
  }
  return sorted;
}

bool has_diverged(const Record& record) {
  return record.status == RunStatus::diverged ||
         (record.status == RunStatus::done && !std::isfinite(record.eval_loss) && !lacks_loss(record));
}

RecordList results_of(const RecordList& records) {
  RecordList kept;
  std::ranges::copy_if(records, std::back_inserter(kept), [](const Record* record) {
    return record->status != RunStatus::failed && !is_outrun(*record);
  });
  return kept;
}

RecordList drawable(const RecordList& records) {
  RecordList kept;
  std::ranges::copy_if(records, std::back_inserter(kept), [](const Record* record) {
    return record->status == RunStatus::done && !has_diverged(*record);
  });
  return kept;
}

bool mostly_diverged(const RecordList& records) {
  const auto results = results_of(records);
  return !results.empty() && 2 * drawable(results).size() <= results.size();
}

void SeedCount::add(const SeedCount& other) {
  expected = std::max(expected, other.expected);
  least = std::min(least, other.least), most = std::max(most, other.most);
  diverged += other.diverged, runs += other.runs;
}

void SeedRange::add(int seeds) {
  if (seeds > 0) fewest = fewest == 0 ? seeds : std::min(fewest, seeds);
  most = std::max(most, seeds);
}

std::string SeedRange::text() const {
  return fewest == most ? fmt::format("{}", most) : fmt::format("{} to {}", fewest, most);
}

std::string SeedRange::interval() const { return most <= 1 ? "one seed" : interval_name(fewest, most); }

std::vector<std::pair<std::string, RecordList>> parts_by(const RecordList& records, const std::string& key) {
  if (key.empty()) return {{"", records}};
  std::vector<std::string> values;
  for (const Record* record : records)
    if (const auto value = field_text(*record, key)) values.push_back(*value);
  std::vector<std::pair<std::string, RecordList>> parts;
  for (const std::string& value : sorted_values(values)) {
    parts.emplace_back(value,
                       RecordList());  // not by choose_records(), to which commas and stars mean something
    for (const Record* record : records)
      if (const auto own = field_text(*record, key); own && same_text(*own, value))
        parts.back().second.push_back(record);
  }
  return parts;
}

int expected_seeds(const std::vector<RecordLine>& lines, int stated) {
  if (stated > 0) return stated;
  std::size_t most = 0;
  for (const RecordLine& line : lines)
    for (const auto& [x, records] : line.points) most = std::max(most, results_of(records).size());
  return static_cast<int>(most);
}

SeedCount count_seeds(const RecordLine& line, int expected) {
  SeedCount count;
  count.expected = expected;
  bool first = true;
  for (const auto& [x, records] : line.points) {
    const int seeds = static_cast<int>(results_of(records).size());
    count.least = first ? seeds : std::min(count.least, seeds);
    count.most = std::max(count.most, seeds);
    count.runs += seeds;
    count.diverged +=
        static_cast<int>(std::ranges::count_if(records, [](const Record* r) { return has_diverged(*r); }));
    first = false;
  }
  return count;
}

void note_missing(const std::vector<RecordLine>& lines, int expected, const std::string& x_name,
                  std::ostream& notes) {
  for (const RecordLine& line : lines) {
    std::map<std::size_t, std::vector<double>> lacking;  // seeds -> places
    for (const auto& [x, records] : line.points)
      if (const auto seeds = results_of(records).size(); static_cast<int>(seeds) < expected)
        lacking[seeds].push_back(x);
    for (const auto& [seeds, places] : lacking) {
      const bool everywhere = places.size() == line.points.size();
      notes << fmt::format(
          "missing seeds: {} has {} of {}{}\n", line.label, seeds, expected,
          everywhere || x_name.empty() ? "" : fmt::format(" at {} = {}", x_name, fmt::join(places, ", ")));
    }
    const int diverged = count_seeds(line, expected).diverged;
    if (diverged > 0)
      notes << fmt::format("diverged: {} of {}'s {} runs; they count as the worst\n", diverged, line.label,
                           count_seeds(line, expected).runs);
  }
}

std::string varying_key(const FigureInput& input, bool within_a_line) {
  if (!input.options.x.empty()) return input.options.x;
  static const char* const kKeys[] = {"task.pairs",  "task.associations", "model.width",
                                      "task.length", "model.d_key",       "train.learning_rate"};
  for (const char* key : kKeys) {
    const std::vector<std::string>& best = input.options.best;
    if (std::ranges::find(best, key) != best.end()) continue;
    std::map<std::string, std::set<double>> values;
    for (const Record* record : input.records)
      if (const auto value = config_number(*record, key))
        values[within_a_line ? record->label : ""].insert(*value);
    if (std::ranges::any_of(values, [](const auto& line) { return line.second.size() > 1; })) return key;
  }
  return "";
}

void add_published_points(Drawing& drawing, const std::vector<RecordLine>& lines, const FigureInput& input,
                          const std::vector<std::string>& metrics, const std::vector<std::string>& own,
                          const PublishedPlace& place) {
  std::size_t drawn = 0, without_metric = 0, without_x = 0, trained_otherwise = 0;
  std::string training;  // in what the first of those differs
  bool of_runs = false;
  for (const PublishedPoint& point : input.options.published) {
    const auto metric =
        std::ranges::find_if(metrics, [&](const auto& m) { return point.metrics.contains(m); });
    if (metric == metrics.end()) {
      ++without_metric;
      continue;
    }
    const double y = point.metrics.at(*metric);
    PublishedPoint elsewhere = point;
    for (const std::string& key : own) elsewhere.known.erase(key);
    const bool has_runs = has_label(input, point.label);
    bool has_place = false, is_drawn = false;
    std::vector<std::string> otherwise;
    for (const RecordLine& line : lines) {
      const Record& record = *line.points.begin()->second.front();
      const double x = place(point, record);
      has_place = has_place || std::isfinite(x);
      const bool is_here = has_runs ? record.label == point.label && differences(record, elsewhere).empty()
                                    : agrees_but_for_memory(record, point, own);
      if (std::isfinite(x) && !is_here && has_runs && record.label == point.label)
        if (const auto differ = differences(record, elsewhere);
            std::ranges::all_of(differ, [](const auto& d) { return d.starts_with("train."); }))
          otherwise = differ;
      if (!std::isfinite(x) || !is_here) continue;
      ++drawn;
      is_drawn = true;
      if (!has_runs) {
        add_from_elsewhere(drawing, input, point, x, y);
        break;
      }
      of_runs = true;
      const std::string label = "published: " + line.label;
      add_overlay(drawing, {label, line.d_dot, input.styles.at(line.label).colour});
      drawing.rows.push_back({label, line.d_dot, x, 1, y});
      break;
    }
    without_x += has_place ? 0 : 1;
    if (is_drawn || otherwise.empty()) continue;
    if (trained_otherwise++ == 0) training = fmt::format("{}", fmt::join(otherwise, ", "));
  }
  if (of_runs) drawing.overlay_names.emplace_back("published", "Published");
  std::vector<std::string> reasons;
  const std::size_t left_out = input.options.published.size() - drawn;
  if (without_metric > 0) reasons.push_back(fmt::format("{} have no {}", without_metric, metrics.back()));
  if (without_x > 0) reasons.push_back(fmt::format("{} have no {}", without_x, own.front()));
  if (trained_otherwise > 0)
    reasons.push_back(fmt::format("{} are of another training: {}", trained_otherwise, training));
  if (const std::size_t known = without_metric + without_x + trained_otherwise; left_out > known)
    reasons.push_back(fmt::format("{} have no run here", left_out - known));
  if (left_out > 0)
    input.notes << fmt::format("{} of {} published points are left out: {}\n", left_out,
                               input.options.published.size(), fmt::join(reasons, ", "));
}

std::string no_number(const RecordList& records, const std::string& x) {
  const std::string nearest = nearest_key(records, x);
  return fmt::format("no record has a number {}; {}", x,
                     nearest.empty() || nearest == x ? "choose another key with --x"
                                                     : fmt::format("did you mean --x {}?", nearest));
}

std::optional<double> place_on_axis(const Record& record, const std::string& x) {
  if (x != kStateBytes) return config_number(record, x);
  const double bytes = state_bytes(record);
  return bytes > 0 ? std::optional(bytes) : std::nullopt;
}

}  // namespace crosstalk

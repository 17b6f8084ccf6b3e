// Records chosen for a figure and sorted into lines.
// SPDX-License-Identifier: Apache-2.0
#include "plots/series.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ostream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <tuple>

namespace crosstalk {
namespace {

std::optional<double> to_number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Where a record stands under a key of `where`: its configuration, or what it is itself.
std::optional<std::string> field_text(const Record& record, const std::string& key) {
  if (key == "label") return record.label;
  if (key == "study") return record.study;
  if (key == "status") return to_text(record.status);
  if (key == "seed") return std::to_string(record.seed);
  return config_text(record, key);
}

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\"");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\"") - first + 1);
}

bool matches(const std::string& value, const std::string& wanted) {
  std::istringstream alternatives(wanted);
  for (std::string one; std::getline(alternatives, one, ',');) {
    one = trimmed(one);
    if (one == value) return true;
    const auto a = to_number(one), b = to_number(value);
    if (a && b && *a == *b) return true;
  }
  return false;
}

/// Values sorted as numbers where they are numbers.
std::vector<std::string> sorted_values(const std::set<std::string>& values) {
  std::vector<std::string> sorted(values.begin(), values.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const std::string& a, const std::string& b) {
    const auto x = to_number(a), y = to_number(b);
    if (x && y) return *x < *y;
    return x.has_value() && !y.has_value();
  });
  return sorted;
}

bool is_seed_key(const std::string& key) {
  return key == "seed" || (key.size() > 5 && key.ends_with("_seed")) || key.ends_with(".seed");
}

/// Refuses a point whose records differ in anything but seeds: their median would mean nothing.
void check_pooled(const RecordLine& line, double x, const RecordList& records, const std::string& x_name) {
  std::map<std::string, std::set<std::string>> values;
  for (const Record* record : records) {
    if (!record->config.is_object()) continue;
    for (const auto& [key, value] : record->config.items())
      if (!is_seed_key(key)) values[key].insert(*config_text(*record, key));
  }
  std::vector<std::string> differing;
  std::string advice;
  for (const auto& [key, texts] : values) {
    if (texts.size() < 2) continue;
    const auto sorted = sorted_values(texts);
    differing.push_back(fmt::format("{} ({})", key, fmt::join(sorted, ", ")));
    if (advice.empty()) advice = key + "=" + sorted.front();
  }
  if (differing.empty()) return;
  throw std::invalid_argument(
      fmt::format("the {} runs of \"{}\"{} differ in {}, and a figure pools over seeds only; pick one, for "
                  "example: --where {}",
                  records.size(), line.label, x_name.empty() ? "" : fmt::format(" at {} = {}", x_name, x),
                  fmt::join(differing, " and "), advice));
}

}  // namespace

std::optional<std::string> config_text(const Record& record, const std::string& key) {
  if (!record.config.is_object()) return std::nullopt;
  const auto found = record.config.find(key);
  if (found == record.config.end()) return std::nullopt;
  if (found->is_string()) return found->get<std::string>();
  if (found->is_number_float()) return fmt::format("{}", found->get<double>());
  return found->dump();
}

std::optional<double> config_number(const Record& record, const std::string& key) {
  if (!record.config.is_object()) return std::nullopt;
  const auto found = record.config.find(key);
  if (found == record.config.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

RecordList choose_records(const std::map<std::string, Record>& records,
                          const std::map<std::string, std::string>& where) {
  RecordList chosen;
  for (const auto& [id, record] : records) chosen.push_back(&record);
  for (const auto& [key, wanted] : where) {
    RecordList matching;
    std::set<std::string> values;
    for (const Record* record : chosen) {
      const auto value = field_text(*record, key);
      if (!value) continue;
      values.insert(*value);
      if (matches(*value, wanted)) matching.push_back(record);
    }
    if (values.empty()) {
      std::set<std::string> keys = {"label", "study", "status", "seed"};
      for (const auto& [id, record] : records)
        if (record.config.is_object())
          for (const auto& item : record.config.items()) keys.insert(item.key());
      const std::string nearest = nearest_of(key, {keys.begin(), keys.end()});
      throw std::invalid_argument(
          fmt::format("--where {}={}: no record has the key \"{}\"{}", key, wanted, key,
                      nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest)));
    }
    if (matching.empty())
      throw std::invalid_argument(fmt::format("--where {}={}: no record matches; there are {}", key, wanted,
                                              fmt::join(sorted_values(values), ", ")));
    chosen = matching;
  }
  return chosen;
}

std::vector<RecordLine> make_lines(const RecordList& records,
                                   const std::function<std::optional<double>(const Record&)>& x,
                                   const std::string& x_name, bool apart_by_d_key) {
  std::map<std::tuple<std::string, std::int64_t, double>, RecordLine> lines;
  for (const Record* record : records) {
    const auto place = x(*record);
    if (!place) continue;
    const double d_key = apart_by_d_key ? config_number(*record, "model.d_key").value_or(0) : 0;
    RecordLine& line = lines[{record->label, record->d_dot, d_key}];
    line.label = record->label;
    line.d_dot = record->d_dot;
    line.d_key = d_key;
    line.points[*place].push_back(record);
  }
  std::vector<RecordLine> sorted;
  for (auto& [key, line] : lines) {
    for (auto& [place, point] : line.points) check_pooled(line, place, point, x_name);
    sorted.push_back(std::move(line));
  }
  return sorted;
}

bool has_diverged(const Record& record) {
  return record.status == RunStatus::diverged ||
         (record.status == RunStatus::done && !std::isfinite(record.eval_loss));
}

RecordList results_of(const RecordList& records) {
  RecordList kept;
  std::copy_if(records.begin(), records.end(), std::back_inserter(kept),
               [](const Record* record) { return record->status != RunStatus::failed; });
  return kept;
}

RecordList drawable(const RecordList& records) {
  RecordList kept;
  std::copy_if(records.begin(), records.end(), std::back_inserter(kept), [](const Record* record) {
    return record->status == RunStatus::done && !has_diverged(*record);
  });
  return kept;
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
    count.diverged += static_cast<int>(
        std::count_if(records.begin(), records.end(), [](const Record* r) { return has_diverged(*r); }));
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
      notes << fmt::format("diverged: {} of {}'s runs; left out of medians and bands\n", diverged,
                           line.label);
  }
}

std::string nearest_of(const std::string& name, const std::vector<std::string>& names) {
  std::string best;
  std::size_t least = 2 + name.size() / 3;  // farther away than this is no help
  for (const std::string& candidate : names) {
    std::vector<std::size_t> row(candidate.size() + 1);
    for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= name.size(); ++i) {
      std::size_t diagonal = row[0];
      row[0] = i;
      for (std::size_t j = 1; j < row.size(); ++j) {
        const std::size_t substituted = diagonal + (name[i - 1] == candidate[j - 1] ? 0 : 1);
        diagonal = row[j];
        row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
      }
    }
    if (row.back() < least) {
      least = row.back();
      best = candidate;
    }
  }
  return best;
}

}  // namespace crosstalk

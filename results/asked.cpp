// What the versions of a study asked of a store.
// SPDX-License-Identifier: Apache-2.0
#include "results/asked.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "results/json_bounds.h"
#include "results/numbers/labels.h"
#include "results/store/crc32c.h"
#include "results/store/files.h"
#include "results/store/record_io.h"
#include "results/store/store.h"

namespace crosstalk {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

std::string text_of(const Asked& asked) {
  ordered_json json = {{"study", asked.study},
                       {"version", asked.version},
                       {"order", asked.order},
                       {"title", asked.title},
                       {"labels", ordered_json::array()}};
  for (const AskedLabel& label : asked.labels)
    json["labels"].push_back(
        {{"label", label.label}, {"title", label.title}, {"runs", label.runs}, {"work", label.work}});
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string name_of(const Asked& asked) { return fmt::format("{}@{}.json", asked.study, asked.version); }

/// Throws for what is not such a file.
Asked parse(const std::string& text) {
  if (nests_deeply(text)) throw std::invalid_argument("too deep");
  const nlohmann::json json = nlohmann::json::parse(text);
  Asked asked;
  asked.study = json.at("study").get<std::string>();
  asked.version = json.at("version").get<std::string>();
  const auto order = integer_of(json.at("order"));
  if (!order) throw std::invalid_argument("order is no whole number");
  asked.order = *order;
  asked.title = json.at("title").get<std::string>();
  for (const nlohmann::json& label : json.at("labels"))
    asked.labels.push_back({label.at("label").get<std::string>(), label.at("title").get<std::string>(),
                            label.at("runs").get<std::vector<std::string>>(),
                            label.value("work", std::vector<double>())});
  return asked;
}

void add_row(LabelledRecords& rows, Record record) {
  record.label = safe_label(record.label);
  if (!record.study.empty()) record.study = safe_label(record.study);
  const std::string key = record.id + '\t' + record.label;
  const auto [at, added] = rows.rows.try_emplace(key);
  if (added || at->second.status == RunStatus::failed) at->second = std::move(record);
}

void add_label(LabelledRecords& rows, const std::string& given, const std::string& title) {
  const std::string label = safe_label(given);
  const auto found =
      std::ranges::find_if(rows.labels, [&](const AskedLabel& known) { return known.label == label; });
  if (found == rows.labels.end())
    rows.labels.push_back({label, title, {}});
  else if (found->title.empty())
    found->title = title;
}

}  // namespace

std::string Asked::checksum() const {
  std::uint32_t sum = 0;
  for (const AskedLabel& label : labels) {
    sum = crc32c(label.label + "\n", sum);
    for (const std::string& id : label.runs) sum = crc32c(id + "\n", sum);
  }
  return fmt::format("{:08x}", sum);
}

std::vector<Asked> read_asked(const fs::path& store) {
  std::vector<Asked> versions;
  std::error_code error;
  for (fs::directory_iterator at(store / "studies", error); !error && at != fs::directory_iterator();
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.find('@') == std::string::npos || at->path().extension() != ".json") continue;
    try {
      Asked asked = parse(read_file(FileSystem::real(), at->path()));
      // A flipped bit would rename runs without a word.
      if (asked.version != asked.checksum() || name != name_of(asked)) continue;
      versions.push_back(std::move(asked));
    } catch (const std::exception&) {
      // Labels only: its records are shown under those that they were trained with.
    }
  }
  std::ranges::sort(versions, [](const Asked& a, const Asked& b) {
    return a.order != b.order ? a.order > b.order : a.version > b.version;
  });
  return versions;
}

void keep_asked(const fs::path& store, Asked asked) {
  asked.version = asked.checksum();
  const std::vector<Asked> known = read_asked(store);
  const auto latest =
      std::ranges::find_if(known, [&](const Asked& version) { return version.study == asked.study; });
  const bool is_latest = latest != known.end() && latest->version == asked.version;
  asked.order = is_latest ? latest->order : known.empty() ? 1 : known.front().order + 1;
  if (is_latest && text_of(*latest) == text_of(asked)) return;
  const fs::path folder = store / "studies";
  make_folders(FileSystem::real(), folder);
  write_whole(FileSystem::real(), folder / name_of(asked), text_of(asked));
}

void LabelledRecords::merge(LabelledRecords other, const std::function<Record(const Record&)>& whole) {
  title = rows.empty() || title == other.title ? other.title : "";
  const auto place = [](const LabelledRecords& of, const std::string& key) {
    const auto known = of.places.find(key);
    return known == of.places.end() ? "a row" : known->second;
  };
  for (const auto& [key, record] : other.rows) {
    const auto before = rows.find(record.id + '\t' + safe_label(record.label));
    if (before == rows.end() || before->second.status == RunStatus::failed ||
        record.status == RunStatus::failed)
      continue;
    const Record a = whole ? whole(before->second) : before->second, b = whole ? whole(record) : record;
    if (!agree_where_known(a, b))
      throw std::invalid_argument(fmt::format(
          "{} and {} are both the run {} (\"{}\"), and differ in its results: leave one of them out",
          place(*this, before->first), place(other, key), record.id, record.label));
    if (a.curves.empty() && !b.curves.empty()) before->second = record;  // a store knows more than a table
  }
  places.merge(other.places);
  for (auto& [key, record] : other.rows) add_row(*this, std::move(record));
  for (const AskedLabel& label : other.labels) add_label(*this, label.label, label.title);
  order.insert(order.end(), other.order.begin(), other.order.end());
}

LabelledRecords asked_rows(const std::map<std::string, Record>& records, const Asked& asked,
                           std::int64_t* others) {
  LabelledRecords rows;
  rows.title = asked.title;
  std::set<std::string> seen;
  for (const AskedLabel& label : asked.labels) {
    add_label(rows, label.label, label.title);
    for (const std::string& id : label.runs) {
      const auto found = records.find(id);
      if (found == records.end()) continue;
      seen.insert(id);
      rows.order.push_back(id);
      Record record = found->second;
      record.label = label.label;
      record.study = asked.study;
      add_row(rows, std::move(record));
    }
  }
  if (others != nullptr) *others = std::ssize(records) - std::ssize(seen);
  return rows;
}

LabelledRecords all_rows(const std::map<std::string, Record>& records, const std::vector<Asked>& versions) {
  LabelledRecords rows;
  std::set<std::string> seen, titles;
  for (const Asked& version : versions) {
    std::set<std::string> taken;
    for (const AskedLabel& label : version.labels) {
      for (const std::string& id : label.runs) {
        const auto found = records.find(id);
        if (found == records.end() || seen.count(id) != 0) continue;
        add_label(rows, label.label, label.title);
        taken.insert(id);
        rows.order.push_back(id);
        Record record = found->second;
        record.label = label.label;
        record.study = version.study;
        record.version = version.version;
        add_row(rows, std::move(record));
      }
    }
    if (!taken.empty()) titles.insert(version.title);
    seen.insert(taken.begin(), taken.end());
  }
  for (const auto& [id, record] : records)
    if (seen.count(id) == 0) add_row(rows, record);
  if (titles.size() == 1) rows.title = *titles.begin();
  return rows;
}

}  // namespace crosstalk

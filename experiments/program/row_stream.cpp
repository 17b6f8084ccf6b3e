// Rows of stores, studies and tables, read one at a time.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/row_stream.h"

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "experiments/common/stores.h"
#include "results/numbers/select.h"
#include "results/numbers/verdict.h"
#include "results/printable.h"
#include "results/store/record_scan.h"
#include "results/store/store.h"

namespace crosstalk::program {
namespace {

/// What conditions can be told from without reading the record.
bool stands_in_head(const std::string& key) {
  static const std::unordered_set<std::string> keys = {"id",   "study",         "label",    "status",
                                                       "seed", "study_version", "semantics"};
  return keys.count(key) != 0;
}

std::string unescaped(std::string_view key) {
  if (key.find('\\') == std::string_view::npos) return std::string(key);
  return nlohmann::json::parse('"' + std::string(key) + '"').get<std::string>();
}

}  // namespace

struct RowStream::Impl {
  explicit Impl(Console& console_) : console(console_) {}

  /// Tables have whole rows, stores have heads.
  static bool is_head(const Record& row) { return row.store >= 0; }
  RecordReader& reader_of(const Record& head) { return *readers.at(static_cast<std::size_t>(head.store)); }

  void take_heads(StoreHeads heads) {
    stores.push_back(std::move(heads));
    readers.push_back(std::make_unique<RecordReader>(stores.back()));
    for (auto& [id, record] : stores.back().contents.records)
      record.store = static_cast<int>(readers.size()) - 1;
  }

  Record whole(const Record& row, Part part) {
    if (!is_head(row)) return row;
    RecordReader& reader = reader_of(row);
    Record record = part == Part::all ? reader.record(row.id)
                                      : reader.record_without_series(row.id, part != Part::results);
    if (part != Part::all && verdict_needs_curve(record)) record = reader.record(row.id);
    record.label = row.label;
    record.study = row.study;
    record.version = row.version;
    return record;
  }

  void add_names(const Record& row, RowSource::Names& names) {
    if (is_head(row)) {
      const RecordKeys keys = keys_of_line(reader_of(row).line(row.id));
      std::string text;  // most records have the names of those before
      for (const auto* list : {&keys.config, &keys.metrics, &keys.provenance}) {
        for (const std::string_view key : *list) text.append(key).push_back('"');
        text.push_back(',');
      }
      if (!seen.insert(std::move(text)).second) return;
      for (const std::string_view key : keys.config) names.config.insert(unescaped(key));
      for (const std::string_view key : keys.metrics) names.metrics.insert(unescaped(key));
      for (const std::string_view key : keys.provenance) names.provenance.insert(unescaped(key));
      return;
    }
    for (const auto& [name, value] : row.config) names.config.insert(name);
    for (const auto& [name, value] : row.metrics) names.metrics.insert(name);
    for (const auto& [name, value] : row.provenance.items()) names.provenance.insert(name);
  }

  /// Leaves the rows that --where names; of the others, configurations are read if need be, and let go again.
  void keep(const std::map<std::string, std::string>& conditions) {
    const bool by_heads =
        std::ranges::all_of(conditions, [](const auto& one) { return stands_in_head(one.first); });
    if (!by_heads) {
      for (auto& [key, row] : rows.rows) {
        if (!is_head(row)) continue;
        Record record = whole(row, Part::results);
        const std::string verdict = to_text(verdict_of(record));
        row.config = std::move(record.config);
        row.config["verdict"] = verdict;
        row.d_dot = record.d_dot;
        row.state_size = record.state_size;
      }
    }
    for (auto& [key, row] : rows.rows)  // a head has no provenance
      if (conditions.count("semantics") != 0 && is_head(row))
        if (const int number = stores.at(static_cast<std::size_t>(row.store)).places.at(row.id).semantics;
            number > 0)
          row.config["semantics"] = number;
    keep_matching(rows.rows, conditions);
    for (auto& [key, row] : rows.rows)
      if (is_head(row)) row.config.clear();
  }

  Console& console;
  std::deque<StoreHeads> stores;
  std::vector<std::unique_ptr<RecordReader>> readers;
  LabelledRecords rows;
  std::unordered_set<std::string> seen;  ///< lists of names
};

RowStream::RowStream(const std::vector<std::string>& names, const Arguments& arguments, Console& console)
    : impl_(std::make_unique<Impl>(console)) {
  Impl& impl = *impl_;
  impl.rows = join_rows(
      names, arguments, console,
      [&](const std::filesystem::path& store) -> const StoreContents& {
        impl.take_heads(read_heads(store));
        return impl.stores.back().contents;
      },
      [&](const Record& row) { return impl.whole(row, Part::all); });
  for (StoreHeads& store : impl.stores) store.contents.records.clear();  // the rows have copies
  impl.keep(conditions_of(arguments));
}

RowStream::~RowStream() = default;

bool RowStream::empty() const { return impl_->rows.rows.empty(); }

RowSource RowStream::source(Part part) {
  Impl& impl = *impl_;
  impl.seen.clear();
  RowSource source;
  source.heads = &impl.rows.rows;
  source.whole = [&impl, part](const Record& row) { return impl.whole(row, part); };
  if (part != Part::all)
    source.line = [&impl](const Record& row) {
      return Impl::is_head(row) ? impl.reader_of(row).written_line(row.id) : std::string_view();
    };
  source.add_names = [&impl](const Record& row, RowSource::Names& names) { impl.add_names(row, names); };
  source.left_out = [&impl](const std::string& why) { print_warning(impl.console, why + "; left out"); };
  return source;
}

}  // namespace crosstalk::program

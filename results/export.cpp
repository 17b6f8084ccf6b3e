// Tables for other programs: CSV (RFC 4180, lines end in \n) and JSON lines. Reads in pandas as
// read_csv(path) and read_json(path, lines=True).
// SPDX-License-Identifier: Apache-2.0
#include "results/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <vector>

#include "results/csv.h"
#include "results/numbers/select.h"
#include "results/numbers/verdict.h"
#include "results/printable.h"
#include "results/store/record_scan.h"

namespace crosstalk {
namespace {

using nlohmann::json;

// Numbers look the same in both formats: shortest digits that give the same double back, no trailing ".0".
void add_number(std::string& out, double value) { fmt::format_to(std::back_inserter(out), "{}", value); }

std::string json_text(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// Writes rows whose columns were given once.
class Table {
 public:
  Table(std::ostream& out, ExportFormat format, std::vector<std::string> columns)
      : out_(out), csv_(format == ExportFormat::csv), columns_(std::move(columns)) {
    for (std::string& column : columns_) {
      if (csv_) {
        if (&column != columns_.data()) row_ += ',';
        row_ += csv_cell(column);
      } else {
        column = json_text(column) + ":";
      }
    }
    if (csv_) end_line();
  }

  void add(const json& value) {
    begin_cell();
    if (value.is_number_float()) {
      add_finite(value.get<double>());
    } else if (!csv_) {
      row_ += json_text(value);
    } else if (value.is_string()) {
      row_ += csv_cell(value.get_ref<const std::string&>());
    } else if (!value.is_null()) {
      row_ += csv_cell(json_text(value));
    }
  }
  void add(double value) {
    begin_cell();
    add_finite(value);
  }
  void add(std::int64_t value) {
    begin_cell();
    fmt::format_to(std::back_inserter(row_), "{}", value);
  }
  void add(const std::string& text) {
    begin_cell();
    if (csv_)
      row_ += csv_cell(text);
    else
      row_ += json_text(text);
  }
  /// A value as it stands in a record's line; what is not plain is parsed.
  void add_text(std::string_view value) {
    const bool is_string = value.size() > 1 && value.front() == '"';
    const bool is_number = !value.empty() && value.front() >= '0' && value.front() <= '9';
    if (is_string && csv_ && value.find('\\') == value.npos)
      return add(std::string(value.substr(1, value.size() - 2)));
    if (!is_number) return value.empty() ? add(json()) : add(json::parse(value));
    if (value.find_first_of(".eE") != value.npos) return add(number_of(value));
    begin_cell();
    row_ += value;
  }
  void end_row() {
    if (!csv_) row_ += '}';
    end_line();
    column_ = 0;
  }

 private:
  void begin_cell() {
    if (!csv_) {
      row_ += column_ == 0 ? '{' : ',';
      row_ += columns_.at(column_);
    } else if (column_ != 0) {
      row_ += ',';
    }
    ++column_;
  }
  void add_finite(double value) {
    if (std::isfinite(value)) {
      add_number(row_, value);
    } else if (!csv_) {
      row_ += "null";
    }
  }
  void end_line() {
    out_ << printable(row_) << '\n';
    row_.clear();
  }

  std::ostream& out_;
  bool csv_;
  std::vector<std::string> columns_;
  std::string row_;
  std::size_t column_ = 0;
};

using Names = std::set<std::string>;

std::string_view text_in(const RecordTexts::Members& members, std::string_view key) {
  const auto found = std::ranges::find_if(members, [&](const auto& one) { return one.first == key; });
  return found == members.end() ? std::string_view() : found->second;
}

/// What verdict_of() reads.
Record verdict_part(const Record& head, const RecordTexts& texts) {
  Record record;
  record.status = head.status;
  for (const std::string& key : verdict_keys())
    if (const std::string_view text = text_in(texts.config, key); !text.empty())
      record.config.set(key, json::parse(text));
  record.steps = json::parse(text_in(texts.fields, "steps")).get<std::int64_t>();
  record.eval_loss = number_of(text_in(texts.fields, "eval_loss"));
  record.best_eval_loss = number_of(text_in(texts.fields, "best_eval_loss"));
  record.eval_accuracy = number_of(text_in(texts.fields, "eval_accuracy"));
  for (const auto& [name, value] : texts.metrics) record.metrics[std::string(name)] = number_of(value);
  if (!verdict_needs_curve(record)) return record;
  if (const std::string_view curve = text_in(texts.curves, "eval_loss"); !curve.empty())
    record.curves["eval_loss"] = series_in(curve);
  if (const std::string_view stages = text_in(texts.profiles, "steps_by_stage"); !stages.empty())
    record.profiles["steps_by_stage"] = series_in(stages);
  return record;
}

/// Cells of columns, of which `columns` says the place by name, from members in any order.
void add_members(Table& table, const std::map<std::string, std::size_t, std::less<>>& columns,
                 const RecordTexts::Members& members, bool numbers) {
  std::vector<std::string_view> cells(columns.size());
  auto next = columns.begin();  // most members come in the columns' order
  for (const auto& [key, value] : members) {
    const auto column = next != columns.end() && next->first == key ? next : columns.find(key);
    if (column == columns.end()) continue;
    cells[column->second] = value;
    next = std::next(column);
  }
  for (const std::string_view cell : cells) {
    if (numbers)
      table.add(number_of(cell));
    else
      table.add_text(cell);
  }
}

std::map<std::string, std::size_t, std::less<>> places_of(const Names& names) {
  std::map<std::string, std::size_t, std::less<>> places;
  for (const std::string& name : names) places.emplace(name, places.size());
  return places;
}

/// Rows that are in memory already.
RowSource source_of(const std::map<std::string, Record>& records) {
  RowSource rows;
  rows.heads = &records;
  return rows;
}

const json& or_null(const json* value) {
  static const json null;
  return value == nullptr ? null : *value;
}

void add_names(const RowSource& rows, const Record& head, RowSource::Names& names) {
  if (rows.add_names) return rows.add_names(head, names);
  for (const auto& [key, value] : head.config) names.config.insert(key);
  for (const auto& [name, value] : head.metrics) names.metrics.insert(name);
  for (const auto& [key, value] : head.provenance.items()) names.provenance.insert(key);
}

/// `by_line` takes rows whose line is at hand, and says whether it did.
template <class ByLine, class Each>
void for_each_record(const RowSource& rows, const ByLine& by_line, const Each& each) {
  for (const auto& [key, head] : *rows.heads) {
    if (!rows.whole) {
      each(head);
      continue;
    }
    std::optional<Record> record;
    try {
      if (by_line(head)) continue;
      record = rows.whole(head);
    } catch (const std::runtime_error& error) {
      if (rows.left_out) rows.left_out(error.what());
      continue;
    }
    each(*record);
  }
}

}  // namespace

void export_runs(std::ostream& out, const std::map<std::string, Record>& records, ExportFormat format,
                 bool provenance) {
  stream_runs(out, source_of(records), format, provenance);
}

void export_curves(std::ostream& out, const std::map<std::string, Record>& records, ExportFormat format) {
  stream_curves(out, source_of(records), format);
}

void stream_runs(std::ostream& out, const RowSource& rows, ExportFormat format, bool provenance) {
  std::vector<std::string> head = {"id", "study", "label", "status", "seed"};
  // Only where there is something to tell apart: equal studies give equal bytes, with whatever name.
  const bool versions = std::ranges::any_of(*rows.heads, [&](const auto& entry) {
    return entry.second.version != rows.heads->begin()->second.version;
  });
  if (versions) head.emplace_back("study_version");
  const std::vector<std::string> results = {"d_dot",     "state_size",     "steps",        "verdict",
                                            "eval_loss", "best_eval_loss", "eval_accuracy"};
  RowSource::Names all;
  for (const auto& [key, row] : *rows.heads) add_names(rows, row, all);
  Names& configs = all.config;
  const Names& metrics = all.metrics;
  if (!provenance) all.provenance.clear();
  all.provenance.erase("verdict");  // of a table; it has its column
  const Names& provenances = all.provenance;
  // A column's name must be unique: the fixed columns say the same as a key of the same name.
  for (const std::string& name : head) configs.erase(name);
  for (const std::string& name : results) configs.erase(name);

  Names taken = configs;
  taken.insert(head.begin(), head.end());
  taken.insert(results.begin(), results.end());
  std::vector<std::string> columns = head;
  columns.insert(columns.end(), configs.begin(), configs.end());
  columns.insert(columns.end(), results.begin(), results.end());
  for (const std::string& name : metrics) columns.push_back(taken.count(name) != 0 ? "metric." + name : name);
  for (const std::string& name : provenances) columns.push_back("provenance." + name);

  Table table(out, format, columns);
  const auto config_places = places_of(configs), metric_places = places_of(metrics),
             provenance_places = places_of(provenances);
  const auto by_line = [&](const Record& row) {
    const std::string_view line = rows.line ? rows.line(row) : std::string_view();
    if (line.empty()) return false;
    const RecordTexts texts = texts_of_line(line);
    for (const auto* members : {&texts.config, &texts.metrics, &texts.provenance})
      for (const auto& [name, value] : *members)
        if (name.find('\\') != name.npos) return false;
    const std::string verdict = to_text(verdict_of(verdict_part(row, texts)));
    for (const std::string* text : {&row.id, &row.study, &row.label}) table.add(*text);
    table.add(to_text(row.status));
    table.add(row.seed);
    if (versions) table.add(row.version);
    add_members(table, config_places, texts.config, false);
    table.add_text(text_in(texts.fields, "d_dot"));
    const std::string_view size = text_in(texts.fields, "state_size");
    table.add_text(size == "0" ? "null" : size);  // not known
    table.add_text(text_in(texts.fields, "steps"));
    table.add(verdict);
    for (const char* value : {"eval_loss", "best_eval_loss", "eval_accuracy"})
      table.add(number_of(text_in(texts.fields, value)));
    add_members(table, metric_places, texts.metrics, true);
    add_members(table, provenance_places, texts.provenance, false);
    table.end_row();
    return true;
  };
  for_each_record(rows, by_line, [&](const Record& record) {
    for (const std::string* text : {&record.id, &record.study, &record.label}) table.add(*text);
    table.add(to_text(record.status));
    table.add(record.seed);
    if (versions) table.add(record.version);
    for (const std::string& key : configs) table.add(or_null(record.config.find(key)));
    table.add(record.d_dot);
    table.add(record.state_size > 0 ? json(record.state_size) : json());
    table.add(knows_steps(record) ? json(record.steps) : json());
    table.add(verdict_of(record) == Verdict::unknown ? json() : json(to_text(verdict_of(record))));
    for (const double value : {record.eval_loss, record.best_eval_loss, record.eval_accuracy})
      table.add(value);
    for (const std::string& name : metrics) table.add(metric_in(record, name));
    for (const std::string& name : provenances) {
      const auto found = record.provenance.find(name);
      table.add(found == record.provenance.end() ? json() : *found);
    }
    table.end_row();
  });
}

void stream_curves(std::ostream& out, const RowSource& rows, ExportFormat format) {
  Table table(out, format, {"id", "step", "metric", "value"});
  std::string last;
  for_each_record(
      rows, [](const Record&) { return false; },
      [&](const Record& record) {
        if (record.id == last) return;  // the same run under another label
        last = record.id;
        for (const auto* all : {&record.curves, &record.profiles}) {
          for (const auto& [name, series] : *all) {
            for (std::size_t i = 0; i < series.x.size(); ++i) {
              table.add(record.id);
              table.add(series.x[i]);
              table.add(name);
              table.add(i < series.y.size() ? series.y[i] : std::nan(""));
              table.end_row();
            }
          }
        }
      });
}

}  // namespace crosstalk

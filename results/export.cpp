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
#include <set>
#include <stdexcept>
#include <vector>

#include "results/printable.h"
#include "results/verdict.h"

namespace crosstalk {
namespace {

using nlohmann::json;

// Numbers look the same in both formats: shortest digits that give the same double back, no trailing ".0".
void add_number(std::string& out, double value) { fmt::format_to(std::back_inserter(out), "{}", value); }

void add_csv_text(std::string& out, const std::string& text) {
  const bool plain = text.find_first_of(",\"\r\n") == std::string::npos &&
                     (text.empty() || (text.front() != ' ' && text.back() != ' '));
  if (plain) {
    out += text;
    return;
  }
  out += '"';
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  out += '"';
}

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
        add_csv_text(row_, column);
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
      add_csv_text(row_, value.get_ref<const std::string&>());
    } else if (!value.is_null()) {
      add_csv_text(row_, json_text(value));
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
      add_csv_text(row_, text);
    else
      row_ += json_text(text);
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

/// Rows that are in memory already.
RowSource source_of(const std::map<std::string, Record>& records) {
  RowSource rows;
  rows.heads = &records;
  return rows;
}

void add_keys(Names& names, const json& object) {
  if (!object.is_object()) return;
  for (const auto& [key, value] : object.items()) names.insert(key);
}

const json& at_or_null(const json& object, const std::string& key) {
  static const json null;
  if (!object.is_object()) return null;
  const auto found = object.find(key);
  return found == object.end() ? null : *found;
}

void add_names(const RowSource& rows, const Record& head, RowSource::Names& names) {
  if (rows.add_names) return rows.add_names(head, names);
  add_keys(names.config, head.config);
  for (const auto& [name, value] : head.metrics) names.metrics.insert(name);
  add_keys(names.provenance, head.provenance);
}

template <class Each>
void for_each_record(const RowSource& rows, const Each& each) {
  for (const auto& [key, head] : *rows.heads) {
    if (!rows.whole) {
      each(head);
      continue;
    }
    std::optional<Record> record;
    try {
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
  const bool versions = std::any_of(rows.heads->begin(), rows.heads->end(), [&](const auto& entry) {
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
  for_each_record(rows, [&](const Record& record) {
    for (const std::string* text : {&record.id, &record.study, &record.label}) table.add(*text);
    table.add(to_text(record.status));
    table.add(record.seed);
    if (versions) table.add(record.version);
    for (const std::string& key : configs) table.add(at_or_null(record.config, key));
    table.add(record.d_dot);
    table.add(record.state_size > 0 ? json(record.state_size) : json());
    table.add(record.steps);
    table.add(to_text(verdict_of(record)));
    for (const double value : {record.eval_loss, record.best_eval_loss, record.eval_accuracy})
      table.add(value);
    for (const std::string& name : metrics) {
      const auto found = record.metrics.find(name);
      table.add(found == record.metrics.end() ? std::nan("") : found->second);
    }
    for (const std::string& name : provenances) table.add(at_or_null(record.provenance, name));
    table.end_row();
  });
}

void stream_curves(std::ostream& out, const RowSource& rows, ExportFormat format) {
  Table table(out, format, {"id", "step", "metric", "value"});
  std::string last;
  for_each_record(rows, [&](const Record& record) {
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

// Tables for other programs: one row a run, or one row a point of a curve. Deterministic columns only, sorted
// by id, numbers that round-trip, so that equal studies give equal bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <iosfwd>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "results/store/record.h"

namespace crosstalk {

enum class ExportFormat { csv, jsonl };

/// Rows whose records are read one at a time, so that a large store needs little memory.
struct RowSource {
  /// By the rows' order: id, study, label, status, seed and version. What else they hold is for `whole`.
  const std::map<std::string, Record>* heads = nullptr;
  /// The record of a row, under the row's names, with its curves where verdict_needs_curve(). Throws std::runtime_error:
  /// the row is left out.
  std::function<Record(const Record& head)> whole;
  /// The line of a row whose record this program wrote (is_written_record()); empty: `whole` tells. Throws like it.
  std::function<std::string_view(const Record& head)> line;
  /// Adds the names that its configuration, its metrics and its provenance have.
  struct Names {
    std::set<std::string> config, metrics, provenance;
  };
  std::function<void(const Record& head, Names& names)> add_names;
  /// Told why a row is left out.
  std::function<void(const std::string& why)> left_out;
};

/// One row a run and label. Columns: id, study, label, status, seed, study_version (if the rows differ in
/// Record::version), every config key that any record has (sorted, dotted), d_dot,
/// state_size, steps, verdict (results/numbers/verdict.h), eval_loss, best_eval_loss, eval_accuracy, every metric (sorted). `provenance` adds the
/// provenance's keys (sorted, prefixed "provenance."). Missing and NaN: empty in CSV, null in JSONL.
void export_runs(std::ostream& out, const std::map<std::string, Record>& records, ExportFormat format,
                 bool provenance);
void stream_runs(std::ostream& out, const RowSource& rows, ExportFormat format, bool provenance);

/// Long form: id, step, metric, value; profiles follow with their x in the step column.
void export_curves(std::ostream& out, const std::map<std::string, Record>& records, ExportFormat format);
void stream_curves(std::ostream& out, const RowSource& rows, ExportFormat format);

}  // namespace crosstalk

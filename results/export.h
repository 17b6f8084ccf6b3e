// Tables for other programs: one row a run, or one row a point of a curve. Deterministic columns only, sorted
// by id, numbers that round-trip, so that equal studies give equal bytes. SPDX-License-Identifier: Apache-2.0
#pragma once
#include <iosfwd>
#include <map>
#include <string>

#include "results/record.h"

namespace crosstalk {

enum class ExportFormat { csv, jsonl };

/// One row a run and label. Columns: id, study, label, status, seed, study_version (if the rows differ in
/// Record::version), every config key that any record has (sorted, dotted), d_dot,
/// state_size, steps, eval_loss, best_eval_loss, eval_accuracy, every metric (sorted). `provenance` adds the
/// provenance's keys (sorted, prefixed "provenance."). Missing and NaN: empty in CSV, null in JSONL.
void export_runs(std::ostream& out, const std::map<std::string, Record>& records, ExportFormat format,
                 bool provenance);

/// Long form: id, step, metric, value; profiles follow with their x in the step column.
void export_curves(std::ostream& out, const std::map<std::string, Record>& records, ExportFormat format);

}  // namespace crosstalk

// Parts of the page of a study: its table of runs, and where they come from.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plots/figure.h"

namespace crosstalk {

/// Names of labels in figures.
class Names {
 public:
  explicit Names(const LabelledRecords& rows);
  std::string of(const std::string& label) const;
  /// Labels of records, in the study's order.
  std::vector<std::string> labels(const RecordList& records) const;

 private:
  std::vector<std::string> order_;
  std::map<std::string, std::string> titles_;
};

/// "1 run", "2 runs".
std::string plural(std::size_t count, const std::string& noun);
/// "a, b and c".
std::string listed(const std::vector<std::string>& words, const char* last = "and");
/// The values of a field, in order.
std::vector<std::string> values_of(const RecordList& records, const std::string& key);

/// Every run: the table as HTML, and what its script needs: exact values, and curves of few points.
struct RunsTable {
  std::string text;
  nlohmann::ordered_json data;
};
RunsTable runs_table(const RecordList& records, const Names& names);
/// "curve_names", "steps" and "curves" of records, of few points: what page.js draws.
nlohmann::ordered_json curves_data(const RecordList& records);

/// A page in the common template. `script`: "report" or "atlas", that of templates/ which runs in it.
std::string filled_page(const std::string& script, const std::string& title, const std::string& body,
                        const nlohmann::ordered_json& data);
/// A command with a button that copies it.
std::string command_block(const std::string& command, const std::string& id);
std::string commands_text(const ReportInput& input);

/// One paragraph a task: which label is ahead of --against (the first) and where, by the paired differences of figure difference;
/// or that nothing is told, at chance, or that there is one label alone. Plain text.
std::vector<std::string> finding_text(const LabelledRecords& rows, const FigureOptions& options,
                                      const Names& names);

/// The runs that train now, each with its curves of loss and accuracy; "" where there are none.
std::string training_section(const std::map<std::string, Record>& training, const Names& names);

/// Where, when and by what the runs were trained, and the settings that all of them share.
std::string provenance_text(const RecordList& records, const std::string& study_file);

}  // namespace crosstalk

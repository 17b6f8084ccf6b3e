// Rows that a figure or a table cannot place: refused by the column that they lack, or told.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <ostream>
#include <stdexcept>

#include "plots/drawing/drawing.h"

namespace crosstalk {
namespace {

/// What a table's row was given has an id of its own, which names the file: no run's.
bool is_of_a_run(const Record& record) { return record.id.starts_with("ct-"); }

bool has_series(const std::map<std::string, Series>& all, const std::string& name) {
  const auto found = all.find(name);
  return found != all.end() && !found->second.x.empty();
}

bool has(const Record& record, const std::string& need) {
  if (need == "state_size") return state_floats(record) > 0;
  if (need == "parameters") return metric_in(record, need) >= 1;
  if (need.starts_with("curves.") || need.starts_with("profiles.")) {
    const bool is_curve = need.starts_with("curves.");
    return has_diverged(record) ||  // such a run may have none
           has_series(is_curve ? record.curves : record.profiles, need.substr(need.find('.') + 1));
  }
  return place_on_axis(record, need).has_value();
}

/// As a table calls it.
std::string column_of(const std::string& need) {
  if (need == "state_size") return "state_size (or state_bytes)";
  if (need.starts_with("curves.") || need.starts_with("profiles."))
    return fmt::format("{} (rows id, step, metric, value in NAME.curves.csv beside NAME.csv)",
                       need.substr(need.find('.') + 1));
  return need;
}

/// The first thing that a record lacks; "" = nothing.
std::string lacking(const Drawing& drawing, const Record& record, const std::string& facet) {
  if (!facet.empty() && !field_text(record, facet)) return facet;
  for (const std::string& need : drawing.needs)
    if (!has(record, need)) return need;
  if (!drawing.metric.empty() && std::isnan(value_of(record, {drawing.metric, ""}))) return drawing.metric;
  return "";
}

}  // namespace

void check_left_out(const Drawing& drawing, const RecordList& records, std::ostream& notes) {
  const std::string facet = drawing.figure.value("facet", std::string());
  std::map<std::pair<std::string, std::string>, int> ours;  // label and what is lacking -> runs
  for (const Record* record : results_of(records)) {
    const std::string need = lacking(drawing, *record, facet);
    if (need.empty()) continue;
    if (!is_of_a_run(*record))
      throw std::invalid_argument(fmt::format(
          "the row {} (\"{}\") has no {}, and cannot be drawn without; give it that column, or leave "
          "\"{}\" out: --where label=... names those to draw",
          record->id, record->label, column_of(need), record->label));
    ++ours[{record->label, need}];
  }
  for (const auto& [what, runs] : ours)
    notes << fmt::format("left out: {} run{} of {}, without {}\n", runs, runs == 1 ? "" : "s", what.first,
                         what.second);
}

}  // namespace crosstalk

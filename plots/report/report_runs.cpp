// The table of runs of a study's page, and where they come from.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "plots/drawing/drawing.h"
#include "plots/report/html.h"
#include "plots/report/report_parts.h"
#include "plots/report/suggest.h"
#include "results/csv.h"

namespace crosstalk {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostPoints = 40;           ///< of a run's curve
constexpr std::size_t kMostRuns = 2000;           ///< in the page's table: a page goes by mail
constexpr std::size_t kMostCurveBytes = 1 << 20;  ///< of all curves, about

/// A number to four digits, as a JSON number; null where there is none.
Json rounded(double value) {
  if (!std::isfinite(value)) return nullptr;
  return std::stod(fmt::format("{:.4g}", value));
}

/// A column of the table of runs.
struct Column {
  std::string key, name;
  bool number = true;
};

std::vector<Column> columns_of(const RecordList& records) {
  std::vector<Column> columns = {{"label", "label", false},
                                 {"seed", "seed"},
                                 {"status", "status", false},
                                 {"verdict", "verdict", false}};
  for (const std::string& key : differing_keys(records)) {
    const auto values = values_of(records, key);
    columns.push_back(
        {key, key, std::ranges::all_of(values, [](const auto& v) { return number_in(v).has_value(); })});
  }
  if (values_of(records, "d_dot").size() > 1) columns.push_back({"d_dot", "d_dot"});
  if (values_of(records, "state_size").size() > 1) columns.push_back({"state_size", "state size"});
  columns.push_back({"steps", "steps"});
  columns.push_back({"eval_loss", "eval_loss"});
  for (const char* metric : {"test_loss", "eval_accuracy", "test_accuracy"}) {
    const Metric one{metric, metric};
    if (std::ranges::any_of(records,
                            [&](const Record* record) { return std::isfinite(value_of(*record, one)); }))
      columns.push_back({metric, metric});
  }
  columns.push_back({"id", "run", false});
  return columns;
}

Json cell_of(const Record& record, const Column& column) {
  for (const char* metric : {"steps", "eval_loss", "test_loss", "eval_accuracy", "test_accuracy"})
    if (column.key == metric) {
      const double value = value_of(record, {metric, metric, true});
      return std::isfinite(value) ? Json(value) : Json(nullptr);
    }
  const auto text = field_text(record, column.key);
  if (!text) return nullptr;
  const auto number = column.number ? number_in(*text) : std::nullopt;
  return number && std::isfinite(*number) ? Json(*number) : Json(*text);
}

std::string shown(const Json& cell) {
  if (cell.is_null()) return "";
  if (!cell.is_number()) return cell.get<std::string>();
  const double value = cell.get<double>();
  const bool whole = value == std::round(value) && std::abs(value) < 1e15;
  return whole ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
}

/// Every run with what the script needs: exact values, and curves of few points.
Json data_of(const RecordList& records, const std::vector<Column>& columns) {
  Json data;
  data["columns"] = Json::array();
  for (const Column& column : columns)
    data["columns"].push_back({{"key", column.key}, {"name", column.name}, {"number", column.number}});
  data["rows"] = Json::array();
  for (const Record* record : records) {
    Json row = Json::array();
    for (const Column& column : columns) row.push_back(cell_of(*record, column));
    data["rows"].push_back(row);
  }
  data.update(curves_data(records));
  return data;
}

std::string runs_text(const RecordList& records, const std::vector<Column>& columns, const Json& data,
                      const Names& names) {
  std::string text =
      "<section id=\"runs\" aria-labelledby=\"runs-heading\">\n<h2 id=\"runs-heading\">Runs</h2>\n"
      "<div class=\"tools screen\" hidden>\n<div><label for=\"filter\">Filter: words, or conditions such as "
      "eval_loss&lt;0.01 seed=1</label><input id=\"filter\" type=\"search\" autocomplete=\"off\"></div>\n"
      "<div><label for=\"label\">Label</label><select id=\"label\"><option value=\"\">all</option>";
  for (const std::string& label : names.labels(records))
    text += fmt::format("<option>{}</option>", html(label));
  text +=
      "</select></div>\n<button type=\"button\" class=\"tool\" data-copy=\"runs-csv\">Copy the shown runs as CSV</button>\n"
      "<button type=\"button\" class=\"tool\" data-copy=\"runs-latex\">Copy them as LaTeX</button>\n"
      "<button type=\"button\" class=\"tool\" id=\"save\">Save them as CSV</button>\n</div>\n";
  text += fmt::format(
      "<p class=\"soft\"><span id=\"count\" role=\"status\">{}</span><span class=\"screen\" hidden>. A row under the pointer, or reached by the "
      "arrow keys, shows its curves; the heads sort.</span></p>\n<p id=\"said\" class=\"visually-hidden\" role=\"status\"></p>\n",
      plural(records.size(), "run"));
  text +=
      "<div class=\"scroll\"><table id=\"runs-table\">\n<caption>Every run; losses are those at the end of training.</caption>\n"
      "<thead><tr>";
  for (const Column& column : columns)
    text += fmt::format("<th scope=\"col\" class=\"{}\"><button type=\"button\">{}</button></th>",
                        column.key == "id" ? "id"
                        : column.number    ? "n"
                                           : "",
                        html(column.name));
  text += "</tr></thead>\n<tbody>\n";
  for (std::size_t i = 0; i < records.size(); ++i) {
    text += "<tr>";
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const std::string cell = html(shown(data["rows"][i][c]));
      std::string look = columns[c].number ? " class=\"n\"" : columns[c].key == "id" ? " class=\"id\"" : "";
      if (columns[c].key == "status" && records[i]->status != RunStatus::done)
        look = fmt::format(" class=\"{}\"", to_text(records[i]->status));
      text += fmt::format("<td{}>{}</td>", look, cell);
    }
    text += "</tr>\n";
  }
  return text +
         "</tbody></table></div>\n<div id=\"curve\" role=\"region\" aria-label=\"Curves of one run\" hidden></div>\n</section>\n";
}

std::string settings_table(const std::string& caption,
                           const std::vector<std::pair<std::string, std::string>>& rows) {
  std::string text =
      fmt::format("<div class=\"scroll\"><table>\n<caption>{}</caption>\n<tbody>\n", html(caption));
  for (const auto& [key, value] : rows)
    text += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", html(key), html(value));
  return text + "</tbody></table></div>\n";
}

}  // namespace

Names::Names(const LabelledRecords& rows) {
  for (const AskedLabel& label : rows.labels) {
    order_.push_back(label.label);
    if (!label.title.empty()) titles_[label.label] = label.title;
  }
}

std::string Names::of(const std::string& label) const {
  const auto title = titles_.find(label);
  return title == titles_.end() ? label_name(label) : title->second;
}

std::vector<std::string> Names::labels(const RecordList& records) const {
  std::set<std::string> there;
  for (const Record* record : records) there.insert(record->label);
  std::vector<std::string> list;
  for (const std::string& label : order_)
    if (there.erase(label) != 0) list.push_back(label);
  list.insert(list.end(), there.begin(), there.end());
  return list;
}

std::string plural(std::size_t count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : noun.ends_with("y") ? "" : "s");
}

std::string listed(const std::vector<std::string>& words, const char* last) {
  if (words.size() < 2) return words.empty() ? "" : words[0];
  const bool commas =
      std::ranges::any_of(words, [](const std::string& word) { return word.find(',') != std::string::npos; });
  return fmt::format("{}{} {} {}", fmt::join(words.begin(), words.end() - 1, commas ? "; " : ", "),
                     commas ? ";" : "", last, words.back());
}

std::vector<std::string> values_of(const RecordList& records, const std::string& key) {
  std::set<std::string> values;
  for (const Record* record : records)
    if (const auto value = field_text(*record, key)) values.insert(*value);
  return sorted_values({values.begin(), values.end()});
}

Json curves_data(const RecordList& records) {
  Json data;
  data["curve_names"] = {"eval_loss", "eval_accuracy"};
  std::size_t values = 0;
  for (const Record* record : records)
    for (const char* name : {"eval_loss", "eval_accuracy"})
      if (const auto curve = record->curves.find(name); curve != record->curves.end())
        values += std::min(curve->second.y.size(), kMostPoints);
  constexpr std::size_t bytes = 7;  // of a value
  const std::size_t most = std::clamp<std::size_t>(
      values == 0 ? kMostPoints : kMostPoints * kMostCurveBytes / (bytes * values), 6, kMostPoints);
  std::map<std::vector<double>, std::size_t> places;
  data["curves"] = Json::array();
  data["steps"] = Json::array();
  for (const Record* record : records) {
    Json curves = nullptr;
    const auto loss = record->curves.find("eval_loss"), accuracy = record->curves.find("eval_accuracy");
    const Series* base = loss != record->curves.end()       ? &loss->second
                         : accuracy != record->curves.end() ? &accuracy->second
                                                            : nullptr;
    if (base != nullptr && !base->x.empty()) {
      std::vector<std::size_t> kept;
      const std::size_t count = base->x.size(), points = std::min(most, count);
      for (std::size_t i = 0; i < points; ++i)
        kept.push_back(points == 1 ? 0 : i * (count - 1) / (points - 1));
      std::vector<double> steps;
      for (const std::size_t i : kept) steps.push_back(base->x[i]);
      const auto [place, is_new] = places.try_emplace(steps, places.size());
      if (is_new) data["steps"].push_back(steps);
      curves = {place->second};
      for (const auto& curve : {loss, accuracy}) {
        Json list = nullptr;
        if (curve != record->curves.end() && curve->second.y.size() == count) {
          list = Json::array();
          for (const std::size_t i : kept) list.push_back(rounded(curve->second.y[i]));
        }
        curves.push_back(list);
      }
    }
    data["curves"].push_back(curves);
  }
  return data;
}

RunsTable runs_table(const RecordList& all, const Names& names) {
  const std::vector<Column> columns = columns_of(all);
  RunsTable table;
  const RecordList records(all.begin(),
                           all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), kMostRuns)));
  table.data = data_of(records, columns);
  table.text = runs_text(records, columns, table.data, names);
  if (records.size() < all.size())
    table.text += fmt::format(
        "<p class=\"warning\" role=\"note\"><strong>The first {} of {} runs</strong> stand in this table, in the order of labels and settings; "
        "figures are of all of them, and the export below (Commands) has every run.</p>\n",
        records.size(), all.size());
  return table;
}

std::string provenance_text(const RecordList& records, const std::string& study_file) {
  std::map<std::string, std::set<std::string>> all;
  double seconds = 0;
  for (const Record* record : records) {
    if (!record->provenance.is_object()) continue;
    for (const auto& [key, value] : record->provenance.items())
      all[key].insert(value.is_string() ? value.get<std::string>() : value.dump());
    if (const auto wall = record->provenance.find("wall_s");
        wall != record->provenance.end() && wall->is_number())
      seconds += wall->get<double>();
  }
  std::vector<std::pair<std::string, std::string>> rows, shared;
  for (const char* key : {"version", "semantics", "commit", "dirty", "device", "gpu", "cpu", "host", "os",
                          "compiler", "flags", "cuda", "threads", "command"})
    if (const auto found = all.find(key); found != all.end()) {
      constexpr std::size_t most = 5;
      std::vector<std::string> values(found->second.begin(), found->second.end());
      const std::size_t count = values.size();
      if (count > most) values.resize(most);
      rows.emplace_back(key, fmt::format("{}{}", fmt::join(values, "; "),
                                         count > most ? fmt::format("; and {} more", count - most) : ""));
    }
  if (!all["started"].empty() && !all["finished"].empty())
    rows.emplace_back("trained", fmt::format("{} to {}", *all["started"].begin(), *all["finished"].rbegin()));
  if (seconds > 0) rows.emplace_back("time, summed over runs", fmt::format("{:.4g} s", seconds));
  for (const auto& [key, varies] : config_keys(records)) {
    if (is_seed_key(key)) continue;
    const auto values = values_of(varies ? records : RecordList{records.front()}, key);
    if (values.size() == 1) shared.emplace_back(key, values[0]);
  }
  std::string text = "<section aria-labelledby=\"provenance\">\n<h2 id=\"provenance\">Provenance</h2>\n";
  text += rows.empty() ? "<p>These records do not say where they were made.</p>\n"
                       : settings_table("Where and by what the runs were trained", rows);
  text += fmt::format("<details><summary>Settings that all runs share ({})</summary>\n{}</details>\n",
                      shared.size(), settings_table("The same in every run", shared));
  if (!study_file.empty())
    text += fmt::format(
        "<details><summary>The study file</summary>\n<p class=\"screen\" hidden><button type=\"button\" class=\"tool\" data-copy=\"study\">Copy the "
        "study</button></p>\n<pre id=\"study\">{}</pre></details>\n",
        html(study_file));
  return text + "</section>\n";
}

}  // namespace crosstalk

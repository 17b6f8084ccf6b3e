// The page of a study: one HTML file that goes by mail.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <tuple>

#include "plots/drawing.h"
#include "plots/html.h"
#include "plots/prepare.h"
#include "plots/suggest.h"
#include "plots/svg.h"
#include "results/csv.h"

namespace crosstalk {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostPoints = 40;         ///< of a run's curve
constexpr std::size_t kMostCurveBytes = 1 << 20;  ///< of all curves, about
constexpr std::size_t kMostFigureRows = 1500;   ///< of a figure whose numbers the page holds

std::string plural(std::size_t count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : noun.ends_with("y") ? "" : "s");
}

std::string listed(const std::vector<std::string>& words, const char* last = "and") {
  if (words.size() < 2) return words.empty() ? "" : words[0];
  return fmt::format("{} {} {}", fmt::join(words.begin(), words.end() - 1, ", "), last, words.back());
}

/// A number to four digits, as a JSON number; null where there is none.
Json rounded(double value) {
  if (!std::isfinite(value)) return nullptr;
  return std::stod(fmt::format("{:.4g}", value));
}

/// Names of labels in figures.
class Names {
 public:
  explicit Names(const LabelledRecords& rows) {
    for (const AskedLabel& label : rows.labels) {
      order_.push_back(label.label);
      if (!label.title.empty()) titles_[label.label] = label.title;
    }
  }
  std::string of(const std::string& label) const {
    const auto title = titles_.find(label);
    return title == titles_.end() ? label_name(label) : title->second;
  }
  /// Labels of records, in the study's order.
  std::vector<std::string> labels(const RecordList& records) const {
    std::set<std::string> there;
    for (const Record* record : records) there.insert(record->label);
    std::vector<std::string> list;
    for (const std::string& label : order_)
      if (there.erase(label) != 0) list.push_back(label);
    list.insert(list.end(), there.begin(), there.end());
    return list;
  }

 private:
  std::vector<std::string> order_;
  std::map<std::string, std::string> titles_;
};

std::vector<std::string> values_of(const RecordList& records, const std::string& key) {
  std::set<std::string> values;
  for (const Record* record : records)
    if (const auto value = field_text(*record, key)) values.insert(*value);
  return sorted_values({values.begin(), values.end()});
}

/// "4 to 96 (12 values)", "0.001, 0.003 and 0.01".
std::string range_of(const std::vector<std::string>& values) {
  constexpr std::size_t few = 4;
  if (values.size() <= few) return listed(values);
  return number_in(values.front()) && number_in(values.back())
             ? fmt::format("{} to {} ({} values)", values.front(), values.back(), values.size())
             : fmt::format("{} values", values.size());
}

/// Two sentences: what was trained on what, and what varies.
std::string asked_text(const RecordList& records, const Names& names, const ReportInput& input) {
  std::vector<std::string> memories, tasks, varied;
  for (const std::string& label : names.labels(records)) memories.push_back(html_of(names.of(label)));
  constexpr std::size_t most = 8;
  const std::size_t count = memories.size();
  if (count > most) {
    memories.resize(most - 1);
    memories.push_back(fmt::format("{} more", count - most + 1));
  }
  for (const std::string& task : values_of(records, "task.name")) {
    const auto known = input.tasks.find(task);
    tasks.push_back(fmt::format("<strong>{}</strong>{}", html(task),
                                known == input.tasks.end() ? "" : fmt::format(" ({})", html(known->second))));
  }
  for (const std::string& key : telling_keys(records))
    if (key != "task.name")
      varied.push_back(fmt::format("<code>{}</code> = {}", html(key), html(range_of(values_of(records, key)))));
  std::map<std::string, std::size_t> states = {{"done", 0}, {"diverged", 0}, {"failed", 0}};
  for (const Record* record : records) ++states[to_text(record->status)];
  std::vector<std::string> ended;
  for (const char* state : {"done", "diverged", "failed"})
    if (states[state] > 0) ended.push_back(fmt::format("{} {}", states[state], state));
  if (const auto asked = static_cast<std::size_t>(std::max<std::int64_t>(input.asked, 0)); asked > records.size())
    ended.push_back(fmt::format("{} not yet trained", asked - records.size()));
  return fmt::format(
      "<p class=\"lead\">This study trains {} ({}) on {} {}. It compares them over {}, with seed{} {}: {} ({}).</p>\n",
      count == 1 ? "one memory" : fmt::format("{} memories", count), listed(memories),
      tasks.size() == 1 ? "the task" : "the tasks", tasks.empty() ? "that its records do not name" : listed(tasks),
      varied.empty() ? "one setting" : listed(varied), values_of(records, "seed").size() == 1 ? "" : "s",
      html(range_of(values_of(records, "seed"))), plural(records.size(), "run"), listed(ended));
}

std::string command_block(const std::string& command, const std::string& id) {
  return fmt::format(
      "<pre id=\"{0}\"><code>{1}</code></pre>\n<p class=\"screen\" hidden><button type=\"button\" class=\"tool\" "
      "data-copy=\"{0}\">Copy the command</button></p>\n",
      id, html(command));
}

/// The rows of a figure's CSV as a table.
std::string numbers_table(const std::vector<std::vector<std::string>>& lines, const std::string& id) {
  std::string text = fmt::format("<div class=\"scroll\"><table id=\"{}\">\n", id);
  for (const auto& line : lines) {
    const bool head = &line == &lines.front();
    text += head ? "<thead><tr>" : "<tr>";
    for (const std::string& cell : line)
      text += head ? fmt::format("<th scope=\"col\">{}</th>", html(cell)) : fmt::format("<td>{}</td>", html(cell));
    text += head ? "</tr></thead><tbody>\n" : "</tr>\n";
  }
  return text + "</tbody></table></div>\n";
}

/// One figure with its numbers, its LaTeX and its commands; "" where it does not suit the records.
std::string figure_text(const SuggestedFigure& figure, const LabelledRecords& rows, const ReportInput& input,
                        std::size_t index, std::ostream& notes) {
  std::ostringstream unsaid;
  const ComposedFigure made = compose_figure(figure.name, rows, figure.options, unsaid);
  const std::string id = fmt::format("f{}", index);
  const auto kind = std::find_if(figure_kinds().begin(), figure_kinds().end(),
                                 [&](const FigureKind& one) { return one.name == figure.name; });
  const auto task = figure.options.where.find("task.name");
  std::string text = fmt::format("<section aria-labelledby=\"{}\">\n<h3 id=\"{}\">{}{}</h3>\n<figure>\n", id, id,
                                 html(kind->summary),
                                 task == figure.options.where.end() ? "" : fmt::format(" (task {})", html(task->second)));
  text += svg_figure(made.drawing, made.prepared.styles, id);
  std::string footnote;
  for (const std::string& sentence : made.drawing.footnotes) footnote += fmt::format("{}{}", footnote.empty() ? "" : " ", html_of(sentence));
  text += fmt::format("<figcaption>{}</figcaption>\n</figure>\n", footnote);
  if (made.drawing.rows.size() <= kMostFigureRows)
    text += fmt::format(
        "<details><summary>The numbers of this figure (CSV)</summary>\n<p class=\"screen\" hidden><button type=\"button\" "
        "class=\"tool\" data-copy=\"{0}-csv\">Copy as CSV</button></p>\n{1}</details>\n",
        id, numbers_table(csv_cells(made.drawing, made.prepared.by), id + "-csv"));
  if (!figure.table.empty()) {
    FigureOptions options = figure.options;
    if (!options.facet.empty()) options.by.push_back(options.facet);
    options.facet.clear();
    try {
      const std::string latex = table_text(figure.table, rows, options, TableFormat::latex, unsaid);
      text += fmt::format(
          "<details><summary>A table for a paper (LaTeX)</summary>\n<p class=\"screen\" hidden><button type=\"button\" "
          "class=\"tool\" data-copy=\"{0}-tex\">Copy the LaTeX</button></p>\n<pre id=\"{0}-tex\">{1}</pre>\n{2}</details>\n",
          id, html(latex), command_block(input.command("table", figure.table, options), id + "-table"));
    } catch (const std::invalid_argument& wrong) {
      notes << fmt::format("no LaTeX table of {}: {}\n", figure.name, wrong.what());
    }
  }
  text += "<details><summary>The command that draws this figure for a paper (PDF)</summary>\n" +
          command_block(input.command("plot", figure.name, figure.options), id + "-plot") + "</details>\n";
  return text + "</section>\n";
}

std::string figures_text(const LabelledRecords& rows, const FigureOptions& options, const ReportInput& input,
                         std::ostream& notes) {
  std::string text;
  std::vector<std::string> why;
  std::size_t index = 0;
  for (const SuggestedFigure& figure : suggested_figures(rows, options, input.figure)) {
    try {
      text += figure_text(figure, rows, input, ++index, notes);
    } catch (const std::invalid_argument& wrong) {
      if (!input.figure.empty()) throw;
      why.push_back(fmt::format("{}: {}", figure.name, wrong.what()));
    }
  }
  if (!text.empty()) return text;
  for (const std::string& line : why) notes << "no figure " << line << '\n';
  return "<p>No figure suits these records; every run stands in the table below.</p>\n";
}

/// Which learning rate was best for each label, and where that lies in its grid.
std::string rates_text(const RecordList& records, const Names& names) {
  const std::string rate = "train.learning_rate";
  const std::vector<std::string> telling = telling_keys(records);
  if (std::find(telling.begin(), telling.end(), rate) == telling.end()) return "";
  std::string rows;
  std::vector<EdgeChoice> edges;
  try {
    const RecordList best = choose_best(records, {rate});
    edges = edge_choices(records, {rate}, rate);
    for (const std::string& label : names.labels(records)) {
      RecordList of_label, chosen;
      for (const Record* record : records)
        if (record->label == label) of_label.push_back(record);
      for (const Record* record : best)
        if (record->label == label) chosen.push_back(record);
      std::map<std::string, std::set<std::string>> settings;  // rate -> settings that chose it
      for (const Record* record : chosen) {
        std::string setting;
        for (const std::string& key : telling)
          if (key != rate) setting += config_text(*record, key).value_or("") + "\n";
        settings[config_text(*record, rate).value_or("")].insert(setting);
      }
      std::vector<std::string> parts;
      std::vector<std::string> rates;
      for (const auto& [value, where] : settings) rates.push_back(value);
      for (const std::string& value : sorted_values(rates))
        parts.push_back(fmt::format("{} ({})", html(value), plural(settings[value].size(), "setting")));
      const auto edge = std::find_if(edges.begin(), edges.end(), [&](const EdgeChoice& one) { return one.label == label; });
      std::string warning;
      if (edge != edges.end()) {
        std::vector<std::string> at;
        if (edge->largest > 0) at.push_back(fmt::format("the largest in {} of {}", edge->largest, edge->choices));
        if (edge->smallest > 0) at.push_back(fmt::format("the smallest in {} of {}", edge->smallest, edge->choices));
        warning = fmt::format("<span class=\"diverged\">at the edge of the grid: {}</span>", listed(at));
      }
      rows += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td></tr>\n", html_of(names.of(label)),
                          html(fmt::format("{}", fmt::join(values_of(of_label, rate), ", "))), listed(parts), warning);
    }
  } catch (const std::invalid_argument&) {
    return "";  // rates that no two runs differ in alone: nothing was chosen
  }
  std::string text = "<section aria-labelledby=\"rates\">\n<h2 id=\"rates\">Best learning rates</h2>\n";
  for (EdgeChoice& edge : edges) edge.label = names.of(edge.label);
  if (const std::string said = edges_text(edges); !said.empty())
    text += fmt::format("<p class=\"warning\" role=\"note\"><strong>Warning:</strong> {}</p>\n", html_of(said));
  return text +
         "<div class=\"scroll\"><table>\n<caption>For each setting, the rate with the lowest median validation loss over "
         "seeds.</caption>\n<thead><tr><th scope=\"col\">Label</th><th scope=\"col\">Rates tried</th><th scope=\"col\">Best"
         "</th><th scope=\"col\">Note</th></tr></thead>\n<tbody>\n" +
         rows + "</tbody></table></div>\n</section>\n";
}

/// A column of the table of runs.
struct Column {
  std::string key, name;
  bool number = true;
};

std::vector<Column> columns_of(const RecordList& records) {
  std::vector<Column> columns = {{"label", "label", false}, {"seed", "seed"}, {"status", "status", false}};
  for (const std::string& key : telling_keys(records)) {
    const auto values = values_of(records, key);
    columns.push_back({key, key, std::all_of(values.begin(), values.end(), [](const auto& v) { return number_in(v).has_value(); })});
  }
  if (values_of(records, "d_dot").size() > 1) columns.push_back({"d_dot", "d_dot"});
  if (values_of(records, "state_size").size() > 1) columns.push_back({"state_size", "state size"});
  columns.push_back({"steps", "steps"});
  columns.push_back({"eval_loss", "eval_loss"});
  for (const char* metric : {"test_loss", "eval_accuracy", "test_accuracy"}) {
    const Metric one{metric, metric};
    if (std::any_of(records.begin(), records.end(), [&](const Record* record) { return std::isfinite(value_of(*record, one)); }))
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
  return cell.is_number() ? fmt::format("{:.4g}", cell.get<double>()) : cell.get<std::string>();
}

/// Every run with what the script needs: exact values, and curves of few points.
Json data_of(const RecordList& records, const std::vector<Column>& columns) {
  Json data;
  data["columns"] = Json::array();
  for (const Column& column : columns)
    data["columns"].push_back({{"key", column.key}, {"name", column.name}, {"number", column.number}});
  data["curve_names"] = {"eval_loss", "eval_accuracy"};
  std::size_t values = 0;
  for (const Record* record : records)
    for (const char* name : {"eval_loss", "eval_accuracy"})
      if (const auto curve = record->curves.find(name); curve != record->curves.end()) values += std::min(curve->second.y.size(), kMostPoints);
  constexpr std::size_t bytes = 7;  // of a value
  const std::size_t most = std::clamp<std::size_t>(values == 0 ? kMostPoints : kMostPoints * kMostCurveBytes / (bytes * values), 6, kMostPoints);
  std::map<std::vector<double>, std::size_t> places;
  data["rows"] = Json::array();
  data["curves"] = Json::array();
  data["steps"] = Json::array();
  for (const Record* record : records) {
    Json row = Json::array(), curves = nullptr;
    for (const Column& column : columns) row.push_back(cell_of(*record, column));
    data["rows"].push_back(row);
    const auto loss = record->curves.find("eval_loss"), accuracy = record->curves.find("eval_accuracy");
    const Series* base = loss != record->curves.end() ? &loss->second : accuracy != record->curves.end() ? &accuracy->second : nullptr;
    if (base != nullptr && !base->x.empty()) {
      std::vector<std::size_t> kept;
      const std::size_t count = base->x.size(), points = std::min(most, count);
      for (std::size_t i = 0; i < points; ++i) kept.push_back(points == 1 ? 0 : i * (count - 1) / (points - 1));
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

std::string runs_text(const RecordList& records, const std::vector<Column>& columns, const Json& data, const Names& names) {
  std::string text =
      "<section id=\"runs\" aria-labelledby=\"runs-heading\">\n<h2 id=\"runs-heading\">Runs</h2>\n"
      "<div class=\"tools screen\" hidden>\n<div><label for=\"filter\">Filter: words, or conditions such as "
      "eval_loss&lt;0.01 seed=1</label><input id=\"filter\" type=\"search\" autocomplete=\"off\"></div>\n"
      "<div><label for=\"label\">Label</label><select id=\"label\"><option value=\"\">all</option>";
  for (const std::string& label : names.labels(records)) text += fmt::format("<option>{}</option>", html(label));
  text +=
      "</select></div>\n<button type=\"button\" class=\"tool\" data-copy=\"runs-csv\">Copy the shown runs as CSV</button>\n"
      "<button type=\"button\" class=\"tool\" data-copy=\"runs-latex\">Copy them as LaTeX</button>\n"
      "<button type=\"button\" class=\"tool\" id=\"save\">Save them as CSV</button>\n</div>\n";
  text += fmt::format(
      "<p class=\"soft\"><span id=\"count\" role=\"status\">{}</span><span class=\"screen\" hidden>. A row under the pointer, or "
      "reached by the arrow keys, shows its curves; the heads sort.</span></p>\n<p id=\"said\" class=\"visually-hidden\" "
      "role=\"status\"></p>\n",
      plural(records.size(), "run"));
  text += "<div class=\"scroll\"><table id=\"runs-table\">\n<caption>Every run; losses are those at the end of training.</caption>\n"
          "<thead><tr>";
  for (const Column& column : columns)
    text += fmt::format("<th scope=\"col\" class=\"{}\"><button type=\"button\">{}</button></th>",
                        column.key == "id" ? "id" : column.number ? "n" : "", html(column.name));
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
  return text + "</tbody></table></div>\n<div id=\"curve\" role=\"region\" aria-label=\"Curves of one run\" hidden></div>\n</section>\n";
}

std::string settings_table(const std::string& caption, const std::vector<std::pair<std::string, std::string>>& rows) {
  std::string text = fmt::format("<div class=\"scroll\"><table>\n<caption>{}</caption>\n<tbody>\n", html(caption));
  for (const auto& [key, value] : rows)
    text += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", html(key), html(value));
  return text + "</tbody></table></div>\n";
}

/// Where, when and by what the runs were trained.
std::string provenance_text(const RecordList& records, const std::string& study_file) {
  std::map<std::string, std::set<std::string>> all;
  double seconds = 0;
  for (const Record* record : records) {
    if (!record->provenance.is_object()) continue;
    for (const auto& [key, value] : record->provenance.items())
      all[key].insert(value.is_string() ? value.get<std::string>() : value.dump());
    if (const auto wall = record->provenance.find("wall_s"); wall != record->provenance.end() && wall->is_number())
      seconds += wall->get<double>();
  }
  std::vector<std::pair<std::string, std::string>> rows, shared;
  for (const char* key : {"version", "semantics", "commit", "dirty", "device", "gpu", "cpu", "host", "os", "compiler", "flags", "cuda",
                          "threads", "command"})
    if (const auto found = all.find(key); found != all.end()) {
      constexpr std::size_t most = 5;
      std::vector<std::string> values(found->second.begin(), found->second.end());
      const std::size_t count = values.size();
      if (count > most) values.resize(most);
      rows.emplace_back(key, fmt::format("{}{}", fmt::join(values, "; "), count > most ? fmt::format("; and {} more", count - most) : ""));
    }
  if (!all["started"].empty() && !all["finished"].empty())
    rows.emplace_back("trained", fmt::format("{} to {}", *all["started"].begin(), *all["finished"].rbegin()));
  if (seconds > 0) rows.emplace_back("time, summed over runs", fmt::format("{:.4g} s", seconds));
  std::set<std::string> keys;
  for (const Record* record : records)
    for (const auto& [key, value] : record->config.items()) keys.insert(key);
  for (const std::string& key : keys)
    if (const auto values = values_of(records, key); values.size() == 1 && !is_seed_key(key)) shared.emplace_back(key, values[0]);
  std::string text = "<section aria-labelledby=\"provenance\">\n<h2 id=\"provenance\">Provenance</h2>\n";
  text += rows.empty() ? "<p>These records do not say where they were made.</p>\n" : settings_table("Where and by what the runs were trained", rows);
  text += fmt::format("<details><summary>Settings that all runs share ({})</summary>\n{}</details>\n", shared.size(),
                      settings_table("The same in every run", shared));
  if (!study_file.empty())
    text += fmt::format(
        "<details><summary>The study file</summary>\n<p class=\"screen\" hidden><button type=\"button\" class=\"tool\" "
        "data-copy=\"study\">Copy the study</button></p>\n<pre id=\"study\">{}</pre></details>\n",
        html(study_file));
  return text + "</section>\n";
}

std::string commands_text(const ReportInput& input) {
  std::string text = "<section aria-labelledby=\"commands\">\n<h2 id=\"commands\">Commands</h2>\n";
  for (std::size_t i = 0; i < input.commands.size(); ++i)
    text += fmt::format("<h3>{}</h3>\n{}", html(input.commands[i].first), command_block(input.commands[i].second, fmt::format("c{}", i)));
  return text + "</section>\n";
}

/// The template with its {{parts}}; what they are replaced by is not looked into.
std::string filled(std::string_view page, const std::map<std::string, std::string>& parts) {
  std::string text;
  for (std::size_t at = 0; at < page.size();) {
    const std::size_t open = page.find("{{", at);
    text += page.substr(at, open - at);
    if (open == std::string_view::npos) break;
    const std::size_t close = page.find("}}", open);
    text += parts.at(std::string(page.substr(open + 2, close - open - 2)));
    at = close + 2;
  }
  return text;
}

}  // namespace

std::string report_page(const LabelledRecords& rows, const FigureOptions& options, const ReportInput& input,
                        std::ostream& notes) {
  if (rows.rows.empty()) throw std::invalid_argument("there are no records to report");
  const Names names(rows);
  RecordList records = choose_records(list_of(rows.rows), options.where);
  const std::vector<std::string> order = names.labels(records);
  std::map<std::string, std::size_t> rank;
  for (const std::string& label : order) rank.emplace(label, rank.size());
  const std::vector<std::string> telling = telling_keys(records);
  const auto place = [&](const Record* record) {
    std::vector<double> numbers;
    for (const std::string& key : telling) numbers.push_back(config_number(*record, key).value_or(0));
    return std::tuple(rank.at(record->label), numbers, record->seed, record->id);
  };
  std::sort(records.begin(), records.end(), [&](const Record* a, const Record* b) { return place(a) < place(b); });
  const std::vector<Column> columns = columns_of(records);
  const Json data = data_of(records, columns);
  const std::string rates = rates_text(records, names);
  std::string body = fmt::format("<header>\n<h1>{}</h1>\n", html_of(input.title));
  body += asked_text(records, names, input);
  body += fmt::format(
      "<nav aria-label=\"Sections\"><ul><li><a href=\"#figures\">Figures</a></li>{}<li><a href=\"#runs\">Runs</a></li>"
      "<li><a href=\"#provenance\">Provenance</a></li><li><a href=\"#commands\">Commands</a></li></ul></nav>\n</header>\n<main>\n",
      rates.empty() ? "" : "<li><a href=\"#rates\">Best learning rates</a></li>");
  body += "<section aria-labelledby=\"figures\">\n<h2 id=\"figures\">Figures</h2>\n" + figures_text(rows, options, input, notes) +
          "</section>\n" + rates + runs_text(records, columns, data, names) + provenance_text(records, input.study_file) +
          commands_text(input) + "</main>\n";
  return filled(kReportPage, {{"title", html(plain_of(input.title))},
                              {"hash", kReportHash},
                              {"style", kReportStyle},
                              {"script", kReportScript},
                              {"body", body},
                              {"data", script_json(data)}});
}

}  // namespace crosstalk

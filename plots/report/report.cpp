// The page of a study: one HTML file that goes by mail.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <tuple>

#include "plots/drawing/drawing.h"
#include "plots/drawing/prepare.h"
#include "plots/report/html.h"
#include "plots/report/report_parts.h"
#include "plots/report/suggest.h"
#include "plots/report/svg.h"
#include "results/csv.h"
#include "results/numbers/unequal.h"
#include "results/suspects.h"

namespace crosstalk {
namespace {

constexpr std::size_t kMostFigureRows = 1500;  ///< of a figure whose numbers the page holds

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
  for (const std::string& key : differing_keys(records))
    if (key != "task.name")
      varied.push_back(
          fmt::format("<code>{}</code> = {}", html(key), html(range_of(values_of(records, key)))));
  std::map<std::string, std::size_t> states = {{"done", 0}, {"diverged", 0}, {"failed", 0}};
  for (const Record* record : records) ++states[to_text(record->status)];
  std::vector<std::string> ended;
  for (const char* state : {"done", "diverged", "failed"})
    if (states[state] > 0) ended.push_back(fmt::format("{} {}", states[state], state));
  if (const auto asked = static_cast<std::size_t>(std::max<std::int64_t>(input.asked, 0));
      asked > records.size())
    ended.push_back(fmt::format("{} not yet trained", asked - records.size()));
  return fmt::format(
      "<p class=\"lead\">This study trains {} ({}) on {} {}. It {} {}, with seed{} {}: {} ({}).</p>\n",
      count == 1 ? "one memory" : fmt::format("{} memories", count), listed(memories),
      tasks.size() == 1 ? "the task" : "the tasks",
      tasks.empty() ? "that its records do not name" : listed(tasks),
      count == 1 ? "varies" : "compares them over",
      varied.empty() ? count == 1 ? "nothing else" : "one setting" : listed(varied),
      values_of(records, "seed").size() == 1 ? "" : "s", html(range_of(values_of(records, "seed"))),
      plural(records.size(), "run"), listed(ended));
}

/// The rows of a figure's CSV as a table.
std::string numbers_table(const std::vector<std::vector<std::string>>& lines, const std::string& id) {
  std::string text = fmt::format("<div class=\"scroll\"><table id=\"{}\">\n", id);
  for (const auto& line : lines) {
    const bool head = &line == &lines.front();
    text += head ? "<thead><tr>" : "<tr>";
    for (const std::string& cell : line)
      text += head ? fmt::format("<th scope=\"col\">{}</th>", html(cell))
                   : fmt::format("<td>{}</td>", html(cell));
    text += head ? "</tr></thead><tbody>\n" : "</tr>\n";
  }
  return text + "</tbody></table></div>\n";
}

/// One figure with its numbers, its LaTeX and its commands; "" where it does not suit the records.
std::string figure_text(const SuggestedFigure& figure, const LabelledRecords& rows, const ReportInput& input,
                        std::size_t index) {
  std::ostringstream unsaid;
  const ComposedFigure made = compose_figure(figure.name, rows, figure.options, unsaid);
  const std::string id = fmt::format("f{}", index);
  const auto kind =
      std::ranges::find_if(figure_kinds(), [&](const FigureKind& one) { return one.name == figure.name; });
  const auto task = figure.options.where.find("task.name");
  std::string text =
      fmt::format("<section aria-labelledby=\"{}\">\n<h3 id=\"{}\">{}{}</h3>\n<figure>\n", id, id,
                  figure.name == "accuracy" || figure.name == "length"
                      ? html_of(fmt::format("{} against {}", std::string(made.drawing.figure["ylabel"]),
                                            std::string(made.drawing.figure["xlabel"])))
                      : html(kind->summary),
                  task == figure.options.where.end() ? "" : fmt::format(" (task {})", html(task->second)));
  text += svg_figure(made.drawing, made.prepared.styles, id);
  std::string footnote;
  for (const std::string& sentence : made.drawing.footnotes)
    footnote += fmt::format("{}{}", footnote.empty() ? "" : " ", html_of(sentence));
  text += fmt::format("<figcaption>{}</figcaption>\n</figure>\n", footnote);
  if (made.drawing.rows.size() <= kMostFigureRows)
    text += fmt::format(
        "<details><summary>The numbers of this figure (CSV)</summary>\n<p class=\"screen\" hidden><button type=\"button\" class=\"tool\" "
        "data-copy=\"{0}-csv\">Copy as CSV</button></p>\n{1}</details>\n",
        id, numbers_table(csv_cells(made.drawing, made.prepared.by), id + "-csv"));
  if (!figure.table.empty()) {
    FigureOptions options = figure.options;
    if (!options.facet.empty()) options.by.push_back(options.facet);
    options.facet.clear();
    if (figure.table == "final" && options.metric.empty())
      options.metric = made.drawing.metric;  // what is drawn
    try {
      const std::string latex = table_text(figure.table, rows, options, TableFormat::latex, unsaid);
      text += fmt::format(
          "<details><summary>A table for a paper (LaTeX)</summary>\n<p class=\"screen\" hidden><button type=\"button\" class=\"tool\" "
          "data-copy=\"{0}-tex\">Copy the LaTeX</button></p>\n<pre id=\"{0}-tex\">{1}</pre>\n{2}</details>\n",
          id, html(latex), command_block(input.command("table", figure.table, options), id + "-table"));
    } catch (const std::invalid_argument&) {  // not every figure can be a table
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
  bool differences = false;
  for (const SuggestedFigure& figure : suggested_figures(rows, options, input.figure)) {
    differences = differences || figure.name == "difference";
    try {
      text += figure_text(figure, rows, input, ++index);
    } catch (const std::invalid_argument& wrong) {
      const bool asked = figure.name == "difference" && !options.against.empty();
      if (!input.figure.empty() || asked) throw;
      why.push_back(fmt::format("{}: {}", figure.name, wrong.what()));
    }
  }
  if (!options.against.empty() && !differences)
    throw std::invalid_argument(fmt::format(
        "--against {}: no figure holds labels against each other; that takes two", options.against));
  if (!text.empty()) return text;
  if (!options.metric.empty() && !why.empty()) throw std::invalid_argument(why.front());
  for (const std::string& line : why) notes << "no figure " << line << '\n';
  return "<p>No figure suits these records; every run stands in the table below.</p>\n";
}

/// Which learning rate was best for each label, and where that lies in its grid.
std::string rates_text(const RecordList& records, const Names& names) {
  const std::string rate = "train.learning_rate";
  const std::vector<std::string> differing = differing_keys(records);
  if (std::ranges::find(differing, rate) == differing.end()) return "";
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
        for (const std::string& key : differing)
          if (key != rate) setting += config_text(*record, key).value_or("") + "\n";
        settings[config_text(*record, rate).value_or("")].insert(setting);
      }
      std::vector<std::string> parts;
      std::vector<std::string> rates;
      for (const auto& [value, where] : settings) rates.push_back(value);
      for (const std::string& value : sorted_values(rates))
        parts.push_back(fmt::format("{} ({})", html(value), plural(settings[value].size(), "setting")));
      const auto edge =
          std::ranges::find_if(edges, [&](const EdgeChoice& one) { return one.label == label; });
      std::string warning;
      if (edge != edges.end()) {
        std::vector<std::string> at;
        if (edge->largest > 0)
          at.push_back(fmt::format("the largest in {} of {}", edge->largest, edge->choices));
        if (edge->smallest > 0)
          at.push_back(fmt::format("the smallest in {} of {}", edge->smallest, edge->choices));
        warning = fmt::format("<span class=\"diverged\">at the edge of the grid: {}</span>", listed(at));
      }
      rows += fmt::format(
          "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td></tr>\n", html_of(names.of(label)),
          html(fmt::format("{}", fmt::join(values_of(of_label, rate), ", "))), listed(parts), warning);
    }
  } catch (const std::invalid_argument&) {
    return "";  // rates that no two runs differ in alone: nothing was chosen
  }
  std::string text = "<section aria-labelledby=\"rates\">\n<h2 id=\"rates\">Best learning rates</h2>\n";
  for (EdgeChoice& edge : edges) edge.label = names.of(edge.label);
  if (const std::string said = edges_text(edges); !said.empty())
    text +=
        fmt::format("<p class=\"warning\" role=\"note\"><strong>Warning:</strong> {}</p>\n", html_of(said));
  return text +
         "<div class=\"scroll\"><table>\n<caption>For each setting, the rate with the lowest median validation loss over "
         "seeds.</caption>\n<thead><tr><th scope=\"col\">Label</th><th scope=\"col\">Rates tried</th><th scope=\"col\">Best</th><th "
         "scope=\"col\">Note</th></tr></thead>\n<tbody>\n" +
         rows + "</tbody></table></div>\n</section>\n";
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

std::string command_block(const std::string& command, const std::string& id) {
  return fmt::format(
      "<pre id=\"{0}\"><code>{1}</code></pre>\n<p class=\"screen\" hidden><button type=\"button\" class=\"tool\" data-copy=\"{0}\">Copy the "
      "command</button></p>\n",
      id, html(command));
}

std::string commands_text(const ReportInput& input) {
  std::string text = "<section aria-labelledby=\"commands\">\n<h2 id=\"commands\">Commands</h2>\n";
  for (std::size_t i = 0; i < input.commands.size(); ++i)
    text += fmt::format("<h3>{}</h3>\n{}", html(input.commands[i].first),
                        command_block(input.commands[i].second, fmt::format("c{}", i)));
  return text + "</section>\n";
}

std::string filled_page(const std::string& script, const std::string& title, const std::string& body,
                        const nlohmann::ordered_json& data) {
  const bool atlas = script == "atlas";
  return filled(kReportPage, {{"title", html(title)},
                              {"kind", script},
                              {"hash", atlas ? kAtlasHash : kReportHash},
                              {"style", kReportStyle},
                              {"script", atlas ? kAtlasScript : kReportScript},
                              {"body", body},
                              {"data", script_json(data)}});
}

std::string report_page(const LabelledRecords& rows, const FigureOptions& options, const ReportInput& input,
                        std::ostream& notes) {
  if (rows.rows.empty() && input.training.empty())
    throw std::invalid_argument("there are no records to report");
  const Names names(rows);
  const std::string training = training_section(input.training, names);
  const auto page = [&](const std::string& body, const nlohmann::ordered_json& data) {
    return filled_page("report", plain_of(input.title), body, data);
  };
  if (rows.rows.empty()) {
    const RunsTable none = runs_table({}, names);
    return page(
        fmt::format(
            "<header>\n<h1>{}</h1>\n<p class=\"lead\">No run has ended yet.</p>\n</header>\n<main>\n{}{}{}</main>\n",
            html_of(input.title), training, none.text, commands_text(input)),
        none.data);
  }
  RecordList records = choose_records(list_of(rows.rows), options.where);
  for (const std::string& key : options.by) check_key(records, "--by", key);
  for (const std::string& key : options.best) check_key(records, "--best", key);
  if (!options.facet.empty()) check_key(records, "--facet", options.facet);
  if (!options.x.empty() && options.x != kStateBytes) check_key(records, "--x", options.x);
  const std::vector<std::string> order = names.labels(records);
  std::map<std::string, std::size_t> rank;
  for (const std::string& label : order) rank.emplace(label, rank.size());
  const std::vector<std::string> differing = differing_keys(records);
  const auto place = [&](const Record* record) {
    std::vector<double> numbers;
    for (const std::string& key : differing) numbers.push_back(config_number(*record, key).value_or(0));
    return std::tuple(rank.at(record->label), numbers, record->seed, record->id);
  };
  std::ranges::sort(records, [&](const Record* a, const Record* b) { return place(a) < place(b); });
  const RunsTable runs = runs_table(records, names);
  const std::string rates = rates_text(records, names);
  std::string body = fmt::format("<header>\n<h1>{}</h1>\n", html_of(input.title));
  for (const std::string& finding : finding_text(rows, options, names))
    body += fmt::format("<p class=\"lead\"><strong>Finding.</strong> {}</p>\n", html_of(finding));
  body += asked_text(records, names, input);
  if (const ChanceCount chance = chance_of(records, "", options.answers); !chance.text.empty())
    body += fmt::format("<p{}>{}</p>\n", chance.within > 0 ? " class=\"warning\" role=\"note\"" : "",
                        html_of(chance.text));
  if (const std::string unequal = unequal_text(
          records, [&](const std::string& label) { return names.of(label); }, std::string::npos, options.by);
      !unequal.empty())
    body += fmt::format("<p>{}</p>\n", html_of(unequal));
  if (const std::string text = semantics_text(records); !text.empty())
    body += fmt::format("<p class=\"warning\" role=\"note\">{}</p>\n", html_of(text));
  for (const std::string& sentence : beside_studies(records, options))
    body += fmt::format(
        "<p class=\"warning\" role=\"note\"><strong>Not the published training.</strong> {} Published points stand beside these runs.</p>\n",
        html_of(sentence));
  for (const std::string& line : suspects_text(records))
    body +=
        fmt::format("<p class=\"warning\" role=\"note\"><strong>Perhaps recorded wrongly.</strong> {}.</p>\n",
                    html_of(line));
  body += fmt::format(
      "<nav aria-label=\"Sections\"><ul><li><a href=\"#figures\">Figures</a></li>{}<li><a href=\"#runs\">Runs</a></li><li><a "
      "href=\"#provenance\">Provenance</a></li><li><a href=\"#commands\">Commands</a></li></ul></nav>\n</header>\n<main>\n",
      rates.empty() ? "" : "<li><a href=\"#rates\">Best learning rates</a></li>");
  body += training + "<section aria-labelledby=\"figures\">\n<h2 id=\"figures\">Figures</h2>\n" +
          figures_text(rows, options, input, notes) + "</section>\n" + rates + runs.text +
          provenance_text(records, input.study_file) + commands_text(input) + "</main>\n";
  return page(body, runs.data);
}

}  // namespace crosstalk

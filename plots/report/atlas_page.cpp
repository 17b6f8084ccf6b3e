// The atlas as a page, and as a table: CSV with all that is known of a cell, LaTeX and Markdown of values and intervals.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "plots/report/atlas.h"
#include "plots/report/html.h"
#include "plots/report/report_parts.h"
#include "plots/tables/latex.h"
#include "plots/tables/table_text.h"
#include "results/csv.h"

namespace crosstalk {
namespace {

using Json = nlohmann::ordered_json;

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
Json count(int value) { return value > 0 ? Json(value) : Json(nullptr); }
Json words(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }
/// State and parameters stand in a row's head: those of its first cell that has them.
double first_of(const std::vector<AtlasCell>& cells, double AtlasCell::*what) {
  for (const AtlasCell& cell : cells)
    if (!std::isnan(cell.*what)) return cell.*what;
  return kNone;
}
std::string whole(double value) { return std::isnan(value) ? "" : fmt::format("{:.0f}", value); }

/// All that is known of a cell, in the order of the CSV's columns; null: nothing.
Json facts_of(const AtlasCell& cell) {
  const RateWindow& window = cell.window;
  const auto layer = cell.runs.empty() ? std::nullopt : config_text(*cell.runs.front(), "model.layer");
  return {{"state", to_text(cell.state)},
          {"value", number(cell.row.median)},
          {"lo", number(cell.row.lo)},
          {"hi", number(cell.row.hi)},
          {"n", count(cell.row.n)},
          {"verdict", words(cell.verdict)},
          {"layer", words(layer.value_or(""))},
          {"learning_rate", number(cell.rate)},
          {"edge", words(cell.edge)},
          {"rates_tried", count(window.tried)},
          {"rates_solved", window.tried > 0 ? Json(window.good) : Json(nullptr)},
          {"rate_from", number(window.tried > 0 ? window.smallest : kNone)},
          {"rate_to", number(window.tried > 0 ? window.largest : kNone)},
          {"ms_per_step", number(cell.milliseconds)},
          {"state_size", number(cell.state_size)},
          {"parameters", number(cell.parameters)}};
}

std::string csv_of(const Atlas& atlas) {
  std::string text = "row,label,memory,family,column,task,settings,metric,chance,shortcut";
  const Json none = facts_of({});
  for (const auto& [key, value] : none.items()) text += fmt::format(",{}", key);
  for (std::size_t r = 0; r < atlas.rows.size(); ++r)
    for (std::size_t c = 0; c < atlas.columns.size(); ++c) {
      const AtlasRow& row = atlas.rows[r];
      const AtlasColumn& column = atlas.columns[c];
      std::vector<std::string> settings, fields;
      for (const auto& [key, value] : column.where) settings.push_back(fmt::format("{}={}", key, value));
      for (const std::string& field : {row.label, row.base, row.memory, row.family, column.title, column.task,
                                       fmt::format("{}", fmt::join(settings, ";")), column.metric.name})
        fields.push_back(csv_field(field));
      for (const double bound : {column.chance, column.shortcut})
        fields.push_back(std::isnan(bound) ? "" : fmt::format("{}", bound));
      const Json facts = facts_of(atlas.cells[r][c]);
      for (const auto& [key, fact] : facts.items())
        fields.push_back(fact.is_string() ? csv_field(fact) : fact.is_null() ? "" : fact.dump());
      text += fmt::format("\n{}", fmt::join(fields, ","));
    }
  return text + "\n";
}

/// What a table says of a cell: its value, or in words why there is none.
std::string cell_text(const AtlasCell& cell) {
  return cell.state == CellState::value       ? cell_number(cell.row.median)
         : cell.state == CellState::not_asked ? "--"
                                              : to_text(cell.state);
}

Table table_of(const Atlas& atlas, const std::string& label) {
  Table table;
  table.head = {"Memory", "State (floats)"};
  table.keys = 2;
  for (const AtlasColumn& column : atlas.columns) table.head.push_back(mathtext_of(column.title));
  bool edges = false;
  for (std::size_t r = 0; r < atlas.rows.size(); ++r) {
    std::vector<Cell> cells = {{atlas.rows[r].name, ""},
                               {whole(first_of(atlas.cells[r], &AtlasCell::state_size)), ""}};
    for (const AtlasCell& cell : atlas.cells[r]) {
      const bool edge = cell.state == CellState::value && !cell.edge.empty();
      edges = edges || edge;
      cells.push_back({cell_text(cell) + (edge ? "$^*$" : ""),
                       cell.state == CellState::value ? interval_of(cell.row) : ""});
    }
    table.rows.push_back(std::move(cells));
  }
  std::vector<std::string> metrics;
  for (const AtlasColumn& column : atlas.columns)
    metrics.push_back(fmt::format("{}: {}", mathtext_of(column.title), column.metric.axis));
  table.caption = fmt::format(
      "Medians over seeds at the rate that was best on validation data, with their intervals.{} Cells at chance, or no better than a shortcut, are no results; -- was not asked.",
      edges ? " $^*$: the best rate lies at the edge of its grid." : "");
  table.notes = fmt::format("{}.", fmt::join(metrics, ". "));
  table.label = label.empty() ? "tab:atlas" : label;
  return table;
}

// --- the page

Json data_of(const Atlas& atlas, const ReportInput& input) {
  Json data;
  data["study"] = input.study_path;
  data["columns"] = data["rows"] = data["cells"] = Json::array();
  for (const AtlasColumn& column : atlas.columns)
    data["columns"].push_back({{"title", column.title},
                               {"where", column.where},
                               {"metric", plain_of(column.metric.axis)},
                               {"loss", column.metric.is_loss},
                               {"chance", number(column.chance)},
                               {"shortcut", number(column.shortcut)}});
  RecordList runs;
  for (std::size_t r = 0; r < atlas.rows.size(); ++r) {
    const AtlasRow& row = atlas.rows[r];
    data["rows"].push_back({{"name", plain_of(row.name)},
                            {"label", row.base},
                            {"memory", row.memory},
                            {"family", row.family},
                            {"mine", row.mine}});
    Json cells = Json::array();
    for (const AtlasCell& cell : atlas.cells[r]) {
      Json one = facts_of(cell);
      one["runs"] = {runs.size(), runs.size() + cell.runs.size()};
      runs.insert(runs.end(), cell.runs.begin(), cell.runs.end());
      cells.push_back(one);
    }
    data["cells"].push_back(cells);
  }
  data.update(curves_data(runs));
  data["ranks"] = data["places"] = Json::array();
  for (std::size_t a = 0; a < atlas.columns.size(); ++a)
    for (std::size_t b = 0; b < a; ++b)
      if (const RankCorrelation rho = atlas.agreement(a, b); !std::isnan(rho.value))
        data["ranks"].push_back({a, b, rho.value, number(rho.lo), number(rho.hi), rho.n});
  std::string told_by;
  for (const AtlasPlace& place : atlas_places(atlas, told_by)) {
    Json neighbours = Json::array();
    for (const auto& [row, difference, corrected, told] : place.neighbours)
      neighbours.push_back({{"row", row},
                            {"difference", number(difference.summary.median)},
                            {"lo", number(difference.summary.lo)},
                            {"hi", number(difference.summary.hi)},
                            {"wins", difference.wins},
                            {"n", difference.summary.n},
                            {"told", told}});
    data["places"].push_back({{"row", place.row},
                              {"column", place.column},
                              {"place", place.place},
                              {"of", place.of},
                              {"otherwise", atlas.cells[place.row][place.column].otherwise},
                              {"neighbours", neighbours}});
  }
  data["told_by"] = told_by;
  return data;
}

std::string count_text(const Atlas& atlas) {
  std::map<CellState, std::size_t> counts;
  std::size_t edges = 0, asked = 0;
  for (const auto& row : atlas.cells)
    for (const AtlasCell& cell : row) {
      ++counts[cell.state];
      asked += cell.state != CellState::not_asked;
      edges += cell.state == CellState::value && !cell.edge.empty();
    }
  std::vector<std::string> others;
  for (const CellState state : {CellState::at_chance, CellState::by_shortcut, CellState::diverged,
                                CellState::failed, CellState::missing})
    if (counts[state] > 0)
      others.push_back(fmt::format("{} {}", counts[state],
                                   state == CellState::missing ? "not yet trained" : to_text(state)));
  std::string text = fmt::format("{} by {}: {} of {} cells have a result{}{}.",
                                 plural(atlas.rows.size(), "row"), plural(atlas.columns.size(), "setting"),
                                 counts[CellState::value], asked, others.empty() ? "" : "; ", listed(others));
  if (edges > 0)
    text += fmt::format(
        " In {} of them the best learning rate lies at the edge of its grid (*): a better one may lie beyond.",
        edges);
  return text;
}

std::string grid_text(const Atlas& atlas, const ReportInput& input) {
  std::string text =
      "<section id=\"grid\" aria-labelledby=\"grid-heading\">\n<h2 id=\"grid-heading\">What every memory can do</h2>\n"
      "<div class=\"tools screen\" hidden>\n<div><label for=\"filter\">Filter: words of a row</label><input id=\"filter\" type=\"search\" "
      "autocomplete=\"off\"></div>\n<div><label for=\"family\">Family</label><select id=\"family\"><option value=\"\">any "
      "family</option>";
  std::set<std::string> families;
  for (const AtlasRow& row : atlas.rows) families.insert(row.family);
  families.erase("");
  for (const std::string& family : families) text += fmt::format("<option>{}</option>", html(family));
  text +=
      "</select></div>\n<div><label for=\"view\">Cells show</label><select id=\"view\"></select></div>\n"
      "<button type=\"button\" class=\"tool\" data-copy=\"grid-table\">Copy the table as CSV</button>\n"
      "<button type=\"button\" class=\"tool\" data-copy=\"atlas-tex\">Copy it as LaTeX</button>\n</div>\n"
      "<p class=\"soft\"><span id=\"count\" role=\"status\"></span><span class=\"screen\" hidden> The heads sort; a cell shows its curves and "
      "the command that trains it.</span></p>\n<p id=\"said\" class=\"visually-hidden\" role=\"status\"></p>\n"
      "<div class=\"scroll\"><table id=\"grid-table\">\n<caption>Medians over seeds at the rate of the lowest median validation loss, and "
      "their intervals. Columns say their task, what is measured of it and what guessing reaches.</caption>\n<thead><tr>";
  const auto head = [&](const std::string& inside, const std::string& look, const std::string& title) {
    text += fmt::format("<th scope=\"col\"{}{}><button type=\"button\">{}</button></th>", look,
                        title.empty() ? "" : fmt::format(" title=\"{}\"", html(title)), inside);
  };
  head("Memory", " class=\"name\"", "");
  head("Family", "", "What a token does to what a memory holds");
  head("State", " class=\"n\"",
       "Floats kept per sequence at inference, in the first setting that was trained");
  head("Parameters", " class=\"n\"", "Of the whole model, in the first setting that was trained");
  for (const AtlasColumn& column : atlas.columns) {
    const auto summary = input.tasks.find(column.task);
    head(fmt::format(
             "{}<br><small>{}{}</small>", html(column.title), html(plain_of(column.metric.axis)),
             (std::isnan(column.chance) ? "" : fmt::format("; chance {:.3g}", column.chance)) +
                 (std::isnan(column.shortcut) ? "" : fmt::format("; shortcut {:.3g}", column.shortcut))),
         " class=\"n\"", summary == input.tasks.end() ? "" : summary->second);
  }
  text += "</tr></thead>\n<tbody>\n";
  for (std::size_t r = 0; r < atlas.rows.size(); ++r) {
    const AtlasRow& row = atlas.rows[r];
    text += fmt::format(
        "<tr{}><th scope=\"row\" class=\"name\">{}</th><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>",
        row.mine ? " class=\"mine\"" : "", html_of(row.name), html(row.family),
        whole(first_of(atlas.cells[r], &AtlasCell::state_size)),
        whole(first_of(atlas.cells[r], &AtlasCell::parameters)));
    for (const AtlasCell& cell : atlas.cells[r]) {
      const bool value = cell.state == CellState::value;
      text += fmt::format(
          "<td class=\"n cell{}\">{}{}{}</td>", value ? "" : " none", html_of(cell_text(cell)),
          value && !cell.edge.empty() ? "*" : "",
          value && cell.row.n > 1 ? fmt::format(" <small>{}</small>", html(interval_of(cell.row))) : "");
    }
    text += "</tr>\n";
  }
  return text +
         "</tbody></table></div>\n<div id=\"curve\" role=\"region\" aria-label=\"One cell\" hidden></div>\n</section>\n";
}

std::string page_of(const Atlas& atlas, const ReportInput& input) {
  const RecordList& records = atlas.prepared.records;
  std::string body = fmt::format("<header>\n<h1>{}</h1>\n<p class=\"lead\">{}</p>\n", html_of(input.title),
                                 html(count_text(atlas)));
  if (const std::string text = semantics_text(records); !text.empty())
    body += fmt::format("<p class=\"warning\" role=\"note\">{}</p>\n", html_of(text));
  body +=
      "<nav aria-label=\"Sections\"><ul><li><a href=\"#grid\">Table</a></li><li><a href=\"#state\">Against the state</a></li><li><a "
      "href=\"#provenance\">Provenance</a></li><li><a href=\"#commands\">Commands</a></li></ul></nav>\n</header>\n<main>\n";
  if (!input.mine.empty())
    body +=
        "<section aria-labelledby=\"mine\">\n<h2 id=\"mine\">Where yours stands</h2>\n<p class=\"soft\">Differences are yours minus the "
        "neighbour's, by the same seeds: median, interval and the seeds in which yours is better. <span id=\"told-by\"></span></p>\n"
        "<div class=\"scroll\"><table id=\"mine-table\"></table></div>\n</section>\n";
  body += grid_text(atlas, input);
  body +=
      "<section id=\"state\" aria-labelledby=\"state-heading\">\n<h2 id=\"state-heading\">Against the state</h2>\n<div class=\"tools screen\" "
      "hidden><div><label for=\"setting\">Setting</label><select id=\"setting\"></select></div></div>\n<figure><div id=\"front\" "
      "class=\"panels\"></div>\n<figcaption>A point a row with a result: floats of its state and its median. The line is the front: no row "
      "has less state and does better. States that grow with the sequence count at its length.</figcaption></figure>\n</section>\n";
  body +=
      "<section id=\"ranks\" aria-labelledby=\"ranks-heading\">\n<h2 id=\"ranks-heading\">Which settings say the same</h2>\n<p class=\"soft "
      "screen\" hidden><button type=\"button\" class=\"tool\" data-copy=\"rank-table\">Copy as CSV</button></p>\n<div class=\"scroll\"><table "
      "id=\"rank-table\"></table></div>\n<p class=\"soft\">Spearman's rank correlation of memories between two settings, its 95 % interval "
      "(Bonett and Wright 2000) and the number of rows that have both, from four on. Cells at chance or by shortcut share the last rank.</p>\n</section>\n";
  body += provenance_text(records, input.study_file) + commands_text(input);
  body += fmt::format(
      "<details><summary>The table for a paper (LaTeX)</summary><pre id=\"atlas-tex\">{}</pre></details>\n</main>\n",
      html(latex_table(table_of(atlas, ""))));
  return filled_page("atlas", plain_of(input.title), body, data_of(atlas, input));
}

}  // namespace

std::string atlas_text(LabelledRecords rows, const FigureOptions& options, const ReportInput& input,
                       std::optional<TableFormat> format, std::ostream& notes) {
  const Atlas atlas = make_atlas(rows, options, input, notes);
  if (!format) return page_of(atlas, input);
  notes << count_text(atlas) << '\n';
  switch (*format) {
    case TableFormat::csv:
      return csv_of(atlas);
    case TableFormat::latex:
      return latex_table(table_of(atlas, options.label));
    case TableFormat::markdown:
      return markdown_table(table_of(atlas, options.label));
  }
  return "";
}

}  // namespace crosstalk

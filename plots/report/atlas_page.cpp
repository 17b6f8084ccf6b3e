// The atlas as a page, and as a table: CSV with all that is known of a cell, LaTeX and Markdown of values and intervals.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

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
std::string csv_number(double value) { return std::isnan(value) ? "" : fmt::format("{}", value); }
/// State and parameters stand in a row's head: those of its first cell that has them.
double first_of(const std::vector<AtlasCell>& cells, double AtlasCell::*what) {
  for (const AtlasCell& cell : cells)
    if (!std::isnan(cell.*what)) return cell.*what;
  return kNone;
}
std::string whole(double value) { return std::isnan(value) ? "" : fmt::format("{:.0f}", value); }

std::string csv_of(const Atlas& atlas) {
  std::string text =
      "row,label,memory,layer,family,column,task,settings,metric,state,value,lo,hi,n,verdict,chance,learning_rate,edge,rates_tried,"
      "rates_solved,rate_from,rate_to,ms_per_step,state_size,parameters\n";
  for (std::size_t r = 0; r < atlas.rows.size(); ++r)
    for (std::size_t c = 0; c < atlas.columns.size(); ++c) {
      const AtlasRow& row = atlas.rows[r];
      const AtlasColumn& column = atlas.columns[c];
      const AtlasCell& cell = atlas.cells[r][c];
      std::vector<std::string> settings;
      for (const auto& [key, value] : column.where) settings.push_back(fmt::format("{}={}", key, value));
      const bool has = cell.state == CellState::value || cell.state == CellState::at_chance;
      const bool ran = has || cell.state == CellState::diverged;
      const auto of = [&](double value) { return has ? csv_number(value) : std::string(); };
      const auto count = [&](int value) { return ran && cell.window.tried > 0 ? fmt::format("{}", value) : ""; };
      std::vector<std::string> fields = {row.label,
                                         row.base,
                                         row.memory,
                                         cell.runs.empty()
                                             ? (row.bare ? "bare" : "")
                                             : config_text(*cell.runs.front(), "model.layer").value_or("bare"),
                                         row.family,
                                         column.title,
                                         column.task,
                                         fmt::format("{}", fmt::join(settings, ";")),
                                         column.metric.name,
                                         to_text(cell.state),
                                         of(cell.row.median),
                                         of(cell.row.lo),
                                         of(cell.row.hi),
                                         ran ? fmt::format("{}", cell.row.n) : "",
                                         cell.verdict,
                                         csv_number(column.chance),
                                         csv_number(cell.rate),
                                         cell.edge,
                                         count(cell.window.tried),
                                         count(cell.window.good),
                                         csv_number(cell.window.smallest),
                                         csv_number(cell.window.largest),
                                         csv_number(cell.milliseconds),
                                         csv_number(cell.state_size),
                                         csv_number(cell.parameters)};
      for (std::string& field : fields) field = csv_field(field);
      text += fmt::format("{}\n", fmt::join(fields, ","));
    }
  return text;
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
      "Medians over seeds at the rate that was best on validation data, with their intervals.{} Cells at chance are no results; -- was not asked.",
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
                               {"chance", number(column.chance)}});
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
      Json one = {{"is", to_text(cell.state)}};
      if (!cell.runs.empty()) {
        const auto layer = config_text(*cell.runs.front(), "model.layer");
        one.update(Json{{"v", number(cell.row.median)},
                        {"lo", number(cell.row.lo)},
                        {"hi", number(cell.row.hi)},
                        {"n", cell.row.n},
                        {"verdict", cell.verdict},
                        {"rate", number(cell.rate)},
                        {"edge", cell.edge},
                        {"window",
                         {cell.window.tried, cell.window.good, number(cell.window.smallest),
                          number(cell.window.largest)}},
                        {"ms", number(cell.milliseconds)},
                        {"size", number(cell.state_size)},
                        {"parameters", number(cell.parameters)},
                        {"layer", layer ? Json(*layer) : Json(nullptr)},
                        {"runs", {runs.size(), runs.size() + cell.runs.size()}}});
        runs.insert(runs.end(), cell.runs.begin(), cell.runs.end());
      }
      cells.push_back(one);
    }
    data["cells"].push_back(cells);
  }
  data.update(curves_data(runs));
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
  for (const CellState state :
       {CellState::at_chance, CellState::diverged, CellState::failed, CellState::missing})
    if (counts[state] > 0)
      others.push_back(
          fmt::format("{} {}", counts[state], state == CellState::missing ? "not yet trained" : to_text(state)));
  std::string text =
      fmt::format("{} by {}: {} of {} cells have a result{}{}.", plural(atlas.rows.size(), "row"),
                  plural(atlas.columns.size(), "setting"), counts[CellState::value], asked,
                  others.empty() ? "" : "; ", listed(others));
  if (edges > 0)
    text += fmt::format(
        " In {} of them the best learning rate lies at the edge of its grid (*): a better one may lie beyond.", edges);
  return text;
}

std::string grid_text(const Atlas& atlas, const ReportInput& input) {
  std::string text =
      "<section id=\"grid\" aria-labelledby=\"grid-heading\">\n<h2 id=\"grid-heading\">What every memory can do</h2>\n"
      "<div class=\"tools screen\" hidden>\n<div><label for=\"filter\">Filter: words of a row</label><input id=\"filter\" type=\"search\" "
      "autocomplete=\"off\"></div>\n<div><label for=\"family\">A token</label><select id=\"family\"><option value=\"\">any "
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
  head("State", " class=\"n\"", "Floats kept per sequence at inference, in the first setting that was trained");
  head("Parameters", " class=\"n\"", "Of the whole model, in the first setting that was trained");
  for (const AtlasColumn& column : atlas.columns) {
    const auto summary = input.tasks.find(column.task);
    head(fmt::format("{}<br><small>{}{}</small>", html(column.title), html(plain_of(column.metric.axis)),
                     std::isnan(column.chance) ? "" : fmt::format("; chance {:.3g}", column.chance)),
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
      text += fmt::format("<td class=\"n cell{}\">{}{}{}</td>", value ? "" : " none",
                          html_of(cell_text(cell)), value && !cell.edge.empty() ? "*" : "",
                          value && cell.row.n > 1 ? fmt::format(" <small>{}</small>", html(interval_of(cell.row))) : "");
    }
    text += "</tr>\n";
  }
  return text + "</tbody></table></div>\n<div id=\"curve\" role=\"region\" aria-label=\"One cell\" hidden></div>\n</section>\n";
}

std::string agreement_text(const Atlas& atlas) {
  std::string text =
      "<section aria-labelledby=\"ranks\">\n<h2 id=\"ranks\">Which settings say the same</h2>\n"
      "<p class=\"soft screen\" hidden><button type=\"button\" class=\"tool\" data-copy=\"rank-table\">Copy as CSV</button></p>\n"
      "<div class=\"scroll\"><table id=\"rank-table\">\n<caption>Spearman's rank correlation of memories between two settings, its 95 % "
      "interval (Bonett and Wright 2000) and the number of rows that have both; cells at chance share the last rank.</caption>\n"
      "<thead><tr><td></td>";
  for (const AtlasColumn& column : atlas.columns)
    text += fmt::format("<th scope=\"col\">{}</th>", html(column.title));
  text += "</tr></thead>\n<tbody>\n";
  bool any = false;
  for (std::size_t a = 0; a < atlas.columns.size(); ++a) {
    text += fmt::format("<tr><th scope=\"row\" class=\"name\">{}</th>", html(atlas.columns[a].title));
    for (std::size_t b = 0; b < atlas.columns.size(); ++b) {
      const RankCorrelation rho = a == b ? RankCorrelation{0, kNone, kNone, kNone} : atlas.agreement(a, b);
      any = any || !std::isnan(rho.value);
      text += std::isnan(rho.value)
                  ? "<td></td>"
                  : fmt::format("<td class=\"n\" style=\"background:rgb({} 114 178 / {:.2f})\">{:.2f} <small>[{:.2f}, {:.2f}] {}</small></td>",
                                rho.value < 0 ? 213 : 0, 0.4 * std::abs(rho.value), rho.value, rho.lo, rho.hi,
                                rho.n);
    }
    text += "</tr>\n";
  }
  return any ? text + "</tbody></table></div>\n</section>\n" : "";
}

std::string places_text(const Atlas& atlas) {
  std::string told_by;
  const std::vector<AtlasPlace> places = atlas_places(atlas, told_by);
  if (places.empty()) return "";
  std::string text = fmt::format(
      "<section aria-labelledby=\"mine\">\n<h2 id=\"mine\">Where yours stands</h2>\n<p class=\"soft\">Differences are yours minus the "
      "neighbour's, by the same seeds: median, interval and the seeds in which yours is better. {}</p>\n<div class=\"scroll\"><table "
      "id=\"mine-table\">\n<thead><tr><th scope=\"col\">Memory</th><th scope=\"col\">Setting</th><th scope=\"col\">Value</th><th "
      "scope=\"col\">Place</th><th scope=\"col\">Next better and next worse</th></tr></thead>\n<tbody>\n",
      html(told_by));
  for (const AtlasPlace& place : places) {
    const AtlasCell& cell = atlas.cells[place.row][place.column];
    std::vector<std::string> neighbours;
    for (const AtlasPlace::Neighbour& one : place.neighbours)
      neighbours.push_back(fmt::format(
          "{}{} {:+.3g} [{:+.3g}, {:+.3g}], {}/{}{}", html_of(atlas.rows[one.row].name),
          atlas.cells[one.row][place.column].state == CellState::at_chance ? " (at chance)" : "",
          one.difference.summary.median, one.difference.summary.lo, one.difference.summary.hi,
          one.difference.wins, one.difference.summary.n, one.told ? ", told from 0" : ""));
    const bool value = cell.state == CellState::value;
    text += fmt::format(
        "<tr><th scope=\"row\">{}</th><td>{}{}</td><td>{} {}</td><td>{}</td><td>{}</td></tr>\n",
        html_of(atlas.rows[place.row].name), html(atlas.columns[place.column].title),
        cell.otherwise.empty()
            ? ""
            : fmt::format("<br><small class=\"diverged\">trained otherwise: {}</small>", html(cell.otherwise)),
        html_of(cell_text(cell)), value ? html(interval_of(cell.row)) : "",
        value ? fmt::format("{} of {}", place.place, place.of) : "none", fmt::join(neighbours, "<br>"));
  }
  return text + "</tbody></table></div>\n</section>\n";
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
  body += places_text(atlas) + grid_text(atlas, input);
  body +=
      "<section id=\"state\" aria-labelledby=\"state-heading\">\n<h2 id=\"state-heading\">Against the state</h2>\n<div class=\"tools screen\" "
      "hidden><div><label for=\"setting\">Setting</label><select id=\"setting\"></select></div></div>\n<figure><div id=\"front\" "
      "class=\"panels\"></div>\n<figcaption>A point a row with a result: floats of its state and its median. The line is the front: no row "
      "has less state and does better. States that grow with the sequence count at its length.</figcaption></figure>\n</section>\n";
  body += agreement_text(atlas) + provenance_text(records, input.study_file) + commands_text(input);
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
    case TableFormat::csv: return csv_of(atlas);
    case TableFormat::latex: return latex_table(table_of(atlas, options.label));
    case TableFormat::markdown: return markdown_table(table_of(atlas, options.label));
  }
  return "";
}

}  // namespace crosstalk

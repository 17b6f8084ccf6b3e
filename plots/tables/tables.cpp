// Tables of the same numbers as the figures: LaTeX (booktabs), Markdown, CSV.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <set>
#include <stdexcept>

#include "plots/drawing/drawing.h"
#include "plots/drawing/prepare.h"
#include "plots/drawing/window.h"
#include "plots/kinds/figure_file.h"
#include "plots/tables/latex.h"
#include "plots/tables/mad_table.h"
#include "plots/tables/table_text.h"
#include "results/csv.h"

namespace crosstalk {
namespace {

/// Whether a row belongs to a line of the legend, and to no overlay.
bool styles_line(const Drawing& drawing, const FigureRow& row) {
  return std::ranges::any_of(drawing.lines, [&](const LineEntry& line) { return line.label == row.label; });
}

/// Makes bold what is best of its column among the rows of one group, beyond doubt; a sentence that says by what. `values`: of
/// rows and columns, null where there is none.
std::string mark_best(Table& table, const std::vector<std::vector<const FigureRow*>>& values,
                      const std::vector<std::string>& groups, bool smaller) {
  std::vector<std::vector<Contender>> points;
  std::vector<std::vector<Cell*>> cells;
  for (std::size_t column = 0; !values.empty() && column < values[0].size(); ++column) {
    std::map<std::string, std::size_t> of_group;
    for (std::size_t row = 0; row < values.size(); ++row) {
      if (values[row][column] == nullptr) continue;
      const auto [at, is_new] = of_group.emplace(groups[row], points.size());
      if (is_new) points.emplace_back(), cells.emplace_back();
      points[at->second].push_back({values[row][column]->seeds, values[row][column]->solved});
      cells[at->second].push_back(&table.rows[row][table.keys + column]);
    }
  }
  const BestOfPoints found = best_of_points(points, smaller);
  bool any = false;
  for (std::size_t point = 0; point < points.size(); ++point) {
    if (found.best[point] < 0) continue;
    Cell& best = *cells[point][static_cast<std::size_t>(found.best[point])];
    best.best = std::ranges::all_of(
        cells[point], [&](const Cell* cell) { return cell == &best || cell->text != best.text; });
    any = any || best.best;
  }
  if (found.comparisons == 0) return "";
  const std::string lacking = lacking_seeds(found.comparisons, found.most_pairs);
  if (!lacking.empty()) return fmt::format(" Nothing is bold: {}.", lacking);
  return fmt::format(" {} better than every other by the same seeds (signed-rank test, Holm over {}).",
                     any ? "Bold:" : "Nothing is bold: nothing is", found.comparisons);
}

std::string seeds_text(const std::vector<FigureRow>& rows) {
  SeedRange seeds;
  for (const FigureRow& row : rows) seeds.add(row.n);
  if (seeds.most <= 1) return "One seed.";
  return fmt::format("Median over {} seeds [{}].", seeds.text(), seeds.interval());
}

/// How the columns of a table's keys are called; in full where two would be called the same.
std::vector<std::string> heads_of(const std::vector<std::string>& keys) {
  std::map<std::string, int> times = {{"Memory", 1}};
  for (const std::string& key : keys) ++times[symbol_of(key)];
  std::vector<std::string> heads = {"Memory"};
  for (const std::string& key : keys)
    heads.push_back(times[symbol_of(key)] > 1 ? mathtext_of(key) : symbol_of(key));
  return heads;
}

/// The keys of --by that have a column; that of the label stands first in any table.
std::vector<std::string> key_columns(const ByColumns& by) {
  std::vector<std::string> keys = by.keys;
  std::erase(keys, "label");
  return keys;
}

/// What a line is of: its memory, with how many runs diverged, and its value of each key. Seeds stand in the caption.
std::vector<Cell> name_cells(const LineEntry& line, const Prepared& prepared) {
  const auto name = prepared.by.names.find(line.label);
  SeedCount count = line.count;
  count.expected = 0;
  std::vector<Cell> cells = {
      {legend_name(name == prepared.by.names.end() ? prepared.styles.at(line.label).name : name->second, "",
                   count),
       "", false}};
  const auto values = prepared.by.values.find(line.label);
  for (std::size_t i = 0; i < prepared.by.keys.size(); ++i)
    if (prepared.by.keys[i] != "label")
      cells.push_back({values == prepared.by.values.end() ? "" : mathtext_of(values->second[i]), "", false});
  return cells;
}

/// Which rows are held against each other: those of one task.
std::string group_of(const std::string& label, const ByColumns& by) {
  std::string group;
  const auto values = by.values.find(label);
  for (std::size_t i = 0; i < by.keys.size() && values != by.values.end(); ++i)
    if (by.keys[i].starts_with("task.")) group += values->second[i] + '\n';
  return group;
}

/// What stands around the memories of language models: "Layer: published (GLA, KDA), bare (Softmax)." Nothing
/// where no record says it, or where a column of --by does.
std::string layers_text(const Prepared& prepared) {
  const std::string key = "model.layer";
  if (std::ranges::count(prepared.by.keys, key) > 0) return "";
  std::map<std::string, std::set<std::string>> labels;  // of each layer
  for (const Record* record : prepared.records)
    if (config_text(*record, "model.name") == "language")
      if (const auto layer = config_text(*record, key)) labels[*layer].insert(record->label);
  if (labels.empty()) return "";
  std::vector<std::string> texts;
  for (auto layer = labels.rbegin(); layer != labels.rend(); ++layer) {
    std::set<std::string> names;
    for (const std::string& label : layer->second) names.insert(prepared.styles.at(label).name);
    texts.push_back(labels.size() == 1 ? layer->first
                                       : fmt::format("{} ({})", layer->first, fmt::join(names, ", ")));
  }
  return fmt::format(" Layer: {}.", fmt::join(texts, ", "));
}

constexpr std::size_t kMostChosen = 3;

/// What --best took: " Chosen: DeltaNet: 0.001; GLA: 0.001 or 0.003."; of several keys "0.001 and 0.1".
std::string chosen_text(const Prepared& prepared, const std::vector<std::string>& keys) {
  std::map<std::pair<std::size_t, std::string>, std::set<std::string>> taken;  // by rank and name of the line
  for (const Record* record : results_of(prepared.records)) {
    std::vector<std::string> values;
    for (const std::string& key : keys) values.push_back(config_text(*record, key).value_or("-"));
    const LabelStyle& style = prepared.styles.at(record->label);
    taken[{style.rank, style.name}].insert(fmt::format("{}", fmt::join(values, " and ")));
  }
  std::vector<std::string> texts;
  for (const auto& [line, values] : taken) {
    const std::vector<std::string> sorted = sorted_values({values.begin(), values.end()});
    texts.push_back(fmt::format("{}: {}", line.second,
                                sorted.size() <= kMostChosen ? fmt::format("{}", fmt::join(sorted, " or "))
                                : keys.size() == 1 ? fmt::format("{} to {}", sorted.front(), sorted.back())
                                                   : fmt::format("{} combinations", sorted.size())));
  }
  return texts.empty() ? "" : fmt::format(" Chosen: {}.", fmt::join(texts, "; "));
}

/// " Fewer than 5 seeds: GLA." of lines that lack some at a place.
std::string fewer_seeds_text(const Drawing& drawing, const Prepared& prepared) {
  std::set<std::string> names;
  int expected = 0;
  for (const LineEntry& line : drawing.lines) {
    if (!line.count.complete()) names.insert(prepared.styles.at(line.label).name);
    expected = std::max(expected, line.count.expected);
  }
  return names.empty() ? "" : fmt::format(" Fewer than {} seeds: {}.", expected, fmt::join(names, ", "));
}

/// Of sequences in files, which eval.sequences cuts: how many were read at most.
std::string given_text(const RecordList& records) {
  std::set<std::string> counts;
  for (const Record* record : records)
    if (!config_text(*record, "task.folder").value_or("").empty())
      if (const auto count = config_text(*record, "eval.sequences")) counts.insert(*count);
  if (counts.empty()) return "";
  return fmt::format(
      " Read on the first {} sequences of a split in files, where it has as many (eval.sequences).",
      fmt::join(sorted_values({counts.begin(), counts.end()}), " or "));
}

/// Rows are lines, columns are values of x; a single place that is not `named` has the head x. Places 0, 1, .. have `names`.
Table cross_table(const Drawing& drawing, const Prepared& prepared, const std::vector<double>& places,
                  const std::string& x, bool smaller, bool named = true,
                  const std::vector<std::string>& names = {}) {
  Table table;
  table.head = heads_of(key_columns(prepared.by));
  table.turns = true;
  const bool sizes = std::ranges::any_of(drawing.lines, [&](const LineEntry& line) {
    return std::ranges::any_of(drawing.lines, [&](const LineEntry& other) {
      return line.label == other.label && line.d_dot != other.d_dot;
    });
  });
  if (sizes) table.head.push_back(symbol_of("d_dot"));
  table.keys = table.head.size();
  for (const double place : places)
    table.head.push_back(!names.empty()                 ? names.at(static_cast<std::size_t>(place))
                         : places.size() == 1 && !named ? x
                                                        : fmt::format("{} = {}", x, place));
  std::vector<std::vector<const FigureRow*>> values;
  std::vector<std::string> groups;
  std::vector<FigureRow> used;
  for (const LineEntry& line : drawing.lines) {
    groups.push_back(group_of(line.label, prepared.by));
    std::vector<Cell> cells = name_cells(line, prepared);
    if (sizes) cells.push_back({line.d_dot > 0 ? fmt::format("{}", line.d_dot) : "--", "", false});
    std::vector<const FigureRow*> own;
    for (const double place : places) {
      const auto row = std::ranges::find_if(drawing.rows, [&](const FigureRow& one) {
        return one.label == line.label && one.d_dot == line.d_dot && one.x == place;
      });
      own.push_back(row == drawing.rows.end() || row->n == 0 ? nullptr : &*row);
      cells.push_back({cell_number(own.back() == nullptr ? kNone : row->median),
                       row == drawing.rows.end() ? "" : interval_of(*row), false});
      if (own.back() != nullptr && !std::isnan(row->p)) {
        cells.back().best = row->told;
        cells.back().interval += fmt::format(" {}/{}", row->wins, row->n);
      }
      cells.back().at_chance =
          row != drawing.rows.end() && (2 * row->at_chance > row->n || row->both_at_chance);
      if (row != drawing.rows.end()) used.push_back(*row);
    }
    table.rows.push_back(std::move(cells));
    values.push_back(std::move(own));
  }
  const bool differences = std::ranges::any_of(used, [](const FigureRow& row) { return row.p >= 0; });
  const std::string bold = differences ? "" : mark_best(table, values, groups, smaller);
  table.caption = seeds_text(used) + bold;
  return table;
}

/// Memories without a state size too.
Drawing draw_capacity_table(const FigureInput& input) {
  Drawing drawing =
      draw_capacities(input, lines_over_loads(input, "capacity", Apart::d_dot_and_d_key), Against::state);
  drawing.needs = {kLoad};
  for (FigureRow& row : drawing.rows)
    if (row.x <= 0) row.x = kNone;
  return drawing;
}

/// Where lines have values, and where runs that are missing will have theirs, of an axis that is a key.
std::vector<double> axis_places(const Drawing& drawing, const Prepared& prepared) {
  std::set<double> places;
  const std::string key = drawing.x_column == "associations" ? "task.associations" : drawing.x_column;
  for (const Record* run : prepared.missing)
    if (const auto place = place_on_axis(*run, key)) places.insert(*place);
  for (const FigureRow& row : drawing.rows)
    if (styles_line(drawing, row)) places.insert(row.x);
  return {places.begin(), places.end()};
}

Drawing draw_final(const FigureInput& input) {
  const Metric metric = metric_of(input);
  const std::string x = final_key(input);
  const bool load = x == "task.associations";
  Drawing drawing = begin_drawing(kLinesTemplate, input.options, load ? "associations" : x);
  const bool has_place = std::ranges::any_of(
      input.records, [&](const Record* record) { return place_on_axis(*record, x).has_value(); });
  // Tasks without associations stand at one place; where some have the key, runs without it are left out.
  if (!load || has_place) drawing.needs = {x};
  drawing.metric = metric.name;
  auto lines = make_lines(
      input.records,
      [&](const Record& record) {
        const auto place = place_on_axis(record, x);
        return place || !load || has_place ? place : std::optional<double>(0);
      },
      has_place ? x : "", load ? Apart::d_dot : Apart::label);
  if (lines.empty()) throw std::invalid_argument("" + no_number(input.records, x));
  sort_lines(lines, input.styles);
  begin_lines(drawing, lines, input, has_place ? x : "");
  for (const RecordLine& line : lines)
    for (const auto& [place, records] : line.points)
      drawing.rows.push_back(row_of(line, place, records, metric));
  return drawing;
}

/// The figure's own words on what a capacity is; a table has no bars, but brackets.
std::string capacity_caption(const Drawing& drawing) {
  std::string caption = fmt::format("{}", fmt::join(drawing.footnotes, " "));
  const std::string bars = "Bars:";
  if (const auto at = caption.find(bars); at != std::string::npos)
    caption.replace(at, bars.size(), "In brackets:");
  return caption;
}

Table capacity_table(const Drawing& drawing, const Prepared& prepared) {
  Table table;
  table.head = heads_of(key_columns(prepared.by));
  for (const char* head : {"$d_{\\mathrm{dot}}$", "State size (floats)", "Capacity (associations)"})
    table.head.emplace_back(head);
  table.keys = table.head.size() - 1;
  std::vector<std::vector<const FigureRow*>> values;
  std::vector<std::string> groups;
  for (const FigureRow& row : drawing.rows) {
    const auto line =
        std::ranges::find_if(drawing.lines, [&](const LineEntry& one) { return one.label == row.label; });
    if (line == drawing.lines.end()) continue;
    const std::string bound =
        row.censored ? fmt::format("$\\geq$ {}", row.median) : fmt::format("{}", row.median);
    std::vector<Cell> cells = name_cells(*line, prepared);
    cells.push_back({row.d_dot > 0 ? fmt::format("{}", row.d_dot) : "--", "", false});
    cells.push_back({std::isfinite(row.x) ? fmt::format("{}", row.x) : "--", "", false});
    cells.push_back(
        {row.n > 0 ? bound : "",
         row.n > 0 ? fmt::format("[{}, {})", row.lo, std::isinf(row.hi) ? "inf" : fmt::format("{}", row.hi))
                   : "",
         false});
    table.rows.push_back(std::move(cells));
    values.push_back({row.n > 0 ? &row : nullptr});
    groups.push_back(group_of(row.label, prepared.by));
  }
  const std::string bold = mark_best(table, values, groups, false);
  table.caption = capacity_caption(drawing) + bold;
  return table;
}

Table windows_table(const Windows& windows, const Drawing& drawing, const Prepared& prepared) {
  Table table;
  table.head = heads_of(key_columns(prepared.by));
  table.keys = table.head.size();
  int tried = 0;
  std::vector<std::string> holes;
  for (const RateWindow& window : windows.rows) {
    tried = std::max(tried, window.tried);
    const auto inside = std::ranges::count_if(drawing.rows, [&](const FigureRow& row) {
      return row.label == window.line.label && row.n > 0 && row.x >= window.smallest &&
             row.x <= window.largest;
    });
    if (inside > window.good) holes.push_back(prepared.styles.at(window.line.label).name);
  }
  for (const std::string& head : {fmt::format("Rates of {}", tried), std::string("From"), std::string("To"),
                                  std::string("Best median"), std::string("At")})
    table.head.push_back(head);
  const auto rate = [](double value) { return std::isnan(value) ? "--" : fmt::format("{:g}", value); };
  for (const RateWindow& window : windows.rows) {
    std::vector<Cell> cells = name_cells(window.line, prepared);
    const std::string good = window.tried == tried ? fmt::format("{}", window.good)
                                                   : fmt::format("{} (of {})", window.good, window.tried);
    for (const std::string& text : {good, rate(window.smallest), rate(window.largest)})
      cells.push_back({text, "", false});
    cells.push_back({cell_number(window.best.median), interval_of(window.best), false});
    cells.push_back({rate(window.best.x), "", false});
    table.rows.push_back(std::move(cells));
  }
  table.caption = fmt::format(
      "Learning rates at which the median is at {} {}, and the best of these medians.{} {}. {}{}",
      windows.metric.is_loss ? "most" : "least", cell_number(windows.threshold),
      holes.empty()
          ? ""
          : fmt::format(" Not at all rates from the first to the last: {}.", fmt::join(holes, ", ")),
      windows.metric.axis, seeds_text(drawing.rows),
      windows.metric.name.starts_with("test")
          ? " The best is that of the test split; --best chooses by validation, and may take another rate."
          : "");
  return table;
}

/// The training length and its multiples, as far as they were read.
std::vector<double> tracking_places(const Drawing& drawing, const Prepared& prepared) {
  const std::vector<double> all = axis_places(drawing, prepared);
  std::vector<double> places;
  for (const auto& trained : drawing.figure["vertical"])
    for (double place = trained.get<double>(); !all.empty() && place <= all.back(); place *= 2)
      if (std::ranges::find(all, place) != all.end()) places.push_back(place);
  std::ranges::sort(places);
  places.erase(std::unique(places.begin(), places.end()), places.end());
  return places.empty() ? all : places;
}

}  // namespace

std::string cell_number(double value) {
  if (std::isinf(value)) return value > 0 ? "diverged" : "$-\\infty$";
  if (std::isnan(value)) return "";
  std::string text = fmt::format("{:.3g}", value);
  if (const auto e = text.find('e'); e != std::string::npos && text[e + 2] == '0')
    text.erase(e + 2, 1);  // 1e-05
  return text;
}

std::string interval_of(const FigureRow& row) {
  if (row.n < 2 || std::isnan(row.lo)) return "";
  const auto end = [](double value) {
    return std::isinf(value) ? fmt::format("{}", value) : cell_number(value);
  };
  return fmt::format("[{}, {}]", end(row.lo), end(row.hi));
}

std::string final_key(const FigureInput& shown) {
  FigureInput input{shown.of_all_panels != nullptr ? *shown.of_all_panels : shown.records, shown.styles,
                    shown.options, shown.notes};
  const char* load = "task.associations";
  const bool loads = std::ranges::any_of(
      input.records, [&](const Record* record) { return config_number(*record, load).has_value(); });
  if (loads && input.options.x.empty()) return load;
  const std::string varying = varying_key(input, true);
  return varying.empty() ? load : varying;
}

const std::vector<FigureKind>& table_kinds() {
  static const std::vector<FigureKind> kinds = {
      {"capacity", "Capacity of each memory, with d_dot and the size of its state"},
      {"updates", "Final loss of update rules at each number of associations (task reassign)"},
      {"mad", "MAD's score: accuracy on its six tasks, and the mean of them"},
      {"windows", "Learning rates at which each memory solves the task, from and to, and the best of them"},
      {"tracking", "Accuracy at the training length and its multiples (task swap)"},
      {"difference",
       "Each label minus one of them (--against), paired by seed: median, interval, seeds in which it is better"},
      {"final", "Final loss, or another metric, at each number of associations or pairs, length or width"}};
  return kinds;
}

std::string table_text(const std::string& name, const LabelledRecords& rows, const FigureOptions& options,
                       TableFormat format, std::ostream& notes) {
  FigureOptions plain = options;
  plain.theory = false;
  plain.published.clear();
  check_against(name, options);
  if (!options.x.empty() && name != "final" && name != "difference")
    throw std::invalid_argument(fmt::format(
        "--x {}: {} has fixed columns; the tables final and difference have a choice", options.x, name));
  const Prepared prepared = prepare(name, rows, plain);
  RecordList planned = prepared.records;  // by which it is known what varies
  planned.insert(planned.end(), prepared.missing.begin(), prepared.missing.end());
  const FigureInput input{prepared.records, prepared.styles, plain, notes,
                          prepared.missing.empty() ? nullptr : &planned};
  Drawing drawing = name == "capacity"  ? draw_capacity_table(input)
                    : name == "mad"     ? draw_mad(input)
                    : name == "windows" ? draw_windows(input)
                    : name == "tracking" || name == "updates" || name == "difference"
                        ? find_figure(name).draw(input)
                        : draw_final(input);
  check_left_out(drawing, prepared.records, notes);
  const std::size_t footnotes = drawing.footnotes.size();
  if (!plain.best.empty()) mark_selected(drawing, prepared, plain, notes);
  note_doubts(drawing, prepared, plain);
  const std::string told = correct_differences(drawing, false);
  if (name != "capacity" && name != "windows" && told.empty()) mark_chance(drawing, prepared, plain);
  if (format == TableFormat::csv) {
    for (std::size_t i = footnotes; i < drawing.footnotes.size(); ++i) notes << drawing.footnotes[i] << '\n';
    if (!told.empty()) notes << told << '\n';
    std::erase_if(drawing.rows, [&](const FigureRow& row) { return !styles_line(drawing, row); });
    return csv_text(drawing, prepared.by);
  }
  Table table;
  if (name == "capacity") {
    table = capacity_table(drawing, prepared);
  } else if (name == "tracking") {
    table = cross_table(drawing, prepared, tracking_places(drawing, prepared), "$T$", false);
    table.caption = "Accuracy after $T$ operations. " + table.caption;
  } else if (name == "windows") {
    table = windows_table(windows_of(input, drawing), drawing, prepared);
  } else if (name == "mad") {
    const Metric metric = mad_metric(input);
    table = cross_table(drawing, prepared, axis_places(drawing, prepared), "", metric.is_loss, true,
                        mad_columns());
    table.caption = fmt::format("{} on the tasks of MAD. {}", metric.axis, table.caption);
  } else {
    Metric metric = told.empty() ? metric_of(input) : window_metric(input);
    if (!told.empty()) metric.axis = drawing.figure["ylabel"];
    const std::vector<double> places = axis_places(drawing, prepared);
    const std::string x = name != "updates" ? final_key(input) : "task.associations";
    // A task without associations has one place, whose name says nothing.
    const bool loads =
        x == "task.associations" && (places.size() > 1 || (places.size() == 1 && places[0] > 0));
    const bool named = loads || places.size() > 1 || !plain.x.empty();
    table = cross_table(drawing, prepared, places, named ? symbol_of(x) : metric.axis, metric.is_loss, named);
    table.caption = fmt::format("{}{}. {}", metric.axis, loads ? " of $S$ associations" : "", table.caption);
    if (!told.empty())
      table.caption +=
          fmt::format(" {} Behind the interval: seeds in which it is better. {}", drawing.footnotes[0], told);
  }
  table.caption += fewer_seeds_text(drawing, prepared);
  for (std::size_t i = footnotes; i < drawing.footnotes.size() && name != "capacity"; ++i) {
    const std::string& one = drawing.footnotes[i];
    const bool doubt = std::ranges::find(drawing.doubts, one) != drawing.doubts.end();
    const bool unequal = format == TableFormat::latex && one.starts_with("Labels differ");
    (doubt || unequal || one.starts_with("Chance:") ? table.caption : table.notes) += " " + one;
  }
  if (!plain.best.empty()) table.notes += chosen_text(prepared, plain.best);
  table.caption += layers_text(prepared);
  table.notes += given_text(prepared.records);
  table.notes.erase(0, table.notes.find_first_not_of(' '));
  table.label = options.label.empty() ? "tab:" + name : options.label;
  return format == TableFormat::latex ? latex_table(table) : markdown_table(table);
}

}  // namespace crosstalk

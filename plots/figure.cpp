// Figures by name: choose records, shape them, write and render.
// SPDX-License-Identifier: Apache-2.0
#include "plots/figure.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <set>
#include <sstream>
#include <stdexcept>

#include "plots/drawing.h"
#include "plots/output.h"
#include "plots/prepare.h"

namespace crosstalk {
namespace {

struct Entry {
  FigureKind kind;
  Drawing (*draw)(const FigureInput&);
};

const std::vector<Entry>& entries() {
  static const std::vector<Entry> all = {
      {{"capacity", "Final loss against associations; each memory breaks down at its own d_dot"},
       draw_capacity},
      {{"updates", "Final loss against associations of update rules, with the sum rule's floor"},
       draw_updates},
      {{"accuracy", "Accuracy against pairs, width, state bytes or any other key (--x)"}, draw_accuracy},
      {{"curves", "Learning curves: evaluation loss against training step"}, draw_curves},
      {{"capacity-vs-ddot", "Capacity of each memory against d_dot, with the fitted slope"},
       draw_capacity_vs_ddot},
      {{"capacity-vs-state", "Capacity of each memory against the size of its state"},
       draw_capacity_vs_state},
      {{"capacity-vs-parameters", "Capacity of each memory against the parameters that it trains"},
       draw_capacity_vs_parameters},
      {{"tracking", "Accuracy against the number of operations before the query"}, draw_tracking},
      {{"length", "Loss at multiples of the training length"}, draw_length},
      {{"probe", "Squared error and recall of untrained memories (model.name = probe), beside theory"},
       draw_probe},
      {{"window", "Metric, share solved and gradient norm against the learning rate, the best rate marked"},
       draw_window},
      {{"errors", "Kinds of wrong answers: an old value of the key, another key's, never written, ..."},
       draw_errors}};
  return all;
}

const Entry& find_entry(const std::string& name) {
  std::vector<std::string> names;
  for (const Entry& entry : entries()) {
    if (entry.kind.name == name) return entry;
    names.push_back(entry.kind.name);
  }
  const std::string nearest = nearest_of(name, names);
  throw std::invalid_argument(fmt::format(
      "no figure \"{}\"{} (figures: {})", name,
      nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest), fmt::join(names, ", ")));
}

/// "figures/" -> "figures/capacity", "fig2.pdf" -> "fig2".
std::filesystem::path base_path(const std::filesystem::path& out, const std::string& name) {
  if (out.empty()) return name;
  if (!out.has_filename() || std::filesystem::is_directory(out)) return out / name;
  static const std::set<std::string> written = {".csv", ".py", ".pdf", ".png"};
  if (written.count(out.extension().string()) != 0 && out.has_stem()) return out.parent_path() / out.stem();
  return out;
}

/// One drawing, or one for each value of the facet's key.
Drawing draw_panels(const Entry& entry, const Prepared& prepared, const FigureOptions& options,
                    std::ostream& notes) {
  // Those with rows of panels make their columns themselves.
  if (options.facet.empty() || entry.draw == draw_probe || entry.draw == draw_window ||
      entry.draw == draw_errors)
    return entry.draw({prepared.records, prepared.styles, options, notes, &prepared.records});
  check_key(prepared.records, "--facet", options.facet);
  std::vector<std::string> values;
  for (const Record* record : prepared.records)
    if (const auto value = field_text(*record, options.facet)) values.push_back(*value);
  std::vector<std::pair<std::string, Drawing>> panels;
  constexpr std::size_t most = 12;
  values = sorted_values(values);
  if (values.size() > most)
    throw std::invalid_argument(
        fmt::format("--facet {}: {} values would make {} panels, and at most {} fit; "
                    "choose some: --where {}={},{}",
                    options.facet, values.size(), values.size(), most, options.facet, values[0], values[1]));
  std::vector<std::pair<std::string, std::vector<std::string>>> said;  // line -> panels
  for (const std::string& value : values) {
    RecordList part;  // not by choose_records(), to which commas and stars mean something
    for (const Record* record : prepared.records)
      if (const auto own = field_text(*record, options.facet); own && same_text(*own, value))
        part.push_back(record);
    std::stringstream own;
    panels.emplace_back(value, entry.draw({part, prepared.styles, options, own, &prepared.records}));
    for (std::string line; std::getline(own, line);) {
      auto known = std::find_if(said.begin(), said.end(), [&](const auto& one) { return one.first == line; });
      if (known == said.end()) known = said.insert(said.end(), {line, {}});
      if (known->second.empty() || known->second.back() != value) known->second.push_back(value);
    }
  }
  for (const auto& [line, where] : said)
    notes << (where.size() == values.size()
                  ? fmt::format("{}\n", line)
                  : fmt::format("{} = {}: {}\n", options.facet, fmt::join(where, ", "), line));
  return join_panels(std::move(panels), options.facet);
}

/// A tick at each place where there are few: those that an axis chooses for itself may miss them all.
void add_ticks(Drawing& drawing) {
  constexpr std::size_t kFew = 7;
  std::set<double> places;
  for (const FigureRow& row : drawing.rows)
    if (row.n > 0) places.insert(row.x);
  const bool few_on_log = drawing.figure["xscale"] == "log" && places.size() <= kFew;
  if (drawing.script == kLinesTemplate && (places.size() == 1 || few_on_log))
    drawing.figure["xticks"] = places;
}

}  // namespace

const std::vector<FigureKind>& figure_kinds() {
  static const std::vector<FigureKind> kinds = [] {
    std::vector<FigureKind> list;
    for (const Entry& entry : entries()) list.push_back(with_details(entry.kind));
    return list;
  }();
  return kinds;
}

const std::vector<Venue>& venues() {
  // Widths in inches, of the style files of 2024 and 2025.
  static const std::vector<Venue> all = {{"neurips", 5.5, 5.5},
                                         {"icml", 3.25, 6.75},
                                         {"iclr", 5.5, 5.5},
                                         {"acl", 3.03, 6.3},
                                         {"tmlr", 6.5, 6.5}};
  return all;
}

ComposedFigure compose_figure(const std::string& name, const LabelledRecords& rows,
                              const FigureOptions& options, std::ostream& notes) {
  const Entry& entry = find_entry(name);
  if (!options.x.empty() && name != "accuracy")
    throw std::invalid_argument(
        fmt::format("--x {}: only the figure accuracy has a choice of it", options.x));
  ComposedFigure made{prepare(name, rows, options), {}};
  made.drawing = draw_panels(entry, made.prepared, options, notes);
  Drawing& drawing = made.drawing;
  check_left_out(drawing, made.prepared.records, notes);
  if (!options.best.empty()) mark_selected(drawing, made.prepared, options, notes);
  note_still_falling(drawing, made.prepared);
  if (options.log_x) drawing.figure["xscale"] = "log";
  if (options.log_y && drawing.figure["yscale"] == "linear") {
    drawing.figure["yscale"] = "log";
    const auto [low, high] = value_range(drawing.rows, true);
    drawing.figure["ylim"] = {low, high};
  }
  if (options.log_x) {
    double least = kInfinity;
    for (const FigureRow& row : drawing.rows)
      if (row.x > 0) least = std::min(least, row.x);
    if (std::isfinite(least)) drawing.figure["xlim"] = {0.9 * least, drawing.figure["xlim"][1].get<double>()};
  }

  add_ticks(drawing);
  finish_footnotes(drawing, made.prepared.styles);
  if (!options.footnote) drawing.footnotes.clear();
  return made;
}

std::vector<std::filesystem::path> draw_figure(const std::string& name, const LabelledRecords& rows,
                                               const FigureOptions& options, std::ostream& notes) {
  const ComposedFigure made = compose_figure(name, rows, options, notes);
  const std::filesystem::path base = base_path(options.out, name);
  write_figure_files(base, csv_text(made.drawing, made.prepared.by),
                     styled(script_text(made.drawing, made.prepared.styles), options), notes);
  std::vector<std::filesystem::path> paths = {with_extension(base, ".csv"), with_extension(base, ".py")};
  for (auto& picture : render_figure(base, notes)) paths.push_back(std::move(picture));
  return paths;
}

}  // namespace crosstalk

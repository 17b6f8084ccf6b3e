// Figures by name: choose records, shape them, write and render.
// SPDX-License-Identifier: Apache-2.0
#include "plots/figure.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "plots/drawing/prepare.h"
#include "plots/kinds/figure_file.h"
#include "plots/output.h"

namespace crosstalk {
namespace {

/// "figures/" -> "figures/capacity", "fig2.pdf" -> "fig2".
std::filesystem::path base_path(const std::filesystem::path& out, const std::string& name) {
  if (out.empty()) return name;
  if (!out.has_filename() || std::filesystem::is_directory(out)) return out / name;
  static const std::set<std::string> written = {".csv", ".py", ".pdf", ".png"};
  if (written.count(out.extension().string()) != 0 && out.has_stem()) return out.parent_path() / out.stem();
  return out;
}

/// One drawing, or one for each value of the facet's key.
Drawing draw_panels(const Figure& figure, const Prepared& prepared, const FigureOptions& options,
                    std::ostream& notes) {
  // Those with rows of panels make their columns themselves.
  if (options.facet.empty() || figure.has_own_panels)
    return figure.draw({prepared.records, prepared.styles, options, notes, &prepared.records});
  check_key(prepared.records, "--facet", options.facet);
  std::vector<std::pair<std::string, Drawing>> panels;
  constexpr std::size_t most = 12;
  const auto parts = parts_by(prepared.records, options.facet);
  if (parts.size() > most)
    throw std::invalid_argument(fmt::format(
        "--facet {}: {} values would make {} panels, and at most {} fit; choose some: --where {}={},{}",
        options.facet, parts.size(), parts.size(), most, options.facet, parts[0].first, parts[1].first));
  std::vector<std::pair<std::string, std::vector<std::string>>> said;  // line -> panels
  for (const auto& [value, part] : parts) {
    std::stringstream own;
    panels.emplace_back(value, figure.draw({part, prepared.styles, options, own, &prepared.records}));
    for (std::string line; std::getline(own, line);) {
      auto known = std::ranges::find_if(said, [&](const auto& one) { return one.first == line; });
      if (known == said.end()) known = said.insert(said.end(), {line, {}});
      if (known->second.empty() || known->second.back() != value) known->second.push_back(value);
    }
  }
  for (const auto& [line, where] : said)
    notes << (where.size() == parts.size()
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
  if (drawing.script == kLinesTemplate &&
      places.size() == 1) {  // lines stand side by side there: no scale is true
    const double x = *places.begin(), aside = x == 0 ? 1 : 0.1 * std::abs(x);
    const bool log = drawing.figure["xscale"] != "linear";
    if (const auto label = drawing.figure["xlabel"].get<std::string>(); !label.empty())
      drawing.figure["xlabel"] = fmt::format("{} = {:g}", label, x);
    drawing.figure["xlim"] = log ? std::pair(x / 1.2, x * 1.2) : std::pair(x - aside, x + aside);
    drawing.figure["xticks"] = drawing.figure["vertical"] = std::set<double>();
    return;
  }
  const bool few_on_log = drawing.figure["xscale"] == "log" && places.size() <= kFew;
  if (drawing.script == kLinesTemplate && few_on_log) drawing.figure["xticks"] = places;
}

}  // namespace

const Figure& find_figure(const std::string& name) {
  std::vector<std::string> names;
  for (const Figure& figure : figure_files()) {
    if (figure.kind.name == name) return figure;
    names.push_back(figure.kind.name);
  }
  const std::string nearest = nearest_of(name, names);
  throw std::invalid_argument(fmt::format(
      "no figure \"{}\"{} (figures: {})", name,
      nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest), fmt::join(names, ", ")));
}

const std::vector<FigureKind>& figure_kinds() {
  static const std::vector<FigureKind> kinds = [] {
    std::vector<FigureKind> list;
    for (const Figure& figure : figure_files()) list.push_back(figure.kind);
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

std::vector<std::string> beside_studies(const RecordList& records, const FigureOptions& options) {
  if (options.published.empty() || options.studies.empty()) return {};
  PublishedPoint any;  // of the published file only its studies count
  any.head = options.published.front().head;
  std::vector<std::vector<Otherwise>> runs;
  for (const Record* record : records)
    if (record->status != RunStatus::failed) {
      any.label = record->label;
      runs.push_back(otherwise_than(*record, any, options.studies, true));
    }
  return otherwise_text(runs, "runs");
}

ComposedFigure compose_figure(const std::string& name, const LabelledRecords& rows,
                              const FigureOptions& options, std::ostream& notes) {
  const Figure& figure = find_figure(name);
  const bool of_state = options.x == "state_bytes" || options.x == "state_size";
  if (!options.x.empty() && name != "accuracy" && name != "difference" &&
      !(of_state && name == "capacity-vs-state") && !(options.x == "state_size" && name == "front"))
    throw std::invalid_argument(fmt::format(
        "--x {}: {} has a fixed x; the figures accuracy and difference have a choice, for losses too (--metric eval_loss){}",
        options.x, name, of_state ? ", and capacity-vs-state draws capacities against it" : ""));
  check_against(name, options);
  ComposedFigure made{prepare(name, rows, options), {}};
  made.drawing = draw_panels(figure, made.prepared, options, notes);
  Drawing& drawing = made.drawing;
  check_left_out(drawing, made.prepared.records, notes);
  if (!options.best.empty()) mark_selected(drawing, made.prepared, options, notes);
  note_doubts(drawing, made.prepared, options);
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

  if (std::string text = correct_differences(drawing, true); !text.empty())
    drawing.footnotes.push_back(std::move(text));
  add_ticks(drawing);
  finish_footnotes(drawing, made.prepared.styles);
  for (const std::string& sentence : beside_studies(made.prepared.records, options)) {
    drawing.footnotes.push_back(sentence);
    drawing.doubts.push_back(sentence);
    drawing.brief[sentence] = "Not all as published (caption).";
    notes << "warning: " << sentence << '\n';
  }
  return made;
}

std::vector<std::filesystem::path> draw_figure(const std::string& name, const LabelledRecords& rows,
                                               const FigureOptions& options, std::ostream& notes) {
  const ComposedFigure made = compose_figure(name, rows, options, notes);
  const std::filesystem::path base = base_path(options.out, name);
  const std::string line = options.footnote ? footnote_line(made.drawing, width_of(options)) : "";
  write_figure_files(base, csv_text(made.drawing, made.prepared.by),
                     styled(script_text(made.drawing, made.prepared.styles, line), options),
                     fmt::format("{}\n", fmt::join(made.drawing.footnotes, "\n")), notes);
  std::vector<std::filesystem::path> paths;
  for (const char* ending : {".csv", ".py"}) paths.push_back(with_extension(base, ending));
  for (auto& picture : render_figure(base, notes)) paths.push_back(std::move(picture));
  paths.push_back(with_extension(base, ".caption.txt"));
  return paths;
}

}  // namespace crosstalk

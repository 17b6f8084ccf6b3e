// Figures by name: choose records, shape them, write and render.
// SPDX-License-Identifier: Apache-2.0
#include "plots/figure.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "plots/drawing.h"
#include "plots/output.h"

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
      {{"curves", "Learning curves: evaluation loss against training step"}, draw_curves},
      {{"capacity-vs-ddot", "Capacity of each memory against d_dot, with the fitted slope"},
       draw_capacity_vs_ddot},
      {{"capacity-vs-state", "Capacity of each memory against the size of its state"},
       draw_capacity_vs_state},
      {{"tracking", "Accuracy against the number of operations before the read"}, draw_tracking},
      {{"length", "Loss at multiples of the training length"}, draw_length}};
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

}  // namespace

const std::vector<FigureKind>& figure_kinds() {
  static const std::vector<FigureKind> kinds = [] {
    std::vector<FigureKind> list;
    for (const Entry& entry : entries()) list.push_back(entry.kind);
    return list;
  }();
  return kinds;
}

std::vector<std::filesystem::path> draw_figure(const std::string& name, const LabelledRecords& rows,
                                               const FigureOptions& options, std::ostream& notes) {
  const std::map<std::string, Record>& records = rows.rows;
  const Entry& entry = find_entry(name);
  if (records.empty()) throw std::invalid_argument(fmt::format("{}: there are no records to draw", name));
  const RecordList chosen = choose_records(list_of(records), options.where);
  if (results_of(chosen).empty())
    throw std::invalid_argument(fmt::format("{}: all {} runs failed; nothing to draw", name, chosen.size()));
  // Colours come from all labels, so that a part of a study is drawn in the colours of the whole.
  std::set<std::string> labels;
  for (const auto& [id, record] : records) labels.insert(record.label);
  for (const AskedLabel& label : rows.labels) labels.insert(label.label);
  const auto styles = label_styles(labels);
  const Drawing drawing = entry.draw({chosen, styles, options, notes});

  const std::filesystem::path base = base_path(options.out, name);
  write_figure_files(base, csv_text(drawing), script_text(drawing), notes);
  std::vector<std::filesystem::path> paths = {with_extension(base, ".csv"), with_extension(base, ".py")};
  for (auto& picture : render_figure(base, notes)) paths.push_back(std::move(picture));
  return paths;
}

}  // namespace crosstalk

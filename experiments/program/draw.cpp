// What `plot` and `table` share.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "experiments/common/stores.h"
#include "experiments/common/text.h"
#include "experiments/inspect/evaluated_floor.h"
#include "experiments/program/replayed.h"
#include "experiments/training/memory_facts.h"
#include "kernels/base/text/names.h"
#include "kernels/base/text/options.h"
#include "models/rules/memory_law.h"
#include "models/rules/report.h"
#include "models/rules/rule_memory.h"
#include "results/csv.h"
#include "results/store/files.h"
#include "results/store/store.h"

namespace crosstalk::program {
namespace {

namespace fs = std::filesystem;

/// Operations a token of the memory's law, with the state and before; nothing where it has none as text.
std::optional<double> operations_of(const Record& record) {
  const auto number = [&](const char* key) { return config_number(record, key).value_or(0); };
  const bool language = config_text(record, "model.name") == "language";
  const double K = record.d_dot > 0 ? static_cast<double>(record.d_dot) : number("model.d_key"),
               V = language ? number("model.d_value") / std::max(1.0, number("model.heads"))
                            : number("task.values");
  const auto text = config_text(record, "memory.law");
  const Memory* memory = find_memory(config_text(record, "memory.name").value_or(""));
  if (K <= 0 || V <= 0 || memory == nullptr) return std::nullopt;
  if (text && !text->empty())
    return rules::operations_of(*rules::rule_of(*text, rules::numbers_of({})).law, K, V);
  if (memory->law.empty()) return std::nullopt;
  return rules::operations_of(*rules::study_law(*memory, {}), K, V);
}

/// --out without the extension that people tend to give.
fs::path base_of(const std::string& out) {
  static const std::vector<std::string> written = {".csv", ".py", ".pdf", ".png"};
  fs::path path = out;
  if (std::ranges::find(written, path.extension().string()) != written.end()) path.replace_extension();
  return path;
}

double width_of(const Arguments& arguments, const std::string& venue) {
  const std::string text = arguments.get("width");
  if (text.empty()) return 0;
  if (text == "text" || text == "column") {
    for (const Venue& one : venues())
      if (one.name == venue) return text == "text" ? one.text : one.column;
    throw UsageError(fmt::format("--width {}: of which --venue? Or give inches, such as 3.25", text));
  }
  const std::string number = text.ends_with("in") ? text.substr(0, text.size() - 2) : text;
  const double width = number_in(number).value_or(0);
  if (!(width >= 1 && width <= 40))
    throw UsageError(fmt::format("--width {}: inches from 1 to 40, such as 3.25 or 5.5", text));
  return width;
}

/// Whether --threshold changes anything; `figure` may be a table, or a report, which has figures of all kinds.
bool asks_what_is_solved(const std::string& figure) {
  if (figure == "report") return true;
  const auto& kinds = figure_kinds();
  return std::ranges::any_of(kinds, [&](const FigureKind& kind) {
    return kind.name == (figure == "windows" ? "window" : figure) && !kind.threshold.empty();
  });
}

}  // namespace

std::vector<CommandOption> drawing_options() {
  return {
      {"by", "KEY,KEY", "A line for each value of these keys, beside labels", true},
      {"best", "KEY,KEY", "Take the value of KEY with the best validation loss; shows the test split", true},
      best_by_option(),
      {"metric", "NAME", "What to show: eval_loss, test_loss, eval_accuracy, ... (default eval_loss)"},
      {"against", "LABEL",
       "Of 'difference': the label that the others are held against (default: the first)"},
      {"threshold", "X",
       "Median loss up to which a number of associations is solved (default: twice train.stop_loss)"},
      {"published", "CSV", "Overlay published points; literature: those that come with the program"},
      {"titles", "STUDY.toml", "Names and order of labels as in this study: for exports, which hold neither"},
      {"seeds", "N", "Seeds that every point should have (default: the most that any has)"},
      where_option(),
      store_option(),
      study_options()[0],
  };
}

FigureOptions figure_options(const Arguments& arguments, const std::string& figure) {
  FigureOptions options;
  options.out = base_of(arguments.get("out", figure));
  options.theory = !arguments.has("no-theory");
  options.memories = memory_facts();
  options.title = arguments.get("title");
  if (arguments.has("threshold") && !asks_what_is_solved(figure))
    throw UsageError(fmt::format("--threshold: {} does not ask what is solved; leave it out", figure));
  if (arguments.has("threshold")) options.threshold = arguments.number("threshold", 0, 0);
  options.expected_seeds = static_cast<int>(arguments.integer("seeds", 0, 1, 1 << 30));
  options.by = keys_of(arguments, "by");
  options.best = keys_of(arguments, "best");
  for (const std::string& key : options.best)
    if (std::ranges::find(options.by, key) != options.by.end())
      throw UsageError(
          fmt::format("--best {0} draws its best value alone, --by {0} all of them; leave one out", key));
  if (arguments.has("best-by") && options.best.empty())
    throw UsageError("--best-by: needs --best KEY, such as --best train.learning_rate");
  options.best_by = best_by_of(arguments);
  options.facet = arguments.get("facet");
  options.metric = arguments.get("metric");
  options.x = arguments.get("x");
  options.against = arguments.get("against");
  for (const std::string& axis : arguments.all("log")) (axis == "x" ? options.log_x : options.log_y) = true;
  options.venue = arguments.get("venue");
  if (!options.venue.empty() &&
      std::ranges::none_of(venues(), [&](const Venue& one) { return one.name == options.venue; })) {
    throw UsageError(
        fmt::format("--venue {}: {}", options.venue, suggestion(options.venue, names_of(venues()))));
  }
  options.width = width_of(arguments, options.venue);
  options.footnote = arguments.get("footnote", "on") == "on";
  options.evaluated_floor = evaluated_sum_rule_floor;
  options.operations_of = operations_of;
  options.answers = evaluated_answers();
  if (arguments.has("published")) {
    const std::string path = arguments.get("published");
    try {
      if (path == "literature") {
        options.published = default_published();
      } else {
        if (!fs::is_regular_file(path))
          throw UsageError(fmt::format(
              "--published {}: {}", path,
              fs::is_directory(path)
                  ? "is a folder; name a CSV file in it, or literature for the points that come with the program"
                  : "there is no such file"));
        options.published = read_published(path);
      }
      options.studies = replayed_studies(options.published);
    } catch (const std::invalid_argument& error) {
      throw UsageError(fmt::format("--published: {}", error.what()));
    }
  }
  return options;
}

namespace {

/// Gives labels the names and the order that a study has for them; others come after these.
void take_titles(LabelledRecords& rows, const std::string& path) {
  std::set<std::string> labels;
  for (const auto& [key, record] : rows.rows) labels.insert(record.label);
  std::vector<AskedLabel> named;
  for (const StudyLabel& label : study_named(path).labels)
    if (labels.erase(label.label) != 0) named.push_back({label.label, label.title, {}});
  if (named.empty())
    throw UsageError(fmt::format("--titles {}: it has none of the labels here, {}", path,
                                 join({labels.begin(), labels.end()}, ", ", " and ")));
  for (const AskedLabel& label : rows.labels)
    if (labels.count(label.label) != 0) named.push_back(label);
  rows.labels = std::move(named);
}

}  // namespace

LabelledRecords rows_to_draw(const std::vector<std::string>& names, const Arguments& arguments,
                             Console& console) {
  LabelledRecords rows = load_rows(names, arguments, console, true);
  if (rows.rows.empty())
    throw UsageError(
        fmt::format("no records in {}; 'crosstalk run' makes them", places_of(names, arguments)));
  if (arguments.has("titles")) take_titles(rows, arguments.get("titles"));
  return rows;
}

void with_notes(const std::string& what, Console& console,
                const std::function<void(std::ostream& notes)>& draw) {
  std::ostringstream notes;
  std::string wrong;
  try {
    draw(notes);
  } catch (const std::invalid_argument& problem) {
    wrong = problem.what();
  }
  if (const std::string said = notes.str(); !said.empty())
    print_plain(console, said.substr(0, said.find_last_not_of('\n') + 1));
  if (!wrong.empty()) throw UsageError(fmt::format("{}: {}", what, wrong));
}

void write_output(const fs::path& path, const std::string& text) {
  std::error_code error;
  const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (!fs::is_directory(folder, error))
    throw UsageError(fmt::format("--out {}: there is no folder \"{}\"", path.string(), folder.string()));
  if (fs::is_directory(path, error)) throw UsageError(fmt::format("--out {}: is a folder", path.string()));
  if (!fs::exists(path, error) || fs::is_regular_file(path, error))
    return write_whole(FileSystem::real(), fs::absolute(path), text);
  std::ofstream out(path, std::ios::binary);
  if (!(out << text << std::flush)) throw StoreError(fmt::format("{}: could not be written", path.string()));
}

void write_page(const fs::path& path, const std::string& page, const std::string& kind) {
  std::error_code error;
  if (fs::is_regular_file(path, error) && fs::file_size(path, error) > 0) {
    std::string head(4096, '\0');
    std::ifstream(path, std::ios::binary).read(head.data(), static_cast<std::streamsize>(head.size()));
    if (head.find(fmt::format("content=\"crosstalk {}\"", kind)) == std::string::npos)
      throw UsageError(
          fmt::format("--out {}: it exists and is no {}; give another name", path.string(), kind));
  }
  write_output(path, page);
}

}  // namespace crosstalk::program

// crosstalk plot: figures from stores. SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <sstream>

#include "experiments/program/exit_codes.h"
#include "experiments/program/stores.h"
#include "experiments/program/text.h"
#include "kernels/base/options.h"
#include "plots/figure.h"

namespace crosstalk::program {
namespace {

namespace fs = std::filesystem;

void check_figure(const std::string& name) {
  std::vector<std::string> names;
  for (const FigureKind& kind : figure_kinds()) names.push_back(kind.name);
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  const std::string near = nearest_name(name, names);
  throw UsageError(fmt::format(
      "unknown figure '{}'; {}", name,
      near.empty() ? "there are " + join(names, ", ", " and ") : fmt::format("did you mean '{}'?", near)));
}

LabelledRecords rows_of(const Arguments& arguments, Console& console) {
  LabelledRecords rows =
      load_rows({arguments.positional.begin() + 1, arguments.positional.end()}, arguments, console);
  if (rows.rows.empty())
    throw UsageError(
        fmt::format("no records in {}; 'crosstalk run' makes them",
                    join({arguments.positional.begin() + 1, arguments.positional.end()}, ", ", " and ")));
  return rows;
}

/// --out without the extension that people tend to give.
fs::path base_of(const std::string& out) {
  static constexpr std::array<const char*, 4> written = {".csv", ".py", ".pdf", ".png"};
  fs::path path = out;
  if (std::find(written.begin(), written.end(), path.extension().string()) != written.end())
    path.replace_extension();
  return path;
}

FigureOptions figure_options(const Arguments& arguments) {
  FigureOptions options;
  options.out = base_of(arguments.get("out", arguments.positional.at(0)));
  options.theory = !arguments.has("no-theory");
  options.title = arguments.get("title");
  options.threshold = arguments.number("threshold", options.threshold, 0);
  options.expected_seeds = static_cast<int>(arguments.integer("seeds", 0, 1, 1 << 30));
  if (arguments.has("published")) {
    options.published = arguments.get("published");
    if (!fs::is_regular_file(options.published))
      throw UsageError(fmt::format("--published {}: there is no such file", options.published.string()));
  }
  return options;
}

int run_plot(const Arguments& arguments, Console& console) {
  const std::string& figure = arguments.positional.at(0);
  check_figure(figure);
  const FigureOptions options = figure_options(arguments);
  const LabelledRecords rows = rows_of(arguments, console);
  std::error_code error;
  if (options.out.has_parent_path()) fs::create_directories(options.out.parent_path(), error);

  std::ostringstream notes;
  std::vector<fs::path> paths;
  std::string wrong;
  try {
    paths = draw_figure(figure, rows, options, notes);
  } catch (const std::invalid_argument& problem) {
    wrong = problem.what();
  } catch (const FigureWriteError& problem) {
    throw StoreError(fmt::format("plot {}: {}", figure, problem.what()));
  } catch (const std::runtime_error& problem) {
    wrong = problem.what();
  }
  const std::string text = notes.str();
  if (!text.empty()) print_plain(console, text.substr(0, text.find_last_not_of('\n') + 1));
  if (!wrong.empty()) throw UsageError(fmt::format("plot {}: {}", figure, wrong));
  for (const fs::path& path : paths) console.out << path.string() << "\n";
  return exit_done;
}

}  // namespace

extern const Command plot_command;
const Command plot_command = {
    "plot",
    "draw a figure from one or more stores",
    "FIGURE STORE... [--out PATH] [OPTIONS]",
    "Writes PATH.csv (the numbers: median and interval over seeds), PATH.py (a matplotlib script\n"
    "that stands alone and is yours to edit), and PATH.pdf and PATH.png where Python has\n"
    "matplotlib. Prints the paths. Records of several stores are drawn together.\n"
    "'crosstalk list figures' lists the figures.\n\n"
    "Examples:\n"
    "  crosstalk plot capacity runs/quickstart\n"
    "  crosstalk plot capacity runs/a --published results/published/literature/schlag2021_final_losses.csv\n"
    "  crosstalk plot capacity-vs-ddot runs/a runs/b --threshold 0.01 --where model.d_key=16,32\n",
    2,
    -1,
    "needs a figure and a store, for example: crosstalk plot capacity runs/quickstart",
    {
        {"out,o",
         "PATH",
         "Path without extension, or a folder (default: the figure's name, here)",
         false,
         {}},
        {"published", "CSV", "Overlay published points", false, {}},
        {"no-theory", "", "Leave out bounds and floors", false, {}},
        {"title", "TEXT", "Title above the figure", false, {}},
        {"threshold",
         "X",
         "Loss at which a run counts as solved, in capacity figures (default 0.001)",
         false,
         {}},
        {"seeds", "N", "Seeds that every point should have (default: the most that any has)", false, {}},
        where_option(),
        study_options()[0],
    },
    run_plot,
};

}  // namespace crosstalk::program

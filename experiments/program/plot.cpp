// crosstalk plot: figures from stores.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <filesystem>

#include "experiments/common/exit_codes.h"
#include "experiments/common/stores.h"
#include "experiments/common/text.h"
#include "experiments/program/draw.h"
#include "experiments/program/endings.h"
#include "kernels/base/text/options.h"
#include "plots/figure.h"

namespace crosstalk::program {
namespace {

namespace fs = std::filesystem;

/// --out names all files of a figure, which have endings of their own.
void check_out(const Arguments& arguments) {
  const fs::path out = arguments.get("out");
  const std::string foreign = foreign_ending(out, ".csv .py .pdf .png");
  if (foreign.empty()) return;
  throw UsageError(fmt::format(
      "--out {}: a figure is {}.pdf, .png, .csv and the script .py, which may be edited to save others; leave {} out",
      out.string(), (out.parent_path() / out.stem()).string(), foreign));
}

int run_plot(const Arguments& arguments, Console& console) {
  const std::string& figure = arguments.positional.at(0);
  check_name("figure", figure, names_of(figure_kinds()));
  check_out(arguments);
  const FigureOptions options = figure_options(arguments, figure);
  const LabelledRecords rows =
      rows_to_draw({arguments.positional.begin() + 1, arguments.positional.end()}, arguments, console);
  std::error_code error;
  if (options.out.has_parent_path()) fs::create_directories(options.out.parent_path(), error);

  std::vector<fs::path> paths;
  with_notes("plot " + figure, console, [&](std::ostream& notes) {
    try {
      paths = draw_figure(figure, rows, options, notes);
    } catch (const FigureWriteError& problem) {
      throw StoreError(fmt::format("plot {}: {}", figure, problem.what()));
    } catch (const std::runtime_error& problem) {
      throw std::invalid_argument(problem.what());
    }
  });
  for (const fs::path& path : paths) console.out << path.string() << "\n";
  return exit_done;
}

}  // namespace

extern const Command plot_command = {
    "plot",
    "draw a figure from one or more stores",
    "FIGURE STORE|STUDY.toml|RUNS.csv... [--out PATH] [OPTIONS]",
    "Writes PATH.csv (the numbers: median and interval over seeds), PATH.py (a matplotlib script that\n"
    "stands alone and is yours to edit), PATH.caption.txt (how seeds are shown, what makes one doubt, in\n"
    "what labels differ; as much as fits in a line stands below the picture), and PATH.pdf and PATH.png\n"
    "where Python has matplotlib. Prints the paths. 'crosstalk list figures' lists the figures.\n"
    "\n"
    "Records of several stores are drawn together. A study gives the runs that it asks for, under its\n"
    "labels and titles. A CSV file is what 'crosstalk export' wrote, or results of your own with the\n"
    "same columns ('crosstalk describe published-csv').\n"
    "\n"
    "Lines are the study's labels. --by KEY draws a line for each value of a key as well, --facet KEY a\n"
    "panel. --best KEY picks, for each line and x value, the value with the lowest median validation\n"
    "loss, and shows the test split.\n\n"
    "Examples:\n"
    "  crosstalk plot capacity runs/quickstart\n"
    "  crosstalk plot capacity runs/schlag2021_capacity --published literature --venue icml --log y\n"
    "  crosstalk plot updates my.toml --best train.learning_rate --by memory.beta_max\n"
    "  crosstalk plot capacity-vs-ddot runs/a runs/b --threshold 0.01 --where model.d_key=16,32\n"
    "  crosstalk plot accuracy runs/mqar --x model.width --facet task.length --best train.learning_rate\n"
    "  crosstalk plot difference runs/mqar --against deltanet --best train.learning_rate\n"
    "  crosstalk plot tracking runs/a --facet task.associations --width 3.25 --footnote off\n",
    2,
    -1,
    "needs a figure and a store, for example: crosstalk plot capacity runs/quickstart",
    joined(
        {{
             {"out,o", "PATH", "Path without extension, or a folder (default: the figure's name, here)"},
             {"no-theory", "", "Leave out bounds and floors"},
             {"facet", "KEY", "A panel for each value of KEY"},
             {"x", "KEY",
              "Key on the axis of 'accuracy' and 'difference', or state_bytes, there and in capacity-vs-state (default: the one that varies)"},
             {"log", "AXIS", "A logarithmic axis: x or y", true, {"x", "y"}},
             {"width", "INCHES", "Final width: a number, or text or column of the venue (default 5.5)"},
             {"venue", "NAME", "Column width and fonts of neurips, icml, iclr, acl or tmlr"},
             choice_of(
                 "footnote", "off",
                 "Leave out the line below the picture that says what lines and bands are (PATH.caption.txt has it)",
                 {"on", "off"}),
             {"title", "TEXT", "Title above the figure"},
         },
         drawing_options()}),
    run_plot,
};

}  // namespace crosstalk::program

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

}  // namespace

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

}  // namespace crosstalk::program

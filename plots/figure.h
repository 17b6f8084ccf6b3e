// The only header of plots/ that the program includes: figures by name.
//
// A figure reads records, writes NAME.csv (tidy: label, d_dot, x, n, median, lo, hi), NAME.py (stand-alone
// matplotlib) and, where a Python with matplotlib is found, NAME.pdf and NAME.png. SPDX-License-Identifier:
// Apache-2.0
#pragma once
#include <filesystem>
#include <iosfwd>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "results/asked.h"
#include "results/record.h"

namespace crosstalk {

struct FigureOptions {
  /// Path without extension: "fig2" -> fig2.csv, fig2.py, fig2.pdf, fig2.png; a folder takes the figure's
  /// name.
  std::filesystem::path out;
  bool theory = true;               ///< draw bounds and floors behind the curves
  std::filesystem::path published;  ///< CSV of published points to overlay; empty = none
  std::string title;                ///< empty = the study's or none
  double threshold = 1e-3;          ///< what counts as solved (capacity figures)
  /// Draws only records that match: dotted config key (or "label", "study", "status") -> value, or several
  /// values with commas. Numbers compare as numbers.
  std::map<std::string, std::string> where = {};
  int expected_seeds = 0;  ///< 0 = the largest number of seeds seen; missing ones are written into the legend
};

struct FigureKind {
  std::string name;     ///< "capacity", "updates", "curves", "capacity-vs-ddot", "capacity-vs-state",
                        ///< "tracking", "length"
  std::string summary;  ///< one line
};

/// All figures, in the order of `list figures`.
const std::vector<FigureKind>& figure_kinds();

/// The disk is full, or fails: no file of the figure was changed.
struct FigureWriteError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Pythons that may draw, in the order in which they are tried: $CROSSTALK_PYTHON alone if it is set, else
/// python3 on PATH, /usr/bin/python3, .venv/bin/python beside the sources.
std::vector<std::string> figure_pythons();

/// Draws `name` from rows, in the order and with the names of their labels. Returns the paths written. Notes
/// (no matplotlib: how to render; missing seeds) go to `notes`. Throws std::invalid_argument for an unknown
/// name (message names the nearest) and for records that do not suit the figure (message says what the figure
/// needs), std::runtime_error for a place that cannot be written.
///
/// Points are pooled over seeds and over nothing else: records of one line and one x that differ in another
/// key are refused. Failed runs are missing seeds. Diverged runs are left out of the lines and counted in the
/// legend; in capacities they count as not solved. A script that was edited by hand is kept.
std::vector<std::filesystem::path> draw_figure(const std::string& name, const LabelledRecords& rows,
                                               const FigureOptions& options, std::ostream& notes);

}  // namespace crosstalk

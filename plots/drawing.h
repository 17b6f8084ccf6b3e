// What a figure is before it is text: rows of its CSV and settings of its script.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "plots/figure.h"
#include "plots/series.h"
#include "plots/styles.h"
#include "results/statistics.h"

namespace crosstalk {

inline constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

/// One line of the CSV; NaN is an empty field.
struct FigureRow {
  std::string label;
  std::int64_t d_dot = 0;
  double x = kNone;
  int n = 0;
  double median = kNone, lo = kNone, hi = kNone;
  bool censored = false;  ///< written by capacity figures only
};

/// Everything that NAME.csv and NAME.py are written from.
struct Drawing {
  std::string script;            ///< text of the template
  std::string x_column;          ///< name of the third column
  bool censored_column = false;  ///< a last column "censored" (0 or 1)
  std::vector<FigureRow> rows;

  /// FIGURE = {...} of the script, in this order.
  nlohmann::ordered_json figure;
  /// LINES, OVERLAYS, OVERLAY_NAMES: Python source of key and value, in this order.
  std::vector<std::pair<std::string, std::string>> lines, overlays, overlay_names;
};

/// A drawing with the settings that all figures share; `script` is one of the templates below.
Drawing begin_drawing(const std::string& script, const FigureOptions& options, const std::string& x_column);
extern const char* const kLinesTemplate;   // templates/lines.py
extern const char* const kPointsTemplate;  // templates/points.py

/// Python source of a JSON value.
std::string python_text(const nlohmann::ordered_json& value);
/// Python source of a row's key in lines.py: ("dpfp2", 64).
std::string python_key(const std::string& label, std::int64_t d_dot);

/// Orders lines as the legend does: known labels first, then by d_dot and d_key.
void sort_lines(std::vector<RecordLine>& lines, const std::map<std::string, LabelStyle>& styles);

/// "DPFP-2 (d_dot = 64, 4/5 seeds, 1 diverged)": what is out of the ordinary is said; `size` may be empty.
std::string legend_name(const std::string& label, const std::string& size, const SeedCount& seeds);

/// Adds the legend entry of each line: name, d_dot (always, or where a label has several), missing seeds,
/// diverged runs.
void add_legend(Drawing& drawing, const std::vector<RecordLine>& lines,
                const std::map<std::string, LabelStyle>& styles, int expected, bool always_d_dot);

/// "Lines: median over 5 seeds; bands: interquartile range." for these lines, and a word on diverged runs.
std::string seeds_footnote(const std::vector<RecordLine>& lines, const std::vector<FigureRow>& rows);

/// Range of a loss axis that holds the medians and bands of `rows`; decades below and above if `log`.
std::pair<double, double> loss_range(const std::vector<FigureRow>& rows, bool log);

/// The CSV and the script as text.
std::string csv_text(const Drawing& drawing);
std::string script_text(const Drawing& drawing);

/// Published points of `setting` (1 or 2) whose label is in `lines`, as rows and overlays.
void add_published(Drawing& drawing, const std::vector<RecordLine>& lines,
                   const std::map<std::string, LabelStyle>& styles, const std::filesystem::path& path,
                   int setting, std::ostream& notes);

/// The figures. `records` are chosen already; `styles` covers every label of the store.
struct FigureInput {
  const RecordList& records;
  const std::map<std::string, LabelStyle>& styles;
  const FigureOptions& options;
  std::ostream& notes;
};
Drawing draw_capacity(const FigureInput& input);
Drawing draw_updates(const FigureInput& input);
Drawing draw_curves(const FigureInput& input);
Drawing draw_capacity_vs_ddot(const FigureInput& input);
Drawing draw_capacity_vs_state(const FigureInput& input);
Drawing draw_tracking(const FigureInput& input);
Drawing draw_length(const FigureInput& input);

/// "they have task.name = swap": what the records are, for messages about what a figure lacks.
std::string what_they_are(const RecordList& records);

}  // namespace crosstalk

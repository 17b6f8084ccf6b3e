// What a figure is before it is text: rows of its CSV and settings of its script.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plots/drawing/groups.h"
#include "plots/drawing/series.h"
#include "plots/drawing/styles.h"
#include "plots/figure.h"
#include "results/numbers/paired.h"

namespace crosstalk {

inline constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr const char* kLoad = "task.associations";

/// One line of the CSV; NaN is an empty field, infinity is "inf" (diverged, or no end).
struct FigureRow {
  std::string label;
  std::int64_t d_dot = 0;
  double x = kNone;
  int n = 0;
  double median = kNone, lo = kNone, hi = kNone;
  bool censored = false;  ///< these two in capacity figures only
  double unsolved = kNone;
  std::string facet = {}, selected = {};
  std::string metric = {};  ///< where a figure shows several
  SeedValues seeds = {};    ///< of which the median is, where they are held against those of other rows
  bool solved = false;      ///< by the verdict of half of its runs or more; of a difference: both labels
  /// Of figure difference: the label that is taken away, the seeds in which this one is better, p of the signed-rank test, the same
  /// after Holm's correction over all rows, and whether the difference is told from 0.
  std::string against = {};
  int wins = 0;
  double p = kNone, corrected = kNone;
  bool told = false;
  bool both_at_chance = false;  ///< all runs of both labels lie within its noise
  int at_chance = -1;  ///< of tables: how many of its runs lie within the noise of chance; -1: not known
};

/// A line or a set of points, as the legend has it.
struct LineEntry {
  std::string label;
  std::int64_t d_dot = 0;
  std::string size;  ///< "$d_{dot}$ = 64", or empty
  SeedCount count;
  std::string dash;
};

struct Overlay {
  std::string label;  ///< "theory: rank bound, linear": what stands before ':' tells how it is drawn
  std::int64_t d_dot = 0;
  std::string colour;
};

extern const char* const kPointsTemplate;  // templates/points.py
extern const char* const kNamedTemplate;   // templates/named.py

/// Everything that NAME.csv and NAME.py are written from.
struct Drawing {
  std::string script;  ///< text of the template
  bool of_points() const { return script == kPointsTemplate || script == kNamedTemplate; }
  std::string x_column;           ///< name of the third column
  std::string middle = "median";  ///< name of the fifth column
  bool capacity_columns = false;  ///< last columns "censored" (0 or 1) and "unsolved"
  std::vector<FigureRow> rows;
  nlohmann::ordered_json figure;  ///< FIGURE = {...} of the script, in this order
  std::vector<LineEntry> lines;
  std::vector<Overlay> overlays;
  std::vector<std::pair<std::string, std::string>> overlay_names;  ///< kind -> legend
  std::vector<std::string> footnotes;                              ///< sentences, for the caption
  std::vector<std::string> doubts = {};                            ///< of these, what the picture has to say
  std::map<std::string, std::string> brief = {};  ///< footnote -> the same for one line of a narrow picture
  /// Seeds of the drawn medians; said once, of all panels together.
  std::optional<SeedRange> seeds;
  int diverged = 0;                ///< runs of its lines
  bool lines_may_coincide = true;  ///< false: each has a panel of its own
  /// What every record must have to be drawn: keys of its configuration, state_bytes, parameters, curves.NAME,
  /// profiles.NAME; and the metric that is drawn of it ("" = what the last of these holds).
  std::vector<std::string> needs = {};
  std::string metric = {};
  // Of figure difference:
  std::string difference_of = {};  ///< "test loss (cross-entropy)"
  std::string told_by = {};        ///< a sentence: by which test, or how many seeds are missing
};

/// The figures. `records` are chosen already; `styles` covers every label of the store.
struct FigureInput {
  const RecordList& records;
  const std::map<std::string, LabelStyle>& styles;
  const FigureOptions& options;
  std::ostream& notes;
  const RecordList* of_all_panels = nullptr;  ///< what counts as solved is the same in all of them
};

/// A metric of records as figures and tables show it.
struct Metric {
  std::string name, axis;  ///< "eval_loss"; "Loss ..."
  bool is_loss = true;     ///< smaller is better, and a log axis may end where runs are solved
};
/// " (cross-entropy)" or " $...$" behind a loss: by what the records were trained, "" where they differ or do not say it.
std::string loss_formula(const RecordList& records);
/// The metric that the options ask for. Throws std::invalid_argument if no record has it.
Metric metric_of(const FigureInput& input);
/// Its value in a record; a diverged run has the worst (infinity for losses, 0 for shares); NaN = none.
double value_of(const Record& record, const Metric& metric);

/// What counts as solved, of every loss and every split: the option, or twice the largest train.stop_loss of the
/// records (0.001 where they have none). A run stops as soon as its validation loss is there, and its loss on
/// other sequences lies on either side. Throws std::invalid_argument for an option below a train.stop_loss.
double threshold_of(const FigureInput& input);
/// The validation accuracy by which runs are solved that stop by train.stop_accuracy alone, unless the options give a threshold.
std::optional<double> solved_accuracy(const FigureInput& input);
/// "median test loss at most 0.002, twice train.stop_loss", "validation accuracy of at least 0.99, ...": either, said.
std::string solved_text(const FigureInput& input, const Metric& metric);

/// A drawing with the settings that all figures share; `script` is one of the templates below.
Drawing begin_drawing(const std::string& script, const FigureOptions& options, const std::string& x_column);
/// The axes of a figure of lines (kLinesTemplate), all that its script asks for. Scales: linear, log, log2. Nothing else is marked:
/// "ticks_at_d_dot", "vertical" with "vertical_name", and "solved" of drawing.figure can be set behind it.
void set_axes(Drawing& drawing, const std::string& xlabel, const std::string& ylabel,
              const std::string& xscale, const std::string& yscale, std::pair<double, double> xlim,
              std::pair<double, double> ylim);
extern const char* const kLinesTemplate;   // templates/lines.py
extern const char* const kProbeTemplate;   // templates/probe.py
extern const char* const kWindowTemplate;  // templates/window.py
extern const char* const kErrorsTemplate;  // templates/errors.py
// Of memories that were looked into, and the block that they share.
extern const char *const kInsideStyle,
    *const kReadWeightsTemplate, *const kKeyOverlapTemplate, *const kStateTemplate, *const kGatesTemplate;
// The page of `crosstalk report` and `crosstalk atlas`, and the hashes of their scripts (templates/report.*, page.js, atlas.js).
extern const char *const kReportPage,
    *const kReportStyle, *const kReportScript, *const kReportHash, *const kAtlasScript, *const kAtlasHash;

/// Python source of a JSON value.
std::string python_text(const nlohmann::ordered_json& value);
/// Python source of a row's key in lines.py: ("dpfp2", 64).
std::string python_key(const std::string& label, std::int64_t d_dot);

/// A template with what stands between its two lines "# --- WHAT" and "# --- end of WHAT" replaced.
std::string replaced(const std::string& script, const std::string& what, const std::string& by);

/// Orders lines as the legend does: by rank, then by d_dot and d_key.
void sort_lines(std::vector<RecordLine>& lines, const std::map<std::string, LabelStyle>& styles);

/// "$d_{dot}$ = 64".
std::string d_dot_text(std::int64_t d_dot);

/// "DPFP-2 (d_dot = 64, 4/5 seeds, 1/5 diverged)": what is out of the ordinary is said; `size` may be empty.
std::string legend_name(const std::string& name, const std::string& size, const SeedCount& seeds);

/// Adds the legend entry of each line: d_dot (always, or where a label has several), seeds, diverged runs.
void add_legend(Drawing& drawing, const std::vector<RecordLine>& lines,
                const std::map<std::string, LabelStyle>& styles, int expected, bool always_d_dot);

/// The values of records that stand at one point, as a row; all seeds count, diverged ones as the worst.
FigureRow row_of(const RecordLine& line, double x, const RecordList& records, const Metric& metric);

/// Its median to three digits, and "[lo, hi]" ("" of one seed), as tables have them.
std::string cell_number(double value);
std::string interval_of(const FigureRow& row);

/// Counts the seeds of these lines, for finish_footnotes().
void count_drawn_seeds(Drawing& drawing, const std::vector<RecordLine>& lines);
/// "Lines: median over 5 seeds; bands: range ...", a word on diverged runs, and on lines that lie in each other.
void finish_footnotes(Drawing& drawing, const std::map<std::string, LabelStyle>& styles);

/// Range of an axis that holds the medians and bands of `rows`. Log: decades below and above; where a
/// threshold is given, the axis ends at a half of it, for what is below is solved.
std::pair<double, double> value_range(const std::vector<FigureRow>& rows, bool log, double threshold = kNone);

/// One drawing of several panels: rows with their panel, an entry a label, the union of overlays and limits.
Drawing join_panels(std::vector<std::pair<std::string, Drawing>> panels, const std::string& key);

/// The CSV and the script as text. `by`: values of further columns, by label.
struct ByColumns {
  std::vector<std::string> keys;
  std::map<std::string, std::vector<std::string>> values;
  std::map<std::string, std::string> names = {};  ///< of the memory alone, for tables
};
/// A field of CSV, quoted where it must be.
std::string csv_field(const std::string& text);
/// Head and rows of the CSV, cell by cell; and as text.
std::vector<std::vector<std::string>> csv_cells(const Drawing& drawing, const ByColumns& by = {});
std::string csv_text(const Drawing& drawing, const ByColumns& by = {});
/// Below the picture the script sets `footnote`.
std::string script_text(const Drawing& drawing, const std::map<std::string, LabelStyle>& styles,
                        const std::string& footnote);
/// How seeds are shown, what makes one doubt (briefly, if it is more than a line), and of the other footnotes what fits into one line
/// of so many inches.
std::string footnote_line(const Drawing& drawing, double inches);

/// No row is left out in silence. Throws std::invalid_argument for rows of somebody's own table (whose ids are no run's)
/// that lack what the drawing needs, naming the column; notes which of our runs do.
void check_left_out(const Drawing& drawing, const RecordList& records, std::ostream& notes);

/// "they have task.name = swap": what the records are, for messages about what a figure lacks.
std::string what_they_are(const RecordList& records);
/// Lines over the numbers of associations, in the legend's order; `figure` is refused where no record has any.
std::vector<RecordLine> lines_over_loads(const FigureInput& input, const char* figure,
                                         Apart apart = Apart::d_dot);
/// The same as what_they_are(), where curves or profiles were missed.
std::string what_series_they_have(const RecordList& records);

/// A dotted key as figures write it: "$\beta_{\max}$", "learning rate".
std::string symbol_of(const std::string& key);

/// The published points whose run has a line here, as rows and overlays; notes how many have none.
void add_published(Drawing& drawing, const std::vector<RecordLine>& lines,
                   const std::map<std::string, LabelStyle>& styles, const FigureInput& input);

/// Whether runs are drawn under the label of a published point; with --by under others that begin with it.
bool has_label(const FigureInput& input, const std::string& label);
/// Whether what is known of a point whose label no run has, but for its memory and the keys `own`, is so of a run.
bool agrees_but_for_memory(const Record& record, const PublishedPoint& point,
                           const std::vector<std::string>& own);
/// A published point whose label no run has: a row, and a name in the legend.
void add_from_elsewhere(Drawing& drawing, const FigureInput& input, const PublishedPoint& point, double x,
                        double y);

/// Where a published point stands on the axis of a figure that has this record; NaN = nowhere.
using PublishedPlace = std::function<double(const PublishedPoint&, const Record&)>;
/// The published points that have a line of their label here, by the first of `metrics` that they have, where everything
/// that is known of them agrees but the keys `own`; notes how many have none.
void add_published_points(Drawing& drawing, const std::vector<RecordLine>& lines, const FigureInput& input,
                          const std::vector<std::string>& metrics, const std::vector<std::string>& own,
                          const PublishedPlace& place);

/// A record's place on an axis: a key of its configuration, or state_bytes.
std::optional<double> place_on_axis(const Record& record, const std::string& x);
/// Why nothing stands on an axis of `x`: "no record has a number d_key; did you mean --x model.d_key?"
std::string no_number(const RecordList& records, const std::string& x);

/// The key --x, or that which varies (within some line, if asked for), of those that people put on an axis; "" where none of them
/// does.
std::string varying_key(const FigureInput& input, bool within_a_line = false);

/// A figure of the final loss over the numbers of associations.
struct LoadsFigure {
  const char* name;
  bool by_size;  ///< the legend names each line's d_dot, and the axis marks it
  bool log;
  void (*add_theory)(Drawing&, const std::vector<RecordLine>&, const FigureInput&, const Metric&);
};
Drawing draw_loads(const FigureInput& input, const LoadsFigure& figure);

/// A figure of capacities (the largest load that a memory solves) against a size; against d_dot with a fit and the rank's bound.
enum class Against { d_dot, state, state_in_bytes, parameters };
double size_of(const Record& record, Against against);
Drawing draw_capacities(const FigureInput& input, const std::vector<RecordLine>& lines, Against against);

// Of what runs recorded along an axis: curves (over steps), profiles (over operations, lengths).
using SeriesMap = std::map<std::string, Series> Record::*;  ///< &Record::curves, &Record::profiles

/// nullptr: there is none, or it is empty.
const Series* find_series(const Record& record, SeriesMap where, const std::string& name);
/// Lines of the records that have the series, all of one line at one place.
std::vector<RecordLine> lines_with(const FigureInput& input, const RecordList& records, SeriesMap where,
                                   const std::string& name);
/// Rows of one line: the median over its runs at every x that one of them has. `hold`: between and after its points the last
/// value stands (a run that stopped early keeps what it had reached).
void add_series(Drawing& drawing, const RecordLine& line, SeriesMap where, const std::string& name,
                const std::string& label, bool hold, const Groups& groups = {});
/// A line without rows (all its runs diverged) still needs an entry that the script can read.
void add_empty_rows(Drawing& drawing, const std::vector<RecordLine>& lines);
/// Smallest and largest x of the rows.
std::pair<double, double> x_range(const std::vector<FigureRow>& rows);
/// "Evaluation loss (cross-entropy)".
std::string loss_axis(const std::string& split, const FigureInput& input);
/// A flat line of theory ("chance": its legend is `name`) across the axis.
void add_level(Drawing& drawing, const std::string& what, const std::string& name, double level,
               std::pair<double, double> xlim);
/// An entry for a line that is drawn behind, once.
void add_overlay(Drawing& drawing, const Overlay& overlay);
/// Counts the seeds of lines for `figure`'s notes and legend. Returns the number that is expected of each.
int begin_lines(Drawing& drawing, const std::vector<RecordLine>& lines, const FigureInput& input,
                const std::string& x_name, bool always_d_dot = false);
/// Scale and ends of an axis of sizes that are spread over octaves (rates have decades), or lie close.
struct SizeAxis {
  const char* scale;
  std::pair<double, double> range;
};
SizeAxis size_axis(double first, double last, double margin_of_one);
/// Says that published points are not drawn here.
void note_published(const FigureInput& input, const char* figure);
/// The key along which tables of final values stand: --x, the load, or what else varies.
std::string final_key(const FigureInput& input);
/// Corrects p of the rows of differences, of all panels together, and marks what is told from 0; a sentence that says by what, for
/// figures (`open` markers) or tables (bold). "" where no rows are differences.
std::string correct_differences(Drawing& drawing, bool figure);
/// "12 comparisons need 9 seeds to tell anything, 6 more than these 3": where no comparison has the seeds; else "".
std::string lacking_seeds(std::size_t comparisons, int most_shared);

}  // namespace crosstalk

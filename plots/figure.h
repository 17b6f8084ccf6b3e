// The only header of plots/ that the program includes: figures and tables by name.
//
// A figure reads records, writes NAME.csv (tidy: label, d_dot, x, n, median, lo, hi), NAME.py (stand-alone
// matplotlib), NAME.caption.txt (a sentence a line) and, where a Python with matplotlib is found, NAME.pdf and NAME.png.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "results/asked.h"
#include "results/numbers/chance.h"
#include "results/numbers/select.h"
#include "results/numbers/theory.h"
#include "results/replay/published.h"
#include "results/replay/replayed_study.h"
#include "results/store/record.h"

namespace crosstalk {

/// Where a paper is to appear: what its columns and its text are wide, in inches, and its fonts.
struct Venue {
  std::string name;
  double column = 0, text = 0;
};
const std::vector<Venue>& venues();

struct FigureOptions {
  /// Path without extension: "fig2" -> fig2.csv, fig2.py, fig2.pdf, fig2.png; a folder takes the figure's
  /// name.
  std::filesystem::path out;
  bool theory = true;                          ///< draw bounds and floors where they are theorems
  std::vector<PublishedPoint> published = {};  ///< points to overlay
  std::vector<ReplayedStudy> studies = {};     ///< that replay these points: runs are held against them
  std::string title;                           ///< empty = none
  double threshold = std::nan("");  ///< largest median loss that is solved; NaN = twice train.stop_loss
  std::map<std::string, std::string> where =
      {};                  ///< draws only records that match (results/numbers/select.h)
  int expected_seeds = 0;  ///< 0 = the largest number of seeds seen; missing ones stand in the legend
  std::vector<std::string> by = {};    ///< further keys that tell lines apart
  std::string facet = "";              ///< a key: one panel for each of its values
  std::vector<std::string> best = {};  ///< keys of which the best value is taken, on the validation split
  BestBy best_by = BestBy::loss;
  std::string metric = "";  ///< what is drawn; empty = eval_loss, or test_loss with `best`
  std::string x = "";       ///< figure accuracy: the key on the axis; empty = the one that varies
  std::string against =
      "";  ///< of `difference`: the label that the others are held against; empty = the first
  bool log_x = false, log_y = false;
  double width = 0;        ///< inches; 0 = the venue's column, or 5.5
  std::string venue = "";  ///< name of one of venues()
  bool footnote = true;
  /// What the best answer without the order of writes costs on the sequences that a run's metric was measured
  /// on; nothing where they are not known, and then figures draw the expectation over all data.
  std::function<std::optional<double>(const Record&, const std::string& metric)> evaluated_floor = {};
  /// What a key of a record is where its study does not say it; nothing for keys that have no such value.
  std::function<std::optional<std::string>(const Record&, const std::string& key)> default_of = {};
  /// Operations a token of a record's memory; nothing where its law is not text.
  std::function<std::optional<double>(const Record&)> operations_of = {};
  AnswersOf answers =
      {};  ///< by which it is told how far chance reaches; without it a margin does (chance.h)
  std::string label = "";     ///< of a LaTeX table; empty = "tab:" and its name
  MemoryFacts memories = {};  ///< by which it is decided what is a theorem for a line
};

struct FigureKind {
  std::string name;     ///< as plots/kinds/ has it, "-" for "_"
  std::string summary;  ///< one line
  /// Of figures: what is on the axes, what is drawn of the seeds, what counts as solved ("" where nothing does), which
  /// options concern it besides those of all, and the columns of its CSV.
  std::string x = {}, y = {}, statistic = {}, threshold = {};
  std::vector<std::string> options = {}, columns = {};
};

/// All figures, by name: those of plots/kinds/.
const std::vector<FigureKind>& figure_kinds();

/// The disk is full, or fails: no file of the figure was changed.
struct FigureWriteError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Pythons that may draw, in the order in which they are tried: $CROSSTALK_PYTHON alone if it is set, else
/// python3 beside the program, on PATH, /usr/bin/python3, .venv/bin/python beside the sources.
std::vector<std::string> figure_pythons();
/// The one command after which one of them does: into .venv beside the sources, which needs no rights; elsewhere by pip.
std::string matplotlib_command();

/// Draws `name` from rows, in the order and with the names of their labels. Returns the paths written. Notes
/// (no matplotlib: how to render; missing seeds) go to `notes`. Throws std::invalid_argument for an unknown
/// name (message names the nearest) and for records that do not suit the figure (message says what the figure
/// needs), std::runtime_error for a place that cannot be written.
///
/// Points are pooled over seeds and over nothing else: records of one line and one x that differ in another
/// key are refused. Failed runs are missing seeds. Diverged runs count as the worst result; a point of which
/// half or more diverged is shown as diverged, and all are counted in the legend. A script that was edited by
/// hand is kept.
std::vector<std::filesystem::path> draw_figure(const std::string& name, const LabelledRecords& rows,
                                               const FigureOptions& options, std::ostream& notes);

/// Arrays of a memory that was looked into (crosstalk inspect), as NAME.npy in one folder.
struct InspectedArrays {
  std::string title;                ///< "delta, seed 1, test sequence 0"
  std::vector<std::string> names;   ///< of the arrays
  std::vector<std::string> tokens;  ///< what stands beside each token
  std::vector<std::string> gates;   ///< arrays whose values are shown as histograms
  double width = 3.25;              ///< inches
};
/// Draws read_weights, key_overlap, state and gates, each as far as its arrays are there: a script and its
/// pictures beside them. Returns the paths written. Notes and exceptions as draw_figure.
std::vector<std::filesystem::path> draw_inspection(const std::filesystem::path& folder,
                                                   const InspectedArrays& arrays, std::ostream& notes);

enum class TableFormat { latex, markdown, csv };

/// The same numbers as a table: one row a line, one column an x. `name`: capacity, updates, tracking or
/// final. Bold is what is best of its column beyond doubt (results/numbers/paired.h), and of table difference what is
/// told from 0. LaTeX needs booktabs and, where it may be wider than a column, graphicx: its first line says it. Throws as
/// draw_figure.
std::string table_text(const std::string& name, const LabelledRecords& rows, const FigureOptions& options,
                       TableFormat format, std::ostream& notes);
const std::vector<FigureKind>& table_kinds();

/// Seeds that a difference of `size` needs, by the spread of the differences that figure `difference` would show: a sentence a
/// task. Throws as draw_figure.
std::vector<std::string> detect_text(const LabelledRecords& rows, const FigureOptions& options, double size);

/// How the runs of a table (a name of table_kinds()) were made, as a paragraph in LaTeX: data, splits, model,
/// optimizer, how rates were chosen, seeds, stop rule.
/// Throws std::invalid_argument for rows that were not trained by this program.
std::string protocol_text(const std::string& table, const LabelledRecords& rows,
                          const FigureOptions& options);

/// What a page says that is in no record.
struct ReportInput {
  std::string title;                         ///< of the study, or what was drawn: its name
  std::map<std::string, std::string> tasks;  ///< name -> one line of what it does
  std::string study_file;                    ///< the study as text; empty = only stores are known
  std::int64_t asked = 0;                    ///< runs that the study asks for; 0 = not known
  std::string figure = "";  ///< a name of figure_kinds() instead of those that suit the records
  /// The command that makes a figure ("plot", name) or a table ("table", name) with these options.
  std::function<std::string(const std::string& command, const std::string& name, const FigureOptions&)>
      command;
  std::vector<std::pair<std::string, std::string>> commands = {};  ///< what for, and how
  std::map<std::string, Record> training =
      {};  ///< runs that train now, with the curves that they have so far
  // Of the atlas alone:
  std::map<std::string, std::string> families =
      {};                           ///< memory -> what a token does to its state, as tables list it
  std::set<std::string> mine = {};  ///< labels of --with
  std::string study_path = {};      ///< by which the command of a cell calls the study
};
/// One HTML file that needs nothing else: what was asked, figures, the best learning rates, every run with its curves, and
/// where the results come from. Whatever the records say is text in it. The same rows give the same bytes. Throws
/// std::invalid_argument where there is nothing to report, or `figure` does not suit the rows.
std::string report_page(const LabelledRecords& rows, const FigureOptions& options, const ReportInput& input,
                        std::ostream& notes);

/// What every label reaches at every setting of every task, at its best rate, as a page (without `format`) or a table; as CSV with all
/// that is known of a cell. A label's runs in its authors' layer and bare are two rows. Throws as draw_figure, and for runs of one
/// cell that differ in more than rate and seeds.
std::string atlas_text(LabelledRecords rows, const FigureOptions& options, const ReportInput& input,
                       std::optional<TableFormat> format, std::ostream& notes);

}  // namespace crosstalk

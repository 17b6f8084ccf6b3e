// The atlas before it is text: a cell for every row (a label, in its authors' layer or bare) and column (a setting of a task).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <string>
#include <vector>

#include "plots/drawing/prepare.h"
#include "plots/drawing/window.h"
#include "results/numbers/statistics.h"

namespace crosstalk {

struct AtlasColumn {
  std::string title, task;  ///< "mqar, pairs = 64"
  std::map<std::string, std::string>
      where;  ///< what its runs have in common: the task and what tells its settings apart
  Metric metric;
  double chance = kNone;  ///< its accuracy, or without one the loss of answering nothing
  double shortcut =
      kNone;  ///< the best accuracy of a rule that needs no memory of the kind (baseline_*_accuracy)
};

struct AtlasRow {
  std::string label, base, name, memory, family;  ///< `base`: the label in the study
  bool bare = false, mine = false;  ///< bare: beside a row of the same label in its authors' layer
};

/// What became of a cell. Only `value` is a result; by_shortcut: no better than a rule of baseline_*_accuracy.
enum class CellState { value, at_chance, by_shortcut, diverged, failed, missing, not_asked };
std::string to_text(CellState state);

struct AtlasCell {
  CellState state = CellState::not_asked;
  FigureRow row;                        ///< over the seeds at the chosen rate
  RecordList runs = {};                 ///< at the chosen rate
  std::string verdict = {}, edge = {};  ///< edge: "smallest" or "largest" of its grid of rates
  double rate = kNone, milliseconds = kNone, state_size = kNone, parameters = kNone;
  RateWindow window = {};
  std::string otherwise = {};  ///< of --with: in what it was trained otherwise than the rest of the column
};

struct Atlas {
  Prepared prepared;
  std::vector<AtlasColumn> columns;
  std::vector<AtlasRow> rows;
  std::vector<std::vector<AtlasCell>> cells;  ///< of rows and columns

  /// By which cells of a column are ranked: larger is better; those at chance, by shortcut and diverged share the last place, NaN has none.
  double standing(std::size_t row, std::size_t column) const;
  /// Of two columns, over the rows that have both.
  RankCorrelation agreement(std::size_t a, std::size_t b) const;
};

/// `rows` is changed: labels of bare rows are told apart; it must outlive the atlas.
Atlas make_atlas(LabelledRecords& rows, const FigureOptions& options, const ReportInput& input,
                 std::ostream& notes);

/// A row's cell held against its neighbours in the column.
struct AtlasPlace {
  std::size_t row = 0, column = 0, place = 0, of = 0;
  struct Neighbour {
    std::size_t row = 0;
    Paired difference;  ///< mine minus the neighbour
    double corrected = kNone;
    bool told = false;
  };
  std::vector<Neighbour> neighbours =
      {};  ///< the next better one, then the next worse one, as far as there are
};
/// Of each cell with a value in the rows that are mine. `told_by`: a sentence on the test.
std::vector<AtlasPlace> atlas_places(const Atlas& atlas, std::string& told_by);

}  // namespace crosstalk

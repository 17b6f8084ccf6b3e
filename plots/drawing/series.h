// Records chosen for a figure and sorted into lines: one line a label and d_dot, pooled over seeds only.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "results/numbers/select.h"

namespace crosstalk {

/// One line of a figure: its records by x.
struct RecordLine {
  std::string label;
  std::int64_t d_dot = 0;
  double d_key = 0;  ///< 0 unless lines are kept apart by it
  std::map<double, RecordList> points;
};

/// What tells lines apart: a label's runs of another d_dot (and d_key) are another line, or all are one.
enum class Apart { d_dot, d_dot_and_d_key, label };

/// Sorts records into lines. `x` gives a record's place on the axis; records without one are left out. Throws
/// std::invalid_argument if records of one point differ in more than seeds.
std::vector<RecordLine> make_lines(const RecordList& records,
                                   const std::function<std::optional<double>(const Record&)>& x,
                                   const std::string& x_name, Apart apart = Apart::d_dot);

/// A run without a usable end: its status is diverged or its final loss is not finite.
bool has_diverged(const Record& record);
/// The records that are results (done or diverged): failed runs are missing ones.
RecordList results_of(const RecordList& records);
/// Those that are done, with a finite loss.
RecordList drawable(const RecordList& records);
/// Whether half or more of the results diverged: their median is none of a memory that works.
bool mostly_diverged(const RecordList& records);

/// How complete a line is.
struct SeedCount {
  int expected = 0, least = 0, most = 0;  ///< seeds of its points
  int diverged = 0, runs = 0;             ///< runs that diverged, of all that ended
  bool complete() const { return least >= expected; }
  void add(const SeedCount& other);  ///< of another part of the same line
};

/// The fewest and the most seeds of points that have any.
struct SeedRange {
  int fewest = 0, most = 0;
  void add(int seeds);
  std::string text() const;  ///< "5", or "3 to 5"
  /// "one seed", or what the bands are: "range of 3 seeds (75 % interval)".
  std::string interval() const;
};

/// Records by the value of a key, in the order of values; without a key all of them under "".
std::vector<std::pair<std::string, RecordList>> parts_by(const RecordList& records, const std::string& key);

/// Largest number of seeds of any point, or `stated` if it is larger than 0.
int expected_seeds(const std::vector<RecordLine>& lines, int stated);
SeedCount count_seeds(const RecordLine& line, int expected);

/// Writes a line a record line that lacks seeds or has diverged runs.
void note_missing(const std::vector<RecordLine>& lines, int expected, const std::string& x_name,
                  std::ostream& notes);

}  // namespace crosstalk

// Records made ready for figures and tables: chosen (--where, --best), relabelled (--by), with their styles.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <deque>
#include <map>
#include <string>

#include "plots/drawing/drawing.h"

namespace crosstalk {

struct Prepared {
  RecordList records;
  std::deque<Record> owned;  ///< copies under other labels, if --by asks for lines by other keys
  std::map<std::string, LabelStyle> styles;
  ByColumns by;
  std::vector<EdgeChoice> edges;  ///< of the learning rate, where --best took it
  std::string unequal_seeds;      ///< unequal_seeds_text() of what --best chose among
  RecordList missing;             ///< runs that are asked for and not there yet: no results
  std::size_t outrun = 0;         ///< runs of races (train.race) that are left out
  std::size_t recorded = 0;       ///< runs that are there, before --best chose among them
};

/// Throws std::invalid_argument if nothing is left.
Prepared prepare(const std::string& name, const LabelledRecords& rows, const FigureOptions& options);

/// Throws std::invalid_argument where --against is given to a figure or table that holds no labels against one.
void check_against(const std::string& name, const FigureOptions& options);

/// Writes into each row which value --best took there, and notes where it lies at the edge of its grid.
void mark_selected(Drawing& drawing, const Prepared& prepared, const FigureOptions& options,
                   std::ostream& notes);

inline constexpr std::size_t kMostUnequal = 6;  ///< keys in which labels differ, of a caption

/// Notes what makes one doubt that there is anything to see: runs that are missing, runs within the noise of chance, what labels
/// differ in besides what is swept, and runs that went to their last step while their loss still fell.
void note_doubts(Drawing& drawing, const Prepared& prepared, const FigureOptions& options);

/// Counts in each row its runs within the noise of chance.
void mark_chance(Drawing& drawing, const Prepared& prepared, const FigureOptions& options);

/// "Otherwise than experiments/mad.toml: train.max_steps 20 (20000).", of these records beside the studies that replay
/// options.published; empty where they do nothing otherwise, or nothing is known.
std::vector<std::string> beside_studies(const RecordList& records, const FigureOptions& options);

/// A figure before it is text, with the records that it was drawn from.
struct ComposedFigure {
  Prepared prepared;
  Drawing drawing;
};
/// As draw_figure(), which writes it into files.
ComposedFigure compose_figure(const std::string& name, const LabelledRecords& rows,
                              const FigureOptions& options, std::ostream& notes);

/// Inches; throws as styled().
double width_of(const FigureOptions& options);
/// The script in the width and with the fonts that the options ask for. Throws std::invalid_argument for an
/// unknown venue.
std::string styled(std::string script, const FigureOptions& options);

}  // namespace crosstalk

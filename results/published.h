// Published results beside ours: the literature's final losses, and which of our records meet them.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "results/record.h"

namespace crosstalk {

/// One run of Schlag, Irie, Schmidhuber 2021 (arXiv 2102.11174).
struct PublishedPoint {
  std::string label;              ///< the memory's label in our studies
  int setting = 0;                ///< 1: recall, keys without replacement; 2: reassign, with replacement
  std::int64_t associations = 0;  ///< S
  std::int64_t d_dot = 0;         ///< 0 for softmax
  double loss = 0;                ///< final evaluation loss; NaN: diverged
  double best_loss = 0;           ///< and steps: 0 if the file does not say
  std::int64_t steps = 0;
};

/// Reads a CSV file with the columns label, setting, S_unique_keys and final_eval_loss, and, if it has them,
/// d_dot, best_eval_loss and steps (results/published/literature/schlag2021_final_losses.csv); others are
/// ignored, and so are empty lines and lines that begin with #. Throws std::invalid_argument with path and
/// line.
std::vector<PublishedPoint> read_published(const std::filesystem::path& path);

/// Our runs of one published point.
struct Comparison {
  PublishedPoint published;
  int seeds = 0;          ///< runs that are done or diverged
  double loss = 0;        ///< median over seeds of the final evaluation loss; infinite where half diverged
  double steps = 0;       ///< median
  double difference = 0;  ///< ours - published
  bool within = false;    ///< see is_within()
};

/// Loss at which a run counts as solved, and its training stops.
inline constexpr double published_solved = 0.001;

/// Where the published run is solved, ours must be; where it diverged, ours must; elsewhere
/// |ours - published| <= max(10 % of published, 0.01).
bool is_within(double ours, double published);

/// The published points of which there are records, by setting, label and load. A record belongs to a point
/// if its label and "task.associations" are the point's and its "task.name" is the setting's task.
std::vector<Comparison> compare(const std::vector<PublishedPoint>& points,
                                const std::map<std::string, Record>& records);

/// The comparison as a Markdown table, one row a point.
std::string comparison_table(const std::vector<Comparison>& rows);

}  // namespace crosstalk

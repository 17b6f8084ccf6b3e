// Published results beside ours: the literature's final losses, anybody's own, and which of our records meet
// them.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "results/store/record.h"

namespace crosstalk {

/// What the comments at the head of a file of published points say.
struct PublishedHead {
  std::vector<std::string> comments =
      {};  ///< one sentence or more each, without '#' and without the line of studies
  std::vector<std::string> studies =
      {};  ///< "# Studies: experiments/a.toml, b.toml": what replays these numbers
  std::string beside =
      {};  ///< "# Beside every count: published scores are means over grids.": without the full stop
};
PublishedHead published_head(std::string_view text);

/// One published run (or median of runs), and what is known of its configuration.
struct PublishedPoint {
  std::string label;              ///< the memory's label in our studies
  int setting = 0;                ///< of Schlag, Irie, Schmidhuber 2021 (arXiv 2102.11174); 0: another source
  std::int64_t associations = 0;  ///< S; 0 = none
  std::int64_t d_dot = 0;         ///< 0 = none, or not known
  double loss = 0;                ///< final evaluation loss; NaN: diverged
  bool has_loss = true;           ///< false: a row of other metrics alone
  std::map<std::string, double> metrics = {};  ///< eval_accuracy, state_bytes, ...: numbers beside the loss
  std::int64_t steps = 0;                      ///< 0 if the file does not say
  std::string agreement = {};  ///< when ours agrees with it (results/replay/replay.h); empty: as usual
  std::map<std::string, std::string> known = {};   ///< dotted key -> value: what must agree
  std::shared_ptr<const PublishedHead> head = {};  ///< of its file; null: none is known
};

/// A column of a file of published points, for `describe published-csv`.
struct PublishedColumn {
  const char *name, *meaning;
  bool required;
};
const std::vector<PublishedColumn>& published_columns();

/// Reads a CSV file with the columns published_columns(). Every other column with a dot in its name is a key
/// of our configurations; its value must agree, where it is not empty. Empty lines and lines that begin with
/// # before the columns are its head, others are ignored. Throws std::invalid_argument with path and line.
std::vector<PublishedPoint> read_published(const std::filesystem::path& path);
/// The same of such a file's text; `path` is for messages.
std::vector<PublishedPoint> parse_published(std::string_view text, const std::string& path);
/// Those that come with the program: Schlag, Irie and Schmidhuber 2021
/// (results/published/literature/schlag2021_final_losses.csv).
std::vector<PublishedPoint> default_published();

/// Where a run differs from a published point: keys with both values, "model.d_key (16, published 64)".
/// Empty: it is a run of the point. The memory is compared by what is known of it; by its label, where
/// nothing is. Keys that a record lacks cannot differ. `any_load`: the load and the lengths that follow from
/// it may.
std::vector<std::string> differences(const Record& record, const PublishedPoint& point,
                                     bool any_load = false);
/// How many there are in other keys than `allowed`, up to `most`: soon.
std::size_t count_differences(const Record& record, const PublishedPoint& point, bool any_load,
                              const std::vector<std::string>& allowed, std::size_t most);

/// Keys whose values follow from the load: task.associations, task.length, ...
bool follows_load(const std::string& key);

/// How many points (of so many, if these are what is left of them) have no run here, and why: one line a reason, the most
/// frequent first. Keys that are allowed to differ are no reason.
std::vector<std::string> without_partner(const std::vector<PublishedPoint>& points,
                                         const std::map<std::string, Record>& records, bool any_load = false,
                                         std::size_t of = 0, const std::vector<std::string>& allowed = {});

}  // namespace crosstalk

// A search's file: [search] says what is sought and what it may cost; [base], [[task]] and [memories.LABEL] are a study's.
//
//   [search] + laws  ->  a study a task: [base], [memories.LABEL] law = ..., [[task]] as its [[grid]]  ->  runs
//
// The studies are read by the reader of studies, so that every key means here what it means there, and what is wrong is said at its
// place in the file.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "experiments/study/schema.h"
#include "experiments/study/study.h"
#include "experiments/study/toml_reader.h"
#include "models/search/candidate.h"

namespace crosstalk::search {

/// A law under the label that its runs have.
struct LabelledLaw {
  std::string label, law;
};

/// Keys of [search]. Of start, seeds and rates the values are lists, and defaults and types those of their items.
const std::vector<OptionSpec>& search_options();

/// What a run's task is set to, a line a key.
std::string task_setting(const Run& run);

/// What `crosstalk search` is asked.
struct SearchFile {
  std::string path, text, name;
  TomlNode root;
  std::vector<double> weights;     ///< of the tasks
  std::set<std::string> settings;  ///< task_setting() of the tasks: what laws are scored by
  std::vector<std::string> start;  ///< laws in canonical text; empty: random ones
  bool random_parents = false;     ///< every law is drawn at random: what a search is held against
  bool shuffled = false;           ///< labels are those of other sequences: there is nothing to be found
  std::uint64_t seed = 1;
  double minutes = 0;           ///< 0: no limit
  std::int64_t candidates = 0;  ///< laws trained; 0: no limit
  int generation = 0, population = 0, age = 0, finalists = 0, fresh_seeds = 0;
  std::vector<std::int64_t> seeds;  ///< of trainings; all laws have the first
  std::vector<double> rates;        ///< train.learning_rate; all laws have the first. Empty: that of [base]
  Limits limits;

  std::size_t tasks() const { return weights.size(); }
};

/// Reads and checks all of it, the start laws too: they train, and are within the limits. Throws ConfigError.
SearchFile read_search(const Schema& schema, const std::string& text, const std::string& path);

/// Runs of the laws on a task, by the first `seeds` seeds and `rates` rates: law after law, and of each rate after rate. Throws
/// ConfigError.
std::vector<Run> runs_of(const Schema& schema, const SearchFile& file, std::size_t task,
                         const std::vector<LabelledLaw>& laws, std::size_t seeds, std::size_t rates);

/// The study NAME_front as text: laws and [memories.LABEL] of the file, on all its tasks and those of [[fresh]], by seeds that the
/// search has not used, at all its rates.
std::string front_study(const SearchFile& file, const std::vector<LabelledLaw>& laws);

/// The same, with what is wrong said at its place in the search's file. Throws ConfigError.
Study front_of(const Schema& schema, const SearchFile& file, const std::vector<LabelledLaw>& laws);

/// What decides the course of the search, as text: all but its budget and what is trained at its end.
std::string course_of(const SearchFile& file);

}  // namespace crosstalk::search

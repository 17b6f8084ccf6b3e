// What the versions of a study asked of a store: which runs, under which labels. A record keeps its
// configuration; its label comes from the study that asks, so that a study may be relabelled and two labels
// may name one run.
//
//   STORE/studies/NAME@VERSION.json  one file a version; VERSION is a checksum of labels and ids
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "results/store/record.h"

namespace crosstalk {

/// One label of a study: its name in figures and tables ("" = the label itself), and its runs.
struct AskedLabel {
  std::string label, title;
  std::vector<std::string> runs;  ///< ids
  std::vector<double> work = {};  ///< of each: estimated operations, to three digits; empty: not known
};

/// One version of a study.
struct Asked {
  std::string study, title;
  std::vector<AskedLabel> labels;  ///< in the study's order
  std::int64_t order = 0;          ///< of the versions in a store; the largest is the latest
  std::string version;             ///< 8 hex digits

  /// Checksum of the labels and their ids.
  std::string checksum() const;
};

/// The versions that a store knows, the latest first. Files that cannot be understood are passed over.
std::vector<Asked> read_asked(const std::filesystem::path& store);

/// Writes it down as the latest version, unless it already is. The store must exist. Throws StoreError.
void keep_asked(const std::filesystem::path& store, Asked asked);

/// Records as people see them: one row a run and label, by id and label.
struct LabelledRecords {
  std::map<std::string, Record> rows;
  std::vector<AskedLabel> labels;       ///< the order and names of labels that a study gives; no runs
  std::string title;                    ///< of the study, if there is just one
  std::vector<std::string> notes = {};  ///< of a table's reader, for stderr
  std::vector<std::string> order;       ///< ids, as the studies ask for them: the order of an axis' values
  /// What the studies ask for and no record is there of: configurations without results, one a run and label, where rows were
  /// read to be shown (load_rows).
  std::vector<Record> missing = {};
  std::map<std::string, std::string> places = {};  ///< where rows stand ("own.csv:3"), by their key

  /// Adds rows; of two of one run and label, a done or diverged one wins over a failed one. Labels that are
  /// new come last; the title stays if both agree. Throws std::invalid_argument, which names both places, where two of one
  /// run and label differ in what both know; `whole` reads the record behind a row.
  void merge(LabelledRecords other, const std::function<Record(const Record&)>& whole = {});
};

/// Under the labels of a study, what it asks for and nothing else. `others`: how many records that leaves.
LabelledRecords asked_rows(const std::map<std::string, Record>& records, const Asked& asked,
                           std::int64_t* others = nullptr);

/// All records of a store: under the labels of the latest version that asks for them, with the version in
/// Record::version; those that none asks for under the label that they were trained with.
LabelledRecords all_rows(const std::map<std::string, Record>& records, const std::vector<Asked>& versions);

}  // namespace crosstalk

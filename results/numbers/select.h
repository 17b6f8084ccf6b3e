// Choosing records: by what their configuration says, and the best of several values of a key.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "results/store/record.h"

namespace crosstalk {

using RecordList = std::vector<const Record*>;

/// A value of the record's configuration as text (strings without quotes); empty if there is none.
std::optional<std::string> config_text(const Record& record, const std::string& key);
std::optional<double> config_number(const Record& record, const std::string& key);
/// What the record's task is set to, a line a key: equal where two runs have the same setting.
std::string task_setting(const Record& record);

/// NaN where the record has no such metric.
double metric_in(const Record& record, const std::string& name);

/// A value of the configuration, and "label" (or "memory", as in the grid of a study), "study", "status", "verdict", "semantics",
/// "seed", "id", "d_dot", "state_size" and "study_version".
std::optional<std::string> field_text(const Record& record, const std::string& key);

/// Equal as texts or as numbers.
bool same_text(const std::string& a, const std::string& b);

/// Whether `value` is one of the alternatives of `wanted` ("A,B"); numbers compare as numbers, * and ? match
/// any characters.
bool matches(const std::string& value, const std::string& wanted);

/// Values sorted as numbers where they are numbers.
std::vector<std::string> sorted_values(const std::vector<std::string>& values);

/// Records that match every entry of `where`: key of field_text -> value of matches(), where "none" also means no such key. Throws
/// std::invalid_argument if a key is unknown to all records (names the nearest), if a value between commas stands in
/// none, or if nothing matches (names the values that there are).
RecordList choose_records(const RecordList& records, const std::map<std::string, std::string>& where);

/// Whether the record matches every entry of `where`; nothing is refused.
bool matches_all(const Record& record, const std::map<std::string, std::string>& where);

/// The key of records that somebody meant who wrote `key`: itself, a near one, or "".
std::string nearest_key(const RecordList& records, const std::string& key);

/// Throws std::invalid_argument, which begins with `option`, if `key` is unknown to all records.
void check_key(const RecordList& records, const std::string& option, const std::string& key);
/// Throws std::invalid_argument if all records have one value of a key of --best.
void check_varies(const RecordList& records, const std::vector<std::string>& best);

/// What tells runs of one point apart, and pairs those of two labels: the seed, and those of data and initialisation where they
/// have their own.
std::string seeds_of(const Record& record);

/// By what a best value is chosen on the validation split.
enum class BestBy { loss, accuracy };

/// Of runs that differ in `keys` and seeds alone, those with the best values: the smallest median over seeds
/// of the validation loss (best_eval_loss says what the best step reached, eval_loss what the run ended with;
/// the latter counts), or the largest of the validation accuracy, diverged ones being the worst. Values that were
/// tried with unequal seeds are held against each other by the seeds that all of them have; where none is, by all. At points that
/// were raced (train.race) the best of each seed, of those that were not outrun. Throws
/// std::invalid_argument if a key is unknown to all records, or no two runs differ in `keys` alone (names what
/// differs besides).
RecordList choose_best(const RecordList& records, const std::vector<std::string>& keys,
                       BestBy by = BestBy::loss);

/// What choose_best(records, keys) does where values were tried with unequal seeds: "At 36 of 36 points the values were tried
/// with unequal seeds: chosen by the seeds that all of them share (1)."; "" where they were nowhere.
std::string unequal_seeds_text(const RecordList& records, const std::vector<std::string>& keys);

/// Where the best value of a key lies in its grid.
struct EdgeChoice {
  std::string label;
  int choices = 0;                ///< made between two values or more
  int smallest = 0, largest = 0;  ///< of these, how often it was the smallest, and the largest
};
/// How choose_best(records, keys) chose the values of `key`, one of `keys`, whose values are numbers; labels of which no
/// choice was at an edge are left out.
std::vector<EdgeChoice> edge_choices(const RecordList& records, const std::vector<std::string>& keys,
                                     const std::string& key, BestBy by = BestBy::loss);
/// "The best learning rate is the largest tried for GLA (6 of 6 points): a better one may lie beyond."; "" where there are
/// no such choices of it.
std::string edges_text(const std::vector<EdgeChoice>& edges);

/// The metric of a state's size in bytes, where somebody's table gives it so.
inline constexpr const char* kStateBytes = "state_bytes";

/// The size of the state in bytes (4 a float) and in floats; 0 = not known.
double state_bytes(const Record& record);
double state_floats(const Record& record);

/// A run that is known by its accuracy or other metrics alone, as rows of somebody's table may be.
bool lacks_loss(const Record& record);

/// Removes what does not match. Throws the same.
void keep_matching(std::map<std::string, Record>& records, const std::map<std::string, std::string>& where);

RecordList list_of(const std::map<std::string, Record>& records);

/// Leaves of rows of one label, configuration, data seed and initialisation (but failed ones), of whatever sources, one (the
/// first, or that with curves): no training counts twice. Returns a sentence
/// that says how many it took away, or "". `places`: where rows stand ("own.csv:3"), by their key; else their ids name them.
/// Throws std::invalid_argument, which names both, where such rows are not equal.
std::string drop_repeats(std::map<std::string, Record>& rows,
                         const std::map<std::string, std::string>& places = {});

/// The name closest to `name`, or "" if none is close.
std::string nearest_of(const std::string& name, const std::vector<std::string>& names);

/// In what records differ besides seeds, known semantics included: "train.learning_rate (0.001, 0.003)"; the key and value that say most of it.
struct Pooled {
  std::vector<std::string> differing = {};
  std::string key = {}, value = {};
};
Pooled pooled_differences(const RecordList& records);

/// "Runs of semantics 4 and 5 stand side by side: their programs round otherwise."; "" where those that are known are one.
std::string semantics_text(const RecordList& records);

/// Keys of configurations (true: those that not all records have with one value), in one walk over the records.
std::map<std::string, bool> config_keys(const RecordList& records);
/// "seed", "data_seed", "init_seed": what runs of one point may differ in.
bool is_seed_key(const std::string& key);

}  // namespace crosstalk

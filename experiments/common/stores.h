// From what the user names (a study file or a store's folder) to runs and records.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "experiments/common/command.h"
#include "experiments/study/study.h"
#include "results/asked.h"
#include "results/numbers/select.h"
#include "results/store/store.h"

namespace crosstalk::program {

/// Options of every command that reads a study: --set, --max-runs.
std::vector<CommandOption> study_options();
/// Reads the study that the first positional argument names, with --set and --max-runs.
Study study_of(const Arguments& arguments);
/// --set KEY=VALUE in place of what the user sets KEY to.
void set_instead(Arguments& arguments, const std::string& set);
/// Reads a study's file, and names the nearest where there is none. Throws ConfigError.
Study study_named(const std::string& name, const StudyOptions& options = {});
/// --out, or ./runs/<study>.
std::filesystem::path store_path_of(const Arguments& arguments, const Study& study);

/// The path from the root, for messages that are read in another folder or on another day.
std::string full_path(const std::filesystem::path& path);

/// What the store at `path` holds, without the content of records: soon, however large it is; the reader's
/// warnings go to stderr. Nothing if there is no store yet. Throws StorePathError if there cannot be one.
StoreHeads load_heads(const std::filesystem::path& path, Console& console);

/// "3 records of semantics 2 lie here; kept, not mixed: ...", one line for each other than this program's.
std::vector<std::string> other_semantics(const StoreHeads& heads, const std::filesystem::path& store);

/// What a command was given: a study file (with its default store) or a store.
struct Target {
  std::filesystem::path store;
  std::optional<Study> study;
};
/// With --store, a study's store is that. Throws UsageError if `name` is neither.
Target find_target(const std::string& name, const Arguments& arguments);
/// Records of a target that must exist by now. Throws UsageError with the command that makes them.
StoreContents load_target(const Target& target, const std::string& name, Console& console);

/// What a study asks of its store.
Asked asked_of(const Study& study);
/// The rows of several stores and studies: of a study (with --set) what it asks for, under its labels; of a
/// store everything, under the labels of the studies that it knows; then only what --where says. Throws
/// UsageError, std::invalid_argument. `with_missing`: tells what is asked for and not there, unless --where asks for results.
LabelledRecords load_rows(const std::vector<std::string>& names, const Arguments& arguments, Console& console,
                          bool with_missing = false);

/// The same before --where, of what `read` gives for each store; `whole` reads the record behind a row, where that is less.
LabelledRecords join_rows(const std::vector<std::string>& names, const Arguments& arguments, Console& console,
                          const std::function<const StoreContents&(const std::filesystem::path& store)>& read,
                          const std::function<Record(const Record&)>& whole = {}, bool with_missing = false);

/// The stores that were looked into, for messages: "runs/a and runs/b (the store of b.toml; --store PATH names
/// another)".
std::string places_of(const std::vector<std::string>& names, const Arguments& arguments);

/// --store PATH: where the runs of a study lie.
CommandOption store_option();
/// --where KEY=VALUE, several times.
CommandOption where_option();
/// --best-by WHAT.
CommandOption best_by_option();
/// The keys of an option such as --best, given as A,B and several times. Throws UsageError.
std::vector<std::string> keys_of(const Arguments& arguments, const std::string& option);
/// --best-by: what the best values of --best are best by.
BestBy best_by_of(const Arguments& arguments);
/// What --where says: key -> value. Throws UsageError.
std::map<std::string, std::string> conditions_of(const Arguments& arguments);

/// "done", "diverged", "failed" or "missing".
std::string state_of(const Run& run, const StoreContents& contents);

/// Runs that are done, whose weights the study wants and the store does not keep: trained again for them.
std::set<std::string> lacking_weights(const std::vector<Run>& runs, const StoreContents& contents,
                                      const std::filesystem::path& store);

/// How many of each state.
struct StateCounts {
  std::int64_t done = 0, diverged = 0, failed = 0, missing = 0;
  void add(const std::string& state);
  std::int64_t total() const { return done + diverged + failed + missing; }
};

}  // namespace crosstalk::program

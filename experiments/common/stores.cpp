// Study files and stores as commands name them.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/common/stores.h"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/common/requests.h"
#include "experiments/common/text.h"
#include "experiments/study/schema.h"
#include "experiments/training/pack.h"
#include "experiments/training/state/record_of.h"
#include "kernels/base/text/names.h"
#include "results/csv.h"
#include "results/printable.h"
#include "results/replay/import.h"
#include "results/store/weights.h"

namespace crosstalk::program {

namespace fs = std::filesystem;

std::vector<CommandOption> study_options() {
  return {
      {"set", "KEY=VALUE",
       "Replace a key of [base] and of every grid; KEY=A,B makes an axis; seeds=1,2,3 replaces the seeds",
       true},
      {"max-runs", "N", "Refuse a study of more runs than this (default 100000, at most 250000)"},
  };
}

namespace {

/// A run takes up to 10 KB of memory while it is planned and trained.
constexpr std::int64_t kMostRuns = 250000;

std::int64_t max_runs_of(const Arguments& arguments, std::int64_t fallback) {
  const std::int64_t most = arguments.integer("max-runs", fallback, 1);
  if (most <= kMostRuns) return most;
  throw UsageError(fmt::format(
      "--max-runs {}: at most {}, for all runs of a study are held in memory. Split the study: several "
      "files, or parts by --set, go into one store (--out)",
      most, kMostRuns));
}

/// Most entries of a folder that are looked at for a name that somebody may have meant.
constexpr int kMostEntries = 1000;

enum class Named { study, store };

/// The study (without its extension) or the store in `folder` that is nearest to `name`; "" for none. Folders
/// that cannot be read hold nothing.
std::string nearest_in(const fs::path& folder, const std::string& name, Named kind) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(folder.empty() ? fs::path(".") : folder, error);
  for (int i = 0; !error && entry != fs::directory_iterator() && i < kMostEntries; ++i) {
    const fs::path& path = entry->path();
    std::error_code unknown;
    if (kind == Named::store && fs::exists(path / "store.json", unknown))
      names.push_back(path.filename().string());
    if (kind == Named::study && path.extension() == ".toml" && fs::is_regular_file(path, unknown))
      names.push_back(path.stem().string());
    entry.increment(error);
  }
  std::ranges::sort(names);
  return nearest_name(name, names);
}

/// Studies and stores that somebody may have meant who gave `name`, which nothing is called: "a.toml or
/// runs/a".
std::string near_targets(const std::string& name, bool stores) {
  fs::path given = fs::path(name).has_filename() ? fs::path(name) : fs::path(name).parent_path();
  if (!nearest_name(given.extension().string(), {".toml"}).empty()) given.replace_extension();
  const fs::path folder = given.parent_path();
  std::vector<std::string> near;
  const auto add = [&](const fs::path& in, Named kind) {
    const std::string found = nearest_in(in, given.filename().string(), kind);
    const char* extension = kind == Named::study ? ".toml" : "";
    if (!found.empty()) near.push_back(printable_line((in / (found + extension)).string()));
  };
  add(folder, Named::study);
  if (stores) add(folder, Named::store);
  if (stores && folder.empty()) add("runs", Named::store);
  return join(near, ", ", " or ");
}

}  // namespace

namespace {

/// Refuses --set train.max_steps where train.epochs decides the steps, which would be as if it had not been given.
void check_set_steps(const Study& study, const std::vector<std::string>& sets) {
  const auto setting = [&](const std::string& key) {
    return std::ranges::find_if(sets, [&](const std::string& set) { return set.starts_with(key + "="); });
  };
  const auto steps = setting("train.max_steps");
  if (steps == sets.end()) return;
  for (const Run& run : study.runs) {
    const std::int64_t epochs = run.config.has("train.epochs") ? run.config.get_int("train.epochs") : 0;
    if (epochs == 0) continue;
    throw ConfigError(fmt::format(
        "--set {}: train.epochs = {} decides the steps here ({}); add --set train.epochs=0, or set train.epochs in its place",
        *steps, epochs, run.config.get_int("train.max_steps")));
  }
}

}  // namespace

Study study_named(const std::string& name, const StudyOptions& options) {
  std::error_code error;
  if (fs::status(name, error).type() == fs::file_type::not_found)
    if (const std::string near = near_targets(name, false); !near.empty())
      throw ConfigError(fmt::format("{}: no such file; did you mean {}?", name, near));
  Study study = read_study(name, options);
  check_set_steps(study, options.set);
  return study;
}

void set_instead(Arguments& arguments, const std::string& set) {
  const std::string key = set.substr(0, set.find('='));
  std::vector<std::string>& sets = arguments.options["set"];
  std::erase_if(sets, [&](const std::string& one) {
    return one.starts_with(key) && one.find_first_not_of(' ', key.size()) == one.find('=');
  });
  sets.push_back(set);
}

Study study_of(const Arguments& arguments) {
  StudyOptions options;
  options.set = arguments.all("set");
  options.max_runs = max_runs_of(arguments, options.max_runs);
  return study_named(arguments.positional.at(0), options);
}

fs::path store_path_of(const Arguments& arguments, const Study& study) {
  if (arguments.has("out")) return arguments.get("out");
  return fs::path("runs") / study.name;
}

std::string full_path(const fs::path& path) {
  std::error_code error;
  const fs::path full = fs::absolute(path, error);
  return error ? path.string() : full.lexically_normal().string();
}

StoreHeads load_heads(const fs::path& path, Console& console) {
  std::error_code error;
  if (!fs::exists(path / "store.json", error)) {
    check_store_path(path);
    return {};
  }
  StoreHeads heads = read_heads(path);
  for (const std::string& warning : heads.contents.warnings) print_warning(console, warning);
  return heads;
}

std::vector<std::string> other_semantics(const StoreHeads& heads, const fs::path& store) {
  std::map<int, std::int64_t> counts;
  for (const auto& [id, place] : heads.places)
    if (place.semantics > 0 && place.semantics != kSemantics) ++counts[place.semantics];
  std::vector<std::string> lines;
  for (const auto& [semantics, count] : counts)
    lines.push_back(fmt::format(
        "{} holds {} of semantics {} (this program's is {}): kept, not mixed; 'crosstalk status {} --where semantics={}' shows them",
        full_path(store), plural(count, "record"), semantics, kSemantics, shell_quote(store.string()),
        semantics));
  return lines;
}

namespace {

/// Refuses options of studies where none is named.
void check_of_studies(const std::vector<std::string>& names, const Arguments& arguments) {
  for (const std::string& name : names)
    if (fs::path(name).extension() == ".toml") return;
  for (const auto& [option, what] : {std::pair{"store", "says where the runs of a study lie"},
                                     {"set", "replaces keys of a study"},
                                     {"max-runs", "is of studies"}})
    if (arguments.has(option))
      throw UsageError(
          fmt::format("--{} {}, but no study (*.toml) is named{}", option, what,
                      option == std::string("set") ? "; --where KEY=VALUE chooses among records" : ""));
}

}  // namespace

Target find_target(const std::string& name, const Arguments& arguments) {
  std::error_code error;
  const fs::file_status status = fs::status(name, error);
  if (fs::is_directory(status)) {
    check_of_studies(arguments.positional, arguments);
    return {name, std::nullopt};
  }
  if (!fs::exists(status) && fs::path(name).extension() != ".toml") {
    const std::string near = near_targets(name, true);
    throw UsageError(fmt::format("'{}' does not exist; {}", name,
                                 near.empty()
                                     ? "give a store (a folder that 'crosstalk run' wrote) or a study file"
                                     : fmt::format("did you mean {}?", near)));
  }
  StudyOptions options;
  options.set = arguments.all("set");
  Study study = study_named(name, options);
  fs::path store = arguments.has("store") ? fs::path(arguments.get("store")) : fs::path("runs") / study.name;
  return {std::move(store), std::move(study)};
}

std::string places_of(const std::vector<std::string>& names, const Arguments& arguments) {
  std::vector<std::string> places;
  for (const std::string& name : names) {
    if (fs::path(name).extension() != ".toml") {
      places.push_back(name);
      continue;
    }
    places.push_back(fmt::format("{} (the store of {}{})", find_target(name, arguments).store.string(), name,
                                 arguments.has("store") ? "" : "; --store PATH names another"));
  }
  return join(places, ", ", " and ");
}

CommandOption store_option() {
  return {"store", "PATH", "Where the runs of a study lie (default ./runs/<study>)"};
}

namespace {

void require_store(const Target& target, const std::string& name) {
  std::error_code error;
  if (target.study && !fs::exists(target.store, error))
    throw UsageError(fmt::format(
        "study '{0}' has no store at {1} yet; make it with 'crosstalk run {0}', or give the store's path if it lies elsewhere",
        name, target.store.string()));
}

}  // namespace

StoreContents load_target(const Target& target, const std::string& name, Console& console) {
  require_store(target, name);
  StoreContents contents = read_store(target.store);
  for (const std::string& warning : contents.warnings) print_warning(console, warning);
  return contents;
}

Asked asked_of(const Study& study) {
  Asked asked;
  asked.study = study.name;
  asked.title = study.title;
  std::map<std::string, std::size_t> places;
  for (const StudyLabel& label : study.labels) {
    places[label.label] = asked.labels.size();
    asked.labels.push_back({label.label, label.title, {}});
  }
  for (const Run& run : study.runs) {
    const double work = std::stod(fmt::format("{:.2e}", estimated_work(run)));
    for (const std::string& label : run.labels) {
      AskedLabel& to = asked.labels[places.at(label)];
      to.runs.push_back(run.id);
      to.work.push_back(work);
    }
  }
  return asked;
}

CommandOption where_option() {
  return {
      "where", "KEY=VALUE",
      "Only runs that match; KEY is a dotted key, label (or memory: [memories.LABEL] of the study, whose kind is "
      "memory.name), study, status or semantics; VALUE may be A,B and may hold * and ?; none is also no such key, of runs of "
      "another task, say",
      true};
}

std::map<std::string, std::string> conditions_of(const Arguments& arguments) {
  std::map<std::string, std::string> conditions;
  for (const std::string& condition : arguments.all("where")) {
    const auto equals = condition.find('=');
    if (equals == std::string::npos || equals == 0)
      throw UsageError(fmt::format("--where {}: needs KEY=VALUE, for example model.d_key=64", condition));
    const std::string key = condition.substr(0, equals);
    if (!conditions.emplace(key, condition.substr(equals + 1)).second)
      throw UsageError(fmt::format(
          "--where {}: the key is given twice; several values go with commas: {}=A,B", condition, key));
  }
  return conditions;
}

std::vector<std::string> keys_of(const Arguments& arguments, const std::string& option) {
  std::vector<std::string> keys;
  for (const std::string& list : arguments.all(option))
    for (const std::string& key : parts_of(list, ',')) {
      if (key.empty())
        throw UsageError(fmt::format("--{} {}: needs a key, such as memory.beta_max", option, list));
      keys.push_back(key);
    }
  return keys;
}

CommandOption best_by_option() {
  return choice_of("best-by", "WHAT", "Of --best: loss (default) or accuracy, of validation",
                   {"loss", "accuracy"});
}

BestBy best_by_of(const Arguments& arguments) {
  return arguments.get("best-by") == "accuracy" ? BestBy::accuracy : BestBy::loss;
}

namespace {

/// Runs that are asked for and not recorded.
void add_missing(LabelledRecords& rows, const Study& study, const StoreContents& contents) {
  for (const Run& run : study.runs)
    if (contents.records.count(run.id) == 0)
      for (const std::string& label : run.labels) {
        rows.missing.push_back(record_of(study.name, run, RunStatus::done));
        rows.missing.back().label = label;
      }
}

/// Whether the studies of a store ask for runs that are not there.
bool lacks_asked(const std::vector<Asked>& versions, const StoreContents& contents) {
  return std::ranges::any_of(versions, [&](const Asked& asked) {
    return std::ranges::any_of(asked.labels, [&](const AskedLabel& label) {
      return std::ranges::any_of(label.runs,
                                 [&](const std::string& id) { return contents.records.count(id) == 0; });
    });
  });
}

}  // namespace

LabelledRecords join_rows(const std::vector<std::string>& names, const Arguments& arguments, Console& console,
                          const std::function<const StoreContents&(const fs::path& store)>& read,
                          const std::function<Record(const Record&)>& whole, bool with_missing) {
  LabelledRecords rows;
  const auto add = [&](LabelledRecords more, const std::string& source) {
    if (names.size() > 1)
      for (const auto& [key, record] : more.rows)
        more.places.emplace(key, fmt::format("run {} in {}", record.id, source));
    rows.merge(std::move(more), whole);
  };
  check_of_studies(names, arguments);
  for (const std::string& name : names) {
    if (fs::path(name).extension() == ".csv") {  // an export, or somebody's own results
      LabelledRecords table = read_export(name);
      for (const std::string& note : table.notes) print_note(console, note);
      for (const auto& [key, varies] : config_keys(list_of(table.rows)))
        if (const std::string near =
                default_schema().knows(key) ? "" : nearest_name(key, default_schema().keys());
            !near.empty() && key.find('.') != std::string::npos)
          print_warning(console,
                        fmt::format("{}: column {} is no key of a study; did you mean {}?", name, key, near));
      add(std::move(table), name);
      continue;
    }
    const Target target = find_target(name, arguments);
    require_store(target, name);
    const StoreContents& contents = read(target.store);
    for (const std::string& warning : contents.warnings) print_warning(console, warning);
    if (!target.study) {
      const std::vector<Asked> versions = read_asked(target.store);
      add(all_rows(contents.records, versions), target.store.string());
      if (with_missing && lacks_asked(versions, contents)) {
        std::vector<std::string> unsaid;
        std::map<std::string, std::string> names_of_runs;
        add_missing(rows,
                    joint_study(read_requests(target.store, unsaid), target.store, names_of_runs, unsaid),
                    contents);
      }
      continue;
    }
    std::int64_t others = 0;
    add(asked_rows(contents.records, asked_of(*target.study), &others), target.store.string());
    if (with_missing) add_missing(rows, *target.study, contents);
    if (others > 0)
      print_note(
          console,
          fmt::format("{}: left out: {} in {} that this study does not ask for ({} in its place takes all)",
                      name, plural(others, "run"), target.store.string(), target.store.string()));
  }
  return rows;
}

LabelledRecords load_rows(const std::vector<std::string>& names, const Arguments& arguments, Console& console,
                          bool with_missing) {
  StoreContents contents;
  LabelledRecords rows = join_rows(
      names, arguments, console,
      [&](const fs::path& store) -> const StoreContents& { return contents = read_store(store); }, {},
      with_missing);
  std::set<std::string> there;  // in another store, perhaps
  for (const auto& [key, record] : rows.rows) there.insert(record.id);
  const auto conditions = conditions_of(arguments);
  keep_matching(rows.rows, conditions);
  const bool of_results = conditions.count("status") + conditions.count("verdict") > 0;
  std::erase_if(rows.missing, [&](const Record& run) {
    return of_results || there.count(run.id) != 0 || !matches_all(run, conditions);
  });
  if (const std::string told = drop_repeats(rows.rows, rows.places); !told.empty()) print_note(console, told);
  return rows;
}

std::set<std::string> lacking_weights(const std::vector<Run>& runs, const StoreContents& contents,
                                      const fs::path& store) {
  std::set<std::string> lacking;
  std::optional<std::set<std::string>> kept;  // the folder is read if anybody wants weights
  for (const Run& run : runs) {
    if (!run.keep_weights || state_of(run, contents) != "done") continue;
    if (!kept) kept = kept_weights(store);
    if (kept->count(run.id) == 0) lacking.insert(run.id);
  }
  return lacking;
}

std::string state_of(const Run& run, const StoreContents& contents) {
  const auto found = contents.records.find(run.id);
  return found == contents.records.end() ? "missing" : to_text(found->second.status);
}

void StateCounts::add(const std::string& state) {
  ++(state == "done" ? done : state == "diverged" ? diverged : state == "failed" ? failed : missing);
}

}  // namespace crosstalk::program

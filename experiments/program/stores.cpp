// Study files and stores as commands name them. SPDX-License-Identifier: Apache-2.0
#include "experiments/program/stores.h"

#include <fmt/format.h>

namespace crosstalk::program {

namespace fs = std::filesystem;

std::vector<CommandOption> study_options() {
  return {
      {"set",
       "KEY=VALUE",
       "Replace a key of [base] and of every grid; KEY=A,B makes an axis; seeds=1,2,3 replaces the seeds",
       true,
       {}},
      {"max-runs", "N", "Refuse a study of more runs than this (default 100000)", false, {}},
  };
}

Study study_of(const Arguments& arguments) {
  StudyOptions options;
  options.set = arguments.all("set");
  options.max_runs = arguments.integer("max-runs", options.max_runs, 1);
  return read_study(arguments.positional.at(0), options);
}

fs::path store_path_of(const Arguments& arguments, const Study& study) {
  if (arguments.has("out")) return arguments.get("out");
  return fs::path("runs") / study.name;
}

StoreContents load_store(const fs::path& path, Console& console) {
  std::error_code error;
  if (!fs::exists(path / "store.json", error)) {
    check_store_path(path);
    return {};
  }
  StoreContents contents = read_store(path);
  for (const std::string& warning : contents.warnings) print_warning(console, warning);
  return contents;
}

Target find_target(const std::string& name, const Arguments& arguments) {
  std::error_code error;
  const fs::file_status status = fs::status(name, error);
  if (fs::is_directory(status)) return {name, std::nullopt};
  if (!fs::exists(status) && fs::path(name).extension() != ".toml")
    throw UsageError(fmt::format(
        "'{}' does not exist; give a store (a folder that 'crosstalk run' wrote) or a study file", name));
  StudyOptions options;
  options.set = arguments.all("set");
  Study study = read_study(name, options);
  fs::path store = fs::path("runs") / study.name;
  return {std::move(store), std::move(study)};
}

StoreContents load_target(const Target& target, const std::string& name, Console& console) {
  std::error_code error;
  if (target.study && !fs::exists(target.store, error))
    throw UsageError(
        fmt::format("study '{0}' has no store at {1} yet; make it with 'crosstalk run {0}', or give the "
                    "store's path if it lies elsewhere",
                    name, target.store.string()));
  StoreContents contents = read_store(target.store);
  for (const std::string& warning : contents.warnings) print_warning(console, warning);
  return contents;
}

std::string state_of(const Run& run, const StoreContents& contents) {
  const auto found = contents.records.find(run.id);
  return found == contents.records.end() ? "missing" : to_text(found->second.status);
}

void StateCounts::add(const std::string& state) {
  ++(state == "done" ? done : state == "diverged" ? diverged : state == "failed" ? failed : missing);
}

}  // namespace crosstalk::program

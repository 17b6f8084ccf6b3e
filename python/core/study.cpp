// Studies as runs.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/study.h"

#include <fmt/format.h>

#include <filesystem>
#include <sstream>

#include "experiments/common/requests.h"
#include "experiments/common/stores.h"
#include "experiments/program/chosen.h"
#include "experiments/program/run.h"
#include "experiments/sharing/session_options.h"
#include "experiments/training/foreign_memory.h"
#include "python/core/convert.h"

using namespace nb::literals;

namespace crosstalk::python {
namespace {

using program::Arguments;

/// As `crosstalk run` reads these options.
Arguments arguments_of(const std::string& path, std::vector<std::string> words) {
  words.insert(words.end(), {"--", path});
  return program::parse_arguments(*program::find_command("run"), words);
}

/// A study's runs, as `words` choose them (with --chosen-of those of PyTorch models alone are tried and trained here where `foreign`);
/// or what was asked of a store, without labels.
nb::dict study_of(const std::string& path, const std::vector<std::string>& words, bool foreign) {
  std::ostringstream out, told;
  Asked asked;
  std::map<std::string, std::string> names;  // of the studies that ask a store, by run
  const Study study = [&] {
    const nb::gil_scoped_release release;
    program::Console console{.out = out, .err = told, .arguments = {}};
    if (std::filesystem::exists(std::filesystem::path(path) / "store.json")) {
      std::vector<std::string> notes, problems;
      Study joint = program::joint_study(program::read_requests(path, notes), path, names, problems);
      notes.insert(notes.end(), problems.begin(), problems.end());
      for (const std::string& note : notes) program::print_warning(console, note);
      return joint;
    }
    const Arguments arguments = arguments_of(path, words);
    Study read = program::study_of(arguments);
    if (foreign && arguments.has("chosen-of"))
      std::erase_if(read.runs, [](const Run& run) { return !is_foreign(run.config); });
    if (!read.runs.empty()) program::keep_chosen(arguments, read, console);
    if (auto part = program::part_of(arguments, read)) read.runs = std::move(*part);
    asked = program::asked_of(read);
    return read;
  }();
  nb::dict all;
  all["name"] = study.name, all["title"] = study.title, all["text"] = study.text,
  all["product"] = study.product, all["notes"] = told.str();
  nb::list labels, runs;
  for (const AskedLabel& label : asked.labels)
    labels.append(nb::make_tuple(label.label, label.title, label.runs, label.work));
  for (const Run& run : study.runs) {
    nb::dict one;
    one["id"] = run.id, one["label"] = run.label, one["labels"] = run.labels, one["seed"] = run.seed;
    one["config"] = dict_of(run.config);
    one["d_dot"] = run.d_dot > 0 ? nb::cast(run.d_dot) : nb::none();
    one["state_size"] = run.state_size > 0 ? nb::cast(run.state_size) : nb::none();
    one["keep_weights"] = run.keep_weights, one["study"] = names.empty() ? study.name : names[run.id];
    runs.append(one);
  }
  all["labels"] = labels, all["runs"] = runs;
  return all;
}

/// The words of the two steps of --rates-short.
std::pair<std::vector<std::string>, std::vector<std::string>> two_steps(
    const std::string& path, const std::vector<std::string>& words) {
  const auto words_of = [](const Arguments& arguments) {
    std::vector<std::string> all;
    for (const auto& [name, values] : arguments.options)
      for (const std::string& value : values) all.push_back(fmt::format("--{}={}", name, value));
    return all;
  };
  const auto [first, second] = program::two_steps_of(arguments_of(path, words));
  return {words_of(first), words_of(second)};
}

}  // namespace

void bind_study(nb::module_& m) {
  m.def("study", &study_of, "path"_a, "words"_a, "foreign"_a = false);
  m.def("two_steps", &two_steps, "path"_a, "words"_a);
  m.def("seconds_of", &program::seconds_of, "text"_a, "option"_a);
  m.def(
      "run_id", [](const nb::dict& config) { return run_id(options_of(config)); }, "config"_a);
}

}  // namespace crosstalk::python

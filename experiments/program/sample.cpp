// crosstalk sample: what a model sees and must answer.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/inspect/sample.h"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/common/command.h"
#include "experiments/common/exit_codes.h"
#include "experiments/common/text.h"
#include "experiments/study/study.h"
#include "experiments/study/toml_reader.h"
#include "kernels/base/error.h"
#include "results/store/store.h"

namespace crosstalk::program {
namespace {

Options options_of(const TaskKind& kind, const std::vector<std::string>& sets);

/// The call that shows what the first run of a study sees; nothing where the file is none.
std::string call_of(const std::string& path) {
  try {
    const Study study = read_study(path);
    const Options& config = study.runs.at(0).config;
    const TaskKind& kind = *find_task(config.get_string("task.name"));
    std::vector<std::string> sets;
    for (const OptionSpec& spec : kind.options) {
      const std::string key = "task." + spec.name;
      if (config.at(key) != spec.default_value)
        sets.push_back(fmt::format("{}={}", key, unquoted(config.at(key))));
    }
    for (std::size_t i = sets.size(); i-- > 0;) {  // what follows from the others needs not be said
      std::vector<std::string> fewer = sets;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      const std::string key = sets[i].substr(0, sets[i].find('='));
      if (options_of(kind, fewer).at(key) == config.at(key)) sets = fewer;
    }
    std::string call = "crosstalk sample " + kind.name;
    for (const std::string& set : sets)
      call += set.find(' ') == std::string::npos ? " --set " + set : fmt::format(" --set '{}'", set);
    return call;
  } catch (const std::exception&) {
    return "";
  }
}

const TaskKind& task_of(const std::string& name) {
  if (const TaskKind* kind = find_task(name)) return *kind;
  if (name.ends_with(".toml")) {
    const std::string call = call_of(name);
    throw UsageError(fmt::format("sample: '{}' is a study, and this wants a task; {}", name,
                                 call.empty() ? "for example crosstalk sample recall -n 2"
                                              : "what its first run sees, shows: " + call));
  }
  throw UsageError(
      fmt::format("sample: unknown task '{}'; {}", name, suggestion(name, names_of(task_kinds()), "'")));
}

/// Options of the task after --set, checked and resolved.
Options options_of(const TaskKind& kind, const std::vector<std::string>& sets) {
  Options options;
  std::vector<std::string> keys;
  for (const OptionSpec& spec : kind.options) keys.push_back("task." + spec.name);
  for (const std::string& set : sets) {
    const auto fail = [&](const std::string& message) -> ConfigError {
      return ConfigError(fmt::format("--set {}: {}", set, message));
    };
    const auto equals = set.find('=');
    if (equals == std::string::npos || equals == 0)
      throw fail("needs KEY=VALUE, for example task.associations=8");
    const std::string key = set.substr(0, equals), text = set.substr(equals + 1);
    const auto at = std::ranges::find(keys, key);
    if (at == keys.end()) {
      const std::string near = nearest_name(key, keys);
      const bool bare = std::ranges::find(keys, "task." + key) != keys.end();
      throw fail(fmt::format("{} has no key {}{}", kind.name, key,
                             bare           ? fmt::format("; did you mean task.{}?", key)
                             : near.empty() ? fmt::format("; its keys are {}", join(keys, ", ", " and "))
                                            : fmt::format("; did you mean {}?", near)));
    }
    try {
      const OptionSpec& spec = kind.options[static_cast<std::size_t>(at - keys.begin())];
      const OptionValue value = check_option(spec, "task", parse_toml_scalar(text).value_or(text));
      if (options.has(key) && options.at(key) != value)
        throw fail(fmt::format("{} is {} already, by another --set; keep one of the two", key,
                               to_text(options.at(key))));
      options.set(key, value);
    } catch (const OptionError& error) {
      throw fail(error.what());
    }
  }
  options.set("task.name", kind.name);
  fill_defaults(options, "task", kind.options);
  try {
    if (kind.resolve != nullptr) kind.resolve(options);
  } catch (const OptionError& error) {
    throw ConfigError(fmt::format("{}: {}", error.key, error.what()));
  }
  return options;
}

int run_sample(const Arguments& arguments, Console& console) {
  const TaskKind& kind = task_of(arguments.positional.at(0));
  SampleRequest request;
  request.task_name = kind.name;
  request.options = options_of(kind, arguments.all("set"));
  request.count = static_cast<int>(arguments.integer("count", request.count, 1, 1'000'000));
  request.seed = static_cast<std::uint64_t>(arguments.integer("seed", 0, 0));
  const std::string split = arguments.get("split", "train");
  for (const Split candidate : {Split::train, Split::eval, Split::test})
    if (split == split_name(candidate)) request.split = candidate;
  const std::unique_ptr<Task> task = kind.make(request.options);
  if (!arguments.has("out")) {
    console.out << sample_text(*task, request.split, request.seed, request.count);
    return exit_done;
  }
  const std::string folder = arguments.get("out");
  try {
    write_sample(folder, *task, request);
  } catch (const SampleWriteError& error) {
    throw StoreError(error.what());
  } catch (const std::runtime_error& error) {
    throw UsageError(fmt::format("--out {}: {}", folder, error.what()));
  }
  console.out << folder << "\n";
  return exit_done;
}

}  // namespace

extern const Command sample_command = {
    "sample",
    "show examples of a task, or write them as .npy",
    "TASK [-n N] [--seed K] [--split train|eval|test] [--set KEY=VALUE]... [--out DIR]",
    "Sequence i of a split is a pure function of the task's options and the data seed, so these\n"
    "are the very sequences that a run of that seed sees. With --out DIR writes .npy files\n"
    "(int64; README.txt in there says what each is) for your own code.\n\n"
    "Examples:\n"
    "  crosstalk sample recall -n 2\n"
    "  crosstalk sample reassign -n 1 --split eval --set task.associations=6\n"
    "  crosstalk sample recall -n 1000 --seed 1 --set task.associations=20 --out sample\n"
    "  python3 -c 'import numpy; print(numpy.load(\"sample/keys.npy\").shape)'\n",
    1,
    1,
    "needs a task, for example: crosstalk sample recall -n 2",
    {
        {"count,n", "N", "Sequences (default 4)"},
        {"seed", "K", "Data seed (default 0)"},
        {"split", "SPLIT", "train (default), eval or test", false, {"train", "eval", "test"}},
        {"set", "KEY=VALUE", "Set a key of the task", true},
        {"out,o", "DIR", "Write .npy files there instead of text"},
    },
    run_sample,
};

}  // namespace crosstalk::program

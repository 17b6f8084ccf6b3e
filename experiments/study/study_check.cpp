// Checks that need no expansion: values against the options they could mean, keys against the kinds in use.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <set>

#include "experiments/study/study.h"
#include "experiments/study/study_file.h"
#include "kernels/base/error.h"

namespace crosstalk {
namespace {

void check_seed(const Blame& blame, const std::string& key, const Setting& setting) {
  const auto* seed = std::get_if<std::int64_t>(&setting.value);
  if (!seed || *seed < 0) {
    blame.fail(setting.from, fmt::format("{} wants integers from 0, got {}", key, to_text(setting.value)));
  }
}

/// All options of any kind with this key.
std::vector<const OptionSpec*> candidates(const Schema& schema, const std::string& key) {
  std::vector<const OptionSpec*> found;
  const auto add = [&](const OptionSpec* spec) {
    if (spec) found.push_back(spec);
  };
  if (key.compare(0, 5, "task.") == 0) {
    for (const SchemaTask& task : schema.tasks) add(find_option(schema, task.name, "", key));
  } else if (key.compare(0, 7, "memory.") == 0) {
    for (const SchemaMemory& memory : schema.memories) add(find_option(schema, "", memory.name, key));
  } else {
    add(find_option(schema, "", "", key));
  }
  return found;
}

/// Names of the kinds that have option `key`.
template <class Kinds>
std::vector<std::string> owners(const Kinds& kinds, const std::string& option) {
  std::vector<std::string> names;
  for (const auto& kind : kinds) {
    for (const OptionSpec& spec : kind.options) {
      if (spec.name == option) names.push_back(kind.name);
    }
  }
  return names;
}

bool intersects(const std::vector<std::string>& names, const std::set<std::string>& used) {
  for (const std::string& name : names) {
    if (used.count(name)) return true;
  }
  return false;
}

/// The tasks that the study names anywhere.
std::set<std::string> tasks_of(const StudyFile& file) {
  std::set<std::string> used;
  const auto add = [&](const std::map<std::string, Setting>& settings) {
    const auto it = settings.find("task.name");
    if (it != settings.end()) used.insert(std::get<std::string>(it->second.value));
  };
  add(file.base);
  for (const MemoryTable& memory : file.memories) add(memory.settings);
  for (const Block& block : file.blocks) {
    for (const Axis& axis : block.axes) {
      for (const AxisValues& column : axis.columns) {
        if (column.key != "task.name") continue;
        for (const Setting& setting : column.list) used.insert(std::get<std::string>(setting.value));
      }
    }
  }
  return used;
}

void check_applies(const Schema& schema, const Blame& blame, const std::string& key, const Origin& from,
                   const std::set<std::string>& tasks, const std::set<std::string>& memories) {
  if (key.compare(0, 5, "task.") == 0 && key != "task.name") {
    const std::vector<std::string> has = owners(schema.tasks, key.substr(5));
    if (!tasks.empty() && !intersects(has, tasks)) {
      blame.fail(from, fmt::format("{} means nothing to task {}; it belongs to {}", key,
                                   join_names({tasks.begin(), tasks.end()}), join_names(has)));
    }
  } else if (key.compare(0, 7, "memory.") == 0) {
    const std::vector<std::string> has = owners(schema.memories, key.substr(7));
    if (!intersects(has, memories)) {
      blame.fail(from, fmt::format("{} means nothing to {}, the memories here; it belongs to {}", key,
                                   join_names({memories.begin(), memories.end()}), join_names(has)));
    }
  }
}

}  // namespace

void check_setting(const Schema& schema, const Blame& blame, const std::string& key, const Setting& setting) {
  if (key == "seeds" || key == "data_seed" || key == "init_seed") return check_seed(blame, key, setting);
  if (key == "task.name") {
    const auto* name = std::get_if<std::string>(&setting.value);
    if (name && schema.find_task(*name)) return;
    const std::vector<std::string> names = schema.task_names();
    const std::string near = nearest_name(name ? *name : "", names);
    blame.fail(setting.from, fmt::format("unknown task {}; {}", to_text(setting.value),
                                         near.empty() ? "there are " + join_names(names)
                                                      : fmt::format("did you mean {}?", near)));
  }
  std::optional<OptionError> refusal;
  for (const OptionSpec* spec : candidates(schema, key)) {
    try {
      option_value(*spec, key, setting);
      return;
    } catch (const OptionError& error) {
      if (!refusal) refusal = error;
    }
  }
  if (refusal) blame.fail(setting.from, refusal->what());
}

OptionValue option_value(const OptionSpec& spec, const std::string& key, const Setting& setting) {
  const std::string prefix = key.substr(0, key.find('.'));
  const bool wants_text = std::holds_alternative<std::string>(spec.default_value);
  if (setting.from.set >= 0 && wants_text && !std::holds_alternative<std::string>(setting.value)) {
    return check_option(spec, prefix, to_text(setting.value));  // --set eval.length_factors=2 needs no quotes
  }
  // 1e4 is a number to TOML; where a whole one is wanted, it is one.
  if (const auto* number = std::get_if<double>(&setting.value);
      number && std::holds_alternative<std::int64_t>(spec.default_value) && std::abs(*number) < 1e15 &&
      std::floor(*number) == *number)
    return check_option(spec, prefix, static_cast<std::int64_t>(*number));
  if (key == "train.keep_weights" && std::holds_alternative<bool>(setting.value))  // or "every N"
    return to_text(setting.value);
  return check_option(spec, prefix, setting.value);
}

void check_keys_apply(const Schema& schema, const Blame& blame, const StudyFile& file) {
  const std::set<std::string> tasks = tasks_of(file);
  std::set<std::string> memories;
  for (const MemoryTable& memory : file.memories) memories.insert(memory.name);
  for (const auto& [key, setting] : file.base)
    check_applies(schema, blame, key, setting.from, tasks, memories);
  for (const MemoryTable& memory : file.memories) {
    for (const auto& [key, setting] : memory.settings)
      check_applies(schema, blame, key, setting.from, tasks, memories);
  }
  for (const Block& block : file.blocks) {
    std::set<std::string> here;
    for (const Axis& axis : block.axes) {
      for (const AxisValues& column : axis.columns) {
        if (column.key != "memory") continue;
        for (const Setting& label : column.list) {
          here.insert(file.find_memory(std::get<std::string>(label.value))->name);
        }
      }
    }
    for (const Axis& axis : block.axes) {
      for (const AxisValues& column : axis.columns) {
        const bool set =
            column.from.set >= 0;  // --set reaches every block; it need not mean something in each
        check_applies(schema, blame, column.key, column.from, tasks, set ? memories : here);
      }
    }
  }
}

}  // namespace crosstalk

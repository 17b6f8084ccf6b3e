// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "kernels/base/text/names.h"

namespace crosstalk {
namespace {

const OptionSpec* find_spec(const std::vector<OptionSpec>& specs, const std::string& name) {
  const auto it = std::ranges::find_if(specs, [&](const OptionSpec& s) { return s.name == name; });
  return it == specs.end() ? nullptr : &*it;
}

template <class Named>
const Named* find_named(const std::vector<Named>& all, const std::string& name) {
  const auto it = std::ranges::find_if(all, [&](const Named& n) { return n.name == name; });
  return it == all.end() ? nullptr : &*it;
}

template <class Named>
std::vector<std::string> names_of(const std::vector<Named>& all) {
  std::vector<std::string> names;
  for (const Named& named : all) names.push_back(named.name);
  return names;
}

/// Where to say what decides no result and so is no key; "" for anything else.
std::string said_elsewhere(const std::string& name) {
  struct Elsewhere {
    std::vector<std::string> names;
    const char* text;
  };
  static const std::vector<Elsewhere> all = {
      {{"device", "gpu", "gpus", "cuda", "use_gpu", "use_cuda"},
       "the device is chosen when the study is run: crosstalk run STUDY.toml --device cuda:0"},
      {{"threads", "num_threads", "workers", "num_workers", "n_jobs"},
       "threads are chosen when the study is run: crosstalk run STUDY.toml --threads 4"},
      {{"out", "out_dir", "output", "output_dir", "save_dir", "log_dir", "store"},
       "the store is chosen when the study is run: crosstalk run STUDY.toml --out STORE"},
      {{"resume", "resume_from", "checkpoint"},
       "'crosstalk run' always resumes: it trains what is missing in the store, and continues what was stopped"},
  };
  for (const Elsewhere& one : all)
    if (std::ranges::find(one.names, name) != one.names.end()) return one.text;
  return "";
}

}  // namespace

const SchemaTask* Schema::find_task(const std::string& name) const { return find_named(tasks, name); }
const SchemaMemory* Schema::find_memory(const std::string& name) const { return find_named(memories, name); }
std::vector<std::string> Schema::task_names() const { return names_of(tasks); }
std::vector<std::string> Schema::memory_names() const { return names_of(memories); }

std::vector<std::string> Schema::keys() const {
  std::set<std::string> all = {"task.name", "memory.name", "data_seed", "init_seed"};
  const auto add = [&](const char* prefix, const std::vector<OptionSpec>& specs) {
    for (const OptionSpec& spec : specs) all.insert(fmt::format("{}.{}", prefix, spec.name));
  };
  for (const SchemaTask& task : tasks) add("task", task.options);
  for (const SchemaMemory& memory : memories) add("memory", memory.options);
  add("model", model);
  add("train", train);
  add("eval", eval);
  return {all.begin(), all.end()};
}

bool Schema::knows(const std::string& key) const {
  const std::size_t dot = key.find('.');
  const std::string prefix = key.substr(0, dot), name = dot == std::string::npos ? "" : key.substr(dot + 1);
  const auto has = [&](const auto& kind) { return find_spec(kind.options, name) != nullptr; };
  if (key == "task.name" || key == "memory.name" || key == "data_seed" || key == "init_seed") return true;
  if (prefix == "task") return std::ranges::any_of(tasks, has);
  if (prefix == "memory") return std::ranges::any_of(memories, has);
  return find_option(*this, "", "", key) != nullptr;
}

std::string Schema::unknown_key(const std::string& key) const {
  const std::vector<std::string> all = keys();
  const std::size_t dot = key.find('.');
  const std::string prefix = key.substr(0, dot == std::string::npos ? 0 : dot + 1);
  const std::string last = key.substr(prefix.size());
  if (const std::string place = said_elsewhere(last); !place.empty())
    return fmt::format("unknown key {}: {}", key, place);

  std::string near;
  for (const std::string& known : all) {  // the right name under the wrong prefix, or under none
    if (near.empty() && known.substr(known.find('.') + 1) == last) near = known;
  }
  if (near.empty()) near = synonym_of(last, all);
  std::vector<std::string> siblings;
  for (const std::string& known : all) {
    if (!prefix.empty() && known.compare(0, prefix.size(), prefix) == 0) siblings.push_back(known);
  }
  if (near.empty()) {  // compare behind the prefix: it would make all its keys look alike
    std::vector<std::string> ends;
    for (const std::string& sibling : siblings) ends.push_back(sibling.substr(prefix.size()));
    if (const std::string end = nearest_name(last, ends); !end.empty()) near = prefix + end;
  }
  if (near.empty() && prefix.empty()) {  // no prefix at all: whatever lies behind one
    std::vector<std::string> ends;
    for (const std::string& known : all) ends.push_back(known.substr(known.find('.') + 1));
    if (const std::string end = nearest_name(last, ends); !end.empty())
      near = all[static_cast<std::size_t>(std::ranges::find(ends, end) - ends.begin())];
  }
  if (near.empty()) near = nearest_name(key, all);
  if (!near.empty()) return fmt::format("unknown key {}; did you mean {}?", key, near);
  if (!siblings.empty()) return fmt::format("unknown key {}; it could be {}", key, join_names(siblings));
  return fmt::format(
      "unknown key {}; keys begin with task., model., memory., train. or eval., or are data_seed or init_seed",
      key);
}

const OptionSpec* find_option(const Schema& schema, const std::string& task, const std::string& memory,
                              const std::string& key) {
  const std::size_t dot = key.find('.');
  if (dot == std::string::npos) return nullptr;
  const std::string prefix = key.substr(0, dot), name = key.substr(dot + 1);
  if (prefix == "model") return find_spec(schema.model, name);
  if (prefix == "train") return find_spec(schema.train, name);
  if (prefix == "eval") return find_spec(schema.eval, name);
  if (prefix == "task") {
    const SchemaTask* kind = schema.find_task(task);
    return kind ? find_spec(kind->options, name) : nullptr;
  }
  if (prefix == "memory") {
    const SchemaMemory* kind = schema.find_memory(memory);
    return kind ? find_spec(kind->options, name) : nullptr;
  }
  return nullptr;
}

std::string join_names(const std::vector<std::string>& names) {
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) out += i + 1 == names.size() ? " or " : ", ";
    out += names[i];
  }
  return out;
}

}  // namespace crosstalk

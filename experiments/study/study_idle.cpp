// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/study_idle.h"

#include <optional>

#include "experiments/study/study_expand.h"
#include "kernels/base/text/no_effect.h"

namespace crosstalk {
namespace {

/// A number that is not the default; words, switches and 0 at their defaults say that something is off or derived, which is true.
std::optional<OptionValue> other_number(const OptionSpec& spec) {
  if (spec.default_value == OptionValue{std::int64_t{0}} || spec.default_value == OptionValue{0.0})
    return std::nullopt;
  if (const auto* whole = std::get_if<std::int64_t>(&spec.default_value))
    return static_cast<double>(*whole) < spec.max ? *whole + 1 : *whole - 1;
  const auto* real = std::get_if<double>(&spec.default_value);
  if (!real) return std::nullopt;
  for (const double x : {2 * *real, *real / 2, *real + 0.5, spec.max})
    if (x != *real && x <= spec.max && (spec.min_exclusive ? x > spec.min : x >= spec.min)) return x;
  return std::nullopt;
}

}  // namespace

Run IdleOptions::resolved(const Settings& settings, const std::string& memory) {
  std::string text = memory;
  for (const auto& [key, setting] : settings)
    if (!key.starts_with("train.") && !key.starts_with("eval."))
      text.append("\n")
          .append(key)
          .append(1, static_cast<char>('0' + setting.value.index()))
          .append(to_text(setting.value));
  auto known = known_.find(text);
  if (known == known_.end()) known = known_.emplace(text, resolve_model_of(schema_, settings, memory)).first;
  Run run = known->second;
  resolve_training_of(schema_, settings, run);
  return run;
}

Run IdleOptions::resolve(const Settings& settings, const MemoryTable& memory) {
  const SchemaMemory& kind = *schema_.find_memory(memory.name);
  const Settings* now = &settings;
  Settings without;
  std::map<std::string, OptionValue> of_authors;  // nobody gave them: a run's id has them as before
  std::set<std::string> seen;
  last_.clear();
  Run run;
  while (true) {
    try {
      run = resolved(*now, memory.name);
      break;
    } catch (const NoEffect& error) {
      const auto task = settings.find("task.name");
      const OptionSpec* spec =
          task == settings.end()
              ? nullptr
              : find_option(schema_, std::get<std::string>(task->second.value), memory.name, error.key);
      const auto given = settings.find(error.key);
      const auto authors = kind.published.find(error.key);
      if (!spec || !seen.insert(error.key).second ||
          (given == settings.end() && authors == kind.published.end()))
        throw;
      if (now == &settings) without = settings, now = &without;
      if (given == settings.end()) {
        if (error.key.starts_with("memory.")) of_authors.insert(*authors);
        without.insert_or_assign(error.key, Setting{spec->default_value, {memory.name_at, -1}});
        continue;
      }
      const Origin from = given->second.from;
      last_.emplace(error.key, Idle{given->second.value, from, error.what()});
      unused_.emplace(place(error.key, from), std::pair{from, std::string(error.what())});
      without.insert_or_assign(error.key, Setting{spec->default_value, from});
    }
  }
  for (const auto& [key, value] : of_authors) run.config.set(key, value);
  for (const auto& [key, setting] : settings) {
    if (seen.count(key) != 0 || used_.count(place(key, setting.from)) != 0) continue;
    if (const OptionSpec* spec = find_option(schema_, run.config.get_string("task.name"), memory.name, key))
      try_default(key, *spec, *now, memory);
  }
  return run;
}

void IdleOptions::try_default(const std::string& key, const OptionSpec& spec, const Settings& settings,
                              const MemoryTable& memory) {
  const Setting& given = settings.at(key);
  const std::optional<OptionValue> other = other_number(spec);
  if (other && option_value(spec, key, given) == spec.default_value) {
    Settings changed = settings;
    changed[key].value = *other;
    try {
      resolved(changed, memory.name);
    } catch (const NoEffect& error) {
      if (error.key == key) {
        unused_.emplace(place(key, given.from), std::pair{given.from, std::string(error.what())});
        return;
      }
    } catch (const OptionError&) {  // it is looked at
    }
  }
  used_.insert(place(key, given.from));
}

void IdleOptions::named(const std::string& id, bool is_first) {
  if (is_first) {
    if (!last_.empty()) first_.emplace(id, last_);
    return;
  }
  static const std::map<std::string, Idle> none;
  const auto known = first_.find(id);
  const std::map<std::string, Idle>& first = known == first_.end() ? none : known->second;
  const auto refuse_more = [&](const std::map<std::string, Idle>& ones,
                               const std::map<std::string, Idle>& others) {
    for (const auto& [key, idle] : ones) {
      const auto same = others.find(key);
      if (same == others.end() || same->second.value != idle.value) blame_.refuse(idle.from, idle.why);
    }
  };
  refuse_more(last_, first);
  refuse_more(first, last_);
}

void IdleOptions::settle() const {
  for (const auto& [place, told] : unused_)
    if (used_.count(place) == 0 && (blame_.sets.empty() || told.first.set >= 0))
      blame_.refuse(told.first, told.second);
}

}  // namespace crosstalk

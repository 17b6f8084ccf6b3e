// The registry of memories, and what building a model says of one: whether its options can be built, and the floats it keeps.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "kernels/base/buffer.h"
#include "kernels/base/error.h"
#include "models/build.h"
#include "models/memory.h"
#include "models/memory_files.h"
#include "models/mixers/language_options.h"
#include "models/mixers/probe_model.h"
#include "models/mixers/stack_text.h"
#include "models/model.h"
#include "models/parts/model_parts.h"
#include "models/parts/parts.h"
#include "models/rules/memory_law.h"

namespace crosstalk {
namespace {

void check_heads(const Options& options) {
  const std::int64_t heads = heads_of(options), d = options.get_int("model.d_key");
  if (d % heads != 0)
    throw OptionError(
        "model.heads",
        fmt::format("model.heads = {} does not divide model.d_key = {}; give a divisor of it", heads, d));
}

// A form that does not cover the memory, or a law for a parameter that it has not, is refused now, not when
// training begins: building a model of the smallest sizes finds out.
void build_to_check(const Options& options) {
  const auto given = [&](const char* key, const char* neutral) {
    return options.has(key) && options.get_string(key) != neutral;
  };
  if (is_language(options)) {  // layers of several memories, and reads at tokens: always
    make_model<float>(options, {.values = 2, .tokens = 2}, Device::cpu, 1);
    return;
  }
  if (!options.has("model.name") ||
      (!given("memory.form", name_of(Form::automatic)) && !given("model.init", "")))
    return;
  Options small = options;
  small.set("model.embedding", 2);
  try {
    make_model<float>(small, {2, 2, false}, Device::cpu, 1);
  } catch (const OptionError& error) {
    // A law may name what only tasks of two keys have.
    const auto other = [&] {
      try {
        make_model<float>(small, {2, 2, true}, Device::cpu, 1);
        return true;
      } catch (const OptionError&) {
        return false;
      }
    };
    if (error.key != "model.init" || !other()) throw;
  }
}

/// build_to_check(), without memory for parameters, and not again for the model that passed last: studies vary tasks and rates.
void check_by_building(const Options& options) {
  static thread_local Options passed;
  Options own;
  for (const auto& [key, value] : options.values())
    if (!key.starts_with("task.")) own.set(key, value);
  if (own == passed) return;
  std::optional<MemoryMeasure> unallocated;
  if (!MemoryMeasure::active()) unallocated.emplace();
  build_to_check(options);
  passed = std::move(own);
}

}  // namespace

Memory completed(Memory memory) {
  if (memory.family == Family::keeps) {
    memory.keeps_keys = true;
    memory.states.clear();
    if (!memory.state) memory.state = state::cache;
  }
  std::vector<OptionSpec> options;
  for (const Part& part : memory.parts)
    options.insert(options.end(), part.options.begin(), part.options.end());
  options.insert(options.end(), memory.options.begin(), memory.options.end());
  const bool has_form = std::any_of(memory.options.begin(), memory.options.end(),
                                    [](const OptionSpec& one) { return one.name == "form"; });
  if (!has_form && !memory.keeps_keys && !memory.forms_state && !memory.states.empty())
    options.push_back({"form", form_names().front(),
                       "which of the equal forms computes it (automatic: by shapes)", 0, 0, form_names()});
  memory.options = std::move(options);
  memory.published.set = settings_in(memory.published.settings, memory.options);
  if (memory.published.source.starts_with("; ")) memory.published.source.insert(0, memory.source);
  follow_law(memory);
  if (!memory.state) memory.state = state::matrix;
  if (!memory.flops) memory.flops = flops::weights<6>;
  return memory;
}

const std::vector<Memory>& all_memories() {
  static const std::vector<Memory> all = [] {
    std::vector<Memory> memories;
    for (auto& [name, memory] : memory_files()) {
      memory.name = name;
      memories.push_back(completed(memory));
    }
    return memories;
  }();
  return all;
}

const Memory* find_memory(const std::string& name) {
  const auto& all = all_memories();
  const auto it = std::find_if(all.begin(), all.end(), [&](const Memory& one) { return one.name == name; });
  return it == all.end() ? nullptr : &*it;
}

const Memory& memory_named(const std::string& name) {
  if (const Memory* memory = find_memory(name)) return *memory;
  throw std::logic_error("[memory] there is no memory " + name);
}

void Memory::resolve_alone(Options& from) const {
  try {
    for (const Part& part : parts)
      if (part.resolve) part.resolve(from);
    if (check) check(from);
  } catch (...) {
    rethrow_of(name, ".check");
  }
}

void Memory::resolve(Options& from) const {
  check_heads(from);
  resolve_alone(from);
  resolve_probe_scale(from);
  check_by_building(from);
}

std::int64_t Memory::state_size(const Options& resolved, std::int64_t values, std::int64_t length) const {
  if (is_language(resolved)) return language_state(resolved, length);
  const std::int64_t size = value_size(resolved, values);
  try {
    return heads_of(resolved) * state(resolved, head_d_dot(resolved), size, length) +
           parts_state(resolved, size);
  } catch (...) {
    rethrow_of(name, ".state");
  }
}

}  // namespace crosstalk

// Registered memories as the program sees them.
// SPDX-License-Identifier: Apache-2.0
#include "models/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "kernels/base/error.h"
#include "models/build.h"
#include "models/language_options.h"
#include "models/memories/memory_file.h"
#include "models/model.h"
#include "models/model_parts.h"
#include "models/probe_model.h"

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
void check_by_building(const Options& options) {
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
  small.set("model.embedding", std::int64_t{2});
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

MemoryKind kind_of(const Memory& memory) {
  MemoryKind kind;
  kind.name = memory.name;
  kind.summary = memory.summary;
  kind.equation = memory.equation;
  kind.source = memory.source;
  kind.description = fmt::format("{}. {}{}.", memory.equation, memory.notes.empty() ? "" : memory.notes + " ",
                                 memory.source);
  kind.inputs = memory.inputs;
  kind.states = memory.states;
  kind.projection_init = memory.projection_init;
  kind.own_queries = memory.own_queries;
  kind.own_keys = memory.own_keys;
  kind.forms_state = memory.forms_state;
  for (const Part& part : memory.parts)
    kind.options.insert(kind.options.end(), part.options.begin(), part.options.end());
  kind.options.insert(kind.options.end(), memory.options.begin(), memory.options.end());
  if (!memory.keeps_keys && !memory.forms_state && !memory.states.empty()) {
    kind.options.push_back({"form", form_names().front(),
                            "which of the equal forms computes it (automatic: by shapes)", 0, 0,
                            form_names()});
  }
  kind.resolve = [memory](Options& options) {
    check_heads(options);
    resolve_alone(memory, options);
    resolve_probe_scale(options);
    check_by_building(options);
  };
  kind.d_dot = [keeps = memory.keeps_keys](const Options& options) -> std::int64_t {
    return keeps ? 0 : heads_of(options) * head_d_dot(options);
  };
  kind.state_size = [name = memory.name, state = memory.state](const Options& options, std::int64_t values,
                                                               std::int64_t length) {
    if (is_language(options)) return language_state(options, length);
    const std::int64_t size = value_size(options, values);
    try {
      return heads_of(options) * state(options, head_d_dot(options), size, length) +
             parts_state(options, size);
    } catch (...) {
      rethrow_of(name, ".state");
    }
  };
  return kind;
}

}  // namespace

const std::vector<MemoryKind>& memory_kinds() {
  static const std::vector<MemoryKind> kinds = [] {
    std::vector<MemoryKind> all;
    for (const Memory& memory : all_memories()) all.push_back(kind_of(memory));
    return all;
  }();
  return kinds;
}

const MemoryKind* find_memory(const std::string& name) {
  const auto& kinds = memory_kinds();
  const auto it =
      std::find_if(kinds.begin(), kinds.end(), [&](const MemoryKind& kind) { return kind.name == name; });
  return it == kinds.end() ? nullptr : &*it;
}

void resolve_alone(const Memory& memory, Options& options) {
  try {
    for (const Part& part : memory.parts) {
      if (part.resolve) part.resolve(options);
    }
    if (memory.resolve) memory.resolve(options);
  } catch (...) {
    rethrow_of(memory.name, ".resolve");
  }
}

const Memory& memory_named(const std::string& name) {
  for (const Memory& memory : all_memories()) {
    if (memory.name == name) return memory;
  }
  throw std::logic_error("[memory] there is no memory " + name);
}

}  // namespace crosstalk

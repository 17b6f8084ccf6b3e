// Every memory of the registry with every combination of its parts, resolved or refused: tests that loop over
// these cover a memory from the day it is registered. SPDX-License-Identifier: Apache-2.0
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/base/error.h"
#include "models/memory.h"

namespace crosstalk::checks {

/// What a study would write under [base] and [memories.NAME], not yet resolved.
struct Setting {
  std::string name;  ///< "delta feature_map=dpfp nu=2 ..."
  Options options;
};

/// Options of a memory with defaults filled in, not resolved.
inline Options memory_options(const MemoryKind& kind, int d_key, int keys, int values, int embedding = 0) {
  Options options;
  options.set("memory.name", kind.name);
  options.set("model.d_key", std::int64_t{d_key});
  if (embedding > 0) options.set("model.embedding", std::int64_t{embedding});
  fill_defaults(options, "memory", kind.options);
  fill_defaults(options, "model", model_options());
  resolve_model(options, keys, values);
  return options;
}

inline Options resolved(const MemoryKind& kind, Options options) {
  if (kind.resolve) kind.resolve(options);
  return options;
}

/// The values of an option that tests go through.
inline std::vector<OptionValue> settings_of(const OptionSpec& spec) {
  std::vector<OptionValue> values;
  for (const std::string& choice : spec.choices) values.emplace_back(choice);
  if (spec.name == "beta_max") {
    for (std::int64_t v : {1, 2}) values.emplace_back(v);
  }
  return values;
}

/// All combinations, refused ones too. What steers only one feature map is varied with that map.
inline std::vector<Setting> all_settings(const MemoryKind& kind, int d_key, int keys, int values,
                                         int embedding = 0) {
  std::vector<Setting> settings = {{kind.name, memory_options(kind, d_key, keys, values, embedding)}};
  const auto multiply = [&](const std::string& name, const std::vector<OptionValue>& choices,
                            const std::string& only_map) {
    std::vector<Setting> next;
    for (const Setting& s : settings) {
      if (!only_map.empty() && s.options.get_string("memory.feature_map") != only_map) {
        next.push_back(s);
        continue;
      }
      for (const OptionValue& value : choices) {
        Setting t = s;
        t.options.set("memory." + name, value);
        t.name += " " + name + "=" + to_text(value);
        next.push_back(t);
      }
    }
    settings = next;
  };
  for (const OptionSpec& spec : kind.options) {
    if (spec.name == "favor_redraw") continue;  // when the trainer draws, not what a graph computes
    const auto choices = settings_of(spec);
    if (spec.name == "nu") {
      multiply(spec.name, {std::int64_t{1}, std::int64_t{2}}, "dpfp");
    } else if (spec.name == "features") {
      multiply(spec.name, {std::int64_t{d_key}, std::int64_t{d_key + 2}}, "favor");
    } else if (spec.name == "favor_variant") {
      multiply(spec.name, choices, "favor");
    } else if (!choices.empty()) {
      multiply(spec.name, choices, "");
    }
  }
  return settings;
}

/// Those that resolve, resolved.
inline std::vector<Setting> valid_settings(const MemoryKind& kind, int d_key, int keys, int values,
                                           int embedding = 0) {
  std::vector<Setting> valid;
  for (const Setting& s : all_settings(kind, d_key, keys, values, embedding)) {
    try {
      valid.push_back({s.name, resolved(kind, s.options)});
    } catch (const OptionError&) {
    }
  }
  return valid;
}

/// INSTANTIATE_TEST_SUITE_P(Registry, Suite, every_memory(), memory_name): one test a registered memory.
inline auto every_memory() {
  std::vector<std::string> names;
  for (const MemoryKind& kind : memory_kinds()) names.push_back(kind.name);
  return ::testing::ValuesIn(names);
}
inline std::string memory_name(const ::testing::TestParamInfo<std::string>& info) { return info.param; }

}  // namespace crosstalk::checks

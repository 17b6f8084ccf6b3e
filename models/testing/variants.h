// Every memory of the registry with every combination of its parts, resolved or refused: tests that loop over
// these cover a memory from the day it is registered.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/testing/refused.h"
#include "models/memory.h"

namespace crosstalk::checks {

using Settings = std::vector<std::pair<std::string, OptionValue>>;

inline bool has_option(const Memory& kind, const std::string& name) {
  return std::any_of(kind.options.begin(), kind.options.end(),
                     [&](const OptionSpec& option) { return option.name == name; });
}

/// Options that a study would write under [base] and [memories.NAME], not yet resolved.
struct Setting {
  std::string name;  ///< "delta feature_map=dpfp nu=2 ..."
  Options options;
};

/// Options of a memory with defaults filled in, not resolved.
inline Options memory_options(const Memory& kind, int d_key, int keys, int values, int embedding = 0) {
  Options options;
  options.set("memory.name", kind.name);
  options.set("model.d_key", std::int64_t{d_key});
  if (embedding > 0) options.set("model.embedding", std::int64_t{embedding});
  fill_defaults(options, "memory", kind.options);
  fill_defaults(options, "model", model_options());
  resolve_model(options, {keys, values});
  return options;
}

inline Options resolved(const Memory& kind, Options options) {
  kind.resolve(options);
  return options;
}

/// Maps of 2021, varied with everything else. The others have oracles of their own
/// (kernels/feature_map/maps/NAME_test.cpp), and one memory takes each of them here.
inline const std::vector<OptionValue>& maps_of_2021() {
  static const std::vector<OptionValue> maps = {"identity", "elu1", "relu", "tanh", "dpfp", "favor"};
  return maps;
}

/// The values of an option that tests go through.
inline std::vector<OptionValue> settings_of(const OptionSpec& spec) {
  std::vector<OptionValue> values;
  for (const std::string& choice : spec.choices) values.emplace_back(choice);
  if (std::holds_alternative<bool>(spec.default_value)) values = {false, true};
  if (!spec.tried.empty()) values = spec.tried;
  if (spec.name == "feature_map") values.assign(maps_of_2021().begin(), maps_of_2021().end());
  return values;
}

/// All combinations, refused ones too. What steers only one feature map is varied with that map. Of a memory
/// with very many of them, every option in turn. Forms are equal, and held against each other elsewhere.
inline std::vector<Setting> all_settings(const Memory& kind, int d_key, int keys, int values,
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
  std::size_t combinations = 1;
  for (const OptionSpec& spec : kind.options)
    if (spec.name != "form") combinations *= std::max<std::size_t>(1, settings_of(spec).size());
  if (combinations > 1000) {
    const Setting defaults = settings[0];
    for (const OptionSpec& spec : kind.options) {
      if (spec.name == "form") continue;
      for (const OptionValue& value : settings_of(spec)) {
        if (value == spec.default_value) continue;
        Setting one = defaults;
        one.options.set("memory." + spec.name, value);
        one.name += " " + spec.name + "=" + to_text(value);
        settings.push_back(one);
      }
    }
    return settings;
  }
  for (const OptionSpec& spec : kind.options) {
    if (spec.name == "favor_redraw" || spec.name == "form")
      continue;  // when the trainer draws, and how: not what a graph computes
    const auto choices = settings_of(spec);
    if (spec.name == "nu") {
      multiply(spec.name, {1, 2}, "dpfp");
    } else if (spec.name == "features") {
      multiply(spec.name, {std::int64_t{d_key}, std::int64_t{d_key + 2}}, "favor");
    } else if (spec.name == "favor_variant") {
      multiply(spec.name, choices, "favor");
    } else if (!choices.empty()) {
      multiply(spec.name, choices, "");
    }
  }
  if (kind.name != "linear_attention") return settings;
  for (const FeatureMapInfo& map : feature_map_infos()) {
    const OptionValue name = map.name;
    if (std::count(maps_of_2021().begin(), maps_of_2021().end(), name) > 0) continue;
    for (const char* read_norm : {"none", "attention"}) {
      // A sum of products that may be 0 divides by anything.
      if (std::string(read_norm) == "attention" && !map.positive && map.name != "taylor") continue;
      Setting one = {kind.name + " feature_map=" + map.name + " read_norm=" + read_norm,
                     memory_options(kind, d_key, keys, values, embedding)};
      one.options.set("memory.feature_map", name);
      one.options.set("memory.read_norm", std::string(read_norm));
      settings.push_back(one);
    }
  }
  return settings;
}

/// Tells whether differences can check its gradient anywhere: no kinks, no roundings, no denominators that change
/// sign.
inline bool smooth(const Options& o) {
  const auto is = [&](const char* key, std::initializer_list<const char*> values) {
    return o.has(key) && std::any_of(values.begin(), values.end(),
                                     [&](const char* value) { return o.get_string(key) == value; });
  };
  // A router into slots jumps where another of them becomes one of the largest.
  if (o.has("memory.selected") && o.has("memory.slots") &&
      o.get_int("memory.selected") < o.get_int("memory.slots"))
    return false;
  if (is("memory.feature_map", {"relu", "dpfp", "favor_relu", "cosformer"})) return false;
  for (const auto& [kernel, norm] :
       {std::pair{"memory.kernel", "memory.row_norm"}, std::pair{"memory.kappa1", "memory.row_norm1"},
        std::pair{"memory.kappa2", "memory.row_norm2"}}) {
    if (is(kernel, {"relu", "relu2", "round"})) return false;
    if (is(norm, {"sum"}) && !is(kernel, {"exp", "cosine_exp"})) return false;
  }
  return true;
}

/// Those that resolve, resolved.
inline std::vector<Setting> valid_settings(const Memory& kind, int d_key, int keys, int values,
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
  for (const Memory& kind : all_memories()) names.push_back(kind.name);
  return ::testing::ValuesIn(names);
}
/// Those of 2021, whose maps and normalisations are tried in every combination.
inline bool of_2021(const std::string& name) {
  return name == "softmax" || name == "linear_attention" || name == "delta" || name == "peng_gate" ||
         name == "fwm";
}
inline std::string memory_name(const ::testing::TestParamInfo<std::string>& info) { return info.param; }

}  // namespace crosstalk::checks

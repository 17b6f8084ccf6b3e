// The identity of a run: a hash of what was computed, and of nothing else.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>
#include <stdexcept>

#include "experiments/study/schema.h"
#include "experiments/study/study.h"
#include "kernels/base/text/digest.h"

namespace crosstalk {
namespace {

/// Neutral values, by "KIND.KEY" (KIND = task, memory, model, train or eval name that registers the option,
/// or empty for the last three), of options whose default is no longer what it was when they were introduced.
/// A key at its neutral value is not hashed, so that an option added later orphans no old result; therefore a
/// neutral value never changes. It is the option's default until somebody changes that default: then the old
/// default must be entered here, in the same commit.
const std::map<std::string, OptionValue> kNeutralOverrides = {
    {".model.d_key", std::int64_t{64}},
    {"complex_kda.memory.gate", std::string("signed_exp")},
    {"kda.memory.rate", std::string("drawn")},
    {"log_linear_attention.memory.write", std::string("one")},
    {"mlstm.memory.gate_weights", std::string("drawn")},
    {"rwkv7.memory.start", std::string("constants")}};

/// Options that stand for others ("KIND.KEY", as above): where something lies, since what lies there is hashed under
/// another key; the layer and equal parts, since what they resolved to is.
const std::set<std::string> kStandIns = {"file.task.folder",    "tokens.task.folder", "text.task.folder",
                                         ".train.init_from",    ".model.layer",       "python.memory.source",
                                         "python.memory.files", ".model.parts"};

bool always_hashed(const std::string& key) {
  return key == "task.name" || key == "memory.name" || key == "model.name" || key == "seed" ||
         key == "data_seed" || key == "init_seed";
}

/// Equal values have equal texts and unequal values unequal ones, within and between types.
std::string normal_text(const OptionValue& value) {
  if (const auto* number = std::get_if<double>(&value)) {
    std::string text = fmt::format("{}", *number == 0 ? 0.0 : *number);  // -0 is 0
    if (text.find_first_of(".en") == std::string::npos) text += ".0";
    return text;
  }
  if (const auto* string = std::get_if<std::string>(&value)) {
    std::string text = "\"";
    for (const char c : *string) {
      if (c == '"' || c == '\\') text += '\\';
      if (static_cast<unsigned char>(c) < 0x20) {
        text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
      } else {
        text += c;
      }
    }
    return text + '"';
  }
  return to_text(value);
}

std::string name_or_empty(const Options& config, const std::string& key) {
  return config.has(key) ? config.get_string(key) : std::string();
}

}  // namespace

std::string canonical_text(const Schema& schema, const Options& config) {
  const std::string task = name_or_empty(config, "task.name"), memory = name_or_empty(config, "memory.name");
  std::string text, name;
  for (const auto& [key, value] : config.values()) {
    if (!always_hashed(key)) {
      name = key.starts_with("task.") ? task : key.starts_with("memory.") ? memory : "";
      name.append(".").append(key);
      if (kStandIns.count(name) != 0) continue;
      const OptionSpec* spec = find_option(schema, task, memory, key);
      const auto override = kNeutralOverrides.find(name);
      const OptionValue* neutral = override != kNeutralOverrides.end() ? &override->second
                                   : spec                              ? &spec->default_value
                                                                       : nullptr;
      if (neutral && *neutral == value) continue;
    }
    text += fmt::format("{}={}\n", key, normal_text(value));
  }
  return text + fmt::format("semantics={}\n", kSemantics);
}

void replace_seed(std::string& text, const std::string& key, std::int64_t seed) {
  const std::string begin = key + "=";
  std::size_t at = text.starts_with(begin) ? 0 : text.find("\n" + begin);
  if (at == std::string::npos) throw std::logic_error("[run_id] the text has no " + key);
  at = text.find('=', at) + 1;
  text.replace(at, text.find('\n', at) - at, std::to_string(seed));
}

std::string run_id(const Schema& schema, const Options& config) {
  return id_of_text(canonical_text(schema, config));
}

std::string id_of_text(const std::string& text) {
  return "ct-" + digest_text(XXH3_128bits(text.data(), text.size()));
}

}  // namespace crosstalk

// model.stack: which mixer stands in which layer.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "kernels/base/error.h"
#include "models/language_options.h"
#include "models/memories/memory_file.h"
#include "models/model_parts.h"

namespace crosstalk {
namespace {

constexpr const char* kStack = "model.stack";

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\n"), last = text.find_last_not_of(" \t\n");
  return first == std::string::npos ? std::string() : text.substr(first, last - first + 1);
}

/// "base_conv memory(heads=2)" at its spaces outside of parentheses.
std::vector<std::string> entries_of(const std::string& stack) {
  std::vector<std::string> entries(1);
  int depth = 0;
  for (const char c : stack) {
    depth += (c == '(') - (c == ')');
    if (depth < 0) break;
    const bool space = c == ' ' || c == '\t' || c == '\n';
    if (depth > 0 || !space) {
      entries.back() += c;
    } else if (!entries.back().empty()) {
      entries.emplace_back();
    }
  }
  if (depth != 0)
    throw OptionError(kStack, fmt::format("model.stack = \"{}\" has parentheses that do not match", stack));
  if (entries.back().empty()) entries.pop_back();
  if (entries.empty())
    throw OptionError(kStack, "model.stack is empty; name at least one layer, for instance \"memory\"");
  return entries;
}

OptionValue value_of(const OptionSpec& spec, const std::string& text) {
  const auto wrong = [&](const char* what) {
    return OptionError(kStack, fmt::format("model.stack: {} = {} is no {}", spec.name, text, what));
  };
  const char *begin = text.data(), *end = begin + text.size();
  if (std::holds_alternative<bool>(spec.default_value)) {
    if (text != "true" && text != "false") throw wrong("truth value; write true or false");
    return text == "true";
  }
  if (std::holds_alternative<std::int64_t>(spec.default_value)) {
    std::int64_t number = 0;
    const auto [at, error] = std::from_chars(begin, end, number);
    if (error != std::errc() || at != end) throw wrong("whole number");
    return number;
  }
  if (std::holds_alternative<double>(spec.default_value)) {
    double number = 0;
    const auto [at, error] = std::from_chars(begin, end, number);
    if (error != std::errc() || at != end) throw wrong("number");
    return number;
  }
  return text;
}

/// What an entry of the stack may say of a layer besides options of its memory.
std::vector<OptionSpec> layer_options() {
  std::vector<OptionSpec> all = part_options();
  for (const OptionSpec& spec : model_options()) {
    if (spec.name == "heads" || spec.name == "d_key") all.push_back(spec);
  }
  return all;
}

void set_of_layer(Options& options, const std::vector<OptionSpec>& of_memory, const std::string& entry,
                  const std::string& setting) {
  const std::size_t equals = setting.find('=');
  if (equals == std::string::npos)
    throw OptionError(kStack, fmt::format("model.stack: '{}' in '{}' is no 'option=value'", setting, entry));
  const std::string name = trimmed(setting.substr(0, equals)), text = trimmed(setting.substr(equals + 1));
  std::vector<std::string> names;
  const std::vector<OptionSpec> of_layer = layer_options();
  for (const auto& [prefix, specs] : {std::pair{"memory", &of_memory}, {"model", &of_layer}}) {
    for (const OptionSpec& spec : *specs) {
      names.push_back(spec.name);
      if (spec.name != name) continue;
      try {
        options.set(std::string(prefix) + "." + name, check_option(spec, prefix, value_of(spec, text)));
      } catch (const OptionError& error) {
        throw OptionError(kStack, fmt::format("model.stack, '{}': {}", entry, error.what()));
      }
      return;
    }
  }
  const std::string near = nearest_name(name, names);
  throw OptionError(kStack, fmt::format("model.stack: '{}' has no option {}{}", entry, name,
                                        near.empty() ? "" : "; did you mean " + near + "?"));
}

LanguageLayer layer_of(const Options& model, const std::string& entry) {
  const std::size_t open = entry.find('(');
  const std::string name = entry.substr(0, open);
  if (open != std::string::npos && entry.back() != ')')
    throw OptionError(kStack,
                      fmt::format("model.stack: something stands behind the parentheses of '{}'", entry));
  LanguageLayer layer{name == "base_conv", model};
  if (layer.conv) {
    if (open != std::string::npos)
      throw OptionError(
          kStack, "model.stack: base_conv has no options in parentheses; its taps are model.conv_width");
    return layer;
  }
  std::string settings = open == std::string::npos ? "" : entry.substr(open + 1, entry.size() - open - 2);
  const bool studied = name == "memory";
  const Memory* kind = find_memory(studied ? model.get_string("memory.name") : name);
  if (kind == nullptr) {
    std::vector<std::string> names = {"memory", "base_conv"};
    for (const Memory& other : all_memories()) names.push_back(other.name);
    const std::string near = nearest_name(name, names);
    throw OptionError(
        kStack,
        fmt::format("model.stack: there is no layer '{}'; write memory (that of the study), base_conv "
                    "or the name of a memory{}",
                    name, near.empty() ? "" : "; did you mean " + near + "?"));
  }
  if (!studied) {
    layer.options = {};
    for (const auto& [key, value] : model.values()) {
      if (key.compare(0, 6, "model.") == 0) layer.options.set(key, value);
    }
    layer.options.set("memory.name", kind->name);
    fill_defaults(layer.options, "memory", kind->options);
  }
  while (!settings.empty()) {
    const std::size_t comma = std::min(settings.find(','), settings.size());
    set_of_layer(layer.options, kind->options, entry, trimmed(settings.substr(0, comma)));
    settings = comma == settings.size() ? "" : settings.substr(comma + 1);
  }
  if (layer.options.get_int("model.d_key") == 0)
    layer.options.set("model.d_key", model.get_int("model.width"));
  check_head_sizes(layer.options);
  // Those of the study are resolved by now, but what its layer says may change a size that was derived.
  if (!studied || open != std::string::npos) {
    if (layer.options.has("memory.d_dot")) layer.options.set("memory.d_dot", std::int64_t{0});
    kind->resolve_alone(layer.options);
  }
  resolve_parts(layer.options);
  return layer;
}

}  // namespace

std::vector<LanguageLayer> language_layers(const Options& options) {
  std::vector<LanguageLayer> kinds, layers;
  const std::string& stack = options.get_string(kStack);
  bool studied = false;
  for (const std::string& entry : entries_of(stack)) {
    kinds.push_back(layer_of(options, entry));
    studied = studied || entry.substr(0, entry.find('(')) == "memory";
  }
  const auto count = static_cast<std::size_t>(options.get_int("model.layers"));
  if (!studied)
    throw OptionError(
        kStack,
        fmt::format("model.stack = \"{}\" has no layer `memory`, so that the memory of the study would "
                    "decide nothing",
                    stack));
  if (kinds.size() > count)
    throw OptionError(kStack, fmt::format("model.stack = \"{}\" names {} layers and model.layers = {}", stack,
                                          kinds.size(), count));
  for (std::size_t i = 0; i < count; ++i) layers.push_back(kinds[i % kinds.size()]);
  return layers;
}

}  // namespace crosstalk

// model.stack: which mixer stands in which layer.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/text/no_effect.h"
#include "models/memories/memory_file.h"
#include "models/mixers/language_options.h"
#include "models/mixers/stack_text.h"
#include "models/parts/model_parts.h"

namespace crosstalk {
namespace {

constexpr const char* kStack = "model.stack";

/// Options that an entry of the stack may say of a layer besides options of its memory.
std::vector<OptionSpec> layer_options() {
  std::vector<OptionSpec> all = part_options();
  for (const OptionSpec& spec : model_options())
    if (spec.name == "heads" || spec.name == "d_key" || spec.name == "d_value") all.push_back(spec);
  return all;
}

void set_of_layer(Options& options, const std::vector<OptionSpec>& of_memory, const std::string& entry,
                  const std::string& name, const std::string& text) {
  std::vector<std::string> names;
  const std::vector<OptionSpec> of_layer = layer_options();
  for (const auto& [prefix, specs] : {std::pair{"memory", &of_memory}, {"model", &of_layer}})
    for (const OptionSpec& spec : *specs) {
      names.push_back(spec.name);
      if (spec.name != name) continue;
      try {
        options.set(std::string(prefix) + "." + name, check_option(spec, prefix, stack_value(spec, text)));
      } catch (const OptionError& error) {
        throw OptionError(kStack, fmt::format("model.stack, '{}': {}", entry, error.what()));
      }
      return;
    }
  const std::string near = nearest_name(name, names);
  throw OptionError(kStack, fmt::format("model.stack: '{}' has no option {}{}", entry, name,
                                        near.empty() ? "" : "; did you mean " + near + "?"));
}

LanguageLayer layer_of(const Options& model, const StackEntry& entry) {
  const std::string& name = entry.name;
  LanguageLayer layer{name == "base_conv", model};
  if (layer.conv) {
    if (entry.has_settings)
      throw OptionError(
          kStack, "model.stack: base_conv has no options in parentheses; its taps are model.conv_width");
    return layer;
  }
  const bool studied = name == "memory";
  const Memory* kind = find_memory(studied ? model.get_string("memory.name") : name);
  if (kind == nullptr) {
    std::vector<std::string> names = {"memory", "base_conv"};
    for (const Memory& other : all_memories()) names.push_back(other.name);
    const std::string near = nearest_name(name, names);
    throw OptionError(
        kStack,
        fmt::format(
            "model.stack: there is no layer '{}'; write memory (that of the study), base_conv or the name of a memory{}",
            name, near.empty() ? "" : "; did you mean " + near + "?"));
  }
  if (name == "rule")
    throw OptionError(
        kStack,
        "model.stack: rule has its law from the study's memory, and a law stands in the study only "
        "once; write memory there, in [memories.LABEL] name = \"rule\" and law = [...]");
  if (!studied) {
    layer.options = {};
    for (const auto& [key, value] : model.values())
      if (key.compare(0, 6, "model.") == 0) layer.options.set(key, value);
    layer.options.set("memory.name", kind->name);
    fill_defaults(layer.options, "memory", kind->options);
  }
  for (const auto& [option, text] : entry.settings)
    set_of_layer(layer.options, kind->options, entry.text, option, text);
  if (layer.options.get_int("model.d_key") == 0)
    layer.options.set("model.d_key", model.get_int("model.width"));
  check_head_sizes(layer.options);
  // Those of the study are resolved by now, but what its layer says may change a size that was derived.
  try {
    if (!studied || entry.has_settings) {
      if (layer.options.has("memory.d_dot")) layer.options.set("memory.d_dot", 0);
      kind->resolve_alone(layer.options);
    }
    resolve_parts(layer.options);
  } catch (const NoEffect& error) {  // in this layer; others may use what the study says
    if (!entry.has_settings) throw;
    throw OptionError(kStack, fmt::format("model.stack, '{}': {}", entry.text, error.what()));
  }
  return layer;
}

}  // namespace

std::vector<LanguageLayer> language_layers(const Options& options) {
  std::vector<LanguageLayer> kinds, layers;
  const std::string& stack = options.get_string(kStack);
  const auto count = static_cast<std::size_t>(options.get_int("model.layers"));
  bool studied = false;
  for (const StackEntry& entry : stack_entries(stack, kMostLayers)) {
    kinds.push_back(layer_of(options, entry));
    studied = studied || entry.name == "memory";
  }
  if (!studied)
    throw OptionError(
        kStack,
        fmt::format(
            "model.stack = \"{}\" has no layer `memory`, so that the memory of the study would decide nothing",
            stack));
  if (kinds.size() > count)
    throw OptionError(kStack, fmt::format("model.stack = \"{}\" names {} layers and model.layers = {}", stack,
                                          kinds.size(), count));
  for (std::size_t i = 0; i < count; ++i) layers.push_back(kinds[i % kinds.size()]);
  return layers;
}

}  // namespace crosstalk

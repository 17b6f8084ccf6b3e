// model.layer = "published": the layer that a memory's authors put around it.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/base/error.h"
#include "models/language_options.h"
#include "models/model_parts.h"
#include "models/stack_text.h"

namespace crosstalk {
namespace {

constexpr std::size_t kMostLayers = 256;

const OptionValue* setting_of(const PublishedLayer& layer, const std::string& key) {
  for (const auto& [name, value] : layer.set)
    if (name == key) return &value;
  return nullptr;
}

std::int64_t sized(std::int64_t width, double factor) {
  return std::llround(static_cast<double>(width) * factor);
}

/// A value as it stands in parentheses of model.stack.
std::string bare_text(const OptionValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text ? *text : to_text(value);
}

/// Every setting that an entry of another memory does not say itself: its authors', and the defaults of parts that the
/// study sets otherwise.
std::string published_entry(const StackEntry& entry, const Memory& kind, const Options& options) {
  std::vector<std::pair<std::string, std::string>> settings = entry.settings;
  const auto add = [&](const std::string& name, const OptionValue& value) {
    for (const auto& [known, text] : settings)
      if (known == name) return;
    settings.emplace_back(name, bare_text(value));
  };
  for (const auto& [key, value] : kind.published.set) add(key.substr(key.find('.') + 1), value);
  const std::int64_t width = options.get_int("model.width");
  for (const auto& [name, factor] :
       {std::pair{"d_key", kind.published.expand_k}, {"d_value", kind.published.expand_v}}) {
    const std::int64_t size = sized(width, factor);
    if (kind.published && options.get_int(std::string("model.") + name) != size) add(name, size);
  }
  for (const OptionSpec& spec : part_options()) {
    const std::string key = "model." + spec.name;
    if (options.has(key) && options.at(key) != spec.default_value) add(spec.name, spec.default_value);
  }
  std::string text;
  for (const auto& [name, value] : settings) text += (text.empty() ? "" : ", ") + name + "=" + value;
  return text.empty() ? entry.name : entry.name + "(" + text + ")";
}

}  // namespace

void publish(Options& options, const Memory& kind, const std::vector<std::string>& said) {
  if (!is_language(options)) return;  // refused, with what else belongs to the language model
  if (!kind.published)
    throw OptionError("model.layer",
                      fmt::format("model.layer = \"published\": memory {} has no layer of its authors; write "
                                  "model.layer = \"bare\" in its table [memories.LABEL]",
                                  kind.name));
  const std::int64_t width = options.get_int("model.width");
  const auto size = [&](const char* key, double factor) {
    if (std::find(said.begin(), said.end(), key) == said.end() && !setting_of(kind.published, key) &&
        factor != 1)
      options.set(key, sized(width, factor));
  };
  size("model.d_key", kind.published.expand_k);
  size("model.d_value", kind.published.expand_v);
  std::string stack;
  for (const StackEntry& entry : stack_entries(options.get_string("model.stack"), kMostLayers)) {
    const Memory* other = entry.name == "memory" ? nullptr : find_memory(entry.name);
    stack += (stack.empty() ? "" : " ") + (other ? published_entry(entry, *other, options) : entry.text);
  }
  options.set("model.stack", stack);
}

std::string Memory::published_text() const {
  if (!published) return "There is no layer of its authors: it is used as it is.";
  std::vector<std::string> settings;
  for (const auto& [key, value] : published.set)
    settings.push_back(fmt::format("{} = {}", key, to_text(value)));
  for (const auto& [key, factor] :
       {std::pair{"model.d_key", published.expand_k}, {"model.d_value", published.expand_v}})
    if (factor != 1) settings.push_back(fmt::format("{} = {:g} times model.width", key, factor));
  std::string text = "As published (model.layer = \"published\"): ";
  for (std::size_t i = 0; i < settings.size(); ++i) text += (i == 0 ? "" : ", ") + settings[i];
  if (settings.empty()) text += "projections alone";
  text += fmt::format(". Source: {}.", published.source);
  if (!published.lacks.empty()) text += fmt::format(" Lacks: {}.", published.lacks);
  return text;
}

}  // namespace crosstalk

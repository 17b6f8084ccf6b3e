// model.layer = "published": the layer that a memory's authors put around it.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "kernels/base/error.h"
#include "models/mixers/language_options.h"
#include "models/mixers/stack_text.h"
#include "models/parts/model_parts.h"

namespace crosstalk {
namespace {

const OptionValue* setting_of(const PublishedLayer& layer, const std::string& key) {
  for (const auto& [name, value] : layer.set)
    if (name == key) return &value;
  return nullptr;
}

const OptionSpec& model_option(const std::string& name) {
  const auto& options = model_options();
  const auto it =
      std::find_if(options.begin(), options.end(), [&](const OptionSpec& spec) { return spec.name == name; });
  return it == options.end() ? throw std::logic_error("no option model." + name) : *it;
}

/// Tells whether an option says how the convolution is, which nothing reads where a study has taken it out.
bool is_of_convolution(const std::string& name) { return name.starts_with("short_conv_"); }

std::int64_t sized(std::int64_t width, double factor) {
  return std::llround(static_cast<double>(width) * factor);
}

/// A value as it stands in parentheses of model.stack.
std::string bare_text(const OptionValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text ? *text : to_text(value);
}

/// `eps` times the channels of a head, in few digits; `whole` says an option of the model, whose keys and values are of its
/// width where it says nothing (0).
template <class Whole>
double times_channels(double eps, HeadChannels channels, const Whole& whole) {
  if (channels == HeadChannels::none) return eps;
  const std::int64_t told = whole(channels == HeadChannels::keys ? "d_key" : "d_value");
  const auto of_all_heads = static_cast<double>(told == 0 ? whole("width") : told);
  return std::stod(fmt::format(
      "{:.9g}", eps * of_all_heads / static_cast<double>(std::max<std::int64_t>(whole("heads"), 1))));
}

/// Every setting that an entry of another memory does not say itself: its authors', and the defaults of parts that the
/// study sets otherwise.
std::string published_entry(const StackEntry& entry, const Memory& kind, const Options& options) {
  std::vector<std::pair<std::string, std::string>> settings = entry.settings;
  const auto said = [&](const std::string& name) {
    const auto it =
        std::find_if(settings.begin(), settings.end(), [&](const auto& one) { return one.first == name; });
    return it == settings.end() ? nullptr : &it->second;
  };
  const auto add = [&](const std::string& name, const OptionValue& value) {
    if (!said(name)) settings.emplace_back(name, bare_text(value));
  };
  const bool eps_said = said("out_norm_eps") != nullptr;
  const std::string* conv = said("short_conv");
  const bool convolved = conv == nullptr || *conv != "none" || !setting_of(kind.published, "model.short_conv");
  for (const auto& [key, value] : kind.published.set) {
    const std::string name = key.substr(key.find('.') + 1);
    if (convolved || !is_of_convolution(name)) add(name, value);
  }
  const std::int64_t width = options.get_int("model.width");
  for (const auto& [name, factor] :
       {std::pair{"d_key", kind.published.expand_k}, {"d_value", kind.published.expand_v}}) {
    const std::int64_t size = sized(width, factor);
    if (kind.published && options.get_int(std::string("model.") + name) != size) add(name, size);
  }
  if (const std::string* norm = said("out_norm");
      norm && *norm != "none" && !eps_said && kind.published.eps_times != HeadChannels::none) {
    const auto value = [&](const std::string& name, const OptionValue& otherwise) {
      const std::string* text = said(name);
      return text ? stack_value(model_option(name), *text) : otherwise;
    };
    const auto whole = [&](const std::string& name) {
      return std::get<std::int64_t>(value(name, options.at("model." + name)));
    };
    const double eps = std::get<double>(value("out_norm_eps", model_option("out_norm_eps").default_value));
    std::erase_if(settings, [](const auto& one) { return one.first == "out_norm_eps"; });
    add("out_norm_eps", times_channels(eps, kind.published.eps_times, whole));
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
  if (setting_of(kind.published, "model.short_conv") && options.get_string("model.short_conv") == "none")
    for (const OptionSpec& spec : part_options())
      if (is_of_convolution(spec.name) &&
          std::find(said.begin(), said.end(), "model." + spec.name) == said.end())
        options.set("model." + spec.name, spec.default_value);
  const std::int64_t width = options.get_int("model.width");
  const auto size = [&](const char* key, double factor) {
    if (std::find(said.begin(), said.end(), key) == said.end() && !setting_of(kind.published, key) &&
        factor != 1)
      options.set(key, sized(width, factor));
  };
  size("model.d_key", kind.published.expand_k);
  size("model.d_value", kind.published.expand_v);
  const bool eps_said = std::find(said.begin(), said.end(), "model.out_norm_eps") != said.end();
  if (!eps_said && options.get_string("model.out_norm") != "none")
    options.set("model.out_norm_eps",
                times_channels(options.get_double("model.out_norm_eps"), kind.published.eps_times,
                               [&](const std::string& name) { return options.get_int("model." + name); }));
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
    settings.push_back(fmt::format("{} = {}{}", key, to_text(value),
                                   key == "model.biases" ? " (a minus: without one)" : ""));
  for (const auto& [key, factor] :
       {std::pair{"model.d_key", published.expand_k}, {"model.d_value", published.expand_v}})
    if (factor != 1) settings.push_back(fmt::format("{} = {:g} times model.width", key, factor));
  if (published.eps_times == HeadChannels::keys)
    settings.push_back("model.out_norm_eps times a head's key channels (queries are divided by their root)");
  if (published.eps_times == HeadChannels::values)
    settings.push_back("model.out_norm_eps times a head's value channels");
  std::string text = "As published (model.layer = \"published\"): ";
  for (std::size_t i = 0; i < settings.size(); ++i) text += (i == 0 ? "" : ", ") + settings[i];
  if (settings.empty()) text += "projections alone";
  text += fmt::format(". Source: {}.", published.source);
  std::vector<std::string> lacks;
  for (const Difference& one : published.lacks)
    lacks.push_back(fmt::format("{}: {}", one.what, one.consequence));
  text += lacks.empty() ? " Lacks nothing that is known." : fmt::format(" Lacks {}.", fmt::join(lacks, "; "));
  if (!published.undecayed.empty())
    text += fmt::format(
        " Its source marks {} as without weight decay (train.no_decay = \"marked\"); of trainers, xLSTM's honours such marks, while "
        "flame, NVlabs' GatedDeltaNet, Zoology and mad-lab let all parameters decay.",
        fmt::join(published.undecayed, ", "));
  if (!setting_of(published, "model.heads"))
    text += " The study says the rest: heads, sizes, MLP, norms of blocks.";
  return text;
}

}  // namespace crosstalk

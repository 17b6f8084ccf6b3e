// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/help/descriptions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <optional>

#include "experiments/common/text.h"
#include "experiments/training/training.h"
#include "kernels/base/error.h"
#include "models/apply_model.h"
#include "models/model.h"

namespace crosstalk::program {
namespace {

using Json = nlohmann::ordered_json;

/// Sizes at which a memory's state is shown.
constexpr int kKeys = 100, kValues = 100;
constexpr std::int64_t kLength = 100;

const char* type_of(const OptionSpec& spec) {
  static constexpr const char* names[] = {"boolean", "integer", "number", "string"};
  return names[spec.default_value.index()];
}

bool is_number(const OptionSpec& spec) {
  return std::holds_alternative<std::int64_t>(spec.default_value) ||
         std::holds_alternative<double>(spec.default_value);
}

std::string range_of(const OptionSpec& spec) {
  if (!is_number(spec)) return "";
  const bool low = std::isfinite(spec.min), high = std::isfinite(spec.max);
  const char* at_least = spec.min_exclusive ? ">" : ">=";
  if (low && high) return fmt::format(", {} {:.15g} and <= {:.15g}", at_least, spec.min, spec.max);
  if (low) return fmt::format(", {} {:.15g}", at_least, spec.min);
  return high ? fmt::format(", <= {:.15g}", spec.max) : "";
}

struct ParameterInfo {
  std::string name, init;
  std::vector<int> dims;
};
/// A study that says nothing but the memory's name; none where the memory needs more.
std::optional<Options> default_options(const Memory& kind) {
  Options options;
  fill_defaults(options, "model", model_options());
  fill_defaults(options, "memory", kind.options);
  options.set("memory.name", kind.name);
  try {
    resolve_model(options, {kKeys, kValues});
    kind.resolve(options);
    return options;
  } catch (const OptionError&) {
    return std::nullopt;
  }
}

std::vector<ParameterInfo> parameters_of(const Options& options) {
  const auto model = make_model<float>(options, {kKeys, kValues}, Device::cpu, 1);
  model->graph(2, {3, 2, 2}, true);  // what fits a single token may not fit more
  std::vector<ParameterInfo> all;
  const auto& block = model->parameters();
  for (int i = 0; i < block.count(); ++i) {
    const Tensor<float> t = block.value(i);
    all.push_back({block.name(i), block.init(i).text(), {t.dims, t.dims + t.rank}});
  }
  return all;
}

}  // namespace

Json option_json(const std::string& prefix, const OptionSpec& spec) {
  Json json = {{"key", prefix + "." + spec.name},
               {"type", type_of(spec)},
               {"default", to_json(spec.default_value)},
               {"help", spec.help},
               {"min", nullptr},
               {"max", nullptr}};
  if (is_number(spec) && std::isfinite(spec.min)) json["min"] = spec.min;
  if (is_number(spec) && std::isfinite(spec.max)) json["max"] = spec.max;
  if (is_number(spec) && spec.min_exclusive) json["min_exclusive"] = true;
  if (!spec.choices.empty()) json["choices"] = spec.choices;
  return json;
}

Json options_json(const std::string& prefix, const std::vector<OptionSpec>& options) {
  Json json = Json::array();
  for (const OptionSpec& spec : options) json.push_back(option_json(prefix, spec));
  return json;
}

std::string option_text(const std::string& prefix, const OptionSpec& spec) {
  std::string text = fmt::format("  {}.{} = {}  ({}{})\n", prefix, spec.name, to_text(spec.default_value),
                                 type_of(spec), range_of(spec));
  text += wrap(spec.help, kDescribedWidth, "      ");
  if (!spec.choices.empty()) text += wrap("One of: " + join(spec.choices, ", "), kDescribedWidth, "      ");
  return text;
}

std::string options_text(const std::string& prefix, const std::vector<OptionSpec>& options) {
  if (options.empty()) return "\nNo options.\n";
  std::string text = "\nOptions, with their defaults:\n";
  for (const OptionSpec& spec : options) text += option_text(prefix, spec);
  return text;
}

Description describe(const TaskKind& kind) {
  return {fmt::format("{} (task): {}\n\n{}{}", kind.name, kind.summary,
                      wrap(kind.description, kDescribedWidth), options_text("task", kind.options)),
          {{"kind", "task"},
           {"name", kind.name},
           {"summary", kind.summary},
           {"description", kind.description},
           {"options", options_json("task", kind.options)}}};
}

Description describe(const Memory& kind) {
  Description described = {fmt::format("{} (memory): {}\n\n{}", kind.name, kind.summary,
                                       wrap(kind.description(), kDescribedWidth)),
                           {{"kind", "memory"},
                            {"name", kind.name},
                            {"summary", kind.summary},
                            {"description", kind.description()}}};
  const std::optional<Options> options = default_options(kind);
  if (options) {
    const std::int64_t d_key = options->get_int("model.d_key"), dot = kind.d_dot(*options),
                       state = kind.state_size(*options, kValues, kLength);
    const std::string d_dot = dot == 0 ? "none (no feature map bounds it)" : fmt::format("{}", dot);
    described.text += fmt::format(
        "\nWith the defaults and d_key = {}: d_dot {}; state size {} floats\n(with {} values, after {} tokens).\n",
        d_key, d_dot, state, kValues, kLength);
    described.json["defaults"] = {{"model.d_key", d_key},
                                  {"values", kValues},
                                  {"length", kLength},
                                  {"d_dot", dot},
                                  {"state_size", state}};
  }
  described.text += options_text("memory", kind.options);
  described.json["options"] = options_json("memory", kind.options);
  described.text += fmt::format("\n{}", wrap(kind.published_text(), kDescribedWidth));
  Json layer = nullptr;
  if (kind.published) {
    layer = {{"source", kind.published.source},
             {"set", Json::object()},
             {"expand_k", kind.published.expand_k},
             {"expand_v", kind.published.expand_v},
             {"parameters", kind.published.parameters},
             {"lacks", Json::array()},
             {"eps_times", std::array{"none", "keys", "values"}[static_cast<int>(kind.published.eps_times)]}};
    for (const auto& [key, value] : kind.published.set) layer["set"][key] = to_json(value);
    for (const Difference& one : kind.published.lacks)
      layer["lacks"].push_back({{"what", one.what}, {"consequence", one.consequence}});
  }
  described.json["published"] = layer;
  described.text += "\nInputs (crosstalk apply):";
  Json inputs = Json::array();
  for (const ApplyInput& input : apply_inputs(kind, {})) {
    described.text += fmt::format(" {} {}{};", input.name, input.shape, input.optional ? " (optional)" : "");
    inputs.push_back({{"name", input.name}, {"shape", input.shape}, {"optional", input.optional}});
    for (const MemoryInput& one : kind.inputs)
      if (one.name == input.name && !one.symbol.empty()) inputs.back()["symbol"] = one.symbol;
  }
  described.text.back() = '\n';
  described.json["inputs"] = inputs;
  described.json["states"] = kind.states;
  described.json["does"] = kind.does;
  described.json["family"] = title_of(kind.family);
  described.json["equation"] = kind.equation;
  described.json["laws"] = kind.laws;
  described.json["bounded_by_rank"] = kind.bounded_by_rank;
  described.json["order_free"] = kind.order_free;
  described.json["source"] = kind.source;
  if (options) {
    described.text += fmt::format(
        "\nParameters in the retrieval model ({} keys, {} values), and how they start:\n", kKeys, kValues);
    for (const auto& parameter : parameters_of(*options)) {
      described.text +=
          fmt::format("  {:<28} [{}]  {}\n", parameter.name, fmt::join(parameter.dims, ","), parameter.init);
      described.json["parameters"].push_back(
          {{"name", parameter.name}, {"shape", parameter.dims}, {"init", parameter.init}});
    }
  }
  std::vector<double> lives;  // none where nothing fades
  if (options) lives = half_lives_at_start(*options, {kKeys, kValues});
  if (!lives.empty()) {
    described.text += fmt::format(
        "What it holds decays at the start with a half-life of {:.3g} tokens (median; 90 of 100 numbers\n"
        "between {:.3g} and {:.3g}).\n",
        lives[1], lives[0], lives[2]);
    described.json["half_life_at_start"] = {{"median", lives[1]}, {"low", lives[0]}, {"high", lives[2]}};
  }
  const std::vector<std::string> forms = apply_forms(kind);
  described.json["forms"] = forms;
  described.text += fmt::format("Forms: {} (crosstalk describe forms)\n", join(forms, ", "));
  return described;
}

Description describe(const FeatureMapInfo& info) {
  return {fmt::format("{} (feature map)\n\n  phi(k)  {}\n  d_dot   {}\n  source  {}\n\nA study takes it with "
                      "feature_map = \"{}\" in a memory's table.\n",
                      info.name, info.formula, info.d_dot, info.source, info.name),
          {{"kind", "feature-map"},
           {"name", info.name},
           {"formula", info.formula},
           {"d_dot", info.d_dot},
           {"source", info.source}}};
}

Description describe(const FigureKind& kind) {
  const auto part = [](const char* name, const std::string& text) {
    std::string lines = wrap(text, kDescribedWidth - 13, "             ");
    lines.replace(0, 13, fmt::format("  {:<11}", name));
    return lines;
  };
  std::string text = fmt::format("{} (figure): {}\n\n", kind.name, kind.summary);
  text += part("x axis", kind.x) + part("y axis", kind.y) + part("shown", kind.statistic);
  if (!kind.threshold.empty()) text += part("solved", kind.threshold);
  std::vector<std::string> options = kind.options;
  for (const char* option : {"--where", "--by", "--best", "--metric", "--facet", "--threshold", "--seeds",
                             "--log", "--width", "--venue", "--title", "--footnote", "--out"})
    if (std::string(option) != "--threshold" || !kind.threshold.empty()) options.emplace_back(option);
  text += part("options", join(options, ", ") + " ('crosstalk plot --help')");
  text += part(
      "columns",
      join(kind.columns, ", ") +
          "; then a column for each key of --by and --facet, and with --best the chosen value (selected). Rows whose label begins with "
          "theory:, published:, fit: or prefix-exact: are drawn behind.");
  text += fmt::format("\nDraw it with: crosstalk plot {} STORE\n", kind.name);
  return {text,
          {{"kind", "figure"},
           {"name", kind.name},
           {"summary", kind.summary},
           {"x", kind.x},
           {"y", kind.y},
           {"statistic", kind.statistic},
           {"threshold", kind.threshold},
           {"options", options},
           {"columns", kind.columns}}};
}

}  // namespace crosstalk::program

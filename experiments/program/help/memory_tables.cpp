// Tables of memories for pages, made from what their files declare.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/help/memory_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <vector>

#include "experiments/common/text.h"
#include "models/apply_model.h"
#include "models/memory.h"
#include "tasks/task.h"

namespace crosstalk::program {
namespace {

constexpr Family kFamilies[] = {Family::keeps, Family::adds, Family::erases, Family::own_law};

/// "[B,T,H,K]" -> "[.,K]": on that page "." stands for [B,T,H].
std::string short_shape(const std::string& shape) {
  const std::string token = "[B,T,H";
  if (shape == token + "]") return ".";
  return shape.rfind(token + ",", 0) == 0 ? "[." + shape.substr(token.size()) : shape;
}

std::string inputs_cell(const Memory& memory) {
  const std::vector<ApplyInput> inputs = apply_inputs(memory, {});
  const auto reads = [&](const char* name) {
    return std::ranges::any_of(inputs, [&](const ApplyInput& one) { return one.name == name; });
  };
  std::vector<std::string> cells;
  for (const char* name : {"q", "k"}) {
    if (!reads(name)) cells.push_back(fmt::format("no {}", name));
  }
  for (const ApplyInput& input : inputs) {
    const bool expected = input.shape == "[B,T,H,K]" || (input.name == "v" && input.shape == "[B,T,H,V]");
    if (input.name == "s0" || ((input.name == "q" || input.name == "k" || input.name == "v") && expected))
      continue;
    std::string text = fmt::format("`{}` {}", input.name, short_shape(input.shape));
    for (const MemoryInput& one : memory.inputs) {
      if (one.name == input.name && !one.symbol.empty()) text += fmt::format(" ({})", one.symbol);
    }
    cells.push_back(text + (input.optional ? ", optional" : ""));
  }
  return join(cells, "; ");
}

/// But for those of every memory (feature map, key norm, form) and what only laws look at.
std::string options_cell(const Memory& memory) {
  std::set<std::string> others = {"form", "writes", "beta_max"};
  for (const Part& part : {feature_map("identity"), key_norm("none")}) {
    for (const OptionSpec& option : part.options) others.insert(option.name);
  }
  const Options options = apply_options(memory, {.T = 2, .K = 2}, {});
  std::vector<std::string> cells;
  for (const OptionSpec& option : memory.options) {
    if (others.count(option.name) != 0) continue;
    std::string value = to_text(options.at("memory." + option.name));
    std::erase(value, '"');
    cells.push_back(fmt::format("`{}` ({})", option.name, value));
  }
  return join(cells, ", ");
}

}  // namespace

std::string cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, 1, '\\');
  std::ranges::replace(text, '\n', ' ');
  return text;
}

std::string memories_table() {
  std::string text = "| memory | what a token does |\n|---|---|\n";
  for (const Family family : kFamilies) {
    text += fmt::format("| *{}* | |\n", title_of(family));
    for (const Memory& memory : all_memories()) {
      if (memory.family == family) text += fmt::format("| `{}` | {} |\n", memory.name, cell(memory.does));
    }
  }
  std::vector<std::string> without;
  for (const Memory& memory : all_memories())
    if (!memory.published) without.push_back(fmt::format("`{}`", memory.name));
  return text +
         fmt::format(
             "\nEach is the recurrence, without the layer of its source, unless a language model asks for that layer (`model.layer = "
             "\"published\"`), which\n{} of these {} have; {} have none.\n",
             all_memories().size() - without.size(), all_memories().size(), join(without, ", ", " and "));
}

std::string families_table() {
  std::string text = "| memories | |\n|---|---|\n";
  for (const Family family : kFamilies) {
    std::vector<std::string> names;
    for (const Memory& memory : all_memories())
      if (memory.family == family) names.push_back(fmt::format("`{}`", memory.name));
    text += fmt::format("| {} ({}) | {} |\n", title_of(family), names.size(), join(names, ", "));
  }
  return text;
}

std::string tasks_table() {
  std::string text = "| task | what happens, and what it measures |\n|---|---|\n";
  for (const TaskKind& kind : task_kinds())
    text += fmt::format("| `{}` | {} |\n", kind.name, cell(kind.summary));
  return text;
}

namespace {

/// What a memory starts with: name, map, norm of keys and queries, norm of what is read, gates.
std::vector<std::string> starting_cells(const Memory& memory) {
  const auto option = [&](const char* name) -> std::string {
    for (const OptionSpec& one : memory.options)
      if (one.name == name) return std::get<std::string>(one.default_value);
    return "-";
  };
  std::vector<std::string> gates;
  for (const MemoryInput& input : memory.inputs)
    if (!input.optional) gates.push_back(input.name);
  return {memory.name, option("feature_map"), option("key_norm"), option("read_norm"),
          gates.empty() ? "-" : join(gates, " ")};
}

}  // namespace

std::string comparable_table() {
  std::string text =
      "| memory | map | norm of k, q | norm of the read | gates | how they are made, and start | read and scale "
      "|\n|---|---|---|---|---|---|---|\n";
  for (const Memory& memory : all_memories()) {
    std::vector<std::string> cells = starting_cells(memory);
    cells.insert(cells.end(), {memory.laws.empty() ? "-" : memory.laws, memory.equation});
    cells[0] = fmt::format("`{}`", cells[0]);
    text += "|";
    for (const std::string& one : cells) text += fmt::format(" {} |", cell(one));
    text += "\n";
  }
  return text;
}

std::string layers_table() {
  std::string text =
      "| memory | source | weights of width 64, 2 heads | agrees | differs | what follows |\n|---|---|--:|---|---|---|\n";
  for (const Memory& memory : all_memories()) {
    const PublishedLayer& layer = memory.published;
    std::vector<std::string> agrees, differs, follows;
    for (const auto& [key, value] : layer.set) {
      std::string word = to_text(value);
      std::erase(word, '"');
      agrees.push_back(fmt::format("{} {}", key.substr(key.find('.') + 1), word));
    }
    for (std::size_t i = 0; i < layer.lacks.size(); ++i) {
      const std::string number = layer.lacks.size() > 1 ? fmt::format("{}. ", i + 1) : "";
      differs.push_back(number + layer.lacks[i].what), follows.push_back(number + layer.lacks[i].consequence);
    }
    if (!layer)
      differs = {"its authors have no layer, or none that is built here"}, follows = {"it is used as it is"};
    const auto words = [](const std::vector<std::string>& all, const char* sign, const char* otherwise) {
      return cell(all.empty() ? otherwise : join(all, sign));
    };
    text += fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", memory.name, layer ? cell(layer.source) : "-",
                        layer.parameters > 0 ? fmt::format("{}, as counted there", layer.parameters) : "-",
                        layer ? words(agrees, ", ", "projections alone") : "-",
                        words(differs, "; ", "nothing that is known"), words(follows, "; ", "-"));
  }
  return text;
}

std::string comparable_text() {
  std::vector<std::vector<std::string>> cells = {{"memory", "map", "norm k, q", "norm read", "gates"}};
  for (const Memory& memory : all_memories()) cells.push_back(starting_cells(memory));
  std::string text;
  std::istringstream lines(table(cells));
  for (std::string line; std::getline(lines, line);) text += "  " + line + "\n";  // one that stays as it is
  return text;
}

std::string apply_table() {
  std::string text =
      "| memory | inputs besides q, k, v | equation | own options (default) | states |\n|---|---|---|---|---|\n";
  for (const Family family : kFamilies) {
    for (const Memory& memory : all_memories()) {
      if (memory.family != family) continue;
      text += fmt::format("| `{}` | {} | {} | {} | {} |\n", memory.name, inputs_cell(memory),
                          cell(memory.equation), options_cell(memory), join(memory.states, ", "));
    }
  }
  return text;
}

}  // namespace crosstalk::program

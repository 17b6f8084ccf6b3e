// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/study_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>

#include "experiments/study/study.h"
#include "kernels/base/error.h"
#include "kernels/base/text/names.h"
#include "results/numbers/labels.h"
#include "results/printable.h"

namespace crosstalk {
namespace {

using Kind = TomlNode::Kind;
const std::vector<std::string> kPrefixes = {"task", "model", "memory", "train", "eval"};

std::string near_or(const std::string& name, const std::vector<std::string>& names,
                    const std::string& otherwise) {
  const std::string near = nearest_name(name, names);
  return near.empty() ? otherwise : fmt::format("did you mean {}?", near);
}

/// A key and its value, with tables written by dots ("task.associations" either way) taken apart.
struct Flat {
  std::string key;
  Position at;
  const TomlNode* node;
};

/// Opens every table whose name is a prefix (task.x = 1 is a table "task" to TOML); leaves the rest.
std::vector<Flat> flatten(const TomlNode& table, const std::set<std::string>& leave = {}) {
  std::vector<Flat> out;
  for (const TomlEntry& entry : table.entries) {
    if (leave.count(entry.key)) continue;
    const bool prefix = std::ranges::find(kPrefixes, entry.key) != kPrefixes.end();
    if (prefix && entry.node.kind == Kind::table) {
      for (const TomlEntry& inner : entry.node.entries) {
        out.push_back({entry.key + "." + inner.key, inner.at, &inner.node});
      }
    } else {
      out.push_back({entry.key, entry.at, &entry.node});
    }
  }
  std::ranges::stable_sort(out, [](const Flat& a, const Flat& b) { return a.at < b.at; });
  return out;
}

class Reader {
 public:
  Reader(const Schema& schema, const Blame& blame) : schema_(schema), blame_(blame) {}

  StudyFile read(const TomlNode& root) {
    for (const TomlEntry& entry : root.entries) {
      static const std::vector<std::string> kTables = {"study", "base", "memories", "grid"};
      if (entry.key == "search")
        blame_.fail(entry.at, fmt::format("this file asks for a search, not for a study: crosstalk search {}",
                                          blame_.path));
      if (std::ranges::find(kTables, entry.key) == kTables.end()) {
        blame_.fail(
            entry.at,
            fmt::format(
                "unknown {} {}; {}", entry.node.kind == Kind::scalar ? "key" : "table", entry.key,
                near_or(entry.key, kTables, "a study has [study], [base], [memories.LABEL] and [[grid]]")));
      }
    }
    read_head(root.find("study"));
    if (const TomlEntry* base = root.find("base")) read_base(table(*base, "[base]"));
    read_memories(root.find("memories"));
    if (const TomlEntry* grid = root.find("grid")) {
      for (const TomlNode& block : tables(*grid, "[[grid]]")) read_block(block);
    }
    if (file_.blocks.empty()) file_.blocks.push_back({file_.at, {all_memories(file_.at)}, {}});
    return std::move(file_);
  }

 private:
  const TomlNode& table(const TomlEntry& entry, const char* written) const {
    if (entry.node.kind != Kind::table) {
      blame_.fail(entry.at, fmt::format("{} is a table; write {} on a line of its own", entry.key, written));
    }
    return entry.node;
  }

  const std::vector<TomlNode>& tables(const TomlEntry& entry, const char* written) const {
    bool good = entry.node.kind == Kind::array;
    for (const TomlNode& item : entry.node.items) good = good && item.kind == Kind::table;
    if (!good) {
      blame_.fail(entry.at,
                  fmt::format("{} is a list of tables; write {} on a line of its own", entry.key, written));
    }
    return entry.node.items;
  }

  Setting scalar(const Flat& flat) const {
    if (flat.node->kind != Kind::scalar) {
      blame_.fail(flat.at,
                  fmt::format("{} takes one value here; lists and ranges belong in [[grid]]", flat.key));
    }
    return {flat.node->value, {flat.at, -1}};
  }

  /// A law: a list of strings, a step each, or one string. What is wrong is said at its place in the file.
  std::optional<Setting> law(const SchemaMemory& kind, const Flat& flat) const {
    const bool list = flat.node->kind == Kind::array;
    std::vector<std::string> steps;
    std::vector<Position> places;
    for (const TomlNode& item : list ? flat.node->items : std::vector<TomlNode>{*flat.node}) {
      const auto* step = std::get_if<std::string>(&item.value);
      if (item.kind != Kind::scalar || !step)
        blame_.fail(item.at, "law is a list of strings, one a step: law = [\"S += v k^T\", \"read S q\"]");
      if (list && step->find(';') != std::string::npos)
        blame_.fail(item.at,
                    "each string of law is one step; write what stands behind ; as a string of its own");
      steps.push_back(*step);
      places.push_back(item.at);
    }
    if (steps.empty())
      blame_.fail(flat.at, "law has no steps; the least is law = [\"S += v k^T\", \"read S q\"]");
    if (const auto refusal = kind.refused_law(steps)) {
      const std::size_t step = list ? static_cast<std::size_t>(refusal->step) - 1 : 0;
      Position at = places.at(step);
      at.column += refusal->column;  // behind the quote
      blame_.refuse({at, -1},
                    fmt::format("{}: {}", steps[step].size() > 80 ? "law" : steps[step], refusal->message));
      return {};
    }
    std::string all;
    for (const std::string& step : steps) all += (all.empty() ? "" : "; ") + step;
    return Setting{all, {flat.at, -1}};
  }

  std::string text(const TomlEntry& entry) const {
    if (const auto* string = std::get_if<std::string>(&entry.node.value);
        string && entry.node.kind == Kind::scalar) {
      return *string;
    }
    blame_.fail(entry.at, fmt::format("{} wants a string in quotes", entry.key));
  }

  void read_head(const TomlEntry* entry) {
    if (!entry) blame_.fail(Position{1, 1}, "the table [study] is missing; it holds name = \"...\"");
    const TomlNode& head = table(*entry, "[study]");
    file_.at = entry->at;
    file_.seeds.key = "seeds";
    file_.seeds.from = {entry->at, -1};
    file_.seeds.list = {{std::int64_t{1}, {entry->at, -1}}};
    static const std::vector<std::string> kKeys = {"name", "title", "seeds", "every_memory"};
    for (const TomlEntry& item : head.entries) {
      if (item.key == "name") {
        file_.name = text(item);
        check_name(file_.name, item.node.at);
      } else if (item.key == "title") {
        file_.title = text(item);
      } else if (item.key == "seeds") {
        read_seeds(item);
      } else if (item.key == "every_memory") {
        const bool* on = item.node.kind == Kind::scalar ? std::get_if<bool>(&item.node.value) : nullptr;
        if (!on) blame_.fail(item.at, "every_memory is true or false");
        if (*on) every_memory_ = item.at;
      } else {
        blame_.fail(item.at,
                    fmt::format("unknown key {} in [study]; {}", item.key,
                                near_or(item.key, kKeys, "it has name, title, seeds and every_memory")));
      }
    }
    if (file_.name.empty()) blame_.fail(file_.at, "[study] has no name; add name = \"my_study\"");
  }

  void check_name(const std::string& name, Position at) const {
    const auto good = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-' || c == '.'; };
    if (name.empty() || name.size() > 100 || !std::ranges::all_of(name, good) || name[0] == '.' ||
        name[0] == '-') {
      blame_.fail(
          at, fmt::format(
                  "name = \"{}\" cannot name files; use up to 100 letters, digits, _, - and . (not first)",
                  name));
    }
  }

  void read_seeds(const TomlEntry& entry) {
    if (entry.node.kind == Kind::scalar) {
      blame_.fail(entry.at,
                  "seeds is a list; write seeds = [3] for seed 3, { range = [1, 3] } for three seeds");
    }
    file_.seeds = axis("seeds", entry.at, entry.node);
  }

  void read_base(const TomlNode& base) {
    for (const Flat& flat : flatten(base)) {
      check_key(flat.key, flat.at);
      const Setting setting = scalar(flat);
      if (flat.key != "memory.law" || !blame_.refuse_law(schema_, setting))
        add(file_.base, flat.key, setting);
    }
  }

  void add(std::map<std::string, Setting>& to, const std::string& key, Setting setting) const {
    const auto [it, added] = to.emplace(key, setting);
    if (!added) {
      blame_.fail(setting.from,
                  fmt::format("duplicate key {}: it is already set in line {}; keep one of the two", key,
                              it->second.from.at.line));
    }
    check_setting(schema_, blame_, key, setting);
  }

  void check_key(const std::string& key, Position at) const {
    if (const std::string last = key.substr(key.find('.') + 1); last == "seed" || last == "seeds") {
      blame_.fail(
          at,
          fmt::format(
              "{} does not belong here; write seeds = [1, 2, 3] in [study] (data_seed and init_seed may be set alone)",
              key));
    }
    if (key == "memory.name" || key == "memory") {
      blame_.fail(
          at, fmt::format(
                  "{} is chosen by [memories.LABEL] name = \"...\", and by memory = [\"LABEL\"] in [[grid]]",
                  key));
    }
    if (!schema_.knows(key)) blame_.fail(at, schema_.unknown_key(key));
  }

  void read_memories(const TomlEntry* entry) {
    if (!every_memory_ && (!entry || entry->node.entries.empty())) {
      blame_.fail(entry ? entry->at : file_.at,
                  fmt::format("no memory to train; add [memories.LABEL] with name = {}", memory_choices()));
    }
    if (entry) {
      for (const TomlEntry& item : table(*entry, "[memories.LABEL]").entries) read_memory(item);
    }
    if (every_memory_) add_other_memories(*every_memory_);
    std::ranges::stable_sort(file_.memories,
                             [](const MemoryTable& a, const MemoryTable& b) { return a.at < b.at; });
    for (std::size_t i = 0; i < file_.memories.size(); ++i) file_.places.emplace(file_.memories[i].label, i);
  }

  /// The memories that no table names, with their defaults and their names as labels.
  void add_other_memories(Position at) {
    std::set<std::string> named;
    for (const MemoryTable& memory : file_.memories) named.insert({memory.name, memory.label});
    for (const SchemaMemory& kind : schema_.memories) {
      if (kind.only_by_name || named.count(kind.name) != 0) continue;
      MemoryTable memory;
      memory.label = memory.name = kind.name;
      memory.at = memory.name_at = at;
      memory.added = true;
      file_.memories.push_back(memory);
    }
  }

  /// All memories, or where they stand if they are too many for a message.
  std::string memory_choices() const {
    const std::vector<std::string> names = schema_.memory_names();
    constexpr std::size_t most = 12;
    if (names.size() <= most) return join_names(names);
    return fmt::format("one of {} ('crosstalk list memories')", names.size());
  }

  /// A memory's table without a name: the entry that was meant to be it, or the label, which may be one.
  [[noreturn]] void nameless(const TomlEntry& entry) const {
    for (const TomlEntry& item : entry.node.entries) {
      const auto* value =
          item.node.kind == Kind::scalar ? std::get_if<std::string>(&item.node.value) : nullptr;
      if (!value) continue;
      const bool slip = !nearest_name(item.key, {"name"}).empty();
      if (slip || schema_.find_memory(*value))
        blame_.fail(
            item.at,
            fmt::format("unknown key {} in [memories.{}], which has no name; did you mean name = \"{}\"?",
                        item.key, entry.key, *value));
    }
    const std::string meant = nearest_name(entry.key, schema_.memory_names());
    blame_.fail(entry.at, fmt::format("[memories.{}] has no name; add name = {}", entry.key,
                                      meant.empty() ? memory_choices() : '"' + meant + '"'));
  }

  void read_memory(const TomlEntry& entry) {
    if (entry.node.kind != Kind::table) {
      blame_.fail(
          entry.at,
          fmt::format("{} stands in [memories] itself; each memory has its own table [memories.LABEL]",
                      entry.key));
    }
    const auto good = [](unsigned char c) {
      return c >= 0x20 && c < 0x7F && c != ',' && c != '"' && c != '\\';
    };
    if (entry.key.empty() || !std::ranges::all_of(entry.key, good)) {
      blame_.fail(
          entry.at,
          fmt::format("label \"{}\" of a memory: use printable ASCII without commas, quotes and backslashes",
                      entry.key));
    }
    if (const std::string why = misread_label(entry.key); !why.empty()) {
      blame_.fail(entry.at, fmt::format("label \"{}\" of a memory: {}", entry.key, why));
    }
    MemoryTable memory;
    memory.label = entry.key;
    memory.at = memory.name_at = entry.at;
    if (const TomlEntry* name = entry.node.find("name")) {
      memory.name = text(*name);
      memory.name_at = name->at;
    } else {
      nameless(entry);
    }
    const SchemaMemory* kind = schema_.find_memory(memory.name);
    if (!kind && memory.name == "base_conv")
      blame_.fail(
          memory.name_at,
          "base_conv is no memory but a layer beside one; write model.stack = \"base_conv memory\" in [base], and name a memory here");
    if (!kind) {
      blame_.fail(memory.name_at,
                  fmt::format("unknown memory \"{}\"; {}", memory.name,
                              near_or(memory.name, schema_.memory_names(), "it may be " + memory_choices())));
    }
    if (const TomlEntry* title = entry.node.find("title")) memory.title = text(*title);
    for (const Flat& flat : flatten(entry.node, {"name", "title"})) {
      const bool dotted = flat.key.find('.') != std::string::npos;
      const bool seed = flat.key == "data_seed" || flat.key == "init_seed";
      const std::string key = dotted || seed ? flat.key : "memory." + flat.key;
      if (key.compare(0, 7, "memory.") == 0) {
        check_memory_option(*kind, key, flat);
      } else {
        check_key(key, flat.at);
      }
      const bool is_law = key == "memory.law" && kind->refused_law;
      const std::optional<Setting> read = is_law ? law(*kind, flat) : scalar(flat);
      if (!read) continue;
      const Setting& setting = *read;
      add(memory.settings, key, setting);
      if (const OptionSpec* spec = find_option(schema_, "", memory.name, key)) {
        try {
          option_value(*spec, key, setting);
        } catch (const OptionError& error) {
          blame_.fail(setting.from, error.what());
        }
      }
    }
    file_.memories.push_back(std::move(memory));
  }

  /// Strict: a memory's own table may set only what that memory has.
  void check_memory_option(const SchemaMemory& kind, const std::string& key, const Flat& flat) const {
    if (find_option(schema_, "", kind.name, key)) return;
    std::vector<std::string> names;
    for (const OptionSpec& spec : kind.options) names.push_back(spec.name);
    const std::string name = key.substr(7);
    for (const std::string& known : schema_.keys()) {  // "batch" for train.batch
      const std::size_t dot = known.find('.');
      if (dot != std::string::npos && known.compare(0, 7, "memory.") != 0 && known.substr(dot + 1) == name &&
          name != "name") {
        names.push_back(known);
        blame_.fail(flat.at, fmt::format("unknown key {} of memory \"{}\"; did you mean {}?", flat.key,
                                         kind.name, known));
      }
    }
    if (const std::string known = synonym_of(name, schema_.keys()); !known.empty())
      blame_.fail(flat.at, fmt::format("unknown key {} of memory \"{}\"; did you mean {}?", flat.key,
                                       kind.name, known));
    const std::string others = names.empty() ? "it has no options" : "it has " + join_names(names);
    blame_.fail(flat.at, fmt::format("unknown key {} of memory \"{}\"; {}", flat.key, kind.name,
                                     near_or(name, names, others)));
  }

  Axis all_memories(Position at) const {
    AxisValues values;
    values.key = "memory";
    values.from = {at, -1};
    for (const MemoryTable& memory : file_.memories) values.list.push_back({memory.label, {at, -1}});
    return {{values}};
  }

  void read_block(const TomlNode& node) {
    Block block;
    block.at = node.at;
    std::map<std::string, int> lines;  // of the keys so far
    const auto column = [&](const Flat& flat) {
      if (flat.key != "memory") check_key(flat.key, flat.at);
      const auto [it, added] = lines.emplace(flat.key, flat.at.line);
      if (!added) {
        blame_.fail(flat.at,
                    fmt::format("duplicate key {}: this block has it already in line {}; keep one of the two",
                                flat.key, it->second));
      }
      return axis(flat.key, flat.at, *flat.node);
    };
    for (const Flat& flat : flatten(node, {"zip", "skip"})) block.axes.push_back({{column(flat)}});
    if (const TomlEntry* zips = node.find("zip")) {
      for (const TomlNode& zip : tables(*zips, "[[grid.zip]]")) {
        Axis together;
        for (const Flat& flat : flatten(zip)) {
          together.columns.push_back(column(flat));
          const AxisValues &first = together.columns.front(), &last = together.columns.back();
          if (last.count() != first.count()) {
            blame_.fail(
                flat.at,
                fmt::format(
                    "[[grid.zip]] lists advance together, but {} has {} and {} has {} values; make them equally long",
                    first.key, first.count(), last.key, last.count()));
          }
        }
        if (together.columns.empty()) blame_.fail(zip.at, "[[grid.zip]] is empty; give it two lists or more");
        block.axes.push_back(std::move(together));
      }
    }
    if (const TomlEntry* skips = node.find("skip")) {
      for (const TomlNode& skip : tables(*skips, "[[grid.skip]]")) block.skips.push_back(read_skip(skip));
    }
    if (!lines.count("memory")) block.axes.insert(block.axes.begin(), all_memories(block.at));
    file_.blocks.push_back(std::move(block));
  }

  Skip read_skip(const TomlNode& node) const {
    Skip skip{node.at, {}};
    for (const Flat& flat : flatten(node)) {
      if (flat.key != "memory") check_key(flat.key, flat.at);
      const AxisValues values = axis(flat.key, flat.at, *flat.node);
      if (values.count() > 100000)
        blame_.fail(flat.at, "more than 100000 values to skip; leave them out of the grid");
      std::vector<Setting> any;
      for (std::int64_t i = 0; i < values.count(); ++i) any.push_back(values.value(i));
      skip.conditions.emplace_back(flat.key, std::move(any));
    }
    if (skip.conditions.empty()) {
      blame_.fail(node.at,
                  "[[grid.skip]] is empty and would skip everything; name keys and values to leave out");
    }
    return skip;
  }

  /// The values of a key in a grid: a list, one value, { range = ... } or { logrange = ..., base = 2 }.
  AxisValues axis(const std::string& key, Position at, const TomlNode& node) const {
    AxisValues axis;
    if (node.kind == Kind::table) {
      axis = range(key, at, node);
    } else if (node.kind == Kind::array) {
      if (node.items.empty())
        blame_.fail(at, fmt::format("{} is an empty list; give it at least one value", key));
      for (const TomlNode& item : node.items) {
        if (item.kind != Kind::scalar) {
          blame_.fail(item.at,
                      fmt::format("{} holds a list or table inside its list; it takes plain values", key));
        }
        axis.list.push_back({item.value, {item.at, -1}});
      }
    } else {
      axis.list.push_back({node.value, {node.at, -1}});
    }
    axis.key = key;
    axis.from = {at, -1};
    for (const Setting& setting : axis.list) check_value(key, setting);
    if (axis.ranged) check_value(key, axis.value(0));
    return axis;
  }

  void check_value(const std::string& key, const Setting& setting) const {
    if (key == "memory.law" && blame_.refuse_law(schema_, setting)) return;
    if (key != "memory") return check_setting(schema_, blame_, key, setting);
    const auto* label = std::get_if<std::string>(&setting.value);
    if (label && file_.find_memory(*label)) return;
    const std::vector<std::string> labels = file_.labels();
    blame_.fail(setting.from,
                fmt::format("unknown memory {}; {}", to_text(setting.value),
                            near_or(label ? *label : "", labels, "[memories] has " + join_names(labels))));
  }

  AxisValues range(const std::string& key, Position at, const TomlNode& node) const {
    static const std::string kWanted =
        "{ range = [first, last, step] } or { logrange = [first, last], base = 2 }";
    const TomlEntry *plain = node.find("range"), *logarithmic = node.find("logrange"),
                    *base = node.find("base");
    for (const TomlEntry& entry : node.entries) {
      if (&entry != plain && &entry != logarithmic && (&entry != base || !logarithmic)) {
        const bool is_key =
            std::ranges::find(kPrefixes, key) != kPrefixes.end() || key.find('.') != std::string::npos;
        blame_.fail(entry.at, fmt::format("unknown key {} in {}; {} takes a list, {}", entry.key, key,
                                          is_key ? key : "it", kWanted));
      }
    }
    const TomlEntry* entry = plain ? plain : logarithmic;
    if (!entry || (plain && logarithmic) || entry->node.kind != Kind::array) {
      blame_.fail(at, fmt::format("{} wants a list, a value, {}", key, kWanted));
    }
    std::vector<OptionValue> numbers;
    for (const TomlNode& item : entry->node.items) {
      if (item.kind != Kind::scalar)
        blame_.fail(item.at, fmt::format("{} of {} wants numbers", entry->key, key));
      numbers.push_back(item.value);
    }
    if (base && base->node.kind != Kind::scalar) blame_.fail(base->at, "base wants a number");
    if (const std::int64_t step = plain ? missing_step(key, numbers) : 0; step > 0) {
      const std::string first = to_text(numbers[0]), last = to_text(numbers[1]);
      blame_.fail(
          entry->at,
          fmt::format("range of {} has no step, so that it is every number from {} to {}; give one, such "
                      "as {{ range = [{}, {}, {}] }}, or 1 for every number",
                      key, first, last, first, last, step));
    }
    try {
      if (plain) return make_range(numbers);
      return make_logrange(numbers, base ? base->node.value : OptionValue(std::int64_t{2}));
    } catch (const std::invalid_argument& error) {
      blame_.fail(entry->at, fmt::format("{} of {} {}", entry->key, key, error.what()));
    }
  }

  const Schema& schema_;
  const Blame& blame_;
  StudyFile file_;
  std::optional<Position> every_memory_;  ///< where the study asks for it
};

}  // namespace

StudyFile read_study_file(const Schema& schema, const TomlNode& root, const Blame& blame) {
  return Reader(schema, blame).read(root);
}

const MemoryTable* StudyFile::find_memory(const std::string& label) const {
  const auto found = places.find(label);
  return found == places.end() ? nullptr : &memories[found->second];
}

std::vector<std::string> StudyFile::labels() const {
  std::vector<std::string> out;
  for (const MemoryTable& memory : memories) out.push_back(memory.label);
  return out;
}

void Blame::refuse(const Origin& origin, const std::string& message) const {
  const std::string line = printable_line(message);  // keys and values stand in it
  const std::string told =
      origin.set >= 0
          ? fmt::format("--set {}: {}", printable_line(sets.at(static_cast<std::size_t>(origin.set))), line)
          : fmt::format("{}:{}:{}: {}", printable_line(path), origin.at.line, origin.at.column, line);
  const auto same = [&](const auto& one) { return one.second == told; };
  if (std::ranges::none_of(refused, same)) refused.emplace_back(origin.at, told);
}

void Blame::settle() const {
  if (refused.empty()) return;
  std::ranges::stable_sort(refused, [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string all;
  for (const auto& [at, told] : refused) all += (all.empty() ? "" : "\n") + told;
  throw ConfigError(all);
}

void Blame::fail(const Origin& origin, const std::string& message) const {
  refuse(origin, message);
  settle();
  throw std::logic_error("[study] nothing is refused");
}

bool Blame::refuse_law(const Schema& schema, const Setting& law) const {
  const auto* text = std::get_if<std::string>(&law.value);
  if (!text) return false;
  for (const SchemaMemory& kind : schema.memories) {
    const auto refusal = kind.refused_law ? kind.refused_law({*text}) : std::nullopt;
    if (!refusal) continue;
    Origin origin = law.from;
    if (origin.set < 0) origin.at.column += refusal->column;  // behind the quote
    refuse(origin, fmt::format("{}: {}", text->size() > 80 ? "law" : *text, refusal->message));
    return true;
  }
  return false;
}

}  // namespace crosstalk

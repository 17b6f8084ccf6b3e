// --set KEY=VALUE[,VALUE]: the command line's word, which replaces the file's.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "experiments/study/study.h"
#include "experiments/study/study_file.h"

namespace crosstalk {
namespace {

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

/// Splits at commas outside quotes and parentheses.
std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> pieces(1);
  char quote = 0;
  int depth = 0;
  for (const char c : text) {
    if (quote) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '(' || c == '[') {
      ++depth;
    } else if (c == ')' || c == ']') {
      --depth;
    } else if (c == ',' && depth <= 0) {
      pieces.emplace_back();
      continue;
    }
    pieces.back() += c;
  }
  for (std::string& piece : pieces) piece = trimmed(piece);
  return pieces;
}

class Setter {
 public:
  Setter(const Schema& schema, const Blame& blame, StudyFile& file)
      : schema_(schema), blame_(blame), file_(file) {}

  void apply(int index) {
    origin_ = Origin{{}, index};
    const std::string& set = blame_.sets[static_cast<std::size_t>(index)];
    const std::size_t equals = set.find('=');
    const std::string key = trimmed(set.substr(0, equals));
    if (equals == std::string::npos || key.empty())
      fail("wants KEY=VALUE, such as train.batch=64 or seeds=1,2,3");
    if (key == "seed")
      fail("unknown key seed; did you mean seeds? (data_seed and init_seed may be set alone)");
    if (key == "memory.name" || key == "label" || key == "memories")
      fail("memories are chosen by their label: --set memory=LABEL[,LABEL]");
    if (key != "seeds" && key != "memory" && !schema_.knows(key)) fail(schema_.unknown_key(key));
    const auto [first, is_new] = said_.emplace(key, index);
    if (!is_new && trimmed(set.substr(equals + 1)) != trimmed(value_of(first->second)))
      fail(fmt::format(
          "{} is set already, by --set {}; keep one of the two (several values: --set {}=VALUE,VALUE)", key,
          blame_.sets[static_cast<std::size_t>(first->second)], key));
    AxisValues values = parse(key, set.substr(equals + 1));
    values.key = key;
    values.from = origin_;
    for (const Setting& setting : values.list) check(key, setting);
    if (values.ranged) check(key, values.value(0));
    if (key == "seeds") {
      file_.seeds = std::move(values);
    } else if (key == "memory") {
      select(values);
    } else {
      replace(key, values);
    }
  }

 private:
  [[noreturn]] void fail(const std::string& message) const { blame_.fail(origin_, message); }

  std::string value_of(int index) const {
    const std::string& set = blame_.sets[static_cast<std::size_t>(index)];
    return set.substr(set.find('=') + 1);
  }

  OptionValue scalar(const std::string& text) const {
    if (const auto value = parse_toml_scalar(text)) return *value;
    if (text.find_first_of("\"'[]{}()#") != std::string::npos) {
      fail(fmt::format("{} is no value; write a number, true, false, a word or a \"string\"", text));
    }
    for (const char c : text) {
      if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7F) {
        fail("the value holds a character that is not printable ASCII");
      }
    }
    if (text == "nan" || text == "inf" || text == "+inf" || text == "-inf" || text == "+nan" ||
        text == "-nan") {
      fail("nan and inf are no values that a study can use");
    }
    return text;
  }

  AxisValues parse(const std::string& key, const std::string& text) const {
    if (trimmed(text).empty()) fail(fmt::format("{} has no value", key));
    const std::vector<std::string> pieces = split(text);
    AxisValues values;
    for (const std::string& piece : pieces) {
      const std::size_t open = piece.find('(');
      const std::string function = trimmed(piece.substr(0, open == std::string::npos ? 0 : open));
      if (open != std::string::npos && piece.back() == ')' &&
          (function == "range" || function == "logrange")) {
        if (pieces.size() > 1) fail(fmt::format("{} stands alone; write either a range or a list", piece));
        return range(key, function, piece.substr(open + 1, piece.size() - open - 2));
      }
      if (piece.empty()) fail("a value between two commas is missing");
      values.list.push_back({scalar(piece), origin_});
    }
    return values;
  }

  AxisValues range(const std::string& key, const std::string& function, const std::string& inside) const {
    std::vector<OptionValue> numbers;
    for (const std::string& piece : split(inside)) numbers.push_back(scalar(piece));
    if (const std::int64_t step = function == "range" ? missing_step(key, numbers) : 0; step > 0) {
      const std::string first = to_text(numbers[0]), last = to_text(numbers[1]);
      fail(fmt::format(
          "range has no step, so that it is every number from {0} to {1}; give one, such as range({0},{1},{2}), or 1 for every number",
          first, last, step));
    }
    try {
      if (function == "range") return make_range(numbers);
      OptionValue base = std::int64_t{2};
      if (numbers.size() == 3) {
        base = numbers.back();
        numbers.pop_back();
      }
      return make_logrange(numbers, base);
    } catch (const std::invalid_argument& error) {
      const std::string wants =
          function == "range" ? "range(1,5) or range(20,600,20)" : "logrange(4,256) or logrange(4,256,2)";
      fail(fmt::format("{} {}; write it as {}", function, error.what(), wants));
    }
  }

  void check(const std::string& key, const Setting& setting) const {
    if (key == "memory.law" && blame_.refuse_law(schema_, setting)) return;
    if (key != "memory") return check_setting(schema_, blame_, key, setting);
    const auto* label = std::get_if<std::string>(&setting.value);
    const std::string name = label ? *label : to_text(setting.value);
    if (file_.find_memory(name)) return;
    const std::string near = nearest_name(name, file_.labels());
    fail(fmt::format("unknown memory {}; {}", name,
                     near.empty() ? "the study has " + join_names(file_.labels())
                                  : fmt::format("did you mean {}?", near)));
  }

  /// A label that some block has stays in the blocks that have it (their loads were chosen for it); one that
  /// no block has joins them all. Other labels go, and so do blocks that are left without memory.
  void select(const AxisValues& values) {
    std::vector<std::string> wanted;
    for (std::int64_t i = 0; i < values.count(); ++i) {
      const Setting setting = values.value(i);
      const auto* label = std::get_if<std::string>(&setting.value);
      wanted.push_back(label ? *label : to_text(setting.value));
    }
    std::set<std::string> used;
    for_each_memory_column([&](Axis&, AxisValues& column) {
      for (const Setting& label : column.list) used.insert(std::get<std::string>(label.value));
    });
    std::vector<Setting> joining;
    for (const std::string& label : wanted) {
      if (!used.count(label)) joining.push_back({label, origin_});
    }
    for_each_memory_column([&](Axis& axis, AxisValues& column) {
      std::vector<AxisValues> kept = axis.columns;  // rows of a zip go together
      for (AxisValues& other : kept) other = {other.key, other.from, {}, false, false, {}, {}, 0};
      for (std::int64_t row = 0; row < axis.count(); ++row) {
        const std::string label = std::get<std::string>(column.value(row).value);
        if (std::ranges::find(wanted, label) == wanted.end()) continue;
        for (std::size_t c = 0; c < kept.size(); ++c) kept[c].list.push_back(axis.columns[c].value(row));
      }
      if (axis.columns.size() == 1) {
        kept[0].list.insert(kept[0].list.end(), joining.begin(), joining.end());
      } else if (!joining.empty()) {
        fail(fmt::format(
            "memory {} is part of no [[grid.zip]] list, so its other values are unknown; name it there",
            to_text(joining[0].value)));
      }
      axis.columns = std::move(kept);
    });
    const auto empty = [](const Block& block) {
      return std::ranges::any_of(block.axes, [](const Axis& axis) { return axis.count() == 0; });
    };
    file_.blocks.erase(std::remove_if(file_.blocks.begin(), file_.blocks.end(), empty), file_.blocks.end());
  }

  template <class Function>
  void for_each_memory_column(const Function& function) {
    for (Block& block : file_.blocks) {
      for (Axis& axis : block.axes) {
        for (std::size_t c = 0; c < axis.columns.size(); ++c) {
          if (axis.columns[c].key == "memory") {
            function(axis, axis.columns[c]);
            break;
          }
        }
      }
    }
  }

  /// One value goes to [base] and leaves every other place; several become an axis of every block, where K
  /// stood if it had an axis of its own, else last (a zip goes on without K).
  void replace(const std::string& key, const AxisValues& values) {
    file_.base.erase(key);
    for (MemoryTable& memory : file_.memories) memory.settings.erase(key);
    const bool single = values.count() == 1;
    for (Block& block : file_.blocks) {
      bool placed = single;
      for (auto axis = block.axes.begin(); axis != block.axes.end();) {
        auto& columns = axis->columns;
        const auto column = std::ranges::find_if(columns, [&](const AxisValues& c) { return c.key == key; });
        if (column != columns.end()) columns.erase(column);
        if (columns.empty() && !placed) {
          columns = {values};
          placed = true;
        }
        axis = columns.empty() ? block.axes.erase(axis) : axis + 1;
      }
      if (!placed) block.axes.push_back({{values}});
    }
    if (single) file_.base.emplace(key, values.value(0));
  }

  const Schema& schema_;
  const Blame& blame_;
  StudyFile& file_;
  Origin origin_;
  std::map<std::string, int> said_;  ///< keys, and the --set that says them
};

/// Whether some run of the study has this value, and another one has not.
bool tells_runs_apart(const StudyFile& file, const std::string& key, const std::string& value) {
  const auto is_it = [&](const OptionValue& one) {
    const auto* text = std::get_if<std::string>(&one);
    return (text != nullptr ? *text : to_text(one)) == value;
  };
  bool some = false, others = file.blocks.size() > 1;
  for (const Block& block : file.blocks)
    for (const Axis& axis : block.axes)
      for (const AxisValues& column : axis.columns)
        for (std::int64_t i = 0; column.key == key && i < column.count(); ++i)
          (is_it(column.value(i).value) ? some : others) = true;
  return some && others;
}

}  // namespace

std::string conditions_instead(const StudyFile& file, const std::vector<std::string>& sets) {
  for (const std::string& set : sets) {
    const std::size_t equals = set.find('=');
    if (equals == std::string::npos) continue;
    const std::string key = trimmed(set.substr(0, equals)), value = trimmed(set.substr(equals + 1));
    if (key != "memory" && tells_runs_apart(file, key, value))
      return fmt::format(
          " (--set puts {0} = {1} into every part of the study; 'run' and 'plan' with --where {0}={1} take the runs that have it)",
          key, value);
  }
  return "";
}

void apply_sets(const Schema& schema, const Blame& blame, StudyFile& file) {
  Setter setter(schema, blame, file);
  for (std::size_t i = 0; i < blame.sets.size(); ++i) setter.apply(static_cast<int>(i));
}

}  // namespace crosstalk

// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/toml_reader.h"

// toml++ 3.3.0 asserts on malformed input ("i=[}") in debug builds; without the assertion it reports the
// error.
#define TOML_ASSERT(x) static_cast<void>(0)
#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <tuple>

namespace crosstalk {
namespace {

Position position(const toml::source_position& source) {
  return {static_cast<int>(source.line), static_cast<int>(source.column)};
}

/// Lines of the guarded text, to look at what stands where.
class Source {
 public:
  explicit Source(std::string_view text) {
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      lines_.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
  }

  std::string_view from(Position at) const {
    if (at.line < 1 || static_cast<std::size_t>(at.line) > lines_.size() || at.column < 1) return {};
    const std::string_view line = lines_[static_cast<std::size_t>(at.line) - 1];
    return line.substr(std::min(line.size(), static_cast<std::size_t>(at.column) - 1));
  }

  /// Where the string begins that is still open at the end of the line; nothing where none is.
  std::optional<Position> open_string(int line) const {
    if (line < 1 || static_cast<std::size_t>(line) > lines_.size()) return std::nullopt;
    const std::string_view text = lines_[static_cast<std::size_t>(line) - 1];
    char quote = 0;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (quote == 0 && text[i] == '#') return std::nullopt;
      if (quote == '"' && text[i] == '\\') {
        ++i;
      } else if (quote == 0 ? text[i] == '"' || text[i] == '\'' : text[i] == quote) {
        quote = quote == 0 ? text[i] : '\0';
        begin = i;
      }
    }
    if (quote == 0) return std::nullopt;
    return Position{line, static_cast<int>(begin) + 1};
  }

  /// Beginning of the dotted key (or of the key = value pair) that `at` lies in.
  Position key_begin(Position at) const {
    if (from(at).data() == nullptr) return at;
    const std::string_view line = lines_[static_cast<std::size_t>(at.line) - 1];
    std::size_t i = std::min(line.size(), static_cast<std::size_t>(at.column) - 1);
    while (i > 0 && std::string_view("{,[").find(line[i - 1]) == std::string_view::npos) --i;
    while (i < line.size() && (line[i] == ' ' || line[i] == '\t')) ++i;
    return {at.line, std::min(at.column, static_cast<int>(i) + 1)};
  }

 private:
  std::vector<std::string_view> lines_;
};

/// toml++'s words, made into a sentence for somebody who does not think in grammar.
std::string readable(const std::string& description) {
  constexpr std::string_view kPrefix = "Error while parsing ", kTwice = "cannot redefine existing ";
  std::string_view rest = description;
  if (rest.substr(0, kPrefix.size()) == kPrefix) rest.remove_prefix(kPrefix.size());
  if (const auto twice = rest.find(kTwice); twice != std::string_view::npos) {
    std::string_view what = rest.substr(twice + kTwice.size());
    std::string name;
    if (const auto quote = what.find('\''); quote != std::string_view::npos) {
      name = std::string(what.substr(quote + 1, what.rfind('\'') - quote - 1));
    }
    return fmt::format("duplicate key {}: it is already set above; keep one of the two", name);
  }
  std::string message = fmt::format("not valid TOML: {}", rest);
  if (const auto line_end = message.find("'\\n'"); line_end != std::string::npos)
    message.replace(line_end, 4, "the end of the line");
  if (rest.substr(0, 6) == "array:") message += " (is the ] of a list missing?)";
  if (rest.find("expected a comment or whitespace, saw ','") != std::string_view::npos)
    message += " (numbers have a decimal point; several values are a list in [[grid]], such as [1, 2])";
  const bool unquoted = rest.substr(0, 7) == "boolean" || rest.substr(0, 5) == "value" ||
                        rest.find("could not determine value type") != std::string_view::npos;
  if (unquoted) message += " (a string needs quotes: \"...\")";
  if (rest.find("encountered end-of-file") != std::string_view::npos) {
    message += " (is a bracket, quote or \"= value\" missing?)";
  }
  return message;
}

class Converter {
 public:
  explicit Converter(const Source& source) : source_(source) {}

  TomlNode node(const toml::node& from) const {
    TomlNode to;
    to.at = position(from.source().begin);
    if (const auto* array = from.as_array()) {
      to.kind = TomlNode::Kind::array;
      for (const toml::node& item : *array) to.items.push_back(node(item));
    } else if (const auto* table = from.as_table()) {
      to.kind = TomlNode::Kind::table;
      for (auto&& [key, value] : *table) {
        const Position at = source_.key_begin(position(key.source().begin));
        to.entries.push_back({std::string(key.str()), at, node(value)});
      }
      std::ranges::stable_sort(to.entries, [](const TomlEntry& a, const TomlEntry& b) {
        return std::tie(a.at, a.node.at) < std::tie(b.at, b.node.at);
      });
    } else {
      to.value = scalar(from, to.at);
    }
    return to;
  }

 private:
  OptionValue scalar(const toml::node& from, Position at) const {
    if (const auto* flag = from.as_boolean()) return flag->get();
    if (const auto* integer = from.as_integer()) return integer->get();
    if (const auto* number = from.as_floating_point()) {
      if (!std::isfinite(number->get()))
        throw TomlError(at, "nan and inf are no values that a study can use");
      const std::string_view digits = source_.from(at).substr(0, source_.from(at).find_first_of("eE,]} \t#"));
      if (number->get() == 0 && digits.find_first_of("123456789") != std::string_view::npos)
        throw TomlError(at, "is smaller than numbers can be and would be 0; write 0, or at least 1e-300");
      return number->get();
    }
    if (const auto* text = from.as_string()) {
      const std::string_view raw = source_.from(at).substr(0, 3);
      if (raw == "\"\"\"" || raw == "'''") {
        throw TomlError(at, "a string over several lines has no use in a study; write it on one line");
      }
      for (const char c : text->get()) {
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
          throw TomlError(at, "a control character in a string; a study holds printable text");
        }
      }
      return text->get();
    }
    throw TomlError(at,
                    "a date or time has no meaning in a study; it holds numbers, strings, true and false");
  }

  const Source& source_;
};

}  // namespace

const TomlEntry* TomlNode::find(const std::string& key) const {
  for (const TomlEntry& entry : entries) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

TomlNode parse_toml(const std::string& text) {
  const std::string guarded = guard_text(text);
  const Source source(guarded);
  try {
    const toml::table table = toml::parse(std::string_view(guarded));
    return Converter(source).node(table);
  } catch (const toml::parse_error& error) {
    const std::string description(error.description());
    Position at = position(error.source().begin);
    if (description.find("cannot redefine") != std::string::npos) at = source.key_begin(at);
    if (const auto open = source.open_string(at.line);
        open && description.find("string") != std::string::npos)
      throw TomlError(*open,
                      fmt::format("a string begins here and is not closed; add the closing {} in this line",
                                  source.from(*open).substr(0, 1)));
    throw TomlError(at, readable(description));
  }
}

std::optional<OptionValue> parse_toml_scalar(const std::string& text) {
  if (text.find_first_of("\n\r#") != std::string::npos) return std::nullopt;
  try {
    const TomlNode root = parse_toml("value = " + text);
    if (root.entries.size() == 1 && root.entries[0].node.kind == TomlNode::Kind::scalar) {
      return root.entries[0].node.value;
    }
  } catch (const TomlError&) {
  }
  return std::nullopt;
}

}  // namespace crosstalk

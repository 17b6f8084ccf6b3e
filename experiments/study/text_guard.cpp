// Guards the TOML parser: what passes is shallow ASCII, on which toml++ 3.3.0 was fuzzed without a finding.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/text_guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace crosstalk {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{4} << 20;
// Dots of keys and brackets around them. Tables nest as deep as that, and toml++ destroys them recursively.
constexpr int kMaxDepth = 100;

/// Decodes the character at `text[i]` and moves `i` behind it; false if it is not UTF-8 (overlong forms,
/// surrogates and values above U+10FFFF are not).
bool next_character(std::string_view text, std::size_t& i, char32_t& character) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char lead = byte(i);
  if (lead < 0x80) {
    character = lead;
    ++i;
    return true;
  }
  const int extra = lead >= 0xF0 && lead <= 0xF4 ? 3 : lead >= 0xE0 ? 2 : lead >= 0xC2 ? 1 : 0;
  if (extra == 0 || lead > 0xF4 || i + static_cast<std::size_t>(extra) >= text.size()) return false;
  character = lead & (0x3F >> extra);
  for (int k = 1; k <= extra; ++k) {
    const unsigned char next = byte(i + static_cast<std::size_t>(k));
    if ((next & 0xC0) != 0x80) return false;
    character = (character << 6) | (next & 0x3F);
  }
  constexpr char32_t kSmallest[] = {0, 0x80, 0x800, 0x10000};
  if (character < kSmallest[extra] || character > 0x10FFFF) return false;
  if (character >= 0xD800 && character <= 0xDFFF) return false;
  i += static_cast<std::size_t>(extra) + 1;
  return true;
}

/// Columns [begin, end) between the quotes of a line such as `title = "..."  # comment` or `title = '...'`; {0, 0} for any
/// other line, which must be ASCII.
std::pair<std::size_t, std::size_t> title_quotes(std::string_view line) {
  std::size_t i = line.find_first_not_of(" \t");
  constexpr std::string_view kKey = "title";
  if (i == std::string_view::npos || line.substr(i, kKey.size()) != kKey) return {0, 0};
  i = line.find_first_not_of(" \t", i + kKey.size());
  if (i == std::string_view::npos || line[i] != '=') return {0, 0};
  i = line.find_first_not_of(" \t", i + 1);
  if (i == std::string_view::npos || (line[i] != '"' && line[i] != '\'')) return {0, 0};
  const char quote = line[i];
  std::size_t end = i + 1;
  for (; end < line.size() && line[end] != quote; ++end) {
    if (quote == '\'' || line[end] != '\\') continue;
    if (++end == line.size() || static_cast<unsigned char>(line[end]) >= 0x80)
      return {0, 0};  // no escape of TOML
  }
  if (end >= line.size() || end == i + 1) return {0, 0};
  return {i + 1, end};
}

/// How deep the tables and arrays of a text nest, character by character. Knows strings and comments as TOML
/// has them; where a text is not TOML it may count too much behind the first error, but never too little
/// before it.
class Depth {
 public:
  void begin_line() {
    comment_ = false;
    quote_ = empty_quote_ = 0;  // no string goes over a line's end (strings of several lines are refused)
    if (brackets_.empty()) begin_statement();
  }

  /// Throws TomlError at `at` for the character that makes it too deep, or begins a string of several lines.
  void see(char c, Position at) {
    if (comment_) return;
    if (quote_ != 0) return inside_string(c, at);
    if (c == empty_quote_ && at.column == quote_column_ + 2) {
      throw TomlError({at.line, quote_column_},
                      "a string over several lines has no use in a study; write it on one line");
    }
    empty_quote_ = 0;
    switch (c) {
      case '#':
        comment_ = true;
        return;
      case '"':
      case '\'':
        quote_ = c;
        quote_column_ = at.column;
        escaped_ = false;
        break;
      case '=':
        header_line_ = false;
        break;
      case ',':
        dots_ = 0;
        break;
      case '.':
        ++dots_;
        break;
      case '[':
      case '{':
        if (brackets_.empty() && fresh_) {  // a header: all that follows lies below it
          header_line_ = true;
          header_ = 0;
        }
        brackets_.push_back(dots_);
        above_ += dots_ + 1;
        dots_ = 0;
        break;
      case ']':
      case '}':
        close();
        break;
      default:
        break;
    }
    if (c != ' ' && c != '\t') fresh_ = false;
    if (above_ + dots_ + (header_line_ ? 0 : header_) > kMaxDepth) {
      throw TomlError(
          at,
          fmt::format(
              "tables and lists nested more than {} deep, counted by dots and brackets; a study needs five",
              kMaxDepth));
    }
  }

 private:
  void begin_statement() {
    fresh_ = true;
    header_line_ = false;
    dots_ = above_ = 0;
  }

  void inside_string(char c, Position at) {
    if (escaped_) {
      escaped_ = false;
    } else if (c == '\\' && quote_ == '"') {
      escaped_ = true;
    } else if (c == quote_) {
      if (at.column == quote_column_ + 1) empty_quote_ = quote_;
      quote_ = 0;
    }
  }

  void close() {
    if (brackets_.empty()) return;
    if (header_line_) header_ = std::max(header_, dots_ + 1);
    above_ -= brackets_.back() + 1;
    dots_ = brackets_.back();
    brackets_.pop_back();
  }

  std::vector<int> brackets_;  ///< dots before each open one
  int above_ = 0;              ///< depth at the innermost open bracket
  int dots_ = 0;               ///< of the key, since then or since a comma
  int header_ = 0;             ///< of the last [table]
  bool fresh_ = true, header_line_ = false, comment_ = false, escaped_ = false;
  char quote_ = 0;        ///< of the string that is open
  int quote_column_ = 0;  ///< where it, or the last one, begins
  char empty_quote_ = 0;  ///< of the string that has just ended, if it was empty
};

void guard_line(std::string_view line, int number, Depth& depth, std::string& out) {
  const std::size_t first = line.find_first_not_of(" \t");
  const bool comment = first != std::string_view::npos && line[first] == '#';
  const auto [title_begin, title_end] = title_quotes(line);
  // A title in '...' that is not ASCII goes on as "...", where characters can be written by their number.
  const bool rewritten = title_begin > 0 && line[title_begin - 1] == '\'' &&
                         std::any_of(line.begin() + static_cast<std::ptrdiff_t>(title_begin),
                                     line.begin() + static_cast<std::ptrdiff_t>(title_end),
                                     [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
  depth.begin_line();
  int column = 0;
  for (std::size_t i = 0; i < line.size();) {
    const std::size_t start = i;
    char32_t character = 0;
    ++column;
    const Position at{number, column};
    if (!next_character(line, i, character)) {
      throw TomlError(at, fmt::format("byte 0x{:02X} is not UTF-8; save the file as UTF-8",
                                      static_cast<unsigned char>(line[start])));
    }
    if ((character < 0x20 && character != '\t') || character == 0x7F) {
      throw TomlError(at, fmt::format("control character U+{:04X}; a study is plain text",
                                      static_cast<unsigned>(character)));
    }
    if (character < 0x80) {
      const char c = static_cast<char>(character);
      depth.see(c, at);
      if (rewritten && (i == title_begin || start == title_end)) {
        out += '"';
      } else {
        if (rewritten && start >= title_begin && start < title_end && (c == '"' || c == '\\')) out += '\\';
        out += c;
      }
    } else if (comment) {
      out += '?';
    } else if (start >= title_begin && i <= title_end) {
      out += fmt::format("\\U{:08X}", static_cast<unsigned>(character));
    } else {
      throw TomlError(at, fmt::format("character U+{:04X} outside ASCII; such letters may stand only in "
                                      "comments on a line of their own and in titles (title = \"...\")",
                                      static_cast<unsigned>(character)));
    }
  }
}

}  // namespace

std::string guard_text(const std::string& text) {
  if (text.size() > kMaxBytes) {
    throw TomlError({1, 1},
                    fmt::format("the file has {} bytes; a study has at most {}", text.size(), kMaxBytes));
  }
  const std::string_view all = text;
  if (all.substr(0, 3) == "\xEF\xBB\xBF") {
    throw TomlError({1, 1}, "the file begins with a byte order mark; save it as UTF-8 without one");
  }
  if (all.substr(0, 2) == "\xFF\xFE" || all.substr(0, 2) == "\xFE\xFF") {
    throw TomlError({1, 1}, "the file is UTF-16; save it as UTF-8");
  }
  std::string out;
  out.reserve(text.size());
  int number = 1;
  Depth depth;
  for (std::size_t begin = 0; begin < all.size(); ++number) {
    std::size_t end = all.find('\n', begin);
    const bool last = end == std::string_view::npos;
    if (last) end = all.size();
    std::string_view line = all.substr(begin, end - begin);
    if (!last && !line.empty() && line.back() == '\r') line.remove_suffix(1);
    guard_line(line, number, depth, out);
    if (!last) out += '\n';
    begin = end + 1;
  }
  return out;
}

}  // namespace crosstalk

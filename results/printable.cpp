// SPDX-License-Identifier: Apache-2.0
#include "results/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace crosstalk {
namespace {

bool is_harmless(unsigned char c, bool line) {
  if (c == '\n' || c == '\t') return !line;
  return c >= 0x20 && c < 0x7F;
}

/// Bytes of the character that `lead` begins; 0: it begins none.
std::size_t length_of(unsigned char lead) {
  return lead < 0x80                    ? 1
         : lead >= 0xF0 && lead <= 0xF4 ? 4
         : lead >= 0xE0                 ? (lead < 0xF0 ? 3 : 0)
         : lead >= 0xC2                 ? 2
                                        : 0;
}

struct Character {
  char32_t code = 0;
  std::size_t bytes = 0;  ///< 0: not UTF-8
};

Character character_at(std::string_view text, std::size_t i) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const std::size_t bytes = length_of(byte(i));
  if (bytes == 0 || i + bytes > text.size()) return {};
  char32_t code = bytes == 1 ? byte(i) : byte(i) & (0x7F >> bytes);
  for (std::size_t k = 1; k < bytes; ++k) {
    if ((byte(i + k) & 0xC0) != 0x80) return {};
    code = (code << 6) | (byte(i + k) & 0x3F);
  }
  constexpr char32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < smallest[bytes] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return {};
  return {code, bytes};
}

/// Characters that change how others are shown, or look like the end of a line.
bool acts(char32_t c) {
  return (c >= 0x7F && c <= 0x9F) || c == 0x061C || (c >= 0x200B && c <= 0x200F) ||
         (c >= 0x2028 && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF ||
         (c >= 0xFFF9 && c <= 0xFFFB) || (c >= 0xE0000 && c <= 0xE007F);
}

void escape(std::string& out, char32_t code) {
  if (code > 0xFFFF) {  // as JSON has it
    code -= 0x10000;
    fmt::format_to(std::back_inserter(out), "\\u{:04x}\\u{:04x}",
                   static_cast<unsigned>(0xD800 + (code >> 10)),
                   static_cast<unsigned>(0xDC00 + (code & 0x3FF)));
    return;
  }
  fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(code));
}

std::string made_harmless(std::string_view text, bool line) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (is_harmless(c, line)) {
      out.push_back(text[i++]);
      continue;
    }
    const Character found = character_at(text, i);
    if (found.bytes == 0) {
      out.append("\\ufffd");
      ++i;
    } else if (found.bytes == 1 || acts(found.code)) {
      escape(out, found.code);
      i += found.bytes;
    } else {
      out.append(text.substr(i, found.bytes));
      i += found.bytes;
    }
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text) { return made_harmless(text, false); }

std::string printable_line(std::string_view text) { return made_harmless(text, true); }

std::string shell_quote(const std::string& word) {
  static const std::string safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  if (!word.empty() && word.find_first_not_of(safe) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::size_t cut_character(std::string_view text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const auto c = static_cast<unsigned char>(text[text.size() - back]);
    if ((c & 0xC0) == 0x80) continue;
    return length_of(c) > back ? back : 0;
  }
  return 0;
}

std::string shortened(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  std::string begin = text.substr(0, most * 3 / 4), end = text.substr(text.size() - most / 4);
  begin.resize(begin.size() - cut_character(begin));
  while (!end.empty() && (static_cast<unsigned char>(end[0]) & 0xC0) == 0x80) end.erase(0, 1);
  return fmt::format("{} ... ({} bytes left out) ... {}", begin, text.size() - begin.size() - end.size(),
                     end);
}

}  // namespace crosstalk

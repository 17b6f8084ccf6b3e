// Text for people and shells.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/common/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "kernels/base/text/names.h"

namespace crosstalk::program {
namespace {

/// Characters, not bytes: UTF-8 continuation bytes take no room.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string spaces(std::size_t n) { return std::string(n, ' '); }

bool numeric(const std::string& cell) {
  return !cell.empty() && cell.find_first_not_of("0123456789.,+-e ") == std::string::npos;
}

}  // namespace

std::string join(const std::vector<std::string>& words, const std::string& separator,
                 const std::string& last) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() && !last.empty() ? last : separator;
    text += words[i];
  }
  return text;
}

std::string suggestion(const std::string& name, const std::vector<std::string>& names, const char* quote) {
  const std::string near = nearest_name(name, names);
  return near.empty() ? "there are " + join(names, ", ", " and ")
                      : fmt::format("did you mean {0}{1}{0}?", quote, near);
}

std::string table(const std::vector<std::vector<std::string>>& all, const std::string& indent) {
  std::vector<std::vector<std::string>> rows = all;
  for (auto& row : rows)
    for (std::string& cell : row) cell = printable_line(cell);  // it must stay in its line
  std::vector<std::size_t> widths;
  std::vector<bool> right;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t c = 0; c < rows[r].size(); ++c) {
      if (c == widths.size()) {
        widths.push_back(0);
        right.push_back(true);
      }
      widths[c] = std::max(widths[c], width_of(rows[r][c]));
      if (r > 0 && !numeric(rows[r][c]) && rows[r][c] != "-") right[c] = false;
    }
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line = indent;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string pad = spaces(widths[c] - width_of(row[c]));
      if (c > 0) line += "  ";
      line += right[c] ? pad + row[c] : row[c] + pad;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string wrap(const std::string& text, std::size_t width, const std::string& indent) {
  std::istringstream lines(text);
  std::string line, wrapped, current;
  const auto flush = [&] {
    if (!current.empty()) wrapped += indent + current + "\n";
    current.clear();
  };
  while (std::getline(lines, line)) {
    if (line.empty() || line.front() == ' ') {
      flush();
      wrapped += line.empty() ? "\n" : indent + line + "\n";
      continue;
    }
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      if (!current.empty() && width_of(indent) + width_of(current) + 1 + width_of(word) > width) flush();
      current += (current.empty() ? "" : " ") + word;
    }
  }
  flush();
  return wrapped;
}

std::string two_columns(const std::vector<std::vector<std::string>>& rows, std::size_t column,
                        std::size_t width) {
  std::string text;
  for (const auto& row : rows) {
    std::string body;
    std::istringstream lines(row.at(1));
    for (std::string line; std::getline(lines, line);) body += wrap(line, width, spaces(column));
    const std::string head = "  " + row.at(0);
    if (width_of(head) + 1 < column && !body.empty())
      text += head + body.substr(width_of(head));
    else
      text += head + "\n" + body;
  }
  return text;
}

std::string duration(double seconds) {
  if (!(seconds >= 0)) return "?";
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  const auto s = static_cast<std::int64_t>(std::llround(std::min(seconds, 1e12)));
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {} s", s / 60, s % 60);
  if (s < 48 * 3600) return fmt::format("{} h {} min", s / 3600, s % 3600 / 60);
  return fmt::format("{} d {} h", s / 86400, s % 86400 / 3600);
}

std::string shell_quote(const std::vector<std::string>& words) {
  std::vector<std::string> quoted;
  for (const std::string& word : words) quoted.push_back(shell_quote(word));
  return join(quoted, " ");
}

std::string plural(std::int64_t count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string span(std::int64_t min, std::int64_t max) {
  return min == max ? fmt::format("{}", min) : fmt::format("{}..{}", min, max);
}

std::string unquoted(const OptionValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text == nullptr ? to_text(value) : *text;
}

nlohmann::json to_json(const OptionValue& value) {
  return std::visit([](const auto& v) { return nlohmann::json(v); }, value);
}

nlohmann::json to_json(const Options& options) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [key, value] : options.values()) json[key] = to_json(value);
  return json;
}

std::string dump(const nlohmann::ordered_json& json) {
  return json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace crosstalk::program

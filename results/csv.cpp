// Reading CSV.
// SPDX-License-Identifier: Apache-2.0
#include "results/csv.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>
#include <stdexcept>

namespace crosstalk {
namespace {

/// The cells of the record that begins at `at`, which is moved behind it; `lines` counts line ends. Spaces around cells
/// that are not quoted are dropped. Throws std::invalid_argument.
std::vector<std::string> next_cells(std::string_view text, char separator, std::size_t& at, int& lines,
                                    const std::string& where) {
  std::vector<std::string> cells(1);
  bool quoted = false, has_quotes = false;
  const auto end_cell = [&] {
    std::string& cell = cells.back();
    if (!has_quotes) {
      cell.erase(cell.find_last_not_of(" \t") + 1);
      cell.erase(0, cell.find_first_not_of(" \t"));
    }
    has_quotes = false;
  };
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\n') ++lines;
    if (c == '"') {
      has_quotes = true;
      if (quoted && at + 1 < text.size() && text[at + 1] == '"')
        cells.back() += text[++at];
      else
        quoted = !quoted;
    } else if (!quoted && c == separator) {
      end_cell();
      cells.emplace_back();
    } else if (!quoted && c == '\n') {
      ++at;
      break;
    } else if (quoted || c != '\r') {
      cells.back() += c;
    }
  }
  if (quoted) throw std::invalid_argument(where + ": a quote opens here that is not closed");
  end_cell();
  return cells;
}

/// What separates the cells of a file's head: a comma, or where it has none, a semicolon, a tab or a |.
char separator_of(std::string_view head) {
  head = head.substr(0, head.find('\n'));
  for (const char c : {',', ';', '\t', '|'})
    if (head.find(c) != std::string_view::npos) return c;
  return ',';
}

/// "0,25" or "-1,5e-3".
bool has_decimal_comma(std::string text) {
  const std::size_t comma = text.find(',');
  if (comma == std::string::npos || text.find('.') != std::string::npos) return false;
  text[comma] = '.';
  return number_in(text).has_value();
}

/// "; did you mean LABEL? Names are in lower case".
std::string other_case(const std::vector<std::string>& columns, const std::string& column) {
  const auto lower = [](std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
    return text;
  };
  for (const std::string& one : columns)
    if (lower(one) == column) return fmt::format("; {} is in other case: {} is meant", one, column);
  return "";
}

void check_columns(const std::vector<std::string>& columns, const std::string& where) {
  std::set<std::string> distinct;
  for (const std::string& column : columns)
    if (!distinct.insert(column).second)
      throw std::invalid_argument(fmt::format("{}: two columns have the same name, '{}'", where, column));
}

}  // namespace

CsvRow::CsvRow(const std::vector<std::string>& columns, std::vector<std::string> cells, std::string where)
    : columns_(columns), cells_(std::move(cells)), where_(std::move(where)) {
  if (cells_.size() != columns_.size())
    fail(fmt::format("has {} cells, the head has {}", cells_.size(), columns_.size()));
}

void CsvRow::fail(const std::string& message) const { throw std::invalid_argument(where_ + ": " + message); }

bool CsvRow::has(const std::string& column) const {
  const auto found = std::ranges::find(columns_, column);
  return found != columns_.end() && !cells_[static_cast<std::size_t>(found - columns_.begin())].empty();
}

const std::string& CsvRow::text(const std::string& column, const std::string& what) const {
  const auto found = std::ranges::find(columns_, column);
  if (found == columns_.end())
    fail(fmt::format("{} need a column '{}'; there are {}{}", what, column, fmt::join(columns_, ", "),
                     other_case(columns_, column)));
  return cells_[static_cast<std::size_t>(found - columns_.begin())];
}

double CsvRow::number(const std::string& column, const std::string& what) const {
  const std::string& cell = text(column, what);
  const auto value = number_in(cell);
  if (!value)
    fail(fmt::format("column '{}': '{}' is not a number{}", column, cell,
                     has_decimal_comma(cell) ? "; decimals have a point" : ""));
  return *value;
}

std::int64_t CsvRow::integer(const std::string& column, const std::string& what) const {
  const std::string& cell = text(column, what);
  const auto value = whole_in(cell);
  if (!value)
    fail(fmt::format("column '{}': '{}' is not a {}number", column, cell, number_in(cell) ? "whole " : ""));
  return *value;
}

void check_loss(const CsvRow& row, const std::string& column, double value) {
  if (value < 0)
    row.fail(fmt::format(
        "column '{}': {} is below 0; losses are half squared errors or cross-entropies (a log likelihood "
        "changes its sign), nan where the run diverged",
        column, value));
}

void read_csv(std::string_view text, const std::string& path, const std::function<void(const CsvRow&)>& row) {
  if (text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);  // spreadsheets write it
  if (text.substr(0, 2) == "\xFF\xFE" || text.substr(0, 2) == "\xFE\xFF")
    throw std::invalid_argument(path + ": is UTF-16; save it as CSV in UTF-8");
  std::vector<std::string> columns;
  char separator = ',';
  int line = 1;
  for (std::size_t at = 0; at < text.size();) {
    const int here = line;
    if (text[at] == '#' && columns.empty()) {  // below the columns it begins a cell
      at = std::min(text.find('\n', at), text.size() - 1) + 1;
      ++line;
      continue;
    }
    const std::string where = fmt::format("{}:{}", path, here);
    if (columns.empty()) separator = separator_of(text.substr(at));
    std::vector<std::string> cells = next_cells(text, separator, at, line, where);
    if (cells.size() == 1 && cells[0].empty()) continue;
    if (columns.empty()) {
      columns = std::move(cells);
      check_columns(columns, where);
      continue;
    }
    const CsvRow one(columns, std::move(cells), where);
    for (std::size_t i = 0; separator != ',' && i < columns.size(); ++i)
      if (has_decimal_comma(one.cell(i)))
        one.fail(fmt::format(
            "column '{}': '{}' has a comma; decimals have a point, and lists in cells need a file whose cells are separated by commas",
            columns[i], one.cell(i)));
    row(one);
  }
}

std::string csv_cell(const std::string& text) {
  const bool plain = text.find_first_of(",\"\r\n") == std::string::npos &&
                     (text.empty() || (text.front() != ' ' && text.back() != ' '));
  if (plain) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::optional<std::int64_t> whole_in(std::string_view text) {
  if (const auto whole = number_in<std::int64_t>(text)) return whole;
  // pandas writes 1 as 1.0 in a column with gaps; beyond 2^53 a double is no longer every whole number.
  const auto number = number_in(text);
  if (!number || *number != std::floor(*number) || !(std::abs(*number) <= 9007199254740992.0))
    return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

std::vector<std::string> parts_of(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text)
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

}  // namespace crosstalk

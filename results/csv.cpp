// Reading CSV.
// SPDX-License-Identifier: Apache-2.0
#include "results/csv.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <stdexcept>

namespace crosstalk {
namespace {

/// The cells of the record that begins at `at`, which is moved behind it; `lines` counts line ends.
std::vector<std::string> next_cells(std::string_view text, std::size_t& at, int& lines) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\n') ++lines;
    if (c == '"') {
      if (quoted && at + 1 < text.size() && text[at + 1] == '"')
        cells.back() += text[++at];
      else
        quoted = !quoted;
    } else if (!quoted && c == ',') {
      cells.emplace_back();
    } else if (!quoted && c == '\n') {
      ++at;
      break;
    } else if (quoted || c != '\r') {
      cells.back() += c;
    }
  }
  return cells;
}

}  // namespace

CsvRow::CsvRow(const std::vector<std::string>& columns, std::vector<std::string> cells, std::string where)
    : columns_(columns), cells_(std::move(cells)), where_(std::move(where)) {
  if (cells_.size() != columns_.size())
    fail(fmt::format("has {} cells, the head has {}", cells_.size(), columns_.size()));
}

void CsvRow::fail(const std::string& message) const { throw std::invalid_argument(where_ + ": " + message); }

bool CsvRow::has(const std::string& column) const {
  const auto found = std::find(columns_.begin(), columns_.end(), column);
  return found != columns_.end() && !cells_[static_cast<std::size_t>(found - columns_.begin())].empty();
}

const std::string& CsvRow::text(const std::string& column, const std::string& what) const {
  const auto found = std::find(columns_.begin(), columns_.end(), column);
  if (found == columns_.end())
    fail(fmt::format("{} need a column '{}'; there are {}", what, column, fmt::join(columns_, ", ")));
  return cells_[static_cast<std::size_t>(found - columns_.begin())];
}

double CsvRow::number(const std::string& column, const std::string& what) const {
  const std::string& cell = text(column, what);
  const auto value = number_in(cell);
  if (!value) fail(fmt::format("column '{}': '{}' is not a number", column, cell));
  return *value;
}

std::int64_t CsvRow::integer(const std::string& column, const std::string& what) const {
  const std::string& cell = text(column, what);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc() || end != cell.data() + cell.size())
    fail(fmt::format("column '{}': '{}' is not a {}number", column, cell, number_in(cell) ? "whole " : ""));
  return value;
}

void read_csv(std::string_view text, const std::string& path, const std::function<void(const CsvRow&)>& row) {
  if (text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);  // spreadsheets write it
  std::vector<std::string> columns;
  int line = 1;
  for (std::size_t at = 0; at < text.size();) {
    const int here = line;
    if (text[at] == '#') {
      at = std::min(text.find('\n', at), text.size() - 1) + 1;
      ++line;
      continue;
    }
    std::vector<std::string> cells = next_cells(text, at, line);
    if (cells.size() == 1 && cells[0].empty()) continue;
    const std::string where = fmt::format("{}:{}", path, here);
    if (columns.empty()) {
      columns = std::move(cells);
      const std::set<std::string> distinct(columns.begin(), columns.end());
      if (distinct.size() != columns.size())
        throw std::invalid_argument(fmt::format("{}: two columns have the same name", where));
      continue;
    }
    row(CsvRow(columns, std::move(cells), where));
  }
}

std::optional<double> number_in(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace crosstalk

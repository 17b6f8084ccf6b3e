// Reading CSV (RFC 4180) with messages that name path, line and column.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <charconv>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace crosstalk {

/// One line of a CSV file.
class CsvRow {
 public:
  CsvRow(const std::vector<std::string>& columns, std::vector<std::string> cells, std::string where);

  const std::vector<std::string>& columns() const { return columns_; }
  const std::string& cell(std::size_t column) const { return cells_[column]; }
  /// Whether there is such a column and it is not empty here.
  bool has(const std::string& column) const;
  /// Throw std::invalid_argument: no such column ("WHAT need a column ..."), not a number.
  const std::string& text(const std::string& column, const std::string& what) const;
  double number(const std::string& column, const std::string& what) const;
  std::int64_t integer(const std::string& column, const std::string& what) const;
  [[noreturn]] void fail(const std::string& message) const;
  /// "PATH:LINE".
  const std::string& where() const { return where_; }

 private:
  const std::vector<std::string>& columns_;
  std::vector<std::string> cells_;
  std::string where_;
};

/// Refuses a loss below 0.
void check_loss(const CsvRow& row, const std::string& column, double value);

/// Calls `row` for every row. Empty lines, and above the columns those that begin with #, are passed over; quoted cells may
/// hold commas, quotes and line ends. Cells are separated by commas, or, where the line of columns has none, by semicolons,
/// tabs or |; numbers have decimal points everywhere. `path` is for messages. Throws std::invalid_argument.
void read_csv(std::string_view text, const std::string& path, const std::function<void(const CsvRow&)>& row);

/// A text as a cell: in quotes where it would be read as something else.
std::string csv_cell(const std::string& text);

/// The number that a text is, and nothing else.
template <class Number = double>
std::optional<Number> number_in(std::string_view text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}
/// A whole number, perhaps written as a decimal one ("1.0").
std::optional<std::int64_t> whole_in(std::string_view text);
/// What stands between separators: one part more than there are of these.
std::vector<std::string> parts_of(std::string_view text, char separator);

}  // namespace crosstalk

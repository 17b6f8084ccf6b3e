// SPDX-License-Identifier: Apache-2.0
#include "plots/tables/table_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <regex>

#include "plots/drawing/drawing.h"
#include "plots/tables/latex.h"
#include "results/csv.h"
#include "results/printable.h"

namespace crosstalk {
namespace {

std::string markdown(const std::string& text) {
  std::string out;
  for (const char c : text)  // a line feed would end the row
    out += c == '|' ? std::string("\\|") : std::string(1, static_cast<unsigned char>(c) < 0x20 ? ' ' : c);
  return out;
}

bool is_number(const std::string& text) { return number_in(text).has_value() || text == "--"; }

/// Names stand at the left, numbers at the right.
bool at_right(const Table& table, std::size_t column) {
  return column >= table.keys ||
         std::ranges::all_of(table.rows, [&](const auto& row) { return is_number(row[column].text); });
}

/// What a row is of, in one cell: "DeltaNet, reassign, $d_{key}$ = 8".
std::string name_of_row(const Table& table, const std::vector<Cell>& row) {
  std::string name = row[0].text;
  for (std::size_t key = 1; key < table.keys; ++key)
    if (!row[key].text.empty())
      name += is_number(row[key].text) ? fmt::format(", {} = {}", table.head[key], row[key].text)
                                       : fmt::format(", {}", row[key].text);
  return name;
}

Table turned(const Table& table) {
  Table other = table;
  other.keys = 1;
  other.head = {""};
  for (const auto& row : table.rows) other.head.push_back(name_of_row(table, row));
  other.rows.clear();
  for (std::size_t column = table.keys; column < table.head.size(); ++column) {
    other.rows.push_back({{table.head[column], "", false}});
    for (const auto& row : table.rows) other.rows.back().push_back(row[column]);
  }
  return other;
}

/// About how wide LaTeX sets it, in points of a page of 10 pt.
double width_of(const Table& table) {
  constexpr double letter = 4.6, small_letter = 3.4, between = 12;
  const auto letters =
      [](const std::string& mathtext) {  // of a formula's orders one, of braces and dollars none
        double count = 0;
        for (std::size_t i = 0; i < mathtext.size(); ++i) {
          if (mathtext[i] == '\\')
            while (i + 1 < mathtext.size() && std::isalpha(static_cast<unsigned char>(mathtext[i + 1])) != 0)
              ++i;
          const auto c = static_cast<unsigned char>(mathtext[i]);
          if (c != '$' && c != '{' && c != '}' && c != '_' && (c & 0xC0) != 0x80) ++count;
        }
        return count;
      };
  double width = 0;
  for (std::size_t column = 0; column < table.head.size(); ++column) {
    double widest = letter * letters(table.head[column]);
    for (const auto& row : table.rows)
      widest = std::max(widest, letter * letters(row[column].text) +
                                    small_letter * static_cast<double>(row[column].interval.size() +
                                                                       (row[column].at_chance ? 10 : 0)));
    width += widest + between;
  }
  return width;
}

/// Characters that pdfLaTeX knows no letter for, as it is installed: others than Latin ones.
std::string unknown_letters(const std::string& text) {
  std::string unknown;
  for (std::size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    const std::size_t length = c < 0x80 ? 1 : c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2;
    const std::string one = text.substr(i, length);
    if (c > 0xC5 && unknown.find(one) == std::string::npos) unknown += one;
    i += length;
  }
  return unknown;
}

/// Powers of ten as papers set them: "9.76e-6" -> "$9.76{\\cdot}10^{-6}$".
std::string with_powers(const std::string& text) {
  static const std::regex power("([0-9]+(?:\\.[0-9]+)?)e([+-]?[0-9]+)");
  return std::regex_replace(text, power, "$$$1{\\cdot}10^{$2}$$");
}

}  // namespace

std::string latex_table(const Table& original) {
  constexpr double page = 345, narrow = 200;  // text width of the class article; less than any column's
  Table table = original;
  if (table.turns && width_of(table) > page)
    if (Table other = turned(table); width_of(other) < width_of(table)) table = std::move(other);
  const bool shrink = width_of(table) > narrow;  // LaTeX shall see whether it fits
  std::string text = "\\begin{table}\n\\centering\n";
  text += fmt::format("\\caption{{{}}}\n\\label{{{}}}\n\\smallskip\n", latex_of(table.caption), table.label);
  if (shrink) text += "\\sbox0{%\n";
  std::string columns;
  for (std::size_t column = 0; column < table.head.size(); ++column)
    columns += at_right(table, column) ? 'r' : 'l';
  text += fmt::format("\\begin{{tabular}}{{{}}}\n\\toprule\n", columns);
  std::vector<std::string> cells;
  for (const std::string& head : table.head) cells.push_back(latex_of(head));
  text += fmt::format("{} \\\\\n\\midrule\n", fmt::join(cells, " & "));
  for (const auto& row : table.rows) {
    cells.clear();
    for (const Cell& cell : row) {
      const bool is_name = &cell < row.data() + table.keys;
      std::string one = is_name ? latex_of(cell.text) : with_powers(latex_of(cell.text));
      if (cell.best && !cell.at_chance) one = fmt::format("\\textbf{{{}}}", one);
      if (!cell.interval.empty()) {
        std::string interval = cell.interval;
        for (std::size_t at = 0; (at = interval.find("inf", at)) != std::string::npos; at += 8)
          interval.replace(at, 3, "$\\infty$");
        interval = with_powers(interval);
        one += fmt::format(" {{\\scriptsize {}}}", interval);
      }
      if (cell.at_chance) one += " {\\scriptsize at chance}";
      cells.push_back(one);
    }
    text += fmt::format("{} \\\\\n", fmt::join(cells, " & "));
  }
  text += "\\bottomrule\n\\end{tabular}";
  if (shrink) text += "}\n\\ifdim\\wd0>\\linewidth\\resizebox{\\linewidth}{!}{\\usebox0}\\else\\usebox0\\fi";
  text += "\n\\end{table}\n";
  if (!table.notes.empty()) text += fmt::format("% {}\n", printable_line(table.notes));
  const std::string unknown = unknown_letters(text);
  return fmt::format(
      "% needs \\usepackage{{booktabs{}{}}}{}\n{}", shrink ? ",graphicx" : "", packages_of(text),
      unknown.empty() ? "" : fmt::format("; {}: needs XeLaTeX or LuaLaTeX and a font that has it", unknown),
      text);
}

std::string markdown_table(const Table& table) {
  std::vector<std::string> cells, rule;
  for (std::size_t column = 0; column < table.head.size(); ++column) {
    cells.push_back(markdown(table.head[column]));
    rule.emplace_back(at_right(table, column) ? "--:" : "---");
  }
  std::string text = fmt::format("| {} |\n|{}|\n", fmt::join(cells, " | "), fmt::join(rule, "|"));
  for (const auto& row : table.rows) {
    cells.clear();
    for (const Cell& cell : row) {
      std::string one = markdown(cell.text);
      if (cell.best && !cell.at_chance) one = fmt::format("**{}**", one);
      if (!cell.interval.empty()) one += fmt::format(" {}", cell.interval);
      if (cell.at_chance) one += " at chance";
      cells.push_back(one);
    }
    text += fmt::format("| {} |\n", fmt::join(cells, " | "));
  }
  return text + fmt::format("\n{}{}{}\n", markdown(table.caption), table.notes.empty() ? "" : " ",
                            markdown(table.notes));
}

}  // namespace crosstalk

// crosstalk table: the numbers of figures as tables for papers.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "experiments/common/exit_codes.h"
#include "experiments/common/text.h"
#include "experiments/program/draw.h"
#include "experiments/program/endings.h"
#include "experiments/study/schema.h"
#include "kernels/base/text/options.h"

namespace crosstalk::program {
namespace {

namespace fs = std::filesystem;

TableFormat format_of(const Arguments& arguments) {
  const std::string format = format_of(
      arguments, {{".tex", "latex"}, {".csv", "csv"}, {".md", "markdown"}}, "markdown",
      "tables are LaTeX (.tex), Markdown (.md) or CSV (.csv), not {}; name one of these, or say --format");
  return format == "latex" ? TableFormat::latex : format == "csv" ? TableFormat::csv : TableFormat::markdown;
}

/// --label, as LaTeX takes it.
std::string label_of(const Arguments& arguments, TableFormat format) {
  const std::string label = arguments.get("label");
  if (!label.empty() && format != TableFormat::latex)
    throw UsageError(
        fmt::format("--label {}: of LaTeX's \\label alone; say --format latex, or leave it out", label));
  const bool known = std::ranges::all_of(label, [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view(":._-+/").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (!known)
    throw UsageError(fmt::format("--label {}: letters, digits and :._-+/, such as tab:capacity", label));
  return label;
}

}  // namespace

int run_table(const Arguments& arguments, Console& console) {
  const std::string& name = arguments.positional.at(0);
  check_name("table", name, names_of(table_kinds()));
  const TableFormat format = format_of(arguments);
  FigureOptions options = figure_options(arguments, name);
  options.label = label_of(arguments, format);
  options.default_of = [](const Record& record, const std::string& key) -> std::optional<std::string> {
    const OptionSpec* option = find_option(default_schema(), config_text(record, "task.name").value_or(""),
                                           config_text(record, "memory.name").value_or(""), key);
    if (option == nullptr) return std::nullopt;
    return unquoted(option->default_value);
  };
  const LabelledRecords rows =
      rows_to_draw({arguments.positional.begin() + 1, arguments.positional.end()}, arguments, console);
  std::string text;
  const bool protocol = arguments.has("protocol");
  if (protocol && arguments.has("format") && format != TableFormat::latex)
    throw UsageError("--protocol is a paragraph in LaTeX; leave --format out, or say --format latex");
  with_notes("table " + name, console, [&](std::ostream& notes) {
    text = protocol ? protocol_text(name, rows, options) : table_text(name, rows, options, format, notes);
  });
  if (!arguments.has("out")) {
    console.out << text;
    return exit_done;
  }
  write_output(arguments.get("out"), text);
  console.out << arguments.get("out") << "\n";
  return exit_done;
}

}  // namespace crosstalk::program

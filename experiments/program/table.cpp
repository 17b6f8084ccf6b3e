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

}  // namespace

extern const Command table_command = {
    "table",
    "print results as a table for a paper",
    "capacity|updates|tracking|mad|difference|final STORE|STUDY.toml|RUNS.csv... [--out FILE] [OPTIONS]",
    "Prints one row for each memory:\n"
    "  capacity    its capacity, d_dot and state size\n"
    "  updates     its final loss at each number of associations\n"
    "  tracking    its accuracy at the training length and its multiples\n"
    "  mad         its accuracy on the six tasks of MAD, over all settings, and the mean of them\n"
    "  difference  a --metric minus that of --against LABEL with the same seed, and in how many seeds\n"
    "              it is better\n"
    "  final       any --metric at each number of associations or pairs, length or width, whichever\n"
    "              varies (--x KEY for another)\n"
    "Numbers are medians over seeds with their intervals. Bold is what is best of its column beyond\n"
    "doubt, which takes six seeds or more ('crosstalk describe bold'). --by KEY gives a row for each\n"
    "value of a key, and a column that says it. Cells whose runs lie within the noise of chance say so.\n"
    "The first line of LaTeX names the packages that it needs (booktabs, and graphicx where it may be\n"
    "wider than a column). Titles of a study ('title' of its memories) may hold formulas. --protocol\n"
    "prints how the runs of the table were made: data, splits, rates and their choice, seeds, stop rule.\n\n"
    "Examples:\n"
    "  crosstalk table capacity runs/quickstart --out capacity.tex --label tab:capacity\n"
    "  crosstalk table final runs/quickstart --where task.associations=16,32,64\n"
    "  crosstalk table final runs/mqar --metric test_accuracy\n"
    "  crosstalk table difference runs/mqar --against deltanet --metric test_accuracy\n"
    "  crosstalk table final my.toml --best train.learning_rate --format csv\n"
    "  crosstalk table final my.toml --best train.learning_rate --protocol --out protocol.tex\n",
    2,
    -1,
    "needs a table and a store, for example: crosstalk table capacity runs/quickstart",
    [] {
      std::vector<CommandOption> options = {
          choice_of("format", "FORMAT", "markdown, latex or csv (default: as --out ends, else markdown)",
                    {"latex", "markdown", "csv"}),
          {"out,o", "FILE", "Write there and print the path; .tex, .md and .csv say the format"},
          {"protocol", "", "Instead of the table: how its runs were made, as a paragraph in LaTeX"},
          {"label", "NAME", "Of LaTeX's \\label (default: tab: and the table's name)"},
          {"x", "KEY", "Of final and difference: the key of the columns (default: the one that varies)"}};
      for (const CommandOption& option : drawing_options())
        if (option.name != "published") options.push_back(option);
      return options;
    }(),
    run_table,
};

}  // namespace crosstalk::program

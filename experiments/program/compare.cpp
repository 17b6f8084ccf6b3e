// crosstalk compare: our medians beside published losses.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <nlohmann/json.hpp>

#include "experiments/common/exit_codes.h"
#include "experiments/common/stores.h"
#include "results/published.h"

namespace crosstalk::program {
namespace {

int run_compare(const Arguments& arguments, Console& console) {
  const LabelledRecords rows_of_all = load_rows(arguments.positional, arguments, console);
  const std::map<std::string, Record>& records = rows_of_all.rows;
  std::vector<PublishedPoint> points;
  try {
    points = arguments.has("published") ? read_published(arguments.get("published")) : default_published();
  } catch (const std::invalid_argument& error) {
    throw UsageError(std::string("--published: ") + error.what());
  }
  const std::vector<Comparison> rows = compare(points, records);
  const std::vector<std::string> alone = without_partner(points, records);
  if (rows.empty()) {
    std::string text =
        "compare: no run of these is one of the published runs (all that is known of them must agree)";
    for (const std::string& line : alone) text += "\n" + line;
    throw UsageError(text);
  }
  if (arguments.has("json")) {
    nlohmann::json list = nlohmann::json::array();
    for (const Comparison& row : rows) {
      list.push_back({{"label", row.published.label},
                      {"setting", row.published.setting},
                      {"associations", row.published.associations},
                      {"published_loss", row.published.loss},
                      {"seeds", row.seeds},
                      {"median_loss", row.loss},
                      {"median_steps", row.steps},
                      {"within", row.within}});
    }
    console.out << list.dump(1) << "\n";
  } else {
    console.out << comparison_table(rows);
  }
  const auto outside =
      std::count_if(rows.begin(), rows.end(), [](const Comparison& row) { return !row.within; });
  print_note(console, std::to_string(rows.size() - static_cast<std::size_t>(outside)) + " of " +
                          std::to_string(rows.size()) + " points within 10 % or 0.01 of the published loss");
  for (const std::string& line : alone) print_note(console, line);
  return exit_done;
}

}  // namespace

extern const Command compare_command;
const Command compare_command = {
    "compare",
    "compare results with published losses",
    "STORE|STUDY.toml|RUNS.csv... [--published CSV] [--json]",
    "Prints one row for each published point of which the stores have runs: our median over seeds, the\n"
    "published loss, and whether ours is within 10 % or 0.01 of it (where the published run is solved,\n"
    "ours must be). A run matches a point if everything that is known of the published run agrees:\n"
    "task, sizes, memory, optimiser, protocol. A note counts the points without a run. The literature's\n"
    "numbers come with the program; --published takes others ('crosstalk describe published-csv').\n\n"
    "Examples:\n"
    "  crosstalk compare runs/schlag2021_capacity\n"
    "  crosstalk compare runs/schlag2021_capacity runs/schlag2021_updates --json\n",
    1,
    1000,
    "needs a store, for example: crosstalk compare runs/schlag2021_capacity",
    {
        {"published", "CSV", "Published points (default: Schlag, Irie, Schmidhuber 2021)", false, {}},
        {"json", "", "JSON instead of a Markdown table", false, {}},
        where_option(),
        store_option(),
        study_options()[0],
    },
    run_compare,
};

}  // namespace crosstalk::program

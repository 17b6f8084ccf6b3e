// crosstalk list: what there is to study and to draw.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <future>

#include "experiments/common/command.h"
#include "experiments/common/exit_codes.h"
#include "experiments/common/text.h"
#include "experiments/study/study.h"
#include "kernels/base/text/options.h"
#include "models/memory.h"
#include "plots/figure.h"
#include "tasks/task.h"

namespace crosstalk::program {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// A list as it is printed: objects with the same keys; the values of `columns` make the table.
struct Listing {
  std::vector<std::string> columns;
  Json items = Json::array();
};

/// Of tasks, memories or figures.
template <class Kinds>
Listing summaries_of(const Kinds& kinds) {
  Listing listing{{"name", "summary"}};
  for (const auto& kind : kinds) listing.items.push_back({{"name", kind.name}, {"summary", kind.summary}});
  return listing;
}

Listing list_feature_maps() {
  Listing listing{{"name", "d_dot", "formula", "source"}};
  for (const FeatureMapInfo& info : feature_map_infos())
    listing.items.push_back(
        {{"name", info.name}, {"d_dot", info.d_dot}, {"formula", info.formula}, {"source", info.source}});
  return listing;
}

/// ./experiments or, where there is none, what was installed with the program, or lies in the sources that it was built of.
fs::path default_studies() {
  std::error_code ignored;
  const fs::path here = "experiments";
  if (fs::is_directory(here, ignored)) return here;
  const fs::path above = fs::read_symlink("/proc/self/exe", ignored).parent_path().parent_path();
  for (const fs::path& folder : {above / "share/crosstalk/experiments", above.parent_path() / "experiments"})
    if (fs::is_directory(folder, ignored)) return folder;
  return here;
}

Listing list_studies(const fs::path& folder, Console& console) {
  if (!fs::is_directory(folder))
    throw UsageError(
        fmt::format("there is no folder '{}'; give one that holds study files: crosstalk list studies FOLDER",
                    folder.string()));
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".toml") paths.push_back(entry.path());
  std::ranges::sort(paths);
  std::vector<std::future<Json>> items;  // or what is wrong with a file
  for (const fs::path& path : paths)
    items.push_back(std::async(std::launch::async, [&path]() -> Json {
      try {
        const Study study = read_study(path);
        return {{"path", path.string()},
                {"name", study.name},
                {"title", study.title},
                {"runs", study.runs.size()},
                {"product", study.product}};
      } catch (const ConfigError& error) {
        return error.what();
      }
    }));
  Listing listing{{"path", "runs", "title"}};
  for (std::future<Json>& one : items)
    if (const Json item = one.get(); item.is_string())
      print_plain(console, item.get<std::string>());
    else
      listing.items.push_back(item);
  if (listing.items.empty()) print_note(console, fmt::format("no study files in {}", folder.string()));
  return listing;
}

int run_list(const Arguments& arguments, Console& console) {
  static const std::vector<std::string> kinds = {"tasks", "memories", "feature-maps", "figures", "studies"};
  const std::string& kind = arguments.positional.at(0);
  if (std::ranges::find(kinds, kind) == kinds.end()) {
    const std::string near = nearest_name(kind, kinds);
    const bool thing = find_task(kind) != nullptr || find_memory(kind) != nullptr;
    throw UsageError(fmt::format("list: '{}' is none of {}{}", kind, join(kinds, ", ", " and "),
                                 thing          ? fmt::format("; 'crosstalk describe {}' explains it", kind)
                                 : near.empty() ? ", for example: crosstalk list memories"
                                                : fmt::format("; did you mean {}?", near)));
  }
  if (kind != "studies" && arguments.positional.size() > 1)
    throw UsageError(fmt::format(
        "list {0}: unexpected argument '{1}': all {0} are listed; 'crosstalk describe NAME' explains one",
        kind, arguments.positional[1]));
  const Listing listing =
      kind == "tasks"          ? summaries_of(task_kinds())
      : kind == "memories"     ? summaries_of(all_memories())
      : kind == "feature-maps" ? list_feature_maps()
      : kind == "figures"      ? summaries_of(figure_kinds())
                          : list_studies(arguments.positional.size() > 1 ? fs::path(arguments.positional[1])
                                                                         : default_studies(),
                                         console);
  if (arguments.has("json")) {
    console.out << dump(listing.items);
    return exit_done;
  }
  if (kind == "feature-maps") {
    // Formulas are too long for a table.
    std::vector<std::vector<std::string>> rows;
    for (const Json& item : listing.items)
      rows.push_back(
          {item["name"], fmt::format("d_dot = {}\n{}\n{}", item["d_dot"].get<std::string>(),
                                     item["formula"].get<std::string>(), item["source"].get<std::string>())});
    console.out << two_columns(rows, 12, 110);
    return exit_done;
  }
  std::vector<std::vector<std::string>> rows = {listing.columns};
  for (const Json& item : listing.items) {
    rows.emplace_back();
    for (const std::string& column : listing.columns)
      rows.back().push_back(item[column].is_string() ? item[column].get<std::string>() : item[column].dump());
  }
  console.out << table(rows);
  return exit_done;
}

}  // namespace

extern const Command list_command = {
    "list",
    "list tasks, memories, feature-maps, figures or studies",
    "tasks|memories|feature-maps|figures|studies [FOLDER] [--json]",
    "'crosstalk describe NAME' says more about each. Studies are the *.toml files of ./experiments,\n"
    "or where there is none of those installed with the program, or of the folder given.\n\n"
    "Examples:\n"
    "  crosstalk list memories\n"
    "  crosstalk list studies ~/my-studies --json\n",
    1,
    2,
    "needs one of tasks, memories, feature-maps, figures and studies, for example: crosstalk list memories",
    {{"json", "", "Print a JSON array"}},
    run_list,
};

}  // namespace crosstalk::program

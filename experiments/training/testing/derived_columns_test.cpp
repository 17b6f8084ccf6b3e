// The committed exports: what theory and tasks say of their runs is what the program says today, to the last digit.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>

#include "experiments/training/memory_facts.h"
#include "results/numbers/select.h"
#include "results/numbers/theory.h"
#include "results/replay/import.h"
#include "tasks/testing.h"

namespace crosstalk {
namespace {

namespace fs = std::filesystem;

/// The options of a row's task, each of the type that the task gives it.
testing::Settings settings_of(const Record& record, const TaskKind& kind) {
  testing::Settings settings;
  for (const OptionSpec& spec : kind.options) {
    const auto text = config_text(record, "task." + spec.name);
    if (!text) continue;  // of a later version of the task
    if (std::holds_alternative<std::string>(spec.default_value))
      settings[spec.name] = *text;
    else if (std::holds_alternative<bool>(spec.default_value))
      settings[spec.name] = *text == "true";
    else if (std::holds_alternative<double>(spec.default_value))
      settings[spec.name] = std::stod(*text);
    else
      settings[spec.name] = static_cast<std::int64_t>(std::stoll(*text));
  }
  return settings;
}

/// What the task measures of its own evaluation data; once for all runs of a configuration.
const std::map<std::string, double>& baselines_of(const Record& record) {
  static std::map<std::string, std::map<std::string, double>> known;
  std::string key;
  for (const auto& [name, value] : record.config)
    if (name.starts_with("task.")) key += name + '=' + value.dump() + '\n';
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  const std::string task = config_text(record, "task.name").value();
  return known[key] = testing::make_task(task, settings_of(record, *find_task(task)))->baselines();
}

/// All derived numbers of a run, by column; of tasks whose sequences are files of others (mad_arrays_files.csv) those that do not
/// come from the files, which lie elsewhere.
std::map<std::string, double> derived(const Record& record) {
  const bool drawn = find_task(config_text(record, "task.name").value())->drawn;
  std::map<std::string, double> all = drawn ? baselines_of(record) : std::map<std::string, double>();
  if (const auto bound = rank_bound(record, memory_facts())) all["rank_bound"] = *bound;
  return all;
}

std::vector<fs::path> exports() {
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(fs::path(CROSSTALK_SOURCE_DIR) / "results" / "published")) {
    std::ifstream file(entry.path());
    std::string head;
    std::getline(file, head);
    if (entry.path().extension() == ".csv" && head.starts_with("id,study,label,"))
      paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

TEST(PublishedExports, DerivedColumnsAreWhatTheProgramSaysToday) {
  const std::vector<fs::path> paths = exports();
  EXPECT_GT(paths.size(), 30U);
  std::size_t compared = 0;
  for (const fs::path& path : paths) {
    const LabelledRecords rows = read_export(path);
    std::map<std::string, int> wrong;  // column -> rows
    for (const auto& [key, record] : rows.rows) {
      for (const auto& [column, today] : derived(record)) {
        const auto stands = record.metrics.find(column);
        if (stands == record.metrics.end()) {
          // A column that the export lacks as a whole came with a later version of the program.
          wrong[column] += std::any_of(rows.rows.begin(), rows.rows.end(), [&](const auto& other) {
            return other.second.metrics.count(column) != 0;
          });
          continue;
        }
        ++compared;
        if (stands->second == today) continue;
        if (wrong[column]++ == 0)
          std::printf("%s: %s of %s is %.17g, today %.17g\n", path.filename().c_str(), column.c_str(),
                      record.id.c_str(), stands->second, today);
      }
    }
    for (const auto& [column, count] : wrong)
      EXPECT_EQ(count, 0) << path.filename() << ": rows whose " << column << " differs";
  }
  EXPECT_GT(compared, 20000U);
}

}  // namespace
}  // namespace crosstalk

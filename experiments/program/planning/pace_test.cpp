// Estimates of GPUs against what studies took that are in results/published.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/planning/pace.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ctime>
#include <filesystem>
#include <map>
#include <set>

#include "experiments/program/verify.h"
#include "results/csv.h"
#include "results/replay/import.h"
#include "results/store/files.h"

namespace crosstalk::program {
namespace {

namespace fs = std::filesystem;

double seconds_in(const std::string& utc) {
  std::tm parts = {};
  EXPECT_NE(::strptime(utc.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts), nullptr) << utc;
  return static_cast<double>(::timegm(&parts));
}

/// One process on one GPU: seconds from its start to its last record, and its runs (id and label).
struct Sitting {
  double seconds = 0;
  std::set<std::string> runs;
};

/// Of an export with provenance those on a GPU. Of a process for each GPU (cuda:all) nobody wrote down how many there were.
std::vector<Sitting> sittings_of(const fs::path& path) {
  std::map<std::string, Sitting> sittings;
  read_csv(read_file(FileSystem::real(), path), path.string(), [&](const CsvRow& row) {
    const auto text = [&](const char* column) { return row.has(column) ? row.text(column, "runs") : ""; };
    const std::string device = text("provenance.device"), command = text("provenance.command");
    if (device == "cpu" || device.empty() || command.find("cuda:all") != std::string::npos) return;
    Sitting& one = sittings[device + text("provenance.host") + text("provenance.started") + command];
    one.seconds = std::max(one.seconds,
                           seconds_in(text("provenance.finished")) - seconds_in(text("provenance.started")));
    one.runs.insert(text("id") + text("label"));
  });
  std::vector<Sitting> all;
  for (auto& [key, one] : sittings) all.push_back(std::move(one));
  return all;
}

TEST(Pace, IsWithinAFactorOfThreeOfWhatStudiesTook) {
  int studies = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(CROSSTALK_SOURCE_DIR) / "results" / "published")) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".provenance.csv")) continue;
    const std::vector<Sitting> sittings = sittings_of(entry.path());
    if (sittings.empty()) continue;
    const LabelledRecords rows = read_export(entry.path());
    double recorded = 0, estimated = 0;
    for (const Sitting& sitting : sittings) {
      std::vector<Run> runs;
      std::vector<PacedRun> paced;
      for (const auto& [key, record] : rows.rows)
        if (sitting.runs.count(record.id + record.label) != 0) runs.push_back(resolved_run(record));
      std::size_t i = 0;
      for (const auto& [key, record] : rows.rows)
        if (sitting.runs.count(record.id + record.label) != 0)
          paced.push_back({&runs[i++], static_cast<double>(record.steps)});
      recorded += sitting.seconds;
      estimated += gpu_seconds(paced);
    }
    if (recorded < 10) continue;  // start and end of the process, no training
    ++studies;
    RecordProperty(name, fmt::format("{:.0f} s, estimated {:.0f} s", recorded, estimated));
    EXPECT_GT(estimated, recorded / 3) << name << " took " << recorded << " s";
    EXPECT_LT(estimated, recorded * 3) << name << " took " << recorded << " s";
  }
  EXPECT_GE(studies, 30);
}

}  // namespace
}  // namespace crosstalk::program

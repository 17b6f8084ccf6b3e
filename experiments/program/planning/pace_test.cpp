// Estimates of GPUs against what studies took that are in results/published.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/planning/pace.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <map>
#include <optional>
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

/// One process on one GPU, from its start to its last record, and its runs (id and label).
struct Sitting {
  std::string gpu;  ///< "" where its command does not say which
  double begin = 0, end = 0;
  std::set<std::string> runs;
};

/// Of an export with provenance those on a GPU. Of a process for each GPU (cuda:all) nobody wrote down how many there were.
std::vector<Sitting> sittings_of(const fs::path& path) {
  std::map<std::string, Sitting> sittings;
  read_csv(read_file(FileSystem::real(), path), path.string(), [&](const CsvRow& row) {
    const auto text = [&](const char* column) { return row.has(column) ? row.text(column, "runs") : ""; };
    const std::string device = text("provenance.device"), command = text("provenance.command");
    if (device == "cpu" || device.empty() || command.find("cuda:all") != std::string::npos) return;
    const std::string host = device + text("provenance.host"), started = text("provenance.started");
    Sitting& one = sittings[host + started + command];
    if (const std::size_t at = command.find("cuda:"); at != std::string::npos)
      one.gpu = host + command.substr(at, 6);
    one.begin = seconds_in(started);
    one.end = std::max(one.end, seconds_in(text("provenance.finished")));
    one.runs.insert(text("id") + text("label"));
  });
  std::vector<Sitting> all;
  for (auto& [key, one] : sittings) all.push_back(std::move(one));
  return all;
}

/// Whether another process trained on the same GPU for a tenth of its time and more: then nobody knows what it would take alone.
bool shares_its_gpu(const Sitting& one, const std::vector<Sitting>& all) {
  return std::any_of(all.begin(), all.end(), [&](const Sitting& other) {
    const bool same = other.begin == one.begin && other.end == one.end && other.runs == one.runs;
    const double both = std::min(one.end, other.end) - std::max(one.begin, other.begin);
    return !same && !one.gpu.empty() && one.gpu == other.gpu && both > 0.1 * (one.end - one.begin);
  });
}

/// The run of a row. An export tells empty texts from options of other tasks only where some row has one.
crosstalk::Run run_in(Record record) {
  nlohmann::json config = nlohmann::json::object();
  for (const auto& [key, value] : record.config)
    if (value != "") config[key] = value;
  record.config = std::move(config);
  return resolved_run(record);
}

TEST(Pace, IsWithinAFactorOfThreeOfWhatStudiesTook) {
  std::map<fs::path, std::vector<Sitting>> studies;
  std::vector<Sitting> all;
  for (const auto& entry : fs::directory_iterator(fs::path(CROSSTALK_SOURCE_DIR) / "results" / "published")) {
    if (!entry.path().string().ends_with(".provenance.csv")) continue;
    if (entry.path().filename() == "text_kjv.provenance.csv") continue;  // its text is the user's
    const std::vector<Sitting> sittings = sittings_of(entry.path());
    all.insert(all.end(), sittings.begin(), sittings.end());
    // When it was trained sequences of 64 tokens took a form that was several times slower.
    if (entry.path().filename() != "lr_atlas.provenance.csv") studies[entry.path()] = sittings;
  }
  int held = 0;
  for (const auto& [path, sittings] : studies) {
    const std::string name = path.filename().string();
    double recorded = 0, estimated = 0;
    std::optional<LabelledRecords> rows;
    for (const Sitting& sitting : sittings) {
      if (shares_its_gpu(sitting, all)) continue;
      if (!rows) rows = read_export(path);
      std::vector<crosstalk::Run> runs;
      std::vector<double> steps;
      for (const auto& [key, record] : rows->rows)
        if (sitting.runs.count(record.id + record.label) != 0) {
          runs.push_back(run_in(record));
          steps.push_back(static_cast<double>(record.steps));
        }
      std::vector<PacedRun> paced;
      for (std::size_t i = 0; i < runs.size(); ++i) paced.push_back({&runs[i], steps[i]});
      recorded += sitting.end - sitting.begin;
      estimated += gpu_seconds(paced);
    }
    constexpr double kShortest = 45;  // of less, much is the process and its preparation
    if (recorded < kShortest) continue;
    ++held;
    RecordProperty(name, fmt::format("{:.0f} s, estimated {:.0f} s", recorded, estimated));
    EXPECT_GT(estimated, recorded / 3) << name << " took " << recorded << " s";
    EXPECT_LT(estimated, recorded * 3) << name << " took " << recorded << " s";
  }
  EXPECT_GE(held, 20);
}

}  // namespace
}  // namespace crosstalk::program

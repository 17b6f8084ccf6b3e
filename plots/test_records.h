// Invented records and a folder of its own for each test of plots/.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "plots/figure.h"
#include "results/test_records.h"
#include "results/test_refusal.h"

namespace crosstalk {

using ::testing::AllOf, ::testing::ElementsAre, ::testing::HasSubstr, ::testing::IsEmpty, ::testing::Not,
    ::testing::SizeIs, ::testing::StartsWith;
using RecordMap = std::map<std::string, Record>;

inline Record& add_record(RecordMap& records, const std::string& label, std::int64_t seed, std::int64_t d_dot,
                          const nlohmann::json& config, double eval_loss) {
  const std::string id = "ct-" + std::to_string(100000 + records.size());
  Record& record = records[id];
  record.id = id;
  record.study = "invented";
  record.label = label;
  record.seed = seed;
  record.d_dot = d_dot;
  record.config = config;
  record.config["seed"] = seed;
  record.eval_loss = eval_loss;
  return record;
}

/// A run of task recall at a load.
inline Record& add_recall(RecordMap& records, const std::string& label, std::int64_t seed, std::int64_t d_dot,
                          int load, double eval_loss, int d_key = 4) {
  Record& record = add_record(records, label, seed, d_dot,
                              {{"task.name", "recall"},
                               {"task.associations", load},
                               {"model.d_key", d_key},
                               {"memory.name", d_dot == 0 ? "softmax" : "linear_attention"}},
                              eval_loss);
  record.state_size = d_dot * load;
  return record;
}

inline LabelledRecords rows_of(const RecordMap& records) {
  LabelledRecords rows;
  rows.rows = records;
  return rows;
}

/// Records of a figure that those of plots/output_test.cpp do not suit, by its name: CROSSTALK_FIGURE_RECORDS(solved, records) in
/// plots/kinds/solved_test.cpp, `records` being a function that returns a RecordMap.
inline std::map<std::string, RecordMap (*)()>& records_of_figures() {
  static std::map<std::string, RecordMap (*)()> all;
  return all;
}
#define CROSSTALK_FIGURE_RECORDS(name, function)  \
  [[maybe_unused]] const bool records_of_##name = \
      ::crosstalk::records_of_figures().emplace(#name, function).second

/// A folder that goes when the test ends; figures are not rendered unless a test asks for it.
class FigureTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* python = std::getenv("CROSSTALK_PYTHON")) python_ = python;
    setenv("CROSSTALK_PYTHON", "/bin/false", 1);
    options_.out = folder_ / "figure";
    options_.memories = {{"linear_attention", "delta", "peng_gate", "fwm"}, {"linear_attention", "softmax"}};
  }
  void TearDown() override { use_real_python(); }
  void use_real_python() {
    if (python_.empty())
      unsetenv("CROSSTALK_PYTHON");
    else
      setenv("CROSSTALK_PYTHON", python_.c_str(), 1);
  }

  /// Draws and returns the CSV.
  std::string draw(const std::string& name, const RecordMap& records) {
    notes_.str("");
    draw_figure(name, rows_of(records), options_, notes_);
    return read(folder_ / "figure.csv");
  }
  /// The script and, behind it, what is said for the caption.
  std::string script() const { return read(folder_ / "figure.py") + caption(); }
  std::string caption() const { return read(folder_ / "figure.caption.txt"); }
  std::string notes() const { return notes_.str(); }

  static std::string read(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  static void write(const std::filesystem::path& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }
  /// The message of the std::invalid_argument that drawing throws.
  std::string refusal(const std::string& name, const RecordMap& records) {
    return crosstalk::testing::refusal_of([&] { draw_figure(name, rows_of(records), options_, notes_); },
                                          "(drawn)");
  }

  testing::TemporaryFolder made_;
  const std::filesystem::path folder_ = made_.path();
  FigureOptions options_;
  std::ostringstream notes_;
  std::string python_;
};

}  // namespace crosstalk

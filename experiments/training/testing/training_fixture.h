// Small studies, trained and collected by id, for tests of the trainer.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "experiments/study/study.h"
#include "experiments/training/training.h"
#include "results/store/record.h"
#include "results/store/record_io.h"
#include "tasks/task.h"

namespace crosstalk::checks {

/// Runs of a study: lines of [base], a memory's lines, seeds.
inline std::vector<Run> runs_of(const std::string& base, const std::string& memory,
                                const std::string& seeds = "[1]", const std::string& grid = "") {
  const std::string text = "[study]\nname = \"test\"\nseeds = " + seeds +
                           "\n[base]\ntask.name = \"recall\"\ntask.associations = 4\nmodel.d_key = 4\n"
                           "train.batch = 4\neval.sequences = 5\n";
  // Keys given in `base` replace those above; a protocol with its own number of sequences takes no other.
  std::string lines = text;
  const std::string sequences = "eval.sequences = 5\n";
  if (base.find("\"schlag2021\"") != std::string::npos) lines.erase(lines.size() - sequences.size());
  for (std::size_t begin = 0; begin < base.size();) {
    const std::size_t end = std::min(base.find('\n', begin), base.size());
    const std::string line = base.substr(begin, end - begin), key = line.substr(0, line.find('='));
    begin = end + 1;
    if (const std::size_t at = lines.find("\n" + key + "="); !key.empty() && at != std::string::npos)
      lines.erase(at + 1, lines.find('\n', at + 1) - at);
    lines += line + "\n";
    if (key != "task.name ") continue;
    const std::size_t from = line.find('"') + 1;
    const TaskKind* kind = find_task(line.substr(from, line.rfind('"') - from));
    const std::string load = "task.associations = 4\n";
    if (const std::size_t at = lines.find(load);
        kind && at != std::string::npos &&
        std::none_of(kind->options.begin(), kind->options.end(),
                     [](const auto& o) { return o.name == "associations"; }))
      lines.erase(at, load.size());
  }
  return parse_study(lines + "[memories.m]\n" + memory + "\n[[grid]]\nmemory = [\"m\"]\n" + grid, "test.toml")
      .runs;
}

/// Runs of a small language model on a task of single tokens.
inline std::vector<Run> token_runs_of(const std::string& base, const std::string& memory,
                                      const std::string& seeds = "[1]", const std::string& grid = "") {
  return parse_study("[study]\nname = \"test\"\nseeds = " + seeds +
                         "\n[base]\nmodel.name = \"language\"\nmodel.width = 8\n" + base +
                         "\n[memories.m]\n" + memory + "\n[[grid]]\nmemory = [\"m\"]\n" + grid,
                     "test.toml")
      .runs;
}

using Records = std::map<std::string, Record>;

/// A client that keeps records and states in memory, and offers the states again.
struct Keeper : TrainingClient {
  bool stopped() const override { return stop; }
  std::string saved_state(const std::string& id) override { return states.count(id) ? states[id] : ""; }
  void save_state(const std::string& id, const std::string& state) override { states[id] = state; }
  void reject_state(const std::string& id, const std::string& why) override { rejected[id] += why; }
  void progressed(std::int64_t steps) override { on_progress(steps); }
  void finished(Record&& record) override {
    const std::string id = record.id;
    EXPECT_TRUE(records.emplace(id, std::move(record)).second) << id << " was reported twice";
  }

  Records records;
  std::map<std::string, std::string> states, rejected;
  std::atomic<bool> stop{false};
  std::function<void(std::int64_t steps)> on_progress = [](std::int64_t) {};
};

inline TrainingOptions on_cpu(int pack, int threads = 1) {
  TrainingOptions options;
  options.pack = pack;
  options.threads = threads;
  return options;
}

inline Records train(const std::vector<Run>& runs, int pack = 0, int threads = 1) {
  Keeper keeper;
  EXPECT_TRUE(train_runs("test", runs, on_cpu(pack, threads), keeper));
  EXPECT_EQ(keeper.records.size(), runs.size());
  return std::move(keeper.records);
}

/// Trains in rounds, each as long as the client lets it, until all runs have ended. Returns how many rounds.
inline int train_in_rounds(const std::vector<Run>& runs, const TrainingOptions& options, Keeper& keeper) {
  int rounds = 0;
  for (; keeper.records.size() < runs.size() && rounds < 1000; ++rounds) {
    keeper.stop = false;
    std::vector<Run> left;
    for (const Run& run : runs)
      if (keeper.records.count(run.id) == 0) left.push_back(run);
    train_runs("test", left, options, keeper);
  }
  return rounds;
}

inline Record train_one(const std::vector<Run>& runs) { return train(runs).at(runs.at(0).id); }

/// Every deterministic field, curves and profiles too.
inline ::testing::AssertionResult identical_records(const Record& a, const Record& b) {
  Record x = a, y = b;
  x.provenance = y.provenance = nullptr;
  if (same_result(a, b) && to_line(x) == to_line(y)) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "records differ:\n" << to_line(x) << "\n" << to_line(y);
}

inline ::testing::AssertionResult identical_records(const Records& a, const Records& b) {
  if (a.size() != b.size())
    return ::testing::AssertionFailure() << a.size() << " and " << b.size() << " records";
  for (const auto& [id, record] : a) {
    if (b.count(id) == 0) return ::testing::AssertionFailure() << id << " is missing";
    if (auto same = identical_records(record, b.at(id)); !same) return same;
  }
  return ::testing::AssertionSuccess();
}

}  // namespace crosstalk::checks

// Points of the learning curves of runs that train now. A record has the whole curves, so the folder may be deleted at any
// moment.
//
//   STORE/live/PROCESS.jsonl  one file a process that trains, a line a point; gone when its session ends
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "results/store/files.h"
#include "results/store/record.h"

namespace crosstalk {

/// A run as far as it has come.
struct LiveRun {
  std::string label;
  std::int64_t seed = 0, max_steps = 0;
  std::map<std::string, Series> curves;  ///< as in its record: eval_loss, eval_accuracy, train_loss
};

class LiveWriter {
 public:
  /// Makes nothing before the first point; takes away what processes left that are dead. Not thread-safe.
  explicit LiveWriter(std::filesystem::path store) : store_(std::move(store)) {}
  ~LiveWriter();
  LiveWriter(const LiveWriter&) = delete;
  LiveWriter& operator=(const LiveWriter&) = delete;
  /// The last points of the curves of `run`, at its step x. At most one a run and second, at `now` seconds of any clock; what
  /// cannot be written is left out.
  void add(const std::string& id, const LiveRun& run, double now);

 private:
  std::filesystem::path store_, path_;
  File file_{FileSystem::real(), -1};
  bool failed_ = false;
  std::map<std::string, double> written_;  ///< id -> when
};

/// The runs of all processes that live, by id; of a run that has a record since, too.
std::map<std::string, LiveRun> live_runs(const std::filesystem::path& store);

}  // namespace crosstalk

// One training session: records go to the store as they come, people see progress, signals and limits end it.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/common/console.h"
#include "experiments/common/requests.h"
#include "experiments/sharing/progress.h"
#include "experiments/sharing/shares.h"
#include "experiments/study/study.h"
#include "experiments/training/training.h"
#include "results/store/follow.h"

namespace crosstalk::program {

struct SessionOptions {
  TrainingOptions training;
  ProgressStyle style = ProgressStyle::lines;
  std::int64_t max_failures = 0;      ///< 0 = no limit
  double time_limit = 0;              ///< seconds; 0 = none
  double started = steady_seconds();  ///< when they began to count
  double grace = 20;                  ///< seconds that a stop may take
  std::string command;                ///< for provenance
  std::string device = "cpu";
  std::string job;     ///< of the cluster's scheduler, as its queue shows it; "": none
  std::string resume;  ///< command that goes on after a stop
  std::function<std::string(const Record&)> reproduce;  ///< command that trains one run alone

  /// Whether the study's text and labels are to be kept in the store (`work` finds them there), and its request.
  bool keeps_study = true;
  std::optional<Request> request;
  std::map<std::string, std::string> study_names;  ///< of runs by id; those without have the study's
  std::int64_t black_hole =
      0;  ///< number of first runs whose failure means that the device is broken; 0: never
  /// Called while others train all runs that are left; true: there are other requests, and the session ends.
  std::function<bool()> requests_changed;

  /// Shard sizes before the scan for missing runs: later records are other workers'.
  ShardPositions since;
  double lease = 60;  ///< seconds without a heartbeat after which a process that shares the store is dead

  /// Called after preparation (seconds for 200,000 runs), before anything is written.
  std::function<void()> begins;

  // Fields of one worker among several:
  std::vector<Share> shares;  ///< of all workers; empty: one share of everything
  std::size_t share = 0;      ///< this one's
  bool has_parent = false;    ///< which shows the progress
};

struct SessionResult {
  std::int64_t done = 0, diverged = 0, failed = 0;
  std::int64_t elsewhere = 0;         ///< runs that other processes recorded
  std::int64_t failed_elsewhere = 0;  ///< of these
  std::int64_t saved = 0;             ///< unfinished runs that will go on where they stopped
  double seconds = 0;
  bool stopped = false;            ///< signal or time limit
  bool too_many_failures = false;  ///< max_failures was reached
  bool requests_changed = false;   ///< others train the runs that are left, and there are other requests
  std::int64_t left_out = 0;       ///< runs withdrawn from the requests before the workers began
  std::vector<std::string> lost;   ///< devices that their workers left out
  std::string reason;              ///< "SIGTERM", "the time limit"
};

/// Makes the store at `path` if it is missing, and keeps the study in it as `options` say. Throws
/// StoreError, StorePathError.
void make_store(const Study& study, const std::filesystem::path& path, const SessionOptions& options);

/// Trains `runs` of `study` into the store at `path`, sharing them with the other processes that do: none is
/// trained by two. Returns when all are recorded, by whomever. Throws StoreError, StorePathError,
/// DeviceError.
SessionResult train_session(const Study& study, const std::vector<Run>& runs,
                            const std::filesystem::path& path, const SessionOptions& options,
                            Console& console);

}  // namespace crosstalk::program

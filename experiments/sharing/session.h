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
#include "experiments/sharing/progress.h"
#include "experiments/sharing/requests.h"
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

  /// Things of the study to keep in the store: its text and labels, unless the store had them before (`work`);
  /// and that it was asked for.
  bool keeps_study = true;
  std::optional<Request> request;
  std::map<std::string, std::string> study_names;  ///< of runs by id; those without have the study's
  std::int64_t black_hole = 0;  ///< if the first so many runs all fail, the device is to blame; 0: never
  /// Looked at while others train all that is left: something else is asked for, and the session ends (`requests_changed`).
  std::function<bool()> requests_changed;

  /// Ends of the store's shards before anybody looked what is missing: what comes later, others recorded.
  ShardPositions since;
  double lease = 60;  ///< seconds without a heartbeat after which a process that shares the store is dead

  /// Called when all is laid out (of a study of 200,000 runs that takes seconds), before anything is written.
  std::function<void()> begins;

  // Fields of one worker among several:
  std::vector<Share> shares;  ///< of all workers; empty: one share of everything
  std::size_t share = 0;      ///< this one's
  bool has_parent = false;    ///< which tells people what goes on
};

struct SessionResult {
  std::int64_t done = 0, diverged = 0, failed = 0;
  std::int64_t elsewhere = 0;         ///< runs that other processes recorded
  std::int64_t failed_elsewhere = 0;  ///< of these
  std::int64_t saved = 0;             ///< unfinished runs that will go on where they stopped
  double seconds = 0;
  bool stopped = false;            ///< signal or time limit
  bool too_many_failures = false;  ///< max_failures was reached
  bool requests_changed = false;   ///< others train what is left, and there may be more now
  std::int64_t left_out = 0;       ///< runs that nobody asked for any more when the workers began
  std::vector<std::string> lost;   ///< devices that their workers left out
  std::string reason;              ///< "SIGTERM", "the time limit"
};

/// Makes the store at `path` if it is missing, and keeps in it what `options` says of the study. Throws
/// StoreError, StorePathError.
void make_store(const Study& study, const std::filesystem::path& path, const SessionOptions& options);

/// Trains `runs` of `study` into the store at `path`, sharing them with the other processes that do: none is
/// trained by two. Returns when all are recorded, by whomever. Throws StoreError, StorePathError,
/// DeviceError.
SessionResult train_session(const Study& study, const std::vector<Run>& runs,
                            const std::filesystem::path& path, const SessionOptions& options,
                            Console& console);

}  // namespace crosstalk::program

// A record: what a finished run leaves. Plain data; reading and writing are in record.cpp (JSON, one line).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "results/store/configuration.h"

namespace crosstalk {

/// How a run ended. `diverged`: its loss or parameters became non-finite; that is a result. `failed`: an
/// error.
enum class RunStatus { done, diverged, failed };

/// One metric over steps (a learning curve) or over an axis at the end of the run (accuracy by number of
/// swaps).
struct Series {
  std::vector<double> x;  ///< steps, lengths, numbers of operations, ...
  std::vector<double> y;  ///< NaN is written as null
};

/// What a finished run leaves. Every field but `provenance` is deterministic.
struct Record {
  std::string id;     ///< "ct-" + 32 hex digits
  std::string study;  ///< study.name
  std::string label;  ///< under which it was trained; a study that asks for the run may call it otherwise
  RunStatus status = RunStatus::done;
  std::int64_t seed = 0;
  Configuration config;
  std::int64_t d_dot = 0;       ///< 0 where it has no meaning (softmax)
  std::int64_t state_size = 0;  ///< floats kept per sequence at inference
  std::int64_t steps = 0;
  double eval_loss = 0, best_eval_loss = 0, eval_accuracy = 0;  ///< NaN where there is none
  std::map<std::string, double> metrics;  ///< task's chance, bounds, shortcut baselines; further scalars
  std::map<std::string, Series> curves;   ///< "eval_loss", "eval_accuracy", ... over step
  std::map<std::string, Series>
      profiles;         ///< over another axis: "accuracy_by_operations", "loss_by_length", ...
  std::string message;  ///< why it failed
  nlohmann::json
      provenance;  ///< object (null: empty): host, device, wall_s, commit, compiler, pack, attempt, started, ...
  // Of rows in memory, never written into a record:
  std::string version;      ///< of the study that asks for it (results/asked.h)
  std::int32_t store = -1;  ///< of a head, number of the store that holds the rest; -1: the record is whole
};

/// "done" | "diverged" | "failed".
std::string to_text(RunStatus status);

}  // namespace crosstalk

// One of several worker processes.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cstdio>
#include <unordered_map>

#include "experiments/common/exit_codes.h"
#include "experiments/sharing/shares.h"
#include "experiments/sharing/signals.h"
#include "experiments/sharing/workers.h"
#include "results/store/store.h"

namespace crosstalk::program {
namespace {

struct WorkerNumber {
  std::size_t i = 0;
  int file = -1;  ///< holds the plan
};

/// "I/N:FILE", as the parent gives it.
WorkerNumber worker_number(const std::string& text) {
  WorkerNumber number;
  std::size_t n = 0;
  char rest = 0;
  if (std::sscanf(text.c_str(), "%zu/%zu:%d%c", &number.i, &n, &number.file, &rest) != 3 || number.i >= n ||
      number.file < 0)
    throw UsageError("--worker is for crosstalk itself; use --device cuda:all");
  return number;
}

/// All workers read the same open file: each by offsets of its own.
std::string text_of(int file) {
  std::string text;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t n = ::pread(file, buffer, sizeof buffer, static_cast<off_t>(text.size()));
    if (n < 0) throw UsageError("--worker is for crosstalk itself: it names no file of a plan");
    if (n == 0) return text;
    text.append(buffer, static_cast<std::size_t>(n));
  }
}

}  // namespace

int run_worker(const Study& study, const std::filesystem::path& path, SessionOptions options,
               const Arguments& arguments, Console& console) {
  const WorkerNumber number = worker_number(arguments.get("worker"));
  const WorkerPlan plan = worker_plan(text_of(number.file));
  ::close(number.file);
  options.command = options.resume = plan.command;
  options.since = plan.since;
  options.black_hole = plan.black_hole;
  options.share = number.i;
  options.has_parent = true;
  options.style = ProgressStyle::quiet;
  options.time_limit = 0;  // the parent minds the limits
  options.max_failures = 0;

  std::unordered_map<std::string, const Run*> by_id;
  for (const Run& run : study.runs) by_id[run.id] = &run;
  std::vector<Run> runs;
  options.shares = plan.shares;
  for (Share& share : options.shares)
    for (Unit& unit : share) {
      // The runs asked of a store may have changed since the parent read it.
      std::erase_if(unit, [&](const std::string& id) { return by_id.count(id) == 0; });
      for (const std::string& id : unit) runs.push_back(*by_id.at(id));
    }
  return train_session(study, runs, path, options, console).stopped ? exit_stopped : exit_done;
}

}  // namespace crosstalk::program

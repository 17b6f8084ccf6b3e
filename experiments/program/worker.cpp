// One of several worker processes. SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <unordered_map>

#include "experiments/program/exit_codes.h"
#include "experiments/program/shares.h"
#include "experiments/program/signals.h"
#include "experiments/program/workers.h"
#include "results/store.h"

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
  const char* end = text.data() + text.size();
  auto at = std::from_chars(text.data(), end, number.i);
  if (at.ec == std::errc() && at.ptr != end && *at.ptr == '/') at = std::from_chars(at.ptr + 1, end, n);
  if (at.ec == std::errc() && at.ptr != end && *at.ptr == ':')
    at = std::from_chars(at.ptr + 1, end, number.file);
  if (at.ec != std::errc() || at.ptr != end || number.i >= n || number.file < 0)
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

/// Says, now and then, whether others have recorded all of `ids`; reads the store at most a tenth of the
/// time.
class Superseded {
 public:
  Superseded(std::filesystem::path path, std::string launch, std::vector<std::string> ids)
      : path_(std::move(path)),
        launch_(std::move(launch)),
        ids_(std::move(ids)),
        next_(steady_seconds() + 1) {}

  bool operator()() {
    const double now = steady_seconds();
    if (now < next_) return false;
    bool all = false;
    try {
      const StoreContents contents = read_store(path_);
      all = std::all_of(ids_.begin(), ids_.end(),
                        [&](const std::string& id) { return is_recorded(id, contents, launch_); });
    } catch (const std::exception&) {  // whoever writes will say so
    }
    next_ = steady_seconds() + std::max(0.5, 10 * (steady_seconds() - now));
    return all;
  }

 private:
  std::filesystem::path path_;
  std::string launch_;
  std::vector<std::string> ids_;
  double next_;
};

}  // namespace

int run_worker(const Study& study, const std::filesystem::path& path, SessionOptions options,
               const Arguments& arguments, Console& console) {
  const WorkerNumber number = worker_number(arguments.get("worker"));
  const WorkerPlan plan = worker_plan(text_of(number.file));
  ::close(number.file);
  options.launch = plan.launch;
  options.command = options.resume = plan.command;
  options.style = ProgressStyle::quiet;
  options.time_limit = 0;  // the parent minds the limits
  options.max_failures = 0;
  const auto at_once = static_cast<std::size_t>(packs_at_once(options.training));

  std::unordered_map<std::string, const Run*> by_id;
  for (const Run& run : study.runs) by_id[run.id] = &run;
  std::set<std::string> seen_to;  // a run that failed here is not tried again here
  for (;;) {
    const StoreContents contents = read_store(path);
    const std::vector<std::string> ids = next_round(plan, number.i, at_once, [&](const std::string& id) {
      return seen_to.count(id) != 0 || is_recorded(id, contents, plan.launch);
    });
    if (ids.empty()) return exit_done;
    std::vector<Run> runs;
    for (const std::string& id : ids) runs.push_back(*by_id.at(id));
    options.superseded = Superseded(path, plan.launch, ids);
    const SessionResult result = train_session(study, runs, path, options, console);
    if (result.superseded) {
      withdraw_stop();  // it was for this round
      continue;
    }
    if (result.stopped) return exit_stopped;
    seen_to.insert(ids.begin(), ids.end());
  }
}

}  // namespace crosstalk::program

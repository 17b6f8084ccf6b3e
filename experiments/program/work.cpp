// crosstalk work: one of many workers on a store.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <memory>

#include "experiments/program/devices.h"
#include "experiments/program/exit_codes.h"
#include "experiments/program/progress.h"
#include "experiments/program/requests.h"
#include "experiments/program/session.h"
#include "experiments/program/session_options.h"
#include "experiments/program/shares.h"
#include "experiments/program/signals.h"
#include "experiments/program/stores.h"
#include "experiments/program/text.h"
#include "experiments/program/workers.h"
#include "results/printable.h"

namespace crosstalk::program {
namespace {

namespace fs = std::filesystem;

/// A device on which the first so many runs all fail is left out.
constexpr std::int64_t kBlackHole = 8;

/// A whole number from the environment, or `fallback`.
int variable(const char* name, int fallback) {
  const char* text = std::getenv(name);
  if (text == nullptr) return fallback;
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  return end == text || *end != '\0' || value < 0 || value > 1000000 ? fallback : static_cast<int>(value);
}

/// --share, or the place in a Slurm array.
Place place_among_workers(const Arguments& arguments) {
  if (arguments.has("share")) return place_of(arguments.get("share"), "--share");
  const int index = variable("SLURM_ARRAY_TASK_ID", -1), first = variable("SLURM_ARRAY_TASK_MIN", 0),
            step = std::max(1, variable("SLURM_ARRAY_TASK_STEP", 1));
  Place place{(index - first) / step + 1, variable("SLURM_ARRAY_TASK_COUNT", 1)};
  if (index < first || place.i > place.n) return {};
  return place;
}

int run_work(const Arguments& arguments, Console& console) {
  catch_stop_signals();
  const double start = steady_seconds();
  auto nothing_begun = std::make_unique<NothingBegun>(words_before_training(arguments, command_line(console)),
                                                      patience(arguments));
  const fs::path store = arguments.positional.at(0);
  const std::vector<std::string> workers = worker_devices(arguments.get("device", "auto"));
  SessionOptions options = session_options(arguments, workers, console);
  const Place place = place_among_workers(arguments);
  options.since = shard_positions(store);
  std::error_code ignored;
  if (!fs::exists(store, ignored))
    throw UsageError(fmt::format(
        "'{}' does not exist; 'crosstalk submit' and 'crosstalk run STUDY --out STORE' make a store",
        store.string()));
  const StoreContents before = read_heads(store).contents;
  std::vector<std::string> warnings;
  std::map<std::string, std::string> names;
  const Study study = joint_study(read_requests(store, warnings), store, names);
  warnings.insert(warnings.end(), before.warnings.begin(), before.warnings.end());
  if (!arguments.has("worker"))
    for (const std::string& warning : warnings) print_warning(console, warning);
  if (study.runs.empty())
    throw UsageError(
        fmt::format("nothing was asked of '{}' yet; 'crosstalk submit' and 'crosstalk run STUDY "
                    "--out STORE' do",
                    store.string()));
  options.keeps_study = false;
  options.study_names = names;
  options.black_hole = kBlackHole;
  options.reproduce = [&](const Record& record) {
    return shell_quote({console.program, "retry", (store / "studies" / (names[record.id] + ".toml")).string(),
                        "--out", store.string(), "--only", record.id});
  };
  if (arguments.has("worker")) {
    nothing_begun.reset();
    return run_worker(study, store, options, arguments, console);
  }

  std::vector<Run> runs;
  const std::set<std::string> again = lacking_weights(study.runs, before, store);
  std::int64_t failed = 0;
  for (const Run& run : study.runs) {
    const std::string state = state_of(run, before);
    if (state == "missing" || again.count(run.id) != 0) runs.push_back(run);
    if (state == "failed") ++failed;
  }
  options.started = start;
  options.begins = [&] { nothing_begun.reset(); };
  const bool quiet = arguments.has("quiet");
  if (!quiet)
    print_note(console, fmt::format("{}: {} to train into {}, as worker {} of {} on {}", study.name,
                                    plural(std::ssize(runs), "run"), full_path(store), place.i, place.n,
                                    options.device));
  SessionResult result;
  if (!runs.empty()) {
    if (place.n > 1) options.shares = share_out(runs, place.n, options.training);
    options.share = static_cast<std::size_t>(place.i - 1);
    result = workers.size() > 1 ? train_with_workers(study, runs, store, options, workers, arguments, console)
                                : train_session(study, runs, store, options, console);
  }
  nothing_begun.reset();  // also where nothing was missing
  const std::int64_t ended = result.done + result.diverged + result.failed;
  failed += result.failed + result.failed_elsewhere;
  if (result.stopped) {
    print_note(console,
               fmt::format("stopped{} after {} runs{}; the same command goes on",
                           result.reason.empty() ? "" : " by " + result.reason, ended,
                           result.saved > 0 ? fmt::format(" ({} half-way, saved)", result.saved) : ""));
    return exit_stopped;
  }
  if (result.too_many_failures) {
    print_error(console, fmt::format("{} failed (--max-failures {})", plural(result.failed, "run"),
                                     options.max_failures));
    return exit_some_failed;
  }
  if (!quiet)
    print_note(console,
               fmt::format("{}: nothing is left; trained {} here, {} by other processes{}", study.name,
                           plural(ended, "run"), result.elsewhere,
                           failed > 0 ? fmt::format("; {} failed ('crosstalk retry' trains them again)",
                                                    plural(failed, "run"))
                                      : ""));
  return failed > 0 ? exit_some_failed : exit_done;
}

}  // namespace

extern const Command work_command;
const Command work_command = {
    "work",
    "train what is asked of a store, together with other workers",
    "STORE [--share I/N] [OPTIONS]",
    "Trains what the studies ask for that 'crosstalk run' and 'crosstalk submit' brought into the\n"
    "store, until nothing is left. Any number of workers may do so at once, on one machine or on\n"
    "many that share the folder; they come and go as they like. Each claims what it trains, so\n"
    "that no run is trained twice; the runs of a worker that dies are taken over by the others:\n"
    "at once on the same machine, after --lease elsewhere.\n\n"
    "Each worker begins with its own share of the work, the longest first, and then helps the\n"
    "others. The share is --share, or the place in a Slurm array.\n\n"
    "Examples:\n"
    "  crosstalk work runs/quickstart\n"
    "  crosstalk work /scratch/me/store --device cuda:all --time-limit 4h\n"
    "  for i in 1 2 3 4; do ssh node$i crosstalk work /shared/store --share $i/4 & done; wait\n\n"
    "Stops as 'crosstalk run' does: exit code 75, and the same command goes on. A device on which\n"
    "the first 8 runs all fail is left out with exit code 4.\n",
    1,
    1,
    "needs a store, for example: crosstalk work runs/quickstart",
    [] {
      std::vector<CommandOption> options = {
          {"share",
           "I/N",
           "Begin with the I-th of N shares (default: the place in a Slurm array)",
           false,
           {}}};
      const std::vector<CommandOption> of_sessions = session_option_list();
      options.insert(options.end(), of_sessions.begin(), of_sessions.end());
      return options;
    }(),
    run_work,
};

}  // namespace crosstalk::program

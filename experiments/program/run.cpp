// crosstalk run: train what is missing of a study. SPDX-License-Identifier: Apache-2.0
#include "experiments/program/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "experiments/program/devices.h"
#include "experiments/program/exit_codes.h"
#include "experiments/program/plan.h"
#include "experiments/program/session.h"
#include "experiments/program/signals.h"
#include "experiments/program/stores.h"
#include "experiments/program/text.h"
#include "experiments/program/workers.h"
#include "results/checkpoint.h"

namespace crosstalk::program {
namespace {

namespace fs = std::filesystem;

/// "90", "90s", "30m", "2h" or "HH:MM:SS" in seconds.
double seconds_of(const std::string& text) {
  const auto wrong = [&]() -> UsageError {
    return UsageError(fmt::format("--time-limit takes seconds (90), 30m, 2h or HH:MM:SS, not '{}'", text));
  };
  const auto number = [&](const std::string& part) {
    double value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc() || end != part.data() + part.size() || !(value >= 0) || value > 1e9)
      throw wrong();
    return value;
  };
  double seconds = 0;
  if (text.find(':') != std::string::npos) {
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t colon = std::min(text.find(':', at), text.size());
      seconds = seconds * 60 + number(text.substr(at, colon - at));
      at = colon + 1;
    }
  } else {
    const char unit = text.empty() ? 's' : text.back();
    const double factor = unit == 'h' ? 3600 : unit == 'm' ? 60 : 1;
    const bool has_unit = unit == 'h' || unit == 'm' || unit == 's';
    seconds = factor * number(has_unit && !text.empty() ? text.substr(0, text.size() - 1) : text);
  }
  if (seconds <= 0) throw wrong();
  return seconds;
}

/// The runs that --only names (by id or a beginning of it).
std::vector<Run> named_runs(const Study& study, const std::vector<std::string>& only) {
  std::vector<Run> runs;
  for (const std::string& id : only) {
    const auto match = [&](const Run& run) { return run.id.rfind(id, 0) == 0; };
    const auto count = std::count_if(study.runs.begin(), study.runs.end(), match);
    if (count == 0)
      throw UsageError(
          fmt::format("--only {}: the study has no such run ('crosstalk plan STUDY --json' lists ids; a run "
                      "that was planned with --set needs the same --set)",
                      id));
    if (count > 1 && id.size() < study.runs[0].id.size())
      throw UsageError(fmt::format("--only {}: {} runs begin so; give more of the id", id, count));
    runs.push_back(*std::find_if(study.runs.begin(), study.runs.end(), match));
  }
  return runs;
}

std::vector<Run> select(const std::vector<Run>& runs, const StoreContents& contents, Which which) {
  const std::string wanted = which == Which::missing ? "missing" : "failed";
  std::vector<Run> selected;
  for (const Run& run : runs)
    if (state_of(run, contents) == wanted) selected.push_back(run);
  return selected;
}

/// The command that trains failed runs again: one of them, or all if `id` is empty.
std::string retry_command_line(const Arguments& arguments, const fs::path& store, const std::string& id,
                               const Console& console) {
  std::vector<std::string> words = {console.program, "retry", arguments.positional.at(0), "--out",
                                    store.string()};
  for (const std::string& set : arguments.all("set")) words.insert(words.end(), {"--set", set});
  if (!id.empty()) words.insert(words.end(), {"--only", id});
  return shell_quote(words);
}

std::string command_line(const Console& console) {
  std::vector<std::string> words = {console.program};
  words.insert(words.end(), console.arguments.begin(), console.arguments.end());
  return shell_quote(words);
}

/// `workers`: their devices, if there are any.
SessionOptions session_options(const Arguments& arguments, const fs::path& store,
                               const std::vector<std::string>& workers, const Console& console) {
  SessionOptions options;
  options.training.threads = static_cast<int>(arguments.integer("threads", 0, 1, 4096));
  options.training.pack = static_cast<int>(arguments.integer("pack", 0, 1, 1 << 20));
  options.training.concurrency = static_cast<int>(arguments.integer("streams", 0, 1, 1024));
  choose_device(workers.empty() ? arguments.get("device", "auto") : workers[0], options.training);
  choose_passes(arguments.all("no-pass"));
  options.device = device_name(options.training);
  options.max_failures = arguments.integer("max-failures", 0, 1);
  options.grace = arguments.number("grace", 20, 0);
  options.lease = arguments.number("lease", options.lease, 0.1);
  if (arguments.has("time-limit")) options.time_limit = seconds_of(arguments.get("time-limit"));
  options.style = arguments.has("quiet") ? ProgressStyle::quiet
                  : console.err_terminal ? ProgressStyle::terminal
                                         : ProgressStyle::lines;
  options.command = options.resume = command_line(console);
  options.reproduce = [&arguments, store, &console](const Record& record) {
    return retry_command_line(arguments, store, record.id, console);
  };
  return options;
}

std::string outcome(std::int64_t done, std::int64_t diverged, std::int64_t failed) {
  std::string text = fmt::format("{} done", done);
  if (diverged > 0) text += fmt::format(", {} diverged", diverged);
  if (failed > 0) text += fmt::format(", {} failed", failed);
  return text;
}

/// The figure that a study of this task is mostly for.
const char* figure_for(const Study& study) {
  if (study.runs.empty()) return "capacity";
  const Options& config = study.runs[0].config;
  const std::string task = config.has("task.name") ? config.get_string("task.name") : "";
  if (task == "swap") return "tracking";
  if (config.has("eval.length_factors") && !config.get_string("eval.length_factors").empty()) return "length";
  return task == "reassign" ? "updates" : "capacity";
}

/// Failed runs of the study, before or in this session.
std::int64_t count_failed(const std::vector<Run>& runs, const StoreContents& before,
                          const SessionResult& result, Which which) {
  const std::int64_t now = result.failed + result.failed_elsewhere;
  if (which == Which::failed) return now;
  return now + std::count_if(runs.begin(), runs.end(),
                             [&](const Run& run) { return state_of(run, before) == "failed"; });
}

}  // namespace

int train_study(const Arguments& arguments, Which which, Console& console) {
  catch_stop_signals();
  const std::string resume = command_line(console);
  const Study study = study_of(arguments);
  const fs::path store = store_path_of(arguments, study);
  const std::vector<std::string> workers = worker_devices(arguments.get("device", "auto"));
  SessionOptions options = session_options(arguments, store, workers, console);
  if (arguments.has("worker")) return run_worker(study, store, options, arguments, console);
  const std::vector<std::string> only = arguments.all("only");
  const std::vector<Run> chosen = only.empty() ? std::vector<Run>() : named_runs(study, only);
  const std::vector<Run>& named = only.empty() ? study.runs : chosen;  // no copy of a large study
  options.since =
      shard_positions(store);  // before the look at what is missing: nothing falls between the two
  const StoreContents before = load_store(store, console);
  if (arguments.has("dry-run")) {
    Study part = study;
    part.runs = named;
    print_plan(part, before, store, false, console);
    return exit_done;
  }
  sweep_checkpoints(store, [&](const std::string& id) {
    const auto found = before.records.find(id);
    return found != before.records.end() &&
           (which == Which::missing || found->second.status != RunStatus::failed);
  });
  const std::vector<Run> runs = select(named, before, which);
  const auto recorded = static_cast<std::int64_t>(named.size() - runs.size());

  SessionResult result;
  if (!runs.empty()) {
    check_store_path(store);
    if (!arguments.has("quiet"))
      print_note(console, which == Which::missing && recorded > 0
                              ? fmt::format("{}: {} to train, {} already in {}", study.name,
                                            plural(std::ssize(runs), "run"), recorded, store.string())
                              : fmt::format("{}: {} to train into {}", study.name,
                                            plural(std::ssize(runs), "run"), store.string()));
    result = workers.size() > 1 ? train_with_workers(study, runs, store, options, workers, arguments, console)
                                : train_session(study, runs, store, options, console);
  }

  const std::int64_t ended = result.done + result.diverged + result.failed;
  if (result.stopped) {
    print_note(
        console,
        fmt::format("stopped{} after {} of {}{}; the same command trains the rest:\n  {}",
                    result.reason.empty() ? "" : " by " + result.reason, ended + result.elsewhere,
                    plural(std::ssize(runs), "run"),
                    result.saved > 0 ? fmt::format(" ({} half-way, saved)", result.saved) : "", resume));
    return exit_stopped;
  }
  if (result.too_many_failures) {
    print_error(console, fmt::format("{} failed (--max-failures {}); {} of {} were not trained",
                                     plural(result.failed, "run"), options.max_failures,
                                     std::ssize(runs) - ended, std::ssize(runs)));
    return exit_some_failed;
  }
  // A study that was relabelled has nothing to train, and its store should know the labels.
  if (runs.empty() && !before.records.empty()) {
    try {
      keep_asked(store, asked_of(study));
    } catch (const StoreError& error) {  // somebody else's store, say
      print_warning(console, error.what());
    }
  }
  const std::int64_t failed = count_failed(named, before, result, which);
  if (!arguments.has("quiet")) {
    std::string text;
    if (runs.empty() && which == Which::failed)
      text = fmt::format("{}: no failed runs in {}, nothing to retry", study.name, store.string());
    else if (runs.empty())
      text = fmt::format("{}: all {} are in {}, nothing to train", study.name,
                         plural(std::ssize(named), "run"), store.string());
    else
      text = fmt::format("{}: trained {} in {} ({})", study.name, plural(ended, "run"),
                         duration(result.seconds), outcome(result.done, result.diverged, result.failed));
    if (result.elsewhere > 0) text += fmt::format(", {} by other processes", plural(result.elsewhere, "run"));
    if (failed > 0)
      text += fmt::format(". {} failed; to train again: {}", plural(failed, "run"),
                          retry_command_line(arguments, store, "", console));
    text += fmt::format(". Next: crosstalk plot {0} {1}, or crosstalk export {1}", figure_for(study),
                        shell_quote(store.string()));
    print_note(console, text);
  }
  console.out << store.string() << "\n";
  return failed > 0 ? exit_some_failed : exit_done;
}

std::vector<CommandOption> training_options() {
  std::vector<CommandOption> options = study_options();
  const std::vector<CommandOption> own = {
      {"out,o", "STORE", "Folder of the results (default ./runs/<study>)", false, {}},
      {"only", "RUNID", "Train only this run; the beginning of an id is enough", true, {}},
      {"threads", "N", "Threads (default: all cores); changes no result", false, {}},
      {"pack", "N", "Runs trained in lockstep, at most (default: chosen); changes no result", false, {}},
      {"device",
       "DEVICE",
       "auto (a GPU if there is one), cpu, cuda or cuda:N; cuda:all or cuda:0,1: a process for each GPU",
       false,
       {}},
      {"no-pass", "NAME", "CUDA: leave out a pass that fuses ops, to see what it gains", true, {}},
      {"streams", "N", "CUDA: packs at a time (default: chosen); changes no result", false, {}},
      {"max-failures", "N", "Stop after N failed runs (default: keep going)", false, {}},
      {"time-limit", "TIME", "Stop after this time (90, 30m, 2h, HH:MM:SS) with exit code 75", false, {}},
      {"grace", "SECONDS", "Time that a stop may take (default 20)", false, {}},
      {"lease",
       "SECONDS",
       "Take over the runs of a process elsewhere after this time without its heartbeat (default 60)",
       false,
       {}},
      {"quiet,q", "", "No progress and no summary; failures and warnings only", false, {}},
      {"worker", "I/N:FILE", "", false, {}},
  };
  options.insert(options.end(), own.begin(), own.end());
  return options;
}

extern const Command run_command;
const Command run_command = {
    "run",
    "train what is missing of a study",
    "STUDY.toml [--out STORE] [--set KEY=VALUE]... [OPTIONS]",
    "Trains every run of the study that has no record in the store yet, and appends a record as\n"
    "each run ends. So it can be killed at any moment: the same command goes on where it was.\n"
    "Runs that failed are not tried again (see 'crosstalk retry'); a diverged run is a result.\n"
    "Prints the store's path on stdout.\n\n"
    "Examples:\n"
    "  crosstalk run experiments/quickstart.toml\n"
    "  crosstalk run experiments/quickstart.toml --dry-run\n"
    "  crosstalk run my.toml --out /scratch/me/first --set train.learning_rate=1e-3,3e-4\n"
    "  crosstalk run my.toml --set seeds=1,2,3 --time-limit 2h --quiet\n"
    "  crosstalk run my.toml --device cuda:all\n\n"
    "With --device cuda:all or cuda:0,1 each GPU has a process of its own; all write into the same\n"
    "store. If one is lost, the others take over its runs.\n\n"
    "SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP and --time-limit stop it cleanly with exit code 75:\n"
    "unfinished runs are saved and go on from there, bit for bit, with the same command. A second\n"
    "SIGINT ends it at once. Exit codes: 0 done, 1 some runs failed, 2 usage or configuration,\n"
    "3 store, 4 device, 75 stopped and resumable.\n",
    1,
    1,
    "needs a study file, for example: crosstalk run experiments/quickstart.toml",
    [] {
      std::vector<CommandOption> options = training_options();
      options.push_back(
          {"dry-run,n", "", "Only show what would be trained (as 'crosstalk plan')", false, {}});
      return options;
    }(),
    [](const Arguments& arguments, Console& console) {
      return train_study(arguments, Which::missing, console);
    },
};

}  // namespace crosstalk::program

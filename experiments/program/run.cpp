// crosstalk run: train what is missing of a study.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include "experiments/common/devices.h"
#include "experiments/common/exit_codes.h"
#include "experiments/common/stores.h"
#include "experiments/common/text.h"
#include "experiments/program/chosen.h"
#include "experiments/program/planning/plan.h"
#include "experiments/program/planning/survey.h"
#include "experiments/sharing/forecast.h"
#include "experiments/sharing/progress.h"
#include "experiments/sharing/session.h"
#include "experiments/sharing/session_options.h"
#include "experiments/sharing/shares.h"
#include "experiments/sharing/signals.h"
#include "experiments/sharing/workers.h"
#include "experiments/training/foreign_memory.h"
#include "results/store/checkpoint.h"

namespace crosstalk::program {
namespace {

namespace fs = std::filesystem;

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

/// The runs of one of several parts. A pure function of the study, so that processes which know nothing of
/// each other train everything, once: neither their devices nor their stores matter.
std::vector<Run> runs_of_shard(const Study& study, const std::vector<Run>& named, const Place& place) {
  TrainingOptions any;
  any.device = Device::cuda;  // keeps runs that make a pack together, which costs no CPU anything
  const Share share = share_out(study.runs, place.n, any).at(static_cast<std::size_t>(place.i - 1));
  std::set<std::string> ids;
  for (const Unit& unit : share) ids.insert(unit.begin(), unit.end());
  std::vector<Run> runs;
  for (const Run& run : named)
    if (ids.count(run.id) != 0) runs.push_back(run);
  return runs;
}

std::vector<Run> select(const std::vector<Run>& runs, const StoreContents& contents, Which which,
                        const std::set<std::string>& again) {
  const std::string wanted = which == Which::missing ? "missing" : "failed";
  std::vector<Run> selected;
  for (const Run& run : runs)
    if (!is_foreign(run.config) && (state_of(run, contents) == wanted || again.count(run.id) != 0))
      selected.push_back(run);
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
  if (config.has("model.name") && config.get_string("model.name") == "probe") return "probe";
  if (task == "swap") return "tracking";
  if (config.has("eval.length_factors") && !config.get_string("eval.length_factors").empty()) return "length";
  if (task == "words") return "tracking";
  if (config.get_string("model.name") == "language") return "accuracy";
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

/// What is to be trained, and what makes one hesitate. `recorded`: runs of the study that are in the store already.
void say_before(const Study& study, const std::vector<Run>& runs, const std::set<std::string>& again,
                std::int64_t recorded, const fs::path& store, bool quiet, Console& console) {
  if (!quiet && !again.empty())
    print_note(console, fmt::format("{}: {} were recorded without weights (train.keep_weights), to be "
                                    "trained again for them",
                                    study.name, plural(std::ssize(again), "run")));
  std::vector<const Run*> asked;
  for (const Run& run : runs) asked.push_back(&run);
  if (const std::string shortage = memory_shortage(asked, available_memory()); !shortage.empty())
    print_warning(console, shortage);
  if (quiet) return;
  for (const std::string& warning : warnings_of(asked)) print_warning(console, warning);
  const std::string count = plural(std::ssize(runs), "run");
  print_note(console, recorded > 0
                          ? fmt::format("{}: {} to train, {} already in {}", study.name, count, recorded,
                                        full_path(store))
                          : fmt::format("{}: {} to train into {}", study.name, count, full_path(store)));
}

std::int64_t ended_here(const SessionResult& result) { return result.done + result.diverged + result.failed; }

/// The exit code of a session that ended before all `asked` runs did, and says why; empty where it did not.
std::optional<int> early_end(const SessionResult& result, const SessionOptions& options, std::int64_t asked,
                             const std::string& resume, Console& console) {
  const std::int64_t ended = ended_here(result);
  if (result.stopped) {
    print_note(
        console,
        fmt::format("stopped{} after {} of {}{}; the same command trains the rest:\n  {}",
                    result.reason.empty() ? "" : " by " + result.reason, ended + result.elsewhere,
                    plural(asked, "run"),
                    result.saved > 0 ? fmt::format(" ({} half-way, saved)", result.saved) : "", resume));
    return exit_stopped;
  }
  if (result.too_many_failures) {
    print_error(console,
                fmt::format("{} failed (--max-failures {}); {} of {} were not trained",
                            plural(result.failed, "run"), options.max_failures, asked - ended, asked));
    return exit_some_failed;
  }
  if (result.left_out == 0) return std::nullopt;
  print_error(console,
              fmt::format("the study was changed while its workers began: {} of {} were not trained; "
                          "the same command trains what it asks for now",
                          result.left_out, plural(asked, "run")));
  return exit_some_failed;
}

std::string nothing_to_train(const Study& study, Which which, std::int64_t named, const fs::path& store) {
  if (which == Which::failed)
    return fmt::format("{}: no failed runs in {}, nothing to retry", study.name, full_path(store));
  return fmt::format("{}: all {} are in {}, nothing to train", study.name, plural(named, "run"),
                     full_path(store));
}

std::string trained_text(const Study& study, const SessionResult& result) {
  return fmt::format("{}: trained {} in {} ({})", study.name, plural(ended_here(result), "run"),
                     duration(result.seconds), outcome(result.done, result.diverged, result.failed));
}

/// What follows either: who else trained, what failed and how to train it again, what to do next.
std::string after_training(const Study& study, const SessionResult& result, std::int64_t failed,
                           const std::string& again, const fs::path& store) {
  std::string text;
  if (result.elsewhere > 0) text += fmt::format(", {} by other processes", plural(result.elsewhere, "run"));
  if (failed > 0) text += fmt::format(". {} failed; to train again: {}", plural(failed, "run"), again);
  return text + fmt::format(". Next: crosstalk plot {0} {1}, or crosstalk export {1}", figure_for(study),
                            shell_quote(store.string()));
}

}  // namespace

int train_study(const Arguments& arguments, Which which, Console& console) {
  catch_stop_signals();
  const double start = steady_seconds();
  const std::string resume = command_line(console);
  auto nothing_begun =
      std::make_unique<NothingBegun>(words_before_training(arguments, resume), patience(arguments));
  Study study = study_of(arguments);
  const fs::path store = store_path_of(arguments, study);
  const std::vector<std::string> workers = worker_devices(arguments.get("device", "auto"));
  SessionOptions options = session_options(arguments, workers, console);
  options.reproduce = [&arguments, store, &console](const Record& record) {
    return retry_command_line(arguments, store, record.id, console);
  };
  if (which == Which::missing && !arguments.has("only") && !arguments.has("where") &&
      !arguments.has("chosen-of"))
    options.request = Request{study.name, study.text, arguments.all("set")};
  if (arguments.has("worker")) {
    nothing_begun.reset();
    return run_worker(study, store, options, arguments, console);
  }
  keep_chosen(arguments, study, console);
  const std::vector<std::string> only = arguments.all("only");
  std::vector<Run> chosen;
  if (!only.empty()) chosen = named_runs(study, only);
  if (arguments.has("shard"))
    chosen =
        runs_of_shard(study, only.empty() ? study.runs : chosen, place_of(arguments.get("shard"), "--shard"));
  const bool is_part = !only.empty() || arguments.has("shard");
  const std::vector<Run>& named = is_part ? chosen : study.runs;  // no copy of a large study
  options.since =
      shard_positions(store);  // before the look at what is missing: nothing falls between the two
  const StoreHeads heads = load_heads(store, console);
  const StoreContents& before = heads.contents;
  if (arguments.has("dry-run")) {
    Study part = study;
    part.runs = named;
    print_plan(part, heads, store, false, asked_training(arguments), console);
    return exit_done;
  }
  const std::set<std::string> again =
      which == Which::missing ? lacking_weights(named, before, store) : std::set<std::string>();
  sweep_checkpoints(store, [&](const std::string& id) {
    const auto found = before.records.find(id);
    return found != before.records.end() && again.count(id) == 0 &&
           (which == Which::missing || found->second.status != RunStatus::failed);
  });
  const bool all =
      which == Which::missing && before.records.empty() &&
      std::none_of(named.begin(), named.end(), [](const Run& run) { return is_foreign(run.config); });
  const std::vector<Run> selected = all ? std::vector<Run>() : select(named, before, which, again);
  const std::vector<Run>& runs = all ? named : selected;
  const auto foreign = std::count_if(named.begin(), named.end(), [&](const Run& run) {
    return is_foreign(run.config) && state_of(run, before) == "missing";
  });
  const auto recorded = static_cast<std::int64_t>(named.size() - runs.size()) - foreign;
  if (foreign > 0 && !arguments.has("quiet"))
    print_note(console,
               fmt::format("{} of PyTorch models are left out, which the Python package trains: python -m "
                           "crosstalk train {} --out {}",
                           plural(foreign, "run"), shell_quote(arguments.positional.at(0)),
                           shell_quote(store.string())));

  SessionResult result;
  options.started = start;
  options.begins = [&] { nothing_begun.reset(); };
  if (!runs.empty()) {
    check_store_path(store);
    if (!arguments.has("quiet"))
      for (const std::string& line : other_semantics(heads, store)) print_note(console, line);
    say_before(study, runs, again, which == Which::missing ? recorded : 0, store, arguments.has("quiet"),
               console);
    result = workers.size() > 1 ? train_with_workers(study, runs, store, options, workers, arguments, console)
                                : train_session(study, runs, store, options, console);
  }
  nothing_begun.reset();  // also where nothing was missing

  if (const auto code = early_end(result, options, std::ssize(runs), resume, console)) return *code;
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
    const std::string text =
        runs.empty() ? nothing_to_train(study, which, std::ssize(named), store) : trained_text(study, result);
    if (const std::string line = outcome_line(survey(&study, store, load_heads(store, console)));
        !line.empty())
      print_note(console, line);
    const std::string again_text = failed > 0 ? retry_command_line(arguments, store, "", console) : "";
    print_note(console, text + after_training(study, result, failed, again_text, store));
  }
  console.out << store.string() << "\n";
  return failed > 0 ? exit_some_failed : exit_done;
}

std::vector<CommandOption> training_options() {
  std::vector<CommandOption> options = study_options();
  const std::vector<CommandOption> own = {
      {"out,o", "STORE", "Folder of the results (default ./runs/<study>)", false, {}},
      {"only", "RUNID", "Train only this run; the beginning of an id is enough", true, {}},
      {"shard",
       "I/N",
       "Train only the I-th of N parts of the study (1/N to N/N), about equal in work; the parts make the "
       "whole",
       false,
       {}},
  };
  options.insert(options.end(), own.begin(), own.end());
  const std::vector<CommandOption> of_sessions = session_option_list();
  options.insert(options.end(), of_sessions.begin(), of_sessions.end());
  return options;
}

extern const Command run_command;
const Command run_command = {
    "run",
    "train what is missing of a study",
    "STUDY.toml [--out STORE] [--set KEY=VALUE]... [OPTIONS]",
    "Trains every run of the study that has no record in the store yet, and appends a record as\n"
    "each run ends. So it can be killed at any moment: the same command resumes it.\n"
    "Runs that failed are not tried again (see 'crosstalk retry'); a diverged run is a result.\n"
    "Prints the store's path on stdout.\n\n"
    "Examples:\n"
    "  crosstalk run experiments/quickstart.toml\n"
    "  crosstalk run experiments/quickstart.toml --dry-run\n"
    "  crosstalk run my.toml --out /scratch/me/first --set train.learning_rate=1e-3,3e-4\n"
    "  crosstalk run my.toml --set seeds=1,2,3 --time-limit 2h --quiet\n"
    "  crosstalk run my.toml --device cuda:all\n\n"
    "With --where a study trains the part of its runs that matches:\n"
    "  crosstalk run my.toml --where task.pairs=16 --where seed=1\n\n"
    "With --chosen-of a study trains only what turned out best elsewhere: first rates by one seed, say,\n"
    "then all seeds at the rate that is best for each memory and point:\n"
    "  crosstalk run my.toml --set seeds=1\n"
    "  crosstalk run my.toml --chosen-of runs/my --best train.learning_rate\n\n"
    "With --device cuda:all or cuda:0,1 each GPU has a process of its own; all write into the same\n"
    "store. If one is lost, the others take over its runs.\n\n"
    "SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP and --time-limit stop it cleanly with exit code 75:\n"
    "unfinished runs are saved, and the same command resumes them bit for bit. A second\n"
    "SIGINT ends it at once. Exit codes: 0 done, 1 some runs failed, 2 usage or configuration,\n"
    "3 store, 4 device, 75 stopped and resumable.\n",
    1,
    1,
    "needs a study file, for example: crosstalk run experiments/quickstart.toml",
    [] {
      std::vector<CommandOption> options = training_options();
      for (CommandOption& option : chosen_options()) options.push_back(std::move(option));
      options.push_back(
          {"dry-run,n", "", "Only show what would be trained (as 'crosstalk plan')", false, {}});
      return options;
    }(),
    [](const Arguments& arguments, Console& console) {
      return train_study(arguments, Which::missing, console);
    },
};

}  // namespace crosstalk::program

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
#include "experiments/sharing/signals.h"
#include "experiments/sharing/workers.h"
#include "experiments/training/foreign_memory.h"
#include "results/store/checkpoint.h"

namespace crosstalk::program {
namespace {

namespace fs = std::filesystem;

std::string outcome(const SessionResult& result) {
  std::string text = fmt::format("{} done", result.done);
  if (result.diverged > 0) text += fmt::format(", {} diverged", result.diverged);
  if (result.failed > 0) text += fmt::format(", {} failed", result.failed);
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
  if (task == "text") return "curves";
  if (config.get_string("model.name") == "language") return "accuracy";
  return task == "reassign" ? "updates" : "capacity";
}

std::int64_t ended_here(const SessionResult& result) { return result.done + result.diverged + result.failed; }

/// One call of `run` or `retry`.
class TrainingCommand {
 public:
  TrainingCommand(const Arguments& arguments, Which which, Console& console)
      : arguments_(arguments),
        which_(which),
        console_(console),
        quiet_(arguments.has("quiet")),
        command_(command_line(console)),
        nothing_begun_(
            std::make_unique<NothingBegun>(words_before_training(arguments, command_), patience(arguments))),
        study_(study_of(arguments)),
        store_(store_path_of(arguments, study_)),
        devices_(worker_devices(arguments.get("device", "auto"))),
        options_(session_options(arguments, devices_, console)) {
    options_.started = started_;
    options_.begins = [this] { nothing_begun_.reset(); };
    options_.reproduce = [this](const Record& record) { return retry_command(record.id); };
    if (which_ == Which::missing && !arguments.has("only") && !arguments.has("where") &&
        !arguments.has("chosen-of"))
      options_.request = Request{study_.name, study_.text, arguments.all("set")};
  }

  /// Returns the exit code.
  int run() {
    if (arguments_.has("worker")) {
      nothing_begun_.reset();
      return run_worker(study_, store_, options_, arguments_, console_);
    }
    if (arguments_.has("chosen-of"))  // each kind is tried and trained by a call of its own
      foreign_ = static_cast<std::int64_t>(
          std::erase_if(study_.runs, [](const Run& run) { return is_foreign(run.config); }));
    if (!study_.runs.empty()) keep_chosen(arguments_, study_, console_);
    part_ = part_of(arguments_, study_);
    options_.since =
        shard_positions(store_);  // before the look at the records: nothing falls between the two
    heads_ = load_heads(store_, console_);
    if (arguments_.has("dry-run")) return show_plan();
    select();
    sweep();
    note_foreign();
    SessionResult result;
    if (!selected().empty()) {
      check_store_path(store_);
      note_start();
      result = train();
    } else if (foreign_ > 0 && which_ == Which::missing) {  // crosstalk work trains them from the store
      check_store_path(store_);
      make_store(study_, store_, options_);
    }
    nothing_begun_.reset();  // also where nothing was missing
    if (const auto code = early_end(result)) return *code;
    keep_labels();
    return report(result);
  }

 private:
  const StoreContents& before() const { return heads_.contents; }
  /// The study's runs, or those of --only and --shard: no copy of a large study.
  const std::vector<Run>& runs() const { return part_ ? *part_ : study_.runs; }
  /// Of runs(), those to train.
  const std::vector<Run>& selected() const { return selected_ ? *selected_ : runs(); }

  int show_plan() const {
    Study part = study_;
    part.runs = runs();
    print_plan(part, heads_, store_, false, given_training(arguments_), console_);
    return exit_done;
  }

  void select() {
    if (which_ == Which::missing) again_ = lacking_weights(runs(), before(), store_);
    const char* const state = which_ == Which::missing ? "missing" : "failed";
    const bool all =
        which_ == Which::missing && before().records.empty() &&
        std::none_of(runs().begin(), runs().end(), [](const Run& run) { return is_foreign(run.config); });
    if (!all) selected_.emplace();
    for (const Run& run : runs()) {
      if (is_foreign(run.config)) {
        foreign_ += state_of(run, before()) == state;
      } else if (!all && (state_of(run, before()) == state || again_.count(run.id) != 0)) {
        selected_->push_back(run);
      }
    }
  }

  /// Saved states of runs that will not go on.
  void sweep() const {
    sweep_checkpoints(store_, [&](const std::string& id) {
      const auto found = before().records.find(id);
      return found != before().records.end() && again_.count(id) == 0 &&
             (which_ == Which::missing || found->second.status != RunStatus::failed);
    });
  }

  SessionResult train() {
    return devices_.size() > 1
               ? train_with_workers(study_, selected(), store_, options_, devices_, arguments_, console_)
               : train_session(study_, selected(), store_, options_, console_);
  }

  /// A study that was relabelled has nothing to train, and its store should know the labels.
  void keep_labels() const {
    if (!selected().empty() || before().records.empty()) return;
    try {
      keep_asked(store_, asked_of(study_));
    } catch (const StoreError& error) {  // somebody else's store, say
      print_warning(console_, error.what());
    }
  }

  /// `words` for this study and store.
  std::string command_for(std::vector<std::string> words, const std::vector<std::string>& options) const {
    words.insert(words.end(), {arguments_.positional.at(0), "--out", store_.string()});
    for (const std::string& option : options)
      for (const std::string& value : arguments_.all(option))
        words.insert(words.end(), {"--" + option, value});
    return shell_quote(words);
  }
  /// The command that trains failed runs again: one of them, or all if `id` is empty.
  std::string retry_command(const std::string& id) const {
    return command_for({console_.program, "retry"}, {"set"}) + (id.empty() ? "" : " --only " + id);
  }

  void note_foreign() const {
    if (foreign_ == 0 || quiet_) return;
    std::vector<std::string> words = {"python", "-m", "crosstalk", "train"};
    if (which_ == Which::failed) words.emplace_back("--failed");
    print_note(
        console_,
        fmt::format("{} of PyTorch models {} left out, which the Python package trains: {}",
                    plural(foreign_, "run"), foreign_ == 1 ? "is" : "are",
                    command_for(words, {"set", "where", "chosen-of", "best", "best-by", "only", "shard"})));
  }

  /// How much is to be trained, and reasons to hesitate.
  void note_start() const {
    if (!quiet_) {
      for (const std::string& line : other_semantics(heads_, store_)) print_note(console_, line);
      if (!again_.empty())
        print_note(
            console_,
            fmt::format(
                "{}: {} were recorded without weights (train.keep_weights), to be trained again for them",
                study_.name, plural(std::ssize(again_), "run")));
    }
    std::vector<const Run*> all;
    for (const Run& run : selected()) all.push_back(&run);
    if (const std::string shortage = memory_shortage(all, available_memory()); !shortage.empty())
      print_warning(console_, shortage);
    if (quiet_) return;
    for (const std::string& warning : warnings_of(all)) print_warning(console_, warning);
    const std::string count = plural(std::ssize(all), "run");
    const std::int64_t recorded = which_ == Which::missing ? std::ssize(runs()) - std::ssize(all) -
                                                                 (arguments_.has("chosen-of") ? 0 : foreign_)
                                                           : 0;
    print_note(console_, recorded > 0
                             ? fmt::format("{}: {} to train, {} already in {}", study_.name, count, recorded,
                                           full_path(store_))
                             : fmt::format("{}: {} to train into {}", study_.name, count, full_path(store_)));
  }

  /// Says why a session ended before all its runs did, and gives the exit code; nothing where they did.
  std::optional<int> early_end(const SessionResult& result) const {
    const std::int64_t ended = ended_here(result), all = std::ssize(selected());
    if (result.stopped) {
      print_note(
          console_,
          fmt::format("stopped{} after {} of {}{}; the same command trains the rest:\n  {}",
                      result.reason.empty() ? "" : " by " + result.reason, ended + result.elsewhere,
                      plural(all, "run"),
                      result.saved > 0 ? fmt::format(" ({} half-way, saved)", result.saved) : "", command_));
      return exit_stopped;
    }
    if (result.too_many_failures) {
      print_error(console_,
                  fmt::format("{} failed (--max-failures {}); {} of {} were not trained",
                              plural(result.failed, "run"), options_.max_failures, all - ended, all));
      return exit_some_failed;
    }
    if (result.left_out == 0) return std::nullopt;
    print_error(
        console_,
        fmt::format(
            "the study was changed while its workers began: {} of {} were not trained; the same command trains what it asks for now",
            result.left_out, plural(all, "run")));
    return exit_some_failed;
  }

  /// Prints the store, and to people the outcome and the next step. Returns the exit code.
  int report(const SessionResult& result) const {
    std::int64_t failed = result.failed + result.failed_elsewhere;
    if (which_ == Which::missing)
      failed += std::count_if(runs().begin(), runs().end(),
                              [&](const Run& run) { return state_of(run, before()) == "failed"; });
    if (!quiet_) {
      std::string text =
          !selected().empty()       ? fmt::format("trained {} in {} ({})", plural(ended_here(result), "run"),
                                                  duration(result.seconds), outcome(result))
          : which_ == Which::failed ? fmt::format("no failed runs in {}, nothing to retry", full_path(store_))
          : foreign_ > 0
              ? fmt::format("no run of a built-in memory is left to train into {}", full_path(store_))
              : fmt::format("all {} are in {}, nothing to train", plural(std::ssize(runs()), "run"),
                            full_path(store_));
      if (result.elsewhere > 0)
        text += fmt::format(", {} by other processes", plural(result.elsewhere, "run"));
      if (failed > 0)
        text += fmt::format(". {} failed; to train again: {}", plural(failed, "run"), retry_command(""));
      if (const std::string line = outcome_line(survey(&study_, store_, load_heads(store_, console_)));
          !line.empty())
        print_note(console_, line);
      print_note(console_, fmt::format("{0}: {1}. Next: crosstalk plot {2} {3}, or crosstalk export {3}",
                                       study_.name, text, figure_for(study_), shell_quote(store_.string())));
    }
    console_.out << store_.string() << "\n";
    return failed > 0 ? exit_some_failed : exit_done;
  }

  const Arguments& arguments_;
  const Which which_;
  Console& console_;
  const bool quiet_;
  const double started_ = steady_seconds();
  const std::string command_;
  std::unique_ptr<NothingBegun> nothing_begun_;  ///< until something is trained
  Study study_;
  const fs::path store_;
  const std::vector<std::string> devices_;  ///< of workers
  SessionOptions options_;
  std::optional<std::vector<Run>> part_, selected_;  ///< nothing: all
  StoreHeads heads_;
  std::set<std::string> again_;  ///< recorded, but without the weights that are wanted
  std::int64_t foreign_ = 0;     ///< runs of PyTorch models that are left
};

/// The rates of a study's optimizers, of those that take several values.
std::vector<std::string> tried_rates(const Study& study) {
  std::vector<std::string> keys;
  for (const char* key : {"train.learning_rate", "train.muon_rate", "train.weight_decay"}) {
    std::set<double> values;
    for (const Run& run : study.runs) values.insert(run.config.get_double(key));
    if (values.size() > 1) keys.emplace_back(key);
  }
  return keys;
}

/// --rates-short: short runs of one seed into STORE-rates, and then the study at the best rates among them.
int train_in_two_steps(const Arguments& arguments, Console& console) {
  const double started = steady_seconds();
  auto [first, second] = two_steps_of(arguments);
  if (const int code = TrainingCommand(first, Which::missing, console).run(); code != exit_done) return code;
  if (arguments.has("time-limit")) {
    const double left =
        seconds_of(arguments.get("time-limit"), "--time-limit") - (steady_seconds() - started);
    second.options["time-limit"] = {fmt::format("{:.0f}", std::max(1., left))};
  }
  return TrainingCommand(second, Which::missing, console).run();
}

}  // namespace

std::pair<Arguments, Arguments> two_steps_of(const Arguments& arguments) {
  std::string share = arguments.get("rates-short");
  if (share.starts_with("1/") && share.size() < 6 &&
      share.find_first_not_of("0123456789", 2) == std::string::npos && std::atoi(share.c_str() + 2) > 0)
    share = fmt::format("{}", 1. / std::atoi(share.c_str() + 2));
  for (const char* other : {"chosen-of", "only", "shard", "dry-run", "worker"})
    if (arguments.has(other))
      throw UsageError(fmt::format(
          "--rates-short: trains a study in two steps, and --{} is for one; give them by hand: --set train.share={}, then --chosen-of",
          other, share));
  const Study study = study_of(arguments);
  std::vector<std::string> keys = keys_of(arguments, "best");
  if (keys.empty()) keys = tried_rates(study);
  if (keys.empty())
    throw UsageError(
        "--rates-short: the study has one learning rate (and one decay), so there is nothing to choose; list several, "
        "or name other keys with --best");
  const fs::path store = store_path_of(arguments, study), rates = store.string() + "-rates";
  Arguments first = arguments, second = arguments;
  for (const char* option : {"best", "best-by", "rates-short"}) first.options.erase(option);
  const auto seed = std::min_element(study.runs.begin(), study.runs.end(),
                                     [](const Run& a, const Run& b) { return a.seed < b.seed; });
  set_instead(first, fmt::format("seeds={}", seed->seed));
  set_instead(first, "train.share=" + share);
  first.options["out"] = {rates.string()};
  second.options.erase("rates-short");
  second.options["chosen-of"] = {rates.string()};
  second.options["best"] = {join(keys, ",")};
  return {first, second};
}

int train_study(const Arguments& arguments, Which which, Console& console) {
  catch_stop_signals();
  if (arguments.has("rates-short")) return train_in_two_steps(arguments, console);
  return TrainingCommand(arguments, which, console).run();
}

std::vector<CommandOption> training_options() {
  std::vector<CommandOption> options = study_options();
  const std::vector<CommandOption> own = {
      {"out,o", "STORE", "Folder of the results (default ./runs/<study>)"},
      {"only", "RUNID", "Train only this run; the beginning of an id is enough", true},
      {"shard", "I/N",
       "Train only the I-th of N parts of the study (1/N to N/N), about equal in work; the parts make the whole"},
  };
  options.insert(options.end(), own.begin(), own.end());
  const std::vector<CommandOption> of_sessions = session_option_list();
  options.insert(options.end(), of_sessions.begin(), of_sessions.end());
  return options;
}

extern const Command run_command = {
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
    "With --rates-short 0.125 rates and decays are chosen first, by one seed and an eighth of the steps\n"
    "(into STORE-rates), for each memory and point; then all seeds are trained at these alone. With\n"
    "--chosen-of they are those that turned out best in any other store:\n"
    "  crosstalk run my.toml --rates-short 0.125\n"
    "  crosstalk run my.toml --chosen-of runs/rates --best train.learning_rate\n\n"
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
          {"rates-short", "SHARE",
           "First choose among the values of --best (rates and decays, if not given) by one seed and this share of the steps, such as 1/8"});
      options.push_back({"dry-run,n", "", "Only show what would be trained (as 'crosstalk plan')"});
      return options;
    }(),
    [](const Arguments& arguments, Console& console) {
      return train_study(arguments, Which::missing, console);
    },
};

}  // namespace crosstalk::program

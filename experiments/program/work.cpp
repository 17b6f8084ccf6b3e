// crosstalk work: one of many workers on a store.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "experiments/common/devices.h"
#include "experiments/common/exit_codes.h"
#include "experiments/common/requests.h"
#include "experiments/common/stores.h"
#include "experiments/common/text.h"
#include "experiments/sharing/progress.h"
#include "experiments/sharing/python_package.h"
#include "experiments/sharing/session.h"
#include "experiments/sharing/session_options.h"
#include "experiments/sharing/shares.h"
#include "experiments/sharing/signals.h"
#include "experiments/sharing/workers.h"
#include "experiments/training/foreign_memory.h"
#include "kernels/base/error.h"
#include "results/printable.h"
#include "results/store/checkpoint.h"

namespace crosstalk::program {
namespace {

namespace fs = std::filesystem;

/// A device on which the first so many runs all fail is left out.
constexpr std::int64_t kBlackHole = 8;

/// Time that Python may take to stop beyond the grace before it is killed, in seconds.
constexpr double kBeyondGrace = 10;

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

/// What the studies of a store ask for, and what is missing of it.
struct Left {
  std::string stamp;  ///< of the requests, before they were read
  Study study;
  std::map<std::string, std::string> names;  ///< of the study that asks for a run, by id
  std::vector<Run> runs;                     ///< missing
  std::set<std::string> again;               ///< of them: recorded, but without the weights that are wanted
  std::set<std::string> foreign;             ///< missing runs of PyTorch models
  std::int64_t failed = 0;
  std::vector<std::string> warnings, problems;  ///< problems: of studies that cannot be read here
};

Left read_left(const fs::path& store) {
  Left left;
  left.stamp = requests_stamp(store);
  const StoreContents contents = read_heads(store).contents;
  left.study = joint_study(read_requests(store, left.warnings), store, left.names, left.problems);
  left.warnings.insert(left.warnings.end(), contents.warnings.begin(), contents.warnings.end());
  left.again = lacking_weights(left.study.runs, contents, store);
  // Whoever was killed between the record and the end of its state left that.
  sweep_checkpoints(store, [&](const std::string& id) {
    return contents.records.count(id) != 0 && left.again.count(id) == 0;
  });
  for (const Run& run : left.study.runs) {
    const std::string state = state_of(run, contents);
    if (state == "failed") ++left.failed;
    if (is_foreign(run.config)) {
      if (state == "missing") left.foreign.insert(run.id);
    } else if (state == "missing" || left.again.count(run.id) != 0) {
      left.runs.push_back(run);
    }
  }
  return left;
}

void require_something(const Left& left, const fs::path& store, Console& console) {
  if (!left.study.runs.empty()) return;
  std::vector<std::string> texts = left.warnings;
  texts.insert(texts.end(), left.problems.begin(), left.problems.end());
  for (const std::string& text : texts) print_warning(console, text);
  if (!texts.empty())
    throw UsageError(
        fmt::format("nothing that was asked of '{}' can be read here, see above", store.string()));
  throw UsageError(fmt::format(
      "nothing was asked of '{}' yet; 'crosstalk submit' and 'crosstalk run STUDY --out STORE' do",
      store.string()));
}

/// Whether there are runs that were not there to be trained before (or not for their weights); they are from now on.
bool has_new(const Left& left, std::set<std::string>& known) {
  bool any = false;
  for (const Run& run : left.runs)
    any |= known.insert(left.again.count(run.id) != 0 ? run.id + " weights" : run.id).second;
  return any;
}

/// Runs of PyTorch models, which Python trains.
class ForeignWork {
 public:
  ForeignWork(const Arguments& arguments, fs::path store) : arguments_(arguments), store_(std::move(store)) {
    if (arguments.has("python")) python_ = package_python(arguments);  // refused before all else
  }

  /// Whether there are any that Python was not called for yet; looks for it when there are.
  bool has_work(const Left& left) {
    if (left.foreign.empty()) return false;
    if (!python_) python_ = package_python(arguments_);
    return !python_->path.empty() && !std::ranges::includes(tried_, left.foreign);
  }

  /// Of those that are left: who trains them, or the command that does. "" where there are none.
  std::string text(const Left& left) {
    const std::string runs = plural(std::ssize(left.foreign), "run") + " of PyTorch models";
    if (has_work(left)) return fmt::format("{} by {} ({})", runs, python_->path, python_->versions);
    if (left.foreign.empty()) return "";
    const std::string why =
        !failed(left) ? python_->why_none + "; where there is one"
        : code_ == 0  ? "Python did not train them; by hand"
                      : fmt::format("Python ended with exit code {}, see above; once that is mended", code_);
    return fmt::format("{} are left, for {}: {}", runs, why,
                       shell_quote({"python", "-m", "crosstalk", "train", store_.string()}));
  }

  /// Calls Python until all are recorded, by whomever, or `stops`.
  void train(const Left& left, double grace, const std::function<bool()>& stops) {
    tried_.insert(left.foreign.begin(), left.foreign.end());
    std::vector<std::string> words = {"train", store_.string(), "--keep-going", "--device",
                                      arguments_.get("device", "auto")};
    for (const char* option : {"threads", "lease"})
      if (arguments_.has(option))
        words.insert(words.end(), {fmt::format("--{}", option), arguments_.get(option)});
    if (arguments_.has("quiet")) words.emplace_back("--quiet");
    code_ = run_call(package_call(python_->path, words), stops, grace);
    if (code_ == exit_some_failed || code_ == exit_stopped) code_ = 0;
  }

  /// Whether Python was there and left some.
  bool failed(const Left& left) const { return !left.foreign.empty() && python_ && !python_->path.empty(); }

 private:
  const Arguments& arguments_;
  const fs::path store_;
  std::optional<PackagePython> python_;
  std::set<std::string> tried_;
  int code_ = 0;  ///< of the last call; 0: nothing unusual
};

/// Nothing is left to train: says what was trained here (`ended`) and elsewhere, and of PyTorch models (`by_python`) by anybody.
/// Returns the exit code.
int say_end(const Left& left, std::int64_t ended, std::int64_t elsewhere, std::int64_t by_python,
            ForeignWork& foreign, bool quiet, Console& console) {
  if (!quiet) {
    const std::string of_foreign = foreign.text(left);
    print_note(console,
               fmt::format("{}{} is left; trained {} here, {} by other processes{}{}{}",
                           left.study.name.empty() ? "" : left.study.name + ": ",
                           of_foreign.empty() ? "nothing" : "nothing of the program's own memories",
                           plural(ended, "run"), elsewhere,
                           by_python > 0 ? fmt::format(", {} of PyTorch models by Python", by_python) : "",
                           left.failed > 0 ? fmt::format("; {} failed ('crosstalk retry' trains them again)",
                                                         plural(left.failed, "run"))
                                           : "",
                           of_foreign.empty() ? "" : "; " + of_foreign));
  }
  if (!left.problems.empty()) {
    print_error(console, left.problems.size() == 1
                             ? std::string("one study cannot be read here and was left out, see above")
                             : fmt::format("{} studies cannot be read here and were left out, see above",
                                           left.problems.size()));
    return exit_some_failed;
  }
  return left.failed > 0 || foreign.failed(left) ? exit_some_failed : exit_done;
}

int run_work(const Arguments& arguments, Console& console) {
  catch_stop_signals();
  const double start = steady_seconds();
  auto nothing_begun = std::make_unique<NothingBegun>(words_before_training(arguments, command_line(console)),
                                                      patience(arguments));
  const fs::path store = arguments.positional.at(0);
  std::vector<std::string> devices = worker_devices(arguments.get("device", "auto"));
  SessionOptions options = session_options(arguments, devices, console);
  const Place place = place_among_workers(arguments);
  options.since = shard_positions(store);
  std::error_code ignored;
  if (!fs::exists(store, ignored))
    throw UsageError(fmt::format(
        "'{}' does not exist; 'crosstalk submit' and 'crosstalk run STUDY --out STORE' make a store",
        store.string()));
  Left left = read_left(store);
  const bool is_worker = arguments.has("worker");
  if (!is_worker) require_something(left, store, console);  // what its parent read may be withdrawn by now
  options.keeps_study = false;
  options.black_hole = kBlackHole;
  options.reproduce = [&](const Record& record) {
    return shell_quote({console.program, "retry",
                        (store / "studies" / (left.names[record.id] + ".toml")).string(), "--out",
                        store.string(), "--only", record.id});
  };
  options.study_names = left.names;
  if (is_worker) {
    nothing_begun.reset();
    return run_worker(left.study, store, options, arguments, console);
  }

  ForeignWork foreign(arguments, store);
  options.started = start;
  options.begins = [&] { nothing_begun.reset(); };
  options.requests_changed = [&] { return requests_stamp(store) != left.stamp || foreign.has_work(left); };
  options.share = static_cast<std::size_t>(place.i - 1);
  const bool quiet = arguments.has("quiet");
  const bool has_workers = devices.size() > 1;
  std::int64_t ended = 0, elsewhere = 0, failed = 0, by_python = 0;
  bool others_train = false;
  const auto say_stopped = [&](const std::string& reason, std::int64_t saved) {
    print_note(console, fmt::format("stopped{} after {}{}; to resume: crosstalk work {}",
                                    reason.empty() ? "" : " by " + reason, plural(ended + by_python, "run"),
                                    saved > 0 ? fmt::format(" ({} half-way, saved)", saved) : "",
                                    shell_quote(full_path(store))));
    return exit_stopped;
  };
  const auto time_is_up = [&] {
    return options.time_limit > 0 && steady_seconds() - options.started >= options.time_limit;
  };
  std::set<std::string> known, told;
  for (bool is_first = true;; is_first = false) {  // a study may be asked for meanwhile
    for (const std::vector<std::string>* texts : {&left.warnings, &left.problems})
      for (const std::string& text : *texts)
        if (told.insert(text).second) print_warning(console, text);
    const bool is_new = has_new(left, known);
    if (!quiet && (is_new || is_first)) {
      const std::string of_foreign = foreign.text(left);
      print_note(console,
                 fmt::format("{}: {} to train into {} on {}{}{}", left.study.name,
                             plural(std::ssize(left.runs), "run"), full_path(store), options.device,
                             place.n > 1 ? fmt::format(", as worker {} of {}", place.i, place.n) : "",
                             of_foreign.empty() ? "" : "; " + of_foreign));
    }
    const bool trains = is_new || (others_train && !left.runs.empty());
    if (!trains && !foreign.has_work(left)) break;
    if (has_workers && devices.empty())
      throw DeviceError("every device of this worker was left out, see above; runs are left");
    if (trains) {
      options.shares.clear();
      if (place.n > 1) options.shares = share_out(left.runs, place.n, options.training);
      const SessionResult result =
          has_workers ? train_with_workers(left.study, left.runs, store, options, devices, arguments, console)
                      : train_session(left.study, left.runs, store, options, console);
      ended += result.done + result.diverged + result.failed;
      elsewhere += result.elsewhere;
      failed += result.failed;
      others_train = result.requests_changed;
      if (result.stopped) return say_stopped(result.reason, result.saved);
      if (result.too_many_failures) {
        print_error(console, fmt::format("{} failed (--max-failures {})", plural(failed, "run"),
                                         arguments.get("max-failures")));
        return exit_some_failed;
      }
      // Limits hold for all that it trains, whenever that was asked for.
      if (options.max_failures > 0) options.max_failures -= result.failed;
      if (ended > failed) options.black_hole = 0;
      for (const std::string& device : result.lost) devices.erase(std::ranges::find(devices, device));
    }
    if (foreign.has_work(left)) {
      const std::set<std::string> before = left.foreign;
      nothing_begun.reset();
      foreign.train(left, options.grace + kBeyondGrace, [&] { return stop_flag() || time_is_up(); });
      left = read_left(store);
      by_python +=
          std::ranges::count_if(before, [&](const std::string& id) { return left.foreign.count(id) == 0; });
      if (stop_flag() || (time_is_up() && !left.foreign.empty()))
        return say_stopped(stop_flag() ? stop_signal() : "the time limit", 0);
    }
    options.since = shard_positions(store);
    left = read_left(store);
    options.study_names = left.names;
  }
  nothing_begun.reset();  // also where nothing was missing
  return say_end(left, ended, elsewhere, by_python, foreign, quiet, console);
}

}  // namespace

extern const Command work_command = {
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
    "PyTorch models of one's own (memory python) are trained by 'python -m crosstalk train', which the worker calls where a\n"
    "Python has torch and crosstalk (--python); elsewhere they are left, and the command that trains them is said. It runs\n"
    "the models' Python files: work on stores that you trust, or with --python none.\n\n"
    "Examples:\n"
    "  crosstalk work runs/quickstart\n"
    "  crosstalk work /scratch/me/store --device cuda:all --time-limit 4h\n"
    "  for i in 1 2 3 4; do ssh node$i crosstalk work /shared/store --share $i/4 & done; wait\n\n"
    "Stops as 'crosstalk run' does: exit code 75, and the same command resumes. A device on which\n"
    "the first 8 runs all fail is left out with exit code 4.\n",
    1,
    1,
    "needs a store, for example: crosstalk work runs/quickstart",
    joined({{{"share", "I/N", "Begin with the I-th of N shares (default: the place in a Slurm array)"},
             python_option()},
            session_option_list()}),
    run_work,
};

}  // namespace crosstalk::program

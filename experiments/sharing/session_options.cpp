// Options that every command which trains has.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/sharing/session_options.h"

#include <fmt/format.h>

#include <cstdlib>

#include "experiments/common/devices.h"
#include "experiments/common/text.h"
#include "results/csv.h"

namespace crosstalk::program {

double seconds_of(const std::string& text, const std::string& option) {
  const std::size_t dash = text.find('-', 1);  // "-1" is no day
  const auto wrong = [&]() -> UsageError {
    return UsageError(
        fmt::format("{} takes seconds (90), 30m, 2h, HH:MM:SS or D-HH:MM:SS, not '{}'", option, text));
  };
  const auto number = [&](const std::string& part) {
    const auto value = number_in(part);
    if (!value || !(*value >= 0) || *value > 1e9) throw wrong();
    return *value;
  };
  double seconds = 0;
  if (text.find(':') != std::string::npos) {
    const bool has_days = dash != std::string::npos;
    for (const std::string& part : parts_of(has_days ? text.substr(dash + 1) : text, ':'))
      seconds = seconds * 60 + number(part);
    if (has_days) seconds += 86400 * number(text.substr(0, dash));
  } else {
    const char unit = text.empty() ? 's' : text.back();
    const double factor = unit == 'h' ? 3600 : unit == 'm' ? 60 : 1;
    const bool has_unit = unit == 'h' || unit == 'm' || unit == 's';
    seconds = factor * number(has_unit && !text.empty() ? text.substr(0, text.size() - 1) : text);
  }
  if (seconds <= 0) throw wrong();
  return seconds;
}

std::string words_before_training(const Arguments& arguments, const std::string& resume) {
  if (arguments.has("worker")) return "";
  return fmt::format("crosstalk: stopped before anything was trained; the same command trains it:\n  {}\n",
                     resume);
}

double patience(const Arguments& arguments) {
  constexpr double moment = 2;
  if (!arguments.has("time-limit") || arguments.has("worker")) return 0;
  return seconds_of(arguments.get("time-limit"), "--time-limit") + moment;
}

Place place_of(const std::string& text, const std::string& option) {
  const std::vector<std::string> parts = parts_of(text, '/');
  const Place place = {number_in<int>(parts.front()).value_or(0), number_in<int>(parts.back()).value_or(0)};
  if (parts.size() != 2 || place.i < 1 || place.n < place.i || place.n > 100000)
    throw UsageError(fmt::format(
        "{0} takes I/N with I from 1 to N, such as 1/4 ... 4/4, not '{1}'; where ranks count from 0: {0} $((RANK + 1))/$N",
        option, text));
  return place;
}

std::string command_line(const Console& console) {
  std::vector<std::string> words = {console.program};
  words.insert(words.end(), console.arguments.begin(), console.arguments.end());
  return shell_quote(words);
}

namespace {

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

/// "7_2" as squeue shows it; "" outside of Slurm.
std::string slurm_job() {
  const std::string array = variable("SLURM_ARRAY_JOB_ID"), task = variable("SLURM_ARRAY_TASK_ID");
  return array.empty() || task.empty() ? variable("SLURM_JOB_ID") : array + "_" + task;
}

int threads_of(const Arguments& arguments) {
  return static_cast<int>(arguments.integer("threads", 0, 1, 4096));
}

}  // namespace

SessionOptions session_options(const Arguments& arguments, const std::vector<std::string>& workers,
                               Console& console) {
  SessionOptions options;
  options.training.threads = threads_of(arguments);
  options.training.pack = static_cast<int>(arguments.integer("pack", 0, 1, 1 << 20));
  options.training.concurrency = static_cast<int>(arguments.integer("streams", 0, 1, 1024));
  const std::string device = workers.empty() ? arguments.get("device", "auto") : workers[0];
  if (const std::string why = choose_device(device, options.training); !why.empty()) print_note(console, why);
  choose_passes(arguments.all("no-pass"));
  options.device = device_name(options.training);
  options.job = slurm_job();
  options.max_failures = arguments.integer("max-failures", 0, 1);
  options.grace = arguments.number("grace", 20, 0);
  options.lease = arguments.number("lease", options.lease, 0.1);
  if (arguments.has("time-limit"))
    options.time_limit = seconds_of(arguments.get("time-limit"), "--time-limit");
  options.style = arguments.has("quiet") ? ProgressStyle::quiet
                  : console.err_terminal ? ProgressStyle::terminal
                                         : ProgressStyle::lines;
  options.command = options.resume = command_line(console);
  return options;
}

std::optional<TrainingOptions> given_training(const Arguments& arguments) {
  if (!arguments.has("device") && !arguments.has("threads")) return std::nullopt;
  const std::string device = arguments.get("device", "auto");
  TrainingOptions training;
  training.threads = threads_of(arguments);
  if (device.starts_with("cuda"))  // need not be here: nothing is trained
    training.device = Device::cuda;
  else
    choose_device(device.starts_with("cpu:all:") ? "cpu" : device, training);
  return training;
}

std::vector<CommandOption> session_option_list() {
  return {
      {"threads", "N", "Threads (default: all cores); changes no result"},
      {"pack", "N", "Runs trained in lockstep, at most (default: chosen); changes no result"},
      {"device", "DEVICE",
       "auto (a GPU if there is one), cpu, cuda or cuda:N; cuda:all or cuda:0,1: a process for each GPU"},
      {"no-pass", "NAME", "Leave out a pass that fuses ops, to see what it gains", true},
      {"streams", "N", "CUDA: packs at a time (default: chosen); changes no result"},
      {"max-failures", "N", "Stop after N failed runs (default: keep going)"},
      {"time-limit", "TIME", "Stop after this time (90, 30m, 2h, HH:MM:SS) with exit code 75"},
      {"grace", "SECONDS", "Time that a stop may take (default 20)"},
      {"lease", "SECONDS",
       "Take over the runs of a process elsewhere after this time without its heartbeat (default 60)"},
      {"quiet,q", "", "No progress and no summary; failures and warnings only"},
      {"worker", "I/N:FILE", ""},
  };
}

}  // namespace crosstalk::program

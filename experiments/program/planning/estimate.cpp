// Tries shapes of a study for a moment, and adds up what all of its runs would take.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/planning/estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <ctime>
#include <exception>
#include <limits>
#include <map>
#include <numeric>
#include <optional>

#include "experiments/common/text.h"
#include "experiments/program/bench.h"
#include "experiments/training/foreign_memory.h"
#include "experiments/training/pack.h"
#include "models/mixers/language_options.h"
#include "models/mixers/probe_model.h"
#include "models/rules/rule_memory.h"
#include "tasks/token_task.h"

namespace crosstalk::program {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

double max_steps(const Run& run) {  // a probe takes one: its evaluation
  return std::max(1.0, static_cast<double>(run.config.get_int("train.max_steps")));
}

/// Operations of a run's steps of training, in steps of the task's own size: stages of a curriculum are shorter, where the
/// schedule says how long each lasts.
double full_steps(const Run& run) {
  const Options& config = run.config;
  const bool staged = config.has("task.curriculum") && config.get_string("train.promote") == "schedule";
  const std::vector<int> sizes = staged ? curriculum_of(config) : std::vector<int>{};
  if (sizes.empty()) return max_steps(run);
  const double sum = std::accumulate(sizes.begin(), sizes.end(), 0.0);
  return max_steps(run) * sum / static_cast<double>(sizes.size()) / sizes.back();
}

/// A shape of a study: the operations of a step, and what one took.
struct Shape {
  const Run* run = nullptr;
  double work = 0;
  std::optional<double> seconds;
};

/// Operations that a step of a try may have: nothing can be stopped within a step.
double most_work(const Run& run) { return run.config.get_string("model.name") == "language" ? 5e8 : 1e8; }

/// Seconds that the threads of this process have calculated, whoever else uses the machine.
double processor_seconds() {
  timespec time = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Times the steps of a training, and stops it after `share` seconds of them, `most_steps` of all cores, or at `end`. The first
/// report of each core does not count: preparation and first touches are not what the rest of a run takes.
struct StepTimer final : TrainingClient {
  StepTimer(int cores_, double share_, double most_steps_, Clock::time_point end_)
      : cores(cores_), share(share_), most_steps(most_steps_), end(end_) {}
  bool stopped() const override { return enough || Clock::now() >= end; }
  void finished(Record&& record) override { done += record.status == RunStatus::done; }
  void progressed(std::int64_t just_done) override {
    if (just_done == 0 || stopped()) return;
    if (++calls <= cores) {
      began = Clock::now();
      begin = processor_seconds();
      return;
    }
    steps += just_done;
    seconds = processor_seconds() - begin;
    enough = since(began) >= share || static_cast<double>(steps) >= most_steps;
  }

  const int cores;
  const double share, most_steps;
  const Clock::time_point end;
  std::atomic<bool> enough{false};
  std::int64_t calls = 0, steps = 0, done = 0;  ///< done: runs
  double begin = processor_seconds(), seconds = 0;
  Clock::time_point began = Clock::now();
};

/// Seconds of a core for a step of `shape`, every core training one like it, by a try of `share` seconds that ends at
/// `end` whatever it has seen; nothing if that was too little, or the run fails. A step too long for a try is made of
/// fewer sequences, and counted as so many.
std::optional<double> try_steps(const Shape& shape, int cores, double share, Clock::time_point end) {
  const Run& run = *shape.run;
  const bool probe = is_probe(run.config);
  const std::int64_t batch = run.config.get_int("train.batch");
  const double parts =
      probe ? 1 : std::clamp(std::ceil(shape.work / most_work(run)), 1.0, static_cast<double>(batch));
  const auto fewer = std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(batch) / parts));
  const double most_steps = std::min(50.0, max_steps(run));
  const auto chunk =
      static_cast<std::int64_t>(std::clamp(2e7 * parts / std::max(1.0, shape.work), 1.0, most_steps));
  std::vector<Run> runs;
  for (int core = 0; core < cores; ++core) {
    Run one = run;
    if (!probe) {
      one = bench_run(run, core + 1, std::int64_t{1} << 30, 1);
      one.config.set("eval.every", chunk);
      one.config.set("train.batch", fewer);
      if (one.config.has("task.curriculum"))  // its first stages are shorter than the run
        one.config.set("task.curriculum", std::string());
      if (one.config.has("task.test_segments"))  // thousands of sequences, say: no try has time for them
        one.config.set("task.test_segments", std::string());
    }
    one.id = fmt::format("try-{}", core);
    runs.push_back(std::move(one));
  }
  StepTimer timer(cores, share, cores * max_steps(run), end);
  TrainingOptions training;
  training.threads = cores;
  training.pack = 1;
  try {
    train_runs("plan", runs, training, timer);
  } catch (const std::exception&) {  // no memory, no thread: a plan goes on without an estimate
    return std::nullopt;
  }
  if (probe && timer.done == cores) return (processor_seconds() - timer.begin) / cores;
  if (timer.steps == 0) return std::nullopt;
  return timer.seconds / static_cast<double>(timer.steps) * static_cast<double>(batch) /
         static_cast<double>(fewer);
}

/// A memory under its label: its smallest and its largest shape.
struct Tried {
  Shape light, heavy;

  /// Seconds of a step of so many operations; nothing was tried: NaN.
  double seconds(double work) const {
    if (!heavy.seconds) return std::numeric_limits<double>::quiet_NaN();
    if (!light.seconds || heavy.work == light.work) return *heavy.seconds * work / heavy.work;
    const double slope = std::max(0.0, (*heavy.seconds - *light.seconds) / (heavy.work - light.work));
    return *light.seconds + slope * (work - light.work);
  }
};

/// Whether even a step of one sequence takes longer than a try may.
bool too_long(const Run& run, double work) {
  const double sequences = is_probe(run.config) ? 1 : static_cast<double>(run.config.get_int("train.batch"));
  return work / sequences > 2 * most_work(run) || parameter_bytes(run) > 2e8;
}

/// "50 s", "4 min", "2.5 h", "12 days": what an estimate is good for.
std::string roughly(double seconds) {
  if (seconds < 90) return fmt::format("{:.2g} s", seconds);
  if (seconds < 90 * 60) return fmt::format("{:.0f} min", seconds / 60);
  if (seconds < 10 * 3600) return fmt::format("{:.1f} h", seconds / 3600);
  if (seconds < 48 * 3600) return fmt::format("{:.0f} h", seconds / 3600);
  return fmt::format("{:.0f} days", seconds / 86400);
}

/// "3.2 TFLOP", "41 PFLOP".
std::string operations_text(double work) {
  if (work < 1e11) return "less than 0.1 TFLOP";
  const bool many = work >= 1e15;
  const double number = many ? work / 1e15 : work / 1e12;
  return number < 10 ? fmt::format("{:.1f} {}", number, many ? "PFLOP" : "TFLOP")
                     : fmt::format("{:.0f} {}", number, many ? "PFLOP" : "TFLOP");
}

/// Operations a second of one H100 or H200, packs of many runs, as studies of results/published took them (their steps, not
/// train.max_steps): width 32 to 48 words_short 2.2e12, words 4.1e12, deltaformer2025_table1 13e12; wider lr_atlas 24e12,
/// formal_languages 26e12, cdar 35e12, mad 100e12, based2024_fig2 140e12.
struct Pace {
  double slow, fast;
};
Pace pace_of(const Run& run) {
  constexpr std::int64_t narrow_width = 48;
  return run.config.get_int("model.width") <= narrow_width ? Pace{2.2e12, 13e12} : Pace{24e12, 140e12};
}

/// Seconds of a GPU for what goes token by token, however little is calculated for each; runs of a pack share them.
double serial_seconds(const Run& run) {
  constexpr double of_a_token = 80e-6;  // of a layer, forward and back: sLSTM of width 128 on an H100
  if (is_foreign(run.config)) return 0;
  std::int64_t layers = 0;
  if (run.config.get_string("model.name") == "language") {
    for (const LanguageLayer& layer : language_layers(run.config))
      layers += !layer.conv && memory_of(layer.options).token_by_token;
  } else {
    layers = memory_of(run.config).token_by_token;
  }
  if (layers == 0) return 0;
  const int T = registered_task(run.config)->shape(is_probe(run.config) ? Split::eval : Split::train).T;
  return of_a_token * static_cast<double>(layers * T) * max_steps(run);
}

TimeForecast on_gpu(const std::vector<const Run*>& runs) {
  double cost = 0, work = 0, least = 0, most = 0;
  bool language = false;
  std::map<std::string, double> serial;  // by pack
  for (const Run* run : runs) {
    cost += estimated_cost(*run, Device::cuda);
    if (const double seconds = serial_seconds(*run); seconds > 0) serial[pack_key(run->config)] = seconds;
    if (run->config.get_string("model.name") != "language") continue;
    language = true;
    const double whole = work_of_step(*run) * full_steps(*run) + work_of_lengths(*run);
    work += whole;
    least += whole / pace_of(*run).fast;
    most += whole / pace_of(*run).slow;
  }
  double longest = 0, one_by_one = 0;
  for (const auto& [key, seconds] : serial) {
    longest = std::max(longest, seconds);
    one_by_one += seconds;
  }
  least = std::max(least, longest);  // packs side by side
  most += one_by_one;
  if (language)
    return {
        std::nullopt,
        fmt::format(
            "{} on one H100 or H200 if every run takes its train.max_steps, a rough estimate: {} of "
            "arithmetic at the pace of recorded studies ('crosstalk bench STUDY --study-packs' tries 20 s "
            "of it there)",
            most < 60 ? "less than a minute" : fmt::format("{} to {}", roughly(least), roughly(most)),
            operations_text(work))};
  constexpr double h200 = 1e13;  // 320 runs of Schlag 2021: 52 s; 1932 of every memory: 92 s
  const double seconds = cost / h200 + longest;
  return {seconds, fmt::format("about {} on one H200, an estimate from the arithmetic of studies measured "
                               "there, right within a factor of two or three",
                               roughly(seconds))};
}

}  // namespace

TimeForecast estimate_time(const std::vector<const Run*>& runs, const TrainingOptions& training,
                           double budget) {
  if (runs.empty()) return {0, "none"};
  if (training.device == Device::cuda) return on_gpu(runs);
  const int cores = training.threads > 0 ? training.threads : available_cores();
  std::map<std::string, Tried> tried;
  std::vector<double> works;
  for (const Run* run : runs) {
    works.push_back(work_of_step(*run));
    Tried& one = tried[run->label];
    if (too_long(*run, works.back())) continue;
    if (one.light.run == nullptr || works.back() < one.light.work) one.light = {run, works.back(), {}};
    if (one.heavy.run == nullptr || works.back() > one.heavy.work) one.heavy = {run, works.back(), {}};
  }
  const auto begin = Clock::now();
  const auto end = begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(budget));
  const double share = std::min(0.15, 0.4 * budget / static_cast<double>(tried.size()));
  double known = 0, work = 0;
  std::int64_t count = 0;
  for (auto& [label, one] : tried) {  // the largest first: most of the time goes there
    if (Clock::now() > end || one.heavy.run == nullptr) continue;
    one.heavy.seconds = try_steps(one.heavy, cores, share, end);
    if (!one.heavy.seconds) continue;
    ++count;
    known += *one.heavy.seconds;
    work += one.heavy.work;
  }
  for (auto& [label, one] : tried)
    if (Clock::now() < end && one.heavy.seconds && one.heavy.work > 1.2 * one.light.work)
      one.light.seconds = try_steps(one.light, cores, share, end);
  if (count == 0)
    return {
        std::nullopt,
        "not known: these runs are too large to be tried for a moment ('crosstalk bench STUDY --study-packs "
        "--seconds 60' measures); on a GPU: " +
            on_gpu(runs).text};
  double whole = 0, typical = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    double step = tried.at(runs[i]->label).seconds(works[i]);
    if (std::isnan(step)) step = known / work * works[i];
    const double lengths = work_of_lengths(*runs[i]) / works[i];  // in steps of training
    const double steps = full_steps(*runs[i]);
    whole += step * (steps + lengths);
    typical += step * (std::min(5000.0, steps) + lengths);
  }
  const double side_by_side = std::min<double>(cores, static_cast<double>(runs.size()));
  whole /= side_by_side;
  typical /= side_by_side;
  const bool learns =
      std::any_of(runs.begin(), runs.end(), [](const Run* run) { return !is_probe(run->config); });
  // Without a limit of patience within its steps, and no loss or accuracy to stop at, a run goes to its end.
  const bool may_stop = std::any_of(runs.begin(), runs.end(), [](const Run* run) {
    const Options& config = run->config;
    const std::int64_t every = config.get_int("eval.every");
    return (every > 0 && config.get_int("train.patience") < config.get_int("train.max_steps") / every) ||
           config.get_double("train.stop_loss") > 0 || config.get_double("train.stop_accuracy") > 0;
  });
  std::string text = fmt::format("about {} on {} like these", roughly(whole), plural(cores, "idle core"));
  if (learns)
    text += fmt::format(" if every run takes its train.max_steps{}",
                        may_stop ? ", less where runs stop early" : "");
  if (typical < 0.9 * whole && may_stop)
    text += fmt::format(" ({} if all stop by step 5000)", roughly(typical));
  text += fmt::format(" (an estimate: {} of {} just tried for {})", count,
                      tried.size() == 1 ? "1 memory" : fmt::format("{} memories", tried.size()),
                      duration(since(begin)));
  if (learns) text += "; on a GPU: " + on_gpu(runs).text;
  return {whole, text};
}

}  // namespace crosstalk::program

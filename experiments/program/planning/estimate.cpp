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
#include <optional>

#include "experiments/common/text.h"
#include "experiments/program/bench.h"
#include "experiments/program/planning/pace.h"
#include "experiments/training/pack.h"
#include "models/mixers/probe_model.h"

namespace crosstalk::program {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

double max_steps(const Run& run) {  // a probe takes one: its evaluation
  return std::max(1.0, static_cast<double>(run.config.get_int("train.max_steps")));
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

const char* const kMeasure = "('crosstalk bench STUDY --study-packs' measures)";

double seconds_on_gpu(const std::vector<const Run*>& runs) {
  std::vector<PacedRun> paced;
  for (const Run* run : runs) paced.push_back({run, max_steps(*run)});
  return gpu_seconds(paced);
}

TimeForecast on_gpu(const std::vector<const Run*>& runs) {
  const double seconds = seconds_on_gpu(runs);
  return {seconds, fmt::format("about {} on one H100 or H200", roughly(seconds)),
          fmt::format("on a GPU by the milliseconds of each memory there, right within a factor of three {}",
                      kMeasure),
          seconds_on_gpu};
}

/// " if every run takes its train.max_steps, less where runs stop early"; "" of probes, which take none.
std::string whole_runs_text(const std::vector<const Run*>& runs) {
  const auto any = [&](const auto& is) {
    return std::any_of(runs.begin(), runs.end(), [&](const Run* run) { return is(run->config); });
  };
  if (!any([](const Options& config) { return !is_probe(config); })) return "";
  return fmt::format(" if every run takes its train.max_steps{}",
                     any(may_stop) ? ", less where runs stop early" : "");
}

}  // namespace

TimeForecast estimate_time(const std::vector<const Run*>& runs, const TrainingOptions& training,
                           double budget) {
  if (runs.empty()) return {0, "none"};
  const std::string whole_runs = whole_runs_text(runs);
  TimeForecast gpu = on_gpu(runs);
  if (training.device == Device::cuda) {
    gpu.text += whole_runs;
    return gpu;
  }
  const int cores = training.threads > 0 ? training.threads : available_cores();
  std::map<std::string, Tried> tried;
  for (const Run* run : runs) {
    const double of_step = work_of_step(*run);
    Tried& one = tried[run->label];
    if (too_long(*run, of_step)) continue;
    if (one.light.run == nullptr || of_step < one.light.work) one.light = {run, of_step, {}};
    if (one.heavy.run == nullptr || of_step > one.heavy.work) one.heavy = {run, of_step, {}};
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
    return {std::nullopt, "not known here; " + gpu.text + whole_runs,
            fmt::format("here nothing was tried: these runs are too large for a moment {}; {}", kMeasure,
                        gpu.basis)};
  const auto seconds_within = [tried, other = known / work, cores](const std::vector<const Run*>& some,
                                                                   double most_steps) {
    double all = 0;
    for (const Run* run : some) {
      const double of_step = work_of_step(*run);
      double step = tried.at(run->label).seconds(of_step);
      if (std::isnan(step)) step = other * of_step;
      const double lengths = work_of_lengths(*run) / of_step;  // in steps of training
      all += step * (std::min(most_steps, max_steps(*run) * mean_size(run->config)) + lengths);
    }
    return all / std::min<double>(cores, static_cast<double>(some.size()));
  };
  const auto seconds_of = [=](const std::vector<const Run*>& some) {
    return seconds_within(some, std::numeric_limits<double>::infinity());
  };
  const double whole = seconds_of(runs), typical = seconds_within(runs, 5000);
  const bool stops =
      std::any_of(runs.begin(), runs.end(), [](const Run* run) { return may_stop(run->config); });
  std::string text = fmt::format("about {} on {} like these", roughly(whole), plural(cores, "idle core"));
  if (!whole_runs.empty()) text += ", " + gpu.text + whole_runs;
  if (typical < 0.9 * whole && stops)
    text += fmt::format(" (here {} if all stop by step 5000)", roughly(typical));
  std::string basis = fmt::format("here {} of {} just tried for {}", count,
                                  tried.size() == 1 ? "1 memory" : fmt::format("{} memories", tried.size()),
                                  duration(since(begin)));
  if (!whole_runs.empty()) basis += "; " + gpu.basis;
  return {whole, text, basis, seconds_of};
}

}  // namespace crosstalk::program

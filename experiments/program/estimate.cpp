// Tries shapes of a study for a moment, and adds up what all of its runs would take.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "experiments/common/text.h"
#include "experiments/program/bench.h"
#include "experiments/training/pack.h"
#include "models/probe_model.h"

namespace crosstalk::program {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

double max_steps(const Run& run) {  // a probe takes one: its evaluation
  return std::max(1.0, static_cast<double>(run.config.get_int("train.max_steps")));
}

/// Sets `stop` at a moment, unless it is left before.
class Alarm {
 public:
  Alarm(std::atomic<bool>& stop, Clock::time_point at) : thread_([this, &stop, at] {
    std::unique_lock lock(mutex_);
    if (!wake_.wait_until(lock, at, [&] { return over_; })) stop.store(true);
  }) {}
  ~Alarm() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool over_ = false;
  std::thread thread_;
};

/// Seconds of one core for a step of `run`, every core training one like it, by a try of `share` seconds that ends at
/// `end` whatever it has seen; nothing if that was too little, or the run fails.
std::optional<double> try_steps(const Shape& shape, int cores, double share, Clock::time_point end) {
  const Run& run = *shape.run;
  const bool probe = is_probe(run.config);
  const double most = std::min(50.0, max_steps(run));
  const auto chunk = static_cast<std::int64_t>(std::clamp(2e7 / std::max(1.0, shape.work), 1.0, most));
  std::vector<Run> runs;
  for (int core = 0; core < cores; ++core) {
    Run one = run;
    if (!probe) {
      one = bench_run(run, core + 1, std::int64_t{1} << 30);
      one.config.set("eval.every", chunk);
    }
    one.id = fmt::format("ct-{}", core);
    runs.push_back(std::move(one));
  }
  std::atomic<bool> stop{false};
  std::int64_t calls = 0, steps = 0, ended = 0;
  double seconds = 0;
  Clock::time_point begin = Clock::now();
  TrainingEvents events;
  events.stop = &stop;
  events.finished = [&](Record&& record) { ended += record.status == RunStatus::done; };
  events.progressed = [&](std::int64_t done) {
    if (done == 0 || stop.load()) return;
    if (++calls <= cores) {  // preparation and first touches are not what the rest of a run takes
      begin = Clock::now();
      return;
    }
    steps += done;
    seconds = since(begin);
    if (seconds >= share || static_cast<double>(steps) >= cores * max_steps(run)) stop.store(true);
  };
  TrainingOptions training;
  training.threads = cores;
  training.pack = 1;
  {
    const Alarm alarm(stop, end);
    train_runs("plan", runs, training, events);
  }
  if (probe && ended == cores) return since(begin);
  return steps > 0 ? std::optional(cores * seconds / static_cast<double>(steps)) : std::nullopt;
}

/// A shape of a study: the operations of a step, and what one took.
struct Shape {
  const Run* run = nullptr;
  double work = 0;
  std::optional<double> seconds;
};

/// A memory under its label: its smallest and its largest shape.
struct Tried {
  Shape light, heavy;

  /// Seconds of a step of so many operations; nothing was tried: NaN.
  double seconds(double work) const {
    if (!light.seconds) return std::numeric_limits<double>::quiet_NaN();
    if (!heavy.seconds) return *light.seconds * work / light.work;
    const double slope = std::max(0.0, (*heavy.seconds - *light.seconds) / (heavy.work - light.work));
    return *light.seconds + slope * (work - light.work);
  }
};

/// Whether a step may take longer than a try: nothing can be stopped within a step.
bool too_long(const Shape& shape) {
  const bool language = shape.run->config.get_string("model.name") == "language";
  return shape.work > (language ? 5e9 : 2e8) || parameter_bytes(*shape.run) > 2e8;
}

TimeForecast on_gpu(const std::vector<const Run*>& runs) {
  double cost = 0;
  for (const Run* run : runs) {
    if (run->config.get_string("model.name") == "language")
      return {std::nullopt,
              "not known before the first runs ('crosstalk bench STUDY --study-packs' trains 20 s of it)"};
    cost += estimated_cost(*run, Device::cuda);
  }
  constexpr double h200 = 1e13;  // 320 runs of Schlag 2021: 52 s; 1932 of every memory: 92 s
  return {cost / h200, fmt::format("about {} on one H200, an estimate from the arithmetic of studies measured there, "
                                   "right within a factor of two or three",
                                   duration(cost / h200))};
}

}  // namespace

TimeForecast estimate_time(const std::vector<const Run*>& runs, const TrainingOptions& training, double budget) {
  if (runs.empty()) return {0, "none"};
  if (training.device == Device::cuda) return on_gpu(runs);
  const int cores = training.threads > 0 ? training.threads : available_cores();
  std::map<std::string, Tried> tried;
  std::vector<double> works;
  for (const Run* run : runs) {
    works.push_back(work_of_step(*run));
    Tried& one = tried[run->label];
    if (one.light.run == nullptr || works.back() < one.light.work) one.light = {run, works.back(), {}};
    if (one.heavy.run == nullptr || works.back() > one.heavy.work) one.heavy = {run, works.back(), {}};
  }
  const auto begin = Clock::now();
  const auto end = begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(budget));
  const double share = std::min(0.15, 0.4 * budget / static_cast<double>(tried.size()));
  double known = 0, work = 0;
  std::int64_t count = 0;
  for (auto& [label, one] : tried) {
    if (Clock::now() > end || too_long(one.light)) continue;
    one.light.seconds = try_steps(one.light, cores, share, end);
    if (!one.light.seconds) continue;
    ++count;
    known += *one.light.seconds;
    work += one.light.work;
  }
  for (auto& [label, one] : tried) {
    const double left = budget - since(begin), expected = one.seconds(one.heavy.work);
    if (one.heavy.work > 1.2 * one.light.work && 3 * expected < left)  // not where it is NaN
      one.heavy.seconds = try_steps(one.heavy, cores, share, end);
  }
  if (count == 0)
    return {std::nullopt,
            "not known: a step is too long to be tried here ('crosstalk bench STUDY --study-packs --seconds 60' "
            "measures)"};
  double whole = 0, typical = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    double step = tried.at(runs[i]->label).seconds(works[i]);
    if (std::isnan(step)) step = known / work * works[i];
    whole += step * max_steps(*runs[i]);
    typical += step * std::min(5000.0, max_steps(*runs[i]));
  }
  const double side_by_side = std::min<double>(cores, static_cast<double>(runs.size()));
  whole /= side_by_side;
  typical /= side_by_side;
  const bool learns = std::any_of(runs.begin(), runs.end(), [](const Run* run) { return !is_probe(run->config); });
  std::string text = fmt::format("about {} on {} of this machine", duration(whole), plural(cores, "core"));
  if (learns) text += " if every run takes its train.max_steps, less where runs stop early";
  if (typical < 0.9 * whole) text += fmt::format(", {} if none takes more than 5000", duration(typical));
  text += fmt::format(" (an estimate: {} of {} just tried for {})", count,
                      tried.size() == 1 ? "1 memory" : fmt::format("{} memories", tried.size()), duration(since(begin)));
  return {whole, text};
}

}  // namespace crosstalk::program

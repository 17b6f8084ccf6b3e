// The packs of the 2021 section as they were measured, and how packs share a simulated GPU.
// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/schedule/section.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "experiments/training/pack.h"
#include "experiments/training/pack_queue.h"
#include "results/csv.h"

namespace crosstalk::program {
namespace {

namespace fs = std::filesystem;

/// Share of a step's work that does not depend on the number of replicas: 0.08 where packs fill the device (tanh FWM,
/// 160 associations: 435, 740 and 1,621 us with 1, 2 and 5 replicas).
constexpr double kAlone = 0.1;
/// Seconds of an evaluation, over the steps between two: a pack of one and two runs took 103 and 123 us a step that
/// the step itself, measured without evaluations, has 78 of.
constexpr double kEvaluation = 25e-6;
/// Levels of priority that a device has, less one; and how much a level weighs. Chosen by what two GPUs took (weights
/// from 1 to 30 were tried).
constexpr double kMostUrgentLevel = 5, kLevelWeight = 10;

double share_of(const MeasuredPack& pack, std::size_t n) {
  return kAlone + (1 - kAlone) * static_cast<double>(n) / static_cast<double>(pack.replicas());
}
double work_of(const PackInFlight& pack) {
  return pack.measured->work * share_of(*pack.measured, pack.ends.size());
}
/// Of the device, what a pack can use.
double use_of(const PackInFlight& pack) {
  const double work = work_of(pack);
  return work / std::max(work, pack.measured->alone.at(pack.ends.size()));
}
/// As train_pack has it: what is left of a pack goes first.
bool few_left(std::size_t n, std::size_t whole) { return 4 * n <= 3 * whole; }

/// Microseconds of a step of packs that have the device: by memory, length and replicas.
using StepTimes = std::map<std::string, std::map<double, std::map<double, double>>>;

/// Between what was measured a straight line; beyond the last its continuation.
template <class Values, class Get>
double between(const Values& values, double x, const Get& get) {
  auto right = values.lower_bound(x);
  if (right == values.begin() || values.size() == 1) return get(values.begin()->second);
  if (right == values.end()) --right;
  const auto left = std::prev(right);
  const double y = get(left->second), z = get(right->second);
  return y + (z - y) * (x - left->first) / (right->first - left->first);
}

std::string text_of(const std::string& name) {
  std::ifstream file(fs::path(CROSSTALK_SOURCE_DIR) / "benchmarks" / "schedule" / name);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

StepTimes read_step_times() {
  StepTimes times;
  read_csv(text_of("steps.csv"), "steps", [&](const CsvRow& row) {
    times[row.text("label", "steps")][row.number("associations", "steps")][row.number("replicas", "steps")] =
        row.number("us", "steps");
  });
  return times;
}

void set_times_alone(MeasuredPack& pack, const StepTimes& times) {
  for (std::size_t n = 1; n < pack.alone.size(); ++n) {
    const double us =
        between(times.at(pack.size.first), static_cast<double>(pack.size.second),
                [&](const std::map<double, double>& by_replicas) {
                  return between(by_replicas, static_cast<double>(n), [](double y) { return y; });
                });
    pack.alone[n] = 1e-6 * us + kEvaluation;
  }
  pack.most_work = pack.alone.at(pack.replicas());
}

/// When each pack ends, in seconds since it began, if all begin when they did.
std::map<const MeasuredPack*, double> simulated_seconds(const std::vector<MeasuredPack*>& packs) {
  std::vector<const MeasuredPack*> waiting(packs.begin(), packs.end());
  std::sort(waiting.begin(), waiting.end(),
            [](const MeasuredPack* x, const MeasuredPack* y) { return x->begin > y->begin; });
  std::map<const MeasuredPack*, double> seconds;
  std::vector<PackInFlight> in_flight;
  double now = 0;
  while (!waiting.empty() || !in_flight.empty()) {
    while (!waiting.empty() && waiting.back()->begin <= now + 1e-9) {
      std::vector<double> steps;
      for (const auto& [wall, steps_now] : waiting.back()->ended) steps.push_back(steps_now);
      in_flight.push_back(begin_pack(*waiting.back(), steps, waiting.back()->urgency));
      waiting.pop_back();
    }
    share_device(in_flight);
    double next = next_end(in_flight);
    if (!waiting.empty()) next = std::min(next, waiting.back()->begin - now);
    now += next;
    train(in_flight, next);
    for (const PackInFlight& pack : in_flight)
      if (pack.ends.empty()) seconds[pack.measured] = now - pack.measured->begin;
    std::erase_if(in_flight, [](const PackInFlight& pack) { return pack.ends.empty(); });
  }
  return seconds;
}

/// Fits the work of each pack; returns by how much the packs end at other times than they did.
double fit_work(const std::vector<MeasuredPack*>& packs) {
  constexpr int rounds = 300;
  for (MeasuredPack* pack : packs) pack->work = 1e-6;
  double apart = 0, total = 0;
  for (int round = 0; round < rounds; ++round) {
    const std::map<const MeasuredPack*, double> seconds = simulated_seconds(packs);
    apart = total = 0;
    for (MeasuredPack* pack : packs) {
      const double took = pack->ended.back().first, takes = seconds.at(pack);
      apart += std::abs(took - takes);
      total += took;
      const double pace = round < rounds / 3 ? 0.3 : 0.1;
      pack->work = std::min(pack->work * std::pow(took / takes, pace), pack->most_work);
    }
  }
  return apart / total;
}

}  // namespace

PackInFlight begin_pack(const MeasuredPack& measured, std::vector<double> steps, double urgency) {
  PackInFlight pack;
  pack.measured = &measured;
  pack.whole = steps.size();
  pack.urgency = urgency;
  std::sort(steps.rbegin(), steps.rend());
  pack.ends = std::move(steps);
  return pack;
}

void share_device(std::vector<PackInFlight>& packs) {
  double left = 1, weights = 0;
  std::vector<PackInFlight*> order;
  for (PackInFlight& pack : packs) {
    const double urgency = few_left(pack.ends.size(), pack.whole) ? 1 : pack.urgency;
    weights += pack.weight = std::pow(kLevelWeight, std::round(urgency * kMostUrgentLevel));
    order.push_back(&pack);
  }
  std::sort(order.begin(), order.end(), [](const PackInFlight* x, const PackInFlight* y) {
    return use_of(*x) / x->weight < use_of(*y) / y->weight;
  });
  for (PackInFlight* pack : order) {
    const double part = std::min(use_of(*pack), left * pack->weight / weights);
    weights -= pack->weight;
    left -= part;
    pack->speed = part / work_of(*pack);
  }
}

double next_end(const std::vector<PackInFlight>& packs) {
  double next = kNever;
  for (const PackInFlight& pack : packs)
    if (pack.speed > 0) {
      next = std::min(next, (pack.ends.back() - pack.done) / pack.speed);
      if (!pack.leaving.empty()) next = std::min(next, (pack.leaves - pack.done) / pack.speed);
    }
  return next;
}

void train(std::vector<PackInFlight>& packs, double seconds) {
  for (PackInFlight& pack : packs) {
    pack.done += seconds * pack.speed;
    while (!pack.ends.empty() && pack.ends.back() - pack.done < 1e-6) {
      std::erase_if(pack.leaving, [&](const auto& run) { return run.first == pack.ends.back(); });
      pack.ends.pop_back();
    }
  }
}

MeasuredSection::MeasuredSection() {
  const fs::path source(CROSSTALK_SOURCE_DIR);
  StudyOptions options;
  options.set = {"seeds=1,2,3,4,5"};
  for (const char* name : {"schlag2021_capacity", "schlag2021_updates"})
    for (Run& run : read_study(source / "experiments" / (std::string(name) + ".toml"), options).runs)
      runs.push_back(std::move(run));
  std::map<std::string, std::string> ids, keys;
  for (const Run& run : runs) {
    const std::int64_t associations = run.config.get_int("task.associations");
    ids[fmt::format("{} {} {}", run.label, associations, run.seed)] = run.id;
    keys[run.id] = run.label + pack_key(run.config);
    packs_[keys[run.id]].size = {run.label, associations};
    pack_of[run.id] = &packs_[keys[run.id]];
  }

  std::map<std::string, std::vector<double>> begins;
  read_csv(text_of("records.csv"), "records", [&](const CsvRow& row) {
    const std::string& id =
        ids.at(fmt::format("{} {} {}", row.text("label", "records"), row.number("associations", "records"),
                           row.number("seed", "records")));
    const double wall = row.number("wall_s", "records");
    steps[id] = row.number("steps", "records");
    packs_.at(keys.at(id)).ended.emplace_back(wall, steps[id]);
    begins[keys.at(id)].push_back(row.number("finished_s", "records") - wall);
  });
  const StepTimes times = read_step_times();
  std::vector<MeasuredPack*> all;
  double first = kNever;
  for (const auto& [key, some] : begins) {
    double sum = 0;
    for (const double begin : some) sum += begin;
    MeasuredPack& pack = packs_.at(key);
    pack.begin = sum / static_cast<double>(some.size());  // the clock of records shows whole seconds
    first = std::min(first, pack.begin);
    std::sort(pack.ended.begin(), pack.ended.end());
    set_times_alone(pack, times);
    all.push_back(&pack);
  }
  for (MeasuredPack* pack : all) pack->begin -= first;

  std::vector<const Run*> queued;
  for (const Run& run : runs) queued.push_back(&run);
  TrainingOptions training;
  training.device = Device::cuda;
  for (const QueuedPack& pack : make_packs(queued, training, {}))
    packs_.at(keys.at(pack.runs[0].run->id)).urgency = pack.urgency;
  misfit = fit_work(all);
}

}  // namespace crosstalk::program

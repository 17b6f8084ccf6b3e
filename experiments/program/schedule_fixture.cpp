// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/schedule_fixture.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <sstream>

#include "experiments/training/pack.h"
#include "experiments/training/pack_queue.h"
#include "results/csv.h"

namespace crosstalk::program {
namespace {

namespace fs = std::filesystem;

/// Share of a step's work that does not depend on the number of replicas; packs of two and three cost more than half
/// of one of five.
constexpr double kAlone = 0.25;
/// Levels of priority that a device has, less one; and how much a level weighs. Chosen by what two GPUs took (weights
/// from 1 to 30 were tried).
constexpr double kMostUrgentLevel = 5, kLevelWeight = 10;
/// Fewer steps between the ends of two runs than these say nothing about speed.
constexpr double kTooFewSteps = 300;

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

double utc(const std::string& text) {
  std::tm time{};
  std::istringstream(text) >> std::get_time(&time, "%Y-%m-%dT%H:%M:%SZ");
  return static_cast<double>(timegm(&time));
}

// As it was seen where few runs were left, and no longer than it was ever seen to take, with more replicas or for
// longer sequences.
void read_times_alone(const std::vector<MeasuredPack*>& packs) {
  std::vector<MeasuredPack*> longest_first = packs;
  std::sort(longest_first.begin(), longest_first.end(),
            [](const MeasuredPack* x, const MeasuredPack* y) { return x->size > y->size; });
  double least = kNever;
  for (MeasuredPack* one : packs) {
    one->alone.fill(kNever);
    double wall = 0, steps = 0;
    for (std::size_t i = 0; i < one->replicas(); ++i) {
      const std::size_t n = one->replicas() - i;
      const auto [wall_now, steps_now] = one->ended[i];
      if (steps_now - steps >= kTooFewSteps) {
        one->alone.at(n) = (wall_now - wall) / (steps_now - steps);
        one->seen.at(n) = few_left(n, one->replicas());
        least = std::min(least, one->alone.at(n));
      }
      wall = wall_now, steps = steps_now;
    }
  }
  const MeasuredPack* longer = nullptr;
  for (MeasuredPack* one : longest_first) {
    for (std::size_t n = one->alone.size() - 1; n-- > 1;)
      one->alone[n] = std::min(one->alone[n], one->alone[n + 1]);
    if (longer && longer->size.first == one->size.first) {
      for (std::size_t n = 1; n < one->alone.size(); ++n) {
        if (one->alone[n] <= longer->alone[n]) continue;
        one->alone[n] = longer->alone[n];
        one->seen[n] = one->seen[n] || longer->seen[n];
      }
    }
    longer = one;
  }
  // Where it was not seen, as few more as there must be: the work says the rest.
  for (MeasuredPack* one : packs) {
    double fewer = least;
    for (std::size_t n = 1; n < one->alone.size(); ++n) {
      if (one->seen[n]) {
        fewer = std::max(fewer, one->alone[n]);
        one->most_work = std::min(one->most_work, fewer / share_of(*one, n));
      }
      one->alone[n] = fewer;
    }
  }
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
    if (pack.speed > 0) next = std::min(next, (pack.ends.back() - pack.done) / pack.speed);
  return next;
}

void train(std::vector<PackInFlight>& packs, double seconds) {
  for (PackInFlight& pack : packs) {
    pack.done += seconds * pack.speed;
    while (!pack.ends.empty() && pack.ends.back() - pack.done < 1e-6) pack.ends.pop_back();
  }
}

void MeasuredSection::add(const std::string& name) {
  const fs::path source(CROSSTALK_SOURCE_DIR);
  StudyOptions options;
  options.set = {"seeds=1,2,3,4,5"};
  std::vector<Run> study = read_study(source / "experiments" / (name + ".toml"), options).runs;
  std::map<std::string, std::string> keys;
  for (const Run& run : study) {
    keys[run.id] = name + pack_key(run.config);
    packs_[keys[run.id]].size = {run.label, run.config.get_int("task.associations")};
  }

  std::ifstream file(source / "results" / "published" / (name + ".provenance.csv"));
  std::ostringstream text;
  text << file.rdbuf();
  std::map<std::string, std::vector<double>> begins;
  read_csv(text.str(), name, [&](const CsvRow& row) {
    const std::string id = row.text("id", "a record");
    if (keys.count(id) == 0) return;
    const double wall = row.number("provenance.wall_s", "times");
    steps[id] = row.number("steps", "steps");
    packs_[keys[id]].ended.emplace_back(wall, steps[id]);
    begins[keys[id]].push_back(utc(row.text("provenance.finished", "times")) - wall);
  });
  double first = kNever;
  std::vector<MeasuredPack*> here;
  for (const auto& [key, all] : begins) {
    double sum = 0;
    for (const double begin : all) sum += begin;
    MeasuredPack& pack = packs_[key];
    pack.begin = sum / static_cast<double>(all.size());  // the clock of records shows whole seconds
    first = std::min(first, pack.begin);
    std::sort(pack.ended.begin(), pack.ended.end());
    here.push_back(&pack);
  }
  for (MeasuredPack* pack : here) pack->begin -= first;

  std::vector<const Run*> all;
  for (const Run& run : study) all.push_back(&run);
  TrainingOptions training;
  training.device = Device::cuda;
  for (const QueuedPack& queued : make_packs(all, runs_of_a_pack(training), {}))
    packs_.at(keys.at(queued.runs[0].run->id)).urgency = queued.urgency;

  read_times_alone(here);
  misfit = fit_work(here);
  for (const auto& [id, key] : keys) pack_of[id] = &packs_.at(key);
  for (Run& run : study) runs.push_back(std::move(run));
}

}  // namespace crosstalk::program

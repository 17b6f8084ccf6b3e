// Packs from runs, longest first.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/pack_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <stdexcept>

#include "experiments/training/evaluation_schedule.h"
#include "experiments/training/pack.h"
#include "experiments/training/state/run_state.h"
#include "kernels/base/text/narrow.h"

namespace crosstalk {
namespace {

/// 1 is for the rest of a pack when some of its runs have ended (train_pack).
constexpr double kHighestPriority = 0.8;
/// Where all runs cost no more than this number of the costliest, the heaviest packs go first: measured from 6 to 11 (they gain
/// 5 to 12 %) and with 28 (they lose 4 %).
constexpr double kFewRuns = 20;

std::string misfit(const std::string& bytes, const Run& run) {
  if (bytes.empty()) return "";
  try {
    return misfit(run_state(bytes), run);
  } catch (const std::runtime_error& error) {  // of another version, say
    return error.what();
  }
}

// Equal for runs that may train in lockstep: stage, and phase of its evaluation schedule.
std::string place_of(const std::string& state, const Options& config) {
  const StatePlace place = place_of_state(state);
  const auto task = registered_task(config);
  const auto stages = task->stages();
  const auto stage = static_cast<std::size_t>(place.stage);
  const Task& now = stage + 1 < stages.size() ? *stages[stage].task : *task;
  const EvaluationSchedule schedule(config, Epoch(now, narrow<int>(config, "train.batch")));
  return fmt::format("{} {}", place.stage, schedule.phase(place.steps));
}

}  // namespace

int slots_of_a_pack(const TrainingOptions& options) {
  if (options.pack > 0) return options.pack;
  return options.device == Device::cuda ? default_replicas
                                        : 1;  // on the CPU lockstep gains nothing and costs cache
}

int runs_of_a_pack(const TrainingOptions& options) {
  return slots_of_a_pack(options) * (options.device == Device::cuda ? refills : 1);
}

void add_packs(std::vector<QueuedPack>& waiting, std::vector<QueuedPack> packs) {
  for (QueuedPack& pack : packs) {  // with the priority of packs of about its cost
    const auto longer = std::find_if(waiting.begin(), waiting.end(),
                                     [&](const QueuedPack& x) { return x.cost >= pack.cost; });
    if (!waiting.empty()) pack.priority = (longer == waiting.end() ? longer - 1 : longer)->priority;
  }
  if (packs.empty()) return;
  std::move(packs.begin(), packs.end(), std::back_inserter(waiting));
  std::stable_sort(waiting.begin(), waiting.end(),
                   [](const QueuedPack& x, const QueuedPack& y) { return x.cost < y.cost; });
}

std::pair<QueuedPack, QueuedPack> halves(const QueuedPack& pack, int slots) {
  const auto& runs = pack.runs;
  const auto count = static_cast<int>(runs.size());
  const auto middle = runs.begin() + count / 2;
  const int fewer = std::max(1, (std::min(slots, count) + 1) / 2);
  return {{pack.cost / 2, pack.priority, {runs.begin(), middle}, fewer},
          {pack.cost / 2, pack.priority, {middle, runs.end()}, fewer}};
}

std::vector<QueuedPack> make_packs(const std::vector<const Run*>& runs, const TrainingOptions& options,
                                   TrainingClient& client) {
  const auto size = static_cast<std::size_t>(runs_of_a_pack(options));
  std::map<std::string, std::vector<QueuedRun>> groups;
  for (const Run* run : runs) {
    if (client.stopped()) return {};
    std::string state = client.saved_state(run->id);
    std::string place = "0 0";
    if (const std::string why = misfit(state, *run); !why.empty()) {
      client.reject_state(run->id, why);
      state.clear();
    }
    if (!state.empty()) place = place_of(state, run->config);
    groups[pack_key(run->config) + place].push_back({run, std::move(state)});
  }
  std::vector<std::pair<double, std::vector<QueuedRun>>> packs;
  double whole = 0, costliest = 0;
  for (auto& [key, group] : groups) {
    if (client.stopped()) return {};
    const double cost = estimated_cost(*group[0].run, options.device);
    whole += cost * static_cast<double>(group.size());
    costliest = std::max(costliest, cost);
    for (std::size_t begin = 0; begin < group.size(); begin += size) {
      const std::size_t end = std::min(group.size(), begin + size);
      packs.emplace_back(cost * static_cast<double>(end - begin), std::vector<QueuedRun>());
      std::move(group.begin() + static_cast<std::ptrdiff_t>(begin),
                group.begin() + static_cast<std::ptrdiff_t>(end), std::back_inserter(packs.back().second));
    }
  }
  std::stable_sort(packs.begin(), packs.end(),
                   [](const auto& x, const auto& y) { return x.first < y.first; });
  std::vector<QueuedPack> result;
  for (auto& [cost, pack] : packs) {
    const double rank = static_cast<double>(result.size()) / static_cast<double>(packs.size());
    const double priority = whole <= kFewRuns * costliest ? rank : 1 - rank;
    result.push_back({cost, kHighestPriority * priority, std::move(pack)});
  }
  return result;
}

}  // namespace crosstalk

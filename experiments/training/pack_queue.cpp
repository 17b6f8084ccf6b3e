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

/// Siblings go on from equal steps before the end of their race, or begin anew.
void align(std::vector<QueuedRun>& race, std::int64_t solved, TrainingClient& client) {
  const std::int64_t steps = steps_of_state(race[0].state);
  if (steps < solved && std::all_of(race.begin(), race.end(),
                                    [&](const QueuedRun& run) { return steps_of_state(run.state) == steps; }))
    return;
  for (QueuedRun& run : race) {
    if (!run.state.empty())
      client.reject_state(run.run->id, "its siblings of a race (train.race) stand at another step");
    run.state.clear();
  }
}

}  // namespace

std::vector<std::vector<QueuedRun>> races_of(const QueuedPack& pack) {
  return races_in(pack.runs, [](const QueuedRun& run) { return race_of(run.run->config); });
}

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
  const auto races = races_of(pack);
  const auto count = static_cast<int>(pack.runs.size());
  const int fewer = std::max(1, (std::min(slots, count) + 1) / 2);
  QueuedPack first{pack.cost / 2, pack.priority, {}, fewer}, second = first;
  for (std::size_t i = 0; i < races.size(); ++i) {
    auto& runs = 2 * i + 1 < races.size() ? first.runs : second.runs;
    runs.insert(runs.end(), races[i].begin(), races[i].end());
  }
  return {first, second};
}

std::vector<QueuedPack> make_packs(const std::vector<const Run*>& runs, const TrainingOptions& options,
                                   TrainingClient& client) {
  const auto size = static_cast<std::size_t>(runs_of_a_pack(options));
  std::map<std::string, std::vector<std::vector<QueuedRun>>> groups;
  for (auto& race : races_in(runs, [](const Run* run) { return race_of(run->config); })) {
    if (client.stopped()) return {};
    std::vector<QueuedRun> queued;
    for (const Run* run : race) {
      std::string state = client.saved_state(run->id);
      if (const std::string why = misfit(state, *run); !why.empty()) {
        client.reject_state(run->id, why);
        state.clear();
      }
      queued.push_back({run, std::move(state)});
    }
    if (const std::string name = race_of(race[0]->config); !name.empty())
      align(queued, client.solved_at(name), client);
    const std::string& state = queued[0].state;
    const std::string place = state.empty() ? "0 0" : place_of(state, race[0]->config);
    groups[pack_key(race[0]->config) + place].push_back(std::move(queued));
  }
  std::vector<std::pair<double, std::vector<QueuedRun>>> packs;
  double whole = 0, costliest = 0;
  for (auto& [key, group] : groups) {
    if (client.stopped()) return {};
    const double cost = estimated_cost(*group[0][0].run, options.device);
    costliest = std::max(costliest, cost);
    std::vector<QueuedRun> pack;
    const auto close = [&] {
      const double of_pack = cost * static_cast<double>(pack.size());
      whole += of_pack;
      packs.emplace_back(of_pack, std::exchange(pack, {}));
    };
    for (std::vector<QueuedRun>& race : group) {
      if (!pack.empty() && pack.size() + race.size() > size) close();
      std::move(race.begin(), race.end(), std::back_inserter(pack));
    }
    close();
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

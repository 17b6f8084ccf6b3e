// The runs of one session on a shared store.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/sharing/shared_work.h"

#include <algorithm>
#include <chrono>

#include "results/store/checkpoint.h"
#include "results/store/store.h"

namespace crosstalk::program {
namespace {

ClaimOptions claim_options(double lease) {
  ClaimOptions options;
  options.lease = lease;
  options.every = std::min(options.every, lease / 8);
  return options;
}

}  // namespace

SharedWork::SharedWork(const std::filesystem::path& store, const std::vector<Run>& runs,
                       const ShardPositions& since, double lease)
    : store_(std::filesystem::absolute(store)),
      claims_(store, claim_options(lease)),
      follower_(store, since) {
  for (const Run& run : runs) {
    const auto [place, is_new] = runs_.try_emplace(run.id);
    unrecorded_ += is_new;
    place->second.race = race_of(run.config);
    if (!place->second.race.empty()) races_[place->second.race].unrecorded += is_new;
  }
  if (!races_.empty())
    for (const RecordHead& head : StoreFollower(store, {}).added()) note_race(head);
  beating_ = std::thread([this] { beat_until_over(); });
}

SharedWork::~SharedWork() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  wake_.notify_all();
  beating_.join();
}

bool SharedWork::claim(const std::string& id) {
  const std::lock_guard lock(mutex_);
  SharedRun& run = runs_.at(id);
  if (run.recorded || run.ours) return run.ours;
  if (!run.race.empty() && !claims_.take(run.race)) return false;
  if (!claims_.take(id)) return false;
  // The process that held the claim before may have recorded the run just now, or stopped and saved it.
  read_added();
  if (run.recorded || (run.had_state == false && has_checkpoint(store_, id))) {
    claims_.release(id);
    return false;
  }
  return run.ours = true;
}

std::int64_t SharedWork::solved_at(const std::string& race) {
  const std::lock_guard lock(mutex_);
  read_added();
  return races_.at(race).solved;
}

void SharedWork::note_race(const RecordHead& head) {
  if (const auto race = races_.find(head.race); race != races_.end())
    race->second.solved = std::min(race->second.solved, head.steps);
}

void SharedWork::state_read(const std::string& id) {
  const bool state = has_checkpoint(store_, id);
  const std::lock_guard lock(mutex_);
  runs_.at(id).had_state = state;
}

void SharedWork::recording(const std::string& id) {
  const std::lock_guard lock(mutex_);
  runs_.at(id).own_record = true;
}

void SharedWork::recorded(const std::string& id) {
  const std::lock_guard lock(mutex_);
  set_recorded(id, runs_.at(id));
}

void SharedWork::set_recorded(const std::string& id, SharedRun& run) {
  claims_.release(id);
  if (!run.race.empty() && !run.recorded && --races_.at(run.race).unrecorded == 0) claims_.release(run.race);
  unrecorded_ -= !run.recorded;
  run.recorded = true;
  run.ours = false;
}

void SharedWork::read_added() {
  for (RecordHead& head : follower_.added()) {
    if (!head.race.empty()) note_race(head);
    const auto found = runs_.find(head.id);
    if (found == runs_.end() || found->second.recorded) continue;
    set_recorded(head.id, found->second);
    if (!found->second.own_record) news_.push_back(std::move(head));
  }
}

void SharedWork::refresh() {
  const std::lock_guard lock(mutex_);
  read_added();
}

std::set<std::string> SharedWork::free_runs() {
  const std::lock_guard lock(mutex_);
  const std::set<std::string> others = claims_.of_others();
  read_added();  // in this order: a worker that ended in between has its record read
  std::set<std::string> free;
  for (auto& [id, run] : runs_) {
    const bool elsewhere = others.count(id) != 0 || others.count(run.race) != 0;
    run.begun_elsewhere |= elsewhere;
    if (!elsewhere && !run.recorded) free.insert(id);
  }
  return free;
}

std::set<std::string> SharedWork::left_runs() {
  std::set<std::string> freed = free_runs();
  const std::lock_guard lock(mutex_);
  std::erase_if(freed, [this](const std::string& id) { return !runs_.at(id).begun_elsewhere; });
  return freed;
}

std::size_t SharedWork::unrecorded() const {
  const std::lock_guard lock(mutex_);
  return unrecorded_;
}

std::vector<RecordHead> SharedWork::news() {
  const std::lock_guard lock(mutex_);
  return std::exchange(news_, {});
}

void SharedWork::set_activity(nlohmann::json activity) {
  const std::lock_guard lock(mutex_);
  activity_ = std::move(activity);
}

void SharedWork::beat() {
  // Claims that others took while this process was suspended for longer than its lease.
  for (const std::string& name : claims_.beat(activity_))
    for (auto& [id, run] : runs_)
      if (id == name || run.race == name) run.ours = false;
}

void SharedWork::beat_until_over() {
  std::unique_lock lock(mutex_);
  double pause = 0.25;  // a new worker is soon seen
  while (!over_) {
    pause = std::min(2 * pause, claims_.seconds_between_beats());
    wake_.wait_for(lock, std::chrono::duration<double>(pause), [this] { return over_; });
    if (over_) return;
    read_added();
    beat();
  }
}

}  // namespace crosstalk::program

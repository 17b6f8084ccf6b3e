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
  for (const Run& run : runs) unrecorded_ += runs_.try_emplace(run.id).second;
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
  if (!claims_.take(id)) return false;
  // The process that held the claim before may have recorded the run just now, or stopped and saved it.
  read_added();
  if (run.recorded || (run.had_state == false && has_checkpoint(store_, id))) {
    claims_.release(id);
    return false;
  }
  return run.ours = true;
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
  set_recorded(runs_.at(id));
  claims_.release(id);
}

void SharedWork::set_recorded(SharedRun& run) {
  unrecorded_ -= !run.recorded;
  run.recorded = true;
  run.ours = false;
}

void SharedWork::read_added() {
  for (RecordHead& head : follower_.added()) {
    const auto found = runs_.find(head.id);
    if (found == runs_.end() || found->second.recorded) continue;
    if (found->second.ours) claims_.release(head.id);
    set_recorded(found->second);
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
    const bool elsewhere = others.count(id) != 0;
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
  for (const std::string& id : claims_.beat(activity_)) runs_.at(id).ours = false;
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

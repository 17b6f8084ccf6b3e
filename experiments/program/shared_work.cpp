// The runs of one session on a shared store.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/shared_work.h"

#include <algorithm>
#include <chrono>

#include "results/checkpoint.h"

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
  for (const Run& run : runs) ids_.insert(run.id);
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

bool SharedWork::wanted(const std::string& id) {
  const std::lock_guard lock(mutex_);
  if (ended_.count(id) != 0) return false;
  if (ours_.count(id) != 0) return true;
  if (!claims_.take(id)) return false;
  // Whoever held the claim before may have recorded the run just now, or stopped and saved it.
  read_added();
  const auto planned = planned_.find(id);
  if (ended_.count(id) != 0 ||
      (planned != planned_.end() && !planned->second && has_checkpoint(store_, id))) {
    claims_.release(id);
    return false;
  }
  ours_.insert(id);
  return true;
}

void SharedWork::planned(const std::string& id) {
  const bool state = has_checkpoint(store_, id);
  const std::lock_guard lock(mutex_);
  planned_[id] = state;
}

void SharedWork::recording(const std::string& id) {
  const std::lock_guard lock(mutex_);
  own_records_.insert(id);
}

void SharedWork::recorded(const std::string& id) {
  const std::lock_guard lock(mutex_);
  ended_.insert(id);
  ours_.erase(id);
  claims_.release(id);
}

void SharedWork::read_added() {
  for (RecordHead& head : follower_.added()) {
    if (ids_.count(head.id) == 0 || !ended_.insert(head.id).second) continue;
    if (ours_.erase(head.id) != 0) claims_.release(head.id);
    if (own_records_.count(head.id) == 0) news_.push_back(std::move(head));
  }
}

void SharedWork::refresh() {
  const std::lock_guard lock(mutex_);
  read_added();
}

std::set<std::string> SharedWork::free_runs() {
  const std::lock_guard lock(mutex_);
  const std::set<std::string> others = claims_.of_others();
  read_added();  // in this order, who ended in between is seen
  std::set<std::string> free;
  for (const std::string& id : ids_)
    if (ended_.count(id) == 0 && others.count(id) == 0) free.insert(id);
  return free;
}

std::size_t SharedWork::unrecorded() const {
  const std::lock_guard lock(mutex_);
  return ids_.size() - ended_.size();
}

std::vector<RecordHead> SharedWork::news() {
  const std::lock_guard lock(mutex_);
  return std::exchange(news_, {});
}

void SharedWork::say(nlohmann::json activity) {
  const std::lock_guard lock(mutex_);
  activity_ = std::move(activity);
}

void SharedWork::beat_until_over() {
  std::unique_lock lock(mutex_);
  double pause = 0.25;  // whoever watches wants to see a new worker soon
  while (!over_) {
    pause = std::min(2 * pause, claims_.seconds_between_beats());
    wake_.wait_for(lock, std::chrono::duration<double>(pause), [this] { return over_; });
    if (over_) return;
    read_added();
    for (const std::string& id : claims_.beat(activity_)) ours_.erase(id);
  }
}

}  // namespace crosstalk::program

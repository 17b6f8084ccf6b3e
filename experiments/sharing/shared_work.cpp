// The runs of one session on a shared store.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/sharing/shared_work.h"

#include <algorithm>
#include <chrono>

#include "experiments/sharing/shares.h"
#include "experiments/training/pack_queue.h"
#include "results/checkpoint.h"
#include "results/store.h"

namespace crosstalk::program {
namespace {

ClaimOptions claim_options(double lease) {
  ClaimOptions options;
  options.lease = lease;
  options.every = std::min(options.every, lease / 8);
  return options;
}

/// A short lease is for tests.
constexpr double kAgesOfALease = 15;
/// From the first of the runs that are passed on together to the last.
constexpr std::chrono::milliseconds kAllHaveCome(50);

// Runs of a GPU are not given to cores, which would take fifty times as long, nor more of them than there are cores.
ClaimRequest offers_of(const TrainingOptions& training) {
  const std::int64_t packs = packs_at_once(training);
  return {"", {}, packs * slots_of_a_pack(training), training.device == Device::cuda ? "cuda" : "cpu", 0};
}

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

SharedWork::SharedWork(const std::filesystem::path& store, const std::vector<Run>& runs,
                       const ShardPositions& since, double lease, const TrainingOptions& training)
    : store_(std::filesystem::absolute(store)),
      least_age_(std::min(kLeastAge, lease / kAgesOfALease)),
      offers_(offers_of(training)),
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
  stop_asking();
  // Whoever held the claim before may have recorded the run just now, or stopped and saved it.
  read_added();
  const auto planned = planned_.find(id);
  if (ended_.count(id) != 0 ||
      (planned != planned_.end() && !planned->second && has_checkpoint(store_, id))) {
    claims_.release(id);
    return false;
  }
  ours_[id] = seconds();
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
  promised_.erase(id);
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
  begun_elsewhere_.insert(others.begin(), others.end());
  read_added();  // in this order, who ended in between is seen
  std::set<std::string> free;
  for (const std::string& id : ids_)
    if (ended_.count(id) == 0 && others.count(id) == 0 && kept_.count(id) == 0) free.insert(id);
  return free;
}

std::set<std::string> SharedWork::freed_runs() {
  std::set<std::string> freed = free_runs();
  const std::lock_guard lock(mutex_);
  std::erase_if(freed, [this](const std::string& id) { return begun_elsewhere_.count(id) == 0; });
  return freed;
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

void SharedWork::beat() {
  for (const std::string& id : claims_.beat(activity_)) ours_.erase(id);
}

void SharedWork::ask(const CostOf& cost_of) {
  const std::lock_guard lock(mutex_);
  if (asked_ > 0 && seconds() - asked_ < kAskAgain) return;
  struct Held {
    std::set<std::string> ids;
    double load = 0;
  };
  std::map<std::string, Held> held;
  for (const auto& [id, holder] : claims_.holders()) {
    if (ids_.count(id) == 0 || ended_.count(id) != 0) continue;
    held[holder].ids.insert(id);
    held[holder].load += cost_of(id);
  }
  const auto most = std::max_element(
      held.begin(), held.end(), [](const auto& a, const auto& b) { return a.second.load < b.second.load; });
  ClaimRequest request = offers_;
  for (const auto& [id, since] : ours_) request.load += cost_of(id);
  if (most == held.end() || most->second.ids.size() < 2 || request.load > kLittle * most->second.load)
    return stop_asking();
  asked_ = seconds();
  request.worker = most->first;
  request.ids = most->second.ids;
  claims_.ask(request);
  beat();
}

void SharedWork::stop_asking() {
  if (asked_ == 0) return;
  asked_ = 0;
  claims_.ask({});
  beat();
}

std::set<std::string> SharedWork::given() {
  std::unique_lock lock(mutex_);
  if (asked_ == 0 || claims_.given().empty()) return {};
  lock.unlock();
  std::this_thread::sleep_for(kAllHaveCome);
  lock.lock();
  stop_asking();
  std::set<std::string> ids;
  for (const std::string& id : claims_.given())
    if (ids_.count(id) != 0 && ended_.count(id) == 0) ids.insert(id);
  return ids;
}

bool SharedWork::answer(const CostOf& cost_of) {
  std::vector<ClaimRequest> requests = claims_.requests();
  std::erase_if(requests, [this](const ClaimRequest& request) { return request.kind != offers_.kind; });
  const bool asked = !requests.empty();
  const std::lock_guard lock(mutex_);
  if (!kept_.empty()) {
    if (seconds() - kept_since_ > kLongestWait) pass_on();
    return asked;
  }
  // Who was given something asks no longer, but its file may still say so: it would get twice what it can use.
  std::erase_if(requests, [this](const ClaimRequest& request) {
    const auto answered = answered_.find(request.worker);
    return answered != answered_.end() && answered->second == request.ids;
  });
  promised_.clear();  // who asked may have found something else meanwhile
  std::vector<RunInFlight> runs;
  if (!requests.empty()) {
    for (const auto& [id, since] : ours_) runs.push_back({id, cost_of(id), seconds() - since < least_age_});
    promised_ = part_in_flight(std::move(runs), requests);
    for (ClaimRequest& request : requests) requested_[request.worker] = std::move(request.ids);
  }
  gives_ = !promised_.empty();
  return asked;
}

bool SharedWork::give_away(const std::string& id, const std::function<std::string()>& state) {
  if (!gives_) return false;
  {
    const std::lock_guard lock(mutex_);
    if (promised_.count(id) == 0 || ours_.count(id) == 0) return false;
  }
  try {
    save_checkpoint(store_, id, state());
  } catch (const StoreError&) {  // it goes on here
    const std::lock_guard lock(mutex_);
    promised_.erase(id);
    return false;
  }
  const std::lock_guard lock(mutex_);
  const auto promise = promised_.extract(id);
  if (promise.empty()) return false;
  if (kept_.empty()) kept_since_ = seconds();
  kept_[id] = promise.mapped();
  if (promised_.empty()) pass_on();
  return true;
}

// Who asked may have left: then the run is free, with its state.
void SharedWork::pass_on() {
  for (const auto& [id, to] : kept_) {
    if (!claims_.pass(id, to)) claims_.release(id);
    answered_[to] = requested_[to];
    ours_.erase(id);
    planned_.erase(id);
  }
  kept_.clear();
  promised_.clear();
  gives_ = false;
}

void SharedWork::beat_until_over() {
  std::unique_lock lock(mutex_);
  double pause = 0.25;  // whoever watches wants to see a new worker soon
  while (!over_) {
    pause = std::min(2 * pause, claims_.seconds_between_beats());
    wake_.wait_for(lock, std::chrono::duration<double>(pause), [this] { return over_; });
    if (over_) return;
    read_added();
    beat();
  }
}

}  // namespace crosstalk::program

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
/// Time from the first of the runs that are passed on together to the last.
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
  for (const Run& run : runs) runs_.add(run.id);
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
  SharedRun& run = runs_.at(id);
  if (run.state == RunState::recorded) return false;
  if (run.is_ours()) return true;
  if (!claims_.take(id)) return false;
  stop_asking();
  // The process that held the claim before may have recorded the run just now, or stopped and saved it.
  read_added();
  if (run.state == RunState::recorded || (run.had_state == false && has_checkpoint(store_, id))) {
    claims_.release(id);
    return false;
  }
  runs_.move(run, RunState::training);
  run.since = seconds();
  return true;
}

void SharedWork::planned(const std::string& id) {
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
  runs_.move(runs_.at(id), RunState::recorded);
  claims_.release(id);
}

void SharedWork::read_added() {
  for (RecordHead& head : follower_.added()) {
    SharedRun* const run = runs_.find(head.id);
    if (run == nullptr || run->state == RunState::recorded) continue;
    if (run->is_ours()) claims_.release(head.id);
    runs_.move(*run, RunState::recorded);
    if (!run->own_record) news_.push_back(std::move(head));
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
  for (auto& [id, run] : runs_) {
    const bool elsewhere = others.count(id) != 0;
    run.begun_elsewhere = run.begun_elsewhere || elsewhere;
    if (run.state == RunState::free || run.state == RunState::claimed)
      runs_.move(run, elsewhere ? RunState::claimed : RunState::free);
    if (!elsewhere && run.state != RunState::recorded && run.state != RunState::kept) free.insert(id);
  }
  return free;
}

std::set<std::string> SharedWork::freed_runs() {
  std::set<std::string> freed = free_runs();
  const std::lock_guard lock(mutex_);
  std::erase_if(freed, [this](const std::string& id) { return !runs_.at(id).begun_elsewhere; });
  return freed;
}

std::size_t SharedWork::unrecorded() const {
  const std::lock_guard lock(mutex_);
  return runs_.size() - runs_.count(RunState::recorded);
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
  for (const std::string& id : claims_.beat(activity_)) {
    SharedRun* const run = runs_.find(id);
    if (run == nullptr || !run->is_ours()) continue;
    if (run->state == RunState::kept) run->had_state.reset();
    runs_.move(*run, RunState::claimed);
  }
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
    const SharedRun* const run = runs_.find(id);
    if (run == nullptr || run->state == RunState::recorded) continue;
    held[holder].ids.insert(id);
    held[holder].load += cost_of(id);
  }
  const auto most = std::max_element(
      held.begin(), held.end(), [](const auto& a, const auto& b) { return a.second.load < b.second.load; });
  ClaimRequest request = offers_;
  for (const auto& [id, run] : runs_)
    if (run.is_ours()) request.load += cost_of(id);
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
  for (const std::string& id : claims_.given()) {
    const SharedRun* const run = runs_.find(id);
    if (run != nullptr && run->state != RunState::recorded) ids.insert(id);
  }
  return ids;
}

bool SharedWork::answer(const CostOf& cost_of) {
  std::vector<ClaimRequest> requests = claims_.requests();
  std::erase_if(requests, [this](const ClaimRequest& request) { return request.kind != offers_.kind; });
  const bool asked = !requests.empty();
  const std::lock_guard lock(mutex_);
  if (runs_.count(RunState::kept) > 0) {
    if (seconds() - kept_since_ > kLongestWait) pass_on();
    return asked;
  }
  // A process that was given something asks no longer, but its file may still say so: it would get twice what it can use.
  std::erase_if(requests, [this](const ClaimRequest& request) {
    return askers_[request.worker].answered == request.ids;
  });
  withdraw_promises();  // who asked may have found something else meanwhile
  if (!requests.empty()) {
    std::vector<RunInFlight> runs;
    for (const auto& [id, run] : runs_)
      if (run.is_ours()) runs.push_back({id, cost_of(id), seconds() - run.since < least_age_});
    for (const auto& [id, to] : part_in_flight(std::move(runs), requests)) {
      runs_.move(runs_.at(id), RunState::promised);
      runs_.at(id).to = to;
    }
    for (ClaimRequest& request : requests) askers_[request.worker].requested = std::move(request.ids);
  }
  gives_ = runs_.count(RunState::promised) > 0;
  return asked;
}

void SharedWork::withdraw_promises() {
  if (runs_.count(RunState::promised) == 0) return;
  runs_.each(RunState::promised,
             [this](const std::string&, SharedRun& run) { runs_.move(run, RunState::training); });
}

bool SharedWork::give_away(const std::string& id, const std::function<std::string()>& state) {
  if (!gives_) return false;
  {
    const std::lock_guard lock(mutex_);
    if (runs_.at(id).state != RunState::promised) return false;
  }
  try {
    save_checkpoint(store_, id, state());
  } catch (const StoreError&) {  // it goes on here
    const std::lock_guard lock(mutex_);
    SharedRun& run = runs_.at(id);
    if (run.state == RunState::promised) runs_.move(run, RunState::training);
    return false;
  }
  const std::lock_guard lock(mutex_);
  SharedRun& run = runs_.at(id);
  if (run.state != RunState::promised) return false;
  if (runs_.count(RunState::kept) == 0) kept_since_ = seconds();
  runs_.move(run, RunState::kept);
  if (runs_.count(RunState::promised) == 0) pass_on();
  return true;
}

// The process that asked may have left: then the run is free, with its state.
void SharedWork::pass_on() {
  runs_.each(RunState::kept, [this](const std::string& id, SharedRun& run) {
    const bool passed = claims_.pass(id, run.to);
    if (!passed) claims_.release(id);
    askers_[run.to].answered = askers_[run.to].requested;
    run.had_state.reset();
    runs_.move(run, passed ? RunState::claimed : RunState::free);
  });
  withdraw_promises();
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

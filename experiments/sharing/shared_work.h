// The runs of one session on a store that other processes may train into at the same moment: which of them
// are free, which are ours, and which somebody has recorded.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "experiments/sharing/run_states.h"
#include "experiments/study/study.h"
#include "experiments/training/training.h"
#include "results/claims.h"
#include "results/follow.h"

namespace crosstalk::program {

class SharedWork {
 public:
  /// `since`: where the store's shards ended before anybody looked what is missing. Beats until it is gone.
  SharedWork(const std::filesystem::path& store, const std::vector<Run>& runs, const ShardPositions& since,
             double lease, const TrainingOptions& training);
  ~SharedWork();
  SharedWork(const SharedWork&) = delete;
  SharedWork& operator=(const SharedWork&) = delete;

  /// TrainingEvents::wanted: claims a run when it begins; later, whether it is still ours. Any thread.
  bool wanted(const std::string& id);
  /// The trainer read the saved state of this run, or found none. A state that is saved afterwards is left to
  /// a later round, which begins with it.
  void planned(const std::string& id);
  /// Marks that our record of the run goes to the store, before and after.
  void recording(const std::string& id);
  void recorded(const std::string& id);

  /// Reads what others have recorded since the last time.
  void refresh();
  /// Runs of this session that nobody has recorded and nobody else trains.
  std::set<std::string> free_runs();
  /// Those of free_runs() that another process had claimed at an earlier look: it died, or stopped.
  std::set<std::string> freed_runs();
  /// Runs of this session that nobody has recorded.
  std::size_t unrecorded() const;
  /// Records of others since the last call.
  std::vector<RecordHead> news();

  using CostOf = std::function<double(const std::string& id)>;
  // Towards the end some processes have little left to train while others hold many runs. Those ask, these give: a
  // run's state is kept at an evaluation, and the claim is passed on.
  /// Nothing is free: asks whoever holds most of what this session waits for, if that is much more than is trained here.
  void ask(const CostOf& cost_of);
  /// Runs that this process asked for and was given, all that came at once; it asks no longer then.
  std::set<std::string> given();
  /// Reads what others ask; decides which runs they go on with, and passes on those whose states are kept. Whether
  /// anybody asks.
  bool answer(const CostOf& cost_of);
  /// TrainingEvents::give_away. Any thread.
  bool give_away(const std::string& id, const std::function<std::string()>& state);

  /// Sets what the heartbeat says of this process, from now on.
  void say(nlohmann::json activity);
  /// Why claims cannot be kept; "" if they can.
  std::string problem() const { return claims_.problem(); }

 private:
  void read_added();
  void beat_until_over();
  void beat();
  void stop_asking();
  void withdraw_promises();
  void pass_on();

  const std::filesystem::path store_;
  const double least_age_;     ///< in seconds: of a run that is given away
  const ClaimRequest offers_;  ///< room and kind of devices: what this process asks with
  Claims claims_;
  mutable std::mutex mutex_;  ///< guards all below
  std::condition_variable wake_;
  StoreFollower follower_;
  RunStates runs_;
  /// A worker that asked for runs: for which, and for which when it was given some.
  struct Asker {
    std::set<std::string> requested;
    std::optional<std::set<std::string>> answered;
  };
  std::map<std::string, Asker> askers_;
  std::atomic<bool> gives_ = false;    ///< something is promised
  double kept_since_ = 0, asked_ = 0;  ///< when; 0: nothing is
  std::vector<RecordHead> news_;
  nlohmann::json activity_ = nlohmann::json::object();
  bool over_ = false;
  std::thread beating_;
};

}  // namespace crosstalk::program

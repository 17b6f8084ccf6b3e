// The runs of one session on a store that other processes may train into at the same moment: which of them
// are free, ours, or recorded.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "experiments/study/study.h"
#include "experiments/training/race.h"
#include "results/store/claims.h"
#include "results/store/follow.h"

namespace crosstalk::program {

class SharedWork {
 public:
  /// `since`: SessionOptions::since. Beats until destruction.
  SharedWork(const std::filesystem::path& store, const std::vector<Run>& runs, const ShardPositions& since,
             double lease);
  ~SharedWork();
  SharedWork(const SharedWork&) = delete;
  SharedWork& operator=(const SharedWork&) = delete;

  /// TrainingClient::claim(): claims the run, and its race, at its beginning; later, whether it is still ours. Any thread.
  bool claim(const std::string& id);
  /// TrainingClient::solved_at(). Any thread.
  std::int64_t solved_at(const std::string& race);
  /// The trainer read the saved state of this run, or found none. A state that is saved afterwards is left to
  /// a later round, which begins with it.
  void state_read(const std::string& id);
  /// Marks that our record of the run goes to the store, before and after.
  void recording(const std::string& id);
  void recorded(const std::string& id);

  /// Reads the records that others have added.
  void refresh();
  /// Runs of this session without a record that no other process has claimed.
  std::set<std::string> free_runs();
  /// Those of free_runs() that another process had claimed at an earlier look: it died, or stopped.
  std::set<std::string> left_runs();
  /// Runs of this session without a record.
  std::size_t unrecorded() const;
  /// Records of others since the last call.
  std::vector<RecordHead> news();

  /// Sets the activity that the next heartbeats carry.
  void set_activity(nlohmann::json activity);
  /// Why claims cannot be kept; "" if they can.
  std::string problem() const { return claims_.problem(); }

 private:
  struct SharedRun {
    std::string race = {};               ///< race_of()
    bool ours = false;                   ///< claimed by this process, and without a record
    bool recorded = false;               ///< by any process
    bool begun_elsewhere = false;        ///< another process had claimed it at some look
    bool own_record = false;             ///< its record is no news
    std::optional<bool> had_state = {};  ///< whether the trainer, which looked for it, found a saved state
  };
  void set_recorded(const std::string& id, SharedRun& run);
  void note_race(const RecordHead& head);
  void read_added();
  void beat_until_over();
  void beat();

  const std::filesystem::path store_;
  Claims claims_;
  mutable std::mutex mutex_;  ///< guards all below
  std::condition_variable wake_;
  StoreFollower follower_;
  std::unordered_map<std::string, SharedRun> runs_;
  struct Race {
    std::int64_t solved = kNeverSolved;  ///< TrainingClient::solved_at()
    std::int64_t unrecorded = 0;         ///< runs
  };
  std::unordered_map<std::string, Race> races_;
  std::size_t unrecorded_ = 0;
  std::vector<RecordHead> news_;
  nlohmann::json activity_ = nlohmann::json::object();
  bool over_ = false;
  std::thread beating_;
};

}  // namespace crosstalk::program

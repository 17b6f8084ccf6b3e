// Trainings of a search: to a third of their steps, where they rest, and on from there as the same runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "experiments/search/journal.h"
#include "experiments/training/training.h"
#include "results/store/store.h"

namespace crosstalk::search {

/// What a training has come to: at its end, or where it rests. NaN where there is none.
struct Outcome {
  std::int64_t steps = 0;
  bool ended = false, failed = false;
  double loss = NAN, accuracy = NAN;            ///< on the evaluation split
  double test_loss = NAN, test_accuracy = NAN;  ///< at its end
};

class Trials final : private TrainingClient {
 public:
  struct Settings {
    std::filesystem::path store;
    TrainingOptions training;
    bool keeps_records = true;  ///< in the store; those of shuffled labels are nobody's results
    nlohmann::json provenance = nlohmann::json::object();  ///< of records
    std::function<bool()> stopped = [] { return false; };  ///< asked by several threads
  };
  /// Takes what the journal holds as known.
  Trials(Settings settings, Journal& journal);

  /// Trains those of the runs that the journal does not know, to their ends or, with `a_third`, to the first evaluation after a
  /// third of train.max_steps. False: stopped; what was under way is saved. Throws StoreError, DeviceError.
  bool train(const std::string& study, const std::vector<Run>& runs, bool a_third);
  /// Of a run that was trained, where it rested after a third of its steps (or at its end, where that came before) or at its end.
  const Outcome& of(const Run& run, bool a_third) const;
  bool stopped() const override { return settings_.stopped(); }
  /// Forgets where trainings rest: they will not go on.
  void forget_states() { states_.clear(); }

  double seconds() const { return seconds_; }        ///< in train(), by this process
  std::int64_t trained() const { return trained_; }  ///< runs that began anew here
  std::int64_t twice() const { return twice_; }      ///< of them, those that had begun here before

 private:
  bool rests(const Run& run, std::int64_t steps) override;
  std::string saved_state(const std::string& id) override;
  void save_state(const std::string& id, const std::string& state) override;
  void reject_state(const std::string& id, const std::string& why) override;
  void evaluated(const Run& run, const RunPoint& point) override;
  void finished(Record&& record) override;
  void know(const std::string& id, const Outcome& outcome);

  const Settings settings_;
  Journal& journal_;
  std::unique_ptr<StoreWriter> writer_;
  std::map<std::string, Outcome> rested_, ended_, points_;
  std::map<std::string, std::string> states_;
  std::set<std::string> begun_, resting_;
  std::mutex mutex_;  ///< questions come from several threads, beside reports
  bool a_third_ = false;
  double seconds_ = 0;
  std::int64_t trained_ = 0, twice_ = 0;
};

}  // namespace crosstalk::search

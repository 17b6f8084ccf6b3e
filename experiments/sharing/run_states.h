// The state of each run of a session.
//
//   free     -> claimed   another process holds it, as far as the last look at the claims says
//   free     -> training  claimed by this process
//   any      -> recorded  for good
//
// A process that was suspended for longer than its lease loses its runs (training -> claimed).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>

namespace crosstalk::program {

enum class RunState { free, claimed, training, recorded };

struct SharedRun {
  RunState state = RunState::free;
  bool begun_elsewhere = false;        ///< others had claimed it at some look
  bool own_record = false;             ///< its record is no news
  std::optional<bool> had_state = {};  ///< whether the trainer, which read it, found a saved state
};

/// Run id -> run, and how many are in each state. Not thread-safe.
class RunStates {
 public:
  void add(const std::string& id) {
    if (runs_.try_emplace(id).second) ++counts_[index(RunState::free)];
  }
  std::size_t size() const { return runs_.size(); }
  std::size_t count(RunState state) const { return counts_[index(state)]; }

  SharedRun& at(const std::string& id) { return runs_.at(id); }
  /// nullptr: no run of this session.
  SharedRun* find(const std::string& id) {
    const auto found = runs_.find(id);
    return found == runs_.end() ? nullptr : &found->second;
  }
  void move(SharedRun& run, RunState to) {
    --counts_[index(run.state)];
    ++counts_[index(to)];
    run.state = to;
  }
  auto begin() { return runs_.begin(); }
  auto end() { return runs_.end(); }

 private:
  static std::size_t index(RunState state) { return static_cast<std::size_t>(state); }

  std::unordered_map<std::string, SharedRun> runs_;
  std::array<std::size_t, 4> counts_{};
};

}  // namespace crosstalk::program

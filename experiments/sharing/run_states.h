// The runs of one session by what has become of them: each is in one state at any moment.
//
//   free     -> claimed   another process holds it, as far as the last look at the claims says
//   free     -> training  claimed by this process
//   training -> promised  another process waits for its next evaluation
//   promised -> kept      its state is saved; nobody trains it until it is passed on
//   kept     -> claimed   passed on
//   any      -> recorded  for good
//
// A promise may be withdrawn (promised -> training), and a process that was held up for long loses what it has (-> claimed).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>

namespace crosstalk::program {

enum class RunState { free, claimed, training, promised, kept, recorded };

struct SharedRun {
  RunState state = RunState::free;
  double since = 0;                    ///< training, promised, kept: when this process claimed it
  std::string to;                      ///< promised, kept: name of the worker that gets it
  bool begun_elsewhere = false;        ///< others had claimed it at some look
  bool own_record = false;             ///< its record is no news
  std::optional<bool> had_state = {};  ///< whether the trainer, which read it, found a saved state

  bool is_ours() const {
    return state == RunState::training || state == RunState::promised || state == RunState::kept;
  }
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
  /// Each run that is in a state, with its id; `visit` may move it.
  template <class Visit>
  void each(RunState state, const Visit& visit) {
    for (auto& [id, run] : runs_)
      if (run.state == state) visit(id, run);
  }
  auto begin() { return runs_.begin(); }
  auto end() { return runs_.end(); }

 private:
  static std::size_t index(RunState state) { return static_cast<std::size_t>(state); }

  std::unordered_map<std::string, SharedRun> runs_;
  std::array<std::size_t, 6> counts_{};
};

}  // namespace crosstalk::program

// Saved states of unfinished runs, beside the shards: STORE/checkpoints/ID.state. A state is advice, never a
// result: one that is missing or damaged costs training time, nothing else.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <filesystem>
#include <functional>
#include <set>
#include <string>

namespace crosstalk {

/// Replaces the state of run `id`: all or nothing (temporary file, fsync, rename). Throws StoreError.
void save_checkpoint(const std::filesystem::path& store, const std::string& id, const std::string& state);

struct SavedState {
  std::string state;    ///< "" if there is none
  std::string problem;  ///< why what there is cannot be used, one sentence; "" if it can
};
bool has_checkpoint(const std::filesystem::path& store, const std::string& id);
/// Runs with a state, by the names of files: whether it can be used, load_checkpoint() finds out.
std::set<std::string> checkpointed(const std::filesystem::path& store);
SavedState load_checkpoint(const std::filesystem::path& store, const std::string& id);

/// Moves a state that nobody can use to STORE/quarantine and returns where it lies now. Throws StoreError.
std::filesystem::path set_aside_checkpoint(const std::filesystem::path& store, const std::string& id);

/// Forgets the state of run `id`, if there is one.
void drop_checkpoint(const std::filesystem::path& store, const std::string& id);

/// Removes what kills have left of runs that are over: their states, and states and weights that were being written. What
/// a living process claims (results/store/claims.h) is left alone. Returns how many files went.
std::size_t sweep_checkpoints(const std::filesystem::path& store,
                              const std::function<bool(const std::string& id)>& over);

}  // namespace crosstalk

// Claims: which of the processes that share a store trains which run, so that no run is trained twice.
//
// Claims are advice, never a lock. A record decides whether a run is done, and two records of one run are
// equal; so the whole folder may be deleted at any moment, and what is lost is time. Only operations are used
// that file systems of clusters do as one step: making a symbolic link, and renaming.
//
//   STORE/claims/NAME.worker  a process that trains: who it is, its heartbeat, what it does
//   STORE/claims/RUN_ID       a symbolic link to the NAME.worker that trains this run
//
// A process is dead if its machine says so, or if its heartbeat, a counter, has not moved for the length of a
// lease by the clock of whoever looks: nobody's clock is compared with another's. Of those that notice, the
// one that renames NAME.worker takes its claims away.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "results/store/process_identity.h"

namespace crosstalk {

/// Begins the name of a race (train.race), which is claimed before any of its runs.
inline constexpr std::string_view kRacePrefix = "race-";

struct ClaimOptions {
  double lease = 60;              ///< seconds without a heartbeat until others take over
  double every = 5;               ///< seconds between own heartbeats; watchers wait for four at least
  std::function<double()> clock;  ///< monotonic seconds; empty: this machine's
  ProcessIdentity process = this_process();
};

/// A process that trains into a store, as its file says.
struct ClaimingWorker {
  std::string name;
  ProcessIdentity process;
  std::int64_t beat = 0;
  double every = 0;
  nlohmann::json activity;  ///< what it said of its work; an object
  std::int64_t claims = 0;  ///< runs that it holds
  bool lives = true;        ///< as far as the watcher can tell by now
  double silent = 0;        ///< seconds since the watcher saw its heartbeat move; 0: it beats as it said
};

/// Looks at the workers of a store and judges whether they live. Changes nothing. Not thread-safe.
class WorkerWatch {
 public:
  WorkerWatch(std::filesystem::path store, ClaimOptions options);
  /// Of the worker whose file has this name; one that lived half a second ago still does.
  bool lives(const std::string& file_name);
  /// All workers, by name, with the number of their claims.
  std::vector<ClaimingWorker> workers();
  /// Run id -> name of the worker's file, of all claims, also of those whose worker is dead.
  std::map<std::string, std::string> claims() const;
  /// Whether the worker's file was missing when it was looked at last.
  bool is_missing(const std::string& file_name) const;

 private:
  struct Seen {
    std::int64_t beat = -1;
    double moved = 0, looked = 0;  ///< when the file changed last, and when it was looked at
    bool there = false, lives = true;
  };
  std::filesystem::path folder_;
  ClaimOptions options_;
  std::map<std::string, Seen> seen_;
};

/// Which shards have a writer that claims runs and lives, as far as one look can tell; whoever is elsewhere does. Locks say
/// the same where they work; on many network file systems they do not.
class LivingWriters {
 public:
  explicit LivingWriters(std::filesystem::path store) : store_(std::move(store)) {}
  /// The claims are looked at once, when this is asked first.
  bool writes(const std::filesystem::path& shard);

 private:
  std::filesystem::path store_;
  std::optional<std::set<std::string>> known_;  ///< names of processes
};

/// The claims of this process in a store. Thread-safe. Where claims cannot be kept (a file system without
/// symbolic links) take() always succeeds and problem() tells why.
class Claims {
 public:
  Claims(const std::filesystem::path& store, const ClaimOptions& options);
  ~Claims();  ///< releases everything
  Claims(const Claims&) = delete;
  Claims& operator=(const Claims&) = delete;

  /// Whether this process may train the run: nobody who lives has claimed it.
  bool take(const std::string& id);
  void release(const std::string& id);
  /// Runs that other living workers have claimed. Clears away dead workers.
  std::set<std::string> of_others();
  /// Tells others that this process lives. Returns the runs that were claimed here and that others have taken
  /// since (this process was held up for so long that it seemed dead).
  std::vector<std::string> beat(const nlohmann::json& activity);
  double seconds_between_beats() const;
  std::string problem() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace crosstalk

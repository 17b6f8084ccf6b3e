// Claims of runs by the processes that share a store.
// SPDX-License-Identifier: Apache-2.0
#include "results/store/claims.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <mutex>

#include "results/store/claim_files.h"
#include "results/store/files.h"
#include "results/store/store.h"

namespace crosstalk {
namespace {

namespace fs = std::filesystem;

constexpr double kLookAgain = 0.5;
/// A lease is at least so many heartbeats of who is watched.
constexpr double kBeatsOfALease = 4;

double machine_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error); !error && at != fs::directory_iterator();
       at.increment(error))
    names.push_back(at->path().filename().string());
  return names;
}

std::string new_name() { return fmt::format("{}-{:08x}", process_name(), random_number()); }

}  // namespace

/// Beats that a worker may be late.
constexpr double kBeatsUntilSilent = 2;

WorkerWatch::WorkerWatch(fs::path store, ClaimOptions options)
    : folder_(std::move(store) / "claims"), options_(std::move(options)) {
  if (!options_.clock) options_.clock = machine_seconds;
}

bool WorkerWatch::lives(const std::string& file_name) {
  const double now = options_.clock();
  const auto [at, is_new] = seen_.try_emplace(file_name);
  Seen& seen = at->second;
  if (is_new) seen.moved = now;
  if (seen.lives && !is_new && now - seen.looked < kLookAgain) return true;
  seen.looked = now;
  std::optional<ClaimingWorker> worker;
  if (is_worker_name(file_name)) worker = read_worker(folder_ / file_name);
  const std::int64_t beat = worker ? worker->beat : -1;
  if (beat != seen.beat) seen.moved = now;
  seen.beat = beat;
  seen.there = worker.has_value();
  const double every = worker ? worker->every : 0;
  seen.lives = now - seen.moved <= std::max(options_.lease, kBeatsOfALease * every);
  if (worker && pulse_of(worker->process, options_.process) == Pulse::dead) seen.lives = false;
  return seen.lives;
}

bool WorkerWatch::is_missing(const std::string& file_name) const {
  const auto seen = seen_.find(file_name);
  return seen != seen_.end() && !seen->second.there;
}

std::vector<ClaimingWorker> WorkerWatch::workers() {
  std::map<std::string, std::int64_t> counts;
  for (const auto& [id, holder] : claims()) ++counts[holder];
  std::vector<ClaimingWorker> workers;
  for (const std::string& name : names_in(folder_)) {
    if (!is_worker_name(name)) continue;
    std::optional<ClaimingWorker> worker = read_worker(folder_ / name);
    if (!worker) continue;
    worker->claims = counts[name];
    worker->lives = lives(name);
    const double silent = options_.clock() - seen_.at(name).moved;
    if (silent > kBeatsUntilSilent * worker->every) worker->silent = silent;
    workers.push_back(std::move(*worker));
  }
  std::ranges::sort(workers, [](const auto& a, const auto& b) { return a.name < b.name; });
  return workers;
}

std::map<std::string, std::string> WorkerWatch::claims() const {
  std::map<std::string, std::string> claims;
  for (const std::string& name : names_in(folder_)) {
    if (name.front() == '.' || ends_in(name, kWorker) || ends_in(name, kDead)) continue;
    if (const auto holder = holder_of(folder_ / name)) claims[name] = *holder;
  }
  return claims;
}

bool LivingWriters::writes(const fs::path& shard) {
  if (!known_) {
    known_.emplace();
    WorkerWatch watch(store_, {});
    for (const ClaimingWorker& worker : watch.workers())
      if (worker.lives) known_->insert(process_of(worker.name));
    for (const auto& [id, holder] : watch.claims())
      if (is_worker_name(holder) && watch.lives(holder)) known_->insert(process_of(holder));
  }
  return known_->count(process_of(shard.stem().string())) != 0;
}

struct Claims::Impl {
  Impl(const fs::path& store, const ClaimOptions& options_)
      : options(options_),
        folder(fs::absolute(store) / "claims"),
        file_name(new_name() + std::string(kWorker)),
        watch(fs::absolute(store), options_) {}

  /// Others see this file, so it is put in place as a whole; it need not outlive the machine, so no sync.
  bool write_worker() {
    const nlohmann::json json = {{"process", to_json(options.process)},
                                 {"beat", beats},
                                 {"every", options.every},
                                 {"activity", activity}};
    const std::string text = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    const fs::path temporary = folder / ("." + file_name + std::string(kTemporary));
    FileSystem& system = FileSystem::real();
    int error_number = 0;
    // The last of the others to leave removes the folder, perhaps right now.
    for (int attempt = 0; attempt < 10; ++attempt) {
      ::mkdir(folder.c_str(), 0777);
      File file = open_file(system, temporary, O_WRONLY | O_CREAT | O_TRUNC);
      error_number = file.is_open() ? write_all(system, file, text) : errno;
      file.close();
      if (error_number == 0 && system.rename(temporary.string(), (folder / file_name).string()) < 0)
        error_number = errno;
      if (error_number != ENOENT) break;
    }
    if (error_number == 0) {
      written = true;
      return true;
    }
    system.unlink(temporary.string());
    give_up(error_number);
    return false;
  }

  void give_up(int error_number) {
    if (!problem.empty()) return;
    problem = fmt::format("{}: claims cannot be kept: {}; other processes may train the same runs",
                          folder.string(), reason_of(error_number));
  }

  /// What making the link came to: 0, EEXIST, or another error's number.
  int link(const std::string& id) {
    for (int attempt = 0;; ++attempt) {
      if (::symlink(file_name.c_str(), (folder / id).c_str()) == 0) return 0;
      if (errno != ENOENT || attempt == 10) return errno;
      if (!write_worker()) return EIO;  // the folder was deleted
    }
  }

  bool take(const std::string& id) {
    if (held.count(id) != 0 || !problem.empty()) return true;
    if (!written && !write_worker()) return true;
    for (int attempt = 0; attempt < 4; ++attempt) {
      const int error_number = link(id);
      if (error_number == 0) {
        held.insert(id);
        return true;
      }
      if (error_number != EEXIST) {
        give_up(error_number);
        return true;
      }
      const std::optional<std::string> holder = holder_of(folder / id);
      if (!holder && errno == ENOENT) continue;  // released at this moment
      if (holder == file_name) {
        held.insert(id);
        return true;
      }
      if (watch.lives(holder.value_or(id))) return false;
      bury({holder.value_or(id)});
      if (!problem.empty()) return true;
    }
    return false;
  }

  /// Takes the claims of dead workers away. Of several that want to, one can rename a worker's file; where the file
  /// has been missing for a whole lease there is none to rename. The folder is read once for all of them.
  /// A holder is what a link in somebody's folder says: only the name of a worker is taken for a file's.
  void bury(const std::set<std::string>& holders) {
    std::set<std::string> buried;
    for (const std::string& holder : holders)
      if (watch.is_missing(holder) ||
          (is_worker_name(holder) && ::rename((folder / holder).c_str(), dead_file(holder).c_str()) == 0))
        buried.insert(holder);
    if (buried.empty()) return;
    for (const std::string& name : names_in(folder)) {
      if (ends_in(name, kWorker) || ends_in(name, kDead)) continue;
      const fs::path claim = folder / name;
      // What is no link stands in the way of the run of its name: it is its own holder.
      if (buried.count(holder_of(claim).value_or(name)) == 0) continue;
      if (::unlink(claim.c_str()) != 0 && errno != ENOENT) give_up(errno);
    }
    for (const std::string& holder : buried)
      if (is_worker_name(holder)) ::unlink(dead_file(holder).c_str());
  }

  fs::path dead_file(const std::string& holder) const { return folder / (holder + std::string(kDead)); }

  ClaimOptions options;
  fs::path folder;
  std::string file_name;
  mutable std::mutex mutex;  ///< guards all below
  WorkerWatch watch;
  std::set<std::string> held;
  nlohmann::json activity = nlohmann::json::object();
  std::int64_t beats = 0;
  bool written = false;
  std::string problem;
};

Claims::Claims(const fs::path& store, const ClaimOptions& options)
    : impl_(std::make_unique<Impl>(store, options)) {}

Claims::~Claims() {
  for (const std::string& id : std::set<std::string>(impl_->held)) release(id);
  if (impl_->written) {
    of_others();  // the last to leave puts out the light
    ::unlink((impl_->folder / impl_->file_name).c_str());
  }
  ::rmdir(impl_->folder.c_str());  // fails where others have files in it
}

bool Claims::take(const std::string& id) {
  const std::lock_guard guard(impl_->mutex);
  return impl_->take(id);
}

void Claims::release(const std::string& id) {
  const std::lock_guard guard(impl_->mutex);
  if (impl_->held.erase(id) == 0) return;
  if (holder_of(impl_->folder / id) == impl_->file_name) ::unlink((impl_->folder / id).c_str());
}

std::set<std::string> Claims::of_others() {
  const std::lock_guard guard(impl_->mutex);
  std::set<std::string> ids;
  std::set<std::string> dead;
  for (const auto& [id, holder] : impl_->watch.claims()) {
    if (holder == impl_->file_name) continue;
    if (impl_->watch.lives(holder)) {
      ids.insert(id);
    } else {
      dead.insert(holder);
    }
  }
  for (const std::string& name : names_in(impl_->folder)) {
    if (is_worker_name(name) && name != impl_->file_name && !impl_->watch.lives(name)) dead.insert(name);
    // Whoever buried this worker was killed half-way.
    if (ends_in(name, kDead)) {
      const std::string holder = name.substr(0, name.size() - kDead.size());
      if (!impl_->watch.lives(holder)) dead.insert(holder);
    }
    // A process that was killed while it wrote: ".NAME.worker.tmp".
    if (name.front() == '.' && ends_in(name, kTemporary) &&
        !impl_->watch.lives(name.substr(1, name.size() - 1 - kTemporary.size())))
      ::unlink((impl_->folder / name).c_str());
  }
  impl_->bury(dead);
  return ids;
}

std::vector<std::string> Claims::beat(const nlohmann::json& activity) {
  const std::lock_guard guard(impl_->mutex);
  std::vector<std::string> lost;
  impl_->activity = activity;
  ++impl_->beats;
  if (!impl_->problem.empty() || (impl_->held.empty() && !impl_->written)) return lost;
  impl_->write_worker();
  for (const std::string& id : std::set<std::string>(impl_->held)) {
    std::optional<std::string> holder = holder_of(impl_->folder / id);
    if (!holder) {  // somebody cleared the folder
      impl_->held.erase(id);
      impl_->take(id);
      if (impl_->held.count(id) != 0 || !impl_->problem.empty()) continue;
    }
    if (holder == impl_->file_name) continue;
    impl_->held.erase(id);
    lost.push_back(id);
  }
  return lost;
}

double Claims::seconds_between_beats() const { return impl_->options.every; }

std::string Claims::problem() const {
  const std::lock_guard guard(impl_->mutex);
  return impl_->problem;
}

}  // namespace crosstalk

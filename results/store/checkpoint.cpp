// SPDX-License-Identifier: Apache-2.0
#include "results/store/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "results/store/claims.h"
#include "results/store/crc32c.h"
#include "results/store/files.h"
#include "results/store/leftovers.h"
#include "results/store/store.h"

namespace crosstalk {
namespace {

std::filesystem::path file_of(const std::filesystem::path& store, const std::string& id) {
  return file_named(store / "checkpoints", id, ".state");
}

/// The run that a file belongs to: ID.state, or what was being written, .ID.state.PROCESS-N.tmp and
/// .ID.npz.PROCESS-N.tmp; "" if none.
std::string run_of(const std::string& name) {
  constexpr std::string_view end = ".state", part = ".tmp";
  if (name.size() > end.size() && name.front() != '.' && name.ends_with(end))
    return name.substr(0, name.size() - end.size());
  if (name.front() != '.' || !name.ends_with(part)) return "";
  const std::size_t at = std::min(name.find(".state.", 1), name.find(".npz.", 1));
  return at != std::string::npos ? name.substr(1, at - 1) : "";
}

}  // namespace

void save_checkpoint(const std::filesystem::path& store, const std::string& id, const std::string& state) {
  FileSystem& system = FileSystem::real();
  std::error_code ignored;
  if (!std::filesystem::exists(store / "store.json",
                               ignored))  // moved or deleted: not made anew in its old place
    throw StoreError(fmt::format("{}: there is no store any more", store.string()));
  make_folders(system, store / "checkpoints");
  write_whole(system, file_of(store, id), fmt::format("{:08x}\n", crc32c(state)) + state);
}

bool has_checkpoint(const std::filesystem::path& store, const std::string& id) {
  std::error_code ignored;
  return std::filesystem::exists(file_of(store, id), ignored);
}

std::set<std::string> checkpointed(const std::filesystem::path& store) {
  std::set<std::string> ids;
  std::error_code error;
  for (std::filesystem::directory_iterator at(store / "checkpoints", error);
       !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.front() != '.') ids.insert(run_of(name));
  }
  ids.erase("");
  return ids;
}

SavedState load_checkpoint(const std::filesystem::path& store, const std::string& id) {
  const std::filesystem::path path = file_of(store, id);
  std::error_code ignored;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, ignored))) return {};
  std::string bytes;
  try {
    bytes = read_file(FileSystem::real(), path);
  } catch (const StoreError& error) {
    return {"", error.what()};
  }
  const std::size_t end = std::min(bytes.find('\n'), bytes.size());
  std::string state = bytes.substr(std::min(end + 1, bytes.size()));
  if (state.empty() || bytes.substr(0, end) != fmt::format("{:08x}", crc32c(state)))
    return {"", "its checksum does not match"};
  return {std::move(state), ""};
}

std::filesystem::path set_aside_checkpoint(const std::filesystem::path& store, const std::string& id) {
  FileSystem& system = FileSystem::real();
  const std::filesystem::path folder = store / "quarantine", from = file_of(store, id);
  make_folders(system, folder);
  std::error_code error;
  for (int n = 0;; ++n) {
    std::filesystem::path to = folder / fmt::format("{}.{}.state", id, n);
    if (std::filesystem::exists(std::filesystem::symlink_status(to, error))) continue;
    std::filesystem::rename(from, to, error);
    if (error) throw StoreError(fmt::format("{}: cannot be moved: {}", from.string(), error.message()));
    return to;
  }
}

void drop_checkpoint(const std::filesystem::path& store, const std::string& id) {
  std::error_code ignored;
  std::filesystem::remove(file_of(store, id), ignored);
}

std::size_t sweep_checkpoints(const std::filesystem::path& store,
                              const std::function<bool(const std::string& id)>& over) {
  std::size_t gone = sweep_temporaries(store);
  std::vector<std::filesystem::path> found;
  std::error_code error;
  for (const char* folder : {"checkpoints", "weights"}) {
    for (std::filesystem::directory_iterator at(store / folder, error);
         !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
      const std::string id = run_of(at->path().filename().string());
      if (!id.empty() && over(id)) found.push_back(at->path());
    }
  }
  if (found.empty()) return gone;
  WorkerWatch watch(store, {});
  const std::map<std::string, std::string> claims = watch.claims();
  for (const std::filesystem::path& path : found) {
    const auto claim = claims.find(run_of(path.filename().string()));
    if (claim != claims.end() && watch.lives(claim->second)) continue;
    if (std::filesystem::is_regular_file(std::filesystem::symlink_status(path, error)) &&
        std::filesystem::remove(path, error))
      ++gone;
  }
  return gone;
}

}  // namespace crosstalk

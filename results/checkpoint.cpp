// SPDX-License-Identifier: Apache-2.0
#include "results/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "results/crc32c.h"
#include "results/files.h"
#include "results/store.h"

namespace crosstalk {
namespace {

std::filesystem::path file_of(const std::filesystem::path& store, const std::string& id) {
  return store / "checkpoints" / (id + ".state");
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

}  // namespace crosstalk

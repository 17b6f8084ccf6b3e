// SPDX-License-Identifier: Apache-2.0
#include "results/store/weights.h"

#include <fmt/format.h>

#include "results/store/files.h"
#include "results/store/store.h"

namespace crosstalk {

std::filesystem::path weights_path(const std::filesystem::path& store, const std::string& id) {
  return file_named(store / "weights", id, ".npz");
}

void save_weights(const std::filesystem::path& store, const std::string& id, std::string_view npz) {
  FileSystem& system = FileSystem::real();
  std::error_code ignored;
  if (!std::filesystem::exists(store / "store.json", ignored))  // moved or deleted
    throw StoreError(fmt::format("{}: there is no store any more", store.string()));
  make_folders(system, store / "weights");
  write_whole(system, weights_path(store, id), npz);
}

std::set<std::string> kept_weights(const std::filesystem::path& store) {
  std::set<std::string> ids;
  std::error_code error;
  for (std::filesystem::directory_iterator at(store / "weights", error);
       !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    const std::filesystem::path& path = at->path();
    const std::string name = path.stem().string();
    if (path.extension() == ".npz" && name.front() != '.' && name.find('@') == name.npos) ids.insert(name);
  }
  return ids;
}

std::string read_weights(const std::filesystem::path& file) { return read_file(FileSystem::real(), file); }

}  // namespace crosstalk

// SPDX-License-Identifier: Apache-2.0
#include "results/store/weights.h"

#include <fmt/format.h>

#include "results/store/files.h"
#include "results/store/store.h"

namespace crosstalk {
namespace {

/// A zip archive with this comment: its length are the last two bytes of the end record, its text follows them.
std::string with_comment(std::string npz, const std::string& comment) {
  constexpr std::size_t end_size = 22;
  const bool bare = npz.size() >= end_size && npz.compare(npz.size() - end_size, 4, "PK\5\6") == 0 &&
                    npz.compare(npz.size() - 2, 2, std::string(2, '\0')) == 0;
  if (!bare) return npz;
  npz[npz.size() - 2] = static_cast<char>(comment.size());
  return npz + comment;
}

}  // namespace

std::filesystem::path weights_path(const std::filesystem::path& store, const std::string& id) {
  return file_named(store / "weights", id, ".npz");
}

void save_weights(const std::filesystem::path& store, const std::string& id, std::string_view npz) {
  FileSystem& system = FileSystem::real();
  std::error_code ignored;
  if (!std::filesystem::exists(store / "store.json", ignored))  // moved or deleted
    throw StoreError(fmt::format("{}: there is no store any more", store.string()));
  make_folders(system, store / "weights");
  write_whole(system, weights_path(store, id), with_comment(std::string(npz), id));
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

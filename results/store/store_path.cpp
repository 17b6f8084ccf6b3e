// Whether a path is a store, can become one, or cannot. Looks only; changes nothing.
// SPDX-License-Identifier: Apache-2.0
#include "results/store/store_path.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <vector>

#include "results/json_bounds.h"
#include "results/store/files.h"
#include "results/store/store.h"

namespace crosstalk {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& path, const std::string& why) {
  throw StorePathError(fmt::format("'{}' cannot be a store: {}", path.string(), why));
}

void require_writable(const fs::path& store, const fs::path& folder) {
  if (::access(folder.c_str(), W_OK | X_OK) == 0) return;
  refuse(store, fmt::format("the folder '{}' cannot be written to: {}; give another place with --out",
                            folder.string(), reason_of(errno)));
}

// Entries of a folder that is not a store; left-overs of a store whose making was interrupted do not count.
std::vector<std::string> foreign_entries(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error); !error && at != fs::directory_iterator();
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.rfind(".store.json.", 0) != 0) names.push_back(name);
  }
  if (error) refuse(folder, fmt::format("it cannot be listed: {}", error.message()));
  std::ranges::sort(names);
  return names;
}

void check_folder(const fs::path& store) {
  if (read_mark(FileSystem::real(), store) == StoreMark::missing) {
    const std::vector<std::string> names = foreign_entries(store);
    // Looked at again: another process may have made the store between the two looks. store.json comes first.
    if (!names.empty() && read_mark(FileSystem::real(), store) == StoreMark::missing) {
      std::string shown = names[0];
      for (std::size_t i = 1; i < std::min<std::size_t>(names.size(), 3); ++i) shown += ", " + names[i];
      refuse(
          store,
          fmt::format(
              "it is a folder with other things in it ({}{}) and has no store.json; give a new or an empty folder, or an existing store",
              shown, names.size() > 3 ? fmt::format(", ... {} in all", names.size()) : ""));
    }
  }
  require_writable(store, store);
  std::error_code ignored;
  const fs::path shards = store / "shards";
  if (!fs::exists(shards, ignored)) return;
  if (!fs::is_directory(shards, ignored)) refuse(store, fmt::format("'{}' is not a folder", shards.string()));
  require_writable(store, shards);
}

// The path does not exist: can it be made?
void check_missing(const fs::path& store) {
  fs::path above = store;
  std::error_code error;
  while (!fs::exists(fs::symlink_status(above, error))) {
    if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory) {
      refuse(store, error.message());
    }
    const fs::path next = above.parent_path();
    if (next.empty() || next == above) break;
    above = next;
  }
  const fs::file_status status = fs::status(above, error);
  if (!fs::exists(status)) {
    if (fs::is_symlink(fs::symlink_status(above, error))) {
      refuse(store, fmt::format("'{}' is a symbolic link that leads nowhere", above.string()));
    }
    refuse(store, error ? error.message() : "it has no parent folder");
  }
  if (!fs::is_directory(status)) refuse(store, fmt::format("'{}' is a file, not a folder", above.string()));
  require_writable(store, above);
}

}  // namespace

const char* mark_text() { return "{\"format\":1,\"created_by\":\"crosstalk\"}\n"; }

StoreMark read_mark(FileSystem& system, const fs::path& store) {
  std::error_code error;
  const fs::path path = store / "store.json";
  if (!fs::exists(fs::symlink_status(path, error))) return StoreMark::missing;
  if (::access(path.c_str(), R_OK) != 0) {
    throw StorePathError(fmt::format("{}: cannot be read: {}", path.string(), reason_of(errno)));
  }
  constexpr std::size_t most = 1 << 20;
  return mark_of(read_file(system, path, most), path.string());
}

StoreMark mark_of(const std::string& text, const std::string& path) {
  if (nests_deeply(text)) return StoreMark::damaged;
  const nlohmann::json mark = nlohmann::json::parse(text, nullptr, false);
  if (!mark.is_object() || !mark.contains("format") || !mark["format"].is_number_integer()) {
    return StoreMark::damaged;
  }
  if (mark["format"] != store_format) {
    throw StorePathError(fmt::format(
        "{}: a store of format {}, written by another version of crosstalk; this version reads and writes format {}",
        path, mark["format"].dump(), store_format));
  }
  return StoreMark::good;
}

void check_store_path(const fs::path& path) {
  if (path.empty())
    throw StorePathError("the path of the store is empty; give a folder, such as 'runs/my_study'");
  std::error_code error;
  fs::path store = fs::absolute(path, error);
  if (error) refuse(path, fmt::format("the current folder is not known: {}", error.message()));
  if (!store.has_filename()) store = store.parent_path();
  const fs::file_status status = fs::status(store, error);
  if (fs::is_directory(status)) return check_folder(store);
  if (fs::exists(status)) refuse(path, "a file of this name exists; a store is a folder");
  if (status.type() == fs::file_type::not_found) return check_missing(store);
  refuse(path, error.message());
}

}  // namespace crosstalk

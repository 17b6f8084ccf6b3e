// SPDX-License-Identifier: Apache-2.0
#include "tasks/given_files.h"

namespace crosstalk {

std::vector<std::string> GivenFiles::in(const std::string& folder, const std::vector<std::string>& names) {
  std::vector<std::string> paths;
  for (const char* split : {"train", "eval", "test"})
    for (const char* between : {"_", "/"})
      for (const std::string& name : names)
        paths.push_back(
            (std::filesystem::path(folder) / fmt::format("{}{}{}.npy", split, between, name)).string());
  return paths;
}

GivenFiles::GivenFiles(const std::string& folder, const std::vector<std::string>& names)
    : folder_(folder), paths_(in(folder, names)), stamps_(paths_) {}

void GivenFiles::end_reading() const {
  if (const std::string path = stamps_.changed(); !path.empty() || is_broken())
    throw OptionError("task.folder",
                      fmt::format("{}: was written while it was read; start again when all files are there",
                                  path.empty() ? folder_ : path));
}

std::optional<FilesChanged> GivenFiles::changed() const {
  const std::lock_guard lock(mutex_);
  const std::string path = stamps_.changed();
  if (path.empty() && !is_broken()) return std::nullopt;
  if (is_held()) {  // what was read is still there; files that were only touched, or written anew, say the same
    FileStamps now(paths_);
    try {
      if (content_now() == content_) {
        stamps_ = std::move(now);
        return std::nullopt;
      }
    } catch (const OptionError&) {  // gone, or half written
    }
  }
  return FilesChanged(
      "task.folder",
      fmt::format("{}: was changed after it was read, and runs train on it; of what it holds now nothing is "
                  "recorded. Bring the files of {} back as they were, and the same command trains what is "
                  "missing; as they are now, it makes runs of their own",
                  path.empty() ? folder_ : path, folder_));
}

std::string wrapped_text(int bytes, std::int64_t number, const std::string& place) {
  return fmt::format(
      "holds {0} at {1}, which {2} (none) becomes where it is saved as uint{3}; save what is still signed as int64: there {2} is "
      "none, and {0} is meant",
      number, place, number - (std::int64_t{1} << (8 * bytes)), 8 * bytes);
}

std::optional<FilesChanged> files_changed(const Task& task) {
  const auto* reads = dynamic_cast<const ReadsFiles*>(&task);
  return reads == nullptr ? std::nullopt : reads->files().changed();
}

void require_unchanged(const Task& task) {
  if (const auto* reads = dynamic_cast<const ReadsFiles*>(&task);
      reads == nullptr || reads->files().is_held())
    return;
  if (const auto changed = files_changed(task)) throw *changed;
}

}  // namespace crosstalk

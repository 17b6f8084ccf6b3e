// SPDX-License-Identifier: Apache-2.0
#include "tasks/given_files.h"

#include <algorithm>

namespace crosstalk {

std::vector<std::string> GivenFiles::arrays_in(const std::string& folder,
                                               const std::vector<std::string>& names) {
  std::vector<std::string> paths;
  for (const char* split : {"train", "eval", "test"})
    for (const char* between : {"_", "/"})
      for (const std::string& name : names)
        paths.push_back(
            (std::filesystem::path(folder) / fmt::format("{}{}{}.npy", split, between, name)).string());
  return paths;
}

GivenFiles::GivenFiles(std::string folder, std::vector<std::string> paths)
    : paths_(std::move(paths)), folder_(std::move(folder)), stamps_(paths_) {}

void GivenFiles::refuse_others(const std::string& folder, const std::vector<std::string>& names, bool all) {
  namespace fs = std::filesystem;
  const std::vector<std::string> right = arrays_in("", names);
  const auto near = [&](const std::string& name) {
    const std::size_t cut = name.find_first_of("_/") + 1, dot = name.rfind('.');
    const std::string split = name.substr(0, cut), what = nearest_name(name.substr(cut, dot - cut), names);
    const bool known =
        split.size() > 1 && std::find(right.begin(), right.end(), split + names[0] + ".npy") != right.end();
    return known ? (what.empty() ? "" : split + what + ".npy") : nearest_name(name, right);
  };
  std::map<std::string, std::string> others;  // and what they may be meant to be
  for (const char* inside : {"", "train", "eval", "test"}) {
    std::error_code error;
    for (fs::directory_iterator at(fs::path(folder) / inside, error), end; !error && at != end;
         at.increment(error)) {
      const std::string name = (inside / at->path().filename()).string();
      if (name.ends_with(".npy") && std::find(right.begin(), right.end(), name) == right.end())
        others.emplace(name, near(name));
    }
  }
  for (const auto& [name, meant] : others)
    if (all || !meant.empty())
      throw OptionError("task.folder",
                        fmt::format("{}: is no array that this task reads; {}move it to another folder",
                                    (fs::path(folder) / name).string(),
                                    meant.empty() ? "" : fmt::format("did you mean {}? Else ", meant)));
}

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
      fmt::format(
          "{}: was changed after it was read, and runs train on it; of what it holds now nothing is recorded. Bring the files of {} back as "
          "they were, and the same command trains what is missing; as they are now, it makes runs of their own",
          path.empty() ? folder_ : path, folder_));
}

std::string wrapped_text(int bytes, std::int64_t number, const std::string& place) {
  return fmt::format(
      "holds {0} at {1}, which {2} (none) becomes where it is saved as uint{3}; save what is still signed as "
      "int64: there {2} is none, and {0} is meant",
      number, place, number - (std::int64_t{1} << (8 * bytes)), 8 * bytes);
}

std::optional<FilesChanged> files_changed(const Task& task) {
  const auto* reads = dynamic_cast<const ReadsFiles*>(&task);
  return reads == nullptr ? std::nullopt : reads->files().changed();
}

std::vector<std::string> unused_of(const Task& task) {
  const auto* reads = dynamic_cast<const ReadsFiles*>(&task);
  return reads == nullptr ? std::vector<std::string>() : reads->files().unused();
}

void require_unchanged(const Task& task) {
  if (const auto* reads = dynamic_cast<const ReadsFiles*>(&task);
      reads == nullptr || reads->files().is_held())
    return;
  if (const auto changed = files_changed(task)) throw *changed;
}

void resolve_size(Options& options, const std::string& key, std::int64_t least, std::int64_t standard,
                  const std::string& what) {
  if (options.get_int(key) == 0)
    options.set(key, standard);
  else if (options.get_int(key) < least)
    refuse(
        options, key,
        fmt::format(", but the files of {} hold the {} {}; give at least {}, or 0 for as many as there are",
                    options.get_string("task.folder"), what, least - 1, least));
}

}  // namespace crosstalk

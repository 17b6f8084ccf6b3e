// Files of somebody's own that a task reads: read once, told by their content, and known to be those that were read.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "kernels/base/text/file_stamps.h"
#include "kernels/base/text/options.h"
#include "tasks/fused_task.h"

namespace crosstalk {

class GivenFiles {
 public:
  virtual ~GivenFiles() = default;

  /// XXH3-128 of what the sequences are, in hexadecimal: the same whatever the integers' width.
  const std::string& content() const { return content_; }
  const std::string& folder() const { return folder_; }
  /// What is there and not used, a sentence each.
  const std::vector<std::string>& unused() const { return unused_; }
  /// Whether nothing is read from the files any more.
  virtual bool is_held() const { return true; }
  /// None as long as sequences are those of content().
  std::optional<FilesChanged> changed() const;

 protected:
  /// `paths`: all that may be read, there or not.
  GivenFiles(std::string folder, std::vector<std::string> paths);
  /// SPLIT_NAME.npy and SPLIT/NAME.npy of the folder.
  static std::vector<std::string> arrays_in(const std::string& folder, const std::vector<std::string>& names);
  /// Refuses arrays beside those of `names` (SPLIT_NAME.npy, SPLIT/NAME.npy), which would be left out without a word: all, or those
  /// whose names are slips of the pen.
  static void refuse_others(const std::string& folder, const std::vector<std::string>& names, bool all);
  /// All was read: throws where a file was written meanwhile.
  void end_reading() const;
  /// Whether a number was read, or could not be, that was not there before, whatever stamps say.
  virtual bool is_broken() const { return false; }
  virtual std::string content_now() const = 0;

  std::string content_;
  std::vector<std::string> unused_;
  const std::vector<std::string> paths_;  ///< all that may be read

 private:
  std::string folder_;
  mutable std::mutex mutex_;
  mutable FileStamps stamps_;
};

/// Whether a number of an unsigned array is what -1 or -100 (none) become in so many bytes. From uint64 int64 reads those two.
inline bool is_wrapped(int bytes, std::int64_t number) {
  const std::int64_t before = bytes > 4 ? 0 : number - (std::int64_t{1} << (8 * bytes));
  return before == -1 || before == -100;
}
/// What is to be said of one at `place`, "[3, 1]".
std::string wrapped_text(int bytes, std::int64_t number, const std::string& place);

inline constexpr const char* split_names[] = {"train", "eval", "test"};  // by Split
inline constexpr std::int64_t largest_id = static_cast<std::int64_t>(max_option_size) - 1;

template <class... Arguments>
[[noreturn]] void refuse_files(fmt::format_string<Arguments...> message, Arguments&&... arguments) {
  throw OptionError("task.folder", fmt::format(message, std::forward<Arguments>(arguments)...));
}

/// "[3, 0, 1]".
inline std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

/// Sets a size that is 0 to `standard`; refuses one below `least`, which is 1 + the largest `what` in the files.
void resolve_size(Options& options, const std::string& key, std::int64_t least, std::int64_t standard,
                  const std::string& what);

/// What brings data of another form (.npz, .safetensors, .pt, .parquet, a dataset of Hugging Face) that lies at `path`, a file
/// or in a folder, into .npy files; none where nothing of the kind is there.
std::optional<std::string> remedy_for(const std::string& path);

/// A task of such files.
class ReadsFiles {
 public:
  virtual ~ReadsFiles() = default;
  virtual const GivenFiles& files() const = 0;
};

/// Of tasks without files none.
std::optional<FilesChanged> files_changed(const Task& task);
std::vector<std::string> unused_of(const Task& task);
/// Throws where sequences that were drawn may not have been of what was read first. Of what is held it asks nothing.
void require_unchanged(const Task& task);

/// The files of `folder`, read once a process as long as they stay as they are.
template <class Data>
std::shared_ptr<const Data> files_in(const std::string& folder) {
  static std::mutex mutex;
  static auto& known =
      *new std::map<std::string, std::shared_ptr<const Data>>;  // never freed: the device may be gone by then
  const std::lock_guard lock(mutex);
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored))
    throw OptionError(
        "task.folder",
        fmt::format("task.folder = \"{:.500}\": {:.500} is no folder; {}", folder,
                    std::filesystem::absolute(folder, ignored).string(),
                    remedy_for(folder).value_or(fmt::format("it must hold {} ('crosstalk describe {}')",
                                                            Data::kHolds, Data::kTask))));
  std::shared_ptr<const Data>& data = known[folder];
  if (!data || data->changed()) data = std::make_shared<const Data>(folder);
  return data;
}

/// The files that options name. Those of resolved options must be the ones that were resolved.
template <class Data>
std::shared_ptr<const Data> files_of(const Options& options) {
  const std::string &folder = options.get_string("task.folder"), &wanted = options.get_string("task.content");
  if (folder.empty())
    throw OptionError(
        "task.folder",
        fmt::format(
            "task {0} needs task.folder, where it finds {1}; 'crosstalk describe {0}' says what they hold",
            Data::kTask, Data::kHolds));
  std::shared_ptr<const Data> data;
  try {
    data = files_in<Data>(folder);
  } catch (const OptionError& error) {
    if (wanted.empty()) throw;
    throw FilesChanged(error.key, error.what());
  }
  if (!wanted.empty() && wanted != data->content())
    throw FilesChanged(
        "task.content",
        fmt::format("the files of {} hold other data (content {}) than this run's ({}): bring those back, or "
                    "leave out task.content, which makes runs of their own for the new ones",
                    folder, data->content(), wanted));
  return data;
}

}  // namespace crosstalk

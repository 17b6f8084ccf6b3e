// Requests to a store.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/common/requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <new>

#include "experiments/common/text.h"
#include "results/store/crc32c.h"
#include "results/store/files.h"
#include "results/store/store.h"

namespace crosstalk::program {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMark = ".request-";
/// A study has 4 MB at most, of which JSON spells line ends and quotes with two bytes.
constexpr std::size_t kMostBytes = std::size_t{16} << 20;

/// Files of requests, by name.
std::vector<fs::path> request_files(const fs::path& store) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator at(store / "studies", error); !error && at != fs::directory_iterator();
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.front() != '.' && name.find(kMark) != std::string::npos && at->path().extension() == ".json")
      paths.push_back(at->path());
  }
  std::ranges::sort(paths);
  return paths;
}

}  // namespace

void keep_request(const fs::path& store, const Request& request) {
  std::uint32_t hash = 0;
  for (const std::string& set : request.set) hash = crc32c(set + "\n", hash);
  const fs::path path = store / "studies" / fmt::format("{}{}{:08x}.json", request.study, kMark, hash);
  const std::string text = text_of(request);
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored) && read_file(FileSystem::real(), path) == text) return;
  make_folders(FileSystem::real(), store / "studies");
  write_whole(FileSystem::real(), path, text);
}

std::string requests_stamp(const fs::path& store) {
  std::string stamp;
  for (const fs::path& path : request_files(store)) {
    std::error_code ignored;
    const auto time = fs::last_write_time(path, ignored).time_since_epoch().count();
    stamp += fmt::format("{} {} {}\n", path.filename().string(), time, fs::file_size(path, ignored));
  }
  return stamp;
}

std::vector<Request> read_requests(const fs::path& store, std::vector<std::string>& warnings) {
  std::vector<Request> requests;
  for (const fs::path& path : request_files(store)) {
    try {
      requests.push_back(request_of(read_file(FileSystem::real(), path, kMostBytes)));
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& problem) {
      std::error_code ignored;
      if (!fs::exists(fs::symlink_status(path, ignored))) continue;  // withdrawn since they were listed
      warnings.push_back(fmt::format("{}: left out: {}", path.string(), problem.what()));
    }
  }
  return requests;
}

Study joint_study(const std::vector<Request>& requests, const fs::path& store,
                  std::map<std::string, std::string>& names, std::vector<std::string>& problems) {
  Study joint;
  std::map<std::string, std::size_t> places;
  for (const Request& request : requests) {
    StudyOptions options;
    options.set = request.set;
    options.max_runs = std::numeric_limits<std::int64_t>::max();  // it was allowed when it was asked
    Study study;
    try {
      study = parse_study(request.text, (store / "studies" / (request.study + ".toml")).string(), options);
    } catch (const ConfigError& error) {
      problems.emplace_back(error.what());
      continue;
    }
    if (joint.name.find(study.name) == std::string::npos)
      joint.name += (joint.name.empty() ? "" : " + ") + study.name;
    for (const Run& run : study.runs) {
      const auto [place, is_new] = places.try_emplace(run.id, joint.runs.size());
      if (!is_new) keep_both(joint.runs[place->second], run);
      if (!is_new) continue;
      names[run.id] = study.name;
      joint.runs.push_back(run);
    }
  }
  return joint;
}

}  // namespace crosstalk::program

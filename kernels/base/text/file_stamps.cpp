// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/text/file_stamps.h"

#include <sys/stat.h>

#include <chrono>
#include <thread>

namespace crosstalk {

FileStamps::Stamp FileStamps::stamp_of(const std::string& path) {
  struct stat s = {};
  if (::stat(path.c_str(), &s) != 0) return {-1};
  const auto number = [](auto x) { return static_cast<std::int64_t>(x); };
  return {number(s.st_dev),         number(s.st_ino),          number(s.st_size),
          number(s.st_mtim.tv_sec), number(s.st_mtim.tv_nsec), number(s.st_ctim.tv_sec),
          number(s.st_ctim.tv_nsec)};
}

FileStamps::FileStamps(std::vector<std::string> paths) : paths_(std::move(paths)) {
  using namespace std::chrono;
  constexpr std::int64_t tick = 20'000'000;         // in nanoseconds; kernels have 1 to 10 milliseconds
  for (int attempt = 0; attempt < 50; ++attempt) {  // somebody may go on writing
    const std::int64_t now = duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count();
    std::int64_t youngest = tick;
    stamps_.clear();
    for (const std::string& path : paths_) {
      const Stamp& stamp = stamps_.emplace_back(stamp_of(path));
      if (const std::int64_t age = now - (stamp[5] * 1'000'000'000 + stamp[6]); stamp[0] != -1 && age >= 0)
        youngest = std::min(youngest, age);
    }
    if (youngest == tick) return;
    std::this_thread::sleep_for(nanoseconds(tick - youngest));
  }
}

std::string FileStamps::changed() const {
  for (std::size_t i = 0; i < paths_.size(); ++i)
    if (stamp_of(paths_[i]) != stamps_[i]) return paths_[i];
  return "";
}

}  // namespace crosstalk

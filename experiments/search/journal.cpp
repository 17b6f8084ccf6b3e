// SPDX-License-Identifier: Apache-2.0
#include "experiments/search/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "results/store/store.h"

namespace crosstalk::search {

Journal::Journal(const std::filesystem::path& path) : path_(path.string()) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  file_ = ::open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0) throw StoreError(fmt::format("{}: cannot be opened: {}", path_, std::strerror(errno)));
  if (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
    ::close(file_);
    throw StoreError(
        fmt::format("{}: another process searches here; wait for it, or give another --out", path_));
  }
  std::ifstream stream(path_, std::ios::binary);
  std::ostringstream all;
  all << stream.rdbuf();
  const std::string text = all.str();
  const std::size_t whole = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
  if (whole < text.size() && ::ftruncate(file_, static_cast<off_t>(whole)) != 0)
    throw StoreError(fmt::format("{}: cannot be cut: {}", path_, std::strerror(errno)));
  std::istringstream lines(text.substr(0, whole));
  for (std::string line; std::getline(lines, line);)
    if (nlohmann::json read = nlohmann::json::parse(line, nullptr, false); read.is_object())
      lines_.push_back(std::move(read));
}

Journal::~Journal() { ::close(file_); }

void Journal::append(const nlohmann::json& line) {
  const std::string text = line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  if (::write(file_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    throw StoreError(fmt::format("{}: cannot be written: {}", path_, std::strerror(errno)));
}

}  // namespace crosstalk::search

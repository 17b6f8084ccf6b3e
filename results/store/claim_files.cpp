// Names, links and files in the folder of the claims.
// SPDX-License-Identifier: Apache-2.0
#include "results/store/claim_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "results/json_bounds.h"
#include "results/store/files.h"

namespace crosstalk {
namespace {

namespace fs = std::filesystem;

/// Of a worker's file; more is not read.
constexpr std::size_t kMostBytes = 1 << 16;
/// Seconds between heartbeats, of which four are a lease: workers say 5 at most, and no file makes others wait for longer
/// than a lease is by default.
constexpr double kLongestBeat = 15;

/// A JSON object; discarded where it is none.
nlohmann::json object_of(std::string_view text) {
  const nlohmann::json none(nlohmann::json::value_t::discarded);
  if (nests_deeply(text)) return none;
  nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  return json.is_object() ? json : none;
}

/// "" for what is no regular file, or cannot be read: never waited for.
std::string text_of(const fs::path& path) {
  const File file(FileSystem::real(), ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status {};
  if (!file.is_open() || ::fstat(file.number(), &status) != 0 || !S_ISREG(status.st_mode)) return "";
  std::string text(kMostBytes, '\0');
  const ssize_t size = ::read(file.number(), text.data(), text.size());
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, size)));
  return text;
}

}  // namespace

bool ends_in(const std::string& name, std::string_view end) {
  return name.size() > end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0;
}

bool is_worker_name(const std::string& name) {
  return ends_in(name, kWorker) && name.find_first_of(std::string_view("/\0", 2)) == std::string::npos &&
         name.front() != '.';
}

std::string process_of(const std::string& name) {
  return name.substr(0, std::min(name.rfind('-'), name.size()));
}

std::optional<std::string> holder_of(const fs::path& claim) {
  std::array<char, 512> target{};
  const ssize_t size = ::readlink(claim.c_str(), target.data(), target.size() - 1);
  if (size <= 0) return std::nullopt;
  return std::string(target.data(), static_cast<std::size_t>(size));
}

std::optional<ClaimingWorker> worker_of_text(std::string_view text, const std::string& name) {
  const nlohmann::json json = object_of(text);
  if (json.is_discarded()) return std::nullopt;
  try {
    const auto process = process_identity(json.at("process"));
    const auto beat = integer_of(json.at("beat"));
    if (!process || !beat) return std::nullopt;
    ClaimingWorker worker;
    worker.name = name;
    worker.process = *process;
    worker.beat = *beat;
    worker.every = json.at("every").get<double>();
    if (!(worker.every > 0 && worker.every <= kLongestBeat)) return std::nullopt;
    worker.activity = json.at("activity");
    if (!worker.activity.is_object()) worker.activity = nlohmann::json::object();
    return worker;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

std::optional<ClaimingWorker> read_worker(const fs::path& path) {
  return worker_of_text(text_of(path), path.stem().string());
}

}  // namespace crosstalk

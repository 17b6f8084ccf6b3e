// Which process of which machine.
// SPDX-License-Identifier: Apache-2.0
#include "results/store/process_identity.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "results/json_bounds.h"

namespace crosstalk {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// State and start of a process as /proc/PID/stat has them; state '\0' if it cannot be read.
struct Stat {
  char state = '\0';
  std::int64_t started = 0;
};

Stat stat_of(const std::string& pid) {
  const std::string line = first_line("/proc/" + pid + "/stat");
  // The second field, the command's name, may hold spaces and brackets; it ends at the last bracket.
  const std::size_t end = line.rfind(')');
  if (end == std::string::npos) return {};
  std::istringstream rest(line.substr(end + 1));
  Stat stat;
  std::string skipped;
  rest >> stat.state;
  for (int field = 4; field < 22; ++field) rest >> skipped;
  rest >> stat.started;
  return rest ? stat : Stat{};
}

}  // namespace

ProcessIdentity this_process() {
  ProcessIdentity process;
  std::array<char, 256> host{};
  process.host = ::gethostname(host.data(), host.size() - 1) == 0 && host[0] != '\0' ? host.data() : "host";
  process.boot = first_line("/proc/sys/kernel/random/boot_id");
  std::error_code ignored;
  process.space = std::filesystem::read_symlink("/proc/self/ns/pid", ignored).string();
  process.pid = ::getpid();
  process.started = stat_of("self").started;
  return process;
}

Pulse pulse_of(const ProcessIdentity& other, const ProcessIdentity& own) {
  if (own.boot.empty() || own.space.empty() || other.boot != own.boot || other.space != own.space ||
      other.pid <= 0 || !std::in_range<pid_t>(other.pid))
    return Pulse::unknown;
  // kill() also tells of processes that /proc hides from other users.
  if (::kill(static_cast<pid_t>(other.pid), 0) != 0 && errno == ESRCH) return Pulse::dead;
  const Stat stat = stat_of(std::to_string(other.pid));
  if (stat.state == '\0') return Pulse::alive;
  if (stat.state == 'Z' || stat.state == 'X') return Pulse::dead;
  return other.started != 0 && stat.started != other.started ? Pulse::dead : Pulse::alive;
}

nlohmann::json to_json(const ProcessIdentity& process) {
  return {{"host", process.host},
          {"boot", process.boot},
          {"space", process.space},
          {"pid", process.pid},
          {"started", process.started}};
}

std::optional<ProcessIdentity> process_identity(const nlohmann::json& json) {
  try {
    const auto pid = integer_of(json.at("pid")), started = integer_of(json.at("started"));
    if (!pid || !started) return std::nullopt;
    return ProcessIdentity{json.at("host").get<std::string>(), json.at("boot").get<std::string>(),
                           json.at("space").get<std::string>(), *pid, *started};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

double said(const nlohmann::json& activity, const char* key, double otherwise) {
  const auto found = activity.find(key);
  return found != activity.end() && found->is_number() ? found->get<double>() : otherwise;
}

}  // namespace crosstalk

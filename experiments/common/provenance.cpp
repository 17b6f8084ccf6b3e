// Provenance of records.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/common/provenance.h"

#include <sys/utsname.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fstream>

#include "experiments/common/version.h"
#include "experiments/study/study.h"

namespace crosstalk::program {
namespace {

/// Value of the first line that begins with `key`, after `separator`; "unknown" if there is none.
std::string field_of(const char* path, const std::string& key, char separator) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key, 0) != 0) continue;
    const auto at = line.find(separator);
    if (at == std::string::npos) continue;
    const auto begin = line.find_first_not_of(" \t\"", at + 1);
    if (begin == std::string::npos) continue;
    return line.substr(begin, line.find_last_not_of(" \t\"") + 1 - begin);
  }
  return "unknown";
}

}  // namespace

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts = {};
  gmtime_r(&now, &parts);
  char text[32];
  return std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts) > 0 ? text : "unknown";
}

nlohmann::json process_provenance(const std::string& command, const std::string& device, int threads) {
  utsname names = {};
  const bool known = ::uname(&names) == 0;
  const Version& built = version();
  nlohmann::json json = {
      {"host", known ? names.nodename : "unknown"},
      {"cpu", field_of("/proc/cpuinfo", "model name", ':')},
      {"os", field_of("/etc/os-release", "PRETTY_NAME=", '=')},
      {"kernel", known ? names.release : "unknown"},
      {"device", device},
      {"threads", threads},
      {"version", built.version},
      {"commit", built.commit},
      {"dirty", built.dirty},
      {"compiler", built.compiler},
      {"build_type", built.build_type},
      {"flags", built.flags},
      {"semantics", kSemantics},
      {"command", command},
      {"started", utc_now()},
  };
  for (const auto& [key, variable] :
       {std::pair{"slurm_job", "SLURM_JOB_ID"}, std::pair{"slurm_restarts", "SLURM_RESTART_COUNT"}})
    if (const char* value = std::getenv(variable)) json[key] = value;
  return json;
}

}  // namespace crosstalk::program

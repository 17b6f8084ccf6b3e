// Which process of which machine: what a claim says of its owner, and whether that process still runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace crosstalk {

struct ProcessIdentity {
  std::string host;
  std::string boot;      ///< boot id: a machine that was started anew has another one; "" = unknown
  std::string space;     ///< name space of process numbers: containers of one machine differ in it
  std::int64_t pid = 0;  ///< in that name space
  std::int64_t started =
      0;  ///< clock ticks from boot to the process' start: numbers are used again; 0 = unknown
};

ProcessIdentity this_process();

/// `unknown`: it belongs to another machine or container.
enum class Pulse { alive, dead, unknown };
Pulse pulse_of(const ProcessIdentity& other, const ProcessIdentity& own);

nlohmann::json to_json(const ProcessIdentity& process);
/// Nothing if fields are missing or of another type.
std::optional<ProcessIdentity> process_identity(const nlohmann::json& json);

/// A number of what a process says of its work, an object; `otherwise` where it says none.
double said(const nlohmann::json& activity, const char* key, double otherwise = 0);

}  // namespace crosstalk

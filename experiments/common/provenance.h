// Where, when and by what a record was made: beside the results, never part of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace crosstalk::program {

/// The part that is equal for all records of one process: host, cpu, os, device, threads, version, commit,
/// dirty, compiler, build_type, flags, semantics, command, started, and Slurm's job where there is one.
nlohmann::json process_provenance(const std::string& command, const std::string& device, int threads);

/// "2026-01-31T12:00:00Z".
std::string utc_now();

}  // namespace crosstalk::program

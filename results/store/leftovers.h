// Temporary files that processes left when they were killed.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <filesystem>

namespace crosstalk {

/// Removes temporary files of processes that are gone: of this machine, by their number, after some seconds; of others
/// after a day, which no write takes. Returns how many. What cannot be removed stays.
std::size_t sweep_temporaries(const std::filesystem::path& store);

}  // namespace crosstalk

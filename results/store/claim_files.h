// Names, links and files in the folder of the claims: what another process, or anybody, wrote there. All of it is read as if
// it were hostile: a name is a name and never a path, and what is no worker's file reads as none.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "results/store/claims.h"

namespace crosstalk {

inline constexpr std::string_view kWorker = ".worker", kDead = ".dead", kTemporary = ".tmp";

bool ends_in(const std::string& name, std::string_view end);

/// Whether this can be the name of a worker's file, in the folder and nowhere else.
bool is_worker_name(const std::string& name);

/// The name of the process that a worker's name, or a shard's, begins with: what stands before the last '-'.
std::string process_of(const std::string& name);

/// Where a link leads, if it is a claim: the name of a worker's file, or whatever somebody wrote there.
std::optional<std::string> holder_of(const std::filesystem::path& claim);

/// What a worker's file says; `name`: of the file, without its ending.
std::optional<ClaimingWorker> worker_of_text(std::string_view text, const std::string& name);
std::optional<ClaimingWorker> read_worker(const std::filesystem::path& path);

}  // namespace crosstalk

// Requests to a store: the study files that `run` and `submit` were given, with their --set, so that a
// worker needs the store and nothing else.
//
//   STORE/studies/NAME.request-HASH.json  the file's text and --set; HASH tells different --set apart
//
// An edited study replaces its earlier request with the same --set.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "experiments/common/request_text.h"
#include "experiments/study/study.h"

namespace crosstalk::program {

/// The store must exist. Throws StoreError.
void keep_request(const std::filesystem::path& store, const Request& request);

/// All requests of a store, by file name; `warnings` name files that are unreadable or too large.
std::vector<Request> read_requests(const std::filesystem::path& store, std::vector<std::string>& warnings);

/// Changes when a request is added, replaced or withdrawn.
std::string requests_stamp(const std::filesystem::path& store);

/// All that the requests ask for as one study: each run once, with all its labels. `names`: of the study that
/// asks for a run, by id. `problems`: of studies that cannot be read here (a folder of data that is not on this
/// machine, say), which are left out.
Study joint_study(const std::vector<Request>& requests, const std::filesystem::path& store,
                  std::map<std::string, std::string>& names, std::vector<std::string>& problems);

}  // namespace crosstalk::program

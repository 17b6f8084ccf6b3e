// The journal of a search, STORE/search/candidates.jsonl: a line of JSON for each law, each training that has come to rest or to
// its end, and each generation. A search is a pure function of its file and of these results: one that goes on draws its laws anew
// and finds here what it need not train again.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace crosstalk::search {

class Journal {
 public:
  /// Opens or makes it, and cuts a line that a kill has torn. Throws StoreError, also where another process has it open.
  explicit Journal(const std::filesystem::path& path);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// What it held when it was opened.
  const std::vector<nlohmann::json>& lines() const { return lines_; }
  /// One write. Throws StoreError.
  void append(const nlohmann::json& line);

 private:
  std::string path_;
  int file_ = -1;
  std::vector<nlohmann::json> lines_;
};

}  // namespace crosstalk::search

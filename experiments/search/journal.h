// The journal of a search, STORE/search/candidates.jsonl: a line of JSON for each law, each training that has come to rest or to
// its end, and each generation. A search is a pure function of its file and of these results: one that goes on draws its laws anew
// and finds here what it need not train again.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "results/store/files.h"

namespace crosstalk::search {

std::filesystem::path journal_of(const std::filesystem::path& store);

/// What a store's search has come to, in a sentence; "" where nothing was searched. Throws StoreError.
std::string summary_of(const std::filesystem::path& store);

class Journal {
 public:
  /// Opens or makes it. Throws StoreError, also where another process has it open.
  explicit Journal(const std::filesystem::path& path);

  /// What it held when it was opened.
  const std::vector<nlohmann::json>& lines() const { return lines_; }
  /// One write. Throws StoreError.
  void append(const nlohmann::json& line);

 private:
  void write(const std::string& text);

  std::filesystem::path path_;
  File file_;
  std::vector<nlohmann::json> lines_;
};

}  // namespace crosstalk::search

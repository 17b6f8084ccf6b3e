// Files of results/published, for the tests that hold them against each other.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>

#include "results/csv.h"

namespace crosstalk {

/// results/published of the sources (published_pages_test.cpp).
std::filesystem::path published_folder();

inline std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// README of results/published with its lines joined, so that sentences can be looked for.
inline std::string flat_page() {
  std::string text = content_of(published_folder() / "README.md");
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

/// Calls row() for each run of an export in results/published.
inline void rows_of_export(const std::string& name, const std::function<void(const CsvRow&)>& row) {
  read_csv(content_of(published_folder() / name), name, row);
}

}  // namespace crosstalk

// What NAME_test.cpp of a task takes: its pinned data, where it says what its streams hash to and golden_test.cpp looks, and
// help for its own tests.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "kernels/testing/refused.h"
#include "tasks/sequence_buffer.h"
#include "tasks/testing.h"

namespace crosstalk::testing {

struct Golden {
  const char* variant;
  Settings settings;
  std::uint64_t train, eval;  ///< stream_hash() of golden_test.cpp
};

/// By the task's name.
inline std::map<std::string, std::vector<Golden>>& golden() {
  static std::map<std::string, std::vector<Golden>> rows;
  return rows;
}
inline bool pin(const std::string& task, std::initializer_list<Golden> rows) {
  golden()[task] = rows;
  return true;
}

/// Numbers of cases, by number.
struct Counts : std::vector<int> {
  using std::vector<int>::vector;
  int& operator[](std::int64_t i) { return at(static_cast<std::size_t>(i)); }
};
inline void expect_uniform(std::initializer_list<std::vector<int>> all) {
  for (const std::vector<int>& counts : all)
    EXPECT_LT(std::abs(uniformity_score(counts)), 4) << ::testing::PrintToString(counts);
}

inline Settings with(Settings settings, const Settings& more) {
  for (const auto& [name, value] : more) settings[name] = value;
  return settings;
}
inline checks::Refused refused(const std::string& task, const Settings& settings) {
  return checks::refused([&] { make_task(task, settings); });
}

}  // namespace crosstalk::testing

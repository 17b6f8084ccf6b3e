// What NAME_test.cpp of a task takes: its pinned data, where it says what its streams hash to and golden_test.cpp looks, and
// help for its own tests.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "kernels/testing/refused.h"
#include "tasks/sequence_buffer.h"
#include "tasks/testing.h"

namespace crosstalk::testing {

using ::testing::HasSubstr;

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

/// The first `count` sequences of a split, one after the other: for (const SequenceView& s : drawn(*task, Split::eval, 3, 200)).
struct Drawn {
  struct At {
    Drawn* all;
    std::uint64_t n;
    SequenceView operator*() const { return all->buffer.draw(all->data_seed, n); }
    void operator++() { ++n; }
    bool operator!=(const At& other) const { return n != other.n; }
  };
  At begin() { return {this, 0}; }
  At end() { return {this, count}; }

  SequenceBuffer buffer;
  std::uint64_t data_seed, count;
  std::shared_ptr<const Task> owned = {};
};
inline Drawn drawn(const Task& task, Split split, std::uint64_t data_seed, std::uint64_t count) {
  return {SequenceBuffer(task, split), data_seed, count};
}
inline Drawn drawn(const std::string& task, const Settings& settings, Split split, std::uint64_t data_seed,
                   std::uint64_t count) {
  const std::shared_ptr<const Task> owned = make_task(task, settings);
  return {SequenceBuffer(*owned, split), data_seed, count, owned};
}

inline Settings with(Settings settings, const Settings& more) {
  for (const auto& [name, value] : more) settings[name] = value;
  return settings;
}
inline checks::Refused refused(const std::string& task, const Settings& settings) {
  return checks::refused([&] { make_task(task, settings); });
}

}  // namespace crosstalk::testing

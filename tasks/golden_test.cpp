// Pins the data: sequence n of a task is the same on every machine, for every later version (level L2).
// SPDX-License-Identifier: Apache-2.0
#include "tasks/golden.h"

namespace crosstalk::testing::golden_test {

/// FNV-1a (64 bit) over the bytes, least significant first, of the first eight sequences of a split.
std::uint64_t stream_hash(const Task& task, Split split) {
  std::uint64_t hash = 14695981039346656037ull;
  SequenceBuffer buffer(task, split);
  for (std::uint64_t n = 0; n < 8; ++n) {
    buffer.draw(0, n);
    for (const std::int32_t element : buffer.contents())
      for (int shift = 0; shift < 32; shift += 8) {
        hash ^= (static_cast<std::uint32_t>(element) >> shift) & 0xffu;
        hash *= 1099511628211ull;
      }
  }
  return hash;
}

TEST(Golden, TheDataStreamIsTheOneThatWasPublished) {
  for (const auto& [name, rows] : golden())
    for (const Golden& row : rows) {
      const auto task = make_task(name, row.settings);
      const std::uint64_t train = stream_hash(*task, Split::train), eval = stream_hash(*task, Split::eval);
      EXPECT_TRUE(train == row.train && eval == row.eval)
          << "the data stream of task " << name << " (" << row.variant
          << ") changed: all results made with it stand for other data now.\nIf that is intended, bump the "
             "task's semantics version (so that run ids change), say so in CHANGELOG.md and pin the new numbers: 0x"
          << std::hex << train << "u, 0x" << eval << "u";
    }
}

TEST(Golden, EveryTaskIsPinned) {
  for (const TaskKind& kind : task_kinds()) {
    const auto task = make_task(kind.name);
    EXPECT_TRUE(golden().contains(kind.name))
        << "no data of task " << kind.name << " is pinned; once it is as it should be, add to tasks/kinds/"
        << kind.name << "_test.cpp\n[[maybe_unused]] const bool pinned = pin(\"" << kind.name
        << "\", {{\"standard\", {}, 0x" << std::hex << stream_hash(*task, Split::train) << "u, 0x"
        << stream_hash(*task, Split::eval) << "u}});";
  }
}

}  // namespace crosstalk::testing::golden_test

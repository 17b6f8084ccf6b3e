// Pins the data: sequence n of a task is the same on every machine, for every later version (level L2).
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tasks/sequence_buffer.h"
#include "tasks/testing.h"

namespace crosstalk {
namespace {

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

struct Golden {
  const char* task;
  const char* variant;
  testing::Settings settings;
  std::uint64_t train, eval;
};

const std::vector<Golden>& golden() {
  using testing::whole;
  static const std::vector<Golden> table = {
      {"recall", "standard", {}, 0xe91d9f692994c0adu, 0xc667ea5f47ec5775u},
      {"recall",
       "mqar",
       {{"keys", whole(50)}, {"values", whole(30)}, {"queries", whole(20)}},
       0x41881cec531762f5u,
       0x88b5f755633eabf5u},
      {"reassign", "standard", {}, 0x2a4c0a093ea42b1eu, 0xcd63413f85c82cc1u},
      {"reassign",
       "by key",
       {{"query_by", std::string("key")}, {"queries", whole(3)}, {"keys", whole(50)}},
       0x18b3ff26c1d4e7fau,
       0xdebb920972684d98u},
      {"reassign", "updates", {{"update_fraction", 0.5}}, 0x78ae7a9767564c8bu, 0xcd6f8ce7733c8610u},
      {"swap", "standard", {}, 0xda29dbeb53c3278cu, 0x184e4a55e69ade91u},
      {"swap",
       "mixed",
       {{"identity_fraction", 0.25}, {"set_fraction", 0.25}, {"values", whole(9)}},
       0x13d4960c41b2a828u,
       0x6a12f78273112beu},
      {"swap",
       "end",
       {{"query_at", std::string("end")}, {"queries", whole(2)}},
       0xf555ed39d532b8c7u,
       0x9f0a0da913ff2e25u},
  };
  return table;
}

TEST(Golden, TheDataStreamIsTheOneThatWasPublished) {
  for (const Golden& row : golden()) {
    const auto task = testing::make_task(row.task, row.settings);
    const std::uint64_t train = stream_hash(*task, Split::train), eval = stream_hash(*task, Split::eval);
    EXPECT_TRUE(train == row.train && eval == row.eval)
        << "the data stream of task " << row.task << " (" << row.variant
        << ") changed: all results made with "
        << "it stand for other data now.\nIf that is intended, bump the task's semantics version (so that "
           "run "
        << "ids change), say so in CHANGELOG.md and pin the new numbers: 0x" << std::hex << train << "u, 0x"
        << eval << "u";
  }
}

TEST(Golden, EveryTaskIsPinned) {
  for (const TaskKind& kind : task_kinds()) {
    bool pinned = false;
    for (const Golden& row : golden()) pinned = pinned || row.task == kind.name;
    EXPECT_TRUE(pinned) << "add a row for task " << kind.name << " to the table in this file";
  }
}

}  // namespace
}  // namespace crosstalk

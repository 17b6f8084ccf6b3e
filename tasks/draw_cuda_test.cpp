// L2: every task draws the same integers on the GPU as on the CPU. Skipped without a GPU.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>

#include "kernels/base/buffer.h"
#include "kernels/base/device/cuda_runtime.h"
#include "kernels/testing/cuda_test.h"
#include "tasks/kinds/file_example.h"
#include "tasks/testing.h"

namespace crosstalk {
namespace {

using testing::make_task;
using testing::Settings;
using testing::whole;

using DrawCuda = checks::CudaTest;

/// Tokens, queries, positions and targets of a batch, one after the other.
std::vector<std::int32_t> batch(Device device, const Task& task, Split split, int B, int R, int max_queries) {
  const SequenceShape shape = task.shape(split, max_queries);
  DrawArgs args;
  args.split = split;
  args.shape = shape;
  args.B = B;
  args.stride = B, args.offset = 3;
  Arena arena(device);
  args.seed = shaped<std::int32_t>(R, {2});
  args.counter = shaped<std::int32_t>(R, {1});
  args.tokens = shaped<std::int32_t>(R, {B, shape.T, shape.C});
  for (auto* t : {&args.query, &args.position, &args.target}) *t = shaped<std::int32_t>(R, {B, shape.Q});
  args.scratch = shaped<std::int32_t>(R, {B, task.scratch_size() + 1});
  Tensor<std::int32_t>* results[] = {&args.tokens, &args.query, &args.position, &args.target};
  for (auto* t : {&args.seed, &args.counter, &args.scratch}) arena.reserve(t);
  for (auto* t : results) arena.reserve(t);
  arena.allocate();
  for (int r = 0; r < R; ++r) {
    const std::int32_t seed[] = {1000003 * r - 7, r / 2}, counter = 5 * r;
    arena.copy_from_host(args.seed.at(r), seed, sizeof seed);
    arena.copy_from_host(args.counter.at(r), &counter, sizeof counter);
  }
  Exec exec;
  exec.device = device;
  std::unique_ptr<CudaStream> stream;
  if (device == Device::cuda) {
    stream = std::make_unique<CudaStream>();
    exec.stream = stream->get();
  } else {
    args.scratch = {};
  }
  task.prepare(device);
  task.draw(exec, args);
  if (stream) stream->synchronise();
  arena.check_guards();
  std::vector<std::int32_t> all;
  for (const auto* t : results) {
    const std::vector<std::int32_t> data = arena.copy_of(*t);
    all.insert(all.end(), data.begin(), data.end());
  }
  return all;
}

TEST_F(DrawCuda, SameIntegersAsOnTheCpu) {
  std::vector<std::pair<std::string, Settings>> tasks = {
      {"file", {{"folder", testing::example_real_folder()}}},
      {"recall", {{"associations", whole(20)}}},
      {"recall", {{"associations", whole(600)}}},
      {"recall",
       {{"associations", whole(7)}, {"keys", whole(40)}, {"values", whole(9)}, {"queries", whole(3)}}},
      {"reassign", {{"associations", whole(20)}}},
      {"reassign", {{"associations", whole(200)}}},
      {"reassign", {{"associations", whole(1500)}}},  // pools beyond shared memory
      {"reassign",
       {{"associations", whole(12)},

        {"update_fraction", 0.25},
        {"queries", whole(4)}}},
      {"swap", {{"operations", whole(64)}}},
      {"swap", {{"layout", std::string("tag")}, {"identity_fraction", 0.1}, {"operations", whole(100)}}},
      {"swap", {{"layout", std::string("split")}, {"identity_fraction", 0.2}, {"set_fraction", 0.2}}},
      {"swap", {{"layout", std::string("split")}, {"query_at", std::string("end")}, {"queries", whole(5)}}},
      {"reassign", {{"layout", std::string("slots")}, {"update_fraction", 0.3}, {"length", whole(160)}}},
      {"reassign",
       {{"layout", std::string("split")}, {"queries", whole(4)}, {"query_by", std::string("key")}}},
      {"words", {{"group", std::string("S5")}, {"factors", std::string("swaps")}, {"length", whole(100)}}},
      {"words", {{"group", std::string("A4xZ5")}, {"query_at", std::string("end")}}},
      {"words", {{"start", true}, {"length", whole(40)}, {"examples", whole(20)}}},
      {"mqar", {{"vocabulary", whole(256)}, {"length", whole(128)}, {"pairs", whole(32)}}},
      {"mqar", {{"length", whole(1024)}, {"pairs", whole(256)}, {"filler", std::string("random")}}},
      {"mqar",
       {{"length", whole(90)},
        {"pairs", whole(5)},
        {"passes", whole(3)},
        {"power", 1.0},
        {"examples", whole(20)}}},
      {"mqar",
       {{"vocabulary", whole(12)}, {"length", whole(60000)}, {"pairs", whole(5)}}},  // beyond shared memory
      {"mad_recall", {{"vocabulary", whole(32)}, {"noise_vocabulary", whole(16)}, {"noise", 0.2}}},
      {"mad_recall", {{"motif", whole(3)}, {"train_labels", std::string("due")}}},
      {"selective_copy", {{"places", std::string("uniform")}, {"examples", whole(20)}}},
      {"arithmetic", {{"form", std::string("flat")}, {"query_at", std::string("every")}}},
      {"arithmetic", {{"form", std::string("brackets")}, {"eval_longest", whole(256)}}},
      {"context_recall", {{"query_by", std::string("pair")}, {"power", 1.0}}},
      {"context_recall",
       {{"layout", std::string("triples")},
        {"values", std::string("any")},
        {"pairs", whole(8)},
        {"filler", std::string("random")}}},
      {"context_recall", {{"keys", std::string("unique")}, {"examples", whole(20)}}},
      {"palindrome", {{"order", std::string("odds_first")}, {"length", whole(30)}}},
      {"palindrome", {{"order", std::string("set")}, {"vocabulary", whole(9)}}},
      {"arithmetic", {{"form", std::string("prefix")}, {"modulus", whole(23)}}},
      {"automaton",
       {{"machine", std::string("undo")}, {"eval_undo", whole(5)}, {"eval_shortest", whole(20)}}},
      {"automaton", {{"machine", std::string("flip_flop")}, {"longest", whole(512)}, {"eval_ignore", 0.98}}},
      {"automaton",
       {{"machine", std::string("majority")}, {"inputs", whole(5)}, {"reveal", std::string("marks")}}},
      {"automaton", {{"machine", std::string("dyck")}, {"depth", whole(6)}, {"longest", whole(2000)}}},
      {"automaton", {{"machine", std::string("language")}, {"longest", whole(200)}}},
      {"automaton", {{"machine", std::string("random")}, {"drawn_table", whole(0)}}},
      {"trace", {{"hidden_share", 0.3}, {"reveal_every", whole(3)}, {"train_labels", std::string("due")}}},
      {"stacks", {{"pop", 0.7}, {"stacks", whole(5)}, {"length", whole(2048)}}},
      {"k_hop", {{"query_at", std::string("end")}, {"letters", whole(26)}}},
      {"depo",
       {{"nodes", whole(75)},
        {"hops", whole(16)},
        {"shortest_word", whole(5)},
        {"longest_word", whole(7)},
        {"alphabet", whole(3)}}},
      {"text", {{"lanes", whole(7)}, {"eval_lanes", whole(3)}}},
      {"reachability", {{"names", std::string("random")}, {"vocabulary", whole(500)}}},
      {"words", {{"transition", whole(4)}, {"start", true}}},
      {"words", {{"held_out_pairs", whole(28)}, {"query_at", std::string("end")}}},
      {"regression", {{"inputs", whole(64)}, {"pairs", whole(100)}, {"queries", whole(7)}}},
      {"tokens", {{"order", std::string("file")}}}};
  for (const TaskKind& kind : task_kinds()) tasks.push_back({kind.name, {}});
  for (const auto& [name, settings] : tasks) {
    const auto task = make_task(name, settings);
    for (const Split split : {Split::train, Split::eval, Split::test}) {
      SCOPED_TRACE(name + " " + std::to_string(static_cast<int>(split)));
      for (const int B : {1, 33}) {
        const int max_queries = split == Split::eval ? 5 : 0;
        EXPECT_EQ(batch(Device::cuda, *task, split, B, 4, max_queries),
                  batch(Device::cpu, *task, split, B, 4, max_queries))
            << B;
      }
    }
  }
}

}  // namespace
}  // namespace crosstalk

// L2: every task draws the same integers on the GPU as on the CPU. Skipped without a GPU.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/buffer.h"
#include "kernels/base/device/cuda_runtime.h"
#include "kernels/testing/cuda_test.h"
#include "tasks/kinds/file_example.h"
#include "tasks/testing.h"

namespace crosstalk::draw_cuda_test {

using testing::make_task;
using testing::Settings;

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
      {"recall", {{"associations", 20}}},
      {"recall", {{"associations", 600}}},
      {"recall", {{"associations", 7}, {"keys", 40}, {"values", 9}, {"queries", 3}}},
      {"reassign", {{"associations", 20}}},
      {"reassign", {{"associations", 200}}},
      {"reassign", {{"associations", 1500}}},  // pools beyond shared memory
      {"reassign",
       {{"associations", 12},

        {"update_fraction", 0.25},
        {"queries", 4}}},
      {"swap", {{"operations", 64}}},
      {"swap", {{"layout", "tag"}, {"identity_fraction", 0.1}, {"operations", 100}}},
      {"swap", {{"layout", "split"}, {"identity_fraction", 0.2}, {"set_fraction", 0.2}}},
      {"swap", {{"layout", "split"}, {"query_at", "end"}, {"queries", 5}}},
      {"reassign", {{"layout", "slots"}, {"update_fraction", 0.3}, {"length", 160}}},
      {"reassign", {{"layout", "split"}, {"queries", 4}, {"query_by", "key"}}},
      {"words", {{"group", "S5"}, {"factors", "swaps"}, {"length", 100}}},
      {"words", {{"group", "A4xZ5"}, {"query_at", "end"}}},
      {"words", {{"start", true}, {"length", 40}, {"examples", 20}}},
      {"mqar", {{"vocabulary", 256}, {"length", 128}, {"pairs", 32}}},
      {"mqar", {{"length", 1024}, {"pairs", 256}, {"filler", "random"}}},
      {"mqar", {{"length", 90}, {"pairs", 5}, {"passes", 3}, {"power", 1.0}, {"examples", 20}}},
      {"mqar", {{"vocabulary", 12}, {"length", 60000}, {"pairs", 5}}},  // beyond shared memory
      {"mad_recall", {{"vocabulary", 32}, {"noise_vocabulary", 16}, {"noise", 0.2}}},
      {"mad_recall", {{"motif", 3}, {"train_labels", "due"}}},
      {"selective_copy", {{"places", "uniform"}, {"examples", 20}}},
      {"arithmetic", {{"form", "flat"}, {"query_at", "every"}}},
      {"arithmetic", {{"form", "brackets"}, {"eval_longest", 256}}},
      {"context_recall", {{"query_by", "pair"}, {"power", 1.0}}},
      {"context_recall", {{"layout", "triples"}, {"values", "any"}, {"pairs", 8}, {"filler", "random"}}},
      {"context_recall", {{"keys", "unique"}, {"examples", 20}}},
      {"palindrome", {{"order", "odds_first"}, {"length", 30}}},
      {"palindrome", {{"order", "set"}, {"vocabulary", 9}}},
      {"arithmetic", {{"form", "prefix"}, {"modulus", 23}}},
      {"automaton", {{"machine", "undo"}, {"eval_undo", 5}, {"eval_shortest", 20}}},
      {"automaton", {{"machine", "flip_flop"}, {"longest", 512}, {"eval_ignore", 0.98}}},
      {"automaton", {{"machine", "majority"}, {"inputs", 5}, {"reveal", "marks"}}},
      {"automaton", {{"machine", "dyck"}, {"depth", 6}, {"longest", 2000}}},
      {"automaton", {{"machine", "language"}, {"longest", 200}}},
      {"automaton", {{"machine", "random"}, {"drawn_table", 0}}},
      {"trace", {{"hidden_share", 0.3}, {"reveal_every", 3}, {"train_labels", "due"}}},
      {"stacks", {{"pop", 0.7}, {"stacks", 5}, {"length", 2048}}},
      {"k_hop", {{"query_at", "end"}, {"letters", 26}}},
      {"depo", {{"nodes", 75}, {"hops", 16}, {"shortest_word", 5}, {"longest_word", 7}, {"alphabet", 3}}},
      {"text", {{"lanes", 7}, {"eval_lanes", 3}}},
      {"reachability", {{"names", "random"}, {"vocabulary", 500}}},
      {"words", {{"transition", 4}, {"start", true}}},
      {"words", {{"held_out_pairs", 28}, {"query_at", "end"}}},
      {"regression", {{"inputs", 64}, {"pairs", 100}, {"queries", 7}}},
      {"tokens", {{"order", "file"}}}};
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

}  // namespace crosstalk::draw_cuda_test

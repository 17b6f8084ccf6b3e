// What the best answer without the order of writes costs on given sequences.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/inspect/evaluated_floor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "experiments/training/memory_facts.h"
#include "results/numbers/theory.h"
#include "tasks/sequence_buffer.h"
#include "tasks/testing.h"

namespace crosstalk {
namespace {

Record run_of(std::int64_t seed, const char* memory = "linear_attention", const char* protocol = "uniform") {
  Record record;
  record.seed = seed;
  record.config = {{"task.name", "reassign"}, {"task.associations", 8}, {"task.values", 8},
                   {"task.eval_length", 16},  {"memory.name", memory},  {"eval.protocol", protocol},
                   {"eval.sequences", 64},    {"data_seed", seed},      {"model.name", "retrieval"},
                   {"train.batch", 32}};
  return record;
}

/// The same from the text of the definition: every answer as a vector, on sequences drawn here.
double by_hand(std::int64_t seed, Split split) {
  const auto task =
      testing::make_task("reassign", {{"associations", std::int64_t{8}}, {"eval_length", std::int64_t{16}}});
  SequenceBuffer buffer(*task, split);
  double sum = 0, queries = 0;
  for (std::uint64_t n = 0; n < 64; ++n) {
    const SequenceView sequence = buffer.draw(static_cast<std::uint64_t>(seed), n);
    for (int q = 0; q < sequence.shape.Q; ++q) {
      if (sequence.target[q] < 0) continue;
      std::vector<double> answer(8, 0.0);
      std::vector<int> values;
      for (int t = 0; t < sequence.shape.T; ++t)
        if (sequence.tokens[2 * t] == sequence.query[q]) values.push_back(sequence.tokens[2 * t + 1]);
      for (const int value : values)
        answer[static_cast<std::size_t>(value)] += 1.0 / static_cast<double>(values.size());
      for (int v = 0; v < 8; ++v)
        sum += 0.5 * std::pow(answer[static_cast<std::size_t>(v)] - (v == sequence.target[q] ? 1 : 0), 2);
      ++queries;
    }
  }
  return sum / queries;
}

TEST(EvaluatedFloor, IsThatOfTheSequencesThatTheRunWasEvaluatedOn) {
  for (const std::int64_t seed : {1, 2, 7}) {
    const Record record = run_of(seed);
    ASSERT_TRUE(evaluated_sum_rule_floor(record, "eval_loss"));
    EXPECT_NEAR(*evaluated_sum_rule_floor(record, "eval_loss"), by_hand(seed, Split::eval), 1e-12);
    EXPECT_NEAR(*evaluated_sum_rule_floor(record, "test_loss"), by_hand(seed, Split::test), 1e-12);
  }
}

TEST(EvaluatedFloor, LiesAroundTheExpectation) {
  constexpr int runs = 100;
  double sum = 0, squares = 0;
  std::set<double> seen;
  for (int seed = 1; seed <= runs; ++seed) {
    const double floor = *evaluated_sum_rule_floor(run_of(seed), "eval_loss");
    sum += floor, squares += floor * floor;
    seen.insert(floor);
  }
  const double mean = sum / runs, error = std::sqrt((squares / runs - mean * mean) / runs);
  EXPECT_EQ(seen.size(), std::size_t{runs});
  EXPECT_NEAR(mean, *sum_rule_floor(run_of(1), memory_facts()), 4 * error);
}

TEST(EvaluatedFloor, IsSaidOnlyWhereItIsKnown) {
  EXPECT_FALSE(evaluated_sum_rule_floor(run_of(1, "delta"), "eval_loss"));  // sees the order
  EXPECT_FALSE(evaluated_sum_rule_floor(run_of(1), "eval_accuracy"));
  // The protocol of 2021 draws fresh sequences at every evaluation; the test split stays.
  EXPECT_FALSE(evaluated_sum_rule_floor(run_of(1, "softmax", "schlag2021"), "eval_loss"));
  EXPECT_TRUE(evaluated_sum_rule_floor(run_of(1, "softmax", "schlag2021"), "test_loss"));
  for (const char* key : {"eval.sequences", "task.associations", "task.values"})
    for (const auto& value : {nlohmann::json("many"), nlohmann::json(-1), nlohmann::json(1e300)}) {
      Record odd = run_of(1);
      odd.config[key] = value;
      EXPECT_FALSE(evaluated_sum_rule_floor(odd, "eval_loss")) << key << value;
    }
  Record odd = run_of(1);
  odd.config.erase("eval.sequences");
  EXPECT_FALSE(evaluated_sum_rule_floor(odd, "eval_loss"));
}

}  // namespace
}  // namespace crosstalk

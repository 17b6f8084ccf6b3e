// SPDX-License-Identifier: Apache-2.0
#include "tasks/swap_sequence.h"

#include <gtest/gtest.h>

#include <set>

#include "kernels/base/error.h"
#include "tasks/golden.h"
#include "tasks/sequence_buffer.h"
#include "tasks/testing.h"

namespace crosstalk {
namespace {

using testing::make_task;
using testing::Settings;
using testing::uniformity_score;
using testing::whole;

[[maybe_unused]] const bool pinned =
    testing::pin({{"swap", "standard", {}, 0xda29dbeb53c3278cu, 0x184e4a55e69ade91u},
                  {"swap",
                   "mixed",
                   {{"identity_fraction", 0.25}, {"set_fraction", 0.25}, {"values", whole(9)}},
                   0x13d4960c41b2a828u,
                   0x6a12f78273112beu},
                  {"swap",
                   "end",
                   {{"query_at", std::string("end")}, {"queries", whole(2)}},
                   0xf555ed39d532b8c7u,
                   0x9f0a0da913ff2e25u}});

TEST(Swap, ExchangesValues) {
  const auto task = make_task("swap", {{"associations", whole(2)}});
  std::int32_t tokens[] = {0, 1, -1, 1, 0, -1, 1, -1, 0, 0, -1, 0, 1, 1, -1};
  const SequenceView view{{5, 3, 1}, tokens, nullptr, nullptr, nullptr, nullptr, nullptr};
  EXPECT_EQ(task->reference_answer(view, 0, 2), 1);
  EXPECT_EQ(task->reference_answer(view, 0, 3), 0);
  EXPECT_EQ(task->reference_answer(view, 1, 4), 1);
  EXPECT_EQ(task->reference_answer(view, 1, 1), -1);
  EXPECT_EQ(task->reference_answer(view, 0, 5), 0);
}

TEST(Swap, ReadsAsText) {
  const auto task = make_task("swap", {{"associations", whole(2)}});
  std::int32_t tokens[] = {0, 1, -1, 1, 0, -1, 1, -1, 0, 0, -1, 0}, query[] = {0, 1, 0},
               position[] = {3, 4, 0}, target[] = {0, 1, -1};
  const SequenceView view{{4, 3, 3}, tokens, nullptr, query, position, target, nullptr};
  EXPECT_EQ(task->to_text(view),
            "     1: k0=v1  k1=v0  k1<>k0  (k0 stays)\n  read after 3: k0 -> v0\n  read after 4: k1 -> v1\n");
}

TEST(Swap, BindsDistinctKeysToDistinctValuesThenSwapsDistinctPairsUniformly) {
  constexpr int n_keys = 5;
  const auto task = make_task("swap");
  EXPECT_EQ(task->shape(Split::train), (SequenceShape{21, 3, 16}));
  EXPECT_TRUE(task->vocabulary().second_key);
  SequenceBuffer buffer(*task, Split::train);
  std::vector<int> pairs(n_keys * (n_keys - 1)), binding(n_keys * n_keys), asked(n_keys),
      asked_twice(n_keys * n_keys);
  for (std::uint64_t n = 0; n < 5000; ++n) {
    const SequenceView s = buffer.draw(2, n);
    std::set<int> keys, values;
    for (int t = 0; t < n_keys; ++t) {
      keys.insert(s.tokens[3 * t]);
      values.insert(s.tokens[3 * t + 1]);
    }
    ASSERT_EQ(keys.size(), 5u);
    ASSERT_EQ(values.size(), 5u);
    ++binding[static_cast<std::size_t>(s.tokens[0] * n_keys + s.tokens[1])];
    for (int t = n_keys; t < s.shape.T; ++t) {
      const int a = s.tokens[3 * t], b = s.tokens[3 * t + 2];
      ASSERT_EQ(s.role[t], static_cast<int>(Role::swap));
      ASSERT_NE(a, b);
      ++pairs[static_cast<std::size_t>(a * (n_keys - 1) + (b > a ? b - 1 : b))];
    }
    for (int q = 0; q < 16; ++q) {
      ASSERT_EQ(s.query_position[q], n_keys + q + 1);
      ASSERT_EQ(s.meta[q * meta_count + meta_operations], q + 1);
      ++asked[static_cast<std::size_t>(s.query[q])];
    }
    ++asked_twice[static_cast<std::size_t>(s.query[3] * n_keys + s.query[4])];
  }
  EXPECT_LT(std::abs(uniformity_score(pairs)), 4);
  EXPECT_LT(std::abs(uniformity_score(binding)), 4);
  EXPECT_LT(std::abs(uniformity_score(asked)), 4);
  EXPECT_LT(std::abs(uniformity_score(asked_twice)), 4);
}

TEST(Swap, KeysInPlayComeFromTheWholeVocabulary) {
  const auto task = make_task("swap", {{"associations", whole(3)}, {"keys", whole(7)}, {"values", whole(6)}});
  SequenceBuffer buffer(*task, Split::eval);
  std::vector<int> keys(7), values(6);
  for (std::uint64_t n = 0; n < 4000; ++n) {
    const SequenceView s = buffer.draw(4, n);
    std::set<int> in_play;
    for (int t = 0; t < 3; ++t) {
      in_play.insert(s.tokens[3 * t]);
      ++keys[static_cast<std::size_t>(s.tokens[3 * t])];
      ++values[static_cast<std::size_t>(s.tokens[3 * t + 1])];
    }
    for (int t = 3; t < s.shape.T; ++t) {
      ASSERT_TRUE(in_play.count(s.tokens[3 * t]));
      ASSERT_TRUE(in_play.count(s.tokens[3 * t + 2]));
    }
    for (int q = 0; q < s.shape.Q; ++q) ASSERT_TRUE(in_play.count(s.query[q]));
  }
  EXPECT_LT(uniformity_score(keys), 4);
  EXPECT_LT(uniformity_score(values), 4);
}

TEST(Swap, IdentityAndSetOperationsComeAsOftenAsAsked) {
  const auto task =
      make_task("swap", {{"identity_fraction", 0.25}, {"set_fraction", 0.125}, {"values", whole(9)}});
  SequenceBuffer buffer(*task, Split::train);
  std::map<int, int> roles;
  std::vector<int> set_values(9), set_keys(5), identity_keys(5);
  for (std::uint64_t n = 0; n < 4000; ++n) {
    const SequenceView s = buffer.draw(2, n);
    for (int t = 5; t < s.shape.T; ++t) {
      const std::int32_t* token = s.tokens + 3 * t;
      ++roles[s.role[t]];
      if (s.role[t] == static_cast<int>(Role::write)) {
        ++set_keys[static_cast<std::size_t>(token[channel_key])];
        ++set_values[static_cast<std::size_t>(token[channel_value])];
      } else if (s.role[t] == static_cast<int>(Role::identity)) {
        ++identity_keys[static_cast<std::size_t>(token[channel_key])];
      }
    }
  }
  EXPECT_NEAR(roles[static_cast<int>(Role::identity)] / 64000.0, 0.25, 0.01);
  EXPECT_NEAR(roles[static_cast<int>(Role::write)] / 64000.0, 0.125, 0.01);
  EXPECT_NEAR(roles[static_cast<int>(Role::swap)] / 64000.0, 0.625, 0.01);
  EXPECT_LT(std::abs(uniformity_score(set_values)), 4);
  EXPECT_LT(std::abs(uniformity_score(set_keys)), 4);
  EXPECT_LT(std::abs(uniformity_score(identity_keys)), 4);
}

TEST(Swap, QueriesAtTheEnd) {
  const auto task =
      make_task("swap", {{"query_at", std::string("end")}, {"queries", whole(3)}, {"keys", whole(9)}});
  EXPECT_EQ(task->shape(Split::train), (SequenceShape{21, 3, 3}));
  EXPECT_EQ(task->shape(Split::eval), (SequenceShape{21, 3, 5}));
  EXPECT_EQ(task->shape(Split::eval, 2), (SequenceShape{21, 3, 2}));
  SequenceBuffer train(*task, Split::train), eval(*task, Split::eval);
  for (std::uint64_t n = 0; n < 200; ++n) {
    const SequenceView s = train.draw(0, n);
    ASSERT_EQ(std::set<int>(s.query, s.query + 3).size(), 3u);
    const SequenceView e = eval.draw(0, n);
    std::set<int> in_play;
    for (int t = 0; t < 5; ++t) in_play.insert(e.tokens[3 * t]);
    ASSERT_EQ(std::vector<int>(in_play.begin(), in_play.end()), std::vector<int>(e.query, e.query + 5));
    for (int q = 0; q < 5; ++q) ASSERT_EQ(e.query_position[q], 21);
  }
}

TEST(Swap, FewerQueriesSpreadOverTheOperations) {
  const auto task = make_task("swap");
  SequenceBuffer buffer(*task, Split::eval, 3);
  const SequenceView s = buffer.draw(0, 0);
  EXPECT_EQ(std::vector<int>(s.query_position, s.query_position + 3), (std::vector<int>{10, 15, 21}));
}

TEST(Swap, LongerSequencesHoldMoreOperationsInEvaluationOnly) {
  const auto task = make_task("swap");
  const auto longer = task->lengthened(4);
  EXPECT_EQ(longer->shape(Split::train), task->shape(Split::train));
  EXPECT_EQ(longer->shape(Split::eval), (SequenceShape{69, 3, 64}));
  EXPECT_EQ(longer->eval_load(), 64);
  SequenceBuffer buffer(*longer, Split::test);
  const SequenceView s = buffer.draw(0, 0);
  for (int q = 0; q < 64; ++q)
    ASSERT_EQ(s.target[q], longer->reference_answer(s, s.query[q], s.query_position[q]));
}

TEST(Swap, BaselinesKnowTheContext) {
  const auto numbers = make_task("swap")->baselines();
  EXPECT_NEAR(numbers.at("chance_accuracy"), 0.2, 1e-12);
  EXPECT_NEAR(numbers.at("baseline_random_in_context_accuracy"), 0.2, 1e-12);
  // After t swaps of 5 keys one key holds its first value with probability 0.2 + 0.8 * 0.5^t (a swap moves
  // the key with probability 2/5, and then back from where the value lies): the mean over t = 1 .. 16.
  double unchanged = 0;
  for (int t = 1; t <= 16; ++t) unchanged += (0.2 + 0.8 * std::pow(0.5, t)) / 16;
  EXPECT_NEAR(numbers.at("baseline_unchanged_accuracy"), unchanged, 0.02);
}

std::string refused(const Settings& settings) {
  try {
    make_task("swap", settings);
  } catch (const OptionError& error) {
    return error.key;
  }
  return "accepted";
}

TEST(Swap, RefusesContradictions) {
  EXPECT_EQ(refused({{"associations", whole(1)}}), "task.associations");
  EXPECT_EQ(refused({{"operations", whole(0)}}), "task.operations");
  EXPECT_EQ(refused({{"queries", whole(2)}}), "task.queries");
  EXPECT_EQ(refused({{"queries", whole(6)}, {"query_at", std::string("end")}}), "task.queries");
  EXPECT_EQ(refused({{"identity_fraction", 0.75}, {"set_fraction", 0.5}}), "task.set_fraction");
  EXPECT_EQ(refused({{"values", whole(4)}}), "task.values");
}

}  // namespace
}  // namespace crosstalk

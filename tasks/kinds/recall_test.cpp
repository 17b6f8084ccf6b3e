// Recall without replacement: permutations, pairs and queries are uniform, baselines, what is refused.
// SPDX-License-Identifier: Apache-2.0
#include "tasks/kinds/recall_sequence.h"

#include "tasks/golden.h"

namespace crosstalk::testing::recall_test {

[[maybe_unused]] const bool pinned = pin(
    "recall",
    {{"standard", {}, 0xe91d9f692994c0adu, 0xc667ea5f47ec5775u},
     {"mqar", {{"keys", 50}, {"values", 30}, {"queries", 20}}, 0x41881cec531762f5u, 0x88b5f755633eabf5u}});

TEST(Recall, KeysAndValuesAreDrawnWithoutReplacement) {
  for (const Settings& settings :
       {Settings{{"associations", 12}}, Settings{{"associations", 12}, {"keys", 40}, {"values", 15}}}) {
    for (const SequenceView& s : drawn("recall", settings, Split::train, 0, 200)) {
      std::set<int> keys, values;
      for (int t = 0; t < s.shape.T; ++t) {
        keys.insert(s.tokens[2 * t + channel_key]);
        values.insert(s.tokens[2 * t + channel_value]);
      }
      ASSERT_EQ(keys.size(), 12u);
      ASSERT_EQ(values.size(), 12u);
    }
  }
}

TEST(Recall, PermutationsPairsAndQueriesAreUniform) {
  constexpr int S = 7, draws = 20000;
  Counts key_at(S * S), value_at(S * S), value_of_key(S * S), answer_of_query(S * S),
      key_then_key(S * (S - 1)), asked_place(S);
  for (const SequenceView& s : drawn("recall", {{"associations", S}}, Split::train, 17, draws)) {
    for (int t = 0; t < S; ++t) {
      const int key = s.tokens[2 * t + channel_key], value = s.tokens[2 * t + channel_value];
      ++key_at[t * S + key];
      ++value_at[t * S + value];
      ++value_of_key[key * S + value];
      if (key == s.query[0]) ++asked_place[t];
    }
    const int first = s.tokens[channel_key], last = s.tokens[2 * (S - 1) + channel_key];
    ++key_then_key[first * (S - 1) + (last > first ? last - 1 : last)];
    ++answer_of_query[s.query[0] * S + s.target[0]];
  }
  expect_uniform({key_then_key, asked_place, answer_of_query});
  // Cells of a permutation's table are not independent: (S-1)^2 degrees of freedom of S^2, so only an upper
  // limit.
  EXPECT_LT(uniformity_score(key_at), 4);
  EXPECT_LT(uniformity_score(value_at), 4);
  EXPECT_LT(uniformity_score(value_of_key), 4);
}

TEST(Recall, TrainingQueriesAreDistinctAndEvaluationAsksAllKeysAscending) {
  const auto task = make_task("recall", {{"associations", 10}, {"keys", 25}, {"queries", 6}});
  EXPECT_EQ(task->shape(Split::train), (SequenceShape{10, 2, 6}));
  EXPECT_EQ(task->shape(Split::eval), (SequenceShape{10, 2, 10}));
  EXPECT_EQ(task->shape(Split::eval, 4), (SequenceShape{10, 2, 4}));
  SequenceBuffer train(*task, Split::train), eval(*task, Split::eval), four(*task, Split::eval, 4);
  for (std::uint64_t n = 0; n < 100; ++n) {
    const SequenceView s = train.draw(0, n);
    ASSERT_EQ(std::set<int>(s.query, s.query + 6).size(), 6u);
    for (int q = 0; q < 6; ++q) ASSERT_EQ(s.query_position[q], 10);
    const SequenceView e = eval.draw(0, n);
    std::set<int> stored;
    for (int t = 0; t < 10; ++t) stored.insert(e.tokens[2 * t + channel_key]);
    ASSERT_EQ(std::vector<int>(stored.begin(), stored.end()), std::vector<int>(e.query, e.query + 10));
    const SequenceView f = four.draw(0, n);
    ASSERT_TRUE(std::equal(f.query, f.query + 4, e.query));  // the lowest keys
  }
}

TEST(Recall, BaselinesAreOneOverAssociations) {
  const auto numbers = make_task("recall", {{"associations", 8}, {"values", 30}})->baselines();
  EXPECT_NEAR(numbers.at("chance_accuracy"), 1.0 / 8, 1e-12);
  EXPECT_NEAR(numbers.at("baseline_most_recent_accuracy"), 1.0 / 8, 1e-12);
  EXPECT_NEAR(numbers.at("baseline_first_accuracy"), 1.0 / 8, 1e-12);
  EXPECT_NEAR(numbers.at("baseline_random_in_context_accuracy"), 1.0 / 8, 1e-12);
}

TEST(Recall, ReadsAsTextAndKnowsItsLoad) {
  const auto task = make_task("recall", {{"associations", 3}});
  EXPECT_EQ(task->eval_load(), 3);
  EXPECT_EQ(task->vocabulary().keys, 3);
  EXPECT_FALSE(task->vocabulary().second_key);
  std::int32_t tokens[] = {2, 0, 0, 1, 1, 2}, query[] = {0, 2}, position[] = {3, 3}, target[] = {1, 0};
  const SequenceView view{{3, 2, 2}, tokens, nullptr, query, position, target, nullptr};
  EXPECT_EQ(task->to_text(view), "     1: k2=v0  k0=v1  k1=v2\n  read after 3: k0 -> v1  k2 -> v0\n");
}

TEST(Recall, RefusesWhatCannotBeStored) {
  EXPECT_EQ(
      refused("recall", {{"associations", 20}, {"keys", 19}}).why,
      "task.keys = 19 is less than task.associations = 20, which need as many distinct keys; give at least 20, or 0 for exactly as many");
  EXPECT_EQ(refused("recall", {{"associations", 20}, {"keys", 19}}).key, "task.keys");
  EXPECT_TRUE(refused("recall", {{"associations", 20}, {"values", 3}}).says("distinct values"));
  EXPECT_EQ(
      refused("recall", {{"associations", 4}, {"queries", 5}}).why,
      "task.queries = 5 asks more distinct keys than the task.associations = 4 that are stored; give at most 4");
  EXPECT_EQ(refused("recall", {{"associations", 4}, {"queries", 5}}).key, "task.queries");
  EXPECT_EQ(refused("recall", {{"associations", 4}, {"queries", 4}}).key, "accepted");
  EXPECT_NE(refused("recall", {{"associations", 0}}).key, "accepted");
}

TEST(Recall, HasALongerFormWhereItHasKeysForIt) {
  const auto task = make_task("recall");
  const auto longer = make_task("recall", {{"keys", 80}, {"values", 90}})->lengthened(4);
  EXPECT_EQ(longer->eval_load(), 80);
  EXPECT_EQ(longer->shape(Split::eval), (SequenceShape{80, 2, 80}));
  SequenceBuffer buffer(*longer, Split::eval);
  const SequenceView s = buffer.draw(1, 2);
  for (int q = 0; q < 80; ++q) ASSERT_EQ(s.target[q], longer->reference_answer(s, s.query[q], 80));
  EXPECT_EQ(task->lengthened(1)->shape(Split::eval), task->shape(Split::eval));
  const auto found = checks::refused([&] { task->lengthened(2); });
  EXPECT_EQ(found.key, "eval.length_factors");
  EXPECT_TRUE(found.says("run out of keys"));
}

}  // namespace crosstalk::testing::recall_test

// Swaps of values: a replay of the operations, laws of keys and pairs, layouts, DeltaFormer's experiment, what is refused.
// SPDX-License-Identifier: Apache-2.0
#include "tasks/kinds/swap_sequence.h"

#include "tasks/golden.h"

namespace crosstalk::testing::swap_test {

[[maybe_unused]] const bool pinned =
    pin("swap",
        {{"standard", {}, 0xda29dbeb53c3278cu, 0x184e4a55e69ade91u},
         {"mixed",
          {{"identity_fraction", 0.25}, {"set_fraction", 0.25}, {"values", 9}},
          0x13d4960c41b2a828u,
          0x6a12f78273112beu},
         {"end", {{"query_at", "end"}, {"queries", 2}}, 0xf555ed39d532b8c7u, 0x9f0a0da913ff2e25u},
         {"tag", {{"layout", "tag"}, {"identity_fraction", 0.1}}, 0x7aa6bfae3176499du, 0xcf1f156ba555c3ebu},
         {"split",
          {{"layout", "split"}, {"set_fraction", 0.25}, {"identity_fraction", 0.25}},
          0xe62c3fb15f727513u,
          0xc14229c6a53a9c3cu},
         {"split_end",
          {{"layout", "split"}, {"query_at", "end"}, {"queries", 3}},
          0x57f2e697f7546991u,
          0x7434bc96f711a649u}});

TEST(Swap, ExchangesValues) {
  const auto task = make_task("swap", {{"associations", 2}});
  std::int32_t tokens[] = {0, 1, -1, 1, 0, -1, 1, -1, 0, 0, -1, 0, 1, 1, -1};
  const SequenceView view{{5, 3, 1}, tokens, nullptr, nullptr, nullptr, nullptr, nullptr};
  EXPECT_EQ(task->reference_answer(view, 0, 2), 1);
  EXPECT_EQ(task->reference_answer(view, 0, 3), 0);
  EXPECT_EQ(task->reference_answer(view, 1, 4), 1);
  EXPECT_EQ(task->reference_answer(view, 1, 1), -1);
  EXPECT_EQ(task->reference_answer(view, 0, 5), 0);
}

TEST(Swap, ReadsAsText) {
  const auto task = make_task("swap", {{"associations", 2}});
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
  Counts pairs(n_keys * (n_keys - 1)), binding(n_keys * n_keys), asked(n_keys), asked_twice(n_keys * n_keys);
  for (const SequenceView& s : drawn(*task, Split::train, 2, 5000)) {
    std::set<int> keys, values;
    for (int t = 0; t < n_keys; ++t) {
      keys.insert(s.tokens[3 * t]);
      values.insert(s.tokens[3 * t + 1]);
    }
    ASSERT_EQ(keys.size(), 5u);
    ASSERT_EQ(values.size(), 5u);
    ++binding[s.tokens[0] * n_keys + s.tokens[1]];
    for (int t = n_keys; t < s.shape.T; ++t) {
      const int a = s.tokens[3 * t], b = s.tokens[3 * t + 2];
      ASSERT_EQ(s.role[t], static_cast<int>(Role::swap));
      ASSERT_NE(a, b);
      ++pairs[a * (n_keys - 1) + (b > a ? b - 1 : b)];
    }
    for (int q = 0; q < 16; ++q) {
      ASSERT_EQ(s.query_position[q], n_keys + q + 1);
      ASSERT_EQ(s.meta[q * meta_count + meta_operations], q + 1);
      ++asked[s.query[q]];
    }
    ++asked_twice[s.query[3] * n_keys + s.query[4]];
  }
  expect_uniform({pairs, binding, asked, asked_twice});
}

TEST(Swap, KeysInPlayComeFromTheWholeVocabulary) {
  Counts keys(7), values(6);
  for (const SequenceView& s :
       drawn("swap", {{"associations", 3}, {"keys", 7}, {"values", 6}}, Split::eval, 4, 4000)) {
    std::set<int> in_play;
    for (int t = 0; t < 3; ++t) {
      in_play.insert(s.tokens[3 * t]);
      ++keys[s.tokens[3 * t]];
      ++values[s.tokens[3 * t + 1]];
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
  std::map<int, int> roles;
  Counts set_values(9), set_keys(5), identity_keys(5);
  for (const SequenceView& s :
       drawn("swap", {{"identity_fraction", 0.25}, {"set_fraction", 0.125}, {"values", 9}}, Split::train, 2,
             4000)) {
    for (int t = 5; t < s.shape.T; ++t) {
      const std::int32_t* token = s.tokens + 3 * t;
      ++roles[s.role[t]];
      if (s.role[t] == static_cast<int>(Role::write)) {
        ++set_keys[token[channel_key]];
        ++set_values[token[channel_value]];
      } else if (s.role[t] == static_cast<int>(Role::identity)) {
        ++identity_keys[token[channel_key]];
      }
    }
  }
  EXPECT_NEAR(roles[static_cast<int>(Role::identity)] / 64000.0, 0.25, 0.01);
  EXPECT_NEAR(roles[static_cast<int>(Role::write)] / 64000.0, 0.125, 0.01);
  EXPECT_NEAR(roles[static_cast<int>(Role::swap)] / 64000.0, 0.625, 0.01);
  expect_uniform({set_values, set_keys, identity_keys});
}

TEST(Swap, QueriesAtTheEnd) {
  const auto task = make_task("swap", {{"query_at", "end"}, {"queries", 3}, {"keys", 9}});
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

const Settings tag = {{"layout", "tag"}}, split = {{"layout", "split"}};

TEST(SwapTag, IsTheExperimentOfDeltaFormer) {
  const auto task = make_task("swap", tag);
  EXPECT_EQ(task->shape(Split::train), (SequenceShape{16, 1, 16}));
  EXPECT_EQ(task->vocabulary().tokens, 10);
  EXPECT_EQ(task->vocabulary().values, 5);
  EXPECT_EQ(make_task("swap", with(tag, {{"identity_fraction", 0.1}}))->vocabulary().tokens, 11);
  Counts tokens(10), twice(100);
  for (const SequenceView& s : drawn(*task, Split::train, 3, 5000)) {
    for (int t = 0; t < 16; ++t) {
      ++tokens[s.tokens[t]];
      ASSERT_EQ(s.query_position[t], t + 1);
      ASSERT_EQ(s.meta[t * meta_count + meta_operations], t + 1);
    }
    ++twice[s.tokens[4] * 10 + s.tokens[5]];
  }
  expect_uniform({tokens, twice});
}

TEST(SwapTag, AsksWhatLiesAtPlaceZero) {
  // pairs of 3 places: 0 = (0 1), 1 = (0 2), 2 = (1 2), 3 = nothing
  const auto task = make_task("swap", with(tag, {{"associations", 3}, {"identity_fraction", 0.5}}));
  std::int32_t tokens[] = {3, 0, 2, 1, 1}, query[] = {3, 0, 2, 1, 1}, position[] = {1, 2, 3, 4, 5},
               target[] = {0, 1, 1, 0, 1};
  const SequenceView view{{5, 1, 5}, tokens, nullptr, query, position, target, nullptr};
  for (int q = 0; q < 5; ++q) EXPECT_EQ(task->reference_answer(view, query[q], q + 1), target[q]) << q;
  EXPECT_EQ(task->to_text(view), "     1: ()->0 (0 1)->1 (1 2)->1 (0 2)->0 (0 2)->1\n");
}

TEST(SwapTag, MetaTellsWhenPlaceZeroWasTouched) {
  for (const SequenceView& s : drawn("swap", with(tag, {{"identity_fraction", 0.25}}), Split::eval, 3, 50)) {
    int last = -1, touches = 0;
    for (int t = 0; t < 16; ++t) {
      if (s.tokens[t] < 4) last = t, ++touches;  // (0 1) .. (0 4)
      const std::int32_t* meta = s.meta + t * meta_count;
      ASSERT_EQ(meta[meta_age], t - last);
      ASSERT_EQ(meta[meta_touches], touches);
      ASSERT_EQ(meta[meta_gap], t + 1);
    }
  }
}

TEST(SwapTag, TheLossMayStandAtTheLastTokenOnly) {
  const auto task = make_task("swap", with(tag, {{"query_at", "end"}}));
  EXPECT_EQ(task->shape(Split::train), (SequenceShape{16, 1, 1}));
  const auto every = make_task("swap", tag);
  SequenceBuffer buffer(*task, Split::test), all(*every, Split::test);
  const SequenceView s = buffer.draw(0, 2), a = all.draw(0, 2);
  EXPECT_TRUE(std::equal(s.tokens, s.tokens + 16, a.tokens));
  EXPECT_EQ(s.query_position[0], 16);
  EXPECT_EQ(s.target[0], a.target[15]);
}

TEST(SwapTag, UnchangedIsTheLawOfTheWalk) {
  double unchanged = 0;
  for (int t = 1; t <= 16; ++t) unchanged += (0.2 + 0.8 * std::pow(0.5, t)) / 16;
  const auto numbers = make_task("swap", tag)->baselines();
  EXPECT_NEAR(numbers.at("baseline_unchanged_accuracy"), unchanged, 0.02);
  EXPECT_EQ(numbers.at("chance_accuracy"), 0.2);
}

TEST(SwapTag, ACurriculumEndsWithTheTask) {
  const auto task = make_task("swap", with(tag, {{"curriculum", "32 64 128"}}));
  EXPECT_EQ(task->shape(Split::train), (SequenceShape{128, 1, 128}));
  const auto stages = task->stages();
  ASSERT_EQ(stages.size(), 3u);
  EXPECT_EQ(stages[0].name, "operations=32");
  EXPECT_EQ(stages[1].task->shape(Split::eval), (SequenceShape{64, 1, 64}));
  SequenceBuffer first(*stages[0].task, Split::train), last(*stages[2].task, Split::train),
      whole_task(*task, Split::train);
  const SequenceView a = first.draw(0, 0), b = last.draw(0, 0);
  EXPECT_FALSE(std::equal(a.tokens, a.tokens + 32, b.tokens));
  whole_task.draw(0, 0);
  EXPECT_EQ(whole_task.contents(), last.contents());
  EXPECT_EQ(task->lengthened(2)->shape(Split::eval), (SequenceShape{256, 1, 256}));
}

TEST(SwapSplit, WritesWords) {
  const auto task = make_task("swap", with(split, {{"associations", 2}}));
  EXPECT_EQ(task->vocabulary().tokens, 7);
  EXPECT_EQ(task->vocabulary().values, 7);
  EXPECT_EQ(task->shape(Split::train), (SequenceShape{6 + 16 * 5, 1, 16}));
  std::int32_t tokens[] = {0, 3, 6, 0, 4, 5, 1, 4, 3, 2, 3, 0, 3, 5, 1, 3, 3, 2, 4}, query[] = {3, 4},
               position[] = {11, 19}, target[] = {5, 6};
  const SequenceView view{{19, 1, 2}, tokens, nullptr, query, position, target, nullptr};
  EXPECT_EQ(task->reference_answer(view, 3, 11), 5);
  EXPECT_EQ(task->reference_answer(view, 4, 19), 6);
  EXPECT_EQ(task->to_text(view),
            "     1: SET k0 v1 SET k1 v0 SWAP k1 k0 QRY k0->v0 SET k0 v0 SWAP k0 k0 QRY k1->v1\n");
}

TEST(SwapSplit, IsTheFusedTaskInWords) {
  // Replayed as fused tokens, the words mean the same, in answers and in meta.
  for (const std::string query_at : {"every", "end"}) {
    const Settings options = {{"associations", 4},
                              {"keys", 6},
                              {"values", 9},
                              {"identity_fraction", 0.2},
                              {"set_fraction", 0.2},
                              {"query_at", query_at},
                              {"queries", query_at == "end" ? 3 : 1}};
    const auto task = make_task("swap", with(options, split)), fused = make_task("swap", options);
    for (const SequenceView& s : drawn(*task, Split::train, 9, 100)) {
      std::vector<std::int32_t> tokens, at;  // fused tokens, and where their last word stands
      int q = 0;
      for (int t = 0; t < s.shape.T;) {
        const std::int32_t what = s.tokens[t], a = s.tokens[t + 1] - 3;
        if (what == 2) {
          const SequenceView view{{static_cast<int>(at.size()), 3, 1},
                                  tokens.data(),
                                  nullptr,
                                  nullptr,
                                  nullptr,
                                  nullptr,
                                  nullptr};
          ASSERT_EQ(s.query_position[q], t + 2);
          ASSERT_EQ(s.target[q] - 9, fused->reference_answer(view, a, view.shape.T));
          const std::int32_t* meta = s.meta + q * meta_count;
          ASSERT_EQ(s.tokens[t + 1 - meta[meta_gap]], s.target[q]);  // the write that set the answer
          int writes = 0, touches = 0, last = 0;
          for (std::size_t i = 0; i < at.size(); ++i) {
            const std::int32_t* token = tokens.data() + 3 * i;
            const bool swap = token[1] < 0 && token[0] != token[2];
            if (token[0] != a && !(swap && token[2] == a)) continue;
            if (token[1] >= 0) ++writes;
            if (swap) ++touches;
            if (token[1] >= 0 || swap) last = at[i];
          }
          ASSERT_EQ(meta[meta_writes], writes);
          ASSERT_EQ(meta[meta_touches], touches);
          ASSERT_EQ(meta[meta_age], t + 1 - last);
          ++q, t += 2;
          continue;
        }
        const std::int32_t b = s.tokens[t + 2];
        tokens.insert(tokens.end(), {a, what == 0 ? b - 9 : -1, what == 0 ? -1 : b - 3});
        at.push_back(t + 2);
        t += 3;
      }
      ASSERT_EQ(q, s.shape.Q);
      ASSERT_EQ(at.size(), 20u);
    }
  }
}

TEST(SwapSplit, AsksDistinctKeysAtTheEnd) {
  const auto task = make_task("swap", with(split, {{"query_at", "end"}, {"queries", 5}}));
  EXPECT_EQ(task->shape(Split::train), (SequenceShape{15 + 48 + 10, 1, 5}));
  EXPECT_EQ(task->lengthened(3)->shape(Split::eval), (SequenceShape{15 + 144 + 10, 1, 5}));
  for (const SequenceView& s : drawn(*task, Split::train, 9, 20))
    EXPECT_EQ(std::set<int>(s.query, s.query + 5).size(), 5u);
}

TEST(SwapTokens, RefuseWhatHasNoMeaning) {
  EXPECT_EQ(refused("swap", with(tag, {{"keys", 7}})).key, "task.keys");
  EXPECT_EQ(refused("swap", with(tag, {{"set_fraction", 0.1}})).key, "task.set_fraction");
  EXPECT_EQ(refused("swap", with(tag, {{"query_at", "end"}, {"queries", 2}})).key, "task.queries");
  EXPECT_EQ(refused("swap", {{"curriculum", "8 16"}}).key, "task.curriculum");
  EXPECT_EQ(refused("swap", with(tag, {{"curriculum", "16 8"}})).key, "task.curriculum");
  EXPECT_EQ(refused("swap", with(tag, {{"curriculum", "8 32"}, {"operations", 64}})).key, "task.operations");
  EXPECT_EQ(refused("swap", with(tag, {{"curriculum", "8 32"}, {"operations", 32}})).key, "accepted");
}

TEST(Swap, RefusesContradictions) {
  EXPECT_EQ(refused("swap", {{"associations", 1}}).key, "task.associations");
  EXPECT_EQ(refused("swap", {{"operations", 0}}).key, "task.operations");
  EXPECT_EQ(refused("swap", {{"queries", 2}}).key, "task.queries");
  EXPECT_EQ(refused("swap", {{"queries", 6}, {"query_at", "end"}}).key, "task.queries");
  EXPECT_EQ(refused("swap", {{"identity_fraction", 0.75}, {"set_fraction", 0.5}}).key, "task.set_fraction");
  EXPECT_EQ(refused("swap", {{"values", 4}}).key, "task.values");
}

// What error kinds go by: SET's keys with their values, and of the layout tag the elements at their places.
TEST(SwapTokens, WritesAreThoseOfTheTokens) {
  const auto sets_task = make_task("swap", {{"layout", "split"}, {"set_fraction", 0.3}, {"operations", 9}});
  for (const SequenceView& s : drawn(*sets_task, Split::test, 2, 50)) {
    std::size_t sets = 0;
    const std::vector<KeyWrite> writes = sets_task->writes(s);
    for (int t = 0; t < s.shape.T; ++t) {
      if (s.tokens[t] != swap_tokens::kSet) continue;
      ASSERT_LT(sets, writes.size());
      EXPECT_EQ(writes[sets].position, t + 3);
      EXPECT_EQ(writes[sets].key, s.tokens[t + 1]);
      EXPECT_EQ(writes[sets++].value, s.tokens[t + 2]);
    }
    EXPECT_EQ(sets, writes.size());
    for (int q = 0; q < s.shape.Q; ++q) {
      EXPECT_EQ(sets_task->asked_key(s, q), s.tokens[s.query_position[q] - 1]);
      EXPECT_TRUE(std::any_of(writes.begin(), writes.end(), [&](const KeyWrite& write) {
        return write.value == s.target[q] && write.position <= s.query_position[q];
      }));
    }
  }
  const auto places_task = make_task("swap", {{"layout", "tag"}});
  SequenceBuffer places(*places_task, Split::test);
  const SequenceView s = places.draw(2, 0);
  const std::vector<KeyWrite> elements = places_task->writes(s);
  ASSERT_EQ(static_cast<int>(elements.size()), places_task->vocabulary().values);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    EXPECT_EQ(elements[i].value, static_cast<std::int32_t>(i));
    EXPECT_EQ(elements[i].key == places_task->asked_key(s, 0), i == 0) << "place 0 is asked";
    EXPECT_GE(elements[i].key, places_task->vocabulary().values) << "no place passes for an element";
  }
}

}  // namespace crosstalk::testing::swap_test

// Keys that are written again: last values, lengths of the released code, floors of the sum rule, Zoology's forgetting, ARMT.
// SPDX-License-Identifier: Apache-2.0
#include "tasks/kinds/reassign_sequence.h"

#include "tasks/golden.h"

namespace crosstalk::testing::reassign_test {

[[maybe_unused]] const bool pinned =
    pin("reassign",
        {{"standard", {}, 0x2a4c0a093ea42b1eu, 0xcd63413f85c82cc1u},
         {"by key",
          {{"query_by", "key"}, {"queries", 3}, {"keys", 50}},
          0x18b3ff26c1d4e7fau,
          0xdebb920972684d98u},
         {"updates", {{"update_fraction", 0.5}}, 0x78ae7a9767564c8bu, 0xcd6f8ce7733c8610u},
         {"slots",
          {{"layout", "slots"}, {"update_fraction", 0.5}, {"keys", 90}, {"length", 128}},
          0x4d7e1f5c0535b4b2u,
          0x3ea2b8398c36cca5u},
         {"rewrite", {{"layout", "split"}, {"queries", 2}}, 0xb4ea1be62fd55eau, 0xeb012fc6d5992e2au}});

[[maybe_unused]] const bool fitted = [] {
  fit()["reassign"] = [](Settings& s) {
    const auto given = s.find("layout");
    const std::string layout = given == s.end() ? "fused" : std::get<std::string>(given->second);
    if (layout != "slots")
      for (const char* name : {"power", "filler", "examples", "fresh"}) s.erase(name);
    if (layout == "fused") return;
    const std::int64_t associations = whole_of(s, "associations", 20);
    for (const char* name : {"keys", "values"})
      if (whole_of(s, name, 0) != 0) s[name] = associations + whole_of(s, name, 0);
    if (layout == "split") return;
    for (const char* name : {"queries", "query_by", "length", "eval_length"}) s.erase(name);
    const auto fraction = s.find("update_fraction");
    if (fraction == s.end() || std::get<double>(fraction->second) < 0) s["update_fraction"] = 0.25;
    if (associations == 1) s["values"] = 2;
    if (whole_of(s, "examples", 0) == 0) s["fresh"] = false;
  };
  return true;
}();

TEST(Reassign, TheLastValueWins) {
  const auto task = make_task("reassign", {{"associations", 2}});
  std::int32_t tokens[] = {0, 1, 1, 1, 0, 0, 0, 1};
  const SequenceView view{{4, 2, 1}, tokens, nullptr, nullptr, nullptr, nullptr, nullptr};
  EXPECT_EQ(task->reference_answer(view, 0, 4), 1);
  EXPECT_EQ(task->reference_answer(view, 0, 3), 0);
  EXPECT_EQ(task->reference_answer(view, 1, 1), -1);
}

TEST(Reassign, DefaultLengthsAreThoseOfTheReleasedCode) {
  const auto task = make_task("reassign", {{"associations", 20}});
  EXPECT_EQ(task->shape(Split::train), (SequenceShape{40, 2, 1}));
  EXPECT_EQ(task->shape(Split::eval), (SequenceShape{20, 2, 20}));
  EXPECT_EQ(task->eval_load(), 20);
  const auto other = make_task("reassign", {{"associations", 20}, {"length", 7}, {"eval_length", 5}});
  EXPECT_EQ(other->shape(Split::train).T, 7);
  EXPECT_EQ(other->shape(Split::eval), (SequenceShape{5, 2, 5}));
}

TEST(Reassign, KeysAndValuesAreDrawnWithReplacement) {
  constexpr int S = 6, V = 9;
  Counts token(S * V), two_keys(S * S), two_values(V * V);
  for (const SequenceView& s :
       drawn("reassign", {{"associations", S}, {"values", V}, {"length", 4}}, Split::train, 5, 20000)) {
    ++token[s.tokens[0] * V + s.tokens[1]];
    ++two_keys[s.tokens[2] * S + s.tokens[6]];
    ++two_values[s.tokens[3] * V + s.tokens[7]];
  }
  expect_uniform({token});
  EXPECT_LT(std::abs(uniformity_score(two_keys)), 4);  // equal keys as often as others
  expect_uniform({two_values});
}

TEST(Reassign, KeysInPlayAreARandomSubsetOfTheVocabulary) {
  Counts occurs(8);
  for (const SequenceView& s :
       drawn("reassign", {{"associations", 3}, {"keys", 8}, {"length", 40}}, Split::train, 1, 4000)) {
    std::set<int> keys;
    for (int t = 0; t < s.shape.T; ++t) keys.insert(s.tokens[2 * t]);
    ASSERT_LE(keys.size(), 3u);
    for (const int key : keys) ++occurs[key];
  }
  EXPECT_LT(uniformity_score(occurs), 4);
}

/// How often the asked key is one that was written `writes` times, over sequences with one key written twice
/// and two keys written once (length 4 and 3 distinct keys).
double share_of_repeated_key(const std::string& query_by) {
  int sequences = 0, repeated = 0;
  for (const SequenceView& s : drawn("reassign", {{"associations", 5}, {"length", 4}, {"query_by", query_by}},
                                     Split::train, 8, 40000)) {
    std::map<int, int> count;
    for (int t = 0; t < 4; ++t) ++count[s.tokens[2 * t]];
    if (count.size() != 3) continue;
    ++sequences;
    repeated += count.at(s.query[0]) == 2;
  }
  EXPECT_GT(sequences, 10000);
  return static_cast<double>(repeated) / sequences;
}

TEST(Reassign, TrainingQueriesWeighKeysAsAsked) {
  EXPECT_NEAR(share_of_repeated_key("element"), 2.0 / 4, 0.02);
  EXPECT_NEAR(share_of_repeated_key("key"), 1.0 / 3, 0.02);
}

TEST(Reassign, EveryElementIsAskedAlike) {
  constexpr int length = 6;
  Counts asked_place(length);
  for (const SequenceView& s :
       drawn("reassign", {{"associations", 50}, {"length", length}}, Split::train, 9, 20000)) {
    std::map<int, int> place;
    for (int t = 0; t < length; ++t) place[s.tokens[2 * t]] = t;
    if (place.size() == length) ++asked_place[place.at(s.query[0])];
  }
  expect_uniform({asked_place});
}

TEST(Reassign, SeveralTrainingQueries) {
  const auto by_key = make_task("reassign", {{"associations", 6}, {"queries", 6}, {"query_by", "key"}});
  const auto by_element = make_task("reassign", {{"associations", 6}, {"queries", 12}});
  SequenceBuffer keys(*by_key, Split::train), elements(*by_element, Split::train);
  for (std::uint64_t n = 0; n < 200; ++n) {
    const SequenceView k = keys.draw(0, n);
    std::multiset<int> present, asked;
    std::set<int> distinct;
    for (int t = 0; t < 12; ++t) distinct.insert(k.tokens[2 * t]);
    for (int q = 0; q < 6; ++q)
      if (k.target[q] >= 0) asked.insert(k.query[q]);
    ASSERT_EQ(asked, std::multiset<int>(distinct.begin(), distinct.end()));
    // As many queries as elements: each element once.
    const SequenceView e = elements.draw(0, n);
    for (int t = 0; t < 12; ++t) present.insert(e.tokens[2 * t]);
    ASSERT_EQ(present, std::multiset<int>(e.query, e.query + 12));
  }
}

TEST(Reassign, EvaluationAsksDistinctKeysPresentAscending) {
  bool some_unused = false;
  for (const SequenceView& s : drawn("reassign", {{"associations", 10}}, Split::eval, 0, 200)) {
    std::set<int> present;
    for (int t = 0; t < 10; ++t) present.insert(s.tokens[2 * t]);
    std::vector<int> asked;
    for (int q = 0; q < 10; ++q)
      if (s.target[q] >= 0) asked.push_back(s.query[q]);
    ASSERT_EQ(asked, std::vector<int>(present.begin(), present.end()));
    some_unused = some_unused || asked.size() < 10;
  }
  EXPECT_TRUE(some_unused);
}

TEST(Reassign, UpdateFractionBindsEveryKeyOnceThenUpdatesWithOtherValues) {
  const auto task = make_task("reassign", {{"associations", 10}, {"keys", 14}, {"update_fraction", 0.4}});
  EXPECT_EQ(task->shape(Split::train), (SequenceShape{14, 2, 1}));
  EXPECT_EQ(task->shape(Split::eval), (SequenceShape{14, 2, 10}));
  Counts update_of_place(10), step(9);
  for (const Split split : {Split::train, Split::eval})
    for (const SequenceView& s : drawn(*task, split, 3, 4000)) {
      std::map<int, int> place, value;
      for (int t = 0; t < 10; ++t) {
        place[s.tokens[2 * t]] = t;
        value[s.tokens[2 * t]] = s.tokens[2 * t + 1];
      }
      ASSERT_EQ(place.size(), 10u);
      std::set<int> updated;
      for (int t = 10; t < 14; ++t) {
        const int key = s.tokens[2 * t];
        ASSERT_EQ(place.count(key), 1u);
        ASSERT_TRUE(updated.insert(key).second);
        ASSERT_NE(value.at(key), s.tokens[2 * t + 1]);
        ++update_of_place[place.at(key)];
        ++step[(s.tokens[2 * t + 1] - value.at(key) + 10) % 10 - 1];
      }
      ASSERT_EQ(s.meta[meta_operations], 4);
    }
  EXPECT_LT(uniformity_score(update_of_place), 4);
  EXPECT_LT(uniformity_score(step), 4);  // any other value alike
  const auto numbers = task->baselines();
  EXPECT_NEAR(numbers.at("baseline_unchanged_accuracy"), 0.6, 1e-12);
  EXPECT_NEAR(numbers.at("sum_rule_floor"), 0.5 * 0.4 / 2, 1e-12);
}

// Floors beside the published final losses (reference table of Schlag et al. 2021, evaluation length S).
TEST(Reassign, SumRuleFloorIsThePublishedOne) {
  const std::pair<int, double> published[] = {
      {20, 0.11389}, {60, 0.11565}, {100, 0.11599}, {140, 0.11614}, {200, 0.11625}};
  for (const auto& [S, floor] : published)
    EXPECT_NEAR(make_task("reassign", {{"associations", S}})->baselines().at("sum_rule_floor"), floor, 6e-6)
        << "S = " << S;
  const auto twice = make_task("reassign", {{"associations", 200}, {"eval_length", 400}});
  EXPECT_NEAR(twice->baselines().at("sum_rule_floor"), 0.2116, 5e-4);
  EXPECT_NEAR(
      make_task("reassign", {{"associations", 1}, {"eval_length", 4}})->baselines().at("sum_rule_floor"),
      0.5 * 0.75, 1e-12);
}

// The exact floor is the loss of a perfect sum rule, measured.
TEST(Reassign, ExactSumRuleFloorIsWhatTheMeanOfTheWritesLoses) {
  constexpr int S = 8;
  const auto task = make_task("reassign", {{"associations", S}, {"eval_length", 20}});
  double loss = 0, queries = 0;
  for (const SequenceView& s : drawn(*task, Split::eval, 6, 4000))
    for (int q = 0; q < s.shape.Q; ++q) {
      if (s.target[q] < 0) continue;
      double read[S] = {}, writes = 0;
      for (int t = 0; t < 20; ++t)
        if (s.tokens[2 * t] == s.query[q]) ++read[s.tokens[2 * t + 1]], ++writes;
      for (int v = 0; v < S; ++v) loss += 0.5 * std::pow(read[v] / writes - (v == s.target[q]), 2);
      ++queries;
    }
  EXPECT_NEAR(task->baselines().at("sum_rule_floor_exact"), loss / queries, 0.003);
}

// Chance: E[1/D], D distinct values among L draws of V (exact occupancy recursion).
TEST(Reassign, ChanceIsOneOverTheDistinctValuesInContext) {
  constexpr int S = 20;
  std::vector<double> distinct(S + 1, 0.0);
  distinct[0] = 1;
  for (int t = 0; t < S; ++t)
    for (int d = S; d >= 0; --d) {
      const auto i = static_cast<std::size_t>(d);
      distinct[i] = distinct[i] * d / S + (d > 0 ? distinct[i - 1] * (S - d + 1) / S : 0.0);
    }
  double inverse = 0;
  for (int d = 1; d <= S; ++d) inverse += distinct[static_cast<std::size_t>(d)] / d;
  const auto numbers = make_task("reassign", {{"associations", S}})->baselines();
  EXPECT_NEAR(numbers.at("chance_accuracy"), inverse, 0.002);
  EXPECT_GT(numbers.at("baseline_most_recent_accuracy"), 1.0 / S);
}

TEST(Reassign, LengthFactorsReadAtMultiplesOfTheTrainingLength) {
  const auto task = make_task("reassign", {{"associations", 10}});
  for (const int factor : {1, 2, 8}) {
    const auto longer = task->lengthened(factor);
    EXPECT_EQ(longer->shape(Split::eval), (SequenceShape{20 * factor, 2, 10}));
    EXPECT_EQ(longer->shape(Split::train), task->shape(Split::train));
    EXPECT_EQ(longer->eval_load(), 20 * factor);
    EXPECT_EQ(longer->vocabulary().keys, 10);
    SequenceBuffer buffer(*longer, Split::eval);
    const SequenceView s = buffer.draw(0, 0);
    for (int q = 0; q < s.shape.Q; ++q) {
      if (s.target[q] < 0) continue;
      EXPECT_EQ(s.target[q], longer->reference_answer(s, s.query[q], s.shape.T));
    }
  }
  const auto updates = make_task("reassign", {{"update_fraction", 0.5}});
  EXPECT_EQ(updates->lengthened(1)->shape(Split::eval).T, 30);
  EXPECT_THROW(updates->lengthened(2), OptionError);
  EXPECT_THROW(task->lengthened(1 << 30), OptionError);
}

TEST(Reassign, RefusesContradictions) {
  EXPECT_EQ(refused("reassign", {{"update_fraction", -0.5}}).key, "task.update_fraction");
  EXPECT_EQ(refused("reassign", {{"update_fraction", 0.5}, {"length", 40}}).key, "task.length");
  EXPECT_EQ(refused("reassign", {{"update_fraction", 0.5}, {"eval_length", 40}}).key, "task.eval_length");
  EXPECT_EQ(refused("reassign", {{"update_fraction", 0.5}, {"length", 30}}).key, "accepted");
  EXPECT_EQ(refused("reassign", {{"queries", 41}}).key, "task.queries");
  EXPECT_EQ(refused("reassign", {{"queries", 40}}).key, "accepted");
  EXPECT_EQ(refused("reassign", {{"queries", 21}, {"query_by", "key"}}).key, "task.queries");
  EXPECT_EQ(refused("reassign", {{"query_by", "token"}}).key, "task.query_by");
  EXPECT_EQ(refused("reassign", {{"keys", 5}}).key, "task.keys");
  EXPECT_EQ(refused("reassign", {{"associations", 1}, {"update_fraction", 1.0}}).key, "task.values");
}

const Settings slots = {{"layout", "slots"}, {"update_fraction", 0.5}}, split = {{"layout", "split"}};

TEST(ReassignSlots, IsZoologysForgetting) {
  const auto task =
      make_task("reassign", with(slots, {{"associations", 8}, {"keys", 31}, {"values", 32}, {"length", 96}}));
  EXPECT_EQ(task->shape(Split::train), (SequenceShape{96, 1, 8}));
  EXPECT_EQ(task->vocabulary().tokens, 64);
  Counts updated(8), shift(31);
  for (const SequenceView& s : drawn(*task, Split::train, 4, 3000)) {
    std::map<int, int> value_of, place_of;
    std::set<int> values, again;
    for (int pair = 0; pair < 8; ++pair) {
      ASSERT_TRUE(s.tokens[2 * pair] >= 1 && s.tokens[2 * pair] < 32);
      ASSERT_TRUE(s.tokens[2 * pair + 1] >= 32 && s.tokens[2 * pair + 1] < 64);
      value_of[s.tokens[2 * pair]] = s.tokens[2 * pair + 1];
      place_of[s.tokens[2 * pair]] = pair;
      values.insert(s.tokens[2 * pair + 1]);
    }
    ASSERT_EQ(value_of.size(), 8u);
    ASSERT_EQ(values.size(), 8u);
    for (int u = 0; u < 4; ++u) {
      const int key = s.tokens[16 + 2 * u], value = s.tokens[16 + 2 * u + 1];
      ASSERT_TRUE(place_of.count(key) && again.insert(key).second && value != value_of[key]);
      ++updated[place_of[key]];
      ++shift[(value - value_of[key] + 32) % 32 - 1];
      value_of[key] = value;
    }
    for (int t = 24; t < 96; ++t)
      ASSERT_TRUE(s.tokens[t] == 0 || (t % 2 == 0 && value_of.count(s.tokens[t])));
    for (int q = 0; q < 8; ++q) {
      const std::int32_t* meta = s.meta + q * meta_count;
      ASSERT_EQ(s.target[q], value_of[s.query[q]]);
      ASSERT_EQ(meta[meta_writes], again.count(s.query[q]) ? 2 : 1);
      ASSERT_EQ(s.tokens[s.query_position[q] - 1 - meta[meta_gap]], s.target[q]);
    }
    ASSERT_EQ(std::set<int>(s.query, s.query + 8).size(), 8u);
  }
  EXPECT_LT(uniformity_score(updated), 4);
  expect_uniform({shift});
}

TEST(ReassignSlots, IgnoringUpdatesIsRightForTheOthers) {
  const auto numbers =
      make_task("reassign", with(slots, {{"update_fraction", 0.25}, {"values", 64}}))->baselines();
  EXPECT_DOUBLE_EQ(numbers.at("baseline_unchanged_accuracy"), 0.75);
  EXPECT_DOUBLE_EQ(numbers.at("chance_accuracy"), 1.0 / 64);
  EXPECT_EQ(numbers.count("baseline_unused_accuracy"), 0u);
}

TEST(ReassignSlots, WithoutUpdatesIsMqar) {
  const auto task = make_task(
      "reassign",
      with(
          slots,
          {{"update_fraction", 0.0}, {"associations", 4}, {"length", 64}, {"keys", 4095}, {"values", 4096}}));
  const auto mqar = make_task("mqar");
  SequenceBuffer a(*task, Split::train), b(*mqar, Split::train);
  for (std::uint64_t n = 0; n < 20; ++n) {
    a.draw(0, n), b.draw(0, n);
    ASSERT_EQ(a.contents(), b.contents());
  }
}

TEST(ReassignSlots, MixturesKeepTheFraction) {
  const auto task =
      make_task("reassign", with(slots, {{"segments", "64:4:100 128:16:50"}, {"test_segments", "512:64"}}));
  EXPECT_EQ(task->shape(Split::train), (SequenceShape{128, 1, 16}));
  EXPECT_EQ(task->shape(Split::eval), (SequenceShape{512, 1, 64}));
  EXPECT_EQ(task->vocabulary().tokens, 1 + 64 + 64);
  EXPECT_DOUBLE_EQ(task->baselines().at("baseline_unchanged_accuracy"), 0.5);
  EXPECT_EQ(task->segments(Split::train)[1].sequences, 50);
}

TEST(ReassignSplit, RewriteWritesKeysAgainAndAsksAtTheEnd) {
  const auto task =
      make_task("reassign", with(split, {{"associations", 3}, {"values", 5}, {"length", 6}, {"queries", 2}}));
  EXPECT_EQ(task->shape(Split::train), (SequenceShape{16, 1, 2}));
  EXPECT_EQ(task->shape(Split::eval), (SequenceShape{16, 1, 2}));
  EXPECT_EQ(task->vocabulary().tokens, 9);
  EXPECT_EQ(task->lengthened(10)->shape(Split::test), (SequenceShape{124, 1, 2}));
  Counts pair(15);
  for (const SequenceView& s : drawn(*task, Split::eval, 4, 5000)) {
    for (int i = 0; i < 6; ++i) ++pair[(s.tokens[2 * i] - 1) * 5 + s.tokens[2 * i + 1] - 4];
    for (int q = 0; q < 2; ++q) {
      ASSERT_EQ(s.tokens[12 + 2 * q], 0);
      ASSERT_EQ(s.query_position[q], 14 + 2 * q);
      int writes = 0, last = -1;
      for (int i = 0; i < 6; ++i)
        if (s.tokens[2 * i] == s.query[q]) ++writes, last = 2 * i + 1;
      ASSERT_EQ(s.target[q], s.tokens[last]);
      ASSERT_EQ(s.meta[q * meta_count + meta_writes], writes);
      ASSERT_EQ(s.meta[q * meta_count + meta_gap], 13 + 2 * q - last);
    }
  }
  expect_uniform({pair});
}

TEST(ReassignSplit, RememberWritesEachKeyOnce) {
  const Settings remember = {
      {"layout", "split"}, {"update_fraction", 0.0}, {"keys", 4096}, {"values", 16}, {"associations", 16}};
  const auto task = make_task("reassign", remember);
  EXPECT_EQ(task->shape(Split::train), (SequenceShape{34, 1, 1}));
  SequenceBuffer buffer(*task, Split::train);
  const SequenceView s = buffer.draw(4, 0);
  std::set<int> keys;
  for (int i = 0; i < 16; ++i) keys.insert(s.tokens[2 * i]);
  EXPECT_EQ(keys.size(), 16u);
  EXPECT_TRUE(keys.count(s.query[0]));
  EXPECT_THROW(task->lengthened(2), OptionError);
}

TEST(ReassignSplit, CurriculaOfARMT) {
  const auto rewrite =
      make_task("reassign", with(split, {{"associations", 16}, {"curriculum", "1 2 3 5 10 20 40 50"}}));
  ASSERT_EQ(rewrite->stages().size(), 8u);
  EXPECT_EQ(rewrite->stages()[0].name, "length=1");
  EXPECT_EQ(rewrite->stages()[0].task->shape(Split::train), (SequenceShape{4, 1, 1}));
  EXPECT_EQ(rewrite->shape(Split::train), (SequenceShape{102, 1, 1}));
  const auto remember = make_task(
      "reassign", with(split, {{"update_fraction", 0.0}, {"keys", 4096}, {"curriculum", "1 2 3 5 200"}}));
  ASSERT_EQ(remember->stages().size(), 5u);
  EXPECT_EQ(remember->stages()[3].name, "associations=5");
  EXPECT_EQ(remember->stages()[3].task->shape(Split::eval), (SequenceShape{12, 1, 1}));
  EXPECT_EQ(remember->shape(Split::train), (SequenceShape{402, 1, 1}));
  EXPECT_EQ(remember->vocabulary().tokens, 1 + 4096 + 200);
}

TEST(ReassignSplit, ReadsAsText) {
  const auto task = make_task("reassign", with(split, {{"associations", 2}, {"length", 3}}));
  std::int32_t tokens[] = {1, 4, 2, 3, 1, 3, 0, 1}, query[] = {1}, position[] = {8}, target[] = {3};
  const SequenceView view{{8, 1, 1}, tokens, nullptr, query, position, target, nullptr};
  EXPECT_EQ(task->to_text(view), "     1: k0 v1 k1 v0 k0 v0 QRY k0->v0\n");
  EXPECT_EQ(task->reference_answer(view, 1, 8), 3);
}

TEST(ReassignTokens, RefuseWhatBelongsToOtherLayouts) {
  EXPECT_EQ(refused("reassign", {{"power", 0.5}}).key, "task.power");
  EXPECT_EQ(refused("reassign", with(split, {{"filler", "random"}})).key, "task.filler");
  EXPECT_EQ(refused("reassign", {{"curriculum", "1 2"}}).key, "task.curriculum");
  EXPECT_EQ(refused("reassign", with(slots, {{"curriculum", "1 2"}})).key, "task.curriculum");
  EXPECT_EQ(refused("reassign", with(slots, {{"update_fraction", -1.0}})).key, "task.update_fraction");
  EXPECT_EQ(refused("reassign", with(slots, {{"queries", 2}})).key, "task.queries");
  EXPECT_EQ(refused("reassign", with(slots, {{"length", 40}})).key, "task.length");
  EXPECT_EQ(refused("reassign", with(slots, {{"eval_length", 40}})).key, "task.eval_length");
  EXPECT_EQ(refused("reassign", with(slots, {{"keys", 19}})).key, "task.associations");
  EXPECT_EQ(refused("reassign", slots).key, "accepted");
  EXPECT_EQ(refused("reassign", split).key, "accepted");
}

}  // namespace crosstalk::testing::reassign_test

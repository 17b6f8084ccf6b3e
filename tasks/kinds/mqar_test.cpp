// MQAR: layout and labels of Zoology, laws of gaps, keys and values, sets, mixtures, baselines, what is refused.
// SPDX-License-Identifier: Apache-2.0
#include "tasks/kinds/mqar_sequence.h"

#include "tasks/golden.h"
#include "tasks/segments_fuzz.h"

namespace crosstalk::testing::mqar_test {

[[maybe_unused]] const bool pinned =
    pin("mqar", {{"standard", {}, 0x3f2ea887d2ef3e16u, 0x8a6c53c8d2b6ab80u},
                 {"table1",
                  {{"vocabulary", 256}, {"length", 128}, {"pairs", 32}, {"filler", "random"}},
                  0x10406764e75e12bu,
                  0x4988380db1179c87u},
                 {"passes",
                  {{"passes", 2}, {"power", 1.0}, {"filler", "random"}, {"examples", 5}},
                  0xaf025fccd49c3618u,
                  0xe4f2eff214e04529u}});

[[maybe_unused]] const bool fitted = [] {
  fit()["mqar"] = [](Settings& s) {
    s["length"] = whole_of(s, "length", 64) / 2 * 2;
    const std::int64_t passes = 1 + whole_of(s, "passes", 1) % 3;
    const std::int64_t vocabulary = whole_of(s, "vocabulary", 8192);
    const std::int64_t most =
        std::min(std::get<std::int64_t>(s["length"]) / (2 * passes + 2), vocabulary / 2 - 1);
    s["passes"] = passes;
    s["pairs"] = 1 + whole_of(s, "pairs", 4) % std::max<std::int64_t>(most, 1);
    if (whole_of(s, "examples", 0) == 0) s["fresh"] = false;
  };
  return true;
}();

// Zoology's documented example: vocab_size 20, num_kv_pairs 4, input_seq_len 24 makes
//   inputs: k v k v k v k v, then a key in some slots of two, blanks elsewhere; labels: -100 but where a key is asked.
TEST(Mqar, HasTheLayoutAndTheLabelsOfZoology) {
  const auto task = make_task("mqar", {{"vocabulary", 20}, {"length", 24}, {"pairs", 4}});
  EXPECT_EQ(task->shape(Split::train), (SequenceShape{24, 1, 4}));
  EXPECT_EQ(task->vocabulary().tokens, 20);
  EXPECT_EQ(task->vocabulary().values, 20);
  for (const SequenceView& s : drawn(*task, Split::train, 3, 500)) {
    std::map<int, int> value_of;
    std::set<int> values;
    for (int pair = 0; pair < 4; ++pair) {
      const int key = s.tokens[2 * pair], value = s.tokens[2 * pair + 1];
      ASSERT_TRUE(key >= 1 && key < 10 && value >= 10 && value < 20);
      value_of[key] = value;
      values.insert(value);
    }
    ASSERT_EQ(value_of.size(), 4u);
    ASSERT_EQ(values.size(), 4u);
    Counts labels(24, -100), asked;
    for (int q = 0; q < 4; ++q) labels[s.query_position[q] - 1] = s.target[q];
    for (int t = 8; t < 24; ++t) {
      const int token = s.tokens[t], label = labels[t];
      ASSERT_TRUE(token == 0 || (t % 2 == 0 && label == value_of.at(token))) << t;
      ASSERT_EQ(token == 0, label == -100) << t;  // so no answer stands in the input
      ASSERT_EQ(s.role[t], static_cast<int>(token == 0 ? Role::pad : Role::ask));
      if (token != 0) asked.push_back(token);
    }
    for (int t = 0; t < 8; ++t) {
      ASSERT_EQ(labels[t], -100);
      ASSERT_EQ(s.role[t], static_cast<int>(Role::write));
    }
    std::sort(asked.begin(), asked.end());
    ASSERT_EQ(asked.size(), 4u);
    for (const int key : asked) ASSERT_EQ(value_of.count(key), 1u);
    ASSERT_EQ(std::set<int>(asked.begin(), asked.end()).size(), 4u);  // every key once
  }
}

/// Probability of every way to draw `count` slots of weight i^(power - 1) one after the other without replacement.
std::vector<double> draws_in_order(int slots, int count, double power) {
  std::vector<double> weight, probability;
  for (int i = 1; i <= slots; ++i) weight.push_back(power * std::pow(i, power - 1));
  std::vector<bool> used(weight.size());
  const auto go = [&](auto& self, int left, double p) -> void {
    if (left == 0) return probability.push_back(p);
    double rest = 0;
    for (std::size_t i = 0; i < weight.size(); ++i) rest += used[i] ? 0 : weight[i];
    for (std::size_t i = 0; i < weight.size(); ++i) {
      if (used[i]) continue;
      used[i] = true;
      self(self, left - 1, p * weight[i] / rest);
      used[i] = false;
    }
  };
  go(go, count, 1);
  return probability;
}

std::vector<int> counted_draws(const Task& task, int slots, int pairs, int draws) {
  std::vector<int> counts;
  SequenceBuffer buffer(task, Split::train);
  std::map<std::vector<int>, int> seen;
  for (int n = 0; n < draws; ++n) {
    const SequenceView s = buffer.draw(5, static_cast<std::uint64_t>(n));
    std::vector<int> slot_of;
    for (int pair = 0; pair < pairs; ++pair)
      for (int slot = 0; slot < slots; ++slot)
        if (s.tokens[2 * pairs + 2 * slot] == s.tokens[2 * pair]) slot_of.push_back(slot);
    ++seen[slot_of];
  }
  const auto go = [&](auto& self, std::vector<int> slot_of) -> void {
    if (static_cast<int>(slot_of.size()) == pairs) return counts.push_back(seen[slot_of]);
    for (int slot = 0; slot < slots; ++slot) {
      if (std::find(slot_of.begin(), slot_of.end(), slot) != slot_of.end()) continue;
      slot_of.push_back(slot);
      self(self, slot_of);
      slot_of.pop_back();
    }
  };
  go(go, {});
  return counts;
}

TEST(Mqar, SlotsFollowTheLawOfGapsInTheOrderOfTheContext) {
  for (const double power : {0.01, 0.5, 1.0, 2.0}) {
    const auto task = make_task("mqar", {{"length", 16}, {"pairs", 3}, {"power", power}});
    constexpr int draws = 40000, slots = 5;
    std::vector<double> expected = draws_in_order(slots, 3, power);
    for (double& p : expected) p *= draws;
    const std::vector<int> counts = counted_draws(*task, slots, 3, draws);
    ASSERT_EQ(counts.size(), expected.size());
    EXPECT_LT(std::abs(chi_square_score(counts, expected)), 4) << power;
  }
}

TEST(Mqar, TheFirstSlotsOfTheStandardProtocolsAreAsLikelyAsTheirs) {
  // P(first key, first slot): .251 for (64, 4), .185 for (256, 16), .167 for (512, 64).
  const struct {
    int length, pairs;
    double probability;
  } protocols[] = {{64, 4, .251}, {256, 16, .185}, {512, 64, .167}};
  for (const auto& p : protocols) {
    const auto task = make_task("mqar", {{"length", p.length}, {"pairs", p.pairs}});
    SequenceBuffer buffer(*task, Split::train, 0, false);
    int hits = 0;
    constexpr int draws = 8000;
    for (std::uint64_t n = 0; n < draws; ++n) {
      const SequenceView s = buffer.draw(1, n);
      hits += s.tokens[2 * p.pairs] == s.tokens[0];
    }
    EXPECT_NEAR(hits / double{draws}, p.probability, 4 * std::sqrt(p.probability / draws) + 5e-4) << p.length;
  }
}

TEST(Mqar, KeysAndValuesAreUniform) {
  Counts first(9), last(9), value(11), pair(9 * 11), ordered(9 * 8);
  for (const SequenceView& s :
       drawn("mqar", {{"vocabulary", 21}, {"length", 20}, {"pairs", 5}}, Split::test, 1, 20000)) {
    const auto key = [&](int i) { return s.tokens[2 * i] - 1; };
    ++first[key(0)];
    ++last[key(4)];
    ++value[s.tokens[9] - 10];
    ++pair[key(1) * 11 + s.tokens[3] - 10];
    ++ordered[key(0) * 8 + key(3) - (key(3) > key(0) ? 1 : 0)];
  }
  for (const auto* counts : {&first, &last, &value, &pair, &ordered})
    EXPECT_LT(std::abs(uniformity_score(*counts)), 4);
}

TEST(Mqar, RandomFillerIsAnyTokenAndLeavesKeysAndLabelsAsTheyAre) {
  const Settings settings = {{"vocabulary", 30}, {"length", 40}, {"pairs", 4}};
  Settings filled = settings;
  filled["filler"] = "random";
  const auto blank = make_task("mqar", settings), random = make_task("mqar", filled);
  SequenceBuffer a(*blank, Split::train), b(*random, Split::train);
  Counts filler(30);
  for (std::uint64_t n = 0; n < 4000; ++n) {
    const SequenceView s = a.draw(2, n), f = b.draw(2, n);
    ASSERT_TRUE(std::equal(s.target, s.target + 4, f.target));
    ASSERT_TRUE(std::equal(s.query_position, s.query_position + 4, f.query_position));
    for (int t = 0; t < 40; ++t) {
      if (s.tokens[t] != 0) {
        ASSERT_EQ(s.tokens[t], f.tokens[t]);
      } else
        ++filler[f.tokens[t]];
    }
  }
  EXPECT_LT(std::abs(uniformity_score(filler)), 4);
}

TEST(Mqar, PassesRepeatThePairs) {
  const auto task = make_task("mqar", {{"passes", 3}, {"length", 40}, {"pairs", 4}});
  SequenceBuffer buffer(*task, Split::eval);
  const SequenceView s = buffer.draw(2, 1);
  for (int t = 8; t < 24; ++t) EXPECT_EQ(s.tokens[t], s.tokens[t - 8]);
  for (int q = 0; q < 4; ++q) {
    const std::int32_t* meta = s.meta + q * meta_count;
    EXPECT_EQ(meta[meta_writes], 3);
    EXPECT_EQ(s.tokens[s.query_position[q] - 1 - meta[meta_gap]], s.target[q]);
    EXPECT_EQ(meta[meta_gap], meta[meta_age]);
  }
}

TEST(Mqar, AFixedSetComesAgainInEveryEpochAndAFreshOneDoesNot) {
  const auto task = make_task("mqar", {{"examples", 10}});
  EXPECT_EQ(task->sequences(Split::train), 10);
  EXPECT_EQ(task->sequences(Split::eval), 0);
  SequenceBuffer buffer(*task, Split::train), eval(*task, Split::eval);
  std::set<std::vector<std::int32_t>> different, evaluated;
  for (std::uint64_t n = 0; n < 30; ++n) {
    buffer.draw(0, n);
    different.insert(buffer.contents());
    eval.draw(0, n);
    evaluated.insert(eval.contents());
  }
  EXPECT_EQ(different.size(), 10u);
  EXPECT_EQ(evaluated.size(), 30u);
  const auto fresh = make_task("mqar", {{"examples", 10}, {"fresh", true}});
  EXPECT_EQ(fresh->sequences(Split::train), 0);
}

TEST(Mqar, FewerQueriesSpreadEvenlyAndKeepTheLast) {
  const auto task = make_task("mqar", {{"length", 128}, {"pairs", 10}});
  SequenceBuffer all(*task, Split::eval), five(*task, Split::eval, 5), one(*task, Split::eval, 1);
  const SequenceView a = all.draw(0, 3), f = five.draw(0, 3), o = one.draw(0, 3);
  for (int q = 0; q < 5; ++q) EXPECT_EQ(f.query[q], a.query[2 * q + 1]);
  EXPECT_EQ(o.query[0], a.query[9]);
}

TEST(Mqar, BaselinesAreThoseOfThePairs) {
  const auto numbers = make_task("mqar", {{"pairs", 8}, {"length", 128}})->baselines();
  EXPECT_NEAR(numbers.at("chance_accuracy"), 1.0 / 4096, 1e-12);
  EXPECT_NEAR(numbers.at("baseline_random_in_context_accuracy"), 1.0 / 8, 1e-12);
  EXPECT_NEAR(numbers.at("baseline_first_accuracy"), 1.0 / 8, 1e-12);
  EXPECT_NEAR(numbers.at("baseline_most_recent_accuracy"), 1.0 / 8, 1e-12);
  double unused = 0;
  for (int left = 1; left <= 8; ++left) unused += 1.0 / left / 8;
  EXPECT_NEAR(numbers.at("baseline_unused_accuracy"), unused, 1e-12);
  // Two pairs, six slots: 1 / 2 would be fair, but the law gives the first pair the nearer slot more often.
  const std::vector<double> ways = draws_in_order(6, 2, 0.01);
  double in_order = 0;
  std::size_t way = 0;
  for (int first = 0; first < 6; ++first)
    for (int second = 0; second < 6; ++second)
      if (first != second) in_order += first < second ? ways[way++] : (++way, 0);
  EXPECT_GT(in_order, 0.55);
  const auto two = make_task("mqar", {{"pairs", 2}, {"length", 16}})->baselines();
  EXPECT_NEAR(two.at("baseline_in_order_accuracy"), in_order, 4 * std::sqrt(.25 / 256));
}

TEST(Mqar, ReadsAsText) {
  const auto task = make_task("mqar", {{"vocabulary", 10}, {"length", 8}, {"pairs", 2}});
  std::int32_t tokens[] = {2, 7, 4, 5, 4, 0, 2, 0}, query[] = {4, 2}, position[] = {5, 7}, target[] = {5, 7};
  const SequenceView view{{8, 1, 2}, tokens, nullptr, query, position, target, nullptr};
  EXPECT_EQ(task->to_text(view), "     1: k2 v7 k4 v5 k4->v5 . k2->v7 .\n");
  EXPECT_EQ(task->reference_answer(view, 4, 5), 5);
  EXPECT_EQ(task->reference_answer(view, 4, 2), -1);
  EXPECT_EQ(task->eval_load(), 2);
}

TEST(Mqar, AMixtureIsItsSegments) {
  const auto task =
      make_task("mqar", {{"segments", "64:4:1000 32:2:500 64:8:200"}, {"test_segments", "64:4 256:32:100"}});
  EXPECT_EQ(task->shape(Split::train), (SequenceShape{64, 1, 8}));
  EXPECT_EQ(task->shape(Split::eval), (SequenceShape{256, 1, 32}));
  EXPECT_EQ(task->sequences(Split::train), 1700);
  const auto train = task->segments(Split::train), eval = task->segments(Split::eval);
  ASSERT_EQ(train.size(), 3u);
  ASSERT_EQ(eval.size(), 2u);
  EXPECT_EQ(train[1].name, "32:2");
  EXPECT_EQ(train[1].sequences, 500);
  EXPECT_EQ(train[1].task->sequences(Split::train), 500);
  EXPECT_EQ(train[1].task->shape(Split::train), (SequenceShape{32, 1, 2}));
  EXPECT_EQ(eval[0].sequences, 0);
  EXPECT_EQ(eval[1].sequences, 100);
  EXPECT_EQ(eval[1].task->shape(Split::test), (SequenceShape{256, 1, 32}));
  SequenceBuffer four(*train[0].task, Split::train), eight(*train[2].task, Split::train);
  const SequenceView a = four.draw(0, 7), b = eight.draw(0, 7);  // other sequences, not longer ones
  EXPECT_FALSE(std::equal(a.tokens, a.tokens + 8, b.tokens));
  EXPECT_NEAR(task->baselines().at("baseline_random_in_context_accuracy"), (0.25 + 100.0 / 32) / 101, 1e-12);
  const auto same = make_task("mqar", {{"segments", "64:4:1000 32:2:500"}, {"fresh", true}});
  EXPECT_EQ(same->segments(Split::eval).size(), 2u);
  EXPECT_EQ(same->segments(Split::eval)[0].sequences, 0);
  EXPECT_EQ(same->segments(Split::train)[0].task->sequences(Split::train), 0);
}

TEST(Mqar, RefusesWhatHasNoRoom) {
  EXPECT_EQ(
      refused("mqar", {{"length", 62}, {"pairs", 16}}).why,
      "task.length: 16 pairs need 32 tokens of context and 32 of slots, more than a length of 62; give a length of at least 64, or fewer pairs");
  EXPECT_TRUE(refused("mqar", {{"length", 63}}).says("odd"));
  EXPECT_EQ(
      refused("mqar", {{"vocabulary", 8}}).why,
      "task.pairs: 4 pairs need as many distinct keys and values, but there are 3 and 4; give fewer pairs, or a larger task.vocabulary");
  EXPECT_EQ(refused("mqar", {{"vocabulary", 10}}).why, "accepted");
  EXPECT_EQ(refused("mqar", {{"length", 16}}).why, "accepted");
  EXPECT_NE(refused("mqar", {{"fresh", true}}).key, "accepted");
  EXPECT_EQ(
      refused("mqar", {{"segments", "64:4"}}).why,
      "task.segments = \"64:4\": \"64:4\" has 2 numbers; it wants words like 64:4:100000 (length:pairs:sequences)");
  EXPECT_TRUE(refused("mqar", {{"segments", "64:x:3"}}).says("\"64:x:3\" is not made of whole numbers"));
  EXPECT_TRUE(refused("mqar", {{"test_segments", "64:17"}}).says("at least 68"));
  EXPECT_TRUE(refused("mqar", {{"segments", "64:4:10"}, {"pairs", 3}}).says("contradicts"));
}

// 2^32 + 1 sequences were tested on 1, 2^32 on none.
TEST(Mqar, SequencesOfAMixtureAreCountedWithAllTheirBits) {
  for (const char* count :
       {"4294967297", "4294967296", "2147483648", "16777217", "1099511627777", "99999999999999999999"})
    EXPECT_TRUE(refused("mqar", {{"test_segments", std::string("64:4:") + count}}).says("task.test_segments"))
        << count;
  EXPECT_TRUE(refused("mqar", {{"test_segments", "64:4:16777216 32:4:1"}})
                  .says("16777217 sequences; at most 16777216"));
  EXPECT_EQ(refused("mqar", {{"test_segments", "64:4:16777216"}}).why, "accepted");
  EXPECT_TRUE(refused("mqar", {{"segments", "64:4:1099511627776 32:4:1"}}).says("at most 1099511627776"));
  std::string many;
  for (int n = 0; n < 1001; ++n) many += "64:4:10 ";
  EXPECT_TRUE(refused("mqar", {{"segments", many}}).says("more than 1000 groups"));
}

TEST(Mqar, AnyBytesAreAMixtureOrAreRefused) {
  for (const std::string good : {"64:4:100000 128:8:20000", "32 64\t128\n", "1:2:4294967297"})
    for (std::size_t at = 0; at < good.size(); ++at) {
      check_segments_reader(good.substr(0, at));
      check_segments_reader(good.substr(at));
      for (const char c : {':', ' ', '-', '+', '0', '9', 'x', '.', '\0', '\xff'}) {
        std::string changed = good;
        changed[at] = c;
        check_segments_reader(changed);
      }
    }
}

TEST(Mqar, LongerSequencesHaveMorePairs) {
  const auto task = make_task("mqar", {{"vocabulary", 40}});
  const auto longer = task->lengthened(4);
  EXPECT_EQ(longer->shape(Split::eval), (SequenceShape{256, 1, 16}));
  EXPECT_EQ(longer->shape(Split::train), task->shape(Split::train));
  EXPECT_EQ(longer->eval_load(), 16);
  SequenceBuffer buffer(*longer, Split::eval);
  const SequenceView s = buffer.draw(0, 0);
  for (int q = 0; q < 16; ++q)
    EXPECT_EQ(s.target[q], longer->reference_answer(s, s.query[q], s.query_position[q]));
  EXPECT_THROW(task->lengthened(5), OptionError);
  EXPECT_THROW(make_task("mqar", {{"test_segments", "64:4"}})->lengthened(2), OptionError);
}

}  // namespace crosstalk::testing::mqar_test

// Recall in contexts: layouts, zones and keys, targets of another context, baselines, what is refused.
// SPDX-License-Identifier: Apache-2.0
#include "tasks/kinds/context_recall_sequence.h"

#include "tasks/golden.h"

namespace crosstalk::testing::context_recall_test {

/// Ids: contexts 1 .. 5, keys 6 .. 12, values 13 .. 32.
const Settings blocks = {{"contexts", 3},           {"pairs", 4},          {"length", 90},
                         {"context_vocabulary", 5}, {"key_vocabulary", 7}, {"vocabulary", 33}};

const Settings joint = with(blocks, {{"query_by", "pair"}});
const Settings triples = with(with(joint, {{"layout", "triples"}}), {{"values", "any"}});
const Settings unique = with(with(blocks, {{"keys", "unique"}}), {{"key_vocabulary", 12}});

[[maybe_unused]] const bool fitted = [] {
  fit()["context_recall"] = [](Settings& settings) {
    const int C = 1 + static_cast<int>(whole_of(settings, "contexts", 4)) % 5,
              P = 1 + static_cast<int>(whole_of(settings, "pairs", 6)) % 7;
    settings["contexts"] = C, settings["pairs"] = P;
    settings["length"] = 6 * C * P + 2 * C + static_cast<int>(whole_of(settings, "length", 9));
    const int contexts = static_cast<int>(whole_of(settings, "context_vocabulary", 0)) % 3,
              keys = static_cast<int>(whole_of(settings, "key_vocabulary", 0)) % 3;
    settings["context_vocabulary"] = contexts == 0 ? 0 : C + contexts;
    settings["key_vocabulary"] = keys == 0 ? 0 : C * P + keys;
    settings["vocabulary"] = 200;
  };
  return true;
}();

[[maybe_unused]] const bool pinned =
    pin("context_recall", {{"standard", {}, 0xbae7a429429070f2u, 0x71d86991ab6d3e18u},
                           {"blocks", blocks, 0xdc66a6cfa1d187e8u, 0x3f23b7377c29d278u},
                           {"joint", joint, 0x7b9fce4e5b709790u, 0x5a2dde88ab210411u},
                           {"triples", triples, 0x68f5cc81f68471d5u, 0x6cd5107d27370be6u},
                           {"unique", unique, 0xf755cad49bf1800du, 0xc71bca0060bc423bu}});

TEST(ContextRecall, BlocksShowAllKeysInEveryContextAndZonesAskThem) {
  const auto task = make_task("context_recall", blocks);
  EXPECT_EQ(task->shape(Split::eval), (SequenceShape{90, 1, 12}));
  EXPECT_EQ(task->vocabulary().tokens, 33);
  constexpr int shown = 3 + 2 * 12, zone = (90 - shown) / 3, slots = (zone - 1) / 2;
  Counts contexts(5), keys(7), values(20), zone_of_first(3), first_key(4), first_slot(slots);
  for (const SequenceView& s : drawn(*task, Split::eval, 3, 3000)) {
    std::vector<int> order, key_order;
    std::set<int> all_values;
    std::map<int, std::map<int, int>> value_of;
    for (int c = 0; c < 3; ++c) {
      const std::int32_t* block = s.tokens + 9 * c;
      order.push_back(block[0]);
      ++contexts[block[0] - 1];
      for (int i = 0; i < 4; ++i) {
        const int key = block[1 + 2 * i], value = block[2 + 2 * i];
        ++keys[key - 6];
        ++values[value - 13];
        all_values.insert(value);
        value_of[block[0]][key] = value;
        if (c == 0) key_order.push_back(key);
      }
      ASSERT_EQ(value_of[block[0]].size(), 4u);
    }
    ASSERT_EQ(value_of.size(), 3u);
    ASSERT_EQ(all_values.size(), 12u);
    std::set<std::set<int>> key_sets;
    for (const auto& [context, pairs] : value_of) {
      std::set<int> own;
      for (const auto& [key, value] : pairs) own.insert(key);
      key_sets.insert(own);
    }
    ASSERT_EQ(key_sets.size(), 1u) << "contexts share their keys";
    const auto of_second = std::find(key_order.begin(), key_order.end(), s.tokens[10]) - key_order.begin();
    ++first_key[of_second];
    int q = 0;
    for (int z = 0; z < 3; ++z) {
      const std::int32_t* part = s.tokens + shown + z * zone;
      const int context = part[0];
      if (context == order[0]) {
        ++zone_of_first[z];
        // The slot drawn first belongs to the key shown first.
        const auto at = std::find(part + 1, part + zone, key_order[0]) - part - 1;
        ASSERT_EQ(at % 2, 0);
        ++first_slot[at / 2];
      }
      for (int t = 1; t < zone; ++t) {
        if (part[t] == 0) continue;
        ASSERT_EQ(s.query_position[q], shown + z * zone + t + 1);
        ASSERT_EQ(s.query[q], part[t]);
        ASSERT_EQ(s.target[q], value_of.at(context).at(part[t]));
        ++q;
      }
    }
    ASSERT_EQ(q, 12);
  }
  for (const auto& counts : {contexts, keys, values, zone_of_first, first_key}) expect_uniform({counts});
  std::vector<double> expected;
  double sum = 0;
  for (int i = 1; i <= slots; ++i) sum += std::pow(i, 0.01 - 1);
  for (int i = 1; i <= slots; ++i) expected.push_back(3000 * std::pow(i, 0.01 - 1) / sum);
  EXPECT_LT(std::abs(chi_square_score(first_slot, expected)), 4);
}

TEST(ContextRecall, TriplesAndPairsNameTheContextOfEveryRecord) {
  const auto task = make_task("context_recall", triples);
  SequenceBuffer buffer(*task, Split::train);
  Counts place(12), slot((90 - 36) / 3);
  const auto uniform = make_task("context_recall", with(triples, {{"power", 1.0}}));
  SequenceBuffer even(*uniform, Split::train);
  int repeated = 0;
  for (std::uint64_t n = 0; n < 2000; ++n) {
    const SequenceView s = buffer.draw(3, n);
    std::map<std::pair<int, int>, int> value_of;
    std::set<int> values;
    int smallest = 0;  // the record of the smallest context and key is anywhere
    for (int i = 0; i < 12; ++i) {
      const std::int32_t* record = s.tokens + 3 * i;
      value_of[{record[0], record[1]}] = record[2];
      values.insert(record[2]);
      const auto key = [&](int r) { return std::pair{s.tokens[3 * r], s.tokens[3 * r + 1]}; };
      if (key(i) < key(smallest)) smallest = i;
    }
    ASSERT_EQ(value_of.size(), 12u);
    repeated += values.size() < 12;
    ++place[smallest];
    for (int q = 0; q < 12; ++q) {
      const int at = s.query_position[q] - 1;
      ASSERT_EQ(at % 3, 1);
      ASSERT_EQ(s.target[q], value_of.at({s.tokens[at - 1], s.tokens[at]}));
    }
    const SequenceView other = even.draw(3, n);
    for (int q = 0; q < 12; ++q) ++slot[(other.query_position[q] - 37) / 3];
  }
  EXPECT_GT(repeated, 1000);  // values = any
  expect_uniform({place});
  EXPECT_LT(uniformity_score(slot), 4);  // without replacement: less than chance would
}

// compositional_mqar of Zoology: two ids are one key, from a full grid; between queries stands any id.
TEST(ContextRecall, ACompositionalKeyIsTwoTokens) {
  Settings grid = triples;
  grid["contexts"] = grid["pairs"] = 2;
  grid["values"] = "distinct";
  grid["filler"] = "random";
  Counts filler(33);
  for (const SequenceView& s : drawn("context_recall", grid, Split::train, 3, 500)) {
    std::set<int> first, second, values, due;
    for (int i = 0; i < 4; ++i)
      first.insert(s.tokens[3 * i]), second.insert(s.tokens[3 * i + 1]), values.insert(s.tokens[3 * i + 2]);
    ASSERT_EQ(first.size(), 2u);
    ASSERT_EQ(second.size(), 2u);
    ASSERT_EQ(values.size(), 4u);
    std::vector<char> asked(90);
    for (int q = 0; q < 4; ++q) {
      due.insert(s.target[q]);
      const auto at = static_cast<std::size_t>(s.query_position[q] - 1);
      asked[at] = asked[at - 1] = 1;
    }
    ASSERT_EQ(due, values);
    for (int t = 12; t < 90; ++t)
      if (asked[static_cast<std::size_t>(t)] == 0) ++filler[s.tokens[t]];
  }
  expect_uniform({filler});
}

TEST(ContextRecall, ConfusedTargetsAreThoseOfTheNextContext) {
  for (const Settings& settings : {blocks, joint, triples}) {
    const auto task = make_task("context_recall", settings);
    const auto other = task->confused();
    ASSERT_NE(other, nullptr);
    SequenceBuffer a(*task, Split::test), b(*other, Split::test);
    std::vector<int> equal(1);
    for (std::uint64_t n = 0; n < 200; ++n) {
      const SequenceView s = a.draw(1, n), o = b.draw(1, n);
      ASSERT_TRUE(std::equal(s.tokens, s.tokens + s.shape.T, o.tokens));
      ASSERT_TRUE(std::equal(s.query_position, s.query_position + s.shape.Q, o.query_position));
      std::map<int, std::set<std::pair<int, int>>> right, wrong;  // by key
      for (int q = 0; q < s.shape.Q; ++q) {
        ASSERT_EQ(o.target[q], other->reference_answer(o, o.query[q], o.query_position[q]));
        // Over all contexts a key has the same values, each in another place.
        right[s.query[q]].insert({s.target[q], 0}), wrong[s.query[q]].insert({o.target[q], 0});
        equal[0] += s.target[q] == o.target[q];
      }
      ASSERT_EQ(right, wrong);
    }
    if (settings != triples) {
      EXPECT_EQ(equal[0], 0);
    }
  }
  EXPECT_EQ(make_task("context_recall", unique)->confused(), nullptr);
  EXPECT_EQ(make_task("context_recall", with(blocks, {{"contexts", 1}}))->confused(), nullptr);
}

TEST(ContextRecall, UniqueKeysStandInOneContext) {
  const auto task = make_task("context_recall", unique);
  SequenceBuffer buffer(*task, Split::eval);
  const SequenceView s = buffer.draw(1, 7);
  std::set<int> keys;
  for (int q = 0; q < 12; ++q) keys.insert(s.query[q]);
  EXPECT_EQ(keys.size(), 12u);
  EXPECT_EQ(s.meta[meta_writes], 1);
  EXPECT_DOUBLE_EQ(task->baselines().at("baseline_any_context_accuracy"), 1);
}

TEST(ContextRecall, BaselinesLengthsAndMeta) {
  const auto task = make_task("context_recall", blocks);
  const auto numbers = task->baselines();
  EXPECT_DOUBLE_EQ(numbers.at("chance_accuracy"), 1.0 / 20);
  EXPECT_NEAR(numbers.at("baseline_any_context_accuracy"), 1.0 / 3, 1e-12);
  EXPECT_NEAR(numbers.at("baseline_own_context_accuracy"), 1.0 / 4, 1e-12);
  EXPECT_NEAR(numbers.at("baseline_last_context_accuracy"), 1.0 / 3, 1e-12);
  EXPECT_NEAR(numbers.at("baseline_random_in_context_accuracy"), 1.0 / 12, 1e-12);
  SequenceBuffer buffer(*task, Split::eval);
  const SequenceView s = buffer.draw(1, 0);
  for (int q = 0; q < 12; ++q) {
    const int at = s.query_position[q] - 1;
    const std::int32_t* meta = s.meta + q * meta_count;
    EXPECT_EQ(s.tokens[at - meta[meta_gap]], s.target[q]);
    EXPECT_EQ(s.tokens[at - meta[meta_age] - 1], s.query[q]);
    EXPECT_GE(at - meta[meta_age], 18);  // the last block
    EXPECT_EQ(meta[meta_writes], 3);
  }
  const auto standard = make_task("context_recall");
  EXPECT_EQ(standard->shape(Split::train), (SequenceShape{1024, 1, 128}));
  EXPECT_EQ(standard->lengthened(2)->shape(Split::eval), (SequenceShape{2048, 1, 256}));
  EXPECT_EQ(standard->lengthened(2)->eval_load(), 256);
}

TEST(ContextRecall, RefusesWhatHasNoRoom) {
  const std::map<std::string, Settings> wrong = {
      {"task.length", with(blocks, {{"length", 53}})},
      {"task.context_vocabulary", with(blocks, {{"context_vocabulary", 2}})},
      {"task.key_vocabulary", with(unique, {{"key_vocabulary", 11}})},
      {"task.vocabulary", with(blocks, {{"vocabulary", 24}})}};
  for (const auto& [key, settings] : wrong) EXPECT_EQ(refused("context_recall", settings).key, key);
  EXPECT_NO_THROW(make_task("context_recall", with(blocks, {{"length", 54}})));
}

}  // namespace crosstalk::testing::context_recall_test

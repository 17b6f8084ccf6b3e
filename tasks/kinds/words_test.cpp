// Words of groups: tables and conventions, uniform tokens, products, stages, pairs held out, what is refused.
// SPDX-License-Identifier: Apache-2.0
#include "tasks/kinds/words_sequence.h"

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "tasks/golden.h"
#include "tasks/group.h"

namespace crosstalk::testing::words_test {

Settings named(const std::string& group) { return {{"group", group}}; }

[[maybe_unused]] const bool pinned = pin(
    "words", {{"standard", {}, 0xf88d4faa0fa50452u, 0x72ccc7d4465c9846u},
              {"swaps", {{"group", "S5"}, {"factors", "swaps"}}, 0x96519fa18d5def34u, 0x589c44d3b78fe7d6u},
              {"product", {{"group", "A4xZ5"}, {"length", 9}}, 0x5b5822eab110672bu, 0x4df912fdba58d9dau},
              {"start", {{"start", true}, {"length", 9}}, 0xf43a809291a5e055u, 0xef92109d950af391u},
              {"transition", {{"transition", 4}, {"start", true}}, 0x924866a2233b2fb5u, 0xdf79ad0198823081u},
              {"held_out", {{"held_out_pairs", 28}}, 0xb0126fff279cb813u, 0x72ccc7d4465c9846u}});

TEST(Words, TrainingMayHaveAnEnd) {
  const auto task = make_task("words", {{"examples", 5}}), endless = make_task("words", {});
  EXPECT_EQ(task->sequences(Split::train), 5);
  EXPECT_EQ(task->sequences(Split::eval), 0);
  EXPECT_EQ(endless->sequences(Split::train), 0);
  const auto tokens = [](const Task& of, Split split, std::uint64_t n) {
    SequenceBuffer buffer(of, split);
    buffer.draw(1, n);
    return buffer.contents();
  };
  EXPECT_EQ(tokens(*task, Split::train, 2), tokens(*endless, Split::train, 2));
  EXPECT_EQ(tokens(*task, Split::train, 7), tokens(*task, Split::train, 2));
  EXPECT_NE(tokens(*endless, Split::train, 7), tokens(*endless, Split::train, 2));
  EXPECT_EQ(tokens(*task, Split::eval, 7), tokens(*endless, Split::eval, 7));
}

TEST(Groups, AreGroupsOfTheirOrders) {
  const struct {
    const char* name;
    int order;
    bool abelian;
  } groups[] = {{"Z1", 1, true},   {"Z2", 2, true},    {"Z60", 60, true},  {"S2", 2, true},
                {"S3", 6, false},  {"A3", 3, true},    {"S4", 24, false},  {"A4", 12, false},
                {"A5", 60, false}, {"S5", 120, false}, {"Z2xZ3", 6, true}, {"A4xZ5", 60, false}};
  for (const auto& expected : groups) {
    const Group g = named_group("task.group", expected.name);
    ASSERT_EQ(g.order, expected.order) << expected.name;
    ASSERT_EQ(g.names.size(), static_cast<std::size_t>(g.order));
    std::string table;  // whose axioms group_of_table() checks
    bool abelian = true;
    for (int a = 0; a < g.order; ++a, table += ";")
      for (int b = 0; b < g.order; ++b) {
        table += std::to_string(g.product(a, b)) + " ";
        abelian = abelian && g.product(a, b) == g.product(b, a);
      }
    EXPECT_EQ(abelian, expected.abelian) << expected.name;
    EXPECT_EQ(group_of_table("task.table", table).identity, 0) << expected.name;
    EXPECT_EQ(std::set<std::string>(g.names.begin(), g.names.end()).size(), g.names.size());
  }
}

TEST(Groups, PermutationsFollowTheConvention) {
  // S3 in lexicographic order: 012, 021, 102, 120, 201, 210.
  const Group g = named_group("task.group", "S3");
  EXPECT_EQ(g.names, (std::vector<std::string>{"e", "(1 2)", "(0 1)", "(0 1 2)", "(0 2 1)", "(0 2)"}));
  EXPECT_EQ(g.moved, (std::vector<int>{0, 2, 2, 3, 3, 2}));
  // a = 021, b = 102: a(b(0)) = a(1) = 2, a(b(1)) = a(0) = 0, a(b(2)) = a(2) = 1.
  EXPECT_EQ(g.product(1, 2), 4);
  EXPECT_EQ(g.product(2, 1), 3);
}

TEST(Groups, RefuseWhatIsNone) {
  EXPECT_TRUE(refused("words", named("D4")).says("\"D4\" names no group"));
  EXPECT_TRUE(refused("words", named("")).says("names no group"));
  EXPECT_TRUE(refused("words", named("S3x")).says("names no group"));
  EXPECT_TRUE(refused("words", named("S3xS")).says("\"S\" names no group"));
  EXPECT_TRUE(refused("words", named("Z0")).says("names no group"));
  EXPECT_TRUE(refused("words", named("S7")).says("1024"));
  EXPECT_TRUE(refused("words", named("Z99999999999999999999")).says("names no group"));
  EXPECT_TRUE(refused("words", named("Z1024xZ1024xZ1024xZ1024xZ1024xZ1024xZ1024xZ1024")).says("1024"));
  EXPECT_EQ(refused("words", {{"table", "0"}}).why,
            "task.table has a meaning with task.group = \"table\" only; leave one out");
  const auto table = [](const std::string& rows) {
    return refused("words", {{"group", "table"}, {"table", rows}});
  };
  EXPECT_TRUE(table("").says("empty"));
  EXPECT_TRUE(table("0 1; 1").says("square"));
  EXPECT_TRUE(table("0 1").says("1 rows of 2 numbers"));
  EXPECT_TRUE(table("0 1; 1 2").says("2 is no element"));
  EXPECT_TRUE(table("0 1; 1 1").says("element 1 has no inverse"));
  EXPECT_TRUE(table("1 0; 0 0").says("no element e"));
  EXPECT_TRUE(table("0 1 2 3 4; 1 0 3 4 2; 2 4 0 1 3; 3 2 4 0 1; 4 3 1 2 0")
                  .says("so it is no group"));  // a loop: identity and inverses, not associative
  EXPECT_TRUE(table("/no/such/file").says("a file that can be read"));
  EXPECT_EQ(table("0 1; 1 0").key, "accepted");
}

TEST(Words, ATableIsTheGroupThatItDescribes) {
  const std::string rows = "1 2 0; 2 0 1; 0 1 2";  // Z3 with its identity at 2
  const auto task = make_task("words", {{"group", "table"}, {"table", rows}, {"length", 6}});
  std::int32_t tokens[] = {0, 2, 0, 1}, query[] = {0, 2, 0, 1}, position[] = {1, 2, 3, 4},
               target[] = {0, 0, 1, 0};
  const SequenceView view{{4, 1, 4}, tokens, nullptr, query, position, target, nullptr};
  for (int q = 0; q < 4; ++q) EXPECT_EQ(task->reference_answer(view, query[q], q + 1), target[q]);
  EXPECT_EQ(task->to_text(view), "     1: 0->0 e->0 0->1 1->0\n");

  const auto path = std::filesystem::temp_directory_path() / "crosstalk_words_test_table.txt";
  std::ofstream(path) << "1 2 0\n 2\t0 1\n\n0 1 2\n";
  const Options options =
      resolved_options(*find_task("words"), {{"group", "table"}, {"table", path.string()}});
  std::filesystem::remove(path);
  EXPECT_EQ(options.get_string("task.table"), rows);  // of the run's identity
}

TEST(Words, TokensAreUniformAndAnswersProducts) {
  const auto task = make_task("words", {{"length", 12}});
  EXPECT_EQ(task->shape(Split::train), (SequenceShape{12, 1, 12}));
  EXPECT_EQ(task->vocabulary().tokens, 6);
  EXPECT_EQ(task->vocabulary().values, 6);
  Counts tokens(6), twice(36), answers(6);
  for (const SequenceView& s : drawn(*task, Split::train, 8, 3000)) {
    for (int t = 0; t < 12; ++t) {
      ++tokens[s.tokens[t]];
      ASSERT_EQ(s.query_position[t], t + 1);
      ASSERT_EQ(s.meta[t * meta_count + meta_operations], t + 1);
    }
    ++twice[s.tokens[3] * 6 + s.tokens[4]];
    ++answers[s.target[7]];
  }
  expect_uniform({tokens, twice, answers});
}

TEST(Words, ParityIsZ2) {
  const auto task = make_task("words", named("Z2"));
  SequenceBuffer buffer(*task, Split::eval);
  const SequenceView s = buffer.draw(1, 1);
  int ones = 0;
  for (int t = 0; t < 32; ++t) {
    ones += s.tokens[t];
    EXPECT_EQ(s.target[t], ones % 2);
  }
  EXPECT_EQ(task->baselines().at("chance_accuracy"), 0.5);
}

TEST(Words, FactorsMayMoveFewPoints) {
  const auto occurring = [](const Settings& settings) {
    const auto task = make_task("words", settings);
    EXPECT_EQ(task->vocabulary().tokens, 120);
    std::set<int> tokens;
    for (const SequenceView& s : drawn(*task, Split::train, 8, 100))
      tokens.insert(s.tokens, s.tokens + s.shape.T);
    return tokens.size();
  };
  EXPECT_EQ(occurring({{"group", "S5"}, {"factors", "swaps"}}), 11u);
  EXPECT_EQ(occurring({{"group", "S5"}, {"factors", "three"}}), 31u);
  EXPECT_EQ(occurring({{"group", "S5"}}), 120u);
  EXPECT_TRUE(refused("words", {{"group", "Z4"}, {"factors", "swaps"}}).says("has none"));
  EXPECT_TRUE(refused("words", {{"group", "A5"}, {"factors", "swaps"}}).says("nothing but"));
}

TEST(Words, StagesAndLongerWords) {
  const auto task = make_task("words", {{"curriculum", "4 8 16"}});
  EXPECT_EQ(task->shape(Split::train), (SequenceShape{16, 1, 16}));
  const auto stages = task->stages();
  ASSERT_EQ(stages.size(), 3u);
  EXPECT_EQ(stages[0].name, "length=4");
  EXPECT_EQ(stages[0].task->shape(Split::train).T, 4);
  EXPECT_EQ(task->lengthened(32)->shape(Split::eval), (SequenceShape{512, 1, 512}));
  EXPECT_EQ(task->lengthened(32)->eval_load(), 512);
  EXPECT_EQ(task->eval_load(), 16);
  SequenceBuffer first(*stages[0].task, Split::train), last(*stages[2].task, Split::train);
  EXPECT_FALSE(std::equal(last.draw(0, 0).tokens, last.view().tokens + 4, first.draw(0, 0).tokens));
}

TEST(Words, TheLossMayStandAtTheLastTokenOnly) {
  const auto task = make_task("words", {{"query_at", "end"}});
  EXPECT_EQ(task->shape(Split::train), (SequenceShape{32, 1, 1}));
  SequenceBuffer buffer(*task, Split::train);
  EXPECT_EQ(buffer.draw(0, 0).query_position[0], 32);
}

TEST(Words, AStartTokenStandsInFront) {
  const Settings without = {{"curriculum", "4 8"}};
  Settings with = without;
  with["start"] = true;
  const auto task = make_task("words", with), plain = make_task("words", without);
  EXPECT_EQ(task->shape(Split::train), (SequenceShape{9, 1, 8}));
  EXPECT_EQ(task->stages()[0].task->shape(Split::train), (SequenceShape{5, 1, 4}));
  EXPECT_EQ(task->lengthened(4)->shape(Split::eval), (SequenceShape{33, 1, 32}));
  EXPECT_EQ(task->vocabulary().tokens, 7);
  EXPECT_EQ(task->vocabulary().values, 6);
  SequenceBuffer longer(*task, Split::train), shorter(*plain, Split::train);
  const SequenceView s = longer.draw(3, 5), same = shorter.draw(3, 5);
  EXPECT_EQ(s.tokens[0], 6);
  EXPECT_TRUE(std::equal(same.tokens, same.tokens + 8, s.tokens + 1));
  EXPECT_TRUE(std::equal(same.target, same.target + 8, s.target));
  for (int q = 0; q < 8; ++q) {
    EXPECT_EQ(s.query_position[q], q + 2);
    EXPECT_EQ(s.meta[q * meta_count + meta_operations], q + 1);
    EXPECT_EQ(task->reference_answer(s, s.query[q], q + 2), s.target[q]);
  }
  EXPECT_EQ(task->to_text(s).substr(0, 11), "     1: <s>");
}

[[maybe_unused]] const bool fitted = [] {
  fit()["words"] = [](Settings& settings) {
    settings["transition"] = 1 + static_cast<int>(whole_of(settings, "transition", 0)) % 4;
    settings["length"] = 4 + static_cast<int>(whole_of(settings, "length", 9));
    if (whole_of(settings, "held_out_pairs", 0) == 0) settings.erase("pair_choice");
  };
  return true;
}();

TEST(Words, ATransitionMayTakeSeveralTokens) {
  Settings slow = {{"transition", 3}, {"length", 11}, {"start", true}};
  const auto task = make_task("words", slow), fast = make_task("words", {{"length", 4}});
  EXPECT_EQ(task->shape(Split::train), (SequenceShape{12, 1, 9}));
  EXPECT_EQ(task->vocabulary().tokens, 8);
  EXPECT_EQ(task->vocabulary().values, 6);
  SequenceBuffer a(*task, Split::train), b(*fast, Split::train);
  for (std::uint64_t n = 0; n < 50; ++n) {
    const SequenceView s = a.draw(3, n), f = b.draw(3, n);
    EXPECT_EQ(s.tokens[0], 6);
    for (int t = 0; t < 11; ++t) EXPECT_EQ(s.tokens[1 + t], t % 3 == 0 ? f.tokens[t / 3] : 7);
    // The product of f's first elements, two tokens late, until the next one is late enough.
    for (int q = 0; q < 9; ++q) {
      EXPECT_EQ(s.query_position[q], q + 4);
      EXPECT_EQ(s.target[q], f.target[q / 3]);
    }
  }
  slow["query_at"] = "end";
  EXPECT_EQ(make_task("words", slow)->shape(Split::train), (SequenceShape{12, 1, 1}));
  EXPECT_TRUE(refused("words", {{"transition", 5}, {"length", 4}}).says("has 4"));
}

TEST(Words, TrainingShowsAllPairsButThoseHeldOut) {
  const Settings settings = {{"held_out_pairs", 28}, {"length", 40}};
  const auto task = make_task("words", settings);
  const auto pairs = [](const Task& of, Split split) {
    std::map<std::pair<int, int>, int> counts;
    for (const SequenceView& s : drawn(of, split, 8, 2000))
      for (int t = 1; t < s.shape.T; ++t) ++counts[{s.tokens[t - 1], s.tokens[t]}];
    return counts;
  };
  const auto trained = pairs(*task, Split::train);
  EXPECT_EQ(trained.size(), 8u);
  EXPECT_EQ(pairs(*task, Split::eval).size(), 36u);
  EXPECT_EQ(pairs(*task, Split::test).size(), 36u);
  // An element is uniform among those that may follow.
  std::map<int, std::vector<int>> followers;
  for (const auto& [pair, count] : trained) followers[pair.first].push_back(count);
  EXPECT_EQ(followers.size(), 6u);
  for (const auto& [element, counts] : followers)
    if (counts.size() > 1) {
      EXPECT_LT(std::abs(uniformity_score(counts)), 4) << element;
    }
  // All elements can be reached from each.
  std::set<int> reached = {0};
  for (int i = 0; i < 6; ++i)
    for (const auto& [pair, count] : trained)
      if (reached.count(pair.first) == 1) reached.insert(pair.second);
  EXPECT_EQ(reached.size(), 6u);
  Settings other = settings;
  other["pair_choice"] = 1;
  const auto others = pairs(*make_task("words", other), Split::train);
  std::set<std::pair<int, int>> first, second;
  for (const auto& [pair, count] : trained) first.insert(pair);
  for (const auto& [pair, count] : others) second.insert(pair);
  EXPECT_NE(first, second);
  EXPECT_EQ(refused("words", {{"held_out_pairs", 30}}).key, "accepted");
  EXPECT_TRUE(refused("words", {{"held_out_pairs", 31}}).says("at most 30"));
  EXPECT_TRUE(refused("words", {{"pair_choice", 1}}).says("leave it out"));
}

TEST(Words, BaselinesAreOneOverTheOrder) {
  const auto numbers = make_task("words", named("S4"))->baselines();
  EXPECT_DOUBLE_EQ(numbers.at("chance_accuracy"), 1.0 / 24);
  EXPECT_NEAR(numbers.at("baseline_unchanged_accuracy"), 1.0 / 24, 0.02);
  // At the first token the last factor is the product.
  EXPECT_NEAR(numbers.at("baseline_most_recent_accuracy"), (1 + 31.0 / 24) / 32, 0.02);
}

}  // namespace crosstalk::testing::words_test

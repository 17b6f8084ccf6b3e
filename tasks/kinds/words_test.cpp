// Words of groups: tables and conventions, uniform tokens, products, stages, pairs held out, what is refused.
// SPDX-License-Identifier: Apache-2.0
#include "tasks/kinds/words_sequence.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "kernels/base/error.h"
#include "tasks/golden.h"
#include "tasks/group.h"
#include "tasks/sequence_buffer.h"
#include "tasks/testing.h"

namespace crosstalk {
namespace {

using testing::make_task;
using testing::Settings;
using testing::uniformity_score;
using testing::whole;

Settings named(const std::string& group) { return {{"group", group}}; }

[[maybe_unused]] const bool pinned = testing::pin(
    {{"words", "standard", {}, 0xf88d4faa0fa50452u, 0x72ccc7d4465c9846u},
     {"words",
      "swaps",
      {{"group", std::string("S5")}, {"factors", std::string("swaps")}},
      0x96519fa18d5def34u,
      0x589c44d3b78fe7d6u},
     {"words",
      "product",
      {{"group", std::string("A4xZ5")}, {"length", whole(9)}},
      0x5b5822eab110672bu,
      0x4df912fdba58d9dau},
     {"words", "start", {{"start", true}, {"length", whole(9)}}, 0xf43a809291a5e055u, 0xef92109d950af391u},
     {"words",
      "transition",
      {{"transition", whole(4)}, {"start", true}},
      0x924866a2233b2fb5u,
      0xdf79ad0198823081u},
     {"words", "held_out", {{"held_out_pairs", whole(28)}}, 0xb0126fff279cb813u, 0x72ccc7d4465c9846u}});

TEST(Words, TrainingMayHaveAnEnd) {
  const auto task = make_task("words", {{"examples", whole(5)}}), endless = make_task("words", {});
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

std::string refused(const Settings& settings) {
  try {
    make_task("words", settings);
  } catch (const OptionError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Groups, RefuseWhatIsNone) {
  EXPECT_NE(refused(named("D4")).find("\"D4\" names no group"), std::string::npos);
  EXPECT_NE(refused(named("")).find("names no group"), std::string::npos);
  EXPECT_NE(refused(named("S3x")).find("names no group"), std::string::npos);
  EXPECT_NE(refused(named("S3xS")).find("\"S\" names no group"), std::string::npos);
  EXPECT_NE(refused(named("Z0")).find("names no group"), std::string::npos);
  EXPECT_NE(refused(named("S7")).find("1024"), std::string::npos);
  EXPECT_NE(refused(named("Z99999999999999999999")).find("names no group"), std::string::npos);
  EXPECT_NE(refused(named("Z1024xZ1024xZ1024xZ1024xZ1024xZ1024xZ1024xZ1024")).find("1024"),
            std::string::npos);
  EXPECT_EQ(refused({{"table", std::string("0")}}),
            "task.table has a meaning with task.group = \"table\" only; leave one out");
  const auto table = [](const std::string& rows) {
    return refused({{"group", std::string("table")}, {"table", rows}});
  };
  EXPECT_NE(table("").find("empty"), std::string::npos);
  EXPECT_NE(table("0 1; 1").find("square"), std::string::npos);
  EXPECT_NE(table("0 1").find("1 rows of 2 numbers"), std::string::npos);
  EXPECT_NE(table("0 1; 1 2").find("2 is no element"), std::string::npos);
  EXPECT_NE(table("0 1; 1 1").find("element 1 has no inverse"), std::string::npos);
  EXPECT_NE(table("1 0; 0 0").find("no element e"), std::string::npos);
  EXPECT_NE(table("0 1 2 3 4; 1 0 3 4 2; 2 4 0 1 3; 3 2 4 0 1; 4 3 1 2 0").find("so it is no group"),
            std::string::npos);  // a loop: identity and inverses, not associative
  EXPECT_NE(table("/no/such/file").find("a file that can be read"), std::string::npos);
  EXPECT_EQ(table("0 1; 1 0"), "accepted");
}

TEST(Words, ATableIsTheGroupThatItDescribes) {
  const std::string rows = "1 2 0; 2 0 1; 0 1 2";  // Z3 with its identity at 2
  const auto task =
      make_task("words", {{"group", std::string("table")}, {"table", rows}, {"length", whole(6)}});
  std::int32_t tokens[] = {0, 2, 0, 1}, query[] = {0, 2, 0, 1}, position[] = {1, 2, 3, 4},
               target[] = {0, 0, 1, 0};
  const SequenceView view{{4, 1, 4}, tokens, nullptr, query, position, target, nullptr};
  for (int q = 0; q < 4; ++q) EXPECT_EQ(task->reference_answer(view, query[q], q + 1), target[q]);
  EXPECT_EQ(task->to_text(view), "     1: 0->0 e->0 0->1 1->0\n");

  const auto path = std::filesystem::temp_directory_path() / "crosstalk_words_test_table.txt";
  std::ofstream(path) << "1 2 0\n 2\t0 1\n\n0 1 2\n";
  const Options options = testing::resolved_options(
      *find_task("words"), {{"group", std::string("table")}, {"table", path.string()}});
  std::filesystem::remove(path);
  EXPECT_EQ(options.get_string("task.table"), rows);  // of the run's identity
}

TEST(Words, TokensAreUniformAndAnswersProducts) {
  const auto task = make_task("words", {{"length", whole(12)}});
  EXPECT_EQ(task->shape(Split::train), (SequenceShape{12, 1, 12}));
  EXPECT_EQ(task->vocabulary().tokens, 6);
  EXPECT_EQ(task->vocabulary().values, 6);
  SequenceBuffer buffer(*task, Split::train);
  std::vector<int> tokens(6), twice(36), answers(6);
  for (std::uint64_t n = 0; n < 3000; ++n) {
    const SequenceView s = buffer.draw(8, n);
    for (int t = 0; t < 12; ++t) {
      ++tokens[static_cast<std::size_t>(s.tokens[t])];
      ASSERT_EQ(s.query_position[t], t + 1);
      ASSERT_EQ(s.meta[t * meta_count + meta_operations], t + 1);
    }
    ++twice[static_cast<std::size_t>(s.tokens[3] * 6 + s.tokens[4])];
    ++answers[static_cast<std::size_t>(s.target[7])];
  }
  EXPECT_LT(std::abs(uniformity_score(tokens)), 4);
  EXPECT_LT(std::abs(uniformity_score(twice)), 4);
  EXPECT_LT(std::abs(uniformity_score(answers)), 4);
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
    SequenceBuffer buffer(*task, Split::train);
    std::set<int> tokens;
    for (std::uint64_t n = 0; n < 100; ++n) {
      const SequenceView s = buffer.draw(8, n);
      tokens.insert(s.tokens, s.tokens + s.shape.T);
    }
    return tokens.size();
  };
  EXPECT_EQ(occurring({{"group", std::string("S5")}, {"factors", std::string("swaps")}}), 11u);
  EXPECT_EQ(occurring({{"group", std::string("S5")}, {"factors", std::string("three")}}), 31u);
  EXPECT_EQ(occurring({{"group", std::string("S5")}}), 120u);
  EXPECT_NE(refused({{"group", std::string("Z4")}, {"factors", std::string("swaps")}}).find("has none"),
            std::string::npos);
  EXPECT_NE(refused({{"group", std::string("A5")}, {"factors", std::string("swaps")}}).find("nothing but"),
            std::string::npos);
}

TEST(Words, StagesAndLongerWords) {
  const auto task = make_task("words", {{"curriculum", std::string("4 8 16")}});
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
  const auto task = make_task("words", {{"query_at", std::string("end")}});
  EXPECT_EQ(task->shape(Split::train), (SequenceShape{32, 1, 1}));
  SequenceBuffer buffer(*task, Split::train);
  EXPECT_EQ(buffer.draw(0, 0).query_position[0], 32);
}

TEST(Words, AStartTokenStandsInFront) {
  const Settings without = {{"curriculum", std::string("4 8")}};
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
  testing::fit()["words"] = [](Settings& settings) {
    settings["transition"] = whole(1 + static_cast<int>(testing::whole_of(settings, "transition", 0)) % 4);
    settings["length"] = whole(4 + static_cast<int>(testing::whole_of(settings, "length", 9)));
    if (testing::whole_of(settings, "held_out_pairs", 0) == 0) settings.erase("pair_choice");
  };
  return true;
}();

TEST(Words, ATransitionMayTakeSeveralTokens) {
  Settings slow = {{"transition", whole(3)}, {"length", whole(11)}, {"start", true}};
  const auto task = make_task("words", slow), fast = make_task("words", {{"length", whole(4)}});
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
  slow["query_at"] = std::string("end");
  EXPECT_EQ(make_task("words", slow)->shape(Split::train), (SequenceShape{12, 1, 1}));
  EXPECT_NE(refused({{"transition", whole(5)}, {"length", whole(4)}}).find("has 4"), std::string::npos);
}

TEST(Words, TrainingShowsAllPairsButThoseHeldOut) {
  const Settings settings = {{"held_out_pairs", whole(28)}, {"length", whole(40)}};
  const auto task = make_task("words", settings);
  const auto pairs = [](const Task& drawn, Split split) {
    SequenceBuffer buffer(drawn, split);
    std::map<std::pair<int, int>, int> counts;
    for (std::uint64_t n = 0; n < 2000; ++n) {
      const SequenceView s = buffer.draw(8, n);
      for (int t = 1; t < s.shape.T; ++t) ++counts[{s.tokens[t - 1], s.tokens[t]}];
    }
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
  other["pair_choice"] = whole(1);
  const auto others = pairs(*make_task("words", other), Split::train);
  std::set<std::pair<int, int>> first, second;
  for (const auto& [pair, count] : trained) first.insert(pair);
  for (const auto& [pair, count] : others) second.insert(pair);
  EXPECT_NE(first, second);
  EXPECT_EQ(refused({{"held_out_pairs", whole(30)}}), "accepted");
  EXPECT_NE(refused({{"held_out_pairs", whole(31)}}).find("at most 30"), std::string::npos);
  EXPECT_NE(refused({{"pair_choice", whole(1)}}).find("leave it out"), std::string::npos);
}

TEST(Words, BaselinesAreOneOverTheOrder) {
  const auto numbers = make_task("words", named("S4"))->baselines();
  EXPECT_DOUBLE_EQ(numbers.at("chance_accuracy"), 1.0 / 24);
  EXPECT_NEAR(numbers.at("baseline_unchanged_accuracy"), 1.0 / 24, 0.02);
  // At the first token the last factor is the product.
  EXPECT_NEAR(numbers.at("baseline_most_recent_accuracy"), (1 + 31.0 / 24) / 32, 0.02);
}

}  // namespace
}  // namespace crosstalk

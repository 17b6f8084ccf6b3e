// Machines with a state: each named one against a scalar machine of its own, baselines, what is refused.
// SPDX-License-Identifier: Apache-2.0
#include "tasks/kinds/automaton_sequence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
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

Settings named(const std::string& machine, Settings settings = {}) {
  settings["machine"] = machine;
  return settings;
}

const Settings rows = {{"machine", std::string("table")},
                       {"table", std::string("1 2; 2 2; 0 1")},
                       {"answers", std::string("0 3 3")}};

[[maybe_unused]] const bool pinned = testing::pin(
    {{"automaton", "standard", {}, 0, 0},
     {"automaton", "flip_flop", named("flip_flop"), 0, 0},
     {"automaton", "undo", named("undo", {{"eval_undo", whole(9)}, {"eval_shortest", whole(40)}}), 0, 0},
     {"automaton", "majority", named("majority"), 0, 0},
     {"automaton", "dyck", named("dyck", {{"depth", whole(4)}}), 0, 0},
     {"automaton", "language", named("language"), 0, 0},
     {"automaton", "random", named("random", {{"drawn_table", whole(0)}}), 0, 0}});

[[maybe_unused]] const bool fitted = [] {
  testing::fit()["automaton"] = [](Settings& s) {
    const auto found = s.find("machine");
    const std::string machine = found == s.end() ? "parity" : std::get<std::string>(found->second);
    static const std::map<std::string, std::set<std::string>> uses = {
        {"counter", {"states"}},
        {"cycle", {"states"}},
        {"flip_flop", {"ignore"}},
        {"undo", {"ignore", "depth", "eval_undo"}},
        {"majority", {"inputs"}},
        {"dyck", {"inputs", "depth"}},
        {"language", {"states", "inputs", "string"}},
        {"random", {"states", "inputs", "drawn_table"}}};
    const auto own = uses.find(machine);
    for (const char* option : {"states", "inputs", "ignore", "depth", "eval_undo", "string", "drawn_table"})
      if (own == uses.end() || own->second.count(option) == 0) {
        s.erase(option);
        if (option == std::string("ignore")) s.erase("eval_ignore");
      }
    if (machine == "table") s.insert({"table", std::string("1 2; 2 2; 0 1")});
    if (machine == "language")
      for (const char* option : {"states", "inputs"})
        s[option] = whole(4 + static_cast<int>(testing::whole_of(s, option, 3)));
    if (machine == "language" || machine == "dyck" || testing::whole_of(s, "drawn_table", 1) == 0)
      s.erase("reveal");
    if (const auto reveal = s.find("reveal");
        reveal != s.end() && reveal->second == OptionValue(std::string("next")))
      s.erase(reveal);
    for (const std::string prefix : {"", "eval_"}) {
      const auto low = 4 + testing::whole_of(s, prefix + "shortest", 3) +
                       (prefix.empty() ? 0 : 3 * testing::whole_of(s, "eval_undo", 0));
      s[prefix + "shortest"] = whole(static_cast<int>(low));
      s[prefix + "longest"] = whole(static_cast<int>(low + testing::whole_of(s, prefix + "longest", 9)));
    }
  };
  return true;
}();

/// Tokens before blanks.
std::vector<int> tokens_of(const SequenceView& s) {
  std::vector<int> tokens(s.tokens, s.tokens + s.shape.T);
  while (!tokens.empty() && tokens.back() == 0) tokens.pop_back();
  return tokens;
}

/// The right answer at each token that asks, -1 elsewhere, as a person would work it out from the tokens of a whole sequence.
using Scalar = std::function<std::vector<int>(const std::vector<int>&)>;

/// 10,000 sequences of each split: asked exactly where `scalar` says, and with its answers.
void expect_machine(const Settings& settings, const Scalar& scalar, std::uint64_t sequences = 10000) {
  const auto task = make_task("automaton", settings);
  for (const Split split : {Split::train, Split::eval, Split::test}) {
    SequenceBuffer buffer(*task, split);
    std::set<std::size_t> sizes;
    for (std::uint64_t n = 0; n < sequences; ++n) {
      const SequenceView s = buffer.draw(5, n);
      const std::vector<int> tokens = tokens_of(s), wanted = scalar(tokens);
      sizes.insert(tokens.size());
      ASSERT_EQ(wanted.size(), tokens.size());
      int q = 0;
      for (std::size_t t = 0; t < tokens.size(); ++t) {
        if (wanted[t] < 0) continue;
        ASSERT_LT(q, s.shape.Q);
        ASSERT_EQ(s.query_position[q], static_cast<int>(t) + 1) << "sequence " << n;
        ASSERT_EQ(s.target[q++], wanted[t]) << "sequence " << n << ", token " << t;
      }
      ASSERT_GT(q, 0);
      if (q < s.shape.Q) {
        ASSERT_EQ(s.target[q], -1);
      }
    }
    EXPECT_GT(sizes.size(), 1u);
  }
}

/// Every token is asked: what `answer` says of the inputs (ids minus 1) up to it.
Scalar every(const std::function<int(const std::vector<int>&)>& answer) {
  return [answer](const std::vector<int>& tokens) {
    std::vector<int> inputs, wanted;
    for (const int token : tokens) {
      inputs.push_back(token - 1);
      wanted.push_back(answer(inputs));
    }
    return wanted;
  };
}

TEST(Automaton, FiniteMachinesAreWhatTheyAreCalled) {
  const auto sum = [](const std::vector<int>& x) { return std::accumulate(x.begin(), x.end(), 0); };
  expect_machine({}, every([&](const auto& x) { return sum(x) % 2; }));
  expect_machine(named("counter", {{"states", whole(7)}}), every([&](const auto& x) { return sum(x) % 7; }));
  expect_machine(named("cycle"), every([](const auto& x) {
                   const auto right = std::count(x.begin(), x.end(), 1),
                              left = std::count(x.begin(), x.end(), 2);
                   return static_cast<int>((right + 4 * left) % 5);
                 }));
  expect_machine(named("even_pairs"), every([](const auto& x) {
                   int changes = 0;
                   for (std::size_t i = 1; i < x.size(); ++i) changes += x[i] != x[i - 1];
                   return changes % 2;
                 }));
  expect_machine(rows, every([](const auto& x) {
                   int state = 0;
                   for (const int input : x) state = state == 0 ? 1 + input : state == 1 ? 2 : input;
                   return state == 0 ? 0 : 3;
                 }));
  expect_machine(named("majority", {{"inputs", whole(4)}}), every([](const auto& x) {
                   std::vector<int> counts(4);
                   for (const int input : x) ++counts[static_cast<std::size_t>(input)];
                   return static_cast<int>(std::max_element(counts.begin(), counts.end()) - counts.begin());
                 }));
}

TEST(Automaton, AnswersMayBeDueAtTheEndOrAtMarks) {
  const auto parity = [](const std::vector<int>& tokens, std::size_t end) {
    return static_cast<int>(std::count(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(end), 2) %
                            2);
  };
  expect_machine({{"reveal", std::string("end")}}, [&](const std::vector<int>& tokens) {
    std::vector<int> wanted(tokens.size(), -1);
    wanted.back() = parity(tokens, tokens.size());
    return wanted;
  });
  for (const bool shown : {false, true}) {
    int marks = 0, inputs = 0;
    expect_machine({{"reveal", std::string(shown ? "shown" : "marks")}}, [&](const std::vector<int>& tokens) {
      std::vector<int> wanted(tokens.size(), -1);
      for (std::size_t t = 0; t < tokens.size(); ++t) {
        marks += tokens[t] == 3, inputs += tokens[t] < 3;
        if (tokens[t] != 3) continue;
        wanted[t] = parity(tokens, t);
        EXPECT_TRUE(!shown || tokens[t + 1] == 4 + wanted[t]);
      }
      EXPECT_EQ(tokens[tokens.size() - (shown ? 2 : 1)], 3);
      return wanted;
    });
    EXPECT_NEAR(static_cast<double>(marks) / inputs, 1.05, 0.08);  // half of the steps, and the last
  }
}

TEST(Automaton, AFlipFlopHoldsTheBitWrittenLast) {
  const auto scalar = [](std::map<char, int>* counts) {
    return [counts](const std::vector<int>& tokens) {
      std::string text;
      for (const int token : tokens) text += ".01wir"[token];
      std::vector<int> wanted(tokens.size(), -1);
      EXPECT_EQ(text[0], 'w');
      for (std::size_t t = 0; t < text.size(); t += 2) {
        ++(*counts)[text[t]];
        if (text[t] != 'r') continue;
        wanted[t] = text[text.rfind('w', t) + 1] - '0';
        EXPECT_EQ(text[t + 1] - '0', wanted[t]);
      }
      EXPECT_EQ(text[text.size() - 2], 'r');
      return wanted;
    };
  };
  for (const double ignore : {0.98, 0.8, 0.1}) {
    std::map<char, int> counts;
    Settings settings = named("flip_flop", {{"shortest", whole(100)}, {"longest", whole(102)}});
    if (ignore != 0.8) settings["ignore"] = ignore;
    expect_machine(settings, scalar(&counts));
    const double middle =
        counts['i'] + counts['w'] + counts['r'] - 60000.0;  // but for the first and the last
    EXPECT_NEAR(counts['i'] / middle, ignore, 0.005);
    EXPECT_NEAR((counts['w'] - 30000) / middle, (1 - ignore) / 2, 0.005);
  }
}

TEST(Automaton, UndoTakesWritesBack) {
  const auto scalar = [](std::map<char, int>* counts) {
    return [counts](const std::vector<int>& tokens) {
      std::vector<int> wanted(tokens.size(), -1);
      std::string stack;
      for (std::size_t t = 0; t < tokens.size(); ++t) {
        const char c = ".01wiur"[tokens[t]];
        if (!stack.empty()) ++(*counts)[c];
        if (c == 'w') stack += ".01"[tokens[++t]];
        if (c == 'i') ++t;
        if (c == 'u') stack.pop_back();
        if (c == 'r') wanted[t] = stack.back() - '0';
        EXPECT_FALSE(stack.empty());
      }
      EXPECT_EQ(tokens.back(), 6);
      return wanted;
    };
  };
  std::map<char, int> counts;
  expect_machine(named("undo"), scalar(&counts));
  expect_machine(named("undo", {{"depth", whole(2)}}), scalar(&counts));
  // Writes and undos share what is neither read nor ignored.
  counts.clear();
  expect_machine(named("undo", {{"shortest", whole(990)}, {"longest", whole(1000)}}), scalar(&counts), 100);
  const double all = counts['w'] + counts['i'] + counts['u'] + counts['r'];
  EXPECT_NEAR(counts['i'] / all, 0.8, 0.01);
  EXPECT_NEAR(counts['r'] / all, 0.1, 0.01);
  EXPECT_LT(counts['u'], counts['w']);
  const auto deep = make_task(
      "automaton",
      named("undo", {{"eval_undo", whole(5)}, {"eval_shortest", whole(30)}, {"longest", whole(30)}}));
  SequenceBuffer buffer(*deep, Split::eval);
  for (std::uint64_t n = 0; n < 100; ++n) {
    const SequenceView s = buffer.draw(1, n);
    std::string text;
    for (int t = 0; t < 30; ++t) text += "?..wiur"[s.tokens[t]];
    ASSERT_EQ(text, "w.w.w.w.w.w.uuuuui.i.i.i.i.i.r");
    ASSERT_EQ(s.target[0], s.tokens[1] - 1);
    ASSERT_EQ(s.meta[meta_gap], 28);
  }
  const auto numbers = deep->baselines();
  EXPECT_NEAR(numbers.at("baseline_latest_write_accuracy"), 0.5, 0.1);
  EXPECT_NEAR(numbers.at("baseline_toggle_accuracy"), 0.5, 0.1);
}

TEST(Automaton, BracketsCloseWhatIsOpen) {
  for (const int depth : {0, 1, 3}) {
    std::size_t deepest = 0;
    std::vector<int> kinds(4);
    expect_machine(named("dyck", {{"inputs", whole(4)}, {"depth", whole(depth)}}),
                   [&](const std::vector<int>& tokens) {
                     std::vector<int> wanted(tokens.size(), -1), open;
                     for (std::size_t t = 0; t < tokens.size(); ++t) {
                       if (tokens[t] <= 4) {
                         open.push_back(tokens[t]);
                         ++kinds[static_cast<std::size_t>(tokens[t] - 1)];
                         deepest = std::max(deepest, open.size());
                         continue;
                       }
                       EXPECT_EQ(tokens[t], open.back() + 4);
                       wanted[t - 1] = open.back() - 1;
                       open.pop_back();
                     }
                     return wanted;
                   });
    if (depth > 0) {
      EXPECT_EQ(deepest, static_cast<std::size_t>(depth));
    }
    EXPECT_GT(deepest, depth == 0 ? 10u : 0u);
    EXPECT_LT(std::abs(uniformity_score(kinds)), 4);
  }
}

// Every string is a walk from one state: what follows the same beginning comes from few edges, and each sequence has edges of its own.
TEST(Automaton, ALanguageIsThatOfOneAutomatonASequence) {
  std::vector<int> first(4);
  expect_machine(named("language", {{"string", whole(6)}}), [&](const std::vector<int>& tokens) {
    std::vector<int> wanted(tokens.size(), -1);
    std::map<std::vector<int>, std::set<int>> following;
    std::set<int> symbols;
    std::vector<int> string;
    EXPECT_EQ(tokens[0], 19);
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      if (tokens[t] == 19) {
        string.clear();
        EXPECT_TRUE(t + 1 == tokens.size() || tokens[t + 1] != 19);
        continue;
      }
      wanted[t - 1] = tokens[t] - 1;
      following[string].insert(tokens[t]);
      symbols.insert(tokens[t]);
      string.push_back(tokens[t]);
      EXPECT_LE(string.size(), 6u);
    }
    for (const auto& [beginning, next] : following) EXPECT_LE(next.size(), 4u);
    EXPECT_LE(symbols.size(), 18u);
    return wanted;
  });
  const auto task = make_task(
      "automaton",
      named("language", {{"string", whole(2)}, {"shortest", whole(1000)}, {"longest", whole(1000)}}));
  SequenceBuffer buffer(*task, Split::train);
  std::set<std::set<int>> starts;
  for (std::uint64_t n = 0; n < 2000; ++n) {
    const SequenceView s = buffer.draw(2, n);
    std::set<int> start;
    for (int t = 0; t + 1 < 1000; ++t)
      if (s.tokens[t] == 19) start.insert(s.tokens[t + 1]);
    ASSERT_TRUE(!start.empty() && start.size() <= 4);
    ++first[start.size() - 1];
    starts.insert(start);
  }
  EXPECT_GT(starts.size(), 500u);
  // 1 .. 4 edges alike, of 4 states 1 .. 3, which one sequence in nine has.
  EXPECT_LT(
      std::abs(testing::chi_square_score(first, {2000 * (8 / 36.0 + 1 / 27.0), 2000 * (8 / 36.0 + 1 / 27.0),
                                                 2000 * (8 / 36.0 + 1 / 27.0), 2000 * 8 / 36.0})),
      4);
}

// What stands between two answers that are shown leads from the same state to the same state.
TEST(Automaton, ARandomTableIsOneOfItsSequenceOrOfAll) {
  for (const int drawn : {0, 1, 2}) {
    std::map<std::vector<int>, int> of_all;
    bool differ = false;
    int again = 0;
    expect_machine(
        named("random",
              {{"drawn_table", whole(drawn)}, {"reveal", std::string("shown")}, {"states", whole(4)}}),
        [&](const std::vector<int>& tokens) {
          std::vector<int> wanted(tokens.size(), -1), way = {0};
          std::map<std::vector<int>, int> leads;
          for (std::size_t t = 0; t < tokens.size(); ++t) {
            if (tokens[t] != 3) {
              way.push_back(tokens[t]);
              continue;
            }
            wanted[t] = tokens[t + 1] - 4;
            const auto [known, fresh] = leads.insert({way, wanted[t]});
            if (!fresh) again += way.size() > 1;
            EXPECT_EQ(known->second, wanted[t]);
            differ = differ || of_all.insert({way, wanted[t]}).first->second != wanted[t];
            way = {wanted[t]};
            ++t;
          }
          return wanted;
        });
    EXPECT_EQ(differ, drawn == 0);
    EXPECT_GT(again, 1000);
  }
}

TEST(Automaton, LengthsBaselinesAndRefusals) {
  const auto task = make_task("automaton", {{"eval_shortest", whole(40)}, {"eval_longest", whole(256)}});
  EXPECT_EQ(task->shape(Split::train), (SequenceShape{40, 1, 40}));
  EXPECT_EQ(task->lengthened(4)->shape(Split::eval), (SequenceShape{1024, 1, 1024}));
  EXPECT_EQ(task->vocabulary().tokens, 3);
  EXPECT_EQ(make_task("automaton", named("flip_flop"))->vocabulary().tokens, 6);
  EXPECT_EQ(make_task("automaton", rows)->vocabulary().values, 4);
  const auto parity = task->baselines();
  EXPECT_EQ(parity.at("chance_accuracy"), 0.5);
  EXPECT_NEAR(parity.at("baseline_last_answer_accuracy"), 0.5, 0.02);
  const auto sparse =
      make_task("automaton", named("flip_flop", {{"eval_ignore", 0.98}, {"eval_longest", whole(512)}}))
          ->baselines();
  EXPECT_NEAR(sparse.at("baseline_most_recent_accuracy"), 0.5, 0.08);
  EXPECT_GT(make_task("automaton", named("language"))->baselines().at("baseline_most_recent_accuracy"), 0.2);
  const auto refused = [](const Settings& settings) -> std::string {
    try {
      make_task("automaton", settings);
    } catch (const OptionError& error) {
      return error.what();
    }
    return "accepted";
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(refused({{"states", whole(3)}}), HasSubstr("no meaning with task.machine = \"parity\""));
  EXPECT_THAT(refused({{"ignore", 0.5}}), HasSubstr("no meaning"));
  EXPECT_THAT(refused({{"table", std::string("0 1; 1 0")}}), HasSubstr("no meaning"));
  EXPECT_THAT(refused({{"reveal", std::string("next")}}), HasSubstr("give one of every end marks shown"));
  EXPECT_THAT(refused(named("random", {{"drawn_table", whole(0)}, {"reveal", std::string("every")}})),
              HasSubstr("\"shown\""));
  EXPECT_THAT(refused(named("table")), HasSubstr("task.table is empty"));
  EXPECT_THAT(refused(named("table", {{"table", std::string("0 1; 1")}})),
              HasSubstr("row 1 has 1 numbers, row 0 has 2"));
  EXPECT_THAT(refused(named("table", {{"table", std::string("0 1; 1 2")}})),
              HasSubstr("2 in row 1 is no state; they are 0 .. 1"));
  EXPECT_THAT(refused(named("table", {{"table", std::string("0 x")}})),
              HasSubstr("\"x\" in row 0 is no whole number"));
  EXPECT_THAT(refused(named("table", {{"table", std::string("0; 1")}, {"answers", std::string("1")}})),
              HasSubstr("one row of 2 numbers"));
  EXPECT_THAT(refused(named("language", {{"states", whole(3)}})), HasSubstr("at least 4 states"));
  EXPECT_THAT(refused(named("flip_flop", {{"shortest", whole(3)}})), HasSubstr("has 4 tokens"));
  EXPECT_THAT(refused(named("undo", {{"eval_undo", whole(10)}})), HasSubstr("has 33 tokens"));
}

}  // namespace
}  // namespace crosstalk

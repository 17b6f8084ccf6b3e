// Machines with a state: each named one against a scalar machine of its own, baselines, what is refused.
// SPDX-License-Identifier: Apache-2.0
#include "tasks/kinds/automaton_sequence.h"

#include <fmt/format.h>

#include <functional>

#include "tasks/golden.h"

namespace crosstalk::testing::automaton_test {

using Ints = std::vector<int>;

Settings named(const std::string& machine, Settings settings = {}) {
  settings["machine"] = machine;
  return settings;
}
Settings text(const char* name, const char* value) { return {{name, std::string(value)}}; }
Settings table(const char* rows, const char* answers = "") {
  return named("table", {{"table", std::string(rows)}, {"answers", std::string(answers)}});
}

[[maybe_unused]] const bool pinned =
    pin("automaton",
        {{"standard", {}, 0xafded2503bd1faeau, 0xb06ba9547c1e0820u},
         {"flip_flop", named("flip_flop"), 0xd9793584915736f2u, 0x487ee21a781e0423u},
         {"undo", named("undo"), 0x4ddac45f3c438729u, 0xbfff2639d51aaa1u},
         {"majority", named("majority"), 0xec57a7f6fee18b3bu, 0x3faacdefcb3d44e0u},
         {"dyck", named("dyck"), 0xa29d834c8efc4004u, 0x47ff1442e8de720cu},
         {"language", named("language"), 0x9422a2d51dae0645u, 0xc396d7c095fb2e0du},
         {"random", named("random", {{"drawn_table", 0}}), 0xfeb42b08b3e722c3u, 0xaf469f30059bee79u}});

[[maybe_unused]] const bool fitted = [] {
  fit()["automaton"] = [](Settings& s) {
    const std::string machine = s.count("machine") > 0 ? std::get<std::string>(s["machine"]) : "parity";
    for (const char* of_few :
         {"states", "inputs", "depth", "string", "drawn_table", "ignore", "eval_ignore", "eval_undo"})
      s.erase(of_few);
    if (machine == "table") s.merge(table("1 2; 2 2; 0 1"));
    if (machine == "dyck" || machine == "language" || s["reveal"] == OptionValue("next"))
      s["reveal"] = "usual";
    if (!std::holds_alternative<std::string>(s["reveal"])) s.erase("reveal");
    for (const std::string prefix : {"", "eval_"}) {
      const int low = 4 + static_cast<int>(whole_of(s, prefix + "shortest", 3));
      s[prefix + "longest"] = low + static_cast<int>(whole_of(s, prefix + "longest", 9));
      s[prefix + "shortest"] = low;
    }
  };
  return true;
}();

/// Sets the right answer at each token that asks, as a person would work it out from the tokens of a whole sequence, without blanks.
using Scalar = std::function<void(const Ints& tokens, Ints& wanted)>;

/// 10,000 sequences of each split: asked exactly where `scalar` says, and with its answers.
void expect_machine(const Settings& settings, const Scalar& scalar) {
  const auto task = make_task("automaton", settings);
  for (const Split split : {Split::train, Split::eval, Split::test}) {
    SequenceBuffer buffer(*task, split);
    for (std::uint64_t n = 0; n < 10000; ++n) {
      const SequenceView s = buffer.draw(5, n);
      Ints tokens(s.tokens, s.tokens + s.shape.T), asked(tokens.size(), -1);
      while (tokens.back() == 0) tokens.pop_back();
      Ints wanted(tokens.size(), -1);
      scalar(tokens, wanted);
      wanted.resize(asked.size(), -1);
      for (int q = 0; q < s.shape.Q && s.target[q] >= 0; ++q)
        asked[static_cast<std::size_t>(s.query_position[q] - 1)] = s.target[q];
      ASSERT_EQ(asked, wanted) << "sequence " << n;
    }
  }
}

/// Every token is asked: what `answer` says of the inputs (ids minus 1) up to it.
Scalar every(const std::function<int(const Ints&)>& answer) {
  return [answer](const Ints& tokens, Ints& wanted) {
    Ints inputs;
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      inputs.push_back(tokens[t] - 1);
      wanted[t] = answer(inputs);
    }
  };
}
int sum(const Ints& x) { return std::accumulate(x.begin(), x.end(), 0); }
int count(const Ints& x, int of) { return static_cast<int>(std::count(x.begin(), x.end(), of)); }

TEST(Automaton, FiniteMachinesAreWhatTheyAreCalled) {
  expect_machine({}, every([](const Ints& x) { return sum(x) % 2; }));
  expect_machine(named("counter", {{"states", 7}}), every([](const Ints& x) { return sum(x) % 7; }));
  expect_machine(named("cycle"), every([](const Ints& x) { return (count(x, 1) + 4 * count(x, 2)) % 5; }));
  expect_machine(named("even_pairs"), every([](const Ints& x) {
                   int changes = 0;
                   for (std::size_t i = 1; i < x.size(); ++i) changes += x[i] != x[i - 1];
                   return changes % 2;
                 }));
  expect_machine(table("1 2; 2 2; 0 1", "0 3 3"), every([](const Ints& x) {
                   int state = 0;
                   for (const int input : x) state = state == 0 ? 1 + input : state == 1 ? 2 : input;
                   return state == 0 ? 0 : 3;
                 }));
  expect_machine(named("majority", {{"inputs", 4}}), every([](const Ints& x) {
                   int most = 0;
                   for (int i = 1; i < 4; ++i) most = count(x, i) > count(x, most) ? i : most;
                   return most;
                 }));
  expect_machine(text("reveal", "end"),
                 [](const Ints& tokens, Ints& wanted) { wanted.back() = count(tokens, 2) % 2; });
}

TEST(Automaton, AFlipFlopHoldsTheBitWrittenLast) {
  for (const double ignore : {0.98, 0.8, 0.1}) {
    std::map<char, int> counts;
    const Scalar scalar = [&](const Ints& tokens, Ints& wanted) {
      std::string said;
      for (const int token : tokens) said += ".01wir"[token];
      EXPECT_TRUE(said[0] == 'w' && said[said.size() - 2] == 'r');
      for (std::size_t t = 0; t < said.size(); t += 2) {
        if (t > 0 && t + 2 < said.size()) ++counts[said[t]];
        if (said[t] != 'r') continue;
        wanted[t] = said[said.rfind('w', t) + 1] - '0';
        EXPECT_EQ(said[t + 1] - '0', wanted[t]);
      }
    };
    expect_machine(named("flip_flop", {{"shortest", 100}, {"longest", 102}, {"ignore", ignore}}), scalar);
    const double all = counts['i'] + counts['w'] + counts['r'];
    EXPECT_NEAR(counts['i'] / all, ignore, 0.005);
    EXPECT_NEAR(counts['w'] / all, (1 - ignore) / 2, 0.005);
  }
}

TEST(Automaton, UndoTakesWritesBack) {
  std::map<char, int> counts;
  std::size_t deepest = 0;
  const Scalar scalar = [&](const Ints& tokens, Ints& wanted) {
    std::string stack;
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      const char c = ".01wiur"[tokens[t]];
      if (t > 0 && t + 3 < tokens.size()) ++counts[c];  // but for the first and the last
      if (c == 'w') stack += ".01"[tokens[++t]];
      if (c == 'i') ++t;
      if (c == 'u') stack.pop_back();
      if (c == 'r') wanted[t] = stack.back() - '0';
      EXPECT_FALSE(stack.empty());
      deepest = std::max(deepest, stack.size());
    }
    EXPECT_EQ(tokens.back(), 6);
  };
  expect_machine(named("undo", {{"depth", 2}}), scalar);
  EXPECT_EQ(deepest, 2u);
  counts.clear();
  expect_machine(named("undo", {{"shortest", 200}, {"longest", 200}}), scalar);
  const double all = counts['w'] + counts['i'] + counts['u'] + counts['r'];
  EXPECT_NEAR(counts['i'] / all, 0.8, 0.01);
  EXPECT_NEAR(counts['r'] / all, 0.1, 0.01);
  EXPECT_TRUE(counts['u'] > 1000 && counts['u'] < counts['w']);
  const auto deep =
      make_task("automaton", named("undo", {{"eval_undo", 5}, {"eval_shortest", 30}, {"longest", 30}}));
  for (const SequenceView& s : drawn(*deep, Split::eval, 1, 100)) {
    std::string said;
    for (int t = 0; t < 30; ++t) said += "?..wiur"[s.tokens[t]];
    ASSERT_EQ(said, "w.w.w.w.w.w.uuuuui.i.i.i.i.i.r");
    ASSERT_EQ(s.target[0], s.tokens[1] - 1);
    ASSERT_EQ(s.meta[meta_gap], 28);
  }
  EXPECT_NEAR(deep->baselines().at("baseline_latest_write_accuracy"), 0.5, 0.1);
  EXPECT_NEAR(deep->baselines().at("baseline_toggle_accuracy"), 0.5, 0.1);
}

TEST(Automaton, BracketsCloseWhatIsOpen) {
  for (const int depth : {0, 1, 3}) {
    std::size_t deepest = 0;
    expect_machine(named("dyck", {{"inputs", 4}, {"depth", depth}}), [&](const Ints& tokens, Ints& wanted) {
      Ints open;
      for (std::size_t t = 0; t < tokens.size(); ++t) {
        if (tokens[t] <= 4) {
          open.push_back(tokens[t]);
          deepest = std::max(deepest, open.size());
          continue;
        }
        EXPECT_EQ(tokens[t], open.back() + 4);
        wanted[t - 1] = open.back() - 1;
        open.pop_back();
      }
    });
    EXPECT_TRUE(depth == 0 ? deepest > 10 : deepest == static_cast<std::size_t>(depth)) << deepest;
  }
}

// Every string is a walk from one state: what follows the same beginning comes from few edges, and each sequence has edges of its own.
TEST(Automaton, ALanguageIsThatOfOneAutomatonASequence) {
  std::set<std::set<int>> starts;
  expect_machine(named("language", {{"string", 6}, {"longest", 100}}), [&](const Ints& tokens, Ints& wanted) {
    std::map<Ints, std::set<int>> following;
    Ints string;
    EXPECT_EQ(tokens[0], 19);
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      if (tokens[t] == 19) {
        EXPECT_TRUE(t == 0 || (!string.empty() && string.size() <= 6));
        string.clear();
        continue;
      }
      wanted[t - 1] = tokens[t] - 1;
      following[string].insert(tokens[t]);
      string.push_back(tokens[t]);
    }
    for (const auto& [beginning, next] : following) EXPECT_LE(next.size(), 4u);
    starts.insert(following[{}]);
  });
  EXPECT_GT(starts.size(), 2000u);
}

// What stands between two answers that are shown leads from the same state to the same state.
TEST(Automaton, ARandomTableIsOneOfItsSequenceOrOfAll) {
  for (const int drawn : {0, 1, 2}) {
    std::map<Ints, int> of_all;
    bool differ = false;
    int again = 0;
    expect_machine(named("random", {{"drawn_table", drawn}, {"reveal", "shown"}, {"states", 4}}),
                   [&](const Ints& tokens, Ints& wanted) {
                     Ints way = {0};
                     std::map<Ints, int> leads;
                     for (std::size_t t = 0; t < tokens.size(); ++t) {
                       if (tokens[t] != 3) {
                         way.push_back(tokens[t]);
                         continue;
                       }
                       wanted[t] = tokens[t + 1] - 4;
                       const auto [known, fresh] = leads.insert({way, wanted[t]});
                       again += !fresh && way.size() > 1;
                       EXPECT_EQ(known->second, wanted[t]);
                       differ = differ || of_all.insert({way, wanted[t]}).first->second != wanted[t];
                       way = {wanted[t++]};
                     }
                   });
    EXPECT_EQ(differ, drawn == 0);
    EXPECT_GT(again, 1000);
  }
}

TEST(Automaton, LengthsBaselinesAndRefusals) {
  const auto task = make_task("automaton", {{"eval_shortest", 40}, {"eval_longest", 256}});
  EXPECT_EQ(task->shape(Split::train), (SequenceShape{40, 1, 40}));
  EXPECT_EQ(task->lengthened(4)->shape(Split::eval), (SequenceShape{1024, 1, 1024}));
  EXPECT_EQ(make_task("automaton", named("flip_flop"))->vocabulary().tokens, 6);
  const auto baseline = [](const char* name, const Settings& settings) {
    return make_task("automaton", settings)->baselines().at(fmt::format("{}_accuracy", name));
  };
  EXPECT_EQ(baseline("chance", {}), 0.5);
  EXPECT_NEAR(baseline("baseline_last_answer", {}), 0.5, 0.02);
  EXPECT_NEAR(baseline("baseline_most_recent", named("flip_flop", {{"eval_ignore", 0.98}})), 0.5, 0.1);
  EXPECT_GT(baseline("baseline_most_recent", named("language")), 0.2);
  const std::pair<Settings, const char*> wrong[] = {
      {{{"states", 3}}, "no meaning with task.machine = \"parity\""},
      {{{"ignore", 0.5}}, "no meaning"},
      {text("table", "0 1; 1 0"), "no meaning"},
      {text("reveal", "next"), "give one of every end marks shown"},
      {named("random", {{"drawn_table", 0}, {"reveal", "every"}}), "give one of shown"},
      {table(""), "task.table is empty"},
      {table("0 1; 1"), "row 1 has 1 numbers, row 0 has 2"},
      {table("0 1; 1 2"), "2 in row 1 is no state; they are 0 .. 1"},
      {table("0 x"), "\"x\" in row 0 is no whole number"},
      {table("0; 1", "1"), "one row of 2 numbers"},
      {named("language", {{"states", 3}}), "at least 4 states"},
      {named("flip_flop", {{"shortest", 3}}), "has 4 tokens"},
      {named("undo", {{"eval_undo", 10}}), "has 33 tokens"}};
  for (const auto& [settings, why] : wrong)
    EXPECT_TRUE(refused("automaton", settings).says(why)) << refused("automaton", settings).why;
}

}  // namespace crosstalk::testing::automaton_test

// Saved states that do not fit their runs: set aside with a reason, and the run is trained anew.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <utility>

#include "experiments/training/state/run_state_fuzz.h"
#include "experiments/training/testing/training_fixture.h"

namespace crosstalk::checks {
namespace {

using States = std::map<std::string, std::string>;

/// Two runs of equal shapes and equal pack keys: only their states tell them apart.
std::vector<Run> two_runs() {
  return runs_of("train.max_steps = 90\neval.every = 20\ntrain.stop_loss = 0\ntrain.patience = 1000",
                 "name = \"softmax\"", "[1, 2]");
}

/// States of the runs, stopped after `progress` reports (one an evaluation).
States stopped_states(const std::vector<Run>& runs, int progress) {
  int reports = 0;
  Keeper keeper;
  keeper.on_progress = [&](std::int64_t) { keeper.stop = ++reports >= progress; };
  EXPECT_FALSE(train_runs("test", runs, on_cpu(8), keeper));
  EXPECT_TRUE(keeper.records.empty()) << "a run ended before it was stopped";
  EXPECT_EQ(keeper.states.size(), runs.size());
  return keeper.states;
}

struct Resumed {
  Records records;
  std::map<std::string, std::string> rejected;  ///< id: why
};

Resumed resume(const std::vector<Run>& runs, const States& states, int pack) {
  Keeper keeper;
  keeper.states = states;
  EXPECT_TRUE(train_runs("test", runs, on_cpu(pack), keeper));
  return {std::move(keeper.records), std::move(keeper.rejected)};
}

/// Rests at the first evaluation from `step` on.
struct Resting : Keeper {
  bool rests(const Run&, std::int64_t steps) override { return step > 0 && steps >= step; }
  std::int64_t step = 0;
};

TEST(Resume, ARunThatRestedGoesOnBitForBit) {
  const auto runs = two_runs();
  Resting keeper;
  keeper.step = 30;
  std::int64_t steps = 0;
  keeper.on_progress = [&](std::int64_t done) { steps += done; };
  EXPECT_TRUE(train_runs("test", runs, on_cpu(2), keeper));
  EXPECT_TRUE(keeper.records.empty());
  ASSERT_EQ(keeper.states.size(), 2u);
  EXPECT_EQ(steps, 2 * 40);
  for (const auto& [id, state] : keeper.states) EXPECT_EQ(run_state(state).steps, 40);
  keeper.step = 0;
  EXPECT_TRUE(train_runs("test", runs, on_cpu(1), keeper));
  EXPECT_EQ(steps, 2 * 90);
  EXPECT_TRUE(identical_records(keeper.records, train(runs)));
}

TEST(Resume, SwappedStatesAreSetAside) {
  const auto runs = two_runs();
  const Records alone = train(runs, 1, 1);
  for (const int pack : {1, 2}) {
    States states = stopped_states(runs, 2);
    std::swap(states.at(runs[0].id), states.at(runs[1].id));
    const Resumed resumed = resume(runs, states, pack);
    EXPECT_TRUE(identical_records(resumed.records, alone)) << "pack " << pack;
    EXPECT_EQ(resumed.rejected.size(), 2u);
    for (const auto& [id, why] : resumed.rejected)
      EXPECT_NE(why.find("of run ct-"), std::string::npos) << why;
  }
}

TEST(Resume, ImpossibleContentIsSetAsideAndTheOtherRunsGoOn) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  using Change = std::pair<const char*, std::function<void(RunState&)>>;
  const std::vector<Change> changes = {
      {"no steps", [](RunState& s) { s.steps = 0; }},
      {"negative steps", [](RunState& s) { s.steps = -40; }},
      {"steps beyond the end", [](RunState& s) { s.steps = 1000; }},
      {"steps beyond 32 bits", [](RunState& s) { s.steps = (std::int64_t{1} << 32) + 40; }},
      {"other steps", [](RunState& s) { s.steps += 20; }},
      {"other evaluations", [](RunState& s) { ++s.evaluations; }},
      {"negative evaluations", [](RunState& s) { s.evaluations = -1; }},
      {"strikes", [](RunState& s) { s.strikes = 1 << 20; }},
      {"best", [](RunState& s) { s.best /= 2; }},
      {"best is no number", [nan](RunState& s) { s.best = nan; }},
      {"short report", [](RunState& s) { s.report.pop_back(); }},
      {"report", [](RunState& s) { s.report[6] += 1; }},
      {"diverged at 1e300", [](RunState& s) { s.report[7] = 1e300; }},
      {"diverged before the start", [](RunState& s) { s.report[7] = -3; }},
      {"no curves", [](RunState& s) { s.curves.clear(); }},
      {"short curve", [](RunState& s) { s.curves["eval_loss"].y.pop_back(); }},
      {"curve of other steps", [](RunState& s) { s.curves["eval_loss"].x[0] = 7; }},
      {"an unknown curve", [](RunState& s) { s.curves["loss"] = s.curves["eval_loss"]; }},
      {"no parameters", [](RunState& s) { s.parameters.clear(); }},
      {"parameters of another model", [](RunState& s) { s.parameters += "12345678"; }},
      {"fewer parameters", [](RunState& s) { s.parameters.resize(s.parameters.size() / 2); }},
  };
  const auto runs = two_runs();
  const Records alone = train(runs, 1, 1);
  const States good = stopped_states(runs, 2);
  for (const auto& [what, change] : changes) {
    for (const int pack : {1, 2}) {
      States states = good;
      RunState state = run_state(states.at(runs[1].id));
      change(state);
      states[runs[1].id] = to_bytes(state);
      const Resumed resumed = resume(runs, states, pack);
      EXPECT_TRUE(identical_records(resumed.records, alone)) << what << ", pack " << pack;
      EXPECT_EQ(resumed.rejected.size(), 1u) << what << ", pack " << pack;
      EXPECT_EQ(resumed.rejected.count(runs[1].id), 1u) << what << ", pack " << pack;
    }
  }
}

TEST(Resume, TextThatIsNoStateIsSetAside) {
  const auto runs = two_runs();
  const Records alone = train(runs, 1, 1);
  const std::string good = stopped_states(runs, 2).at(runs[0].id);
  for (const std::string& text :
       {std::string("x"), std::string("{}\n"), std::string(500000, '[') + "\n",
        good.substr(0, good.size() - 1), good + "x", "[" + good, good.substr(good.find('\n'))}) {
    const Resumed resumed = resume(runs, {{runs[0].id, text}}, 2);
    EXPECT_TRUE(identical_records(resumed.records, alone)) << text.substr(0, 40);
    EXPECT_EQ(resumed.rejected.count(runs[0].id), 1u) << text.substr(0, 40);
  }
}

// The fuzz target over mutations, for compilers without a fuzzer.
TEST(Resume, FuzzTargetOverMutations) {
  const auto runs = two_runs();
  const std::string good = stopped_states(runs, 2).at(runs[0].id);
  const std::size_t head = good.find('\n') + 1;
  for (std::size_t at = 0; at < head; ++at) {
    check_state_reader(good.substr(0, at));
    for (const char byte : {'\0', '"', '{', '}', '[', ',', '9', '-', '.', 'e', '\x80'}) {
      std::string changed = good.substr(0, head + 8);
      changed[at] = byte;
      check_state_reader(changed);
    }
  }
}

void expect_good(const std::vector<Run>& runs) {
  const Records alone = train(runs, 1, 1);
  for (const int progress : {1, 2, 3, 4}) {
    const Resumed resumed = resume(runs, stopped_states(runs, progress), 2);
    EXPECT_TRUE(identical_records(resumed.records, alone)) << progress;
    EXPECT_TRUE(resumed.rejected.empty()) << resumed.rejected.begin()->second;
  }
}

TEST(Resume, GoodStatesAreTaken) { expect_good(two_runs()); }

TEST(Resume, MuonGoesOnWithItsMomentum) {
  expect_good(token_runs_of(
      "task.name = \"swap\"\ntask.layout = \"tag\"\ntrain.optimizer = \"muon\"\ntrain.schedule = "
      "\"one_cycle\"\ntrain.warmup_share = 0.3\ntrain.clip_norm = 0.5\ntrain.batch = 4\n"
      "train.max_steps = 90\neval.every = 20\neval.sequences = 8\ntrain.stop_loss = 0\n"
      "train.patience = 1000",
      "name = \"deltanet\"", "[1, 2]"));
}

}  // namespace
}  // namespace crosstalk::checks

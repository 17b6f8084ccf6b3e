// Races (train.race): who is solved is what it is without a race, the others end there; whatever the packs, stops and claims.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "experiments/training/pack_queue.h"
#include "experiments/training/testing/training_fixture.h"
#include "results/numbers/verdict.h"
#include "results/test_refusal.h"

namespace crosstalk::checks {
namespace {

/// Three rates of two points and two seeds: four races.
std::vector<Run> raced_runs(bool race, int max_steps = 400, double stop_loss = 0.05, int every = 20) {
  return runs_of(fmt::format("model.d_key = 6\ntask.queries = 3\ntrain.max_steps = {}\neval.every = {}\n"
                             "train.patience = 1000\ntrain.stop_loss = {}\ntrain.race = {}",
                             max_steps, every, stop_loss, race),
                 "name = \"softmax\"", "[1, 2]",
                 "\"task.associations\" = [4, 6]\n\"train.learning_rate\" = [0.001, 0.02, 0.01]");
}

/// A client that knows, as a store does, who of its records won a race.
struct Referee : Keeper {
  std::int64_t solved_at(const std::string& race) override {
    std::int64_t step = kNeverSolved;
    for (const auto& [id, record] : records)
      if (record.provenance.value("race", "") == race) step = std::min(step, record.steps);
    return step;
  }
};

Records raced(const std::vector<Run>& runs, int pack, int threads = 1) {
  Referee referee;
  EXPECT_TRUE(train_runs("test", runs, on_cpu(pack, threads), referee));
  return std::move(referee.records);
}

TEST(Race, SolvedRunsAreThoseWithoutARaceAndOthersTheirBeginning) {
  const auto alone = raced_runs(false), runs = raced_runs(true);
  const Records plain = train(alone), with = raced(runs, 0);
  std::map<Verdict, int> verdicts;
  std::map<std::string, std::int64_t> first;  // race -> step at which it is solved
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Record& whole = plain.at(alone[i].id);
    std::int64_t& step = first.try_emplace(race_of(runs[i].config), kNeverSolved).first->second;
    if (verdict_of(whole) == Verdict::solved) step = std::min(step, whole.steps);
  }
  EXPECT_EQ(first.size(), 4u);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Record &whole = plain.at(alone[i].id), &one = with.at(runs[i].id);
    const std::int64_t end = first.at(race_of(runs[i].config));
    ++verdicts[verdict_of(one)];
    EXPECT_EQ(one.status, RunStatus::done);
    EXPECT_EQ(one.steps, std::min(whole.steps, end));
    EXPECT_EQ(verdict_of(one) == Verdict::outrun, whole.steps > end);
    const auto points = static_cast<std::size_t>(one.steps / 20);
    for (const auto& [name, curve] : whole.curves) {
      Series cut = curve;
      cut.x.resize(points), cut.y.resize(points);
      EXPECT_EQ(one.curves.at(name).x, cut.x);
      EXPECT_EQ(one.curves.at(name).y, cut.y) << name;
    }
    EXPECT_EQ(one.eval_loss, whole.curves.at("eval_loss").y.at(points - 1));
    if (whole.steps <= end) {
      EXPECT_EQ(one.metrics, whole.metrics);
    }
  }
  EXPECT_GE(verdicts[Verdict::solved], 3);
  EXPECT_GE(verdicts[Verdict::outrun], 4);
}

TEST(Race, PacksThreadsAndOrderDoNotMatter) {
  auto runs = raced_runs(true, 190);  // slots cannot be refilled in step
  const Records one = raced(runs, 0);
  for (const int pack : {1, 2, 4, 7, 12}) {
    std::rotate(runs.begin(), runs.begin() + 5, runs.end());
    EXPECT_TRUE(identical_records(raced(runs, pack, pack % 3 + 1), one)) << "pack " << pack;
  }
}

TEST(Race, StopsAndLostStatesDoNotMatter) {
  const auto runs = raced_runs(true, 400, 1e-4, 4);
  const Records whole = raced(runs, 0);
  for (const bool lose : {false, true}) {
    for (const int pack : {1, 12}) {
      Referee referee;
      int reports = 0;
      referee.on_progress = [&](std::int64_t) { referee.stop = ++reports % 2 == 0; };
      if (lose) {
        train_runs("test", runs, on_cpu(pack), referee);
        ASSERT_FALSE(referee.states.empty());
        referee.states.erase(referee.states.begin());
      }
      EXPECT_GT(train_in_rounds(runs, on_cpu(pack), referee), 2);
      EXPECT_TRUE(identical_records(referee.records, whole)) << "pack " << pack;
    }
  }
}

// Killed between two records of a race, and resumed: the end is that of the record.
TEST(Race, WhoIsLeftEndsWhereARecordedSiblingWasSolved) {
  const auto runs = raced_runs(true);
  const Records whole = raced(runs, 0);
  for (const bool winners : {true, false}) {
    Referee referee;
    std::vector<crosstalk::Run> left;
    for (const crosstalk::Run& run : runs) {
      if ((verdict_of(whole.at(run.id)) == Verdict::solved) == winners) {
        referee.records.emplace(run.id, whole.at(run.id));
      } else {
        left.push_back(run);
      }
    }
    EXPECT_TRUE(train_runs("test", left, on_cpu(1), referee));
    EXPECT_TRUE(identical_records(referee.records, whole)) << winners;
  }
}

TEST(Race, OneRefusedClaimLeavesTheWholeRace) {
  const auto runs = raced_runs(true);
  const std::string race = race_of(runs[3].config);
  struct Rival : Referee {
    bool claim(const std::string& id) override { return id != taken; }
    std::string taken;
  };
  for (const int pack : {1, 4, 12}) {
    Rival rival;
    rival.taken = runs[3].id;
    EXPECT_TRUE(train_runs("test", runs, on_cpu(pack), rival));
    EXPECT_EQ(rival.records.size(), 9u);
    for (const crosstalk::Run& run : runs)
      EXPECT_EQ(rival.records.count(run.id), race_of(run.config) == race ? 0u : 1u);
  }
}

TEST(Race, PacksAndTheirHalvesKeepSiblingsTogether) {
  const auto runs = raced_runs(true);
  std::vector<const crosstalk::Run*> all;
  for (const crosstalk::Run& run : runs) all.push_back(&run);
  const auto races = [](const QueuedPack& pack) {
    std::map<std::string, int> sizes;
    for (const QueuedRun& run : pack.runs) ++sizes[race_of(run.run->config)];
    for (const auto& [name, size] : sizes) EXPECT_EQ(size, 3);
    return sizes.size();
  };
  Keeper keeper;
  for (const QueuedPack& pack : make_packs(all, on_cpu(4), keeper)) EXPECT_EQ(races(pack), 1u);
  for (const QueuedPack& pack : make_packs(all, on_cpu(12), keeper)) {
    EXPECT_EQ(races(pack), 2u);  // a point's
    const auto [first, second] = halves(pack, 12);
    EXPECT_EQ(races(first) + races(second), 2u);
  }
}

TEST(Race, IsRefusedWhereItMeansNothing) {
  const auto refused = [](const std::string& base, const std::string& memory) {
    return crosstalk::testing::refusal_of<ConfigError>(
        [&] { runs_of(base + "\ntrain.race = true", memory); });
  };
  EXPECT_EQ(refused("train.max_steps = 20", "name = \"softmax\""), "");
  EXPECT_NE(refused("train.stop_loss = 0", "name = \"softmax\"").find("without train.stop_loss"),
            std::string::npos);
  EXPECT_NE(
      refused("", "name = \"python\"\ndigest = \"0123456789abcdef0123456789abcdef\"").find("cannot race"),
      std::string::npos);
  EXPECT_NE(
      refused("task.name = \"words\"\ntask.curriculum = \"2 3\"\nmodel.name = \"language\"\nmodel.width = 8",
              "name = \"deltanet\"")
          .find("curriculum"),
      std::string::npos);
}

}  // namespace
}  // namespace crosstalk::checks

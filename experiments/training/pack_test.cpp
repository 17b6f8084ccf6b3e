// Records do not depend on how runs are packed, ordered and shared out; every memory can learn every task.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <random>
#include <set>
#include <stdexcept>
#include <thread>

#include "experiments/training/pack.h"
#include "experiments/training/pack_queue.h"
#include "experiments/training/testing/training_fixture.h"
#include "models/memory.h"
#include "tasks/kinds/file_example.h"
#include "tasks/sequence_buffer.h"

namespace crosstalk::checks {
namespace {

// Seven runs that end at different times: solved, out of patience, at the limit.
std::vector<Run> uneven_runs(const std::string& max_steps) {
  return runs_of(
      "task.associations = 6\nmodel.d_key = 6\ntask.queries = 3\ntrain.max_steps = " + max_steps +
          "\neval.every = 20\ntrain.patience = 1\ntrain.learning_rate = 0.02\ntrain.stop_loss = 0.05",
      "name = \"softmax\"", "[1, 2, 3, 4, 5, 6, 7]");
}

TEST(Packs, SizeOrderAndThreadsDoNotMatter) {
  for (const char* limit : {"200", "90"}) {  // 90: slots cannot be refilled in step
    auto runs = uneven_runs(limit);
    const Records alone = train(runs, 1, 1);
    std::set<std::int64_t> lengths;
    for (const auto& [id, record] : alone) lengths.insert(record.steps);
    EXPECT_GT(lengths.size(), 1u) << "all runs end together: nothing is tested";
    std::mt19937 shuffle(5);
    for (const int pack : {2, 7}) {
      std::shuffle(runs.begin(), runs.end(), shuffle);
      EXPECT_TRUE(identical_records(train(runs, pack, 1), alone)) << "pack " << pack;
    }
    for (const int threads : {2, 3}) {
      std::shuffle(runs.begin(), runs.end(), shuffle);
      EXPECT_TRUE(identical_records(train(runs, threads == 2 ? 7 : 3, threads), alone))
          << "threads " << threads;
    }
  }
}

TEST(Packs, SlotsThatAreRefilledTrainTheSame) {
  for (const char* limit : {"200", "90"}) {
    const auto runs = uneven_runs(limit);
    const Records alone = train(runs, 1, 1);
    for (const int slots : {1, 2, 3}) {
      std::vector<PackRun> pack;
      for (auto run = runs.rbegin(); run != runs.rend(); ++run) pack.push_back({*run, ""});
      std::int64_t steps = 0, want_steps = 0;
      Keeper keeper;
      keeper.on_progress = [&](std::int64_t n) { steps += n; };
      EXPECT_TRUE(train_pack("test", pack, {slots}, keeper));
      EXPECT_TRUE(identical_records(keeper.records, alone)) << slots << " slots";
      for (const auto& [id, record] : alone) want_steps += record.steps;
      EXPECT_EQ(steps, want_steps);
    }
  }
}

/// Is granted its claims of some runs a few times only.
struct Rival : Keeper {
  bool claim(const std::string& id) override {
    return ++asked[id] <= (granted.count(id) ? granted[id] : 1000);
  }
  std::map<std::string, int> asked, granted;  ///< times
};

// A run that another process has taken is left, before it begins or at an evaluation; its pack-mates train as if alone.
TEST(Packs, RunsThatCannotBeClaimedAreLeftAndOthersTrainTheSame) {
  for (const char* limit : {"200", "90"}) {
    const auto runs = uneven_runs(limit);
    const Records alone = train(runs, 1, 1);
    for (const int slots : {1, 3}) {
      std::vector<std::string> ids;  // longest first
      for (const auto& [id, record] : alone) ids.push_back(id);
      std::sort(ids.begin(), ids.end(),
                [&](const auto& a, const auto& b) { return alone.at(a).steps > alone.at(b).steps; });
      const std::string &late = ids[0], &never = ids[1], &last = ids[6];
      std::vector<PackRun> pack;
      for (const auto& run : runs) pack.push_back({run, ""});
      Rival rival;
      rival.granted = {{never, 0}, {last, 0}, {late, 1}};
      EXPECT_TRUE(train_pack("test", pack, {slots}, rival));
      Records expected = alone;
      for (const std::string& id : {never, late, last}) expected.erase(id);
      EXPECT_TRUE(identical_records(rival.records, expected)) << slots << " slots, limit " << limit;
      EXPECT_EQ(rival.asked[never], 1);
      EXPECT_EQ(rival.asked[late], 2) << "claimed when it began and at its first evaluation";
    }
  }
}

TEST(Packs, RunsThatOthersLeftTakeTheirPlaceAmongThoseThatWait) {
  auto runs = runs_of("train.max_steps = 20\neval.every = 20", "name = \"linear_attention\"", "[1]",
                      "\"task.associations\" = [16, 12, 8, 4]");
  ASSERT_EQ(runs.size(), 4u);  // each a pack of its own, the longest first
  struct Client : Keeper {
    std::vector<const crosstalk::Run*> more_runs(const std::set<std::string>& here, bool idle) override {
      if (idle) return {};
      EXPECT_EQ(here.count(waiting), 1u);
      if (std::exchange(given, true)) return {};
      EXPECT_EQ(here.count(left->id), 0u);
      return {left};
    }
    void finished(Record&& record) override { ended.push_back(record.id); }
    const crosstalk::Run* left = nullptr;
    std::string waiting;
    bool given = false;
    std::vector<std::string> ended;
  } client;
  client.left = &runs[2];
  client.waiting = runs[3].id;
  TrainingOptions options = on_cpu(0);
  options.look_again = 0;
  EXPECT_TRUE(train_runs("test", {&runs[0], &runs[1], &runs[3]}, options, client));
  EXPECT_EQ(client.ended, (std::vector<std::string>{runs[0].id, runs[1].id, runs[2].id, runs[3].id}));
}

TEST(Packs, TheHeaviestGoFirstWhereThereIsLittleToTrain) {
  TrainingOptions options;
  options.device = Device::cuda;
  for (const int seeds : {1, 100}) {
    const auto runs =
        runs_of("train.max_steps = 20\neval.every = 20", "name = \"linear_attention\"",
                "{ range = [1, " + std::to_string(seeds) + "] }", "\"task.associations\" = [100, 200, 400]");
    std::vector<const crosstalk::Run*> all;
    for (const crosstalk::Run& run : runs) all.push_back(&run);
    Keeper keeper;
    std::vector<QueuedPack> packs = make_packs(all, options, keeper);
    ASSERT_EQ(packs.size(), 3u);
    EXPECT_LT(packs[0].cost, packs[2].cost);
    EXPECT_EQ(packs[0].priority < packs[2].priority, seeds == 1);
    EXPECT_EQ(packs[0].priority > packs[2].priority, seeds == 100);
    // A pack that comes later has the priority of those that take about as long.
    QueuedPack late{packs[1].cost, 0.123, {}};
    add_packs(packs, {late});
    ASSERT_EQ(packs.size(), 4u);
    EXPECT_EQ(packs[2].priority, packs[1].priority);
  }
}

TEST(Packs, AStudyThatOthersTrainEndsAtOnce) {
  struct Late : Keeper {
    bool claim(const std::string&) override { return ++claims, false; }
    std::atomic<int> claims{0};
  } late;
  EXPECT_TRUE(train_runs("test", uneven_runs("200"), on_cpu(0, 2), late));
  EXPECT_EQ(late.claims, 7);
  EXPECT_TRUE(late.records.empty());
}

TEST(Packs, MixedShapesAreSortedIntoPacks) {
  auto runs = runs_of(
      "train.max_steps = 10\neval.every = 5\ntrain.stop_loss = 0", "name = \"delta\"", "[1, 2]",
      "\"task.associations\" = [3, 4]\n\"train.learning_rate\" = [1e-3, 1e-2]\n\"train.max_steps\" = [10, 15]");
  ASSERT_EQ(runs.size(), 16u);
  const Records alone = train(runs, 1, 1);
  std::reverse(runs.begin(), runs.end());
  EXPECT_TRUE(identical_records(train(runs, 5, 1), alone));
  EXPECT_TRUE(identical_records(train(runs, 0, 2), alone));
}

// Rates and weight decays are axes within a pack.
TEST(Packs, RatesAndDecaysOfAPackDoNotMix) {
  const auto runs = runs_of(
      "train.optimizer = \"adamw\"\ntrain.schedule = \"cosine\"\ntrain.warmup_steps = 6\ntrain.clip_norm = 0.2\n"
      "train.max_steps = 40\neval.every = 20\ntrain.stop_loss = 0",
      "name = \"delta\"", "[1]",
      "\"train.learning_rate\" = [1e-3, 1e-2]\n\"train.weight_decay\" = [0.0, 0.1, 0.5]");
  ASSERT_EQ(runs.size(), 6u);
  const Records alone = train(runs, 1, 1);
  std::set<double> losses;
  for (const auto& [id, record] : alone) losses.insert(record.eval_loss);
  EXPECT_EQ(losses.size(), 6u);
  EXPECT_TRUE(identical_records(train(runs, 6, 1), alone));
  EXPECT_TRUE(identical_records(train(runs, 4, 3), alone));
}

TEST(Packs, OnlyWhatLeavesShapesAloneSharesAPack) {
  const auto key = [](const std::string& base) {
    return pack_key(runs_of(base, "name = \"delta\"")[0].config);
  };
  const std::string same = key("");
  EXPECT_EQ(key("train.learning_rate = 0.5"), same);
  EXPECT_EQ(key("train.patience = 3"), same);
  EXPECT_EQ(key("train.stop_accuracy = 0.5"), same);
  const std::string adamw = key("train.optimizer = \"adamw\"");
  EXPECT_EQ(key("train.optimizer = \"adamw\"\ntrain.weight_decay = 0.5"), adamw);
  EXPECT_NE(adamw, same);
  for (const char* other :
       {"task.associations = 5", "model.d_key = 6", "train.batch = 5", "eval.every = 7",
        "train.max_steps = 9", "eval.protocol = \"schlag2021\"", "train.precision = \"fp64\"",
        "train.clip_norm = 1.0", "train.warmup_steps = 3", "train.schedule = \"cosine\"", "train.beta2 = 0.9",
        "train.precision = \"tf32\"", "train.precision = \"bf16\""})
    EXPECT_NE(key(other), same) << other;
}

TEST(Stop, ReturnsSoonAndDropsWhatIsNotDone) {
  const auto runs = runs_of("train.max_steps = 1000000000\neval.every = 1000000\ntrain.stop_loss = 0",
                            "name = \"softmax\"", "[1, 2, 3]");
  Keeper keeper;
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    keeper.stop = true;
  });
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(train_runs("test", runs, on_cpu(0), keeper));
  later.join();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));  // else: years
  EXPECT_TRUE(keeper.records.empty());
}

// Stopped at every report of progress and continued until all is done: as if nothing had happened.
TEST(Stop, WhatIsSavedContinuesBitForBit) {
  for (const char* limit : {"200", "90"}) {
    const auto runs = uneven_runs(limit);
    const Records alone = train(runs, 1, 1);
    Keeper keeper;
    keeper.on_progress = [&](std::int64_t) { keeper.stop = true; };
    EXPECT_GT(train_in_rounds(runs, on_cpu(3), keeper), 3);
    EXPECT_TRUE(identical_records(keeper.records, alone));
  }
}

// The scheduler sorts runs of a curriculum by where they stand.
TEST(Stop, CurriculaContinueBitForBit) {
  const auto runs = token_runs_of(
      "task.name = \"swap\"\ntask.layout = \"tag\"\ntask.curriculum = \"2 4 6\"\ntrain.batch = 8\n"
      "train.max_steps = 120\neval.every = 10\neval.sequences = 8\ntrain.learning_rate = 0.01\n"
      "train.promote_accuracy = 0.5\ntrain.stop_loss = 0\ntrain.patience = 1000",
      "name = \"delta\"", "[1, 2, 3]");
  const Records alone = train(runs, 1, 1);
  std::size_t most = 0;
  for (const auto& [id, record] : alone) most = std::max(most, record.profiles.at("steps_by_stage").x.size());
  EXPECT_EQ(most, 3u) << "nobody comes to the last stage";
  EXPECT_TRUE(identical_records(train(runs, 3, 1), alone));
  int reports = 0;
  Keeper keeper;
  keeper.on_progress = [&](std::int64_t) { keeper.stop = ++reports % 3 == 0; };
  EXPECT_GT(train_in_rounds(runs, on_cpu(3), keeper), 3);
  EXPECT_TRUE(keeper.rejected.empty()) << keeper.rejected.begin()->second;
  EXPECT_TRUE(identical_records(keeper.records, alone));
}

TEST(Stop, SetBeforehandTrainsNothing) {
  Keeper keeper;
  keeper.stop = true;
  EXPECT_FALSE(train_runs("test", runs_of("train.max_steps = 5", "name = \"softmax\""), {}, keeper));
  EXPECT_TRUE(keeper.records.empty());
  EXPECT_TRUE(train_runs("test", std::vector<const crosstalk::Run*>(), {}, keeper));  // nothing to do is done
}

TEST(Stop, AnExceptionOfTheClientEndsTheTraining) {
  Keeper keeper;
  keeper.on_progress = [](std::int64_t) { throw std::length_error("the disk is full"); };
  EXPECT_THROW(train_runs("test", uneven_runs("90"), on_cpu(0, 2), keeper), std::length_error);
  EXPECT_TRUE(keeper.records.empty()) << "no run has failed";
}

/// `falls`: not asked where 40 steps teach less than a batch's loss varies.
void expect_learning(const std::vector<Run>& runs, bool falls = true) {
  const Record record = train_one(runs);
  const std::string what =
      runs[0].config.get_string("task.name") + ", " + runs[0].config.get_string("memory.name");
  EXPECT_EQ(record.status, RunStatus::done) << what << ": " << record.message;
  EXPECT_EQ(record.steps, 40);
  const auto& loss = record.curves.at("train_loss").y;
  for (const double y : loss) EXPECT_TRUE(std::isfinite(y)) << what;
  if (falls) {
    EXPECT_LT(loss.back(), loss.front()) << what;
  }
}

/// What a study says of a task of single tokens, with small sizes where the standard ones are large; nothing for the
/// others, which the retrieval model takes.
std::string token_task(const TaskKind& kind) {
  if (testing::make_task(kind.name)->vocabulary().tokens == 0) return "";
  static const std::map<std::string, std::string> small = {
      {"mqar", "task.vocabulary = 32\ntask.length = 16"},
      {"words", "task.group = \"S3\"\ntask.length = 8"},
      {"context_recall", "task.length = 40\ntask.contexts = 2\ntask.pairs = 3\ntask.vocabulary = 30"},
      {"automaton", "task.longest = 16"},
      {"trace", "task.variables = 3\ntask.lines = 6"},
      {"brevo", "task.nodes = 6"},
      {"compression", "task.length = 8\nmodel.decoder = \"last\""},
      {"depo", "task.nodes = 8\ntask.queries = 3"},
      {"k_hop", "task.length = 16"},
      {"palindrome", "task.length = 16\ntask.vocabulary = 8"},
      {"reachability", "task.nodes = 8"},
      {"stacks", "task.length = 24\ntask.stacks = 3\ntask.elements = 5"},
      {"induction", "task.length = 16"}};
  const auto found = small.find(kind.name);
  std::string text =
      fmt::format("task.name = \"{}\"\n{}", kind.name, found == small.end() ? "" : found->second);
  const auto needed = testing::needs().find(kind.name);
  for (const auto& [key, value] : needed == testing::needs().end() ? testing::Settings() : needed->second())
    text += fmt::format("\ntask.{} = {}", key, to_text(value));
  return text;
}

TEST(Learning, EveryTaskTrainsWithEveryMemory) {
  const std::string steps = "\ntrain.max_steps = 40\neval.every = 20\ntrain.stop_loss = 0";
  for (const TaskKind& task : task_kinds()) {
    const std::string tokens = token_task(task);
    for (const Memory& memory : all_memories()) {
      const std::string name = "name = \"" + memory.name + "\"";
      // The language model is the same for all tasks: every memory sees one, and some see every task.
      const bool some = memory.name == "softmax" || memory.name == "delta";
      if (!tokens.empty()) {
        if (some || task.name == "mqar")
          expect_learning(
              token_runs_of(tokens + steps + "\ntrain.batch = 32\ntrain.learning_rate = 0.01", name));
        continue;
      }
      const std::string folder =
          task.drawn ? "" : fmt::format("\ntask.folder = \"{}\"", testing::example_folder());
      // The inner steps of this one, as long as they start, are too long for real outputs: it diverges.
      if (task.name == "regression" && memory.name == "titans_mlp") continue;
      // Each sequence of regression has weights of its own, so that nothing is learned by heart.
      const bool falls = testing::make_task(task.name)->vocabulary().numbers == 0;
      expect_learning(
          runs_of(fmt::format("task.name = \"{}\"\ntrain.batch = 32\ntrain.learning_rate = 0.003{}{}",
                              task.name, steps, folder),
                  name),
          falls);
    }
  }
}

// Letters that follow one another with known probabilities: the loss is what those lose on the same windows.
TEST(Learning, ATextIsLearntToItsEntropy) {
  const std::string folder = std::get<std::string>(testing::needs().at("text")().at("folder"));
  const auto runs =
      parse_study(
          fmt::format(
              "[study]\nname = \"test\"\nseeds = [1]\n[base]\nmodel.name = \"language\"\nmodel.width = 32\n"
              "task.name = \"text\"\ntask.folder = \"{}\"\ntask.length = 32\ntrain.max_steps = 400\n"
              "eval.every = 400\ntrain.batch = 32\ntrain.learning_rate = 0.003\ntrain.schedule = \"cosine\"\n"
              "eval.sequences = 60\ntrain.stop_loss = 0\n[memories.m]\nname = \"deltanet\"\n",
              folder),
          "test.toml")
          .runs;
  const Record record = train(runs, 1, 1).begin()->second;
  const auto task = testing::make_task("text", {{"length", std::int64_t{32}}});
  SequenceBuffer buffer(*task, Split::test);
  double bits = 0;
  for (std::uint64_t n = 0; n < 60; ++n) {
    const SequenceView s = buffer.draw(0, n);
    for (int t = 0; t < 32; ++t)
      bits -= std::log2((s.target[t] - s.tokens[t] + 4) % 4 == 1 ? 13.0 / 16 : 1.0 / 16) / (60 * 32);
  }
  EXPECT_NEAR(record.metrics.at("test_bits_per_token"), bits, 0.01);
  EXPECT_NEAR(record.metrics.at("test_perplexity"), std::exp2(record.metrics.at("test_bits_per_token")),
              1e-6);
  EXPECT_NEAR(record.metrics.at("unigram_loss"), std::log(4), 1e-3);
}

TEST(Learning, AnswersThatAreRightInAnotherContextAreCounted) {
  const auto record = [](const std::string& keys) {
    const std::string task = token_task(*find_task("context_recall"));
    return train_one(token_runs_of(task + "\ntask.keys = \"" + keys +
                                       "\"\ntrain.max_steps = 40\neval.every = 20\ntrain.stop_loss = 0\n"
                                       "train.batch = 32\ntrain.learning_rate = 0.01",
                                   "name = \"delta\""));
  };
  const Record shared = record("shared"), unique = record("unique");
  ASSERT_EQ(shared.status, RunStatus::done) << shared.message;
  const auto& metrics = shared.metrics;
  const double right = metrics.at("test_accuracy"), other = metrics.at("test_accuracy_other_context");
  EXPECT_DOUBLE_EQ(metrics.at("context_gap"), right - other);
  EXPECT_GT(other, 0);               // hardly trained, it answers values of any context
  EXPECT_LE(right + other, 1.0001);  // an answer is right in one context at most
  EXPECT_EQ(unique.metrics.count("context_gap"), 0u);
  const double chance = metrics.at("chance_accuracy");
  EXPECT_DOUBLE_EQ(metrics.at("test_scaled_accuracy"), (right - chance) / (1 - chance));
  EXPECT_GT(metrics.at("test_class_accuracy"), 0);
  EXPECT_LE(metrics.at("test_class_accuracy"), 1);
}

TEST(Learning, RecallWithinCapacityIsSolved) {
  for (const char* memory : {"softmax", "linear_attention", "delta"}) {
    const Record record = train_one(runs_of(
        "task.associations = 8\nmodel.d_key = 8\ntask.queries = 8\ntrain.batch = 32\ntrain.max_steps = 1000\n"
        "eval.every = 50\ntrain.learning_rate = 0.01\neval.sequences = 16",
        fmt::format("name = \"{}\"", memory)));
    EXPECT_LE(record.eval_loss, 1e-3) << memory;
    EXPECT_EQ(record.eval_accuracy, 1) << memory;
    EXPECT_LT(record.steps, 1000) << memory;
  }
}

// By the memory's own word (models/memories/), whatever its name.
TEST(Learning, RecordsHoldTheRankBoundOfMemoriesThatHaveOne) {
  for (const auto& [memory, bounded] :
       {std::pair{"retnet", true}, {"gla", true}, {"deltanet", true}, {"softmax", false}}) {
    const Record record = train_one(runs_of(
        "task.associations = 24\nmodel.d_key = 8\ntrain.max_steps = 2\neval.every = 2\neval.sequences = 1",
        fmt::format("name = \"{}\"", memory)));
    ASSERT_EQ(record.metrics.count("rank_bound"), bounded ? 1u : 0u) << memory;
    if (bounded) {
      EXPECT_DOUBLE_EQ(record.metrics.at("rank_bound"), 0.5 * (1 - 8. / 24)) << memory;
    }
  }
}

}  // namespace
}  // namespace crosstalk::checks

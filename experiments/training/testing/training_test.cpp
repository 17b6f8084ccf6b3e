// The trainer against a plain loop: learning curves, stop rules, protocols, profiles.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <set>

#include "experiments/training/optimizer.h"
#include "experiments/training/testing/plain_trainer.h"
#include "experiments/training/testing/training_fixture.h"
#include "results/test_refusal.h"

namespace crosstalk::checks {
namespace {

const Series& curve(const Record& record, const char* name) { return record.curves.at(name); }

std::vector<Run> exact_runs(const std::string& base, const std::string& memory,
                            const std::string& seeds = "[1]", const std::string& grid = "") {
  return runs_of("train.precision = \"fp64\"\n" + base, memory, seeds, grid);
}

// Trains with both; curves must have the same bits up to the order of a sum of doubles. `norms`: of the gradient's norm, which
// is not flat where a loss is: it moves with the parameters, by as much as an optimizer has multiplied their rounding.
void compare(const std::vector<Run>& runs, double epoch = 1, double norms = 1e-12) {
  const Records records = train(runs);
  for (const Run& run : runs) {
    SCOPED_TRACE(run.label + " seed " + std::to_string(run.seed));
    const Record& record = records.at(run.id);
    PlainTrainer plain(run);
    plain.epoch = epoch;
    plain.train();
    ASSERT_EQ(record.status, plain.status);
    ASSERT_EQ(record.steps, plain.steps);
    ASSERT_EQ(record.curves.count("eval_loss") ? curve(record, "eval_loss").x.size() : 0,
              plain.evaluations.size());
    for (std::size_t i = 0; i < plain.evaluations.size(); ++i) {
      const PlainEvaluation& want = plain.evaluations[i];
      SCOPED_TRACE(fmt::format("evaluation {}", i));
      const auto near = [&](const char* name, double value, double tolerance = 1e-12) {
        ASSERT_EQ(curve(record, name).x[i], static_cast<double>(want.step)) << name;
        const double got = curve(record, name).y[i];
        ASSERT_TRUE(std::abs(got - value) <= tolerance * std::max(1., std::abs(value)) ||
                    (std::isnan(got) && std::isnan(value)))
            << name << ": " << got << " instead of " << value;
      };
      near("eval_loss", want.loss);
      near("eval_accuracy", want.accuracy);
      near("eval_exact", want.exact);
      if (want.step == 0) continue;
      near("train_loss", want.train_loss);
      near("gradient_norm_median", want.norm_median, norms);
      near("gradient_norm_largest", want.norm_largest, norms);
    }
    if (record.status != RunStatus::done) continue;
    EXPECT_EQ(record.eval_loss, curve(record, "eval_loss").y.back());
    EXPECT_EQ(record.eval_accuracy, curve(record, "eval_accuracy").y.back());
    const auto& losses = curve(record, "eval_loss").y;
    EXPECT_EQ(record.best_eval_loss, *std::min_element(losses.begin(), losses.end()));
  }
}

TEST(PlainLoop, EveryMemoryTrainsTheSame) {
  for (const Memory& kind : all_memories()) {
    SCOPED_TRACE(kind.name);
    ASSERT_NO_FATAL_FAILURE(compare(
        exact_runs("train.max_steps = 25\neval.every = 10", "name = \"" + kind.name + "\"", "[1, 2]")));
  }
}

// 100 sequences of so many associations are a batch, of which the second is half full.
TEST(PlainLoop, EvaluationsOfSeveralBatchesCountEverySequenceOnce) {
  compare(exact_runs("task.associations = 100\neval.sequences = 150\ntrain.max_steps = 1\neval.every = 1",
                     "name = \"linear_attention\""));
}

TEST(PlainLoop, RandomFeaturesAreDrawnAnewInEveryForwardPass) {
  compare(exact_runs("train.max_steps = 12\neval.every = 5",
                     "name = \"linear_attention\"\nfeature_map = \"favor\"\nfeatures = 6",
                     "[3, 9876543210]"));
}

const char* const kMqar =
    "task.name = \"mqar\"\ntask.vocabulary = 16\ntask.length = 12\ntask.pairs = 2\ntask.examples = 40\neval.sequences = 9\n";

// Every option of the optimizer against plain loops; rates and decays differ within the pack.
TEST(PlainLoop, OptimizersSchedulesAndClipping) {
  for (
      const char* lines :
      {"train.optimizer = \"adamw\"\ntrain.weight_decay = 0.3", "train.beta1 = 0.7\ntrain.beta2 = 0.9",
       "train.clip_norm = 0.05", "train.warmup_steps = 7", "train.schedule = \"cosine\"",
       "train.schedule = \"cosine\"\ntrain.least_rate = 0.2", "train.warmup_share = 0.28",
       "train.schedule = \"one_cycle\"\ntrain.warmup_share = 0.4", "train.schedule = \"linear\"",
       "train.schedule = \"linear\"\ntrain.least_rate = 0.2\ntrain.warmup_steps = 7",
       "train.schedule = \"wsd\"\ntrain.decay_share = 0.4\ntrain.warmup_steps = 7",
       "train.optimizer = \"adamw\"\ntrain.weight_decay = 0.3\ntrain.no_decay = \"query_projection.bias,key_embedding\"",
       "train.schedule = \"cosine\"\ntrain.warmup_steps = 7\ntrain.clip_norm = 0.1\n"
       "train.optimizer = \"adamw\"\ntrain.weight_decay = 0.1"}) {
    SCOPED_TRACE(lines);
    const auto runs =
        exact_runs(std::string("train.max_steps = 25\neval.every = 10\ntrain.learning_rate = 0.03\n") + lines,
                   "name = \"linear_attention\"", "[1, 2]");
    ASSERT_NO_FATAL_FAILURE(compare(runs));
    const auto plain = exact_runs("train.max_steps = 25\neval.every = 10\ntrain.learning_rate = 0.03",
                                  "name = \"linear_attention\"", "[1, 2]");
    EXPECT_NE(train_one(runs).eval_loss, train_one(plain).eval_loss) << "the option does nothing";
  }
}

// Muon for the weights of linear maps: rates of both, decay, clipping, one cycle; the convolution, the embedding and the
// gate's numbers stay with AdamW.
TEST(PlainLoop, MuonTrainsTheMatrices) {
  const auto muon_runs = [](const std::string& lines) {
    return token_runs_of(
        "task.name = \"mqar\"\ntask.vocabulary = 16\ntask.length = 12\ntask.pairs = 2\n"
        "task.examples = 40\neval.sequences = 9\ntrain.precision = \"fp64\"\ntrain.batch = 4\n"
        "train.stop_loss = 0\nmodel.layers = 2\nmodel.mlp = \"gelu\"\n"
        "model.short_conv = \"k\"\nmodel.bias = true\ntrain.max_steps = 25\neval.every = 10\n" +
            lines,
        "name = \"gated_delta\"", "[1, 2]", "\"train.muon_rate\" = [0.02, 0.005]");
  };
  const std::string muon = "train.optimizer = \"muon\"\n";
  std::set<double> losses;
  for (const std::string& lines :
       {muon, muon + "train.weight_decay = 0.3", muon + "train.clip_norm = 0.05\ntrain.muon_momentum = 0.5",
        muon + "train.schedule = \"one_cycle\"\ntrain.warmup_share = 0.4",
        muon + "train.schedule = \"one_cycle\"\ntrain.warmup_share = 0.4\ntrain.muon_low_momentum = 0.5"}) {
    SCOPED_TRACE(lines);
    const auto runs = muon_runs(lines);
    ASSERT_EQ(runs.size(), 4u);
    // Five steps of Newton and Schulz multiply a rounding by up to 3.4^5.
    ASSERT_NO_FATAL_FAILURE(compare(runs, 1, 5e-10));
    losses.insert(train_one(runs).eval_loss);
    EXPECT_TRUE(identical_records(train(runs, 4, 1), train(runs, 1, 2)));
  }
  EXPECT_EQ(losses.size(), 5u) << "an option does nothing";
}

/// Groups of train.no_decay are the parameters that they name; what the source of Gated DeltaNet marks are A_log and dt_bias.
TEST(NoDecay, GroupsAreTheirParameters) {
  const auto loss = [](const std::string& words, const std::string& optimizer = "adamw") {
    const auto runs = token_runs_of(
        kMqar +
            std::string(
                "train.precision = \"fp64\"\ntrain.batch = 4\ntrain.stop_loss = 0\nmodel.layers = 2\nmodel.mlp = \"gelu\"\n"
                "model.layer = \"published\"\ntrain.max_steps = 5\neval.every = 5\ntrain.weight_decay = 3\ntrain.learning_rate = 0.03\n"
                "train.optimizer = \"") +
            optimizer + "\"\ntrain.no_decay = \"" + words + "\"",
        "name = \"gated_delta\"");
    return train_one(runs).eval_loss;
  };
  std::set<double> losses;
  for (const auto& [group, names] :
       {std::pair{"none", "none"},
        {"marked", "A_log, decay.bias"},
        {"norms", "norm.gain, norm.bias, mlp_norm.gain, mlp_norm.bias, out_norm.gain"},
        {"biases", "bias"},
        {"marked, norms", "memory.A_log, decay.bias, norms"}}) {
    SCOPED_TRACE(group);
    losses.insert(loss(group));
    EXPECT_EQ(loss(group), loss(names));
    EXPECT_EQ(loss(group, "muon"), loss(names, "muon"));
  }
  EXPECT_EQ(losses.size(), 5u) << "a group does nothing";
}

TEST(NoDecay, IsRefusedWhereItNamesNothing) {
  const auto wrong = [](const std::string& lines, const std::string& memory = "softmax") {
    return crosstalk::testing::refusal_of<ConfigError>(
        [&] { token_runs_of(std::string(kMqar) + lines, "name = \"" + memory + "\""); });
  };
  const std::string decay = "train.optimizer = \"adamw\"\ntrain.weight_decay = 0.1\n";
  EXPECT_NE(wrong("train.no_decay = \"biases\"").find("no effect without train.weight_decay"),
            std::string::npos);
  EXPECT_NE(wrong(decay + "train.no_decay = \"A_log\"").find("no parameter of this model is called A_log"),
            std::string::npos);
  EXPECT_NE(wrong(decay + "train.no_decay = \"marked\"").find("marks a parameter"), std::string::npos);
  EXPECT_EQ(wrong(decay + "train.no_decay = \"marked\"", "gated_delta"), "");
  EXPECT_NE(wrong("train.optimizer = \"muon\"\ntrain.weight_decay = 0.1\ntrain.no_decay = \"key.weight\"")
                .find("Muon trains"),
            std::string::npos);
}

TEST(PlainLoop, MuonWantsMatricesAndItsOptionsWantMuon) {
  const auto wrong = [](const std::string& lines) {
    return crosstalk::testing::refusal_of<ConfigError>([&] { exact_runs(lines, "name = \"softmax\""); });
  };
  EXPECT_NE(wrong("train.optimizer = \"muon\"").find("weights of linear maps"), std::string::npos);
  EXPECT_NE(wrong("train.muon_rate = 0.1").find("belongs to train.optimizer = \"muon\""), std::string::npos);
}

const char* const kMixture =
    "task.name = \"mqar\"\ntask.vocabulary = 16\ntask.segments = \"8:1:18 12:2:12 12:3:8\"\n"
    "task.test_segments = \"8:2 16:3:6\"\neval.sequences = 9\ntrain.precision = \"fp64\"\n"
    "train.batch = 4\ntrain.stop_loss = 0";

// A language model on a mixture by the protocol of Zoology: epochs, their schedule, evaluation by epoch.
TEST(PlainLoop, MixturesByTheEpoch) {
  for (const char* memory : {"softmax", "delta"}) {
    const auto runs =
        token_runs_of(std::string(kMixture) +
                          "\ntrain.optimizer = \"adamw\"\ntrain.weight_decay = 0.1\n"
                          "model.embed_dropout = 0.1\nmodel.layers = 2\nmodel.stack = \"base_conv memory\"\n"
                          "train.schedule = \"cosine_epoch\"\ntrain.epochs = 3\neval.every = 0\n"
                          "train.learning_rate = 0.01",
                      fmt::format("name = \"{}\"", memory), "[1, 2]");
    const Options& config = runs[0].config;
    EXPECT_EQ(config.get_int("train.max_steps"), 30);
    EXPECT_EQ(config.get_int("eval.every"), 10);
    ASSERT_NO_FATAL_FAILURE(compare(runs, 10));
    EXPECT_TRUE(identical_records(train(runs, 2), train(runs, 1)));
  }
}

TEST(PlainLoop, EpochsWantAnEndOfSequences) {
  for (const auto& [lines, key] : {std::pair{"train.epochs = 3", "train.epochs"},
                                   {"eval.every = 0", "eval.every"},
                                   {"train.schedule = \"cosine_epoch\"", "train.schedule"}}) {
    try {
      exact_runs(lines, "name = \"softmax\"");
      ADD_FAILURE() << lines << " was taken";
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find(key), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("no epochs"), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(exact_runs("train.weight_decay = 0.1", "name = \"softmax\""), ConfigError);
  EXPECT_THROW(
      token_runs_of(std::string(kMixture) + "\neval.protocol = \"schlag2021\"", "name = \"softmax\""),
      ConfigError);
}

RateSchedule schedule(const std::string& lines) {
  return schedule_of(exact_runs(lines, "name = \"softmax\"")[0].config, 0);
}

// Rates as torch.optim.lr_scheduler's formulas give them, computed apart from this code.
TEST(Schedule, IsThatOfPyTorch) {
  // CosineAnnealingLR(T_max = 10) from 0.1: get_last_lr() at each update
  const double cosine[] = {
      0.1,  0.09755282581475769, 0.09045084971874738, 0.07938926261462366,  0.06545084971874737,
      0.05, 0.03454915028125263, 0.02061073738537635, 0.009549150281252633, 0.0024471741852423235};
  const RateSchedule by_step = schedule("train.max_steps = 10\ntrain.schedule = \"cosine\"");
  for (int t = 1; t <= 10; ++t) EXPECT_NEAR(0.1 * by_step.factor(t), cosine[t - 1], 1e-16) << t;
  // stepped once an epoch of 3 steps; the last epoch is cut short
  RateSchedule by_epoch = schedule("train.max_steps = 29");
  EXPECT_EQ(by_epoch.factor(1), 1);
  EXPECT_EQ(by_epoch.factor(1000), 1);
  Options config = exact_runs("train.max_steps = 29", "name = \"softmax\"")[0].config;
  config.set("train.schedule", std::string("cosine_epoch"));
  by_epoch = schedule_of(config, 3);
  for (int t = 1; t <= 29; ++t) EXPECT_NEAR(0.1 * by_epoch.factor(t), cosine[(t - 1) / 3], 1e-16) << t;
  // LinearLR from 1/4 over the first 4 updates, then the cosine over the other 10
  const RateSchedule warm =
      schedule("train.max_steps = 14\ntrain.warmup_steps = 4\ntrain.schedule = \"cosine\"");
  for (int t = 1; t <= 14; ++t)
    EXPECT_NEAR(0.1 * warm.factor(t), t <= 4 ? 0.025 * t : cosine[t - 5], 1e-16) << t;
  // CosineAnnealingLR(eta_min = 0.025): the same curve between 0.1 and that, and no lower after it
  const RateSchedule least =
      schedule("train.max_steps = 10\ntrain.least_rate = 0.25\ntrain.schedule = \"cosine\"");
  for (int t = 1; t <= 10; ++t) EXPECT_NEAR(0.1 * least.factor(t), 0.025 + 0.75 * cosine[t - 1], 1e-16) << t;
  EXPECT_EQ(least.factor(12), 0.25);
}

// torch.optim.lr_scheduler.OneCycleLR(max_lr = 1, total_steps = 11, pct_start = 5 / 11): from 1/25 to 1 in
// steps 1 to 5, to 4e-6 in step 11, half way between at steps 3 and 8.
TEST(Schedule, OneCycleIsPyTorchs) {
  const RateSchedule cycle =
      schedule("train.max_steps = 11\ntrain.warmup_steps = 5\ntrain.schedule = \"one_cycle\"");
  const std::vector<std::pair<int, double>> known = {
      {1, 0.04}, {2, 0.04 + 0.96 * 0.14644660940672624},      {3, 0.52},
      {5, 1},    {6, 4e-6 + (1 - 4e-6) * 0.9330127018922194}, {8, (1 + 4e-6) / 2},
      {11, 4e-6}};
  for (const auto& [t, rate] : known) EXPECT_NEAR(cycle.factor(t), rate, 1e-15) << t;
  EXPECT_NEAR(cycle.factor(20), 4e-6, 1e-15);
}

// A share is no option of its own in a run: by steps it is the same run.
TEST(Schedule, AShareOfTheStepsIsTheRunBySteps) {
  const auto id = [](const std::string& lines) {
    return exact_runs("train.max_steps = 60\n" + lines, "name = \"softmax\"")[0].id;
  };
  EXPECT_EQ(id("train.warmup_share = 0.1"), id("train.warmup_steps = 6"));
  EXPECT_NE(id("train.warmup_share = 0.1"), id(""));
}

// Rounded products change the curve, by little, and still learn.
TEST(Precision, RoundedProductsTrain) {
  const auto last_loss = [](const std::string& precision) {
    const auto runs = runs_of("train.precision = \"" + precision +
                                  "\"\ntrain.max_steps = 1000\neval.every = 100\ntrain.learning_rate = 1e-2\n"
                                  "model.d_key = 16\ntrain.batch = 16",
                              "name = \"softmax\"");
    const Records records = train(runs);
    const Record& record = records.at(runs[0].id);
    EXPECT_EQ(record.status, RunStatus::done);
    return curve(record, "eval_loss").y.back();
  };
  const double full = last_loss("fp32"), bf16 = last_loss("bf16"), tf32 = last_loss("tf32");
  EXPECT_NE(bf16, full);
  EXPECT_NE(tf32, full);
  for (double loss : {full, bf16, tf32}) EXPECT_LT(loss, 1e-3);  // guessing gives 0.375
  EXPECT_LT(std::abs(bf16 - full), 0.1 * full);
  EXPECT_LT(std::abs(tf32 - full), 0.02 * full);
}

TEST(PlainLoop, TasksWithUnusedSlotsAndSwaps) {
  const std::string memory = "name = \"delta\"\nfeature_map = \"identity\"\nkey_norm = \"l2\"\nbeta_max = 2";
  compare(exact_runs("task.name = \"reassign\"\ntrain.max_steps = 20\neval.every = 10\ntask.queries = 2",
                     memory));
  compare(
      exact_runs("task.name = \"swap\"\ntrain.max_steps = 20\neval.every = 10\ntask.operations = 6", memory));
}

// 5 queries in chunks of train.batch = 2: the last chunk of one query weighs as much as two.
TEST(PlainLoop, Schlag2021AveragesUnequalChunksOfFreshSequences) {
  const auto runs = exact_runs(
      "eval.protocol = \"schlag2021\"\ntask.associations = 5\ntrain.batch = 2\n"
      "train.max_steps = 12\neval.every = 4",
      "name = \"softmax\"");
  ASSERT_NO_FATAL_FAILURE(compare(runs));
  EXPECT_EQ(runs[0].config.get_int("eval.sequences"), 20);
  compare(
      exact_runs("eval.protocol = \"schlag2021\"\ntask.name = \"reassign\"\ntask.associations = 7\n"
                 "train.batch = 3\ntrain.max_steps = 8\neval.every = 4",
                 "name = \"delta\""));
}

// 210 keys, of which the protocol asks 200: 6 chunks of 32 and one of 8.
TEST(PlainLoop, Schlag2021AsksAtMost200Queries) {
  compare(
      exact_runs("eval.protocol = \"schlag2021\"\ntask.associations = 210\ntrain.batch = 32\n"
                 "train.max_steps = 2\neval.every = 1\nmodel.embedding = 8",
                 "name = \"linear_attention\""));
}

TEST(StopRules, SolvedAtOnce) {
  const auto runs =
      exact_runs("train.stop_loss = 1e6\ntrain.max_steps = 1000\neval.every = 7", "name = \"softmax\"");
  const Record record = train_one(runs);
  EXPECT_EQ(record.status, RunStatus::done);
  EXPECT_EQ(record.steps, 7);
  ASSERT_NO_FATAL_FAILURE(compare(runs));
}

TEST(StopRules, SolvedByAccuracy) {
  const auto runs = exact_runs(
      "train.stop_loss = 0\ntrain.stop_accuracy = 0.95\ntrain.max_steps = 400\neval.every = 10\n"
      "train.learning_rate = 0.002\ntrain.patience = 1000",
      "name = \"softmax\"");
  const Record record = train_one(runs);
  EXPECT_GE(record.eval_accuracy, 0.95);
  EXPECT_LT(record.steps, 400);
  EXPECT_GT(record.steps, 10);
  ASSERT_NO_FATAL_FAILURE(compare(runs));
}

TEST(StopRules, NeverSolvedWithStopLossZero) {
  EXPECT_EQ(
      train_one(exact_runs("train.stop_loss = 0\ntrain.max_steps = 20\neval.every = 5", "name = \"softmax\""))
          .steps,
      20);
}

// The released code stops after 11 evaluations in a row without gain. A learning rate so small that
// parameters do not move leaves the loss where it is: the first evaluation is the best, 11 more follow.
TEST(StopRules, PatienceTenStopsAfterElevenEvaluationsWithoutGain) {
  for (const std::int64_t patience : {0, 1, 10}) {
    const auto runs =
        exact_runs(fmt::format("train.patience = {}\ntrain.learning_rate = 1e-30\neval.every = 2\n"
                               "train.max_steps = 1000\ntrain.stop_loss = 0",
                               patience),
                   "name = \"linear_attention\"");
    const Record record = train_one(runs);
    EXPECT_EQ(curve(record, "eval_loss").x.size(), static_cast<std::size_t>(patience + 2));
    EXPECT_EQ(record.steps, 2 * (patience + 2));
    EXPECT_EQ(record.status, RunStatus::done);
  }
}

TEST(StopRules, GainsRestorePatience) {
  const auto runs = exact_runs(
      "train.patience = 1\ntrain.learning_rate = 0.02\neval.every = 1\n"
      "train.max_steps = 300\ntrain.stop_loss = 0",
      "name = \"linear_attention\"", "[1, 2, 3]");
  ASSERT_NO_FATAL_FAILURE(compare(runs));
  const Records records = train(runs);
  bool reset = false;  // some run had a strike, gained again, and went on
  for (const auto& [id, record] : records) {
    const auto& y = curve(record, "eval_loss").y;
    for (std::size_t i = 2; i < y.size(); ++i) reset = reset || (y[i - 1] > y[i - 2] && y[i] < y[i - 2]);
  }
  EXPECT_TRUE(reset);
}

TEST(StopRules, StepLimitBetweenEvaluations) {
  const Record record = train_one(
      exact_runs("train.max_steps = 25\neval.every = 10\ntrain.stop_loss = 0", "name = \"softmax\""));
  EXPECT_EQ(record.steps, 25);
  EXPECT_EQ(curve(record, "eval_loss").x, (std::vector<double>{10, 20, 25}));
}

TEST(StopRules, NoStepsAtAll) {
  const auto runs = exact_runs("train.max_steps = 0\neval.every = 10", "name = \"softmax\"", "[1, 2, 3]");
  for (const int pack : {1, 2}) {
    for (const auto& [id, record] : train(runs, pack)) {
      EXPECT_EQ(record.status, RunStatus::done);
      EXPECT_EQ(record.steps, 0);
      EXPECT_TRUE(std::isfinite(record.eval_loss));
      EXPECT_EQ(curve(record, "eval_loss").x, std::vector<double>{0});
    }
  }
}

const char* const kExploding =
    "name = \"delta\"\nfeature_map = \"identity\"\nkey_norm = \"none\"\nbeta_max = 2";

TEST(Divergence, IsRecordedAtTheFirstLossThatIsNotFinite) {
  const auto runs = exact_runs(
      "train.learning_rate = 10\ntask.associations = 150\ntrain.max_steps = 100\n"
      "eval.every = 50\nmodel.embedding = 5",
      kExploding, "[1, 2]");
  ASSERT_NO_FATAL_FAILURE(compare(runs));
  for (const auto& [id, record] : train(runs)) {
    EXPECT_EQ(record.status, RunStatus::diverged);
    EXPECT_GT(record.steps, 0);
    EXPECT_LT(record.steps, 50);
    EXPECT_TRUE(std::isnan(record.eval_loss));
  }
}

TEST(Divergence, LeavesPackMatesAlone) {
  const std::string base =
      "task.associations = 30\ntrain.max_steps = 40\neval.every = 20\nmodel.embedding = 5\n"
      "train.stop_loss = 0";
  const auto runs = runs_of(base, kExploding, "[1, 2, 3]", "\"train.learning_rate\" = [1e-4, 10.0]");
  ASSERT_EQ(runs.size(), 6u);
  const Records alone = train(runs, 1);
  int diverged = 0, done = 0;
  for (const auto& [id, record] : alone) {
    diverged += record.status == RunStatus::diverged;
    done += record.status == RunStatus::done;
  }
  EXPECT_EQ(diverged, 3);
  EXPECT_EQ(done, 3);
  for (const int pack : {2, 4, 6}) EXPECT_TRUE(identical_records(train(runs, pack), alone)) << pack;
}

TEST(Divergence, ALargeFiniteLossIsAResult) {
  const Record record = train_one(
      runs_of("train.learning_rate = 10\ntrain.max_steps = 20\neval.every = 10\ntrain.stop_loss = 0",
              "name = \"linear_attention\"\nread_norm = \"none\"\nfeature_map = \"relu\""));
  EXPECT_EQ(record.status, RunStatus::done);
  EXPECT_EQ(record.steps, 20);
  EXPECT_GT(curve(record, "train_loss").y[0], 100);
}

// Shares by brute force: of all used queries, and of sequences right in all of them.
TEST(Profiles, ByLengthAreThoseOfABruteForceRead) {
  const auto runs = exact_runs(
      "task.name = \"reassign\"\ntrain.max_steps = 60\neval.every = 30\neval.length_factors = \"1 2 5\"\n"
      "train.learning_rate = 0.02\neval.sequences = 9",
      "name = \"delta\"");
  const Record record = train_one(runs);
  PlainTrainer plain(runs[0]);
  plain.train();
  ASSERT_EQ(record.profiles.at("loss_by_length").x, (std::vector<double>{1, 2, 5}));
  int factor_index = 0;
  for (const int factor : {1, 2, 5}) {
    double loss = 0, right = 0;
    std::set<int> wrong;
    const auto queries = plain.test(factor);
    for (const PlainQuery& q : queries) {
      loss += q.loss;
      right += q.right;
      if (!q.right) wrong.insert(q.sequence);
    }
    const auto n = static_cast<double>(queries.size());
    const auto i = static_cast<std::size_t>(factor_index++);
    EXPECT_NEAR(record.profiles.at("loss_by_length").y[i], loss / n, 1e-12);
    EXPECT_NEAR(record.profiles.at("accuracy_by_length").y[i], right / n, 1e-12);
    EXPECT_NEAR(record.profiles.at("exact_by_length").y[i], 1 - static_cast<double>(wrong.size()) / 9, 1e-12);
  }
}

// Buckets of the test split by what the task says of each query, counted out.
TEST(Profiles, OfTokenTasksAreThoseOfABruteForceRead) {
  const auto runs = token_runs_of(
      "task.name = \"mqar\"\ntask.vocabulary = 16\ntask.length = 16\ntask.pairs = 3\ntask.power = 1\n"
      "train.precision = \"fp64\"\ntrain.batch = 4\ntrain.max_steps = 60\neval.every = 30\ntrain.learning_rate = 0.02\n"
      "eval.sequences = 40\neval.length_factors = \"1 2\"",
      "name = \"softmax\"");
  const Record record = train_one(runs);
  PlainTrainer plain(runs[0]);
  plain.train();
  const auto expect_share = [&](const char* name, std::size_t point, const auto& counts) {
    double right = 0, all = 0;
    for (const PlainQuery& q : plain.test(1)) {
      if (!counts(q)) continue;
      right += q.right;
      all += 1;
    }
    ASSERT_GT(all, 0) << name;
    EXPECT_NEAR(record.profiles.at(name).y[point], right / all, 1e-12) << name << ", point " << point;
  };
  const Series& position = record.profiles.at("accuracy_by_position");
  EXPECT_EQ(position.x, (std::vector<double>{7, 9, 11, 13, 15}));
  for (std::size_t i = 0; i < position.x.size(); ++i) {
    expect_share("accuracy_by_position", i, [&](const PlainQuery& q) { return q.position == position.x[i]; });
    std::set<int> wrong;
    for (const PlainQuery& q : plain.test(1))
      if (q.position <= position.x[i] && !q.right) wrong.insert(q.sequence);
    EXPECT_NEAR(record.profiles.at("exact_by_position").y[i], 1 - static_cast<double>(wrong.size()) / 40,
                1e-12);
  }
  const Series& gap = record.profiles.at("accuracy_by_gap");
  for (std::size_t i = 0; i < gap.x.size(); ++i)
    expect_share("accuracy_by_gap", i,
                 [&](const PlainQuery& q) { return q.gap >= gap.x[i] && q.gap < 2 * gap.x[i]; });
  EXPECT_EQ(record.profiles.count("accuracy_by_writes"), 0u) << "every key is written once";
  const double chance = record.metrics.at("chance_accuracy");
  const Series& scaled = record.profiles.at("scaled_accuracy_by_length");
  ASSERT_EQ(scaled.x, (std::vector<double>{1, 2}));
  EXPECT_EQ(scaled.y[0], record.metrics.at("scaled_accuracy_last_quarter"));
  for (const int factor : {1, 2}) {
    double right = 0, all = 0;
    for (const PlainQuery& q : plain.test(factor)) {
      if (q.position <= 12 * factor) continue;
      right += q.right;
      all += 1;
    }
    EXPECT_NEAR(scaled.y[static_cast<std::size_t>(factor - 1)], (right / all - chance) / (1 - chance), 1e-12);
  }
}

TEST(Profiles, PrefixesAreThoseOfABruteForceRead) {
  const auto runs = token_runs_of(
      "task.name = \"words\"\ntask.group = \"Z2\"\ntask.length = 8\ntask.start = true\ntrain.precision = \"fp64\"\n"
      "train.batch = 4\ntrain.max_steps = 60\neval.every = 30\ntrain.learning_rate = 0.02\neval.sequences = 40\n"
      "eval.length_factors = \"1 2\"\neval.prefixes = \"2 3 8 13\"",
      "name = \"deltanet\"\nbeta_max = 2");
  const Record record = train_one(runs);
  PlainTrainer plain(runs[0]);
  plain.train();
  const Series& exact = record.profiles.at("exact_by_length");
  ASSERT_EQ(exact.x, (std::vector<double>{2 / 8.0, 3 / 8.0, 1, 13 / 8.0, 2}));
  for (std::size_t i = 0; i < exact.x.size(); ++i) {
    std::set<int> wrong;  // a start token stands in front of the first answer
    for (const PlainQuery& q : plain.test(i == 2 ? 1 : 2))
      if (q.position <= 8 * exact.x[i] + 1 && !q.right) wrong.insert(q.sequence);
    EXPECT_NEAR(exact.y[i], 1 - static_cast<double>(wrong.size()) / 40, 1e-12) << exact.x[i];
  }
  EXPECT_GT(exact.y[0], exact.y[4]) << "nothing to tell apart";
  EXPECT_EQ(record.profiles.at("accuracy_by_length").x, (std::vector<double>{1, 2}));
}

TEST(Profiles, ByOperationsAreThoseOfABruteForceRead) {
  for (const std::string factors : {"", "1 3"}) {
    const auto runs = exact_runs(
        "task.name = \"swap\"\ntask.operations = 5\ntrain.max_steps = 60\neval.every = 30\n"
        "train.learning_rate = 0.02\neval.sequences = 9\neval.length_factors = \"" +
            factors + "\"",
        "name = \"delta\"\nfeature_map = \"identity\"\nkey_norm = \"l2\"\nbeta_max = 2");
    const Record record = train_one(runs);
    PlainTrainer plain(runs[0]);
    plain.train();
    const auto queries = plain.test(factors.empty() ? 1 : 3);
    std::set<int> counts;
    for (const PlainQuery& q : queries) counts.insert(q.operations);
    const Series &accuracy = record.profiles.at("accuracy_by_operations"),
                 &exact = record.profiles.at("exact_by_operations");
    ASSERT_EQ(accuracy.x, std::vector<double>(counts.begin(), counts.end()));
    std::size_t i = 0;
    for (const int count : counts) {
      double right = 0, n = 0;
      std::set<int> wrong;
      for (const PlainQuery& q : queries) {
        if (q.operations == count) right += q.right, n += 1;
        if (q.operations <= count && !q.right) wrong.insert(q.sequence);
      }
      EXPECT_NEAR(accuracy.y[i], right / n, 1e-12) << count;
      EXPECT_NEAR(exact.y[i], 1 - static_cast<double>(wrong.size()) / 9, 1e-12) << count;
      ++i;
    }
  }
}

}  // namespace
}  // namespace crosstalk::checks

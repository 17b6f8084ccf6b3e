// Mixtures and curricula against the plain loop, in packs of any size, stopped and resumed.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <memory>
#include <set>

#include "experiments/training/pack.h"
#include "experiments/training/state/run_state.h"
#include "experiments/training/testing/plain_trainer.h"
#include "experiments/training/testing/training_fixture.h"

namespace crosstalk::checks {
namespace {

/// recall with 7 keys, as a mixture of loads or as a curriculum of them.
class MixedTask : public Task {
 public:
  explicit MixedTask(std::unique_ptr<Task> task) : task_(std::move(task)) {}
  static std::shared_ptr<const Task> load(Options config, std::int64_t associations) {
    config.set("task.associations", associations);
    config.set("task.queries", associations);
    return registered_task(config);
  }

  Vocabulary vocabulary() const override { return task_->vocabulary(); }
  SequenceShape shape(Split split, int most) const override { return task_->shape(split, most); }
  void sequence(std::uint64_t seed, Split split, std::uint64_t n, const SequenceView& out,
                std::int32_t* scratch) const override {
    task_->sequence(seed, split, n, out, scratch);
  }
  int scratch_size() const override { return task_->scratch_size(); }
  std::vector<TaskSegment> segments(Split split) const override {
    return split == Split::train ? train : eval;
  }
  std::vector<TaskSegment> stages() const override { return levels; }
  std::int32_t reference_answer(const SequenceView& s, std::int32_t key, int position) const override {
    return task_->reference_answer(s, key, position);
  }
  std::map<std::string, double> baselines() const override { return task_->baselines(); }
  std::string to_text(const SequenceView& s) const override { return task_->to_text(s); }
  std::unique_ptr<Task> lengthened(int factor) const override { return task_->lengthened(factor); }
  int eval_load() const override { return task_->eval_load(); }

  std::vector<TaskSegment> train, eval, levels;

 private:
  std::unique_ptr<Task> task_;
};

/// 5 + 3 + 2 steps an epoch at a batch of 4; three kinds of evaluation sequences.
std::unique_ptr<Task> mixture(const Options& config) {
  auto task = std::make_unique<MixedTask>(registered_task(config));
  const auto load = [&](std::int64_t n) { return MixedTask::load(config, n); };
  task->train = {{"2", load(2), 18}, {"4", load(4), 12}, {"2 again", load(2), 8}};
  task->eval = {{"2", load(2), 5}, {"4", load(4), 0}, {"7", load(7), 3}};
  return task;
}

std::unique_ptr<Task> curriculum(const Options& config) {
  auto task = std::make_unique<MixedTask>(registered_task(config));
  for (const std::int64_t n : {1, 3, 7})
    task->levels.push_back({std::to_string(n), MixedTask::load(config, n), 0});
  return task;
}

std::vector<Run> mixed_runs(const std::string& lines, const std::string& seeds = "[1, 2, 3, 4, 5]") {
  return runs_of(
      "task.associations = 7\ntask.keys = 7\ntask.values = 7\ntask.queries = 7\ntrain.precision = \"fp64\"\n"
      "train.stop_loss = 0\nmodel.d_key = 8\n" +
          lines,
      "name = \"softmax\"", seeds);
}

struct Trained {
  Records records;
  std::map<std::string, std::string> states;
  bool done = true;
};

Trained train_mixed(const std::vector<Run>& runs, const TaskMaker& make_task, int slots,
                    const std::map<std::string, std::string>& states = {}, int reports = 1 << 30) {
  std::vector<PackRun> pack;
  for (const Run& run : runs) {
    const auto state = states.find(run.id);
    pack.push_back({run, state == states.end() ? "" : state->second});
  }
  Keeper keeper;
  keeper.states = states;
  keeper.on_progress = [&](std::int64_t) { keeper.stop = --reports <= 0; };
  const bool done = train_pack("test", pack, {slots}, keeper, make_task);
  return {std::move(keeper.records), std::move(keeper.states), done};
}

/// Stops after `reports` evaluations, over and over, until all have ended. Runs that stand at different places go on in
/// packs of their own, as the scheduler sorts them.
Records train_in_pieces(const std::vector<Run>& runs, const TaskMaker& make_task, int slots, int reports) {
  Records records;
  std::map<std::string, std::string> states;
  for (int round = 0; round < 1000 && records.size() < runs.size(); ++round) {
    std::vector<Run> left;
    for (const Run& run : runs) {
      if (records.count(run.id)) continue;
      left.push_back(run);
      if (states.count(run.id)) {
        EXPECT_EQ(misfit(run_state(states[run.id]), run), "");
      }
    }
    Trained trained = train_mixed(left, make_task, slots, states, reports);
    records.merge(trained.records);
    states = trained.states;
  }
  return records;
}

void compare_with_plain(const std::vector<Run>& runs, const TaskMaker& make_task, const Records& records) {
  for (const Run& run : runs) {
    SCOPED_TRACE(run.seed);
    const Record& record = records.at(run.id);
    PlainTrainer plain(run, make_task);
    plain.train();
    ASSERT_EQ(record.steps, plain.steps);
    ASSERT_EQ(record.curves.at("eval_loss").x.size(), plain.evaluations.size());
    for (std::size_t i = 0; i < plain.evaluations.size(); ++i) {
      const PlainEvaluation& want = plain.evaluations[i];
      EXPECT_EQ(record.curves.at("eval_loss").x[i], static_cast<double>(want.step));
      EXPECT_NEAR(record.curves.at("eval_loss").y[i], want.loss, 1e-11);
      EXPECT_NEAR(record.curves.at("eval_accuracy").y[i], want.accuracy, 1e-12);
      EXPECT_NEAR(record.curves.at("eval_exact").y[i], want.exact, 1e-12);
      EXPECT_NEAR(record.curves.at("train_loss").y[i], want.train_loss, 1e-11);
    }
    if (const auto stages = record.profiles.find("steps_by_stage"); stages != record.profiles.end()) {
      ASSERT_EQ(stages->second.x.size(), plain.promotions.size() + 1);
      std::int64_t begin = 0;
      for (std::size_t i = 0; i < plain.promotions.size(); ++i) {
        EXPECT_EQ(stages->second.y[i], static_cast<double>(plain.promotions[i] - begin));
        begin = plain.promotions[i];
      }
      EXPECT_EQ(stages->second.y.back(), static_cast<double>(plain.steps - begin));
    }
  }
}

// Runs that end at different times, whose neighbours stand at other places of an epoch.
TEST(Mixture, TrainsAsThePlainLoopInPacksOfAnySize) {
  for (const char* schedule :
       {"train.max_steps = 60\neval.every = 10", "train.max_steps = 60\neval.every = 4",
        "train.max_steps = 47\neval.every = 10"}) {
    SCOPED_TRACE(schedule);
    const auto runs =
        mixed_runs(std::string(schedule) + "\ntrain.learning_rate = 0.003\ntrain.stop_accuracy = 0.85");
    const Records alone = train_mixed(runs, mixture, 1).records;
    ASSERT_NO_FATAL_FAILURE(compare_with_plain(runs, mixture, alone));
    std::set<std::int64_t> lengths;
    for (const auto& [id, record] : alone) lengths.insert(record.steps);
    EXPECT_GT(lengths.size(), 1u) << "all runs end together: nothing is tested";
    for (const int slots : {2, 5})
      EXPECT_TRUE(identical_records(train_mixed(runs, mixture, slots).records, alone)) << slots;
  }
}

TEST(Mixture, GoesOnBitForBit) {
  const auto runs = mixed_runs(
      "train.max_steps = 60\neval.every = 4\ntrain.learning_rate = 0.003\ntrain.stop_accuracy = 0.85\n"
      "train.optimizer = \"adamw\"\ntrain.weight_decay = 0.01\ntrain.schedule = \"cosine\"\n"
      "train.clip_norm = 0.5\ntrain.warmup_steps = 9");
  const Records alone = train_mixed(runs, mixture, 1).records;
  EXPECT_TRUE(identical_records(train_in_pieces(runs, mixture, 1, 1), alone));
  EXPECT_TRUE(identical_records(train_in_pieces(runs, mixture, 3, 2), alone));
}

// The mean over all sequences is that of the segments, each counted by its sequences.
TEST(Mixture, RecordsItsSegments) {
  const auto runs = mixed_runs("train.max_steps = 60\neval.every = 30\ntrain.learning_rate = 0.03", "[1]");
  const Record record = train_mixed(runs, mixture, 1).records.at(runs[0].id);
  const Series& accuracy = record.profiles.at("accuracy_by_segment");
  ASSERT_EQ(accuracy.x, (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(record.metrics.at("test_accuracy_2"), accuracy.y[0]);
  EXPECT_EQ(record.metrics.at("test_accuracy_7"), accuracy.y[2]);
  const double n[] = {5, 5, 3};  // eval.sequences = 5 where a segment does not say
  double mean = 0;
  for (std::size_t i = 0; i < 3; ++i) mean += accuracy.y[i] * n[i] / 13;
  EXPECT_NEAR(record.metrics.at("test_accuracy"), mean, 1e-14);
}

const char* const kCurriculum =
    "train.max_steps = 400\neval.every = 10\ntrain.learning_rate = 0.002\n"
    "train.stop_accuracy = 0.9\ntrain.patience = 15";

/// The schema knows no stages of a task made by a test: their options are set after it.
std::vector<Run> staged_runs(const std::string& lines, const std::map<std::string, OptionValue>& set,
                             const std::string& seeds = "[1, 2, 3, 4, 5]") {
  std::vector<Run> runs = mixed_runs(lines, seeds);
  for (Run& run : runs)
    for (const auto& [key, value] : set) run.config.set(key, value);
  return runs;
}
std::vector<Run> promoted_runs(const std::string& seeds = "[1, 2, 3, 4, 5]") {
  return staged_runs(kCurriculum, {{"train.promote_accuracy", 0.8}}, seeds);
}

// A promoted replica goes on with the same numbers: one model trained by a plain loop that changes its task.
TEST(Curriculum, TrainsAsThePlainLoopInPacksOfAnySize) {
  const auto runs = promoted_runs();
  const Records alone = train_mixed(runs, curriculum, 1).records;
  ASSERT_NO_FATAL_FAILURE(compare_with_plain(runs, curriculum, alone));
  std::set<double> second_stages;
  std::size_t most = 0;
  for (const auto& [id, record] : alone) {
    const Series& stages = record.profiles.at("steps_by_stage");
    if (stages.y.size() > 1) second_stages.insert(stages.y[1]);
    most = std::max(most, stages.x.size());
  }
  EXPECT_EQ(most, 3u) << "nobody comes to the last stage";
  EXPECT_GT(second_stages.size(), 1u) << "all are promoted together: nothing is tested";
  for (const int slots : {2, 5})
    EXPECT_TRUE(identical_records(train_mixed(runs, curriculum, slots).records, alone)) << slots;
}

TEST(Curriculum, GoesOnBitForBit) {
  const auto runs = promoted_runs();
  const Records alone = train_mixed(runs, curriculum, 1).records;
  EXPECT_TRUE(identical_records(train_in_pieces(runs, curriculum, 1, 1), alone));
  EXPECT_TRUE(identical_records(train_in_pieces(runs, curriculum, 3, 3), alone));
}

// Runs that end before the last stage are evaluated on the whole task.
TEST(Curriculum, RunsThatStayBehindAreEvaluatedOnTheWholeTask) {
  const auto runs =
      staged_runs("train.max_steps = 20\neval.every = 10", {{"train.promote_accuracy", 1.0}}, "[1, 2]");
  for (const auto& [id, record] : train_mixed(runs, curriculum, 2).records) {
    const Series& stages = record.profiles.at("steps_by_stage");
    ASSERT_LT(stages.x.size(), 3u);
    EXPECT_NE(record.eval_loss, record.curves.at("eval_loss").y.back());
    const Record whole = train_one(mixed_runs("train.max_steps = 0", "[1]"));
    EXPECT_NEAR(record.eval_loss, whole.eval_loss, 0.2)
        << "7 associations after 20 steps on 1: as a new model";
  }
}

std::vector<Run> scheduled_runs(const std::string& lines, double rate) {
  return staged_runs(lines, {{"train.promote", std::string("schedule")}, {"train.learning_rate", rate}});
}

// Runs that learn nothing see every stage for its share; patience ends none before the last.
TEST(Curriculum, AScheduleShowsEveryStageToRunsThatStick) {
  for (const auto& [steps, shares] : {std::pair{90, std::vector<double>{30, 30, 30}}, {100, {40, 30, 30}}}) {
    const auto runs =
        scheduled_runs(fmt::format("train.max_steps = {}\neval.every = 10\ntrain.patience = 2", steps), 0);
    const Records alone = train_mixed(runs, curriculum, 1).records;
    ASSERT_NO_FATAL_FAILURE(compare_with_plain(runs, curriculum, alone));
    for (const auto& [id, record] : alone) {
      EXPECT_EQ(record.profiles.at("steps_by_stage").y, shares);
      EXPECT_EQ(record.metrics.at("stage"), 3);
      EXPECT_EQ(record.steps, steps);
    }
    EXPECT_TRUE(identical_records(train_mixed(runs, curriculum, 5).records, alone));
  }
}

TEST(Curriculum, AScheduleGoesOnBitForBit) {
  const auto runs = scheduled_runs(
      "train.max_steps = 90\neval.every = 10\ntrain.schedule = \"one_cycle\"\ntrain.warmup_share = 0.2",
      0.002);
  const Records alone = train_mixed(runs, curriculum, 1).records;
  ASSERT_NO_FATAL_FAILURE(compare_with_plain(runs, curriculum, alone));
  EXPECT_TRUE(identical_records(train_in_pieces(runs, curriculum, 3, 2), alone));
}

TEST(Curriculum, PromotionsThatCannotBeAreRefused) {
  const auto runs = promoted_runs("[1]");
  const Trained stopped = train_mixed(runs, curriculum, 1, {}, 3);
  ASSERT_FALSE(stopped.done);
  const RunState good = run_state(stopped.states.at(runs[0].id));
  ASSERT_FALSE(good.promotions.empty());
  EXPECT_EQ(misfit(good, runs[0]), "");
  for (const std::vector<std::int64_t>& wrong :
       {std::vector<std::int64_t>{}, {0}, {-10}, {15}, {good.steps + 10}, {20, 20}, {30, 20}}) {
    RunState state = good;
    state.promotions = wrong;
    EXPECT_NE(misfit(state, runs[0]), "") << fmt::format("{}", fmt::join(wrong, " "));
  }
}

}  // namespace
}  // namespace crosstalk::checks

// Sums of evaluations and training steps, against plain means.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/evaluation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "experiments/training/length_factors.h"
#include "experiments/training/profiles.h"
#include "kernels/base/buffer.h"
#include "kernels/base/error.h"
#include "kernels/base/random.h"
#include "kernels/optimizer/book_keeping.h"

namespace crosstalk::checks {
namespace {

// Random losses; about every third slot is not used, slot 0 always is.
QueryResults random_results(std::uint64_t seed, int sequences, int Q) {
  RandomStream random(seed, RandomDomain::task_eval, 0);
  QueryResults results;
  results.sequences = sequences;
  results.Q = Q;
  for (int i = 0; i < sequences * Q; ++i) {
    const bool used = i % Q == 0 || random.below(3) > 0;
    results.correct.push_back(used ? static_cast<std::int32_t>(random.below(5) > 0) : -1);
    results.loss.push_back(used ? static_cast<float>(random.uniform()) : 0);
  }
  return results;
}

// Of one batch: class 3 is right once of twice, class 5 always, class 7, answered and never due, counts 0: as torchmetrics'
// MulticlassAccuracy(num_classes=8)([3, 7, 5, 5], [3, 3, 5, 5]) = (1/2 + 1 + 0) / 3. Slots that are not used do not count.
TEST(Evaluation, AccuracyIsAveragedOverClassesDueOrAnswered) {
  const std::vector<std::int32_t> target = {3, 3, 6, 5, 5, 6};
  const QueryResults results{2, 3, {}, {1, 0, -1, 1, 1, -1}, {}, {3, 7, 0, 5, 5, 0}};
  EXPECT_DOUBLE_EQ(class_accuracy(results, target), (0.5 + 1) / 3);
  QueryResults without = results;
  without.answer.clear();
  EXPECT_TRUE(std::isnan(class_accuracy(without, target)));
}

// 200 sequences are a batch of 128 and one of 72: a class answered in the second alone does not count in the first.
TEST(Evaluation, ClassesAreCountedInBatchesOf128Sequences) {
  QueryResults results{200, 1, {}, std::vector<std::int32_t>(200, 1), {}, std::vector<std::int32_t>(200, 4)};
  const std::vector<std::int32_t> target(200, 4);
  EXPECT_DOUBLE_EQ(class_accuracy(results, target), 1);
  results.correct[150] = 0;
  results.answer[150] = 9;
  EXPECT_DOUBLE_EQ(class_accuracy(results, target), (128 + 72 * (71.0 / 72) / 2) / 200);
  results.answer[150] = 4;  // right but for rounding: no class is added
  EXPECT_DOUBLE_EQ(class_accuracy(results, target), (128 + 72 * (71.0 / 72)) / 200);
}

// MulticlassAccuracy(num_classes=8) of each batch, by hand: in the first class 1 is always right, class 2 half of the time, and 3,
// answered in place of it and not due, is a class of accuracy 0; classes neither due nor answered are none. In the second 3 is due.
TEST(Evaluation, AClassThatIsAnsweredAndNotDueIsAnEmptyOne) {
  QueryResults results{129, 1, {}, std::vector<std::int32_t>(129, 1), {}, std::vector<std::int32_t>(129, 1)};
  std::vector<std::int32_t> target(129, 1);
  for (std::size_t i = 64; i < 128; ++i)
    target[i] = 2, results.answer[i] = i < 96 ? 2 : 3, results.correct[i] = i < 96;
  target[128] = results.answer[128] = 3;
  EXPECT_DOUBLE_EQ(class_accuracy(results, target), (128 * (1 + 0.5 + 0) / 3 + 1) / 129);
}

// One sequence of four queries after these tokens.
QueryFacts facts_at(const std::vector<std::int32_t>& position) {
  return {position, std::vector<std::int32_t>(4 * meta_count), std::vector<std::int32_t>(4)};
}

// Of 8 tokens the last quarter begins behind the sixth.
TEST(Evaluation, TheLastQuarterHasItsOwnAccuracy) {
  const QueryResults results{1, 4, {}, {0, 0, 1, -1}};
  EXPECT_DOUBLE_EQ(scaled_accuracy_last_quarter(results, facts_at({5, 6, 7, 8}), 8, 0.5), 1);
}

// A profile has 256 points at most: of 512 tokens two stand together, at the later one.
TEST(Evaluation, PositionsOfLongSequencesStandTogether) {
  Record record;
  add_token_profiles(record, {{1, 4, {}, {1, 0, 1, 1}}}, {facts_at({1, 2, 3, 512})});
  EXPECT_EQ(record.profiles.at("accuracy_by_position").x, (std::vector<double>{2, 4, 512}));
  EXPECT_EQ(record.profiles.at("accuracy_by_position").y, (std::vector<double>{0.5, 1, 1}));
}

struct Means {
  double loss = 0, accuracy = 0, exact = 0;
};

// chunk 0: all queries alike.
Means plain_means(const QueryResults& results, int chunk) {
  double total = 0, weight = 0, right = 0, queries = 0, exact = 0;
  for (int s = 0; s < results.sequences; ++s) {
    std::vector<double> used;
    bool all = true;
    for (int i = 0; i < results.Q; ++i) {
      const auto at = static_cast<std::size_t>(s * results.Q + i);
      if (results.correct[at] < 0) continue;
      used.push_back(results.loss[at]);
      right += results.correct[at];
      all = all && results.correct[at] == 1;
    }
    queries += static_cast<double>(used.size());
    exact += all;
    const std::size_t size = chunk > 0 ? static_cast<std::size_t>(chunk) : 1;
    for (std::size_t begin = 0; begin < used.size(); begin += size) {
      const std::size_t end = std::min(used.size(), begin + size);
      double sum = 0;
      for (std::size_t i = begin; i < end; ++i) sum += used[i];
      total += sum / static_cast<double>(end - begin);
      weight += 1;
    }
  }
  return {total / weight, right / queries, exact / results.sequences};
}

// Runs CountEvaluation over batches of B sequences, as the trainer does; replica 1 of 2 holds the results.
Means counted_means(const QueryResults& results, int B, int chunk) {
  Arena arena(Device::cpu);
  CountEvaluation<float> args;
  args.chunk = chunk;
  args.query_loss = shaped<float>(2, {B, results.Q});
  args.correct = shaped<std::int32_t>(2, {B, results.Q});
  args.evaluations = shaped<std::int32_t>(2, {1});
  args.workspace = shaped<double>(2, {B, 5});
  args.report = shaped<double>(2, {kReportSize});
  arena.reserve(&args.query_loss);
  arena.reserve(&args.correct);
  arena.reserve(&args.evaluations);
  arena.reserve(&args.workspace);
  arena.reserve(&args.report);
  arena.allocate();
  for (int r = 0; r < 2; ++r) args.evaluations.at(r)[0] = 7;
  for (int i = 0; i < kReportSize; ++i) args.report.at(1)[i] = 1000 + i;  // of an earlier evaluation
  const int one[] = {1};
  Exec exec;
  exec.replicas = one;
  exec.replica_count = 1;
  for (int done = 0; done < results.sequences; done += B) {
    args.sequences = std::min(B, results.sequences - done);
    args.first = done == 0;
    args.last = done + B >= results.sequences;
    for (int i = 0; i < B * results.Q; ++i) {  // what lies beyond the last sequence must not count
      const auto at = static_cast<std::size_t>(done * results.Q + i);
      const bool inside = at < results.loss.size();
      args.query_loss.at(1)[i] = inside ? static_cast<float>(results.loss[at]) : 1e30f;
      args.correct.at(1)[i] = inside ? results.correct[at] : 1;
    }
    run(exec, args);
  }
  arena.check_guards();
  EXPECT_EQ(args.evaluations.at(1)[0], 8);
  EXPECT_EQ(args.evaluations.at(0)[0], 7);
  const double* report = args.report.at(1);
  for (const Report field : {report_train_loss, report_train_steps, report_diverged_step})
    EXPECT_EQ(report[field], 1000 + field) << "training's sums are not the evaluation's";
  return {report[report_loss_sum] / report[report_loss_weight], report[report_right] / report[report_queries],
          report[report_exact] / results.sequences};
}

TEST(CountEvaluation, IsThePlainMean) {
  for (const int Q : {1, 5, 100}) {
    for (const int chunk : {0, 1, 2, 3, 32, 200}) {
      for (const int B : {1, 3, 7, 20}) {
        const QueryResults results = random_results(static_cast<std::uint64_t>(Q * 1000 + chunk), 20, Q);
        const Means want = plain_means(results, chunk), got = counted_means(results, B, chunk);
        EXPECT_NEAR(got.loss, want.loss, 1e-13)
            << Q << " queries, chunks of " << chunk << ", batches of " << B;
        EXPECT_NEAR(got.accuracy, want.accuracy, 1e-15);
        EXPECT_NEAR(got.exact, want.exact, 1e-15);
        if (chunk == 0) {
          const EvalSummary summary = summarise(results);
          EXPECT_NEAR(summary.loss, want.loss, 1e-13);
          EXPECT_NEAR(summary.accuracy, want.accuracy, 1e-15);
          EXPECT_NEAR(summary.exact, want.exact, 1e-15);
        }
      }
    }
  }
}

// tasks with 100 queries in chunks of 32: the last four carry a quarter of the loss.
TEST(CountEvaluation, LastFourOfHundredWeighAQuarter) {
  QueryResults results;
  results.sequences = 1;
  results.Q = 100;
  results.loss.assign(100, 0);
  results.correct.assign(100, 1);
  for (std::size_t i = 96; i < 100; ++i) results.loss[i] = 1;
  EXPECT_DOUBLE_EQ(counted_means(results, 1, 32).loss, 0.25);
  EXPECT_DOUBLE_EQ(counted_means(results, 1, 0).loss, 0.04);
}

// Losses 1, 2, 3 ... with one that is not finite.
TEST(CountStep, SumsLossesAndKeepsTheFirstThatIsNotFinite) {
  for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
    Arena arena(Device::cpu);
    CountStep<float> args;
    args.period = 4;
    args.loss = shaped<float>(1, {1});
    args.step = shaped<std::int32_t>(1, {1});
    args.report = shaped<double>(1, {kReportSize});
    arena.reserve(&args.loss);
    arena.reserve(&args.step);
    arena.reserve(&args.report);
    arena.allocate();
    args.step.at(0)[0] = 0;
    std::fill(args.report.at(0), args.report.at(0) + kReportSize, 0.);
    const double* report = args.report.at(0);
    for (int step = 1; step <= 6; ++step) {
      args.loss.at(0)[0] = static_cast<float>(step);
      run(Exec{}, args);
      EXPECT_EQ(args.step.at(0)[0], step);
      EXPECT_EQ(report[report_train_steps], step <= 4 ? step : step - 4);
      EXPECT_EQ(report[report_train_loss], step <= 4 ? step * (step + 1) / 2 : (step == 5 ? 5 : 11));
      EXPECT_EQ(report[report_diverged_step], 0);
    }
    for (int step = 7; step <= 9; ++step) {
      args.loss.at(0)[0] = step == 7 || step == 9 ? bad : 1.f;
      run(Exec{}, args);
      EXPECT_EQ(report[report_diverged_step], 7);
    }
  }
}

// Norms 1, 2, 3 ... of the steps, each in two parts.
void check_norms(int period, int steps, const std::vector<int>& looks) {
  Arena arena(Device::cpu);
  CountStep<double> args;
  args.period = period;
  args.loss = shaped<double>(1, {1});
  args.step = shaped<std::int32_t>(1, {1});
  args.report = shaped<double>(1, {report_size(period)});
  args.squares = shaped<double>(1, {2});
  arena.reserve(&args.loss);
  arena.reserve(&args.step);
  arena.reserve(&args.report);
  arena.reserve(&args.squares);
  arena.allocate();
  args.loss.at(0)[0] = 0, args.step.at(0)[0] = 0;
  double* report = args.report.at(0);
  std::fill(report, report + args.report.size(), 0.);
  const int stride = norm_stride(period);
  for (int step = 1; step <= steps; ++step) {
    run(Exec{}, args);
    args.squares.at(0)[0] = 0.25 * step * step, args.squares.at(0)[1] = 0.75 * step * step;
    const bool looks_here = std::find(looks.begin(), looks.end(), step) != looks.end();
    if (step % period != 0 && step != steps && !looks_here) continue;
    for (int again = 0; again < 2; ++again)  // it is taken once
      run(Exec{}, TakeNorm<double>{period, args.squares, args.step, args.report});
    const int first = (step - 1) / period * period + 1;
    ASSERT_EQ(report[report_norms], step - first + 1);
    EXPECT_DOUBLE_EQ(report[report_largest_norm], step);
    for (int at = first; at <= step; at += stride)
      EXPECT_DOUBLE_EQ(report[kReportSize + (at - first) / stride], at) << "step " << step;
  }
}

TEST(CountStep, KeepsTheNormOfEveryStepOrOfSome) {
  check_norms(4, 10, {});
  check_norms(4, 11, {2, 7, 9});  // training pauses there
  check_norms(1, 5, {});
  check_norms(kMostNorms, 2 * kMostNorms + 1, {});
  check_norms(kMostNorms + 1, 2 * kMostNorms + 5, {});
  check_norms(3 * kMostNorms, 3 * kMostNorms + 7, {});
  EXPECT_EQ(norm_slots(kMostNorms + 1), kMostNorms / 2 + 1);
}

TEST(CountStep, ANormThatIsNoneStays) {
  std::vector<double> report(static_cast<std::size_t>(report_size(4)), 0);
  int step = 0;
  for (const double square : {1., std::nan(""), 4.}) take_norm(report.data(), 4, ++step, square);
  EXPECT_TRUE(std::isnan(report[report_largest_norm]));
}

TEST(ByKey, IsTheBruteForceCount) {
  const QueryResults results = random_results(3, 12, 9);
  RandomStream random(4, RandomDomain::task_eval, 1);
  std::vector<std::int32_t> operations;  // neither sorted nor all different within a sequence
  for (std::size_t i = 0; i < results.loss.size(); ++i)
    operations.push_back(static_cast<std::int32_t>(random.below(6)));
  const KeyProfile profile = by_key(results, operations);
  ASSERT_EQ(profile.accuracy.x, (std::vector<double>{0, 1, 2, 3, 4, 5}));
  ASSERT_EQ(profile.exact.x, profile.accuracy.x);
  for (int n = 0; n < 6; ++n) {
    double right = 0, queries = 0, exact = 0;
    for (int s = 0; s < 12; ++s) {
      bool all = true;
      for (int i = 0; i < 9; ++i) {
        const auto at = static_cast<std::size_t>(s * 9 + i);
        if (results.correct[at] < 0) continue;
        if (operations[at] == n) right += results.correct[at], queries += 1;
        if (operations[at] <= n) all = all && results.correct[at] == 1;
      }
      exact += all;
    }
    EXPECT_NEAR(profile.accuracy.y[static_cast<std::size_t>(n)], right / queries, 1e-15);
    EXPECT_NEAR(profile.exact.y[static_cast<std::size_t>(n)], exact / 12, 1e-15);
  }
}

TEST(LengthFactors, AreGrowingWholeNumbers) {
  EXPECT_EQ(length_factors(""), std::vector<int>{});
  EXPECT_EQ(length_factors("1 2  8"), (std::vector<int>{1, 2, 8}));
  for (const char* wrong : {"0", "-1", "2 1", "2 2", "1.5", "1,2", "x", "99999999999"}) {
    try {
      length_factors(wrong);
      ADD_FAILURE() << "accepts " << wrong;
    } catch (const OptionError& error) {
      EXPECT_EQ(error.key, "eval.length_factors");
    }
  }
}

}  // namespace
}  // namespace crosstalk::checks

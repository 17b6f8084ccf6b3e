// Theory lines against constructed optima: for sequences of the real generators, the best matrix of a rank
// (singular values) and the best answer of a memory that is blind to order stand on the lines, and no other
// matrix of the rank is below them.
// SPDX-License-Identifier: Apache-2.0
#include "results/numbers/theory.h"

#include <gtest/gtest.h>

#include <Eigen/SVD>
#include <cmath>
#include <random>
#include <tuple>

#include "kernels/optimizer/book_keeping.h"
#include "tasks/sequence_buffer.h"
#include "tasks/testing.h"

namespace crosstalk {
namespace {

using Eigen::MatrixXd;
using testing::Settings;
using testing::whole;

const MemoryFacts kFacts = {{"linear_attention", "delta"}, {"linear_attention", "softmax"}};

struct Case {
  const char* task;
  Settings settings;
  bool schlag;
  std::int64_t d_dot;
  int batch = 32;
};

std::string protocol_of(const Case& c) { return c.schlag ? "schlag2021" : "uniform"; }

Record record_of(const Case& c, const std::string& memory) {
  Record record;
  const TaskKind* kind = find_task(c.task);
  const Options options = testing::resolved_options(*kind, c.settings);
  record.config = {{"task.name", c.task},
                   {"memory.name", memory},
                   {"model.name", "retrieval"},
                   {"train.batch", c.batch},
                   {"eval.protocol", protocol_of(c)}};
  for (const auto& [key, value] : options.values())
    std::visit([&, &name = key](const auto& v) { record.config[name] = v; }, value);
  record.d_dot = c.d_dot;
  return record;
}

/// The loss that a protocol reports for answers [values, Q] to each of many evaluation sequences.
template <class Answer>
double reported_loss(const Case& c, int sequences, const Answer& answer) {
  const auto task = testing::make_task(c.task, c.settings);
  SequenceBuffer buffer(*task, Split::eval, c.schlag ? schlag_max_queries : 0, false);
  const int values = task->vocabulary().values;
  double loss = 0, weight = 0;
  for (int n = 0; n < sequences; ++n) {
    const SequenceView sequence = buffer.draw(3, static_cast<std::uint64_t>(n));
    const int Q = sequence.shape.Q;
    std::vector<double> losses(static_cast<std::size_t>(Q), 0);
    std::vector<std::int32_t> correct(static_cast<std::size_t>(Q), -1);
    int asked = 0;
    while (asked < Q && sequence.target[asked] >= 0) ++asked;
    MatrixXd target = MatrixXd::Zero(values, asked);
    for (int q = 0; q < asked; ++q) target(sequence.target[q], q) = 1;
    const MatrixXd answers = answer(sequence, target);
    for (int q = 0; q < asked; ++q) {
      losses[static_cast<std::size_t>(q)] = 0.5 * (answers.col(q) - target.col(q)).squaredNorm();
      correct[static_cast<std::size_t>(q)] = 0;
    }
    double sums[report_exact + 1] = {};
    count_sequence(losses.data(), correct.data(), Q, c.schlag ? c.batch : 0, false, sums);
    loss += sums[report_loss_sum];
    weight += sums[report_loss_weight];
  }
  return loss / weight;
}

/// How much each query counts in one sequence, read off the book-keeping itself.
Eigen::VectorXd weights_of(const Case& c, int Q, int asked) {
  Eigen::VectorXd weights(asked);
  for (int q = 0; q < asked; ++q) {
    std::vector<double> losses(static_cast<std::size_t>(Q), 0);
    std::vector<std::int32_t> correct(static_cast<std::size_t>(Q), -1);
    std::fill_n(correct.begin(), asked, 0);
    losses[static_cast<std::size_t>(q)] = 1;
    double sums[report_exact + 1] = {};
    count_sequence(losses.data(), correct.data(), Q, c.schlag ? c.batch : 0, false, sums);
    weights[q] = sums[report_loss_sum];
  }
  return weights;
}

/// The best answers of rank d: the targets, weighted by what counts, cut off after d singular values.
MatrixXd best_of_rank(const Case& c, int Q, const MatrixXd& target) {
  const Eigen::VectorXd root = weights_of(c, Q, static_cast<int>(target.cols())).cwiseSqrt();
  const MatrixXd weighted = target * root.asDiagonal();
  const Eigen::BDCSVD<MatrixXd> svd(weighted, Eigen::ComputeThinU | Eigen::ComputeThinV);
  const auto d = std::min<Eigen::Index>(c.d_dot, svd.singularValues().size());
  const MatrixXd cut = svd.matrixU().leftCols(d) * svd.singularValues().head(d).asDiagonal() *
                       svd.matrixV().leftCols(d).transpose();
  return cut * root.cwiseInverse().asDiagonal();
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"recall", {{"associations", whole(30)}}, false, 12},
      {"recall", {{"associations", whole(30)}, {"keys", whole(50)}, {"values", whole(40)}}, false, 12},
      {"recall", {{"associations", whole(30)}}, true, 12, 8},  // chunks of 8, 8, 8, 6
      {"recall", {{"associations", whole(220)}}, true, 100},   // 200 of 220 asked, chunks of 32 and 8
      {"reassign", {{"associations", whole(30)}}, false, 8},   // distinct keys; values coincide
      {"reassign", {{"associations", whole(30)}, {"values", whole(60)}}, true, 8, 8},
      {"reassign", {{"associations", whole(20)}, {"eval_length", whole(40)}}, true, 6},
      {"reassign", {{"associations", whole(20)}, {"update_fraction", 0.25}}, false, 6},
  };
  return all;
}

TEST(Theory, TheBestMatrixOfARankStandsOnTheRankBound) {
  for (const Case& c : cases()) {
    const Record record = record_of(c, "delta");
    const auto bound = rank_bound(record, kFacts);
    ASSERT_TRUE(bound.has_value());
    const double best = reported_loss(
        c, c.schlag && c.d_dot > 50 ? 3 : 3000,
        [&](const SequenceView& s, const MatrixXd& target) { return best_of_rank(c, s.shape.Q, target); });
    // recall: exact. reassign: both sides are means over sequences.
    const bool exact = std::string(c.task) == "recall";
    EXPECT_TRUE(std::abs(best - *bound) <= (exact ? 1e-9 : 0.002))
        << record.config.object().dump() << ": " << best << " against " << *bound;
    // No other matrix of the rank does better: the optimum of queries that count alike, say, or a random one.
    Case other = c;
    other.schlag = false;
    std::mt19937 random(1);
    const double worse =
        reported_loss(c, exact ? 3 : 1000, [&](const SequenceView& s, const MatrixXd& target) {
          MatrixXd answers = best_of_rank(other, s.shape.Q, target);
          for (Eigen::Index q = 0; q < answers.cols(); ++q)
            answers.col(q) *= 0.9 + 0.2 * static_cast<double>(random()) / 4294967296.0;  // keeps the rank
          return answers;
        });
    EXPECT_GT(worse, *bound - (exact ? 0 : 0.002)) << record.config.object().dump();
  }
}

TEST(Theory, TheMeanOfTheWritesStandsOnTheSumRuleFloor) {
  for (const Case& c : cases()) {
    const Record record = record_of(c, "softmax");
    const auto floor = sum_rule_floor(record, kFacts);
    if (std::string(c.task) == "recall") {
      EXPECT_FALSE(floor.has_value());
      continue;
    }
    ASSERT_TRUE(floor.has_value());
    const double mean = reported_loss(c, 4000, [&](const SequenceView& s, const MatrixXd& target) {
      MatrixXd answers = MatrixXd::Zero(target.rows(), target.cols());
      for (int q = 0; q < target.cols(); ++q) {
        double writes = 0;
        for (int t = 0; t < s.shape.T; ++t) {
          const std::int32_t* token = s.tokens + t * s.shape.C;
          if (token[channel_key] != s.query[q]) continue;
          answers(token[channel_value], q) += 1;
          writes += 1;
        }
        answers.col(q) /= writes;
      }
      return answers;
    });
    EXPECT_TRUE(std::abs(mean - *floor) <= 0.0025)
        << record.config.object().dump() << ": " << mean << " against " << *floor;
  }
}

/// The task's own number for the uniform protocol is the same floor.
TEST(Theory, AgreesWithTheBaselinesOfTheTask) {
  for (const Case& c : cases()) {
    if (c.schlag || std::string(c.task) != "reassign") continue;
    const auto numbers = testing::make_task(c.task, c.settings)->baselines();
    EXPECT_EQ(*sum_rule_floor(record_of(c, "linear_attention"), kFacts), numbers.at("sum_rule_floor_exact"));
  }
}

/// Against the binomial distribution by its logarithms, far out too.
TEST(Theory, TheMeanInverseOfTheWritesIsThatOfTheBinomialDistribution) {
  for (const auto& [S, length] : {std::pair{2, 1}, {2, 4000}, {3, 5}, {20, 20}, {600, 1200}, {5000, 3}}) {
    double sum = 0, weight = 0;
    for (int m = 1; m <= length; ++m) {
      const double p =
          std::exp(std::lgamma(length + 1.0) - std::lgamma(m + 1.0) - std::lgamma(length - m + 1.0) -
                   m * std::log(S) + (length - m) * std::log1p(-1.0 / S));
      sum += p / m;
      weight += p;
    }
    const Case c = {"reassign",
                    {{"associations", whole(S)}, {"eval_length", whole(length)}, {"update_fraction", -1.0}},
                    false,
                    8};
    EXPECT_NEAR(*sum_rule_floor(record_of(c, "softmax"), kFacts), 0.5 * (1 - sum / weight) * (1 - 1.0 / S),
                1e-11);
  }
}

TEST(Theory, SaysNothingWhereItIsNoTheorem) {
  const Case recall = {"recall", {{"associations", whole(30)}}, false, 12};
  EXPECT_TRUE(rank_bound(record_of(recall, "linear_attention"), kFacts).has_value());
  EXPECT_FALSE(rank_bound(record_of(recall, "softmax"), kFacts).has_value());
  EXPECT_FALSE(rank_bound(record_of(recall, "a_memory_of_tomorrow"), kFacts).has_value());
  Case swap = {"swap", {}, false, 12};
  EXPECT_FALSE(rank_bound(record_of(swap, "delta"), kFacts).has_value());
  EXPECT_FALSE(sum_rule_floor(record_of(swap, "softmax"), kFacts).has_value());
  const Case reassign = {"reassign", {{"associations", whole(30)}}, false, 12};
  EXPECT_FALSE(sum_rule_floor(record_of(reassign, "delta"), kFacts).has_value());
  Record other = record_of(recall, "delta");
  other.config["model.name"] = "language";
  EXPECT_FALSE(rank_bound(other, kFacts).has_value());
  // A gate is another factor for every query, LayerNorm's bias a dimension more; RMSNorm is neither.
  for (const auto& [key, part, bounded] : {std::tuple{"model.out_gate", "silu", false},
                                           {"model.out_act", "silu", false},
                                           {"model.out_norm", "layer", false},
                                           {"model.out_norm", "group", false},
                                           {"model.out_norm", "rms", true}}) {
    other = record_of(recall, "delta");
    other.config[key] = part;
    EXPECT_EQ(rank_bound(other, kFacts).has_value(), bounded) << part;
  }
  // Keys mixed with those before them tell the order.
  for (const char* key : {"model.short_conv", "model.token_shift", "model.input_conv"}) {
    other = record_of(reassign, "softmax");
    EXPECT_TRUE(sum_rule_floor(other, kFacts).has_value());
    other.config[key] = "k";
    EXPECT_FALSE(sum_rule_floor(other, kFacts).has_value()) << key;
  }
  other = record_of(recall, "delta");
  other.d_dot = 0;
  EXPECT_FALSE(rank_bound(other, kFacts).has_value());
}

// The numbers of somebody's store may be any: what no run can have has no bound, and costs neither memory nor time.
TEST(Theory, NumbersThatNoRunHasGetNoBound) {
  for (const char* task : {"recall", "reassign"}) {
    const Record good = record_of({task, {{"associations", whole(30)}}, true, 12}, "linear_attention");
    ASSERT_TRUE(rank_bound(good, kFacts).has_value());
    EXPECT_FALSE(rank_bound_at(good, 1e300, kFacts).has_value());
    EXPECT_FALSE(rank_bound_at(good, std::nan(""), kFacts).has_value());
    Record vast = good;
    vast.d_dot = std::int64_t{1} << 60;
    EXPECT_FALSE(rank_capacity(vast, 0.001, kFacts).has_value());
    for (const char* key : {"task.associations", "task.values", "train.batch"}) {
      for (const double number : {4e18, 1e300, -1.0, -4e18}) {
        Record record = good;
        record.config[key] = number;
        EXPECT_FALSE(rank_bound(record, kFacts).has_value()) << task << " " << key << " " << number;
        EXPECT_FALSE(sum_rule_floor(record, kFacts).has_value()) << task << " " << key << " " << number;
      }
    }
  }
  const Record good = record_of({"reassign", {{"associations", whole(30)}}, true, 12}, "linear_attention");
  Record record = good;
  record.config["task.eval_length"] = 4e18;
  EXPECT_FALSE(sum_rule_floor(record, kFacts).has_value());
  record = good;
  record.config["task.update_fraction"] = 1e300;
  EXPECT_FALSE(rank_bound(record, kFacts).has_value());
}

TEST(Theory, ValuesOfThePaper) {
  const auto bound = [](int S, std::int64_t d, bool schlag) {
    return *rank_bound(record_of({"recall", {{"associations", whole(S)}}, schlag, d}, "linear_attention"),
                       kFacts);
  };
  EXPECT_DOUBLE_EQ(bound(200, 64, false), 0.34);
  EXPECT_EQ(bound(64, 64, false), 0);
  // 100 queries are chunks of 32, 32, 32 and 4: the last four count as much as any 32.
  EXPECT_DOUBLE_EQ(bound(100, 64, true), 0.5 * 36 / 32 / 4);
  EXPECT_LT(bound(100, 64, true), 0.1715);  // the published loss, below 0.5 (1 - 64/100) = 0.18
  EXPECT_EQ(bound(600, 256, true), 0);      // only 200 are asked
}

TEST(Theory, CapacityOfTheRankBound) {
  const Record record = record_of({"recall", {{"associations", whole(30)}}, false, 12}, "delta");
  EXPECT_EQ(rank_capacity(record, 0, kFacts), 12);
  EXPECT_EQ(rank_capacity(record, 0.25, kFacts), 24);  // 0.5 (1 - 12/24)
  EXPECT_FALSE(
      rank_capacity(record_of({"recall", {{"associations", whole(30)}}, true, 256}, "delta"), 0.001, kFacts)
          .has_value());  // all 200 that are asked can be held
  // Distinct keys and values are fewer than S.
  EXPECT_GT(*rank_capacity(record_of({"reassign", {{"associations", whole(30)}}, false, 12}, "delta"), 0.001,
                           kFacts),
            15);
}

}  // namespace
}  // namespace crosstalk

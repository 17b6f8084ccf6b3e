// Models around examples of real numbers: reads, losses and gradients against sums written out.
// SPDX-License-Identifier: Apache-2.0
#include "models/examples.h"

#include <gtest/gtest.h>

#include "kernels/base/error.h"
#include "kernels/base/random.h"
#include "models/memory.h"
#include "models/model.h"

namespace crosstalk::checks::examples_test {

constexpr int n = 3, B = 2, T = 5, C = 2 * (n + 1);
constexpr Vocabulary kVocabulary = {.keys = 0, .values = 1, .second_key = false, .tokens = 0, .numbers = n};
using Changes = std::map<std::string, OptionValue>;

Options options_of(const std::string& memory, const Changes& changes) {
  const Memory& kind = memory_named(memory);
  Options options;
  options.set("memory.name", kind.name);
  fill_defaults(options, "memory", kind.options);
  fill_defaults(options, "model", model_options());
  for (const auto& [key, value] : changes) options.set(key, value);
  resolve_model(options, kVocabulary);
  kind.resolve(options);
  return options;
}
Options sum_rule(Changes changes) {
  changes.insert({{"memory.feature_map", "identity"}, {"memory.read_norm", "none"}});
  return options_of("linear_attention", changes);
}

/// A model with a batch of normal numbers.
struct Filled {
  explicit Filled(const Options& options, bool train = false, int queries = 4)
      : Q(queries), model(make_model<double>(options, kVocabulary, Device::cpu, 1)) {
    model->initialise(0, 3);
    graph = model->graph(B, {T, C, Q}, train);
    RandomStream random(1, RandomDomain::task_test, 2);
    for (int i = 0; i < B * T * C; ++i)
      graph->batch.tokens->at(0)[i] =
          static_cast<std::int32_t>(normal_from_uniform(random.uniform()) / kNumberUnit);
    for (int i = 0; i < B * Q; ++i) {
      graph->batch.query->at(0)[i] = i % Q;
      graph->batch.position->at(0)[i] = i % 2 == 0 ? T : 2;  // some see two examples only
      graph->batch.target->at(0)[i] = 0;
    }
    *graph->feature_seed->at(0) = 1;
    graph->graph.forward({});
  }
  double number(int b, int t, int c) const {
    return kNumberUnit * graph->batch.tokens->at(0)[(b * T + t) * C + c];
  }
  double x(int b, int t, int i) const { return number(b, t, i); }
  double y(int b, int t) const { return number(b, t, n); }
  double asked_x(int b, int q, int i) const { return number(b, q, n + 1 + i); }
  double asked_y(int b, int q) const { return number(b, q, 2 * n + 1); }
  double read(int b, int q) const { return graph->output->value.at(0)[b * Q + q]; }
  int seen(int b, int q) const { return graph->batch.position->at(0)[b * Q + q]; }
  double loss() const { return *graph->loss.loss->value.at(0); }
  Tensor<double> parameter(const std::string& name) const {
    auto& block = model->parameters();
    for (int i = 0; i < block.count(); ++i)
      if (block.name(i) == name) return block.value(i);
    throw std::out_of_range("no parameter " + name);
  }

  int Q;
  std::unique_ptr<Model<double>> model;
  std::unique_ptr<ModelGraph<double>> graph;
};

TEST(Examples, ProbeOfTheSumRuleAddsOutputsByTheLikenessOfInputs) {
  const Filled run(sum_rule({{"model.name", "probe"}}));
  const int Q = run.Q;
  double losses = 0;
  for (int b = 0; b < B; ++b)
    for (int q = 0; q < Q; ++q) {
      double want = 0;
      for (int t = 0; t < run.seen(b, q); ++t)
        for (int i = 0; i < n; ++i) want += run.y(b, t) * run.x(b, t, i) * run.asked_x(b, q, i) / n;
      EXPECT_NEAR(run.read(b, q), want, 1e-12 * (1 + std::abs(want)));
      const double error = want - run.asked_y(b, q);
      EXPECT_NEAR(run.graph->loss.query_loss->value.at(0)[b * Q + q], 0.5 * error * error,
                  1e-11 * (1 + error * error));
      EXPECT_EQ(run.graph->loss.correct->at(0)[b * Q + q], want * run.asked_y(b, q) > 0 ? 1 : 0);
      losses += 0.5 * error * error / (B * Q);
    }
  EXPECT_NEAR(run.loss(), losses, 1e-11 * (1 + losses));
}

TEST(Examples, ProbeOfTheDeltaRuleIsAPassOfGradientDescent) {
  const Filled run(options_of(
      "delta", {{"model.name", "probe"}, {"memory.feature_map", "identity"}, {"memory.key_norm", "none"}}));
  const int Q = run.Q;
  for (int b = 0; b < B; ++b)
    for (int q = 0; q < Q; ++q) {
      std::vector<double> w(n);
      for (int t = 0; t < run.seen(b, q); ++t) {
        double read = 0;
        for (int i = 0; i < n; ++i)
          read += w[static_cast<std::size_t>(i)] * run.x(b, t, i) / std::sqrt(double{n});
        for (int i = 0; i < n; ++i)
          w[static_cast<std::size_t>(i)] += (run.y(b, t) - read) * run.x(b, t, i) / std::sqrt(double{n});
      }
      double want = 0;
      for (int i = 0; i < n; ++i)
        want += w[static_cast<std::size_t>(i)] * run.asked_x(b, q, i) / std::sqrt(double{n});
      EXPECT_NEAR(run.read(b, q), want, 1e-11 * (1 + std::abs(want)));
    }
}

TEST(Examples, ProbeRecordsTheErrorThatOneGainWouldLeave) {
  const Filled run(sum_rule({{"model.name", "probe"}}));
  std::map<std::string, double> metrics = {{"test_loss", run.loss()}};
  const int Q = run.Q;
  double along = 0, power = 0, right = 0;
  for (int b = 0; b < B; ++b)
    for (int q = 0; q < Q; ++q) {
      along += run.read(b, q) * run.asked_y(b, q), power += run.read(b, q) * run.read(b, q);
      right += run.asked_y(b, q) * run.asked_y(b, q);
    }
  for (const auto& [name, metric] : run.graph->query_metrics)
    for (int i = 0; i < B * Q; ++i) metrics[name] += metric->value.at(0)[i] / (B * Q);
  run.model->derive(metrics);
  EXPECT_NEAR(metrics.at("squared_error"), 2 * run.loss(), 1e-12);
  EXPECT_NEAR(metrics.at("squared_error_of_best_gain"), (right - along * along / power) / (B * Q),
              1e-11 * right);
  EXPECT_EQ(metrics.count("read_squared"), 0u);
}

TEST(Examples, RetrievalProjectsInputAndOutputToKeysAndTheAskedInputToQueries) {
  const Filled run(sum_rule({{"model.d_key", 4}}));
  const Tensor<double> key = run.parameter("key_projection.example"),
                       key_bias = run.parameter("key_projection.bias"),
                       query = run.parameter("query_projection.key"),
                       query_bias = run.parameter("query_projection.bias");
  ASSERT_EQ(key.size(), 4 * (n + 1));
  const int Q = run.Q;
  for (int b = 0; b < B; ++b)
    for (int q = 0; q < Q; ++q) {
      double want = 0;
      for (int t = 0; t < run.seen(b, q); ++t)
        for (int d = 0; d < 4; ++d) {
          double k = key_bias.at(0)[d], asked = query_bias.at(0)[d];
          for (int i = 0; i <= n; ++i) k += key.at(0)[d * (n + 1) + i] * run.number(b, t, i);
          for (int i = 0; i < n; ++i) asked += query.at(0)[d * n + i] * run.asked_x(b, q, i);
          want += run.y(b, t) * k * asked;
        }
      EXPECT_NEAR(run.read(b, q), want, 1e-12 * (1 + std::abs(want)));
      EXPECT_EQ(run.graph->loss.correct->at(0)[b * Q + q], want * run.asked_y(b, q) > 0 ? 1 : 0);
    }
}

class EveryMemoryOfExamples : public ::testing::TestWithParam<std::string> {};
std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const Memory& memory : all_memories()) all.push_back(memory.name);
  return all;
}
INSTANTIATE_TEST_SUITE_P(Examples, EveryMemoryOfExamples, ::testing::ValuesIn(names()),
                         [](const auto& test) { return test.param; });

TEST_P(EveryMemoryOfExamples, GradientsAreThoseOfDifferences) {
  Changes changes = {{"model.d_key", 4}};
  if (GetParam() == "fwm") changes["memory.read_norm"] = "none";  // LayerNorm of one number is 0
  Options options;
  try {
    options = options_of(GetParam(), changes);
  } catch (const OptionError& error) {
    GTEST_SKIP() << error.what();
  }
  Filled run(options, true);
  run.graph->graph.backward({});
  auto& block = run.model->parameters();
  double largest = 0;
  std::vector<std::pair<double, double>> pairs;
  for (int p = 0; p < block.count(); ++p) {
    const Tensor<double> value = block.value(p), gradient = block.gradient(p);
    for (std::int64_t i = 0; i < value.size(); i += 1 + value.size() / 3) {
      double& x = value.at(0)[i];
      const double at = x, h = 1e-5;
      const auto loss_at = [&](double moved) {
        x = moved;
        run.graph->graph.forward({});
        return run.loss();
      };
      pairs.emplace_back(gradient.at(0)[i], (loss_at(at + h) - loss_at(at - h)) / (2 * h));
      x = at;
      largest = std::max(largest, std::abs(pairs.back().second));
    }
  }
  EXPECT_GT(largest, 0);
  for (const auto& [got, want] : pairs) EXPECT_NEAR(got, want, 1e-6 * std::max(1.0, largest));
}

TEST_P(EveryMemoryOfExamples, AProbeReadsNumbers) {
  Options options;
  try {
    options = options_of(GetParam(), {{"model.name", "probe"}});
  } catch (const OptionError& error) {
    GTEST_SKIP() << error.what();
  }
  std::unique_ptr<Filled> run;
  try {
    run = std::make_unique<Filled>(options, false, T);
  } catch (const OptionError& error) {
    GTEST_SKIP() << error.what();  // it needs projections
  }
  for (int i = 0; i < B * T; ++i) EXPECT_TRUE(std::isfinite(run->graph->output->value.at(0)[i]));
}

std::string refusal(const Changes& changes) {
  try {
    options_of("delta", changes);
  } catch (const OptionError& error) {
    return error.key + ": " + error.what();
  }
  return "";
}

TEST(Examples, WhatIsOfIdsIsRefused) {
  const auto mentions = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_EQ(refusal({}), "");
  EXPECT_TRUE(mentions(refusal({{"model.key_codes", "frozen"}}), "real numbers"));
  EXPECT_TRUE(mentions(refusal({{"model.embedding", 7}}), "leave it out"));
  EXPECT_TRUE(mentions(refusal({{"model.name", "language"}}), "examples of real numbers"));
  EXPECT_TRUE(mentions(refusal({{"model.name", "probe"}, {"model.d_key", 7}}), "3 numbers"));
  // Resolved options resolve again to themselves.
  for (const char* model : {"retrieval", "probe"}) {
    Options once = options_of("delta", {{"model.name", std::string(model)}}), twice = once;
    resolve_model(twice, kVocabulary);
    EXPECT_EQ(once, twice) << model;
  }
}

}  // namespace crosstalk::checks::examples_test

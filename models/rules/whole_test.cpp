// Laws in whole models: gradients, causality and rows of language models, packs, and probes.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "models/language_model.h"
#include "models/probe_model.h"
#include "models/rules/law_examples.h"
#include "models/rules/rule_memory.h"
#include "models/testing/differences.h"
#include "models/testing/language.h"
#include "models/testing/variants.h"

namespace crosstalk::rules {
namespace {

using namespace checks;

class RuleInLanguage : public ::testing::TestWithParam<Example> {
 protected:
  Options options(Settings settings = {}) const {
    settings.emplace_back("memory.law", GetParam().law);
    return language_options_of("rule", settings);
  }
};

TEST_P(RuleInLanguage, GradientOfEveryParameterIsThatOfTheLoss) {
  if (GetParam().name == "nonsense") GTEST_SKIP() << "steeper behind two layers than differences resolve";
  const Options two = options({{"model.heads", std::int64_t{2}}, {"model.layers", std::int64_t{2}}});
  for (const auto& [o, shape] : {std::pair{options(), language_shape()}, {two, language_shape(5, 2)}}) {
    ModelRun<double> run(o, shape, 2, true);
    for (int r = 0; r < 2; ++r) give_example(run, r, 60 + static_cast<std::uint64_t>(r), 0.5);
    ASSERT_NO_FATAL_FAILURE(expect_gradients(run, 2));
    run.graph->graph.check_guards();
  }
}

// The last layer computes rows at which an answer is due as it would compute all.
TEST_P(RuleInLanguage, RowsOfTheLastLayerAreThoseOfAll) {
  const Options o = options({{"model.layers", std::int64_t{2}}, {"model.heads", std::int64_t{2}}});
  ModelRun<double> some(o, language_shape(), 1, true), all(o, language_shape(), 1, true);
  dynamic_cast<LanguageModel<double>&>(all.model).compute_every_row();
  all.graph = all.model.graph(all.shape.B, all.shape.sequence, true);
  for (auto* run : {&some, &all}) {
    give_example(*run, 0, 31, 0.5);
    run->forward(), run->backward();
  }
  const Tensor<double> a = some.graph->loss.query_loss->value, b = all.graph->loss.query_loss->value;
  ASSERT_TRUE(close("losses", a.at(0), b.at(0), a.size(), 1e-12 * (1 + magnitude(b.at(0), b.size()))));
  auto &p = some.model.parameters(), &q = all.model.parameters();
  for (int i = 0; i < p.count(); ++i) {
    const Tensor<double> x = p.gradient(i), y = q.gradient(i);
    ASSERT_TRUE(close("gradient of " + p.name(i), x.at(0), y.at(0), x.size(),
                      1e-12 * std::max(1.0, magnitude(y.at(0), y.size()))));
  }
}

TEST_P(RuleInLanguage, IsCausal) {
  const ModelShape shape = language_shape(8, 8, 0, 1);
  ModelRun<double> run(options({{"model.layers", std::int64_t{2}}}), shape, 1, false);
  give_example(run, 0, 5, 0.5);
  HandBatch batch(1, shape.sequence);
  for (int t = 0; t < 8; ++t) {
    batch.write(0, t, {t % kTokens});
    batch.ask(0, t, t % kTokens, (t + 1) % kTokens, t + 1);
  }
  run.set_batch(0, batch);
  run.forward();
  const Tensor<double> losses = run.graph->loss.query_loss->value;
  const std::vector<double> before(losses.at(0), losses.at(0) + 8);
  batch.write(0, 5, {4});
  run.set_batch(0, batch);
  run.forward();
  EXPECT_TRUE(same_numbers("losses of earlier tokens", losses.at(0), before.data(), 5));
  EXPECT_NE(losses.at(0)[5], before[5]);
}

TEST_P(RuleInLanguage, TrainsInAPackAsAlone) {
  const Options o = options({{"model.heads", std::int64_t{2}}});
  const ModelShape shape = language_shape(9, 4, 0, 3);
  Exec parallel;
  parallel.threads = 2;
  ModelRun<float> pack(o, shape, 3, true);
  for (int r = 0; r < 3; ++r) give_example(pack, r, 40 + static_cast<std::uint64_t>(r), 0.5);
  for (int step = 0; step < 3; ++step) pack.train_step(parallel);
  for (int r = 0; r < 3; ++r) {
    ModelRun<float> alone(o, shape, 1, true);
    give_example(alone, 0, 40 + static_cast<std::uint64_t>(r), 0.5);
    for (int step = 0; step < 3; ++step) alone.train_step();
    const Tensor<float> x = pack.model.parameters().values(), y = alone.model.parameters().values();
    ASSERT_TRUE(same_numbers("parameters", x.at(r), y.at(0), y.size()));
    ASSERT_TRUE(std::isfinite(alone.loss(0)));
  }
}

INSTANTIATE_TEST_SUITE_P(Laws, RuleInLanguage, ::testing::ValuesIn(examples()),
                         [](const auto& one) { return one.param.name; });

/// Values that a probe reads of n pairs, each key once.
std::vector<double> probed(const std::string& memory,
                           const std::vector<std::pair<std::string, std::string>>& set) {
  constexpr int n = 5, B = 2;
  const Memory& kind = *find_memory(memory);
  Options options = memory_options(kind, 8, 4, 4);
  options.set("model.name", std::string("probe"));
  for (const auto& [name, value] : set) options.set("memory." + name, value);
  options = resolved(kind, options);
  resolve_probe(options, n);
  ProbeModel<double> model(options, {n, n, false}, Device::cpu, 1);
  model.initialise(0, 1);
  const auto graph = model.graph(B, {n, 2, n}, false);
  for (int b = 0; b < B; ++b) {
    for (int t = 0; t < n; ++t) {
      std::int32_t* token = graph->batch.tokens->at(0) + 2 * (b * n + t);
      token[channel_key] = (t * 2 + b) % n, token[channel_value] = t;
      graph->batch.query->at(0)[b * n + t] = t;
      graph->batch.position->at(0)[b * n + t] = n;
      graph->batch.target->at(0)[b * n + t] = t;
    }
  }
  *graph->feature_seed->at(0) = 1;
  graph->graph.forward({});
  const Tensor<double> o = graph->output->value;
  return {o.at(0), o.at(0) + o.size()};
}

// A probe opens what is learned: it is its constant bias, else 0.
TEST(RuleInAProbe, IsTheBuiltInMemoryWithOpenGates) {
  const std::string map = "identity", none = "none";
  EXPECT_EQ(probed("rule", {{"law", "beta = token(bias = 1); S += beta (v - S k) k^T; read S q"},
                            {"feature_map", map},
                            {"key_norm", none}}),
            probed("delta", {{"feature_map", map}, {"key_norm", none}, {"read_norm", none}}));
  EXPECT_EQ(probed("rule", {{"law", "S += v k^T; read S q"}, {"feature_map", map}, {"key_norm", none}}),
            probed("linear_attention", {{"feature_map", map}, {"key_norm", none}, {"read_norm", none}}));
}

TEST(RuleInAProbe, EveryLawHasOne) {
  for (const Example& one : examples()) {
    for (const double x : probed("rule", {{"law", one.law}, {"key_norm", "l2"}}))
      ASSERT_TRUE(std::isfinite(x)) << one.name;
  }
}

}  // namespace
}  // namespace crosstalk::rules

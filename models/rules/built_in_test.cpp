// Laws that say what a built-in memory does, in whole models: the same graph and, step after step, the same bits. And
// gradients of every law that is lowered against differences.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "models/rules/law_examples.h"
#include "models/rules/rule_memory.h"
#include "models/testing/differences.h"
#include "models/testing/language.h"
#include "models/testing/model_run.h"

namespace crosstalk::rules {
namespace {

using namespace checks;

struct Pair {
  std::string memory, law;
  std::vector<std::pair<std::string, std::string>> parts = {};  ///< of both, where they are not the defaults
  bool same_nodes = true;
  bool beside = true;  ///< also where queries stand beside the sequence
};

const std::vector<Pair>& pairs() {
  static const std::string decays =
      "beta = sigmoid(token); A_log = parameter(log_uniform(1, 16)); decay = token(WIDTHbias = "
      "inverse_softplus(0.001, 0.1)); ";
  static const auto with = [](const std::string& width, const std::string& rest) {
    std::string text = decays;
    return text.replace(text.find("WIDTH"), 5, width) + rest;
  };
  static const std::vector<Pair> all = {
      {"deltanet",
       "beta = sigmoid(token); S += beta (v - S k) k^T; read S q",
       {{"feature_map", "silu"}, {"key_norm", "l2"}}},
      {"gated_delta",
       with("", "S = exp(-(exp(A_log) softplus(decay))) S; S += beta (v - S k) k^T; read S q"),
       {{"key_norm", "l2"}}},
      {"kda",
       with("K, rank = d, ",
            "S = S diag(exp(-(exp(A_log) softplus(decay)))); S += beta (v - S k) k^T; read S q"),
       {{"key_norm", "l2"}}},
      // 1/16 and the logarithm are one node here and two there; a power of two rounds nowhere.
      {"gla",
       "decay = token(K, rank = 16); S = S diag(exp(0.0625 log_sigmoid(decay))) + v k^T; read S q",
       {{"key_norm", "none"}},
       false},
      // Its decay of the first head: log(1 - 1/32).
      {"retnet", "S = exp(-0.031748698314580298) S + v k^T; read S q", {{"key_norm", "none"}}},
      {"rwkv6",
       "bonus = parameter(K, uniform(0.5)); decay = token(K, rank = d); read S q + v ((bonus * k)^T q); "
       "S = S diag(exp(-exp(decay))) + v k^T",
       {{"key_norm", "none"}},
       false,
       false},
  };
  return all;
}

Options options_of(const std::string& memory, const Pair& pair) {
  const Memory& kind = *find_memory(memory);
  Options options = memory_options(kind, kDKey, kKeys, kValues, kEmbedding);
  for (const auto& [name, value] : pair.parts) options.set("memory." + name, value);
  if (memory == "rule") options.set("memory.law", pair.law);
  return resolved(kind, options);
}

std::vector<double> numbers_of(ModelRun<float>& run) {
  std::vector<double> all = {run.loss(0)};
  for (const auto& [name, values] : run.parameters(0)) all.insert(all.end(), values.begin(), values.end());
  return all;
}

void expect_the_same_training(ModelRun<float>& built, ModelRun<float>& rule, bool same_nodes,
                              const std::function<HandBatch(RandomStream&)>& draw) {
  if (same_nodes) {
    EXPECT_EQ(rule.graph->graph.node_names(), built.graph->graph.node_names());
  }
  ASSERT_EQ(rule.model.parameters().count(), built.model.parameters().count());
  const Parameters start = built.random_parameters(7);
  for (ModelRun<float>* run : {&built, &rule}) run->set_parameters(0, start);
  for (int step = 0; step < 6; ++step) {
    RandomStream random(static_cast<std::uint64_t>(step), RandomDomain::task_train, 7);
    const HandBatch batch = draw(random);
    for (ModelRun<float>* run : {&built, &rule}) run->set_batch(0, batch), run->train_step();
    ASSERT_TRUE(std::isfinite(built.loss(0)));
    ASSERT_EQ(numbers_of(rule), numbers_of(built)) << "step " << step;
  }
}

class RuleOfBuiltIn : public ::testing::TestWithParam<Pair> {};

TEST_P(RuleOfBuiltIn, HasTheSameNodesAndTrainsToTheSameBits) {
  const Pair& pair = GetParam();
  if (!pair.beside) GTEST_SKIP() << "a parameter of it stands beside the sequence too";
  for (const int queries : {1, 3}) {
    SCOPED_TRACE(queries);
    const ModelShape shape{kKeys, kValues, true, kB, {kT, 3, queries}};
    ModelRun<float> built(options_of(pair.memory, pair), shape, 1, true),
        rule(options_of("rule", pair), shape, 1, true);
    expect_the_same_training(built, rule, pair.same_nodes, [&](RandomStream& random) {
      return random_batch(random, shape.B, shape.sequence, shape.keys, shape.values);
    });
  }
}

TEST_P(RuleOfBuiltIn, DoesSoInALanguageModel) {
  const Pair& pair = GetParam();
  const ModelShape shape = language_shape();
  const auto options = [&](const std::string& memory) {
    Settings settings;
    for (const auto& [name, value] : pair.parts) settings.emplace_back("memory." + name, value);
    if (memory == "rule") settings.emplace_back("memory.law", pair.law);
    return language_options_of(memory, settings);
  };
  ModelRun<float> built(options(pair.memory), shape, 1, true), rule(options("rule"), shape, 1, true);
  expect_the_same_training(built, rule, pair.same_nodes,
                           [&](RandomStream& random) { return token_batch(random, shape); });
}

INSTANTIATE_TEST_SUITE_P(Memories, RuleOfBuiltIn, ::testing::ValuesIn(pairs()),
                         [](const auto& one) { return one.param.memory; });

class RuleGradient : public ::testing::TestWithParam<rules::Example> {};

TEST_P(RuleGradient, OfEveryParameterIsThatOfTheLoss) {
  const Rule& law = rule_of(GetParam().law, {});
  ASSERT_TRUE(law.refused.empty()) << law.refused;
  const Options options = options_of("rule", {"rule", GetParam().law});
  std::uint64_t turn = 0;
  for (const ModelShape& shape : {ModelShape{kKeys, kValues, true, kB, {kT, 3, 1}},
                                  ModelShape{kKeys, kValues, false, kB, {kT, 2, 3}}}) {
    SCOPED_TRACE(turn);
    constexpr int R = 2;
    ModelRun<double> run(options, shape, R, true);
    for (int r = 0; r < R; ++r)
      give(run, r, find_example(options, shape, 900 + turn * 2 + static_cast<std::uint64_t>(r), 0));
    ASSERT_NO_FATAL_FAILURE(expect_gradients(run, R));
    run.graph->graph.check_guards();
    ++turn;
  }
}

INSTANTIATE_TEST_SUITE_P(Laws, RuleGradient, ::testing::ValuesIn(examples()),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace crosstalk::rules

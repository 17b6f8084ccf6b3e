// Laws that say what a built-in memory does, in whole models: the same graph and, step after step, the same bits. And
// gradients of every law that is lowered against differences.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
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

/// How much is the same: the graph's nodes and all bits; the bits; numbers, where gates are made in another order, so that
/// sums of gradients round otherwise.
struct Pair {
  std::string memory, law;
  std::vector<std::pair<std::string, std::string>> parts = {};  ///< of both, where they are not the defaults
  enum class Same { nodes, bits, numbers } same = Same::nodes;
  bool beside = true;  ///< also where queries stand beside the sequence
  std::vector<std::pair<std::string, OptionValue>> own = {};  ///< of the built-in memory
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
      {"kda",
       "beta = sigmoid(token); A_log = parameter(log_uniform(1, 16)); "
       "decay = token(K, rank = d, bias = inverse_softplus(0.001, 0.1)); state H[K, V]; "
       "H = (I - beta k k^T) diag(exp(-(exp(A_log) softplus(decay)))) H + beta k v^T; read H^T q",
       {{"key_norm", "l2"}}},
      {"gla",
       "state H[K, V]; decay = token(K, rank = 16); H = diag(exp(0.0625 log_sigmoid(decay))) H + k v^T; "
       "read (q^T H)^T",
       {{"key_norm", "none"}},
       Pair::Same::bits},
      // 1/16 and the logarithm are one node here and two there; a power of two rounds nowhere.
      {"gla",
       "decay = token(K, rank = 16); S = S diag(exp(0.0625 log_sigmoid(decay))) + v k^T; read S q",
       {{"key_norm", "none"}},
       Pair::Same::bits},
      // Its decay of the first head: log(1 - 1/32).
      {"retnet", "S = exp(-0.031748698314580298) S + v k^T; read S q", {{"key_norm", "none"}}},
      {"rwkv6",
       "bonus = parameter(K, uniform(0.5)); decay = token(K, rank = d); read S q + v ((bonus * k)^T q); "
       "S = S diag(exp(-exp(decay))) + v k^T",
       {{"key_norm", "none"}},
       Pair::Same::bits,
       false},
      {"delta",
       "gate = sigmoid(token); S += gate (v - S k) k^T; read S q",
       {{"key_norm", "l2"}, {"feature_map", "identity"}},
       Pair::Same::nodes,
       true,
       {{"read_norm", std::string("none")}}},
      {"linear_attention",
       "S += v k^T; read S q",
       {{"key_norm", "none"}, {"feature_map", "elu1"}},
       Pair::Same::nodes,
       true,
       {{"read_norm", std::string("none")}}},
      {"linear_attention",
       "state z[K]; S += v k^T; z += k; read S q / (z^T q + 0.000001)",
       {{"key_norm", "none"}, {"feature_map", "elu1"}}},
      // It divides its keys by sqrt(K), and keeps what is read finite whatever its gates are.
      {"mlstm",
       "forget_gate = 3 + token(bias = constant(0)); input_gate = token(bias = normal(0.1)); h = k / "
       "sqrt(sum(ones(K))); "
       "state n[K]; S = sigmoid(forget_gate) S + exp(input_gate) v h^T; "
       "n = sigmoid(forget_gate) n + exp(input_gate) h; read S q / max(abs(n^T q), 1)",
       {{"key_norm", "none"}},
       Pair::Same::numbers},
      {"mamba2",
       "step = softplus(token(bias = inverse_softplus(0.001, 0.1))); A_log = parameter(log_uniform(1, 16)); "
       "S = exp(-(exp(A_log) step)) S + step v k^T; read S q",
       {{"key_norm", "none"}}},
      {"dfw",
       "decay = sigmoid(token(K)); value_decay = sigmoid(token(V)); S = diag(value_decay) S diag(decay) + v "
       "k^T; read S q",
       {{"key_norm", "none"}}},
      {"peng_gate",
       "gate = sigmoid(token); S = (1 - gate) S + gate v k^T; read S q",
       {{"key_norm", "none"}, {"feature_map", "identity"}},
       Pair::Same::nodes,
       true,
       {{"read_norm", std::string("none")}}},
      {"comba",
       with("",
            "inner_decay = parameter(constant(1)); correction = parameter(constant(1)); p = "
            "sigmoid(inner_decay) k; "
            "S = exp(-(exp(A_log) softplus(decay))) S + beta (v - S p) k^T; read S (q - correction p)"),
       {{"key_norm", "l2"}},
       Pair::Same::numbers,
       false},
      {"gated_delta2",
       "erase_gate = sigmoid(token(K)); write_gate = sigmoid(token(V)); A_log = parameter(log_uniform(1, "
       "16)); "
       "decay = token(K, rank = d, bias = inverse_softplus(0.001, 0.1)); "
       "S = S diag(exp(-(exp(A_log) softplus(decay)))); S += (write_gate * v - S (erase_gate * k)) k^T; read "
       "S q",
       {{"key_norm", "l2"}},
       Pair::Same::numbers},
      {"precond_gated_delta",
       with("",
            "A_log_a = parameter(log_uniform(1, 16)); decay_a = token(bias = inverse_softplus(0.001, 0.1)); "
            "beta_a = sigmoid(token); center = parameter(constant(-0.2)); "
            "state A[K]; A = exp(-(exp(A_log_a) softplus(decay_a))) A + beta_a k * k; r = log(1e-6 + A) - "
            "center; M = exp(-0.4054651081081644 (r / (1 + abs(r)))); "
            "S = exp(-(exp(A_log) softplus(decay))) S; S += beta (v - S k) (M * k)^T; read S q"),
       {{"key_norm", "l2"}},
       Pair::Same::numbers},
      {"dplr",
       "decay = token(K); erase = unit(token(K)); rate = sigmoid(token(K)); S = S "
       "(diag(exp(-0.6065306597126334 sigmoid(decay))) - (rate * erase) erase^T) + v k^T; read S q",
       {{"key_norm", "l2"}},
       Pair::Same::numbers},
      {"rwkv7",
       "decay = token(K, rank = d); erase_scale = parameter(K, constant(0.85)); rate = sigmoid(token(K, rank "
       "= d)); key_mix = parameter(K, constant(1)); kappa = unit(k * erase_scale); "
       "S = S (diag(exp(-0.6065306597126334 sigmoid(decay))) - kappa (rate * kappa)^T) + v (k * (1 + (rate - "
       "1) * key_mix))^T; read S q",
       {{"key_norm", "l2"}},
       Pair::Same::numbers,
       true,
       {{"start", std::string("constants")}}},
      {"longhorn",
       "beta = sigmoid(token); S += (beta / (1 + beta k^T k)) (v - S k) k^T; read S q",
       {{"key_norm", "l2"}},
       Pair::Same::numbers},
      {"simple_gla",
       "decay = token; S = exp(0.0625 log_sigmoid(decay)) S + v k^T; read S q",
       {{"key_norm", "none"}},
       Pair::Same::bits},
      {"gsa",
       "decay = 0.125 log_sigmoid(token(6)); a = exp(decay); state A[6, K]; state C[V, 6]; A = diag(a) A + "
       "(1 - a) k^T; C = C diag(a) + v (1 - a)^T; read C softmax(A q)",
       {{"key_norm", "none"}},
       Pair::Same::bits,
       true,
       {{"slots", std::int64_t{6}}}},
      {"complex_kda",
       with("K, rank = d, ",
            "alpha = 2 exp(-(exp(A_log) softplus(decay))) - 1; S = S diag(alpha); S += beta (v - S k) k^T; "
            "read S q"),
       {{"key_norm", "l2"}},
       Pair::Same::numbers,
       true,
       {{"gate", std::string("signed_exp")}}},
  };
  return all;
}

Options options_of(const std::string& memory, const Pair& pair) {
  const Memory& kind = *find_memory(memory);
  Options options = memory_options(kind, kDKey, kKeys, kValues, kEmbedding);
  for (const auto& [name, value] : pair.parts) options.set("memory." + name, value);
  if (memory == "rule") options.set("memory.law", pair.law);
  if (memory == pair.memory) {
    for (const auto& [name, value] : pair.own) options.set("memory." + name, value);
  }
  return resolved(kind, options);
}

template <class Real>
std::vector<double> numbers_of(ModelRun<Real>& run) {
  std::vector<double> all = {run.loss(0)};
  for (const auto& [name, values] : run.parameters(0)) all.insert(all.end(), values.begin(), values.end());
  return all;
}

template <class Real>
void expect_the_same_training(const Options& of_built, const Options& of_rule, const ModelShape& shape,
                              Pair::Same same, const std::function<HandBatch(RandomStream&)>& draw) {
  ModelRun<Real> built(of_built, shape, 1, true), rule(of_rule, shape, 1, true);
  if (same == Pair::Same::nodes) {
    EXPECT_EQ(rule.graph->graph.node_names(), built.graph->graph.node_names());
  }
  ASSERT_EQ(rule.model.parameters().count(), built.model.parameters().count());
  const Parameters start = built.random_parameters(7);
  for (ModelRun<Real>* run : {&built, &rule}) run->set_parameters(0, start);
  for (int step = 0; step < 6; ++step) {
    RandomStream random(static_cast<std::uint64_t>(step), RandomDomain::task_train, 7);
    const HandBatch batch = draw(random);
    for (ModelRun<Real>* run : {&built, &rule}) run->set_batch(0, batch), run->train_step();
    ASSERT_TRUE(std::isfinite(built.loss(0)));
    const std::vector<double> got = numbers_of(rule), want = numbers_of(built);
    if (same != Pair::Same::numbers) {
      ASSERT_EQ(got, want) << "step " << step;
      continue;
    }
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(got[i], want[i], 1e-8 * std::max(1.0, std::abs(want[i]))) << "step " << step << " " << i;
  }
}

class RuleOfBuiltIn : public ::testing::TestWithParam<Pair> {};

TEST_P(RuleOfBuiltIn, HasItsNodesAndTrainsToItsBits) {
  const Pair& pair = GetParam();
  if (!pair.beside) GTEST_SKIP() << "a parameter of it stands beside the sequence too";
  for (const int queries : {1, 3}) {
    SCOPED_TRACE(queries);
    const ModelShape shape{kKeys, kValues, true, kB, {kT, 3, queries}};
    const auto train =
        pair.same == Pair::Same::numbers ? expect_the_same_training<double> : expect_the_same_training<float>;
    train(options_of(pair.memory, pair), options_of("rule", pair), shape, pair.same,
          [&](RandomStream& random) {
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
    if (memory == pair.memory) {
      for (const auto& [name, value] : pair.own) settings.emplace_back("memory." + name, value);
    }
    return language_options_of(memory, settings);
  };
  const auto train =
      pair.same == Pair::Same::numbers ? expect_the_same_training<double> : expect_the_same_training<float>;
  train(options(pair.memory), options("rule"), shape, pair.same,
        [&](RandomStream& random) { return token_batch(random, shape); });
}

INSTANTIATE_TEST_SUITE_P(Memories, RuleOfBuiltIn, ::testing::ValuesIn(pairs()),
                         [](const auto& one) { return fmt::format("{}_{}", one.param.memory, one.index); });

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

// Laws in whole models: gradients, causality and rows of language models, packs, probes, and the bits of built-in memories.
// SPDX-License-Identifier: Apache-2.0
#include <cctype>
#include <sstream>

#include "models/mixers/probe_model.h"
#include "models/rules/law_examples.h"
#include "models/rules/rule_memory.h"
#include "models/testing/language_checks.h"
#include "models/testing/variants.h"

namespace crosstalk::rules::whole_test {

using namespace checks;

class RuleInLanguage : public ::testing::TestWithParam<Example> {
 protected:
  Options options(Settings settings = {}) const {
    settings.emplace_back("memory.law", GetParam().law);
    return language_options_of("rule", settings);
  }
};

TEST_P(RuleInLanguage, GradientOfEveryParameterIsThatOfTheLoss) {
  if (GetParam().name == "nonsense") {
    GTEST_SKIP() << "steeper behind two layers than differences resolve";
  }
  expect_language_gradients(options(), language_shape(), 60, 0.5);
  expect_language_gradients(options({{"model.heads", 2}, {"model.layers", 2}}), language_shape(5, 2), 60,
                            0.5);
}
TEST_P(RuleInLanguage, RowsOfTheLastLayerAreThoseOfAll) {
  expect_rows_of_all(options({{"model.layers", 2}, {"model.heads", 2}}), 0.5);
}
TEST_P(RuleInLanguage, IsCausal) { expect_causal(options({{"model.layers", 2}}), 0.5); }
TEST_P(RuleInLanguage, TrainsInAPackAsAlone) {
  expect_language_pack(options({{"model.heads", 2}}), language_shape(9, 4, 0, 3), 2);
}

INSTANTIATE_TEST_SUITE_P(Laws, RuleInLanguage, ::testing::ValuesIn(examples()),
                         [](const auto& one) { return one.param.name; });

/// Parameters of a model at their start, by name.
Parameters starts_of(const Options& o, const ModelShape& shape) {
  ModelRun<double> run(o, shape, 1, false);
  run.model.initialise(0, 3);
  return run.parameters(0);
}

// What a law learns has weights of its own, whatever it is called: as many as under a name that nobody else has, and those of the
// model start as they did.
void expect_own_weights(const std::function<Options(const std::string& law)>& options,
                        const ModelShape& shape) {
  for (const std::string quantity :
       {"{0} = token(K); ", "{0} = token(K, rank = 2); ", "{0} = asking(K); ", "{0} = parameter(K); "}) {
    const auto with = [&](const std::string& name) {
      const std::string gate = quantity.find("asking") == std::string::npos
                                   ? "S += v (sigmoid({0}) * k)^T; read S q"
                                   : "S += v k^T; read S (sigmoid({0}) * q)";
      return starts_of(options(fmt::format(fmt::runtime(quantity + gate), name)), shape);
    };
    Parameters alone = with("zz");
    std::set<std::string> words;
    for (const auto& [name, x] : alone) {
      std::istringstream parts(name);
      for (std::string word; std::getline(parts, word, '.');)
        if (word != "zz" && word != "norm" && std::isdigit(static_cast<unsigned char>(word[0])) == 0 &&
            word.size() > 1)
          words.insert(word);
    }
    for (const std::string& word : words) {
      SCOPED_TRACE(fmt::format(fmt::runtime(quantity), word));
      const Parameters got = with(word);
      EXPECT_EQ(got.size(), alone.size());
      for (const auto& [name, x] : alone) {
        if (name.find("zz") != std::string::npos) continue;
        EXPECT_TRUE(got.count(name) == 1 && got.at(name) == x) << name;
      }
    }
  }
}

TEST(RuleNames, AreNotThoseOfALanguageModel) {
  for (const auto& [kind, settings] : block_kinds()) {
    SCOPED_TRACE(kind);
    if (kind.starts_with("base_conv") || kind == "hybrid") continue;  // the law's layer has no parts
    if (std::any_of(settings.begin(), settings.end(),
                    [](const auto& one) { return one.first == "model.blocks"; }))
      continue;  // which refuse a law's maps
    expect_own_weights(
        [&, &set = settings](const std::string& law) {
          Settings all = set;
          all.emplace_back("memory.law", law);
          return language_options_of("rule", all);
        },
        language_shape());
  }
}

TEST(RuleNames, AreNotThoseOfARetrievalModel) {
  const std::vector<Settings> kinds = {{},
                                       {{"model.value_codes", std::int64_t{5}},
                                        {"model.out_norm", std::string("layer")},
                                        {"model.out_gate", std::string("silu")},
                                        {"model.short_conv", std::string("k")},
                                        {"model.short_conv_bias", true},
                                        {"model.token_shift", std::string("k")}}};
  for (const Settings& settings : kinds) {
    expect_own_weights(
        [&](const std::string& law) {
          const Memory& kind = *find_memory("rule");
          Options options = memory_options(kind, 4, kKeys, kValues);
          options.set("memory.law", law);
          for (const auto& [name, value] : settings) options.set(name, value);
          resolve_model(options, {kKeys, kValues});
          return resolved(kind, options);
        },
        {kKeys, kValues, true, kB, {kT, 3, 3}});
  }
}

// What is shown as the decay is one.
TEST(RuleNames, AreNotThoseOfWhatIsShown) {
  const auto shown = [](const std::string& law) {
    const Memory& kind = *find_memory("rule");
    Options options = memory_options(kind, 4, kKeys, kValues);
    options.set("memory.law", law);
    ModelRun<double> run(resolved(kind, options), {kKeys, kValues, true, 1, {kT, 3, 3}}, 1, false);
    Captured<double> captured;
    run.model.capture({kT, 3, 3}, captured);
    std::set<std::string> names;
    for (const auto& one : captured.tensors) names.insert(one.name);
    return names;
  };
  const auto gain = shown("decay = token; S += exp(decay) v k^T; read S q");
  EXPECT_TRUE(gain.count("decay") == 0 && gain.count("token.decay") == 1);
  const auto decay = shown("g = token; log_decay = token; S = exp(log_decay) S + g v k^T; read S q");
  EXPECT_TRUE(decay.count("log_decay") == 1 && decay.count("g") == 1);
}

// Two quantities of one law: memory.bias is the parameter called bias.
TEST(RuleNames, OfOneLawAreApart) {
  const auto weights = [](const std::string& a, const std::string& b) {
    const std::string law = "{0} = token(K); {1} = parameter(K); S += v (sigmoid({0}) * {1} * k)^T; read S q";
    return starts_of(language_options_of("rule", {{"memory.law", fmt::format(fmt::runtime(law), a, b)}}),
                     language_shape())
        .size();
  };
  EXPECT_EQ(weights("memory", "bias"), weights("yy", "zz"));
}

class RuleInRetrieval : public ::testing::TestWithParam<Example> {};

TEST_P(RuleInRetrieval, GradientOfEveryParameterIsThatOfTheLoss) {
  const Memory& kind = *find_memory("rule");
  Options options = memory_options(kind, kDKey, checks::kKeys, checks::kValues, kEmbedding);
  options.set("memory.law", GetParam().law), options = resolved(kind, options);
  for (const bool second_key : {true, false}) {
    const ModelShape shape{
        checks::kKeys, checks::kValues, second_key, kB, {kT, second_key ? 3 : 2, second_key ? 1 : 3}};
    ModelRun<double> run(options, shape, 2, true);
    for (int r = 0; r < 2; ++r)
      give(run, r,
           find_example(options, shape, 900u + (second_key ? 0u : 2u) + static_cast<std::uint64_t>(r)));
    ASSERT_NO_FATAL_FAILURE(expect_gradients(run, 2));
    run.graph->graph.check_guards();
  }
}

INSTANTIATE_TEST_SUITE_P(Laws, RuleInRetrieval, ::testing::ValuesIn(examples()),
                         [](const auto& one) { return one.param.name; });

// A study's law that says what a built-in memory does has its nodes and trains to its bits.
TEST(RuleOfABuiltIn, HasItsNodesAndItsBits) {
  const std::string decay =
      "beta = sigmoid(token); A_log = parameter(log_uniform(1, 16)); decay = token({}bias = inverse_softplus(0.001, 0.1)); ";
  struct {
    const char* memory;
    std::string law;
    Settings parts;
  } all[] = {
      {"deltanet",
       "beta = sigmoid(token); S += beta (v - S k) k^T; read S q",
       {{"memory.feature_map", std::string("silu")}, {"memory.key_norm", std::string("l2")}}},
      {"gated_delta",
       fmt::format(fmt::runtime(decay), "") +
           "S = exp(-(exp(A_log) softplus(decay))) S; S += beta (v - S k) k^T; read S q",
       {}},
      {"kda",
       fmt::format(fmt::runtime(decay), "K, rank = d, ") +
           "state H[K, V]; H = (I - beta k k^T) diag(exp(-(exp(A_log) softplus(decay)))) H + beta k v^T; read H^T q",
       {}},
      {"mamba2",
       "step = softplus(token(bias = inverse_softplus(0.001, 0.1))); A_log = parameter(log_uniform(1, 16)); "
       "S = exp(-(exp(A_log) step)) S + step v k^T; read S q",
       {{"memory.key_norm", std::string("none")}}},
      {"linear_attention",
       "state z[K]; S += v k^T; z += k; read S q / (z^T q + 0.000001)",
       {{"memory.feature_map", std::string("elu1")}, {"memory.key_norm", std::string("none")}}},
  };
  for (const auto& [memory, law, parts] : all) {
    SCOPED_TRACE(memory);
    Settings with_law = parts;
    with_law.emplace_back("memory.law", law);
    const ModelShape shape = language_shape();
    ModelRun<float> built(language_options_of(memory, parts), shape, 1, true),
        rule(language_options_of("rule", with_law), shape, 1, true);
    EXPECT_EQ(rule.graph->graph.node_names(), built.graph->graph.node_names());
    for (ModelRun<float>* run : {&built, &rule}) {
      run->set_parameters(0, built.random_parameters(7));
      RandomStream random(3, RandomDomain::task_train, 7);
      for (int step = 0; step < 3; ++step) run->set_batch(0, token_batch(random, shape)), run->train_step();
    }
    EXPECT_EQ(rule.loss(0), built.loss(0));
    EXPECT_EQ(rule.parameters(0), built.parameters(0));
  }
}

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
  for (int b = 0; b < B; ++b)
    for (int t = 0; t < n; ++t) {
      std::int32_t* token = graph->batch.tokens->at(0) + 2 * (b * n + t);
      token[channel_key] = (t * 2 + b) % n, token[channel_value] = t;
      graph->batch.query->at(0)[b * n + t] = t;
      graph->batch.position->at(0)[b * n + t] = n;
      graph->batch.target->at(0)[b * n + t] = t;
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
  for (const Example& one : examples())
    for (const double x : probed("rule", {{"law", one.law}, {"key_norm", "l2"}}))
      ASSERT_TRUE(std::isfinite(x)) << one.name;
}

}  // namespace crosstalk::rules::whole_test

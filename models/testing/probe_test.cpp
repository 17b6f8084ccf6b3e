// Probes: open gates make of each memory what it is without them, and of many the same; laws of random keys.
// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/probe_model.h"

#include <cmath>

#include "kernels/base/error.h"
#include "kernels/base/random.h"
#include "models/testing/variants.h"

namespace crosstalk::checks::probe_test {

constexpr int kSequences = 12;

struct Measured {
  double error = 0, recall = 0, signal = 0;
  std::vector<double> output;
};

Options probe_of(const std::string& memory, int d_key, std::map<std::string, OptionValue> changes = {}) {
  const Memory& kind = *find_memory(memory);
  Options options = memory_options(kind, d_key, 4, 4);
  options.set("model.name", "probe");
  for (const auto& [key, value] : changes) options.set(key, value);
  return resolved(kind, options);
}
/// Sum rule, delta rule, ... of keys as they are.
Options plain(const std::string& memory, int d_key, std::map<std::string, OptionValue> changes = {}) {
  Options options = memory_options(*find_memory(memory), d_key, 4, 4);
  for (const auto& [key, value] : std::map<std::string, OptionValue>{
           {"memory.feature_map", "identity"}, {"memory.key_norm", "none"}, {"memory.read_norm", "none"}}) {
    if (options.has(key)) changes.emplace(key, value);
  }
  return probe_of(memory, d_key, std::move(changes));
}

/// n pairs, each key once, in an order that changes from sequence to sequence.
template <class Real = double>
Measured measure(Options options, int n, std::uint64_t seed = 1) {
  resolve_probe(options, n);
  ProbeModel<Real> model(options, {n, n, false}, Device::cpu, 1);
  model.initialise(0, seed);
  const auto graph = model.graph(kSequences, {n, 2, n}, false);
  for (int b = 0; b < kSequences; ++b)
    for (int t = 0; t < n; ++t) {
      std::int32_t* token = graph->batch.tokens->at(0) + 2 * (b * n + t);
      const int key = (t * 7 + b) % n;  // n has no factor 7
      token[channel_key] = key, token[channel_value] = (key + b) % n;
      graph->batch.query->at(0)[b * n + t] = t;
      graph->batch.position->at(0)[b * n + t] = n;
      graph->batch.target->at(0)[b * n + t] = (t + b) % n;
    }
  *graph->feature_seed->at(0) = 1;
  graph->graph.forward({});
  Measured measured;
  const int queries = kSequences * n;
  for (int i = 0; i < queries; ++i) {
    measured.error += 2 * graph->loss.query_loss->value.at(0)[i] / queries;
    measured.recall += static_cast<double>(graph->loss.correct->at(0)[i]) / queries;
    measured.signal += graph->query_metrics.at("signal")->value.at(0)[i] / queries;
  }
  const Tensor<Real> o = graph->output->value;
  measured.output.assign(o.at(0), o.at(0) + o.size());
  return measured;
}

double difference(const Measured& a, const Measured& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.output.size(); ++i)
    most = std::max(most, std::abs(a.output[i] - b.output[i]));
  return a.output.size() == b.output.size() ? most : NAN;
}

class Probe : public ::testing::TestWithParam<std::string> {};

TEST_P(Probe, EveryMemoryIsRead) {
  for (const int d_key : {4, 16}) {
    const Measured got = measure<float>(probe_of(GetParam(), d_key), 10);
    EXPECT_TRUE(std::isfinite(got.error)) << GetParam();
    EXPECT_GE(got.recall, 0);
    EXPECT_LE(got.recall, 1);
  }
}

TEST_P(Probe, OfOnePairTheValueIsRead) {  // up to its length, that is: signal and no noise
  if (GetParam() == "ttt_linear" || GetParam() == "ttt_mlp" || GetParam() == "titans_mlp") {
    GTEST_SKIP() << "one step of gradient descent does not learn a value";
  }
  if (GetParam() == "lstm" || GetParam() == "gru" || GetParam() == "slstm" || GetParam() == "m2rnn") {
    GTEST_SKIP() << "a cell holds tanh of a value";
  }
  const Measured got = measure(plain(GetParam(), 16), 1);
  EXPECT_GT(got.signal, 0)
      << GetParam() << " writes nothing: what opens other gates (0 for log_..., else 1) shuts one of "
      << "its own. Say in .inputs what opens it, as Open (models/memory.h) does: {.name = \"log_decay\", "
      << ".open = Open{-0.7}}";
  // Of log-linear memories every level reads.
  if (memory_named(GetParam()).family == Family::erases && GetParam() != "log_linear_gated_delta") {
    EXPECT_LT(got.signal, 1.5)
        << "writes what it then has to erase: a gate that is opened as other gates are "
        << "(0 for log_..., else 1) should not be; .open of an input says it";
  }
  EXPECT_NEAR(got.error, (1 - got.signal) * (1 - got.signal), 1e-9 * (1 + got.error));
}

INSTANTIATE_TEST_SUITE_P(Registry, Probe, every_memory(), memory_name);

TEST(ProbeModel, OpenGatesMakeTheSumRuleOfMemoriesThatAdd) {
  const Measured sum = measure(plain("linear_attention", 8), 12);
  for (const char* memory : {"retnet", "simple_gla", "mamba2", "gla", "dfw", "rwkv6", "mamba1", "s4d"})
    EXPECT_LT(difference(measure(plain(memory, 8), 12), sum), 1e-9) << memory;
}

TEST(ProbeModel, OpenGatesMakeTheDeltaRuleOfMemoriesThatErase) {
  const Measured delta = measure(plain("delta", 8), 12);
  for (const char* memory :
       {"deltanet", "gated_delta", "kda", "complex_kda", "gated_delta2", "comba", "delta_product", "rwkv7",
        "dplr", "titans_linear", "erase_then_delta", "q_delta"})
    EXPECT_LT(difference(measure(plain(memory, 8), 12), delta), 1e-9) << memory;
}

TEST(ProbeModel, OpenGatesMakeSoftmaxOfMemoriesThatKeep) {
  const Measured softmax = measure(plain("softmax", 8), 12);
  for (const char* memory :
       {"alibi", "fox", "attention_sink", "gated_attention", "path", "path_fox", "differential_attention"})
    EXPECT_LT(difference(measure(plain(memory, 8), 12), softmax), 1e-9) << memory;
}

TEST(ProbeModel, SumRuleFollowsItsLaw) {
  for (const int n : {16, 32, 64}) {
    double error = 0;
    for (std::uint64_t seed = 1; seed <= 4; ++seed)
      error += measure(plain("linear_attention", 32), n, seed).error / 4;
    EXPECT_NEAR(error, (n - 1) / 32.0, 0.1 * (n - 1) / 32.0) << n;
  }
}

TEST(ProbeModel, RidgeRegressionComesToLeastSquares) {
  const auto mesa = [](int n) {
    double error = 0;
    for (std::uint64_t seed = 1; seed <= 4; ++seed)
      error += measure(plain("mesa", 16, {{"memory.iterations", 60}}), n, seed).error / 4;
    return error;
  };
  EXPECT_LT(mesa(8), 1e-4);
  for (const int n : {32, 64}) EXPECT_NEAR(mesa(n), 1 - 16.0 / n, 0.06) << n;
}

// It overwrites: less squared error, and fewer keys found.
TEST(ProbeModel, DeltaRecallsLessThanTheSumFromThreeQuartersOn) {
  for (const int n : {24, 32, 48, 64}) {
    Measured sum, delta;
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      const Measured a = measure(plain("linear_attention", 32), n, seed),
                     b = measure(plain("delta", 32), n, seed);
      sum.recall += a.recall / 4, delta.recall += b.recall / 4;
      EXPECT_LT(b.error, a.error) << n;
    }
    EXPECT_LT(delta.recall, sum.recall) << n;
  }
}

TEST(ProbeModel, OrthonormalKeysAreReadExactly) {
  for (const char* memory : {"linear_attention", "delta"}) {
    const Measured got = measure(plain(memory, 12, {{"model.probe_keys", "orthonormal"}}), 12);
    EXPECT_LT(got.error, 1e-24) << memory;
    EXPECT_NEAR(got.recall, 1, 1e-12);
  }
}

/// n pairs, then swaps of two keys each: written with value 0 under the difference of the codes.
Measured swapped(Options options, int n, int swaps) {
  resolve_probe(options, n);
  ProbeModel<double> model(options, {n, n, true}, Device::cpu, 1);
  model.initialise(0, 1);
  const auto graph = model.graph(kSequences, {n + swaps, 3, n}, false);
  RandomStream random(5, RandomDomain::task_train, 0);
  for (int b = 0; b < kSequences; ++b) {
    std::vector<int> held;
    for (int t = 0; t < n + swaps; ++t) {
      std::int32_t* token = graph->batch.tokens->at(0) + 3 * (b * (n + swaps) + t);
      token[channel_key] = t % n, token[channel_value] = t, token[channel_second_key] = -1;
      if (t < n) {
        held.push_back(t);
        continue;
      }
      const auto first = random.below(static_cast<std::uint32_t>(n)),
                 second = (first + 1 + random.below(static_cast<std::uint32_t>(n - 1))) %
                          static_cast<std::uint32_t>(n);
      std::swap(held[first], held[second]);
      token[channel_key] = static_cast<std::int32_t>(first), token[channel_value] = -1;
      token[channel_second_key] = static_cast<std::int32_t>(second);
    }
    for (int q = 0; q < n; ++q) {
      graph->batch.query->at(0)[b * n + q] = q;
      graph->batch.position->at(0)[b * n + q] = n + swaps;
      graph->batch.target->at(0)[b * n + q] = held[static_cast<std::size_t>(q)];
    }
  }
  graph->graph.forward({});
  Measured measured;
  for (int i = 0; i < kSequences * n; ++i) {
    measured.error += 2 * graph->loss.query_loss->value.at(0)[i] / (kSequences * n);
    measured.recall += static_cast<double>(graph->loss.correct->at(0)[i]) / (kSequences * n);
  }
  return measured;
}

// The delta rule with beta = 1 and the difference of two orthonormal keys, whose square is 2, is a reflection that exchanges what
// they hold (DeltaFormer, Zhong et al. 2025, arXiv 2505.19488, theorem 1).
TEST(ProbeModel, TheDeltaRuleSwapsOrthonormalKeys) {
  const std::map<std::string, OptionValue> apart = {{"model.probe_keys", "orthonormal"}};
  const auto exact = swapped(plain("delta", 8, apart), 5, 60);
  EXPECT_LT(exact.error, 1e-20);
  EXPECT_NEAR(exact.recall, 1, 1e-12);
  EXPECT_GT(swapped(plain("linear_attention", 8, apart), 5, 60).error, 0.1);  // 0 is added
  auto half = apart;
  half["memory.beta_max"] = 0.5;
  EXPECT_GT(swapped(plain("delta", 8, half), 5, 60).error, 0.1);  // no reflection
}

// Of more keys than numbers a linear kernel loses the thread, one that rounds does not as long as no two keys have a product of
// 1/8 (its figure 6 and theorem 2). Of 96 keys of 64
// numbers it is 0.09.
TEST(ProbeModel, ARoundingKernelSwapsNearlyOrthogonalKeys) {
  const auto read = [](const char* kernel) {
    return swapped(probe_of("deltaformer", 64,
                            {{"memory.kappa1", std::string(kernel)},
                             {"memory.row_norm1", "none"},
                             {"memory.kappa2", std::string(kernel)},
                             {"memory.row_norm2", "none"},
                             {"memory.digits", 0},
                             {"model.probe_keys", "near_orthogonal"}}),
                   96, 300);
  };
  EXPECT_LT(read("round").error, 1e-20);
  EXPECT_GT(read("linear").error, 0.1);
}

TEST(ProbeModel, NearlyOrthogonalKeysKeepNearWelchsBound) {
  for (const auto& [n, d] : {std::pair{96, 64}, {20, 32}}) {
    Options options = plain("delta", d, {{"model.probe_keys", "near_orthogonal"}});
    resolve_probe(options, n);
    ProbeModel<double> model(options, {n, n, false}, Device::cpu, 1);
    model.initialise(0, 3);
    const Tensor<double> codes = model.parameters().value(0);
    ASSERT_EQ(model.parameters().name(0), "key_codes");
    double most = 0;
    for (int i = 0; i < n; ++i)
      for (int j = 0; j <= i; ++j) {
        double product = 0;
        for (int k = 0; k < d; ++k) product += codes.at(0)[i * d + k] * codes.at(0)[j * d + k];
        if (i == j) {
          EXPECT_NEAR(product, 1, 1e-12);
        } else {
          most = std::max(most, std::abs(product));
        }
      }
    EXPECT_LT(most, n > d ? 1.3 * std::sqrt((n - d) / (d * (n - 1.0))) : 1e-10) << n;
  }
}

TEST(ProbeModel, CodesAreAFunctionOfTheSeedAndHaveLengthOne) {
  Options options = plain("linear_attention", 8, {{"model.probe_values", 5}});
  resolve_probe(options, 6);
  ProbeModel<double> model(options, {6, 6, false}, Device::cpu, 2);
  model.initialise(0, 3), model.initialise(1, 3);
  for (int i = 0; i < model.parameters().count(); ++i) {
    const Tensor<double> codes = model.parameters().value(i);
    EXPECT_EQ(codes.columns(), model.parameters().name(i) == "value_codes" ? 5 : 8);
    for (std::int64_t row = 0; row < 6; ++row) {
      double square = 0;
      for (int c = 0; c < codes.columns(); ++c) {
        const double x = codes.at(0)[row * codes.columns() + c];
        square += x * x;
        EXPECT_EQ(x, codes.at(1)[row * codes.columns() + c]);
      }
      EXPECT_NEAR(square, 1, 1e-14);
    }
  }
  EXPECT_EQ(model.trainable(), 0);
}

std::string refused_at(Options options, int keys) {
  return refused([&] { resolve_probe(options, keys); }).key;
}

TEST(ProbeModel, RefusesWhatHasNoMeaning) {
  const Options options = plain("linear_attention", 8);
  const auto with = [&](const char* key, OptionValue value) {
    Options other = options;
    other.set(key, std::move(value));
    return other;
  };
  EXPECT_EQ(refused_at(options, 9), "accepted");
  EXPECT_EQ(refused_at(with("model.heads", 2), 9), "model.heads");
  EXPECT_EQ(refused_at(with("model.out_norm", "rms"), 9), "model.out_norm");
  EXPECT_EQ(refused_at(with("model.init", "a = 0"), 9), "model.init");
  EXPECT_EQ(refused_at(with("model.probe_keys", "orthonormal"), 9), "model.probe_keys");
  EXPECT_EQ(refused_at(with("model.probe_keys", "orthonormal"), 8), "accepted");
  Options retrieval = with("model.probe_values", 3);
  retrieval.set("model.name", "retrieval");
  EXPECT_EQ(refused_at(retrieval, 9), "model.probe_values");
  EXPECT_THROW(resolve_model(retrieval, {9, 9}), OptionError);  // which asks it, for every model
}

TEST(ProbeModel, ReadsAssociationsAndNoTokens) {
  Options options = plain("linear_attention", 8);
  const Refused found = refused([&] { resolve_model(options, {.values = 4, .tokens = 4}); });
  EXPECT_EQ(found.key, "model.name");
  EXPECT_TRUE(found.says("a probe does not read")) << found.why;
  resolve_model(options, {9, 4});
  EXPECT_EQ(options.get_int("model.probe_values"), 8);
  options.set("model.width", 128);  // of a language model
  EXPECT_THROW(resolve_model(options, {9, 4}), OptionError);
}

TEST(ProbeModel, ScaleIsDerivedWithTheMemory) {
  EXPECT_EQ(plain("softmax", 8).get_double("model.probe_scale"), 4);
  EXPECT_EQ(plain("linear_attention", 8).get_double("model.probe_scale"), 1);
  EXPECT_EQ(plain("softmax", 8, {{"model.probe_scale", 3.0}}).get_double("model.probe_scale"), 3);
  EXPECT_EQ(memory_options(*find_memory("softmax"), 8, 4, 4).get_double("model.probe_scale"), 0);
}

}  // namespace crosstalk::checks::probe_test

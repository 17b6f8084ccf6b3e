// Language models of every kind of block: gradients of all parameters against central differences, with every memory;
// replicas as if alone; what is refused.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/language_checks.h"

#include <chrono>

#include "models/mixers/stack_fuzz.h"

namespace crosstalk::checks::language_test {

class MemoryInLanguage : public ::testing::TestWithParam<std::string> {
 protected:
  Options options(const Settings& settings = {}) const { return language_options_of(GetParam(), settings); }
};

TEST_P(MemoryInLanguage, GradientOfEveryParameterIsThatOfTheLoss) {
  const Options o = options();
  if (!smooth(o)) {
    GTEST_SKIP() << "kinks";
  }
  ASSERT_NO_FATAL_FAILURE(expect_language_gradients(o, language_shape(), 60));
  const Options two = options({{"model.heads", 2}, {"model.layers", 2}});
  ASSERT_NO_FATAL_FAILURE(expect_language_gradients(two, language_shape(5, 2), 80));
}

TEST_P(MemoryInLanguage, TrainsAsIfAlone) {
  ASSERT_NO_FATAL_FAILURE(expect_language_pack(options(), language_shape(), 1));
  ASSERT_NO_FATAL_FAILURE(
      expect_language_pack(options({{"model.heads", 2}}), language_shape(19, 4, 0, 3), 2));
}

TEST_P(MemoryInLanguage, RowsOfTheLastLayerAreThoseOfAll) {
  for (const Settings& settings : {Settings{}, Settings{{"model.layers", 2},
                                                        {"model.heads", 2},
                                                        {"model.mlp", "gelu"},
                                                        {"model.short_conv", "qkv"},
                                                        {"model.out_gate", "sigmoid"}}})
    ASSERT_NO_FATAL_FAILURE(expect_rows_of_all(options(settings)));
}

TEST_P(MemoryInLanguage, IsCausal) { expect_causal(options({{"model.layers", 2}})); }

INSTANTIATE_TEST_SUITE_P(Registry, MemoryInLanguage, every_memory(), memory_name);

TEST(Language, GradientOfEveryKindOfBlock) {
  for (const auto& [name, settings] : block_kinds()) {
    SCOPED_TRACE(name);
    ASSERT_NO_FATAL_FAILURE(
        expect_language_gradients(language_options_of("softmax", settings), language_shape(), 20));
    ASSERT_NO_FATAL_FAILURE(
        expect_language_gradients(language_options_of("gated_delta", settings), language_shape(7, 2), 30));
  }
}

TEST(Language, AnswersThatAreNoTokensHaveAHeadOfTheirOwn) {
  const ModelShape shape = language_shape(6, 3, 4);
  const Options options = language_options_of("softmax", {}, shape.vocabulary());
  EXPECT_FALSE(options.get_bool("model.tied_head"));
  ASSERT_NO_FATAL_FAILURE(expect_language_gradients(options, shape, 20));
}

TEST(Language, EveryKindOfBlockTrainsAsIfAlone) {
  for (const auto& [name, settings] : block_kinds()) {
    SCOPED_TRACE(name);
    const Options options = language_options_of("delta", settings);
    ASSERT_NO_FATAL_FAILURE(expect_language_pack(options, language_shape(), 1));
    ASSERT_NO_FATAL_FAILURE(expect_language_pack(options, language_shape(9, 4, 0, 3), 2));
  }
}

TEST(Language, SharedMemoryChangesNoBit) {
  for (const auto& [name, settings] : block_kinds()) {
    SCOPED_TRACE(name);
    const Options options = language_options_of("softmax", settings);
    ModelRun<float> apart(options, language_shape(), 2, true), shared(options, language_shape(), 2, true);
    shared.model.set_sharing(Sharing::lifetime);
    shared.graph = shared.model.graph(shared.shape.B, shared.shape.sequence, true);
    for (auto* run : {&apart, &shared}) {
      for (int r = 0; r < 2; ++r) give_example(*run, r, static_cast<std::uint64_t>(r));
      for (int step = 0; step < kSteps; ++step) run->train_step();
    }
    const auto a = apart.model.parameters().values(), b = shared.model.parameters().values();
    for (int r = 0; r < 2; ++r) ASSERT_TRUE(same_numbers("parameters", a.at(r), b.at(r), a.size()));
  }
}

// In evaluation nothing is dropped; in training another share in every step, the same in the same step.
TEST(Language, DropsInTrainingAlone) {
  for (const char* rate : {"model.embed_dropout", "model.dropout", "model.weight_dropout"}) {
    SCOPED_TRACE(rate);
    const Options with = language_options_of("softmax", {{rate, 0.5}}),
                  without = language_options_of("softmax", {});
    ModelRun<double> train(with, language_shape(), 1, true), test(with, language_shape(), 1, false),
        plain(without, language_shape(), 1, false);
    std::vector<double> losses;
    for (auto* run : {&train, &test, &plain}) {
      give_example(*run, 0, 3);
      run->forward();
      losses.push_back(run->loss(0));
    }
    EXPECT_NE(losses[0], losses[1]);
    EXPECT_EQ(losses[1], losses[2]);
    EXPECT_EQ(test.graph->dropout_draw, nullptr);
    train.forward();
    EXPECT_EQ(train.loss(0), losses[0]);
    train.graph->dropout_draw->at(0)[0] = 9;
    train.forward();
    EXPECT_NE(train.loss(0), losses[0]);
  }
}

// A state has no weights that could be dropped, whatever form its engine takes.
TEST(Language, DropsNoWeightsOfAState) {
  ModelRun<double> run(language_options_of("delta", {{"model.weight_dropout", 0.5}}), language_shape(), 1,
                       true);
  EXPECT_EQ(run.graph->dropout_draw, nullptr);
}

// A second pass through the same graph must not remember the first.
TEST(Language, GradientsAreTheSameInEveryPass) {
  for (const auto& [name, settings] : block_kinds()) {
    SCOPED_TRACE(name);
    const Options options = language_options_of("softmax", settings);
    ModelRun<double> used(options, language_shape(), 1, true), fresh(options, language_shape(), 1, true);
    give_example(used, 0, 3);
    used.forward(), used.backward();
    for (auto* run : {&used, &fresh}) {
      give_example(*run, 0, 4);
      run->forward(), run->backward();
    }
    const auto a = used.model.parameters().gradients(), b = fresh.model.parameters().gradients();
    ASSERT_TRUE(same_numbers("gradients", a.at(0), b.at(0), a.size()));
  }
}

// A decoder makes all answers of the last token and of the place asked: where mixers add nothing, of its embedding.
TEST(Language, ADecoderReadsTheLastTokenAndThePlace) {
  constexpr int T = 5, D = kWidth, half = D / 2;
  const Options options = language_options_of("softmax", {{"model.decoder", "last"}, {"model.norm", "rms"}});
  ModelRun<double> run(options, language_shape(T, 2, 0, 1), 1, false);
  Parameters p = run.random_parameters(3);
  for (double& w : p.at("layers.0.output.weight")) w = 0;
  run.set_parameters(0, p);
  const int tokens[T] = {4, 1, 0, 6, 2}, places[2] = {1, 4}, targets[2] = {3, 5};
  HandBatch batch(1, {T, 1, 2});
  for (int t = 0; t < T; ++t) batch.write(0, t, {tokens[t]});
  for (int q = 0; q < 2; ++q) batch.ask(0, q, tokens[places[q] - 1], targets[q], places[q]);
  run.set_batch(0, batch);
  run.forward();

  using Row = std::vector<double>;
  const auto normed = [&](const Row& x, const std::string& gain) {
    double squares = 0;
    for (const double v : x) squares += v * v;
    Row y;
    for (int i = 0; i < D; ++i)
      y.push_back(x[static_cast<std::size_t>(i)] / std::sqrt(squares / D + 1e-5) *
                  p.at(gain)[static_cast<std::size_t>(i)]);
    return y;
  };
  const auto product = [&](const std::string& weights, const Row& x, int row) {
    double sum = 0;
    for (int i = 0; i < D; ++i)
      sum += p.at(weights)[static_cast<std::size_t>(row * D + i)] * x[static_cast<std::size_t>(i)];
    return sum;
  };
  double loss = 0;
  for (int q = 0; q < 2; ++q) {
    Row x;
    for (int i = 0; i < D; ++i) {
      const double angle = (places[q] - 1) * std::pow(10000.0, -(i % half) / (half - 1.0));
      x.push_back(p.at("embedding")[static_cast<std::size_t>(tokens[T - 1] * D + i)] +
                  (i < half ? std::sin(angle) : std::cos(angle)));
    }
    for (const std::string layer : {"1", "2"}) {
      const Row in = normed(x, "decoder.norm" + layer + ".gain");
      for (int i = 0; i < D; ++i) {
        const double a = product("decoder.layer" + layer + ".weight", in, i) +
                         p.at("decoder.layer" + layer + ".bias")[static_cast<std::size_t>(i)];
        x[static_cast<std::size_t>(i)] = 0.5 * a * (1 + std::erf(a / std::sqrt(2.0)));
      }
    }
    const Row y = normed(x, "norm.gain");
    double sum = 0;
    for (int v = 0; v < kTokens; ++v) sum += std::exp(product("embedding", y, v));
    loss += std::log(sum) - product("embedding", y, targets[q]);
  }
  EXPECT_NEAR(run.loss(0), loss / 2, 1e-12 * std::abs(loss));
}

// Where mixers add nothing, what the head reads is the norm of an embedded token, of the kind that model.last_norm says.
TEST(Language, TheLastNormMayBeOfAnotherKind) {
  const Options options =
      language_options_of("softmax", {{"model.norm", "rms"}, {"model.last_norm", "layer"}});
  ModelRun<double> run(options, language_shape(4, 1, 0, 1), 1, false);
  Parameters p = run.random_parameters(3);
  EXPECT_EQ(p.count("layers.0.norm.bias"), 0u);
  for (double& w : p.at("layers.0.output.weight")) w = 0;
  run.set_parameters(0, p);
  HandBatch batch(1, {4, 1, 1});
  for (int t = 0; t < 4; ++t) batch.write(0, t, {t});
  batch.ask(0, 0, 3, 5, 4);
  run.set_batch(0, batch);
  run.forward();

  const double* x = p.at("embedding").data() + 3 * kWidth;
  double mean = 0, square = 0, sum = 0, right = 0;
  for (int i = 0; i < kWidth; ++i) mean += x[i] / kWidth;
  for (int i = 0; i < kWidth; ++i) square += (x[i] - mean) * (x[i] - mean) / kWidth;
  for (std::size_t v = 0; v < kTokens; ++v) {
    double logit = 0;
    for (std::size_t i = 0; i < kWidth; ++i)
      logit += p.at("embedding")[v * kWidth + i] *
               ((x[i] - mean) / std::sqrt(square + 1e-5) * p.at("norm.gain")[i] + p.at("norm.bias")[i]);
    sum += std::exp(logit);
    if (v == 5) right = logit;
  }
  EXPECT_NEAR(run.loss(0), std::log(sum) - right, 1e-12 * std::abs(right));
}

// The token after the last one that is equal to it: two layers of attention learn it in 150 steps.
TEST(Language, LearnsToRecall) {
  const ModelShape shape = language_shape(9, 1, 0, 32);
  ModelRun<float> run(language_options_of("softmax", {{"model.layers", 2},
                                                      {"model.stack", "base_conv memory"},
                                                      {"model.weight_deviation", 0.2},
                                                      {"model.width", 16}}),
                      shape, 1, true);
  run.model.initialise(0, 1);
  run.set_rate(0, 1e-2);
  float first = 0, loss = 0;
  for (int step = 0; step < 150; ++step) {
    RandomStream random(static_cast<std::uint64_t>(step), RandomDomain::task_train, 1);
    HandBatch batch(shape.B, shape.sequence);
    for (int b = 0; b < shape.B; ++b) {
      std::int32_t keys[4] = {0, 1, 2, 3};
      for (std::uint32_t i = 3; i > 0; --i) std::swap(keys[i], keys[random.below(i + 1)]);
      std::int32_t values[4];
      for (int i = 0; i < 4; ++i) {
        values[i] = 4 + static_cast<std::int32_t>(random.below(3));
        batch.write(b, 2 * i, {keys[i]}), batch.write(b, 2 * i + 1, {values[i]});
      }
      const auto asked = random.below(4);
      batch.write(b, 8, {keys[asked]});
      batch.ask(b, 0, keys[asked], values[asked], 9);
    }
    run.set_batch(0, batch);
    run.train_step();
    loss = run.loss(0);
    if (step == 0) first = loss;
  }
  EXPECT_GT(first, 1);
  EXPECT_LT(loss, 0.1);
}

std::string refusal(const std::string& memory, const Settings& settings, const std::string& key,
                    const Vocabulary& vocabulary = language_shape().vocabulary()) {
  const Refused found = refused([&] { language_options_of(memory, settings, vocabulary); });
  EXPECT_EQ(found.key, key) << found.why;
  return found.why;
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Language, RefusesWhatHasNoMeaning) {
  const auto stack = [&](const char* text) {
    return refusal("softmax", {{"model.stack", text}}, "model.stack");
  };
  EXPECT_TRUE(has(stack("softmax"), "no layer `memory`"));
  EXPECT_TRUE(has(stack("memory gated_dleta"), "did you mean gated_delta"));
  EXPECT_TRUE(has(stack("sliding_window(windw=3) memory"), "did you mean window"));
  EXPECT_TRUE(has(stack("sliding_window(window=x) memory"), "no whole number"));
  EXPECT_TRUE(has(stack("sliding_window(window=0) memory"), "window"));
  EXPECT_TRUE(has(stack("sliding_window(window) memory"), "option=value"));
  EXPECT_TRUE(has(stack("memory("), "parentheses"));
  EXPECT_TRUE(has(stack("memory)("), "parentheses"));
  EXPECT_TRUE(has(stack("base_conv(k=3) memory"), "model.conv_width"));
  EXPECT_TRUE(has(stack("  "), "empty"));
  EXPECT_TRUE(has(stack("base_conv memory"), "model.layers = 1"));
  EXPECT_TRUE(has(stack("memory(heads=1, heads=1)"), "heads stands twice"));
  EXPECT_TRUE(has(stack("sliding_window(window=3,d_key=8,window=4)"), "window stands twice"));
  EXPECT_TRUE(has(refusal("softmax", {{"model.heads", 4}}, "model.heads"), "does not divide"));
  EXPECT_TRUE(has(refusal("softmax", {{"model.d_value", 5}, {"model.heads", 2}}, "model.heads"),
                  "model.d_value = 5"));
  EXPECT_TRUE(has(refusal("softmax", {{"model.embedding", 5}}, "model.embedding"), "model.width"));
  EXPECT_TRUE(has(refusal("softmax", {{"model.positions", "learned"}}, "model.max_length"), "longest"));
  EXPECT_TRUE(has(refusal("softmax", {{"model.max_length", 5}}, "model.max_length"), "positions"));
  EXPECT_TRUE(has(refusal("softmax", {}, "model.name", {5, 4, false}), "associations"));
  EXPECT_TRUE(has(refusal("delta", {{"memory.read_norm", "attention"}}, "memory.read_norm"), "beside"));
  EXPECT_TRUE(
      has(refusal("softmax", {{"model.init", "no.weight = 0"}}, "model.init"), "layers.0.query.weight"));
}

TEST(Language, AnyBytesAreAStackOrAreRefused) {
  for (const std::string good : {"base_conv memory(heads=2, scale=1.5,bias=true) sliding_window(window=16)",
                                 "memory()\tmemory (heads = 2)\n"}) {
    for (std::size_t at = 0; at < good.size(); ++at) {
      check_stack_reader(good.substr(0, at));
      check_stack_reader(good.substr(at));
      for (const char c : {'(', ')', ',', '=', ' ', '\n', '-', '9', 'e', '\0', '\xff'}) {
        std::string changed = good;
        changed[at] = c;
        check_stack_reader(changed);
      }
    }
  }
}

// Counted before anything is made of it: 10^5 layers took 22 GB.
TEST(Language, AStackOfManyLayersIsRefusedInNoTime) {
  std::string text;
  for (int n = 0; n < 100000; ++n) text += "memory ";
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(has(refusal("softmax", {{"model.stack", text}}, "model.stack"), "names more than 256 layers"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST(Language, RetrievalRefusesWhatIsOfTheLanguageModel) {
  Options options = memory_options(*find_memory("softmax"), 4, kKeys, kValues);
  options.set("model.width", 128);
  Refused found = refused([&] { resolve_model(options, {kKeys, kValues}); });
  EXPECT_EQ(found.key, "model.width");
  EXPECT_TRUE(found.says("model.name = \"language\"")) << found.why;
  options.set("model.width", 64);
  options.set("task.name", "mqar");
  found = refused([&] { resolve_model(options, {.values = 4, .tokens = 4}); });
  EXPECT_EQ(found.key, "model.name");
  EXPECT_TRUE(found.says("task.name = \"mqar\"") && found.says("add model.name = \"language\"")) << found.why;
}

TEST(Language, LongerSequencesThanPositionsAreRefused) {
  const Options options =
      language_options_of("softmax", {{"model.positions", "learned"}, {"model.max_length", 4}});
  const Refused found = refused([&] { ModelRun<float>(options, language_shape(5, 1), 1, false); });
  EXPECT_EQ(found.key, "model.max_length");
}

TEST(Language, SizesThatAreNotGivenFollowTheWidth) {
  Options options = language_options_of("softmax", {{"model.width", 48}});
  EXPECT_EQ(options.get_int("model.d_key"), 48);
  EXPECT_EQ(options.get_int("model.d_value"), 48);
  Options retrieval = memory_options(*find_memory("softmax"), 0, kKeys, kValues);
  EXPECT_EQ(retrieval.get_int("model.d_key"), 64);
}

}  // namespace crosstalk::checks::language_test

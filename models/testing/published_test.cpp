// The layers of authors (Memory::published), over the registry: every key is an option, every value allowed, the layer
// builds, and has as many parameters as its source counts. What those that python/tests/published transcribes compute and how they start
// is held there.
// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/language_options.h"
#include "models/parts/model_parts.h"
#include "models/testing/differences.h"
#include "models/testing/published_layer.h"

namespace crosstalk::checks::published_test {

const OptionSpec* option_of(const Memory& kind, const std::string& key) {
  const bool of_memory = key.starts_with("memory.");
  for (const OptionSpec& spec : of_memory ? kind.options : model_options())
    if ((of_memory ? "memory." : "model.") + spec.name == key) return &spec;
  return nullptr;
}

class Published : public ::testing::TestWithParam<std::string> {
 protected:
  const Memory& kind() const { return *find_memory(GetParam()); }
};

TEST_P(Published, SetsOptionsThatThereAreToValuesThatTheyMayHave) {
  std::set<std::string> keys;
  for (const auto& [key, value] : kind().published.set) {
    const OptionSpec* spec = option_of(kind(), key);
    ASSERT_NE(spec, nullptr) << key << " is no option";
    EXPECT_TRUE(keys.insert(key).second) << key << " stands twice";
    EXPECT_NO_THROW(check_option(*spec, key.substr(0, key.find('.')), value)) << key;
    EXPECT_EQ(value.index(), spec->default_value.index()) << key << " has another type";
    EXPECT_NE(value, spec->default_value) << key << " is the default";
  }
  EXPECT_TRUE(kind().published || kind().published.set.empty()) << "a layer without a source";
}

/// Of the layer without the norm before it; and what they are.
std::int64_t parameters_of(const Options& options, std::string& names) {
  const ModelShape shape = {0, kTokens, false, 1, {8, 1, 3}, kTokens};
  ModelRun<float> run(options, shape, 1, true);
  std::int64_t n = 0;
  auto& block = run.model.parameters();
  for (int i = 0; i < block.count(); ++i) {
    const std::string& name = block.name(i);
    if (!name.starts_with("layers.0.") || name.starts_with("layers.0.norm.")) continue;
    n += block.value(i).size();
    names += " " + name + ":" + std::to_string(block.value(i).size());
  }
  return n;
}

TEST_P(Published, HasTheParametersThatItsSourceCounts) {
  if (!kind().published) {
    GTEST_SKIP() << "no layer of its authors";
  }
  std::string names;
  const std::int64_t n = parameters_of(published_options(kind()), names);
  if (kind().published.parameters > 0) {
    EXPECT_EQ(n, kind().published.parameters) << names;
  }
}

TEST_P(Published, HasRightGradients) {
  if (!kind().published) {
    GTEST_SKIP() << "no layer of its authors";
  }
  const Options options = published_options(kind(), {{"model.width", 8}});
  if (!smooth(options)) {
    GTEST_SKIP() << "kinks";
  }
  ModelRun<double> run(options, language_shape(5, 2, 0, 1), 1, true);
  give_example(run, 0, 11);
  ASSERT_NO_FATAL_FAILURE(expect_gradients(run, 1));
}

INSTANTIATE_TEST_SUITE_P(Registry, Published, every_memory(), memory_name);

// Sources divide queries by sqrt(K) before a norm with eps 1e-5 (fla: the default scale of its kernels), or say another eps. Of
// width 64 and 2 heads.
TEST(PublishedLayer, EpsOfTheNormIsThatOfTheSource) {
  const auto eps = [](const char* name, const Settings& more = {}) {
    return published_options(*find_memory(name), more).get_double("model.out_norm_eps");
  };
  EXPECT_EQ(eps("gla"), 1.6e-4);
  EXPECT_EQ(eps("gla", {{"model.width", 256}}), 6.4e-4);
  for (const char* name :
       {"simple_gla", "deltanet", "gated_delta", "gated_delta2", "delta_product", "comba", "kda",
        "complex_kda", "precond_gated_delta", "precond_kda", "mom", "log_linear_gated_delta", "hgrn2",
        "iso_kdn", "diag_kdn", "momentum_deltanet", "q_delta"}) {
    const Options options = published_options(*find_memory(name));
    EXPECT_DOUBLE_EQ(options.get_double("model.out_norm_eps"),
                     1e-5 * static_cast<double>(options.get_int("model.d_key")) / 2)
        << name;
  }
  EXPECT_EQ(eps("retnet"), 3.2e-5);
  EXPECT_EQ(eps("rwkv6"), 64e-5);
  EXPECT_EQ(eps("rwkv7"), 32e-5);
  for (const char* name : {"mesa", "gsa", "raven", "mamba2", "log_linear_attention", "mlstm", "slstm"})
    EXPECT_EQ(eps(name), 1e-5) << name;
  for (const char* name : {"fox", "ttt_linear", "ttt_mlp"}) EXPECT_EQ(eps(name), 1e-6) << name;
}

// What a study says of eps stands; an entry of the stack has the eps of its own heads.
TEST(PublishedLayer, EpsOfTheNormCanBeSaidAndIsThatOfEachEntry) {
  Options options = published_options(*find_memory("kda"), {{"model.out_norm_eps", 1e-3}});
  EXPECT_DOUBLE_EQ(options.get_double("model.out_norm_eps"), 1e-3 * 32);
  options.set("model.out_norm_eps", 1e-3);
  publish(options, *find_memory("kda"), {"model.out_norm_eps"});
  EXPECT_EQ(options.get_double("model.out_norm_eps"), 1e-3);
  const auto stack = [](const char* text) {
    return published_options(*find_memory("mesa"), {{"model.stack", std::string(text)}, {"model.layers", 2}})
        .get_string("model.stack");
  };
  EXPECT_NE(stack("gla memory").find("out_norm_eps=0.00016"), std::string::npos) << stack("gla memory");
  EXPECT_NE(stack("kda(heads=4) memory").find("out_norm_eps=0.00016"), std::string::npos);
  EXPECT_NE(stack("kda(out_norm_eps=0.5) memory").find("out_norm_eps=0.5"), std::string::npos);
  EXPECT_EQ(stack("kda(out_norm_eps=0.5) memory").find("out_norm_eps=0.0"), std::string::npos);
  EXPECT_NE(stack("rwkv6 memory").find("out_norm_eps=0.00064"), std::string::npos);
}

// Layers of sources whose sizes or forms are others than those of the registry's test.
TEST(PublishedLayer, OtherSizesAndFormsHaveTheirParameters) {
  std::string names;
  const auto whole = [](std::int64_t n) { return OptionValue(n); };
  // The layer of Zoology's standard mixture (there 25,926: with a D that nothing reads).
  EXPECT_EQ(
      parameters_of(published_options(*find_memory("gated_delta"), {{"model.out_gate", "none"}}), names),
      25924);
  // FoX in the layer of LLaMA: no shift, no norms, no gate.
  EXPECT_EQ(parameters_of(published_options(*find_memory("fox"), {{"model.token_shift", "none"},
                                                                  {"model.token_shift_law", "channel"},
                                                                  {"model.qk_norm", "none"},
                                                                  {"model.out_norm", "none"},
                                                                  {"model.out_norm_eps", 1e-5},
                                                                  {"model.biases", ""},
                                                                  {"model.out_gate", "none"}}),
                          names),
            16514);
  // The layer of Complex KDA's word problems: width 48, 12 heads of 16, no convolution, no SiLU.
  EXPECT_EQ(parameters_of(published_options(*find_memory("complex_kda"), {{"model.width", whole(48)},
                                                                          {"model.heads", whole(12)},
                                                                          {"model.d_key", whole(192)},
                                                                          {"model.d_value", whole(192)},
                                                                          {"model.short_conv", "none"},
                                                                          {"model.silu", "none"}}),
                          names = ""),
            45532)
      << names;
}

// Ranks of its low-rank maps at other widths, heads of 64 (fla-org/flash-linear-attention fla/layers/rwkv7.py): decays and rates 2.5
// sqrt(width) in multiples of 32, values 1.7 sqrt(width), the gate 5 sqrt(width); halves go to the even multiple.
TEST(PublishedLayer, RanksOfRwkv7GrowWithTheWidth) {
  struct Ranks {
    int width, decay, gate, value;
  };
  for (const Ranks& want :
       {Ranks{64, 32, 32, 32}, {256, 32, 64, 32}, {512, 64, 128, 32}, {1024, 64, 160, 64}}) {
    SCOPED_TRACE(want.width);
    ModelRun<float> run(
        published_options(*find_memory("rwkv7"), {{"model.width", std::int64_t{want.width}},
                                                  {"model.heads", std::int64_t{want.width / 64}},
                                                  {"model.layers", 2}}),
        {0, kTokens, false, 1, {2, 1, 1}, kTokens}, 1, true);
    EXPECT_EQ(run.parameter("layers.1.decay.down.weight").dim(0), want.decay);
    EXPECT_EQ(run.parameter("layers.1.rate.down.weight").dim(0), want.decay);
    EXPECT_EQ(run.parameter("layers.1.out_gate.down.weight").dim(0), want.gate);
    EXPECT_EQ(run.parameter("layers.1.value_residual.down.weight").dim(0), want.value);
  }
}

TEST(PublishedLayer, ValueResidualHasRightGradients) {
  ModelRun<double> run(published_options(*find_memory("rwkv7"), {{"model.layers", 2}, {"model.width", 8}}),
                       language_shape(5, 2, 0, 1), 1, true);
  give_example(run, 0, 11);
  ASSERT_NO_FATAL_FAILURE(expect_gradients(run, 1));
}

TEST(PublishedLayer, AnEntryOfTheStackIsWrittenOutWithItsAuthorsSettings) {
  const Memory& delta = *find_memory("deltanet");
  const Options options =
      published_options(delta, {{"model.layers", 2}, {"model.stack", "gla(out_gate=none) memory"}});
  const std::string& stack = options.get_string("model.stack");
  EXPECT_TRUE(stack.starts_with("gla(out_gate=none")) << stack;
  EXPECT_TRUE(stack.ends_with(") memory")) << stack;
  for (const char* part : {"out_norm=rms", "out_norm_gain=shared", "short_conv=none", "silu=none"})
    EXPECT_NE(stack.find(part), stack.npos) << stack << " lacks " << part;
  const std::vector<LanguageLayer> layers = language_layers(options);
  EXPECT_EQ(layers[0].options.get_string("model.short_conv"), "none");
  EXPECT_EQ(layers[1].options.get_string("model.short_conv"), "qkv");
}

TEST(PublishedLayer, WithoutItsConvolutionNothingSaysHowItStarts) {
  const Memory& delta = *find_memory("deltanet");
  Options options = published_options(delta, {{"model.short_conv", "none"}});
  publish(options, delta, {"model.short_conv"});
  EXPECT_EQ(options.get_string("model.short_conv_start"), "uniform");
  EXPECT_NO_THROW(resolve_parts(options));
}

// What models of flash-linear-attention draw by isinstance(module, (nn.Linear, nn.Conv1d)), against PyTorch's start, which is what
// layers without such a model, Mamba's and Longhorn's own models, xLSTM and Zoology have.
TEST(PublishedLayer, ConvolutionsStartAsInTheirModels) {
  std::set<std::string> normal = {"comba",
                                  "complex_kda",
                                  "delta_product",
                                  "deltanet",
                                  "gated_delta",
                                  "kda",
                                  "log_linear_attention",
                                  "log_linear_gated_delta",
                                  "mesa",
                                  "mom",
                                  "path",
                                  "path_fox",
                                  "precond_gated_delta",
                                  "precond_kda"};
  for (const Memory& kind : all_memories()) {
    if (!kind.published) continue;
    SCOPED_TRACE(kind.name);
    ModelRun<float> run(published_options(kind), {0, kTokens, false, 1, {8, 1, 3}, kTokens}, 1, true);
    const bool is_normal = normal.erase(kind.name) != 0;
    auto& block = run.model.parameters();
    int taps = 0;
    for (int i = 0; i < block.count(); ++i) {
      const std::string name = block.name(i), law = block.init(i).text();
      if (name.find("short_conv.") == name.npos && name.find("path_key_conv") == name.npos) continue;
      ++taps;
      if (is_normal) {
        EXPECT_EQ(law, name.ends_with(".bias") ? "0" : "N(0, 0.02^2)") << name;
      } else {
        EXPECT_TRUE(law.starts_with("U(-0.5, 0.5)") || law.starts_with("U(-0.577")) << name << " " << law;
      }  // of four or three taps
    }
    EXPECT_TRUE(!is_normal || taps > 0);
  }
  EXPECT_TRUE(normal.empty());
}

TEST(PublishedLayer, EveryDifferenceHasAConsequence) {
  for (const Memory& kind : all_memories())
    for (const Difference& one : kind.published.lacks) {
      EXPECT_FALSE(one.what.empty() || one.consequence.empty()) << kind.name;
      for (const std::string* text : {&one.what, &one.consequence})
        EXPECT_FALSE(text->ends_with('.')) << kind.name << ": sentences end where they are printed";
    }
}

// The bias of sLSTM's exponential gate in the last of two layers: 5 - 12 x^1.6 over a head's channels (there by block).
TEST(PublishedLayer, BiasesOfSlstmDependOnTheLayer) {
  ModelRun<double> run(published_options(*find_memory("slstm"), {{"model.layers", 2}}),
                       {0, kTokens, false, 1, {8, 1, 3}, kTokens}, 1, true);
  run.model.initialise(0, 5);
  const double x = 5.0 / 31;
  EXPECT_NEAR(run.parameter("layers.0.input_gate.bias").at(0)[5], 5 - 12 * std::pow(x, 0.3), 1e-12);
  EXPECT_NEAR(run.parameter("layers.1.input_gate.bias").at(0)[5], 5 - 12 * std::pow(x, 1.6), 1e-12);
}

}  // namespace crosstalk::checks::published_test

// How the layers of authors start, and what in them differs from layer to layer: convolutions, decays, bounds, blocks. What is expected
// is read from the authors' sources, whose commits the memories name.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "models/memories/memory_file.h"
#include "models/mixers/layer_model.h"
#include "models/parts/model_parts.h"
#include "models/testing/published_layer.h"

namespace crosstalk::checks {
namespace published_starts_test {

const ModelShape kShape = {0, kTokens, false, 1, {8, 1, 3}, kTokens};

/// Laws of the parameters of a published layer of width 64 with 2 heads, by name.
std::map<std::string, std::string> starts(const std::string& memory, const Settings& more = {}) {
  ModelRun<float> run(published_options(*find_memory(memory), more), kShape, 1, true);
  std::map<std::string, std::string> laws;
  auto& block = run.model.parameters();
  for (int i = 0; i < block.count(); ++i) laws[block.name(i)] = block.init(i).text();
  return laws;
}

const Settings kTwoLayers = {{"model.layers", 2}};

// What models of flash-linear-attention draw by isinstance(module, (nn.Linear, nn.Conv1d)), against PyTorch's start, which is what
// layers without such a model, Mamba's and Longhorn's own models, xLSTM and Zoology have.
TEST(PublishedStarts, ConvolutionsStartAsInTheirModels) {
  const std::set<std::string> normal = {"comba",
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
  std::set<std::string> convolved;
  for (const Memory& kind : all_memories()) {
    if (!kind.published) continue;
    SCOPED_TRACE(kind.name);
    for (const auto& [name, law] : starts(kind.name)) {
      const bool taps = name.find("short_conv.") != name.npos || name.find("path_key_conv") != name.npos;
      if (!taps) continue;
      convolved.insert(kind.name);
      const bool bias = name.ends_with(".bias");
      if (normal.count(kind.name) != 0)
        EXPECT_EQ(law, bias ? "0" : "N(0, 0.02^2)") << name;
      else
        EXPECT_TRUE(law.starts_with("U(-0.5, 0.5)") || law.starts_with("U(-0.577"))
            << name << " " << law;  // of four or three taps
    }
  }
  for (const std::string& name : normal) EXPECT_EQ(convolved.count(name), 1U) << name;
}

TEST(PublishedStarts, WithoutItsConvolutionNothingSaysHowItStarts) {
  const Settings none = {{"model.short_conv", "none"}};
  const Memory& delta = *find_memory("deltanet");
  Options options = published_options(delta, none);
  publish(options, delta, {"model.short_conv"});
  EXPECT_EQ(options.get_string("model.short_conv_start"), "uniform");
  EXPECT_NO_THROW(resolve_parts(options));
}

TEST(PublishedStarts, EveryDifferenceHasAConsequence) {
  for (const Memory& kind : all_memories())
    for (const Difference& one : kind.published.lacks) {
      EXPECT_FALSE(one.what.empty() || one.consequence.empty()) << kind.name;
      for (const std::string* text : {&one.what, &one.consequence})
        EXPECT_FALSE(text->ends_with('.')) << kind.name << ": sentences end where they are printed";
    }
}

// torchscale: U(-b, b), b = 2^(-5/2) sqrt(6 / (64 + 64)) of queries and keys, with 64 + 128 of values and gate; 1 for the output.
TEST(PublishedStarts, RetnetStartsAsXavier) {
  const auto laws = starts("retnet");
  const auto bound = [](double gain, int sum) { return Init::uniform(gain * std::sqrt(6.0 / sum)).text(); };
  const double gain = std::pow(2, -2.5);
  EXPECT_EQ(laws.at("layers.0.query.weight"), bound(gain, 128));
  EXPECT_EQ(laws.at("layers.0.key.weight"), bound(gain, 128));
  EXPECT_EQ(laws.at("layers.0.value.weight"), bound(gain, 192));
  EXPECT_EQ(laws.at("layers.0.out_gate.weight"), bound(gain, 192));
  EXPECT_EQ(laws.at("layers.0.output.weight"), bound(1, 192));
}

// xlstm/components/init.py: N(0, 2 / (5 width)), and the output N(0, (2 / blocks)^2 / width); gates of mLSTM at 0.
TEST(PublishedStarts, LayersOfXlstmStartSmall) {
  const auto laws = starts("mlstm", kTwoLayers);
  const std::string small = Init::normal(std::sqrt(2.0 / (5 * 64))).text();
  for (const char* name : {"up", "query", "key", "value", "out_gate"})
    EXPECT_EQ(laws.at(std::string("layers.1.") + name + ".weight"), small) << name;
  EXPECT_EQ(laws.at("layers.1.output.weight"), Init::normal(2 / (2 * std::sqrt(64.0))).text());
  const auto cells = starts("slstm", kTwoLayers);
  for (const char* name : {"value", "input_gate", "forget_gate", "output_gate"})
    EXPECT_EQ(cells.at(std::string("layers.1.") + name + ".weight"), small) << name;
  EXPECT_EQ(cells.count("layers.1.short_conv.input"), 1U);
  EXPECT_THROW(starts("slstm", {{"model.input_conv", "input_gat"}}), OptionError);
}

// The bias of sLSTM's exponential gate in the last of two layers: 5 - 12 x^1.6 over a head's channels (there by block).
TEST(PublishedStarts, BiasesOfSlstmDependOnTheLayer) {
  ModelRun<double> run(published_options(*find_memory("slstm"), kTwoLayers), kShape, 1, true);
  run.model.initialise(0, 5);
  const double x = 5.0 / 31;
  EXPECT_NEAR(run.parameter("layers.0.input_gate.bias").at(0)[5], 5 - 12 * std::pow(x, 0.3), 1e-12);
  EXPECT_NEAR(run.parameter("layers.1.input_gate.bias").at(0)[5], 5 - 12 * std::pow(x, 1.6), 1e-12);
}

// fla: zeros behind a softmax over the layers, summed: 0, 1/3, 2/3 of three.
TEST(PublishedStarts, BoundsOfHgrn2GrowWithTheLayer) {
  const auto laws = starts("hgrn2", {{"model.layers", 3}});
  EXPECT_EQ(laws.count("layers.0.memory.bound"), 0U);
  EXPECT_NEAR(std::stod(laws.at("layers.1.memory.bound")), std::log(0.5), 1e-4);
  EXPECT_NEAR(std::stod(laws.at("layers.2.memory.bound")), std::log(2.0), 1e-4);
  EXPECT_EQ(published_options(*find_memory("hgrn2")).get_string("memory.bounds"), "same");
}

TEST(PublishedStarts, AQuarterOfTheKeysOfMamba3AreTurned) {
  const auto angles = [](std::int64_t width) {
    return published_options(*find_memory("mamba3"), {{"model.width", width}}).get_int("memory.angles");
  };
  EXPECT_EQ(angles(64), 4);  // heads of 16
  EXPECT_EQ(angles(512), 32);
}

// xlstm/blocks/mlstm/layer.py and cell.py at width 8 with 2 heads, written down for the first token: projection up, convolution, maps of
// four channels, an input gate that sees q, k and v, norm head by head, skip, gate.
TEST(PublishedStarts, BlockOfMlstmIsThatOfXlstm) {
  constexpr std::size_t kInner = 16, kV = 8;
  LayerModel<double> layer(published_options(*find_memory("mlstm"), {{"model.width", 8}}), 0, {});
  std::map<std::string, Vector> w;
  RandomStream random(3, RandomDomain::initialisation, 1);
  const auto draw = [&](const Tensor<double>& to) {
    for (std::int64_t i = 0; i < to.size(); ++i) to.at(0)[i] = 0.6 * normal_from_uniform(random.uniform());
    return Vector(to.at(0), to.at(0) + to.size());
  };
  auto& block = layer.parameters();
  for (int i = 0; i < block.count(); ++i) w[block.name(i).substr(9)] = draw(block.value(i));
  const Vector x = draw(layer.x()->value);
  layer.graph().forward({});

  const auto silu = [](double a) { return a / (1 + std::exp(-a)); };
  /// W from; `size` neighbours of it each.
  const auto mapped = [&](const std::string& name, const Vector& from, std::size_t size) {
    const Vector& m = w.at(name + ".weight");
    Vector y(m.size() / size, 0);
    for (std::size_t o = 0; o < y.size(); ++o)
      for (std::size_t i = 0; i < size; ++i)
        y[o] += m[o * size + i] * from[size < from.size() ? o / size * size + i : i];
    return y;
  };
  const Vector up = mapped("up", x, 8), z = mapped("out_gate", x, 8);
  Vector c(kInner), h_state(kInner);
  for (std::size_t i = 0; i < kInner; ++i)
    c[i] = silu(w.at("short_conv.up.bias")[i] + w.at("short_conv.up")[4 * i + 3] * up[i]);
  const Vector q = mapped("query", c, 4), k = mapped("key", c, 4), v = mapped("value", up, 4);
  const Vector from_v = mapped("input_gate", v, 16), from_q = mapped("input_gate.query", q, 16),
               from_k = mapped("input_gate.key", k, 16);
  for (std::size_t h = 0; h < 2; ++h) {
    const double gate = std::exp(from_v[h] + from_q[h] + from_k[h] + w.at("input_gate.bias")[h]);
    double product = 0, mean = 0, squares = 0;
    for (std::size_t a = h * kV; a < (h + 1) * kV; ++a) product += gate * k[a] * q[a] / std::sqrt(kV);
    const double read = product / std::max(std::abs(product), 1.0);
    for (std::size_t a = h * kV; a < (h + 1) * kV; ++a) mean += read * v[a] / kV;
    for (std::size_t a = h * kV; a < (h + 1) * kV; ++a) squares += std::pow(read * v[a] - mean, 2) / kV;
    for (std::size_t a = h * kV; a < (h + 1) * kV; ++a)
      h_state[a] = (w.at("out_norm.gain")[a] * (read * v[a] - mean) / std::sqrt(squares + 1e-5) +
                    w.at("out_skip")[a] * c[a]) *
                   silu(z[a]);
  }
  const Vector want = mapped("output", h_state, 16);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(layer.y()->value.at(0)[i], want[i], 1e-10) << i;
}

}  // namespace published_starts_test
}  // namespace crosstalk::checks

// What is seen inside a layer of a language model is what the layer calculates with: over the registry.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "experiments/inspect/inspect.h"
#include "experiments/study/study.h"
#include "models/memory.h"
#include "models/model.h"
#include "results/test_refusal.h"
#include "tasks/sequence_buffer.h"

namespace crosstalk {
namespace {

constexpr double kTolerance = 1e-10;
constexpr std::uint64_t kSequence = 2;

Options config_of(const std::string& memory, const std::string& base = "") {
  return parse_study(
             "[study]\nname = \"t\"\nseeds = [3]\n[base]\ntask.name = \"mqar\"\ntask.vocabulary = 16\n"
             "task.length = 12\ntask.pairs = 3\nmodel.name = \"language\"\nmodel.width = 8\nmodel.d_key = 8\nmodel.heads = 2\n"
             "model.weight_deviation = 0.5\n" +
                 base + "\n[memories.m]\nname = \"" + memory + "\"\n",
             "t.toml")
      .runs.at(0)
      .config;
}

std::unique_ptr<Model<double>> model_of(const Options& config) {
  const Vocabulary v = find_task(config.get_string("task.name"))->make(config)->vocabulary();
  auto model = make_model<double>(config, v, Device::cpu, 1);
  model->initialise(0, 7);
  return model;
}

Inspection look(const Options& config, std::optional<int> layer = {}, std::optional<int> head = {}) {
  const Weights weights = weights_of(model_of(config)->parameters(), Device::cpu, 0);
  return inspect(config, weights,
                 {.split = Split::test, .sequence = kSequence, .layer = layer, .head = head});
}

const InspectArray& need(const Inspection& inspection, const std::string& name) {
  const InspectArray* array = inspection.find(name);
  if (array == nullptr) throw std::runtime_error("there is no array " + name);
  return *array;
}

/// Losses [Q] of the model as it is evaluated, in its usual forms and with the last layer only where answers are due.
std::vector<double> plain_losses(const Options& config) {
  const auto task = find_task(config.get_string("task.name"))->make(config);
  SequenceBuffer buffer(*task, Split::test);
  const SequenceView sequence =
      buffer.draw(static_cast<std::uint64_t>(config.get_int("data_seed")), kSequence);
  const Weights weights = weights_of(model_of(config)->parameters(), Device::cpu, 0);
  const auto model = model_of(config);
  load_weights(weights, model->parameters(), Device::cpu, 0);
  const auto graph = model->graph(1, sequence.shape, false, 1);
  const auto fill = [](const Tensor<std::int32_t>* to, const std::int32_t* from) {
    std::copy(from, from + to->size(), to->at(0));
  };
  fill(graph->batch.tokens, sequence.tokens), fill(graph->batch.query, sequence.query);
  fill(graph->batch.position, sequence.query_position), fill(graph->batch.target, sequence.target);
  graph->feature_seed->at(0)[0] = static_cast<std::int32_t>(config.get_int("data_seed"));
  graph->feature_seed->at(0)[1] = 0;
  graph->feature_draw->at(0)[0] = 0;
  graph->graph.forward({});
  const Tensor<double>& losses = graph->loss.query_loss->value;
  return {losses.at(0), losses.at(0) + losses.size()};
}

/// Cross-entropy [Q] of the logits that are shown.
std::vector<double> losses_of(const Inspection& seen) {
  const InspectArray &logits = need(seen, "output"), &answer = need(seen, "answer");
  const auto n = static_cast<std::size_t>(logits.dims[1]);
  std::vector<double> losses;
  for (std::size_t q = 0; q < answer.data.size(); ++q) {
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += std::exp(logits.data[q * n + i]);
    losses.push_back(std::log(sum) - logits.data[q * n + static_cast<std::size_t>(answer.data[q])]);
  }
  return losses;
}

void expect_near(const std::vector<double>& a, const std::vector<double>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_TRUE(std::abs(a[i] - b[i]) <= kTolerance * (1 + std::abs(b[i])))
        << what << " at " << i << ": " << a[i] << ", " << b[i];
}

/// weights [H,T,M] times v [M,H,V]: [T,H,V].
std::vector<double> weighted_values(const Inspection& seen) {
  const InspectArray &w = need(seen, "read_weights"), &v = need(seen, "v");
  const auto H = w.dims[0], T = w.dims[1], M = w.dims[2], V = v.dims[2];
  std::vector<double> sum(static_cast<std::size_t>(T * H * V), 0);
  for (std::int64_t h = 0; h < H; ++h)
    for (std::int64_t t = 0; t < T; ++t)
      for (std::int64_t m = 0; m < M; ++m)
        for (std::int64_t i = 0; i < V; ++i)
          sum[static_cast<std::size_t>((t * H + h) * V + i)] +=
              w.data[static_cast<std::size_t>((h * T + t) * M + m)] *
              v.data[static_cast<std::size_t>((m * H + h) * V + i)];
  return sum;
}

class InspectLayer : public ::testing::TestWithParam<std::string> {};

TEST_P(InspectLayer, ShowsWhatItCalculatesWith) {
  const Memory& kind = *find_memory(GetParam());
  const Options config = config_of(kind.name, "model.layers = 2");
  for (const int layer : {0, 1}) {
    SCOPED_TRACE(layer);
    const Inspection seen = look(config, layer);
    EXPECT_EQ(seen.layer, layer);
    std::set<std::string> names;
    for (const InspectArray& array : seen.arrays) {
      EXPECT_TRUE(names.insert(array.name).second) << array.name;
      std::int64_t size = 1;
      for (const std::int64_t n : array.dims) size *= n;
      EXPECT_EQ(size, std::ssize(array.data)) << array.name;
      EXPECT_FALSE(array.meaning.empty() || array.shape.empty()) << array.name;
      for (const double x : array.data)
        EXPECT_TRUE(std::isfinite(x) || array.name == "half_life") << array.name;
    }
    expect_near(losses_of(seen), plain_losses(config), "losses");
    EXPECT_EQ(need(seen, "retrieved").dims, (std::vector<std::int64_t>{12, 2, 4}));
    for (const MemoryInput& input : kind.inputs)
      EXPECT_TRUE(input.optional || seen.find(input.name) != nullptr) << input.name;
    // These do something to what they have read, to the values that they write, or read their own token beside the rest.
    static const std::set<std::string> processed = {"fwm",   "gated_attention", "gated_delta2",
                                                    "mlstm", "memory_mosaics",  "rwkv6"};
    const bool normed =
        config.has("memory.read_norm") && config.get_string("memory.read_norm") == "layernorm";
    if (seen.find("read_weights") != nullptr && seen.find("v") != nullptr && !normed &&
        processed.count(kind.name) == 0)
      expect_near(weighted_values(seen), need(seen, "retrieved").data, "weights times values");
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, InspectLayer, ::testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const Memory& kind : all_memories()) names.push_back(kind.name);
                           return names;
                         }()),
                         [](const auto& one) { return one.param; });

TEST(InspectLanguage, RowsOfSoftmaxSumToOneAndLookBackAlone) {
  const Inspection seen = look(config_of("softmax", "model.layers = 2"), 1);
  const InspectArray& weights = need(seen, "read_weights");
  const std::int64_t T = weights.dims[1];
  ASSERT_EQ(weights.dims, (std::vector<std::int64_t>{2, T, T}));
  for (std::int64_t row = 0; row < 2 * T; ++row) {
    double sum = 0;
    for (std::int64_t m = 0; m < T; ++m) {
      const double w = weights.data[static_cast<std::size_t>(row * T + m)];
      sum += w;
      if (m > row % T) {
        EXPECT_EQ(w, 0) << "of a later token";
      }
    }
    EXPECT_NEAR(sum, 1, 1e-12);
  }
}

// After the last token the state is what the last token reads.
TEST(InspectLanguage, StatesAreThoseThatAreRead) {
  for (const char* name : {"delta", "gated_delta", "kda", "gla", "retnet", "linear_attention"}) {
    SCOPED_TRACE(name);
    const Options config = config_of(name, "model.layers = 2");
    const Inspection seen = look(config, 1);
    if (seen.find("state_z") != nullptr) continue;  // divided
    const InspectArray &S = need(seen, "state_S"), &q = need(seen, "phi_q"), &o = need(seen, "retrieved");
    const auto H = S.dims[1], V = S.dims[2], K = S.dims[3], T = q.dims[0];
    std::vector<double> read(static_cast<std::size_t>(H * V), 0);
    for (std::int64_t hv = 0; hv < H * V; ++hv)
      for (std::int64_t k = 0; k < K; ++k)
        read[static_cast<std::size_t>(hv)] +=
            S.data[static_cast<std::size_t>(hv * K + k)] *
            q.data[static_cast<std::size_t>(((T - 1) * H + hv / V) * K + k)];
    expect_near(read, {o.data.end() - H * V, o.data.end()}, "state times query");
  }
}

TEST(InspectLanguage, AHeadIsItsPartOfTheArrays) {
  const Options config = config_of("gated_delta", "model.layers = 2");
  const Inspection all = look(config, 1), one = look(config, 1, 1);
  const InspectArray &weights = need(all, "read_weights"), &kept = need(one, "read_weights");
  ASSERT_EQ(kept.dims[0], 1);
  expect_near(kept.data, {weights.data.begin() + std::ssize(weights.data) / 2, weights.data.end()}, "head 1");
  const InspectArray &beta = need(all, "beta"), &of_one = need(one, "beta");
  ASSERT_EQ(of_one.dims, (std::vector<std::int64_t>{12, 1, 1}));
  for (std::size_t t = 0; t < 12; ++t) EXPECT_EQ(of_one.data[t], beta.data[2 * t + 1]);
  EXPECT_EQ(need(one, "effective_rank").dims.back(), 1);
  expect_near(need(one, "output").data, need(all, "output").data, "logits are those of the model");
}

std::string refusal(const Options& config, std::optional<int> layer, std::optional<int> head) {
  return crosstalk::testing::refusal_of<std::out_of_range>([&] { look(config, layer, head); });
}

TEST(InspectLanguage, TheFirstMemoryIsShownUnlessALayerIsNamed) {
  const Options config = config_of(
      "delta", "model.layers = 3\nmodel.stack = \"base_conv sliding_window(window=4) memory(heads=4)\"");
  EXPECT_EQ(look(config).layer, 1);
  EXPECT_EQ(look(config).find("beta"), nullptr);
  EXPECT_EQ(need(look(config, 2), "beta").dims[1], 4);
  const std::string there = "layers with a memory: 1 (sliding_window), 2 (delta)";
  EXPECT_EQ(refusal(config, 0, {}), "layer 0: base_conv is no memory; " + there);
  EXPECT_EQ(refusal(config, 3, {}), "layer 3: there is none; " + there);
  EXPECT_EQ(refusal(config, 2, 4), "head 4: delta has heads 0 to 3");
  EXPECT_EQ(refusal(config, 2, 3), "");
}

}  // namespace
}  // namespace crosstalk

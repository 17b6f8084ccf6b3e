// What is seen inside memories is what they calculate with: over the registry.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/inspect/inspect.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "experiments/study/study.h"
#include "models/memory.h"
#include "models/model.h"

namespace crosstalk {
namespace {

constexpr double kTolerance = 1e-10;

Options config_of(const std::string& memory, const std::string& base = "", const std::string& task = "recall",
                  const std::string& options = "") {
  return parse_study("[study]\nname = \"t\"\nseeds = [3]\n[base]\ntask.name = \"" + task +
                         "\"\ntask.associations = 6\nmodel.d_key = 4\n" + base + "\n[memories.m]\nname = \"" +
                         memory + "\"\n" + options,
                     "t.toml")
      .runs.at(0)
      .config;
}

/// Weights as training finds them: large enough that every term counts.
Weights first_weights(const Options& config) {
  const Vocabulary v = find_task(config.get_string("task.name"))->make(config)->vocabulary();
  const auto model = make_model<double>(config, v, Device::cpu, 1);
  model->initialise(0, 7);
  return weights_of(model->parameters(), Device::cpu, 0);
}

Inspection look(const Options& config, const std::vector<int>& positions = {}) {
  return inspect(config, first_weights(config),
                 {.split = Split::test, .sequence = 2, .positions = positions});
}

const InspectArray& need(const Inspection& inspection, const std::string& name) {
  const InspectArray* array = inspection.find(name);
  EXPECT_NE(array, nullptr) << name;
  if (array == nullptr) throw std::runtime_error("there is no array " + name);
  return *array;
}

std::int64_t size_of(const std::vector<std::int64_t>& dims) {
  return std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>());
}

/// What the model gives for the same sequence, by the graph that evaluates.
std::vector<double> plain_output(const Options& config, const Inspection& inspection) {
  const auto task = find_task(config.get_string("task.name"))->make(config);
  const Vocabulary v = task->vocabulary();
  const auto model = make_model<double>(config, v, Device::cpu, 1);
  load_weights(first_weights(config), model->parameters(), Device::cpu, 0);
  const auto graph = model->graph(1, task->shape(Split::test), false, 1);
  const int C = graph->batch.C;
  const auto copy = [&](const char* name, const Tensor<std::int32_t>& to, int offset, int stride) {
    const InspectArray* array = inspection.find(name);
    for (std::size_t i = 0; i < array->data.size(); ++i)
      to.at(0)[static_cast<int>(i) * stride + offset] = static_cast<std::int32_t>(array->data[i]);
  };
  copy("keys", *graph->batch.tokens, channel_key, C);
  copy("values", *graph->batch.tokens, channel_value, C);
  if (C > channel_second_key) copy("second_keys", *graph->batch.tokens, channel_second_key, C);
  copy("query", *graph->batch.query, 0, 1);
  copy("query_position", *graph->batch.position, 0, 1);
  copy("answer", *graph->batch.target, 0, 1);
  graph->feature_seed->at(0)[0] = 3;
  graph->feature_seed->at(0)[1] = 0;
  graph->feature_draw->at(0)[0] = 0;
  graph->graph.forward({});
  const Tensor<double>& y = graph->output->value;
  return {y.at(0), y.at(0) + y.size()};
}

void expect_near(const std::vector<double>& a, const std::vector<double>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_LE(std::abs(a[i] - b[i]), kTolerance * (1 + std::abs(b[i])))
        << what << " at " << i << ": " << a[i] << ", " << b[i];
}

/// Sum over heads and writes of weight times one-hot value.
std::vector<double> output_of_weights(const Inspection& inspection) {
  const InspectArray &weights = need(inspection, "read_weights"), &values = need(inspection, "values");
  const auto H = weights.dims[0], Q = weights.dims[1], M = weights.dims[2];
  const auto V = need(inspection, "output").dims[1], N = M / values.dims[0];
  std::vector<double> output(static_cast<std::size_t>(Q * V), 0);
  for (std::int64_t h = 0; h < H; ++h)
    for (std::int64_t q = 0; q < Q; ++q)
      for (std::int64_t m = 0; m < M; ++m) {
        const auto value = static_cast<std::int64_t>(values.data[static_cast<std::size_t>(m / N)]);
        if (value >= 0)
          output[static_cast<std::size_t>(q * V + value)] +=
              weights.data[static_cast<std::size_t>((h * Q + q) * M + m)];
      }
  return output;
}

/// Sum over heads of state times query after phi.
std::vector<double> output_of_state(const Inspection& inspection) {
  const InspectArray &S = need(inspection, "state_S"), &q = need(inspection, "phi_q");
  const auto P = S.dims[0], H = S.dims[1], V = S.dims[2], K = S.dims[3], Q = q.dims[0];
  std::vector<double> output(static_cast<std::size_t>(Q * V), 0);
  for (std::int64_t i = 0; i < Q; ++i)
    for (std::int64_t h = 0; h < H; ++h)
      for (std::int64_t v = 0; v < V; ++v)
        for (std::int64_t k = 0; k < K; ++k)
          output[static_cast<std::size_t>(i * V + v)] +=
              S.data[static_cast<std::size_t>((((P - 1) * H + h) * V + v) * K + k)] *
              q.data[static_cast<std::size_t>((i * H + h) * K + k)];
  return output;
}

class InspectMemory : public testing::TestWithParam<std::string> {};

TEST_P(InspectMemory, ShowsWhatItCalculatesWith) {
  const Memory& kind = *find_memory(GetParam());
  for (const int heads : {1, 2}) {
    SCOPED_TRACE(heads);
    const Options config = config_of(kind.name, "model.heads = " + std::to_string(heads));
    const Inspection seen = look(config, {1, 4, 6});
    for (const InspectArray& array : seen.arrays) {
      EXPECT_EQ(size_of(array.dims), std::ssize(array.data)) << array.name;
      EXPECT_FALSE(array.meaning.empty()) << array.name;
      for (const double x : array.data)
        EXPECT_TRUE(std::isfinite(x) || array.name == "half_life") << array.name;
    }
    EXPECT_NE(seen.find("output"), nullptr);
    EXPECT_EQ(seen.find("q") != nullptr, kind.own_queries);
    const bool given =
        std::ranges::any_of(kind.inputs, [](const MemoryInput& input) { return input.name == "k"; });
    EXPECT_EQ(seen.find("k") != nullptr, kind.own_keys || given);
    for (const MemoryInput& input : kind.inputs)  // the bonus is for reads at tokens
      EXPECT_TRUE(input.optional || input.name == "bonus" || seen.find(input.name) != nullptr) << input.name;
    const bool keyed = seen.find("phi_k") != nullptr || seen.find("score_key") != nullptr ||
                       seen.find("write_key") != nullptr;
    EXPECT_EQ(keyed, seen.find("key_overlap") != nullptr);
    expect_near(seen.find("output")->data, plain_output(config, seen), "output");

    const bool normed =
        config.has("memory.read_norm") && config.get_string("memory.read_norm") == "layernorm";
    // Memories that do something to what they have read, or to the values that they write.
    const bool processed =
        normed || kind.name == "gated_attention" || kind.name == "gated_delta2" || kind.name == "mlstm";
    if (seen.find("read_weights") != nullptr && !processed)
      expect_near(output_of_weights(seen), seen.find("output")->data, "weights times values");
    if (const InspectArray* S = seen.find("singular_values") ? seen.find("state_S") : nullptr) {
      EXPECT_EQ(S->dims[0], 3);
      const InspectArray &values = need(seen, "singular_values"), &rank = need(seen, "effective_rank");
      const auto P = static_cast<std::size_t>(S->dims[0]), one = S->data.size() / P,
                 N = static_cast<std::size_t>(values.dims[0]), spectrum = values.data.size() / N;
      const auto squares = [](const std::vector<double>& x, std::size_t begin, std::size_t n) {
        double sum = 0;
        for (std::size_t i = begin; i < begin + n; ++i) sum += x[i] * x[i];
        return sum;
      };
      EXPECT_NEAR(squares(values.data, (N - 1) * spectrum, spectrum), squares(S->data, (P - 1) * one, one),
                  1e-9);
      if (!kind.forms_state) {
        EXPECT_NEAR(rank.data[0], 1, 1e-9) << "after one token";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, InspectMemory, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const Memory& kind : all_memories()) names.push_back(kind.name);
                           return names;
                         }()),
                         [](const auto& one) { return one.param; });

// What a law calls its learned quantities and states is what arrays are called.
TEST(Inspect, ShowsALawByItsNames) {
  const auto law = [](const std::string& steps) {
    return config_of("rule", "model.heads = 2", "recall", "law = \"" + steps + "\"\n");
  };
  const struct {
    std::string law;
    std::vector<std::string> arrays;
    bool is_product;  ///< what is read is S q
  } all[] = {
      {"beta = sigmoid(token); S += beta (v - S k) k^T; read S q", {"beta", "state_S", "read_weights"}, true},
      {"rate = token; alpha = sigmoid(token(K)); S = tanh(S diag(alpha)) + rate v k^T; read S q",
       {"rate", "alpha", "state_S", "singular_values"},
       true},
      {"m = sigmoid(token); state P[V, K]; P = m P + (v - S k) k^T; S += P; read S q",
       {"m", "state_S", "state_P"},
       true},
      {"state z[K]; z += k; S += v k^T; read S q / (z^T q + 1)", {"state_S", "state_z"}, false},
      {"state H[K, V]; b = token; H = (I - b k k^T) H + b k v^T; read H^T q", {"b", "state_H"}, false},
  };
  for (const auto& one : all) {
    SCOPED_TRACE(one.law);
    const Options config = law(one.law);
    const Inspection seen = look(config, {1, 4, 6});
    for (const std::string& name : one.arrays) EXPECT_NE(seen.find(name), nullptr) << name;
    for (const InspectArray& array : seen.arrays) {
      EXPECT_EQ(size_of(array.dims), std::ssize(array.data)) << array.name;
      EXPECT_FALSE(array.meaning.empty()) << array.name;
    }
    expect_near(need(seen, "output").data, plain_output(config, seen), "output");
    if (one.is_product) expect_near(output_of_state(seen), need(seen, "output").data, "state times query");
  }
}

/// Memories whose read is the state times the query after phi, and nothing else.
TEST(Inspect, StatesAreThoseThatAreRead) {
  const std::vector<std::string> linear = {"retnet", "simple_gla",    "mamba2",   "gla",
                                           "rwkv6",  "delta",         "longhorn", "gated_delta",
                                           "kda",    "delta_product", "rwkv7",    "dplr"};
  for (const std::string& name : linear) {
    SCOPED_TRACE(name);
    const Options config = config_of(name);
    const Inspection seen = look(config);
    expect_near(output_of_state(seen), need(seen, "output").data, "state times query");
  }
}

TEST(Inspect, HalfLivesComeFromDecays) {
  const Inspection gated = look(config_of("gated_delta"));
  const InspectArray &decay = need(gated, "log_decay"), &life = need(gated, "half_life");
  ASSERT_EQ(decay.dims, life.dims);
  for (std::size_t i = 0; i < life.data.size(); ++i)
    EXPECT_NEAR(std::exp(decay.data[i] * life.data[i]), 0.5, 1e-12);
  const Inspection peng = look(config_of("peng_gate"));
  EXPECT_NEAR(std::pow(need(peng, "decay").data[1], need(peng, "half_life").data[1]), 0.5, 1e-12);
  EXPECT_EQ(look(config_of("delta")).find("half_life"), nullptr);
}

TEST(Inspect, OverlapIsThatOfTheKeysAfterPhi) {
  const Inspection seen = look(config_of("linear_attention"));
  const InspectArray &key = need(seen, "phi_k"), &overlap = need(seen, "key_overlap");
  const auto M = static_cast<std::size_t>(key.dims[0]), K = static_cast<std::size_t>(key.dims[2]);
  for (std::size_t i = 0; i < M; ++i)
    for (std::size_t j = 0; j < M; ++j) {
      double sum = 0;
      for (std::size_t c = 0; c < K; ++c) sum += key.data[i * K + c] * key.data[j * K + c];
      EXPECT_NEAR(overlap.data[i * M + j], sum, 1e-12);
    }
}

TEST(Inspect, SwapsHaveNamesAndSecondKeys) {
  const Inspection seen = look(config_of("delta", "task.operations = 5", "swap"));
  EXPECT_EQ(seen.token_names.size(), need(seen, "second_keys").data.size());
  EXPECT_NE(seen.token_names.front().find(':'), std::string::npos);
  EXPECT_TRUE(std::ranges::any_of(
      seen.token_names, [](const std::string& name) { return name.find('-') != std::string::npos; }));
}

TEST(Inspect, RandomFeaturesAreThoseOfTheTestSplit) {
  const Options config = config_of("linear_attention\"\nfeature_map = \"favor");
  const Inspection seen = look(config);
  expect_near(need(seen, "output").data, plain_output(config, seen), "output");
}

TEST(Inspect, PositionsBeyondTheSequenceAreRefused) {
  EXPECT_THROW(look(config_of("delta"), {7}), std::out_of_range);
}

}  // namespace
}  // namespace crosstalk

// Passes against the chains that they replace: values and gradients, of every memory and feature map that
// they touch.
// SPDX-License-Identifier: Apache-2.0
#include "models/graph/passes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "kernels/base/random.h"
#include "kernels/ops/attend.h"
#include "kernels/ops/elementwise.h"
#include "kernels/ops/lookup.h"
#include "kernels/testing/compare.h"
#include "models/graph/nodes.h"

namespace crosstalk::checks {
namespace {

struct Shape {
  int B, T, Q, d, rows;
};

/// Scores (or features) of random tables under a squared loss. `pass`: the one that runs, or none.
struct Chain {
  Chain(const Shape& s, FeatureMap map, int nu, bool normalised, bool scored, const std::string& pass)
      : block(Device::cpu, kReplicas), graph(Device::cpu, kReplicas, true) {
    for (const char* name : {"keys", "values"}) block.add(name, {s.rows, s.d}, Init::normal(0.5));
    block.add("query", {s.B, s.Q, s.d}, Init::normal(0.5));
    block.allocate();
    BatchTensors batch;
    batch.B = s.B, batch.T = s.T, batch.Q = s.Q, batch.C = 2;
    batch.tokens = graph.integers({s.B, s.T, 2});
    batch.position = graph.integers({s.B, s.Q});
    batch.target = graph.integers({s.B, scored ? s.Q : s.T});
    std::vector<Table<double>> tables;
    for (int i = 0; i < 2; ++i)
      tables.push_back(
          {graph.parameter(block, i), i, {i, graph.integers({s.B * s.T}), graph.integers({s.rows + 1})}});
    auto* k =
        feature_map<double>(graph, map, nu, lookup<double>(graph, batch.tokens, tables, nullptr), nullptr);
    if (normalised) k = normalize(graph, RowNorm::l2, 1e-6, k);
    result = k;
    if (scored) {
      auto* q = feature_map<double>(graph, map, nu, graph.parameter(block, 2), nullptr);
      result = scores(graph, 0.7, k, q, batch);
    } else {
      batch.Q = s.T;
    }
    squared_loss(graph, result, batch);
    if (!pass.empty()) replaced = run_pass(graph, pass);
    graph.plan();
    for (int r = 0; r < kReplicas; ++r) {
      block.initialise(r, 40 + static_cast<std::uint64_t>(r));
      RandomStream random(7, RandomDomain::task_train, static_cast<std::uint32_t>(r));
      const auto fill = [&](Tensor<std::int32_t>* t, int low, int high) {
        for (std::int64_t i = 0; i < t->size(); ++i)
          t->at(r)[i] =
              low + static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(high - low + 1)));
      };
      fill(batch.tokens, 0, s.rows - 1);
      fill(batch.position, 0, s.T);
      fill(batch.target, 0, (scored ? s.T : result->value.columns()) - 1);
    }
    for (const auto& table : tables)
      run(Exec{},
          BucketIds<double>{*batch.tokens, table.channel, 1, *table.buckets.order, *table.buckets.start});
    for (int i = 0; i < 2; ++i) {  // twice: nothing is remembered
      graph.forward({});
      graph.backward({});
    }
    graph.check_guards();
  }
  bool has(const std::string& node) const {
    const auto names = graph.node_names();
    return std::find(names.begin(), names.end(), node) != names.end();
  }
  static constexpr int kReplicas = 2;
  ParameterBlock<double> block;
  Graph<double> graph;
  Variable<double>* result = nullptr;
  int replaced = 0;
};

void expect_equal(const Chain& got, const Chain& want) {
  for (int r = 0; r < Chain::kReplicas; ++r) {
    const auto expect_close = [&](const std::string& name, const Tensor<double>& x, const Tensor<double>& y) {
      const double size = std::max(1e-2, magnitude(y.at(r), y.size()));
      EXPECT_TRUE(close(fmt::format("{}, replica {}", name, r), x.at(r), y.at(r), y.size(), 1e-12 * size,
                        std::vector<int>(y.dims, y.dims + y.rank)));
    };
    expect_close("result", got.result->value, want.result->value);
    for (int i = 0; i < want.block.count(); ++i) {
      if (i < 2) {
        EXPECT_GT(magnitude(want.block.gradient(i).at(r), want.block.gradient(i).size()), 0);
      }
      expect_close("gradient of " + want.block.name(i), got.block.gradient(i), want.block.gradient(i));
    }
  }
}

struct Mapped {
  FeatureMap map;
  int nu;
};
const Mapped kMaps[] = {{FeatureMap::identity, 1}, {FeatureMap::elu1, 1}, {FeatureMap::relu, 1},
                        {FeatureMap::tanh, 1},     {FeatureMap::dpfp, 1}, {FeatureMap::dpfp, 2}};

TEST(Passes, ScoresFromTablesAreThoseOfTheChain) {
  for (const Mapped& m : kMaps) {
    for (const Shape& s : {Shape{4, 9, 1, 8, 6}, Shape{3, 5, 3, 6, 4}}) {
      SCOPED_TRACE(fmt::format("map {} nu {} Q {}", static_cast<int>(m.map), m.nu, s.Q));
      const Chain chain(s, m.map, m.nu, false, true, ""), fused(s, m.map, m.nu, false, true, "table_scores");
      EXPECT_EQ(fused.replaced, 1);
      EXPECT_TRUE(fused.has("table_scores") && !fused.has("lookup") && !fused.has("scores"));
      EXPECT_TRUE(chain.has("scores") && !chain.has("table_scores"));
      expect_equal(fused, chain);
    }
  }
}

TEST(Passes, FeaturesFromTablesAreThoseOfTheChain) {
  for (const Mapped& m : kMaps) {
    for (const bool normalised : {false, true}) {
      if (m.map == FeatureMap::identity && !normalised) continue;  // nothing to fuse
      SCOPED_TRACE(fmt::format("map {} nu {} normalised {}", static_cast<int>(m.map), m.nu, normalised));
      const Shape s{3, 7, 1, 8, 5};
      const Chain chain(s, m.map, m.nu, normalised, false, ""),
          fused(s, m.map, m.nu, normalised, false, "table_features");
      EXPECT_EQ(fused.replaced, 1);
      EXPECT_TRUE(fused.has("table_features") && !fused.has("lookup") && !fused.has("normalize"));
      expect_equal(fused, chain);
    }
  }
}

TEST(Passes, LeaveManyQueriesAndWideKeysToTheChain) {
  EXPECT_EQ(Chain({2, 5, 40, 6, 5}, FeatureMap::elu1, 1, false, true, "table_scores").replaced, 0);
  EXPECT_EQ(Chain({2, 5, 1, 200, 5}, FeatureMap::elu1, 1, false, true, "table_scores").replaced, 0);
  EXPECT_EQ(Chain({2, 5, 1, 8, 5}, FeatureMap::elu1, 1, true, true, "table_scores").replaced, 0);
}

/// Softmax attention of T tokens as a chain, its output's gradient drawn; `pass`: runs.
struct Attention {
  Attention(int T, bool biased, bool pass,
            const std::function<void(Graph<double>&, Variable<double>*)>& beside = {},
            Kernel kernel = Kernel::exp)
      : block(Device::cpu, 1), graph(Device::cpu, 1, true) {
    for (const char* name : {"x", "k", "v"}) block.add(name, {2, T, 2, 3}, Init::normal(1));
    block.add("log_decay", {2, T, 2}, Init::uniform(0.5));
    block.allocate();
    block.initialise(0, 5);
    Attend<double> attend;
    attend.kernel = kernel, attend.scale = 0.6, attend.window = biased ? T / 2 : 0;
    attend.x = in(graph.parameter(block, 0)), attend.k = in(graph.parameter(block, 1));
    if (biased) attend.log_decay = in(graph.parameter(block, 3));
    Mix<double> mix;
    auto* a = out(graph.add(attend).a);
    mix.a = in(a), mix.v = in(graph.parameter(block, 2));
    auto* o = result = out(graph.add(mix).o);
    if (beside) beside(graph, a);
    graph.keep(result);
    graph.node(
        "cotangent", {result}, {}, [](const Exec&) {},
        [o](const Exec&, const std::vector<Write>&) {
          RandomStream random(3, RandomDomain::task_train, 0);
          for (std::int64_t i = 0; i < o->gradient.size(); ++i) o->gradient.at(0)[i] = random.uniform() - 0.5;
        });
    if (pass) replaced = run_pass(graph, "attend_mix");
    graph.plan();
    graph.forward({}), graph.backward({});
    graph.check_guards();
  }
  ParameterBlock<double> block;
  Graph<double> graph;
  Variable<double>* result;
  int replaced = 0;
};

TEST(Passes, AttentionWithoutWeightsIsTheChain) {
  for (const bool biased : {false, true}) {
    const Attention chain(20, biased, false), fused(20, biased, true);
    EXPECT_EQ(fused.replaced, 1);
    EXPECT_EQ(fused.graph.forms(), "attend_mix cotangent");
    EXPECT_EQ(chain.graph.forms(), "attend mix cotangent");
    EXPECT_LT(fused.graph.bytes(), chain.graph.bytes() / 2);
    EXPECT_TRUE(close("result", fused.result->value, chain.result->value, 1e-13));
    for (int i = 0; i < 3 + biased; ++i)
      EXPECT_TRUE(close(chain.block.name(i), fused.block.gradient(i), chain.block.gradient(i), 1e-13));
  }
}

TEST(Passes, LeaveWeightsThatSomebodyReads) {
  const auto look = [](Graph<double>& graph, Variable<double>* a) { graph.keep(a); };
  const auto read = [](Graph<double>& graph, Variable<double>* a) {
    Map<double> twice;
    twice.x = in(a);
    graph.add(twice);
  };
  EXPECT_EQ(Attention(20, false, true, look).replaced, 0);
  EXPECT_EQ(Attention(20, false, true, read).replaced, 0);
  EXPECT_EQ(Attention(20, false, true, {}, Kernel::relu).replaced, 0);
  EXPECT_EQ(Attention(8, false, true).replaced, 0);  // few queries
}

TEST(Passes, UnknownOnesAreABug) {
  Graph<double> graph(Device::cpu, 1, true);
  EXPECT_THROW(run_pass(graph, "no such pass"), std::logic_error);
}

}  // namespace
}  // namespace crosstalk::checks

// Scores made straight from tables of keys, as training on CUDA makes them, against the chain that writes the
// keys. SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "kernels/base/random.h"
#include "kernels/ops/lookup.h"
#include "kernels/testing/compare.h"
#include "models/memories/parts.h"
#include "models/testing/variants.h"

namespace crosstalk::checks {
namespace {

struct Shape {
  int B, T, Q, d;
  std::vector<int> rows;
};

/// key_scores() of random tables and queries under a squared loss. `lists`: the tables have lists of ids.
struct Scored {
  Scored(const Options& options, const Shape& s, bool lists)
      : block(Device::cpu, kReplicas), graph(Device::cpu, kReplicas, true) {
    for (std::size_t i = 0; i < s.rows.size(); ++i)
      block.add(fmt::format("table{}", i), {s.rows[i], s.d}, Init::normal(0.5));
    block.add("query", {s.B, s.Q, s.d}, Init::normal(0.5));
    block.allocate();
    BatchTensors batch;
    batch.B = s.B, batch.T = s.T, batch.Q = s.Q, batch.C = static_cast<int>(s.rows.size());
    batch.tokens = graph.integers({s.B, s.T, batch.C});
    batch.position = graph.integers({s.B, s.Q});
    batch.target = graph.integers({s.B, s.Q});
    auto* seed = graph.integers({2});
    auto* draw = graph.integers({1});
    std::vector<Table<double>> tables;
    for (int i = 0; i < batch.C; ++i) {
      Buckets buckets;
      if (lists)
        buckets = {i, graph.integers({s.B * s.T}), graph.integers({s.rows[static_cast<std::size_t>(i)] + 1})};
      tables.push_back({graph.parameter(block, i), i, buckets});
    }
    ReadContext<double> context{graph, options, batch, tables, graph.parameter(block, batch.C),
                                s.T,   {},      seed,  draw,   0};
    scores = key_scores(context, 0.7);
    squared_loss(graph, scores, batch);
    graph.plan();
    for (int r = 0; r < kReplicas; ++r) {
      block.initialise(r, 40 + static_cast<std::uint64_t>(r));
      RandomStream random(7, RandomDomain::task_train, static_cast<std::uint32_t>(r));
      const auto fill = [&](Tensor<std::int32_t>* t, int low, int high) {
        for (std::int64_t i = 0; i < t->size(); ++i)
          t->at(r)[i] =
              low + static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(high - low + 1)));
      };
      fill(batch.tokens, -1, *std::min_element(s.rows.begin(), s.rows.end()) - 1);
      fill(batch.position, 0, s.T);
      fill(batch.target, 0, s.T - 1);
      fill(seed, 0, 1000);
      fill(draw, 0, 10);
    }
    for (const auto& [rows, channel, lists_of] : tables) {
      if (lists) run(Exec{}, BucketIds<double>{*batch.tokens, channel, 1, *lists_of.order, *lists_of.start});
    }
    graph.forward({});
    graph.backward({});
    graph.check_guards();
  }
  bool has(const std::string& node) const {
    const auto names = graph.node_names();
    return std::find(names.begin(), names.end(), node) != names.end();
  }
  static constexpr int kReplicas = 2;
  ParameterBlock<double> block;
  Graph<double> graph;
  Variable<double>* scores = nullptr;
};

void expect_equal(const Options& options, const Shape& shape, bool fused) {
  const Scored chain(options, shape, false), tables(options, shape, true);
  EXPECT_FALSE(chain.has("table_scores"));
  EXPECT_EQ(tables.has("table_scores"), fused);
  EXPECT_EQ(tables.has("lookup"), !fused);
  if (!fused) return;  // twice the chain, whose sums of absent keys may vanish
  for (int r = 0; r < Scored::kReplicas; ++r) {
    const auto expect_close = [&](const std::string& name, const Tensor<double>& got,
                                  const Tensor<double>& want) {
      const double size = std::max(1e-2, magnitude(want.at(r), want.size()));
      EXPECT_TRUE(close(fmt::format("{}, replica {}", name, r), got.at(r), want.at(r), want.size(),
                        1e-12 * size, std::vector<int>(want.dims, want.dims + want.rank)));
    };
    expect_close("scores", tables.scores->value, chain.scores->value);
    for (int i = 0; i < chain.block.count(); ++i) {
      EXPECT_GT(magnitude(chain.block.gradient(i).at(r), chain.block.gradient(i).size()), 0);
      expect_close("gradient of " + chain.block.name(i), tables.block.gradient(i), chain.block.gradient(i));
    }
  }
}

TEST(KeyScores, FromTablesAreThoseOfTheChain) {
  const Shape shapes[] = {{4, 9, 1, 6, {5, 7}}, {3, 5, 3, 8, {4, 6, 4}}};
  int fused = 0;
  for (const char* name : {"linear_attention", "softmax"}) {
    const MemoryKind& kind = *find_memory(name);
    for (const Shape& shape : shapes) {
      for (const Setting& setting : valid_settings(kind, shape.d, 5, 4, 6)) {
        SCOPED_TRACE(fmt::format("{}, Q = {}", setting.name, shape.Q));
        const bool plain = !setting.options.has("memory.key_norm") ||
                           setting.options.get_string("memory.key_norm") == "none";
        expect_equal(setting.options, shape, plain);
        fused += plain;
      }
    }
  }
  EXPECT_GT(fused, 20);
}

TEST(KeyScores, OfManyQueriesOrWideKeysTakeTheChain) {
  const Options options =
      resolved(*find_memory("softmax"), memory_options(*find_memory("softmax"), 6, 5, 4, 6));
  expect_equal(options, {2, 5, 40, 6, {5, 4}}, false);
  expect_equal(options, {2, 5, 1, 200, {5, 4}}, false);
}

}  // namespace
}  // namespace crosstalk::checks

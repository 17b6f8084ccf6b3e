// The delta rule straight from tables of keys, as CUDA runs it, against the chain that writes its features.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "kernels/base/random.h"
#include "kernels/testing/compare.h"
#include "models/memories/parts.h"
#include "models/testing/variants.h"

namespace crosstalk::checks {
namespace {

constexpr int kB = 3, kT = 9, kD = 64, kReplicas = 2, kRows = 6;

/// The memory's read of random tables and queries under a squared loss.
struct Read {
  Read(const Setting& setting, int queries, bool fused)
      : block(Device::cpu, kReplicas), graph(Device::cpu, kReplicas, true) {
    for (const char* name : {"keys", "values"}) block.add(name, {kRows, kD}, Init::normal(0.5));
    block.add("query", {kB, queries, kD}, Init::normal(0.5));
    block.add("gate", {kRows, 1}, Init::normal(1));
    block.allocate();
    BatchTensors batch;
    batch.B = kB, batch.T = kT, batch.Q = queries, batch.C = 2;
    batch.tokens = graph.integers({kB, kT, batch.C});
    batch.position = graph.integers({kB, queries});
    batch.target = graph.integers({kB, queries});
    auto* seed = graph.integers({2});
    auto* draw = graph.integers({1});
    const auto gate = [&] {
      return lookup<double>(graph, batch.tokens, {{graph.parameter(block, 3), 0}}, nullptr);
    };
    ReadContext<double> context{graph,
                                setting.options,
                                batch,
                                {{graph.parameter(block, 0), 0}, {graph.parameter(block, 1), 1}},
                                graph.parameter(block, 2),
                                kRows,
                                gate,
                                seed,
                                draw,
                                0,
                                fused};
    read = find_memory("delta")->build_double(context);
    squared_loss(graph, read, batch);
    graph.plan();
    for (int r = 0; r < kReplicas; ++r) {
      block.initialise(r, 40 + static_cast<std::uint64_t>(r));
      RandomStream random(7, RandomDomain::task_train, static_cast<std::uint32_t>(r));
      const auto fill = [&](Tensor<std::int32_t>* t, int numbers) {
        for (std::int64_t i = 0; i < t->size(); ++i)
          t->at(r)[i] = static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(numbers)));
      };
      fill(batch.tokens, kRows);
      fill(batch.position, kT + 1);
      fill(batch.target, kRows);
      fill(seed, 1000);
      fill(draw, 10);
    }
    graph.forward({});
    graph.backward({});
    graph.check_guards();
  }
  bool from_tables() const {
    const auto names = graph.node_names();
    return std::find(names.begin(), names.end(), "table_recurrent_read") != names.end();
  }
  ParameterBlock<double> block;
  Graph<double> graph;
  Variable<double>* read = nullptr;
};

void expect_equal(const Read& got, const Read& want) {
  for (int r = 0; r < kReplicas; ++r) {
    const auto expect_close = [&](const std::string& name, const Tensor<double>& x, const Tensor<double>& y) {
      const double size = std::max(1e-2, magnitude(y.at(r), y.size()));
      EXPECT_TRUE(close(fmt::format("{}, replica {}", name, r), x.at(r), y.at(r), y.size(), 1e-12 * size,
                        std::vector<int>(y.dims, y.dims + y.rank)));
    };
    expect_close("read", got.read->value, want.read->value);
    for (int i = 0; i < want.block.count(); ++i) {
      EXPECT_GT(magnitude(want.block.gradient(i).at(r), want.block.gradient(i).size()), 0);
      expect_close("gradient of " + want.block.name(i), got.block.gradient(i), want.block.gradient(i));
    }
  }
}

TEST(TableRead, IsThatOfTheChain) {
  int from_tables = 0, chains = 0;
  for (const Setting& setting : valid_settings(*find_memory("delta"), kD, kRows, kRows, 6)) {
    for (int queries : {1, 2}) {
      SCOPED_TRACE(fmt::format("{}, Q = {}", setting.name, queries));
      const Options& o = setting.options;
      const bool expected = queries == 1 && o.get_string("memory.read_norm") != "attention" &&
                            o.get_string("memory.key_norm") != "none" &&
                            o.get_string("memory.feature_map") != "favor";
      const Read fused(setting, queries, true);
      EXPECT_EQ(fused.from_tables(), expected);
      ++(expected ? from_tables : chains);
      if (!expected) continue;
      const Read chain(setting, queries, false);
      EXPECT_FALSE(chain.from_tables());
      expect_equal(fused, chain);
    }
  }
  EXPECT_GT(from_tables, 10);
  EXPECT_GT(chains, 10);
}

}  // namespace
}  // namespace crosstalk::checks

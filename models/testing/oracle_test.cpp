// The retrieval model against models/testing/retrieval_oracle.h: the memories of 2021 with every combination of their parts, and attention,
// whose queries stand beside the sequence.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "kernels/testing/compare.h"
#include "models/testing/model_run.h"
#include "models/testing/variants.h"

namespace crosstalk::checks {
namespace {

const std::vector<ModelShape>& shapes() {
  static const std::vector<ModelShape> all = {
      {kKeys, kValues, false, kB, {kT, 2, 1}},  // Q = 1: fewer queries than keys
      {kKeys, kValues, false, kB, {kT, 2, 3}}, {kKeys, kValues, true, kB, {kT, 3, 1}},
      {kKeys, kValues, true, kB, {kT, 3, 3}},  {kKeys, 1, false, 1, {1, 2, 1}},  // one token, one value
  };
  return all;
}

class MemoryOracle : public ::testing::TestWithParam<std::string> {
 protected:
  const Memory& kind() const { return *find_memory(GetParam()); }
};

class AttentionOracle : public ::testing::TestWithParam<std::string> {};

// y and loss of one replica against the oracle, used slots only.
template <class Real>
void compare(ModelRun<Real>& run, const Options& options, int r, const Example& example, double limit) {
  const ModelShape& shape = run.shape;
  RetrievalOracle oracle(options, shape.keys, shape.values, shape.second_key, example.parameters,
                         example.omega);
  for (int b = 0; b < shape.B; ++b) {
    const Matrix want = oracle.read(example.batch, b);
    for (int i = 0; i < shape.sequence.Q; ++i) {
      if (example.batch.target_at(b, i) < 0) continue;
      ASSERT_TRUE(close(fmt::format("y of replica {}, sequence {}, query {}", r, b, i), run.y(r, b, i),
                        want[static_cast<std::size_t>(i)].data(), shape.values, limit));
    }
  }
  const double loss = oracle.loss(example.batch);
  const Real got = run.loss(r);
  ASSERT_TRUE(close("loss", &got, &loss, 1, limit * std::max(1., std::sqrt(2 * loss)) * shape.values));
}

TEST_P(MemoryOracle, OutputsAndLossAreThoseOfTheEquations) {
  int checked = 0;
  for (const bool train : {true, false}) {
    for (std::size_t s = 0; s < shapes().size(); ++s) {
      const ModelShape& shape = shapes()[s];
      for (const Setting& setting : valid_settings(kind(), kDKey, shape.keys, shape.values, kEmbedding)) {
        if (shape.values == 1 && setting.name.find("layernorm") != std::string::npos) continue;
        if (shape.values == 1 && kind().name == "fwm") continue;
        if (!oracle_knows(setting.options)) continue;
        SCOPED_TRACE(fmt::format("{}, shape {}, {}", setting.name, s, train ? "training" : "inference"));
        ModelRun<double> run(setting.options, shape, 2, train);
        for (int r = 0; r < 2; ++r) {
          const Example example =
              find_example(setting.options, shape, s * 10 + static_cast<std::size_t>(r) + 1, train ? 0 : 1);
          if (r == 0) give(run, 1, example);  // an op may read what every replica asks
          give(run, r, example);
          run.forward();
          ASSERT_NO_FATAL_FAILURE(compare(run, setting.options, r, example, 1e-12 * example.peak));
        }
        run.graph->graph.check_guards();
        ++checked;
      }
    }
  }
  RecordProperty("checked", checked);
  EXPECT_GE(checked, 2 * static_cast<int>(shapes().size()) - 2);
}

INSTANTIATE_TEST_SUITE_P(Of2021, MemoryOracle, every_memory_of_2021(), memory_name);

// Attention: what is read after p tokens is what the oracle reads at the last of them.
TEST_P(AttentionOracle, ReadsBesideTheSequenceAsAtItsLastToken) {
  const Memory& kind = *find_memory(GetParam());
  const Options options = resolved(kind, memory_options(kind, 4, kKeys, kValues, kEmbedding));
  const ModelShape shape{kKeys, kValues, false, kB, {kT, 2, 5}};
  const Example example = find_example(options, shape, 7, 1);
  ModelRun<double> run(options, shape, 1, false);
  give(run, 0, example);
  run.forward();
  const bool rooted = kind.name == "qk_norm" || kind.name == "memory_mosaics";  // 1e-6 under roots
  compare(run, options, 0, example, rooted ? 2e-5 : 1e-12);
}

INSTANTIATE_TEST_SUITE_P(Attention, AttentionOracle,
                         ::testing::Values("softmax", "sliding_window", "alibi", "fox", "kernel_attention",
                                           "attention_sink", "qk_norm", "rope", "path", "path_fox",
                                           "memory_mosaics", "stick_breaking"),
                         memory_name);

}  // namespace
}  // namespace crosstalk::checks

// The retrieval model of 2021: its memories with every combination of its parts against models/testing/retrieval_oracle.h, and against itself in
// single precision.
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

TEST_P(MemoryOracle, SinglePrecisionAgreesWithDouble) {
  const ModelShape& shape = shapes()[3];
  for (const Setting& setting : valid_settings(kind(), kDKey, shape.keys, shape.values, kEmbedding)) {
    if (!oracle_knows(setting.options)) continue;
    SCOPED_TRACE(setting.name);
    Example example = find_example(setting.options, shape, 77, 0);
    for (auto& [name, values] :
         example.parameters) {  // exactly representable, so that only arithmetic differs
      for (double& x : values) x = static_cast<float>(x);
    }
    ModelRun<double> precise(setting.options, shape, 1, true);
    ModelRun<float> single(setting.options, shape, 1, true);
    give(precise, 0, example);
    give(single, 0, example);
    precise.forward();
    precise.backward();
    single.forward();
    single.backward();
    // T steps of P-term sums, each divided by something above 0.03 (the margin).
    const double roundings = kT * 4 * (kDKey + 2), condition = example.peak / 0.03;
    const double limit = tolerance<float>(roundings, condition).limit();
    for (int b = 0; b < shape.B; ++b) {
      for (int i = 0; i < shape.sequence.Q; ++i) {
        if (example.batch.target_at(b, i) < 0) continue;
        ASSERT_TRUE(close("y", single.y(0, b, i), precise.y(0, b, i), shape.values, limit));
      }
    }
    const auto& p = precise.model.parameters();
    const auto& q = single.model.parameters();
    for (int i = 0; i < p.count(); ++i) {
      const Tensor<double> want = p.gradient(i);
      const double scale = std::max(1., magnitude(want.at(0), want.size()));
      ASSERT_TRUE(close("gradient of " + p.name(i), q.gradient(i).at(0), want.at(0), want.size(),
                        tolerance<float>(3 * roundings, condition * condition).limit() * scale));
    }
  }
}

TEST_P(MemoryOracle, StateSizeAndDDotAreWhatTheRecurrenceKeeps) {
  for (const int d_key : {3, 4}) {
    for (const int T : {4, 9}) {
      const ModelShape shape{kKeys, kValues, false, 1, {T, 2, 1}};
      for (const Setting& setting : valid_settings(kind(), d_key, shape.keys, shape.values, kEmbedding)) {
        if (!oracle_knows(setting.options)) continue;
        SCOPED_TRACE(setting.name);
        ModelRun<double> layout(setting.options, shape, 1, false);
        HandBatch batch(1, shape.sequence);
        for (int t = 0; t < T; ++t) batch.write(0, t, {t % kKeys, t % kValues});
        batch.ask(0, 0, 0, 0, T);
        RetrievalOracle oracle(setting.options, shape.keys, shape.values, false, layout.random_parameters(3),
                               favor_omega(setting.options, 1, 0, 1));
        oracle.read(batch, 0);
        EXPECT_EQ(kind().state_size(setting.options, kValues, T), oracle.state_floats());
        EXPECT_EQ(kind().d_dot(setting.options), oracle.feature_dimension());
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of2021, MemoryOracle, every_memory_of_2021(), memory_name);

}  // namespace
}  // namespace crosstalk::checks

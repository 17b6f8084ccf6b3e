// Whole models with every memory: gradients of all parameters against central differences, and unused query
// slots.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/testing/compare.h"
#include "models/testing/differences.h"
#include "models/testing/model_run.h"
#include "models/testing/variants.h"

namespace crosstalk::checks::gradient_test {

class MemoryGradient : public ::testing::TestWithParam<std::string> {
 protected:
  const Memory& kind() const { return *find_memory(GetParam()); }
};

TEST_P(MemoryGradient, OfEveryParameterIsThatOfTheLoss) {
  // Shapes take turns: Q = 1 keeps what Q > 1 recomputes, and few queries are projected one by one.
  const std::vector<ModelShape> shapes = {{kKeys, kValues, true, kB, {kT, 3, 1}},
                                          {kKeys, kValues, false, kB, {kT, 2, 3}},
                                          {kKeys, kValues, false, kB, {kT, 2, 1}},
                                          {kKeys, kValues, true, kB, {kT, 3, 3}}};
  std::size_t turn = 0;
  for (const Setting& setting : valid_settings(kind(), kDKey, kKeys, kValues, 3)) {
    if (!of_2021(kind().name) && !smooth(setting.options)) continue;
    // LayerNorm of three numbers, twice, bends within a difference; apply_check_test.cpp looks at its gradient.
    const char* steps = "memory.inner_steps";
    if (setting.options.has(steps) && setting.options.get_int(steps) > 0) continue;
    for (const std::size_t s : {turn % 4, (turn + 1) % 4}) {
      const ModelShape& shape = shapes[s];
      SCOPED_TRACE(fmt::format("{}, shape {}", setting.name, s));
      constexpr int R = 2;
      ModelRun<double> run(setting.options, shape, R, true);
      bool bent = true;  // an example near a kink says nothing
      for (std::size_t seed = 500 + turn * 2; bent && seed < 10000; seed += 1000) {
        for (int r = 0; r < R; ++r)
          give(run, r, find_example(setting.options, shape, seed + static_cast<std::size_t>(r)));
        bent = false;
        ASSERT_NO_FATAL_FAILURE(expect_gradients(run, R, &bent));
      }
      EXPECT_FALSE(bent);
      run.graph->graph.check_guards();
    }
    ++turn;
  }
  EXPECT_GT(turn, 0u);
}

// A second pass through the same graph must not remember the first: gradients are overwritten, not added up.
TEST_P(MemoryGradient, IsTheSameInEveryPass) {
  const ModelShape shape{kKeys, kValues, true, kB, {kT, 3, 3}};
  for (const Setting& setting : valid_settings(kind(), kDKey, kKeys, kValues, kEmbedding)) {
    SCOPED_TRACE(setting.name);
    const Example first = find_example(setting.options, shape, 11),
                  second = find_example(setting.options, shape, 12);
    ModelRun<double> used(setting.options, shape, 1, true), fresh(setting.options, shape, 1, true);
    give(used, 0, first);
    used.forward();
    used.backward();
    for (auto* run : {&used, &fresh}) {
      give(*run, 0, second);
      run->forward();
      run->backward();
    }
    const auto a = used.model.parameters().gradients(), b = fresh.model.parameters().gradients();
    ASSERT_TRUE(same_numbers("gradients", a.at(0), b.at(0), a.size()));
  }
}

// The content of unused slots must not matter, and slots all unused but one are as if there were one.
TEST_P(MemoryGradient, UnusedSlotsLeaveNoTrace) {
  const ModelShape one{kKeys, kValues, false, 1, {kT, 2, 1}}, three{kKeys, kValues, false, 1, {kT, 2, 3}};
  for (const Setting& setting : valid_settings(kind(), kDKey, kKeys, kValues, kEmbedding)) {
    SCOPED_TRACE(setting.name);
    const Example example = find_example(setting.options, one, 21);
    HandBatch padded(1, three.sequence);
    padded.tokens = example.batch.tokens;
    padded.ask(0, 0, example.batch.query_at(0, 0), example.batch.target_at(0, 0),
               example.batch.position_at(0, 0));
    padded.ask(0, 1, 0, -1, 0);
    padded.ask(0, 2, 0, -1, 0);
    ModelRun<double> alone(setting.options, one, 1, true), beside(setting.options, three, 1, true);
    give(alone, 0, example);
    give(beside, 0,
         example.batch.shape.Q == 1
             ? Example{example.parameters, padded, example.feature_seed, example.feature_draw}
             : example);
    for (auto* run : {&alone, &beside}) {
      run->forward();
      run->backward();
    }
    const double got = beside.loss(0), want = alone.loss(0);
    ASSERT_TRUE(close("loss", &got, &want, 1, 1e-13 * std::max(example.peak, std::abs(want))));
    const auto &a = beside.model.parameters(), &b = alone.model.parameters();
    for (int i = 0; i < a.count(); ++i) {
      const double scale = std::max(1., magnitude(b.gradient(i).at(0), b.gradient(i).size()));
      ASSERT_TRUE(close("gradient of " + a.name(i), a.gradient(i).at(0), b.gradient(i).at(0),
                        b.gradient(i).size(), 1e-12 * scale));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, MemoryGradient, every_memory(), memory_name);

}  // namespace crosstalk::checks::gradient_test

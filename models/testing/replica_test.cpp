// Replicas are alone: values, gradients and trained parameters of each do not depend on its neighbours, on
// the number of threads, or on which replicas are computed.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/packs.h"
#include "models/testing/variants.h"

namespace crosstalk::checks::replica_test {

class MemoryReplica : public ::testing::TestWithParam<std::string> {
 protected:
  const Memory& kind() const { return *find_memory(GetParam()); }
};

const ModelShape& shape_of(std::size_t turn) {
  static const ModelShape shapes[] = {{kKeys, kValues, true, kB, {kT, 3, 3}},
                                      {kKeys, kValues, false, kB, {kT, 2, 1}},
                                      {17, 9, false, 3, {19, 2, 2}}};
  return shapes[turn % 3];
}

template <class Real>
void fill(ModelRun<Real>& run, int r, int identity) {
  RandomStream random(static_cast<std::uint64_t>(identity), RandomDomain::task_train, 3);
  const ModelShape& s = run.shape;
  run.model.initialise(r, static_cast<std::uint64_t>(40 + identity));
  run.set_batch(r, random_batch(random, s.B, s.sequence, s.keys, s.values));
  run.set_features(r, 5 + identity, identity);
  run.set_rate(r, 1e-2 * (1 + identity));
}

template <class Real>
void check_pack(const Options& options, const ModelShape& shape, int threads) {
  expect_as_alone<Real>(options, shape, 4, threads, [](auto& run, int r, int i) { fill(run, r, i); });
}

Options with_sizes(const Setting& setting, const ModelShape& shape) {
  Options options = setting.options;
  options.set("model.embedding", std::int64_t{shape.keys + 2});
  return options;
}

TEST_P(MemoryReplica, TrainsAsIfAlone) {
  std::size_t turn = 0;
  for (Setting setting : valid_settings(kind(), 4, kKeys, kValues, kEmbedding)) {
    SCOPED_TRACE(setting.name);
    const ModelShape& shape = shape_of(turn);
    setting.options = with_sizes(setting, shape);
    ASSERT_NO_FATAL_FAILURE(check_pack<float>(setting.options, shape, 1));
    if (turn % 3 == 0) {
      ASSERT_NO_FATAL_FAILURE(check_pack<double>(setting.options, shape, 1));
    }
    ++turn;
  }
}

TEST_P(MemoryReplica, ThreadsDoNotMatter) {
  std::size_t turn = 0;
  for (Setting setting : valid_settings(kind(), 4, kKeys, kValues, kEmbedding)) {
    if (turn++ % 60 != 0) continue;  // threads are slow where more run than there are cores
    SCOPED_TRACE(setting.name);
    const ModelShape& shape = shape_of(2);
    setting.options = with_sizes(setting, shape);
    ASSERT_NO_FATAL_FAILURE(check_pack<float>(setting.options, shape, 2));
  }
}

// A neighbour full of NaN, and replicas that are left out, as packs do with slots that are empty.
TEST_P(MemoryReplica, IsNotDisturbedByANeighbourThatDiverged) {
  std::size_t turn = 0;
  for (Setting setting : valid_settings(kind(), 4, kKeys, kValues, kEmbedding)) {
    if (turn++ % 5 != 0) continue;
    SCOPED_TRACE(setting.name);
    const ModelShape& shape = shape_of(turn);
    setting.options = with_sizes(setting, shape);
    ModelRun<float> pack(setting.options, shape, 3, true), alone(setting.options, shape, 1, true);
    for (int r = 0; r < 3; ++r) fill(pack, r, r);
    fill(alone, 0, 1);
    const Tensor<float> values = pack.model.parameters().values();
    std::fill(values.at(0), values.at(0) + values.size(), std::numeric_limits<float>::quiet_NaN());
    const std::vector<float> untouched(values.at(2), values.at(2) + values.size());
    const int ids[] = {0, 1};
    Exec exec;
    exec.replicas = ids;
    exec.replica_count = 2;
    for (int step = 0; step < kSteps; ++step) {
      pack.train_step(exec);
      alone.train_step();
    }
    ASSERT_TRUE(same(pack, 1, alone));
    ASSERT_TRUE(identical("replica left out", values.at(2), untouched.data(), values.size()));
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, MemoryReplica, every_memory(), memory_name);

}  // namespace crosstalk::checks::replica_test

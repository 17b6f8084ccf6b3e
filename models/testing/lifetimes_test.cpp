// Tensors that share memory by their lifetimes train to the same bits as tensors with a place of their own.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/testing/compare.h"
#include "models/testing/model_run.h"
#include "models/testing/variants.h"

namespace crosstalk::checks::lifetimes_test {

class Lifetimes : public ::testing::TestWithParam<std::string> {};

/// Three steps of two replicas.
void train(ModelRun<float>& run) {
  for (int r = 0; r < 2; ++r) {
    RandomStream random(static_cast<std::uint64_t>(r), RandomDomain::task_train, 3);
    run.model.initialise(r, static_cast<std::uint64_t>(40 + r));
    run.set_batch(r, random_batch(random, run.shape.B, run.shape.sequence, kKeys, kValues));
    run.set_features(r, 5 + r, r);
    run.set_rate(r, 1e-2);
  }
  for (int step = 0; step < 3; ++step) run.train_step();
}

TEST_P(Lifetimes, SharedMemoryChangesNoBit) {
  for (const Setting& setting : valid_settings(*find_memory(GetParam()), 4, kKeys, kValues, kEmbedding)) {
    SCOPED_TRACE(setting.name);
    ModelRun<float> apart(setting.options, {}, 2, true), shared(setting.options, {}, 2, true);
    shared.model.set_sharing(Sharing::lifetime);
    shared.graph = shared.model.graph(shared.shape.B, shared.shape.sequence, true);
    train(apart);
    train(shared);
    const auto same = [](const char* what, const Tensor<float>& a, const Tensor<float>& b) {
      for (int r = 0; r < 2; ++r) ASSERT_TRUE(same_numbers(what, a.at(r), b.at(r), a.size()));
    };
    ASSERT_NO_FATAL_FAILURE(same("y", apart.graph->output->value, shared.graph->output->value));
    ASSERT_NO_FATAL_FAILURE(same("loss", apart.graph->loss.loss->value, shared.graph->loss.loss->value));
    ASSERT_NO_FATAL_FAILURE(
        same("gradients", apart.model.parameters().gradients(), shared.model.parameters().gradients()));
    ASSERT_NO_FATAL_FAILURE(
        same("parameters", apart.model.parameters().values(), shared.model.parameters().values()));
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, Lifetimes, every_memory(), memory_name);

}  // namespace crosstalk::checks::lifetimes_test

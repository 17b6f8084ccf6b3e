// What holds of every language model: gradients of all parameters, rows of its last layer, causality, replicas as if alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/testing/compare.h"
#include "models/mixers/language_model.h"
#include "models/testing/differences.h"
#include "models/testing/language.h"
#include "models/testing/packs.h"

namespace crosstalk::checks {

/// Gradients of two replicas; parameters are `size` times those of give_example().
inline void expect_language_gradients(const Options& options, const ModelShape& shape, std::uint64_t seed,
                                      double size = 1) {
  constexpr int R = 2;
  ModelRun<double> run(options, shape, R, true);
  for (int r = 0; r < R; ++r) give_example(run, r, seed + static_cast<std::uint64_t>(r), size);
  ASSERT_NO_FATAL_FAILURE(expect_gradients(run, R));
  run.graph->graph.check_guards();
}

// Small enough that gradient descent on a network (titans_mlp) does not leave the numbers of fp32.
inline void expect_language_pack(const Options& options, const ModelShape& shape, int threads) {
  expect_as_alone<float>(options, shape, 3, threads, [](auto& run, int r, int identity) {
    give_example(run, r, static_cast<std::uint64_t>(40 + identity), 0.5);
    run.set_rate(r, 1e-2 * (1 + identity));
  });
}

/// The last layer computes rows at which an answer is due as it would compute all.
inline void expect_rows_of_all(const Options& o, double size = 1) {
  ModelRun<double> some(o, language_shape(), 1, true), all(o, language_shape(), 1, true);
  dynamic_cast<LanguageModel<double>&>(all.model).compute_every_row();
  all.graph = all.model.graph(all.shape.B, all.shape.sequence, true);
  for (auto* run : {&some, &all}) {
    give_example(*run, 0, 31, size);
    run->forward(), run->backward();
  }
  const auto hint = "; where a query reads its own token differently, Memory::own_token has to say so";
  const Tensor<double> a = some.graph->loss.query_loss->value, b = all.graph->loss.query_loss->value;
  ASSERT_TRUE(close("losses", a.at(0), b.at(0), a.size(), 1e-12 * (1 + magnitude(b.at(0), b.size()))))
      << hint;
  auto &p = some.model.parameters(), &q = all.model.parameters();
  for (int i = 0; i < p.count(); ++i) {
    const Tensor<double> x = p.gradient(i), y = q.gradient(i);
    ASSERT_TRUE(close("gradient of " + p.name(i), x.at(0), y.at(0), x.size(),
                      1e-12 * std::max(1.0, magnitude(y.at(0), y.size()))))
        << hint;
  }
}

/// Answers at a token know nothing of the tokens behind it.
inline void expect_causal(const Options& options, double size = 1) {
  const ModelShape shape = language_shape(8, 8, 0, 1);
  ModelRun<double> run(options, shape, 1, false);
  give_example(run, 0, 5, size);
  HandBatch batch(1, shape.sequence);
  for (int t = 0; t < 8; ++t) {
    batch.write(0, t, {t % kTokens});
    batch.ask(0, t, t % kTokens, (t + 1) % kTokens, t + 1);
  }
  run.set_batch(0, batch);
  run.forward();
  const Tensor<double> losses = run.graph->loss.query_loss->value;
  const std::vector<double> before(losses.at(0), losses.at(0) + 8);
  batch.write(0, 5, {4});
  run.set_batch(0, batch);
  run.forward();
  EXPECT_TRUE(same_numbers("losses of earlier tokens", losses.at(0), before.data(), 5));
  EXPECT_NE(losses.at(0)[5], before[5]);
}

}  // namespace crosstalk::checks

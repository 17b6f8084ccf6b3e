// Abilities that memories must have, with parameters written by hand.
// SPDX-License-Identifier: Apache-2.0
#include <Eigen/SVD>

#include "kernels/testing/compare.h"
#include "models/testing/model_run.h"
#include "models/testing/variants.h"

namespace crosstalk::checks::laws_test {

Options options_of(const std::string& memory, const Settings& settings, int d_key, int keys, int values) {
  const Memory* kind = find_memory(memory);
  Options options = memory_options(*kind, d_key, keys, values, keys);
  for (const auto& [name, value] : settings) options.set("memory." + name, value);
  return resolved(*kind, options);
}

std::string text(const char* value) { return value; }

// `scale` times the identity, n x n.
Vector diagonal(int n, double scale) {
  Vector m(static_cast<std::size_t>(n * n), 0);
  for (int i = 0; i < n; ++i) m[static_cast<std::size_t>(i * n + i)] = scale;
  return m;
}

// Key k is the unit vector e_k, whatever the value; a second key is subtracted; gates have the given logit at
// writes and at swaps. The scale makes the eps of the l2 norm vanish.
template <class Real>
void orthonormal(ModelRun<Real>& run, double write_logit, double swap_logit, double scale = 1000) {
  const int n = run.shape.keys;
  run.zero_parameters(0);
  run.set_parameter(0, "key_embedding", diagonal(n, 1));
  run.set_parameter(0, "key_projection.key", diagonal(n, scale));
  run.set_parameter(0, "query_projection.key", diagonal(n, scale));
  const auto& block = run.model.parameters();
  for (int i = 0; i < block.count(); ++i) {
    if (block.name(i) == "key_projection.second_key")
      run.set_parameter(0, "key_projection.second_key", diagonal(n, -scale));
    if (block.name(i) == "gate.bias") run.set_parameter(0, "gate.bias", {write_logit});
    if (block.name(i) == "gate.second_key")
      run.set_parameter(0, "gate.second_key", Vector(static_cast<std::size_t>(n), swap_logit - write_logit));
  }
}

// Four bindings, six swaps, and the state after each, read key by key.
TEST(DeltaLaw, ReflectionsSwapExactly) {
  constexpr int n = 4, swaps = 6;
  const int pairs[swaps][2] = {{0, 1}, {1, 2}, {3, 0}, {1, 2}, {2, 0}, {3, 1}};
  const ModelShape shape{n, n, true, 1, {n + swaps, 3, n * (swaps + 1)}};
  HandBatch batch(1, shape.sequence);
  int held[n] = {2, 0, 3, 1};
  for (int k = 0; k < n; ++k) batch.write(0, k, {k, held[k], -1});
  int slot = 0;
  for (int s = 0; s <= swaps; ++s) {
    for (int k = 0; k < n; ++k) batch.ask(0, slot++, k, held[k], n + s);
    if (s == swaps) break;
    batch.write(0, n + s, {pairs[s][0], -1, pairs[s][1]});
    std::swap(held[pairs[s][0]], held[pairs[s][1]]);
  }
  const auto loss_with = [&](double beta_max, double write_logit) {
    const Settings settings = {{"feature_map", text("identity")},
                               {"key_norm", text("l2")},
                               {"read_norm", text("none")},
                               {"beta_max", beta_max}};
    ModelRun<double> run(options_of("delta", settings, n, n, n), shape, 1, false);
    orthonormal(run, write_logit, 60);
    run.set_batch(0, batch);
    run.forward();
    for (int i = 0; i < shape.sequence.Q; ++i) {
      Vector want(n, 0);
      want[static_cast<std::size_t>(batch.target_at(0, i))] = 1;
      if (beta_max == 2) {
        EXPECT_TRUE(close(fmt::format("query {}", i), run.y(0, 0, i), want.data(), n, 1e-11));
      }
    }
    return run.loss(0);
  };
  EXPECT_LE(loss_with(2, 0), 1e-20);  // beta = 1 at writes, 2 at swaps
  EXPECT_GE(loss_with(1, 60), 0.05);  // beta = 1 at both: a swap only mixes
}

// Reads under attention normalisation are means of values: equal values are read back, up to its 1e-6.
TEST(AttentionNormLaw, EqualValuesAreReadBack) {
  const ModelShape shape{kKeys, 1, false, kB, {kT, 2, 3}};
  for (const std::string memory : {"softmax", "linear_attention", "peng_gate"}) {
    const Memory& kind = *find_memory(memory);
    int checked = 0;
    for (const Setting& setting : valid_settings(kind, kDKey, kKeys, 1, kEmbedding)) {
      if (memory != "softmax" && setting.options.get_string("memory.read_norm") != "attention") continue;
      // Its products may be as small as its 1e-3 squared, and the 1e-6 is then half of the denominator.
      if (memory != "softmax" && setting.options.get_string("memory.feature_map") == "favor_relu") continue;
      SCOPED_TRACE(setting.name);
      ModelRun<double> run(setting.options, shape, 1, false);
      double least = 0;  // of an example whose sums are above 0.01, beside which there is 1e-6
      for (std::uint64_t seed = 9; least < 1 - 1e-4 && seed < 100; ++seed) {
        Example example = find_example(setting.options, shape, seed);
        for (int b = 0; b < kB; ++b)
          for (int t = 0; t < kT; ++t) example.batch.write(b, t, {t % kKeys, 0});
        give(run, 0, example);
        run.forward();
        least = 1;
        for (int b = 0; b < kB; ++b)
          for (int i = 0; i < 3; ++i) {
            if (example.batch.target_at(b, i) < 0) continue;
            EXPECT_LE(run.y(0, b, i)[0], 1 + 1e-12);
            least = std::min(least, run.y(0, b, i)[0]);
          }
      }
      EXPECT_GE(least, memory == "softmax" ? 1 - 1e-14 : 1 - 1e-4);
      ++checked;
    }
    EXPECT_GT(checked, 0) << memory;
  }
}

// Keys of which the feature map leaves nothing write nothing, and no division by their sum shows. (The delta
// rule with attention normalisation is left out: its z.k divides as in the paper.)
TEST(VanishingFeatures, AreHarmless) {
  const ModelShape shape{kKeys, kValues, false, kB, {kT, 2, 3}};
  int checked = 0;
  for (const Memory& kind : all_memories())
    for (const Setting& setting : valid_settings(kind, kDKey, kKeys, kValues, kEmbedding)) {
      if (!setting.options.has("memory.feature_map")) continue;
      const std::string map = setting.options.get_string("memory.feature_map");
      const bool divides = setting.options.has("memory.read_norm") &&
                           setting.options.get_string("memory.read_norm") == "attention";
      if ((map != "relu" && map != "dpfp") || (kind.name == "delta" && divides)) continue;
      SCOPED_TRACE(setting.name);
      if (setting.options.has("memory.writes") && setting.options.get_int("memory.writes") > 1) continue;
      ModelRun<double> run(setting.options, shape, 1, true);
      Parameters parameters = run.random_parameters(8);
      for (auto& [name, values] : parameters)
        if (name.rfind("key_projection", 0) == 0) std::fill(values.begin(), values.end(), 0);
      parameters["key_projection.bias"] = map == "relu" ? Vector{-1, -2, -1} : Vector{1, -2, 1};
      RandomStream random(2, RandomDomain::task_train, 7);
      run.set_parameters(0, parameters);
      run.set_batch(0, random_batch(random, shape.B, shape.sequence, kKeys, kValues));
      run.forward();
      run.backward();
      EXPECT_TRUE(std::isfinite(run.loss(0)));
      const Tensor<double> g = run.model.parameters().gradients();
      EXPECT_TRUE(std::isfinite(magnitude(g.at(0), g.size())));
      ++checked;
    }
  EXPECT_GT(checked, 20);
}

// Sums do not know the order of what they add; erasing and fading memories do.
TEST(OrderLaw, OnlySumsForgetIt) {
  const ModelShape shape{kKeys, kValues, false, 1, {kT, 2, 1}};
  for (const Memory& kind : all_memories()) {
    const Options options = resolved(kind, memory_options(kind, 4, kKeys, kValues, kEmbedding));
    Example example = find_example(options, shape, 31);
    for (int t = 0; t < kT; ++t) example.batch.write(0, t, {t % kKeys, (t * 3 + 1) % kValues});
    example.batch.ask(0, 0, 0, 0, kT);
    HandBatch reversed = example.batch;
    for (int t = 0; t < kT; ++t) {
      const int from = kT - 1 - t;
      reversed.write(0, t, {example.batch.token(0, from, 0), example.batch.token(0, from, 1)});
    }
    ModelRun<double> run(options, shape, 1, false);
    give(run, 0, example);
    run.forward();
    const Vector forward(run.y(0, 0, 0), run.y(0, 0, 0) + kValues);
    run.set_batch(0, reversed);
    run.forward();
    const auto equal = close("reversed", run.y(0, 0, 0), forward.data(), kValues, 1e-12);
    if (kind.name == "sliding_window") continue;  // all depends on its size
    EXPECT_EQ(static_cast<bool>(equal), kind.order_free)
        << kind.name << ": " << equal.message() << "; see .order_free in its file";
  }
}

// Reads of a sequence are columns W x_q with one W [V,d_dot]: no more than d_dot of them are independent. What is not
// bounded so says it by more.
TEST(RankLaw, ReadsThroughFeaturesHaveNoMoreRankThanTheyHave) {
  constexpr int kMany = 7, kFew = 2;  // keys, values and queries; key size
  const ModelShape shape{kMany, kMany, false, 1, {2 * kMany, 2, kMany}};
  for (const Memory& kind : all_memories()) {
    SCOPED_TRACE(kind.name);
    Options plain = memory_options(kind, kFew, kMany, kMany, kMany);
    if (plain.has("memory.feature_map")) {
      plain.set("memory.feature_map", "identity");
      plain.set("memory.key_norm", "none");
    }
    if (plain.has("memory.read_norm")) plain.set("memory.read_norm", "none");
    if (plain.has("memory.kernel")) plain.set("memory.kernel", "exp");  // linear is an inner product
    const Options options = resolved(kind, plain);
    const std::int64_t d = kind.d_dot(options);
    EXPECT_TRUE(d > 0 || !kind.bounded_by_rank);
    Example example = find_example(options, shape, 31);
    for (int t = 0; t < 2 * kMany; ++t) example.batch.write(0, t, {t % kMany, (t * 3 + 1) % kMany});
    for (int i = 0; i < kMany; ++i) example.batch.ask(0, i, i, 0, 2 * kMany);
    ModelRun<double> run(options, shape, 1, false);
    give(run, 0, example);
    run.forward();
    Eigen::MatrixXd reads(kMany, kMany);
    for (int i = 0; i < kMany; ++i)
      for (int v = 0; v < kMany; ++v) reads(v, i) = run.y(0, 0, i)[v];
    const Eigen::VectorXd values = Eigen::JacobiSVD<Eigen::MatrixXd>(reads).singularValues();
    const auto rank = (values.array() > 1e-10 * values[0]).count();
    if (kind.bounded_by_rank) {
      EXPECT_LE(rank, d) << "reads have a higher rank than d_dot: models/memories/" << kind.name
                         << ".cpp must not say .bounded_by_rank = true; singular values "
                         << values.transpose();
    } else {
      EXPECT_GT(rank, std::max<std::int64_t>(d, kFew))
          << "reads have no higher rank than keys have features: where that is so by the equation, say .bounded_by_rank = true in models/memories/"
          << kind.name << ".cpp; singular values " << values.transpose();
    }
  }
}

class Causality : public ::testing::TestWithParam<std::string> {};

// A read after n tokens knows nothing of later ones: not a bit changes, and no gradient reaches them.
TEST_P(Causality, ReadsDoNotSeeLaterTokens) {
  const Memory& kind = *find_memory(GetParam());
  const ModelShape shape{kKeys, kValues, false, 1, {kT, 2, 2}};
  for (const Setting& setting : valid_settings(kind, 4, kKeys, kValues, kEmbedding)) {
    SCOPED_TRACE(setting.name);
    Example example = find_example(setting.options, shape, 41);
    example.batch.ask(0, 0, 1, 0, 3);
    example.batch.ask(0, 1, 2, 1, 4);
    Example other = example;
    for (int t = 4; t < kT; ++t)
      other.batch.write(0, t, {(example.batch.token(0, t, 0) + 2) % kKeys, (t + 1) % kValues});
    ModelRun<double> a(setting.options, shape, 1, true), b(setting.options, shape, 1, true);
    give(a, 0, example);
    give(b, 0, other);
    a.forward();
    b.forward();
    ASSERT_TRUE(same_numbers("y", a.y(0, 0, 0), b.y(0, 0, 0), 2 * kValues));
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, Causality, every_memory(), memory_name);

}  // namespace crosstalk::checks::laws_test

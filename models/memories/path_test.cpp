// PaTH attention (Yang et al. 2025, arXiv 2505.16381): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/language_options.h"
#include "models/parts/look.h"
#include "models/testing/language.h"
#include "models/testing/memory_test.h"

namespace crosstalk::checks::path_test {
namespace {

// x - beta w (w.x)
Vector reflected(const Sequence& s, int t, const Vector& x) {
  const Vector& w = s.row("path_key", t);
  return plus(x, -s.number("beta", t) * dot(w, x), w);
}

Sequence with_path(const Options& options, std::uint64_t seed, double beta) {
  Sequence s = random_sequence(options, 7, 4, 3, seed);
  s.in["path_key"] = unit_rows(normal_rows(7, 4, seed + 50));
  s.in["beta"] = constant_rows(7, 1, beta);
  return s;
}

TEST(PathOracle, WithoutBetaItIsSoftmax) {
  const Sequence s = with_path(no_options(), 1, 0);
  expect_close(read("path", s), read("softmax", s));
}

// beta = 2: every H is orthogonal, and a position is a rotation of query and key, as in RoPE.
TEST(PathOracle, ReflectionsTurnQueriesAndKeys) {
  Sequence s = with_path(no_options(), 2, 2);
  const Matrix o = read("path", s);
  for (Matrix* rows : {&s.q, &s.k}) {
    for (int t = 0; t < s.T; ++t) {  // x -> H_1 .. H_t x
      for (int u = t; u >= 0; --u)
        (*rows)[static_cast<std::size_t>(t)] = reflected(s, u, (*rows)[static_cast<std::size_t>(t)]);
    }
  }
  expect_close(read("softmax", s), o);
}

// Decoding: every new token reflects all cached keys before its own is added.
TEST(PathOracle, IsSoftmaxOverKeysThatTokensReflect) {
  const Sequence s = with_path(no_options(), 3, 0.7);
  Matrix cache;
  for (int t = 0; t < s.T; ++t) {
    for (Vector& k : cache) k = reflected(s, t, k);
    cache.push_back(s.key(t));
    Vector logits;
    for (const Vector& k : cache) logits.push_back(dot(s.query(t), k));
    expect_close(read("path", s)[static_cast<std::size_t>(t)], softmax_average(logits, s.v, 0, 3));
  }
}

// With path_conv w is made of the tokens before, too: SiLU of their weighted sum, channel by channel.
TEST(PathKey, IsConvolvedOverTheTokensBefore) {
  const Options options = language_options_of("path", {{"memory.path_conv", 3}});
  const int T = 6, K = kWidth;
  ModelRun<double> run(options, language_shape(T, T, 0, 1), 1, true);
  give_example(run, 0, 3);
  Look<double> look;
  const auto graph = run.model.look({T, 1, T}, look);
  for (int t = 0; t < T; ++t) {
    graph->batch.tokens->at(0)[t] = t;
    graph->batch.position->at(0)[t] = t + 1;
    graph->batch.query->at(0)[t] = graph->batch.target->at(0)[t] = 0;
  }
  graph->graph.forward({});
  std::map<std::string, const double*> seen;
  for (const auto& tensor : look.tensors) seen[tensor.name] = tensor.value->value.at(0);
  const double *x = seen.at("token.path_key"), *w = seen.at("path_key");
  const Tensor<double> taps = run.parameter("layers.0.memory.path_key_conv");
  ASSERT_EQ(taps.size(), 3 * K);
  for (int t = 0; t < T; ++t) {
    Vector y(static_cast<std::size_t>(K), 0);
    for (int c = 0; c < K; ++c)
      for (int j = 0; j < 3 && j <= t; ++j)
        y[static_cast<std::size_t>(c)] += taps.at(0)[c * 3 + 2 - j] * x[(t - j) * K + c];
    y = silu_of(y);
    for (int c = 0; c < K; ++c) EXPECT_NEAR(w[t * K + c], of_unit(y, c), 1e-12) << t << " " << c;
  }
  EXPECT_EQ(language_state(options, 100) - language_state(language_options_of("path", {}), 100), 2 * K);
}

}  // namespace
}  // namespace crosstalk::checks::path_test

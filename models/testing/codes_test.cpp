// The retrieval model on codes: frozen keys and values of length 1, scored by cross-entropy (Zoology's continuous MQAR).
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/differences.h"
#include "models/testing/packs.h"

namespace crosstalk::checks::codes_test {

constexpr int kSize = 5, kQ = 2;

Options options_of(const std::string& memory, Settings changes = {}) {
  const Memory& kind = *find_memory(memory);
  Options options;
  options.set("memory.name", kind.name);
  options.set("model.d_key", std::int64_t{kDKey});
  options.set("model.key_codes", "frozen");
  options.set("model.value_codes", std::int64_t{kSize});
  for (const auto& [key, value] : changes) options.set(key, value);
  fill_defaults(options, "memory", kind.options);
  fill_defaults(options, "model", model_options());
  resolve_model(options, {kKeys, kValues});
  return resolved(kind, options);
}
ModelShape shape() {
  ModelShape shape;
  shape.sequence.Q = kQ;
  return shape;
}
bool is_code(const std::string& name) { return name == "key_embedding" || name == "value_codes"; }

template <class Real>
void give_coded_example(ModelRun<Real>& run, int r, std::uint64_t seed) {
  RandomStream random(seed, RandomDomain::task_train, 7);
  run.set_parameters(r, run.random_parameters(seed));
  run.set_batch(r, random_batch(random, kB, run.shape.sequence, kKeys, kValues));
}

// y = sum_t v_t (k_t.q), logits C (W_o y + b_o), with v_t a code and k_t, q projections of codes.
TEST(Codes, TheSumRuleReadsCodesAndScoresThem) {
  ModelRun<double> run(
      options_of("linear_attention", {{"memory.feature_map", "identity"}, {"memory.read_norm", "none"}}),
      shape(), 1, false);
  const Parameters p = run.random_parameters(3);
  run.set_parameters(0, p);
  HandBatch batch(kB, run.shape.sequence);
  for (int b = 0; b < kB; ++b) {
    for (int t = 0; t < kT; ++t) batch.write(b, t, {(t + b) % kKeys, (2 * t + b) % kValues});
    for (int q = 0; q < kQ; ++q) batch.ask(b, q, q, (q + b) % kValues, kT - q);
  }
  run.set_batch(0, batch);
  run.forward();

  const auto number = [&](const char* name, int i) { return p.at(name)[static_cast<std::size_t>(i)]; };
  const auto code = [&](const char* name, int row, int size) {
    Vector x;
    double squares = 0;
    for (int i = 0; i < size; ++i) squares += std::pow(number(name, row * size + i), 2);
    for (int i = 0; i < size; ++i) x.push_back(number(name, row * size + i) / std::sqrt(squares + 1e-6));
    return x;
  };
  const auto times = [&](const char* name, const Vector& x, int row) {
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
      sum += number(name, row * static_cast<int>(x.size()) + static_cast<int>(i)) * x[i];
    return sum;
  };
  double loss = 0;
  for (int b = 0; b < kB; ++b)
    for (int i = 0; i < kQ; ++i) {
      const Vector asked = code("key_embedding", i, kDKey);
      Vector y(kSize), read(kSize);
      for (int t = 0; t < kT - i; ++t) {
        const Vector key = code("key_embedding", (t + b) % kKeys, kDKey),
                     value = code("value_codes", (2 * t + b) % kValues, kSize);
        double product = 0;
        for (int d = 0; d < kDKey; ++d)
          product += (times("key_projection.key", key, d) + times("key_projection.value", value, d) +
                      number("key_projection.bias", d)) *
                     (times("query_projection.key", asked, d) + number("query_projection.bias", d));
        for (std::size_t v = 0; v < kSize; ++v) y[v] += product * value[v];
      }
      for (int v = 0; v < kSize; ++v)
        read[static_cast<std::size_t>(v)] =
            times("output_projection", y, v) + number("output_projection.bias", v);
      double sum = 0, right = 0;
      for (int c = 0; c < kValues; ++c) {
        const Vector answer = code("value_codes", c, kSize);
        double logit = 0;
        for (std::size_t v = 0; v < kSize; ++v) logit += read[v] * answer[v];
        sum += std::exp(logit);
        if (c == (i + b) % kValues) right = logit;
      }
      loss += std::log(sum) - right;
    }
  EXPECT_NEAR(run.loss(0), loss / (kB * kQ), 1e-12 * std::abs(loss));
}

TEST(Codes, AreFrozenAndAllElseLearns) {
  for (const char* memory : {"linear_attention", "delta", "softmax", "gated_delta"}) {
    SCOPED_TRACE(memory);
    ModelRun<double> run(options_of(memory), shape(), 1, true);
    give_coded_example(run, 0, 5);
    run.forward();
    run.backward();
    auto& block = run.model.parameters();
    std::int64_t frozen = 0, all = 0;
    for (int i = 0; i < block.count(); ++i) {
      const Tensor<double> p = block.value(i), g = block.gradient(i);
      all += p.size();
      if (is_code(block.name(i))) frozen += p.size();
      for (std::int64_t j = 0; j < p.size(); ++j) {
        const double got = g.at(0)[j];
        if (is_code(block.name(i))) {
          ASSERT_EQ(got, 0) << block.name(i);
          continue;
        }
        std::vector<double> bends;
        const double wanted = difference(run, p, j, 1, bends)[0];
        ASSERT_TRUE(std::abs(got - wanted) <= 1e-8 * std::max(1., std::abs(wanted)))
            << block.name(i) << " " << j;
      }
    }
    EXPECT_EQ(run.model.trainable(), all - frozen);
    const Parameters before = run.parameters(0);
    for (int step = 0; step < 3; ++step) run.train_step();
    for (const auto& [name, values] : run.parameters(0))
      EXPECT_EQ(values == before.at(name), is_code(name)) << name;
  }
}

// Codes and packs: a replica's bits do not depend on its neighbours.
TEST(Codes, TrainAsIfAlone) {
  expect_as_alone<float>(options_of("delta"), shape(), 2, 1, [](auto& run, int r, int identity) {
    give_coded_example(run, r, static_cast<std::uint64_t>(identity));
  });
}

TEST(Codes, BelongToTheRetrievalModel) {
  for (const char* model : {"language", "probe"})
    for (const auto& [key, value] : Settings{{"model.key_codes", "frozen"}, {"model.value_codes", 8}}) {
      Options options;
      options.set("memory.name", "delta");
      options.set("model.name", std::string(model));
      options.set(key, value);
      fill_defaults(options, "memory", find_memory("delta")->options);
      fill_defaults(options, "model", model_options());
      const bool language = std::string(model) == "language";
      const Vocabulary vocabulary = {language ? 0 : kKeys, kValues, false, language ? kKeys : 0};
      EXPECT_EQ(refused([&] { resolve_model(options, vocabulary); }).key, key) << model;
    }
  const Options derived = options_of("delta");
  EXPECT_EQ(derived.get_int("model.embedding"), kDKey);
}

}  // namespace crosstalk::checks::codes_test

// Parts around any memory: nothing changes where they are off; every memory with each of them has right gradients, replicas
// and causality; what they do by definition; what they keep.
// SPDX-License-Identifier: Apache-2.0
#include "models/parts/model_parts.h"

#include "models/testing/differences.h"
#include "models/testing/variants.h"

namespace crosstalk::checks::parts_test {

/// A memory with its defaults and parts of the model; two heads where the memory has them.
Options with_parts(const std::string& memory, const Settings& parts, int heads = 1) {
  Options options = memory_options(*find_memory(memory), 4, kKeys, kValues, 3);
  options.set("model.heads", std::int64_t{heads});
  for (const auto& [name, value] : parts) options.set("model." + name, value);
  return resolved(*find_memory(memory), options);
}

/// Settings that every memory is tried with.
const std::vector<std::pair<std::string, Settings>>& every_part() {
  static const std::vector<std::pair<std::string, Settings>> all = {
      {"conv, rms, sigmoid", {{"short_conv", "k"}, {"out_norm", "rms"}, {"out_gate", "sigmoid"}}},
      {"conv of 3 with SiLU after a shift, layer",
       {{"short_conv", "k"},
        {"short_conv_width", 3},
        {"short_conv_silu", true},
        {"token_shift", "k"},
        {"out_norm", "layer"}}},
      {"shift, group, SiLU", {{"token_shift", "k"}, {"out_norm", "group"}, {"out_gate", "silu"}}}};
  return all;
}

Example example_for(const Options& options, const ModelShape& shape, std::uint64_t seed) {
  ModelRun<double> layout(options, shape, 1, false);
  RandomStream random(seed, RandomDomain::task_train, 7);
  return {layout.random_parameters(seed),
          random_batch(random, shape.B, shape.sequence, shape.keys, shape.values),
          static_cast<std::int32_t>(seed), 1, 1};
}

class MemoryParts : public ::testing::TestWithParam<std::string> {};

TEST_P(MemoryParts, ChangeNothingWhereTheyAreOff) {
  const ModelShape shape{kKeys, kValues, false, kB, {kT, 2, 3}};
  const Options off = with_parts(GetParam(), {});
  Options before;  // as options were before there were parts
  for (const auto& [key, value] : off.values()) {
    bool part = false;
    for (const OptionSpec& spec : part_options()) part = part || key == "model." + spec.name;
    if (!part) before.set(key, value);
  }
  EXPECT_LT(before.values().size(), off.values().size());
  ModelRun<float> a(off, shape, 1, true), b(before, shape, 1, true);
  EXPECT_EQ(a.graph->graph.node_names(), b.graph->graph.node_names());
  for (const std::string& name : a.graph->graph.node_names()) EXPECT_EQ(name.find("short_conv"), name.npos);
  const Example example = example_for(off, shape, 5);
  for (auto* run : {&a, &b}) give(*run, 0, example), run->train_step();
  const Tensor<float> p = a.model.parameters().values(), q = b.model.parameters().values();
  ASSERT_EQ(p.size(), q.size());
  EXPECT_TRUE(same_numbers("parameters", p.at(0), q.at(0), p.size()));
}

TEST_P(MemoryParts, GradientsAreThoseOfDifferences) {
  const ModelShape shape{kKeys, kValues, false, 1, {4, 2, 2}};
  const bool kinks =
      with_parts(GetParam(), {}).has("memory.feature_map") && !smooth(with_parts(GetParam(), {}));
  if (kinks) {
    GTEST_SKIP() << "its default feature map has kinks";
  }
  for (const auto& [name, parts] : every_part()) {
    SCOPED_TRACE(name);
    const Options options = with_parts(GetParam(), parts);
    ModelRun<double> run(options, shape, 1, true);
    give(run, 0, example_for(options, shape, 9));
    ASSERT_NO_FATAL_FAILURE(expect_gradients(run, 1));
    run.graph->graph.check_guards();
  }
}

TEST_P(MemoryParts, ReplicasAndLaterTokensDoNotMatter) {
  const ModelShape shape{kKeys, kValues, false, 1, {kT, 2, 2}};
  for (const auto& [name, parts] : every_part()) {
    SCOPED_TRACE(name);
    const Options options = with_parts(GetParam(), parts);
    Example example = example_for(options, shape, 21);
    example.batch.ask(0, 0, 1, 0, 3), example.batch.ask(0, 1, 2, 1, 4);
    ModelRun<float> alone(options, shape, 1, true), pack(options, shape, 3, true);
    give(alone, 0, example);
    Example other = example_for(options, shape, 22);
    give(pack, 0, other), give(pack, 2, other);
    other = example;
    for (int t = 4; t < kT; ++t)
      other.batch.write(0, t, {(example.batch.token(0, t, 0) + 2) % kKeys, (t + 1) % kValues});
    give(pack, 1, other);
    alone.forward();
    pack.forward();
    ASSERT_TRUE(same_numbers("y", pack.y(1, 0, 0), alone.y(0, 0, 0), 2 * kValues));
    give(pack, 1, example);
    for (auto* run : {&alone, &pack}) run->train_step();
    const Tensor<float> p = pack.model.parameters().values(), q = alone.model.parameters().values();
    ASSERT_TRUE(same_numbers("parameters", p.at(1), q.at(0), q.size()));
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, MemoryParts, every_memory(), memory_name);

Vector read_all(ModelRun<double>& run) {
  run.forward();
  return Vector(run.y(0, 0, 0), run.y(0, 0, 0) + run.shape.B * run.shape.sequence.Q * run.shape.values);
}

const ModelShape kShape{kKeys, kValues, false, kB, {kT, 2, 3}};

// A weight on the token before: every association is found by the key of the one before it.
TEST(ShortConvLaw, AWeightOnTheTokenBeforeShiftsTheKeys) {
  for (const bool shift : {false, true}) {  // token_shift with mu = 1 does the same
    const Options plain = with_parts("softmax", {}),
                  mixed = with_parts("softmax", {{shift ? "token_shift" : "short_conv", "k"}});
    Example example = example_for(plain, kShape, 4);
    for (const char* name : {"key_projection.value", "key_projection.bias"})
      std::fill(example.parameters[name].begin(), example.parameters[name].end(), 0);
    for (int b = 0; b < kB; ++b)
      for (int t = 0; t < kT; ++t) example.batch.write(b, t, {(2 * t + b) % kKeys, (t + b) % kValues});
    Example late = example;
    for (int b = 0; b < kB; ++b)
      for (int t = 0; t < kT; ++t)
        late.batch.write(b, t,
                         {t == 0 ? -1 : example.batch.token(b, t - 1, 0), example.batch.token(b, t, 1)});
    ModelRun<double> a(plain, kShape, 1, false), b(mixed, kShape, 1, false);
    give(a, 0, late), give(b, 0, example);
    if (shift) {
      b.set_parameter(0, "token_shift.k", Vector(4, 1));
    } else {
      Vector w(16, 0);
      for (std::size_t i = 2; i < w.size(); i += 4) w[i] = 1;
      b.set_parameter(0, "short_conv.k", w);
    }
    const Vector want = read_all(a);
    EXPECT_TRUE(close("y", read_all(b).data(), want.data(), static_cast<std::int64_t>(want.size()), 1e-13));
  }
}

/// Numbers of tokens before t of which outputs from t on still depend: what must be kept.
std::int64_t looked_back_at(const Options& options, const std::string& what, int channels) {
  constexpr int T = 12, t = 8;
  Graph<double> graph(Device::cpu, 1, false);
  Variable<double>* x = graph.variable({1, T, channels}, false);
  std::vector<Variable<double>*> weights;
  ModelParts<double> parts(graph, options, [&](const std::string&, const std::vector<int>& dims, Init) {
    weights.push_back(dims.size() == 1 ? graph.variable({dims[0]}, false)
                                       : graph.variable({dims[0], dims[1]}, false));
    return weights.back();
  });
  Variable<double>* y = parts.mixed(what, x);
  graph.keep(y);
  graph.plan();
  for (Variable<double>* w : weights)
    for (std::int64_t i = 0; i < w->value.size(); ++i)
      w->value.at(0)[i] = 0.3 + 0.01 * static_cast<double>(i);
  for (std::int64_t i = 0; i < x->value.size(); ++i) x->value.at(0)[i] = 1 + 0.1 * static_cast<double>(i % 7);
  graph.forward({});
  const auto rest = [&] { return Vector(y->value.at(0) + t * channels, y->value.at(0) + T * channels); };
  const Vector before = rest();
  std::int64_t kept = 0;
  for (int i = 0; i < t * channels; ++i) {
    x->value.at(0)[i] += 0.5;
    graph.forward({});
    kept += rest() != before;
    x->value.at(0)[i] -= 0.5;
  }
  return kept;
}

TEST(PartsState, IsWhatConvolutionAndShiftLookBackAt) {
  const std::vector<Settings> settings = {{{"short_conv", "k"}},
                                          {{"short_conv", "qkv"}, {"short_conv_width", 3}},
                                          {{"short_conv", "kv"}, {"token_shift", "q"}},
                                          {{"token_shift", "qk"}, {"out_norm", "rms"}, {"out_gate", "silu"}},
                                          {{"out_norm", "group"}}};
  for (const Settings& parts : settings)
    for (const int heads : {1, 2}) {
      Options options = memory_options(*find_memory("delta"), 4, kKeys, kValues, 3);
      options.set("model.heads", std::int64_t{heads});
      const Options plain = resolved(*find_memory("delta"), options);
      for (const auto& [name, value] : parts) options.set("model." + name, value);
      options = resolved(*find_memory("delta"), options);
      const std::int64_t counted = looked_back_at(options, "q", 4) + looked_back_at(options, "k", 4) +
                                   looked_back_at(options, "v", heads * kValues);
      const Memory& delta = *find_memory("delta");
      EXPECT_EQ(delta.state_size(options, kValues, 9) - delta.state_size(plain, kValues, 9), counted);
    }
}

TEST(PartsState, EveryWriteOfATokenIsConvolved) {
  const Options plain = with_parts("delta_product", {}),
                conv = with_parts("delta_product", {{"short_conv", "k"}});
  const Memory& kind = *find_memory("delta_product");
  EXPECT_EQ(kind.state_size(conv, kValues, 9) - kind.state_size(plain, kValues, 9),
            3 * 4 * plain.get_int("memory.writes"));
}

std::string refusal(const Settings& parts, const std::string& key) {
  Options options = memory_options(*find_memory("softmax"), 4, kKeys, kValues, 3);
  for (const auto& [name, value] : parts) options.set("model." + name, value);
  const Refused found = refused([&] { resolve_model(options, {kKeys, kValues}); });
  EXPECT_EQ(found.key, key) << found.why;
  return found.why;
}

TEST(PartsResolve, RefuseWhatHasNoMeaning) {
  EXPECT_NE(refusal({{"short_conv", "qk"}}, "model.short_conv").find("beside the sequence"),
            std::string::npos);
  EXPECT_NE(refusal({{"short_conv", "kv"}}, "model.short_conv").find("answers"), std::string::npos);
  EXPECT_NE(refusal({{"token_shift", "q"}}, "model.token_shift").find("beside the sequence"),
            std::string::npos);
  EXPECT_NE(refusal({{"short_conv_width", 3}}, "model.short_conv_width").find("short_conv"),
            std::string::npos);
  refusal({{"short_conv_silu", true}}, "model.short_conv_silu");
  Options fine = memory_options(*find_memory("softmax"), 4, kKeys, kValues, 3);
  fine.set("model.short_conv", "k"), fine.set("model.short_conv_silu", true);
  EXPECT_NO_THROW(resolve_model(fine, {kKeys, kValues}));
}

}  // namespace crosstalk::checks::parts_test

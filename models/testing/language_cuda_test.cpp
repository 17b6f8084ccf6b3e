// Language models on a GPU: losses, answers and gradients are those of the CPU in double precision, and a replica has the
// same bits alone as in a pack.
// SPDX-License-Identifier: Apache-2.0
#include <tuple>

#include "kernels/base/form.h"
#include "kernels/recurrence/read_weights.h"
#include "kernels/testing/compare.h"
#include "kernels/testing/cuda_test.h"
#include "kernels/testing/shared_limit.h"
#include "models/graph/passes.h"
#include "models/testing/language.h"

namespace crosstalk::checks::language_cuda_test {

struct LanguageResult {
  std::vector<double> losses, gradients;
  std::map<std::string, std::vector<double>> by_name;  ///< gradients of each parameter
  std::string forms;
  std::vector<std::int32_t> correct;
  std::size_t bytes = 0;
};

/// Parameters as they start and a batch, by seed; replica `place` of R.
template <class Real>
LanguageResult run_language(Device device, const Options& options, const ModelShape& shape, int R, int place,
                            std::uint64_t seed, Precision products = Precision::full) {
  const auto model = make_model<Real>(options, shape.vocabulary(), device, R, products);
  const auto graph = model->graph(shape.B, shape.sequence, true);
  const auto fill = [&](const Tensor<std::int32_t>* to, int r, const std::vector<std::int32_t>& from) {
    const std::size_t bytes = from.size() * sizeof(std::int32_t);
    if (device == Device::cuda) {
      cuda_copy_to_device(to->at(r), from.data(), bytes);
    } else {
      std::copy(from.begin(), from.end(), to->at(r));
    }
  };
  for (int r = 0; r < R; ++r) {
    const std::uint64_t own = seed + static_cast<std::uint64_t>(r - place + R);
    model->initialise(r, own);
    RandomStream random(own, RandomDomain::task_train, 7);
    const HandBatch batch = token_batch(random, shape);
    fill(graph->batch.tokens, r, batch.tokens), fill(graph->batch.query, r, batch.query);
    fill(graph->batch.position, r, batch.position), fill(graph->batch.target, r, batch.target);
    fill(graph->feature_seed, r, {static_cast<std::int32_t>(own), 0}), fill(graph->feature_draw, r, {3});
    if (graph->dropout_draw) fill(graph->dropout_draw, r, {5});
  }
  Exec exec;
  exec.device = device;
  graph->prepare(exec);
  graph->graph.forward(exec);
  graph->graph.backward(exec);
  LanguageResult result;
  const auto read = [&](const auto& tensor, auto& to) {
    std::vector<std::remove_pointer_t<decltype(tensor.data)>> host(static_cast<std::size_t>(tensor.size()));
    copy_to_host(device, host.data(), tensor.at(place), host.size() * sizeof host[0]);
    to.insert(to.end(), host.begin(), host.end());
  };
  result.bytes = graph->graph.bytes();
  read(graph->loss.query_loss->value, result.losses);
  read(graph->loss.loss->value, result.losses);
  read(*graph->loss.correct, result.correct);
  read(model->parameters().gradients(), result.gradients);
  for (int i = 0; i < model->parameters().count(); ++i)
    read(model->parameters().gradient(i), result.by_name[model->parameters().name(i)]);
  result.forms = graph->graph.forms();
  return result;
}

Options on_gpu(const std::string& memory, Settings settings) {
  settings.insert(settings.begin(), {"model.weight_deviation", 0.3});
  return language_options_of(memory, settings);
}

/// Of a study's sizes, and more settings.
Options wide(const std::string& memory, const ModelShape& shape, int width, int heads, int layers = 2,
             const Settings& more = {}) {
  Settings settings = {{"model.width", std::int64_t{width}},
                       {"model.heads", std::int64_t{heads}},
                       {"model.layers", std::int64_t{layers}},
                       {"model.weight_deviation", 0.1}};
  settings.insert(settings.end(), more.begin(), more.end());
  return language_options_of(memory, settings, shape.vocabulary());
}

/// Replica `place` of R has seed + R: the same seed for both.
void expect_the_same_bits(const LanguageResult& pack, const LanguageResult& alone) {
  EXPECT_EQ(pack.losses, alone.losses);
  EXPECT_EQ(pack.gradients, alone.gradients);
}

void expect_the_same(const LanguageResult& got, const LanguageResult& want, double limit) {
  EXPECT_EQ(got.correct, want.correct);
  for (const auto& [name, a, b] : {std::tuple{"losses", &got.losses, &want.losses},
                                   std::tuple{"gradients", &got.gradients, &want.gradients}}) {
    const auto n = static_cast<std::int64_t>(b->size());
    ASSERT_TRUE(close(name, a->data(), b->data(), n, limit * std::max(1e-3, magnitude(b->data(), n))));
  }
}

const ModelShape& small() {
  static const ModelShape shape = language_shape(21, 5, 0, 3);
  return shape;
}

class LanguageOnCuda : public CudaTest {};
class MemoryInLanguageOnCuda : public CudaTest, public ::testing::WithParamInterface<std::string> {};

TEST_F(LanguageOnCuda, EveryKindOfBlockIsTheCpus) {
  for (const auto& [name, settings] : block_kinds()) {
    if (name == "positions") continue;  // of fewer tokens; below
    SCOPED_TRACE(name);
    const Options options = on_gpu("delta", settings);
    ASSERT_NO_FATAL_FAILURE(expect_the_same(run_language<double>(Device::cuda, options, small(), 2, 1, 7),
                                            run_language<double>(Device::cpu, options, small(), 2, 1, 7),
                                            1e-9));
  }
  const Options positions = on_gpu("softmax", {{"model.positions", "learned"}, {"model.max_length", 30}});
  expect_the_same(run_language<double>(Device::cuda, positions, small(), 2, 1, 7),
                  run_language<double>(Device::cpu, positions, small(), 2, 1, 7), 1e-9);
}

TEST_F(LanguageOnCuda, AReplicaHasTheSameBitsAlone) {
  for (const auto& [name, settings] : block_kinds()) {
    if (name == "positions") continue;
    SCOPED_TRACE(name);
    const Options options = on_gpu("softmax", settings);
    const LanguageResult pack = run_language<float>(Device::cuda, options, small(), 3, 2, 7),
                         alone = run_language<float>(Device::cuda, options, small(), 1, 0, 9);
    expect_the_same_bits(pack, alone);
  }
}

// Wide enough for every tile, in both precisions.
TEST_F(LanguageOnCuda, SizesOfAStudy) {
  ModelShape shape{0, 300, false, 16, {128, 1, 24}, 300};
  const Options options = language_options_of("softmax",
                                              {{"model.width", 64},
                                               {"model.layers", 2},
                                               {"model.stack", "base_conv memory"},
                                               {"model.mlp", "gelu"},
                                               {"model.embed_dropout", 0.1}},
                                              shape.vocabulary());
  const LanguageResult want = run_language<double>(Device::cpu, options, shape, 1, 0, 3);
  expect_the_same(run_language<double>(Device::cuda, options, shape, 1, 0, 3), want, 1e-9);
  LanguageResult single = run_language<float>(Device::cuda, options, shape, 1, 0, 3);
  single.correct = want.correct;  // of nearly equal logits either may be the larger
  expect_the_same(single, want, 2e-3);
}

// What lies between maps and attention as operands: they would be rounded where they are read anyway.
TEST_F(LanguageOnCuda, RoundedBetweenMapsAndAttention) {
  for (const auto& [width, heads, T, B] :
       {std::tuple{64, 1, 40, 65}, {128, 1, 70, 64}, {128, 2, 150, 33}, {128, 1, 256, 160}}) {
    if (few_replicas() && T > 70) continue;
    SCOPED_TRACE(fmt::format("width {} heads {} T {}", width, heads, T));
    const ModelShape shape{0, 300, false, B, {T, 1, 12}, 300};
    const Options options = wide("softmax", shape, width, heads, 2, {{"model.bias", true}});
    const auto result = [&] {
      return run_language<float>(Device::cuda, options, shape, 2, 1, 3, Precision::bf16);
    };
    const LanguageResult got = result();
    EXPECT_EQ(got.gradients, result().gradients);
    switch_off_passes({"rounded"});
    LanguageResult want = result();
    switch_off_passes({});
    EXPECT_LT(got.bytes, want.bytes);
    const auto n = static_cast<std::int64_t>(want.losses.size());
    EXPECT_TRUE(close("losses", got.losses.data(), want.losses.data(), n, 1e-5));
    expect_the_same(got, want, 2e-2);
  }
}

double norm(const std::vector<double>& x) {
  double sum = 0;
  for (const double e : x) sum += e * e;
  return std::sqrt(sum);
}

double distance(std::vector<double> a, const std::vector<double>& b) {
  for (std::size_t i = 0; i < b.size(); ++i) a[i] -= b[i];
  return norm(a);
}

/// Losses, and gradients parameter by parameter: the error's length over their own, beside three times that of `rounded`, the
/// same model on the CPU with operands rounded, where it is given.
void expect_near(const LanguageResult& got, const LanguageResult& want, double limit,
                 const LanguageResult* rounded = nullptr) {
  double largest = 0;
  for (const auto& [name, x] : want.by_name) largest = std::max(largest, norm(x));
  for (const auto& [name, x] : want.by_name) {
    const double as_rounded = rounded ? 3 * distance(rounded->by_name.at(name), x) : 0;
    EXPECT_LE(distance(got.by_name.at(name), x), limit * std::max(norm(x), 1e-2 * largest) + as_rounded)
        << name << " of length " << norm(x);
  }
  EXPECT_LE(distance(got.losses, want.losses), limit * norm(want.losses)) << "losses";
}

// Whole models, with roundings of every product: heads of one tile, of several and wider than the kernels' states; tokens
// of several chunks, and fewer than one.
TEST_F(LanguageOnCuda, RecurrencesInRoundedFormats) {
  using Sizes = std::vector<std::tuple<int, int, int>>;  // width, heads, tokens
  const Sizes all = {{64, 1, 150}, {64, 2, 20}, {256, 2, 150}, {256, 4, 20}, {256, 1, 70}},
              few = {{64, 1, 70}};  // under compute-sanitizer
  const bool is_slow = few_replicas();
  for (const char* memory : {"deltanet", "gated_delta", "kda", "gla"}) {
    for (const auto& [width, heads, T] : is_slow ? few : all) {
      const ModelShape shape{0, 100, false, 2, {T, 1, 9}, 100};
      const Options options = wide(memory, shape, width, heads);
      const LanguageResult want = run_language<double>(Device::cpu, options, shape, 2, 1, 3);
      for (const auto& [format, limit] : {std::pair{Precision::tf32, 2e-2}, {Precision::bf16, 1.5e-1}}) {
        const LanguageResult got = run_language<float>(Device::cuda, options, shape, 2, 1, 3, format);
        SCOPED_TRACE(fmt::format("{}, width {}, {} heads, {} tokens, {}: {}", memory, width, heads, T,
                                 format == Precision::tf32 ? "tf32" : "bf16", got.forms));
        expect_near(got, want, limit);
        // Chunks hold no states that erase and have more than 128 key channels (state_chunk_cuda.cu): those go by all pairs of
        // tokens, or token after token; and where a GPU has less shared memory than an H100, chunks may not fit it.
        const bool chunks = width / heads <= 128 || std::string(memory) == "gla";
        const bool is_chunk = got.forms.find("state_read:chunk") != std::string::npos,
                   has_state = got.forms.find("state_read:") != std::string::npos;  // else T x T: few tokens
        if (has_state && (!chunks || shared_memory_limit() >= 227 * 1024)) {
          EXPECT_EQ(is_chunk, chunks);
        }
        if (!is_slow) {
          EXPECT_EQ(got.gradients,
                    run_language<float>(Device::cuda, options, shape, 2, 1, 3, format).gradients);
        }
      }
    }
  }
}

// Memories whose weights of all pairs of tokens tiles make, or chunks read of one-hot values, an answer at every token and at few.
TEST_F(LanguageOnCuda, WeightsByTilesInBf16) {
  for (const char* memory : {"path", "path_fox", "log_linear_gated_delta", "log_linear_attention", "wall"})
    for (const auto& [heads, T, Q] : {std::tuple{1, 150, 150}, {2, 150, 40}, {2, 20, 20}}) {
      if (T > 20 && few_replicas()) continue;  // under compute-sanitizer
      const ModelShape shape{0, 100, false, 2, {T, 1, Q}, 100};
      const Options options = wide(memory, shape, 64, heads);
      const auto run = [&](int R, int place, std::uint64_t seed) {
        return run_language<float>(Device::cuda, options, shape, R, place, seed, Precision::bf16);
      };
      const LanguageResult alone = run(1, 0, 9), pack = run(3, 2, 7);
      SCOPED_TRACE(fmt::format("{}, {} heads, {} tokens, {} answers: {}", memory, heads, T, Q, alone.forms));
      const bool by_chunks = std::string(memory) == "wall",  // decays of key channels
          erases = !by_chunks && std::string(memory) != "log_linear_attention",
                 fits = shared_memory_limit() >= 163 * 1024,
                 by_tiles = !by_chunks && fits && !known_forms<ReadWeights<float>>().empty();
      const auto has = [&](const char* form) { return alone.forms.find(form) != std::string::npos; };
      EXPECT_EQ(has("read_weights:tiles"), by_tiles);
      EXPECT_EQ(has("read_weights"), by_tiles);
      EXPECT_EQ(has("solve"), erases && !by_tiles);  // scores of all pairs
      EXPECT_EQ(has("state_read"), by_chunks);
      EXPECT_TRUE(!by_chunks || !fits || has("state_read:chunk"));
      expect_near(alone, run_language<double>(Device::cpu, options, shape, 1, 0, 9), 1.5e-1);
      expect_the_same_bits(pack, alone);
    }
}

TEST_F(LanguageOnCuda, ARoundedReplicaHasTheSameBitsAlone) {
  for (const char* memory : {"softmax", "deltanet", "gated_delta", "kda", "gla", "rwkv7"}) {
    const ModelShape shape{0, 100, false, few_replicas() ? 2 : 64, {40, 1, 9}, 100};
    const Options options = wide(memory, shape, 64, 1);
    for (const Precision format : {Precision::tf32, Precision::bf16}) {
      SCOPED_TRACE(fmt::format("{} {}", memory, format == Precision::tf32 ? "tf32" : "bf16"));
      const LanguageResult pack = run_language<float>(Device::cuda, options, shape, 3, 2, 7, format),
                           alone = run_language<float>(Device::cuda, options, shape, 1, 0, 9, format);
      expect_the_same_bits(pack, alone);
    }
  }
}

// Layers as published: gated MLPs, norms with gain and gate behind the memory, biased convolutions, more values than keys; an
// answer at every token and at few. In fp32 they are the CPU's. In bf16 some gradients tell little of the kernels: where what is
// read is short, its norm enlarges what rounding did (of GLA's second layer 10 to 25 % on the CPU, if maps alone round).
TEST_F(LanguageOnCuda, LayersAsPublishedInBf16) {
  for (const char* memory : {"rope", "deltanet", "gated_delta", "mamba2", "gla", "mesa"})
    for (const auto& [width, Q] : {std::pair{64, 70}, {128, 70}, {128, 9}}) {
      const ModelShape shape{0, 100, false, 8, {70, 1, Q}, 100};
      Settings settings = {{"model.mlp", "swiglu"}};
      if (std::string(memory) != "rope")
        settings.insert(settings.end(), {{"model.short_conv", "qkv"},
                                         {"model.short_conv_bias", true},
                                         {"model.silu", "qkv"},
                                         {"model.out_norm", "rms"},
                                         {"model.out_norm_gain", "shared"},
                                         {"model.out_gate", "silu"}});
      if (std::string(memory) != "rope" && std::string(memory) != "mesa")
        settings.push_back({"model.d_value", std::int64_t{2 * width}});
      const Options options = wide(memory, shape, width, 1, 2, settings);
      const LanguageResult want = run_language<double>(Device::cpu, options, shape, 1, 0, 9);
      const auto run = [&](int R, int place, std::uint64_t seed) {
        return run_language<float>(Device::cuda, options, shape, R, place, seed, Precision::bf16);
      };
      const LanguageResult alone = run(1, 0, 9), pack = run(3, 2, 7);
      SCOPED_TRACE(fmt::format("{}, width {}, {} answers: {}", memory, width, Q, alone.forms));
      EXPECT_EQ(alone.forms.find("swiglu") != std::string::npos,
                width == 64 || shared_memory_limit() >= 163 * 1024);
      const LanguageResult rounded =
          run_language<float>(Device::cpu, options, shape, 1, 0, 9, Precision::bf16);
      expect_near(alone, want, 5e-2, &rounded);
      expect_near(run_language<float>(Device::cuda, options, shape, 1, 0, 9), want, 2e-3);
      expect_the_same_bits(pack, alone);
    }
}

// Which kernels run follows the GPU's shared memory, and the record says so.
TEST_F(LanguageOnCuda, FormsFollowSharedMemory) {
  const ModelShape shape{0, 100, false, 64, {128, 1, 9}, 100};
  const Options options = wide("softmax", shape, 128, 1, 1);
  const LanguageResult want = run_language<double>(Device::cpu, options, shape, 1, 0, 3);
  for (const auto& [kib, form] :
       {std::pair{227, "attend_mix:whole"}, {163, "attend_mix:whole"}, {99, "attend_mix:tiles"}}) {
    if (shared_memory_limit() < static_cast<std::size_t>(kib) * 1024) continue;
    const SharedLimit limit(kib);
    const LanguageResult got = run_language<float>(Device::cuda, options, shape, 1, 0, 3, Precision::bf16);
    SCOPED_TRACE(fmt::format("{} KiB: {}", kib, got.forms));
    EXPECT_NE(got.forms.find(form), std::string::npos);
    EXPECT_NE(got.forms.find("joined_linear:tiles"), std::string::npos);
    expect_near(got, want, 1.5e-1);
  }
}

// Values of more than 128 channels are read as heads of their own, by chunks.
TEST_F(LanguageOnCuda, WideValuesAreReadByChunks) {
  const ModelShape shape{0, 100, false, 4, {150, 1, 9}, 100};
  for (const char* memory : {"deltanet", "gated_delta", "kda", "gla", "rwkv7"}) {
    const Options options = wide(memory, shape, 64, 2, 1, {{"model.d_value", 384}});
    const LanguageResult want = run_language<double>(Device::cpu, options, shape, 1, 0, 3);
    const LanguageResult got = run_language<float>(Device::cuda, options, shape, 1, 0, 3);
    SCOPED_TRACE(fmt::format("{}: {}", memory, got.forms));
    // Chunks of a gate a channel, or with a free erase, do not fit smaller shared memory in fp32: those tokens are walked.
    if (shared_memory_limit() >= std::size_t{227} * 1024) {
      EXPECT_NE(got.forms.find("state_read:chunk"), std::string::npos);
    }
    expect_near(got, want, 2e-3);
  }
}

TEST_P(MemoryInLanguageOnCuda, IsTheCpus) {
  const Options options = on_gpu(GetParam(), {{"model.heads", 2}, {"model.layers", 2}});
  expect_the_same(run_language<double>(Device::cuda, options, small(), 2, 1, 7),
                  run_language<double>(Device::cpu, options, small(), 2, 1, 7), 1e-8);
}

INSTANTIATE_TEST_SUITE_P(Registry, MemoryInLanguageOnCuda, every_memory(), memory_name);

// The helper itself, where there is no GPU.
TEST(LanguageOnCudaData, ReplicasOfOneSeedAreEqual) {
  const Options options = on_gpu("softmax", {});
  const LanguageResult pack = run_language<float>(Device::cpu, options, small(), 3, 2, 7),
                       alone = run_language<float>(Device::cpu, options, small(), 1, 0, 9);
  expect_the_same_bits(pack, alone);
}

}  // namespace crosstalk::checks::language_cuda_test

// A language model that reads a sequence in pieces says what it says of the whole, with every memory that hands a state on;
// the others are refused.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/error.h"
#include "kernels/testing/compare.h"
#include "kernels/testing/cuda_test.h"
#include "models/testing/language.h"

namespace crosstalk::checks::pieces_test {

constexpr int kTokensRead = 12, kPiece = 4;

/// Batches in which every token asks.
HandBatch asking_batch(RandomStream& random, const ModelShape& s) {
  HandBatch batch(s.B, s.sequence);
  const auto below = [&](int n) {
    return static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(n)));
  };
  for (int b = 0; b < s.B; ++b)
    for (int t = 0; t < s.sequence.T; ++t) {
      batch.write(b, t, {below(s.tokens)});
      batch.ask(b, t, batch.token(b, t, 0), below(s.values), t + 1);
    }
  return batch;
}

/// A tensor of the first replica, to and from a device.
template <class T>
void fill(Device device, const Tensor<T>& to, const std::vector<T>& from) {
  if (device == Device::cuda) {
    cuda_copy_to_device(to.at(0), from.data(), from.size() * sizeof(T));
  } else {
    std::copy(from.begin(), from.end(), to.at(0));
  }
}
template <class T>
std::vector<double> numbers(Device device, const Tensor<T>& tensor) {
  std::vector<T> host(static_cast<std::size_t>(tensor.size()));
  copy_to_host(device, host.data(), tensor.at(0), host.size() * sizeof(T));
  return {host.begin(), host.end()};
}

/// Expects that a model on a device says of a sequence's pieces, the last of which is filled up, what one on the CPU in double
/// says of the whole.
template <class Real = double>
void expect_pieces(const Options& options, int T, int piece, Device device = Device::cpu,
                   double limit = 1e-10) {
  const ModelShape shape = language_shape(T, T);
  const int B = shape.B;
  ModelRun<double> whole(options, shape, 1, false);
  RandomStream random(11, RandomDomain::task_train, 7);
  Parameters parameters = whole.random_parameters(11);
  for (auto& [name, values] : parameters)
    for (double& value : values) value *= 0.7;
  whole.set_parameters(0, parameters);
  whole.set_features(0, 11, 1);
  const HandBatch batch = asking_batch(random, shape);
  whole.set_batch(0, batch);
  whole.forward();
  const std::vector<double> want = numbers(Device::cpu, whole.graph->loss.query_loss->value);

  const auto model = make_model<Real>(options, shape.vocabulary(), device, 1);
  auto& block = model->parameters();
  for (int i = 0; i < block.count(); ++i) {
    const Vector& values = parameters.at(block.name(i));
    fill(device, block.value(i), std::vector<Real>(values.begin(), values.end()));
  }
  const auto pieces = model->pieces(B, {piece, 1, piece});
  for (auto* graph : {pieces->first.get(), pieces->next.get()}) {
    fill(device, *graph->feature_seed, {11, 0});
    fill(device, *graph->feature_draw, {1});
  }
  Exec exec;
  exec.device = device;
  std::vector<double> got(want.size());
  for (int from = 0; from < T; from += piece) {
    const ModelGraph<Real>& graph = from == 0 ? *pieces->first : *pieces->next;
    HandBatch part(B, {piece, 1, piece});
    std::vector<std::int32_t> places;
    for (int b = 0; b < B; ++b)
      for (int t = 0; t < piece; ++t) {
        places.push_back(from + t + 1);
        part.write(b, t, {0});
        part.ask(b, t, 0, -1, 0);
        if (from + t >= T) continue;
        part.write(b, t, {batch.token(b, from + t, 0)});
        part.ask(b, t, batch.query_at(b, from + t), batch.target_at(b, from + t), t + 1);
      }
    fill(device, *graph.batch.tokens, part.tokens), fill(device, *graph.batch.query, part.query);
    fill(device, *graph.batch.position, part.position), fill(device, *graph.batch.target, part.target);
    if (from > 0) fill(device, *pieces->places, places);
    graph.graph.forward(exec);
    pieces->hand_on(exec, from == 0);
    const std::vector<double> losses = numbers(device, graph.loss.query_loss->value);
    for (int b = 0; b < B; ++b)
      std::copy_n(losses.begin() + b * piece, std::min(piece, T - from), got.begin() + b * T + from);
  }
  const auto n = static_cast<std::int64_t>(want.size());
  ASSERT_TRUE(close("losses", got.data(), want.data(), n, limit * (1 + magnitude(want.data(), n))));
  if (device == Device::cuda) return;
  pieces->first->graph.check_guards();
  pieces->next->graph.check_guards();
}

/// Expects that the gradient of a piece's loss, what it began with held fast, is that of central differences along random directions.
void expect_gradient(const Options& options, int piece) {
  const ModelShape shape = language_shape(piece, piece);
  const int B = shape.B;
  const auto model = make_model<double>(options, shape.vocabulary(), Device::cpu, 1);
  auto& block = model->parameters();
  for (int i = 0; i < block.count(); ++i) {
    RandomStream random(11, RandomDomain::initialisation, static_cast<std::uint32_t>(1000 + i));
    for (std::int64_t j = 0; j < block.value(i).size(); ++j)
      block.value(i).at(0)[j] = 0.4 * normal_from_uniform(random.uniform());
  }
  const auto pieces = model->pieces(B, {piece, 1, piece}, {"task.lanes", B, true});
  RandomStream random(11, RandomDomain::task_train, 7);
  for (auto* graph : {pieces->first.get(), pieces->next.get()}) {
    const HandBatch batch = asking_batch(random, shape);
    fill(Device::cpu, *graph->batch.tokens, batch.tokens),
        fill(Device::cpu, *graph->batch.query, batch.query);
    fill(Device::cpu, *graph->batch.position, batch.position);
    fill(Device::cpu, *graph->batch.target, batch.target);
    fill(Device::cpu, *graph->feature_seed, {11, 0});
    fill(Device::cpu, *graph->feature_draw, {1});
  }
  for (int i = 0; i < B * piece; ++i) pieces->places->at(0)[i] = piece + i % piece + 1;
  pieces->first->graph.forward({});
  pieces->hand_on({}, true);
  const ModelGraph<double>& next = *pieces->next;
  const Tensor<double> values = block.values(), gradients = block.gradients();
  std::fill_n(gradients.at(0), gradients.size(), 0.0);
  next.graph.forward({});
  next.graph.backward({});
  const Vector gradient(gradients.at(0), gradients.at(0) + gradients.size()),
      before(values.at(0), values.at(0) + values.size());
  for (int turn = 0; turn < 2; ++turn) {
    Vector along(before.size());
    for (double& x : along) x = normal_from_uniform(random.uniform());
    const double h = 1e-5 / std::sqrt(static_cast<double>(before.size()));
    double slope = 0, difference = 0;
    for (std::size_t i = 0; i < along.size(); ++i) slope += gradient[i] * along[i];
    for (const auto& [steps, weight] :
         std::vector<std::pair<double, double>>{{1, 8}, {-1, -8}, {2, -1}, {-2, 1}}) {
      for (std::size_t i = 0; i < along.size(); ++i) values.at(0)[i] = before[i] + steps * h * along[i];
      next.graph.forward({});
      difference += weight * next.loss.loss->value.at(0)[0] / (12 * h);
    }
    std::copy(before.begin(), before.end(), values.at(0));
    EXPECT_NEAR(slope, difference, 1e-6 * (1 + std::abs(difference)));
    EXPECT_GT(std::abs(slope), 1e-4);
  }
}

std::string refusal_of(const Options& options, int piece = kPiece) {
  ModelRun<double> run(options, language_shape(), 1, false);
  const Refused found = refused([&] { run.model.pieces(1, {piece, 1, 1}); });
  EXPECT_TRUE(found.key == "eval.piece" || found.key == "accepted") << found.key;
  return found.why;
}

void expect_says(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "says: " << text;
}

class MemoryInPieces : public ::testing::TestWithParam<std::string> {};

TEST_P(MemoryInPieces, ReadsWhatItReadsOfTheWhole) {
  Settings two = {{"model.heads", 2}, {"model.layers", 2}};
  const bool window = GetParam() == "sliding_window";  // of as many tokens as the shortest piece hands on
  if (window) two.emplace_back("memory.window", 2);
  const Options bare = language_options_of(GetParam(), two);
  if (find_memory(GetParam())->states.empty() && !window) {
    expect_says(refusal_of(bare), GetParam() + " has none");
    return;
  }
  ASSERT_EQ(refusal_of(bare), "accepted")
      << "every memory with states takes back what it leaves (Mixer::start)";
  ASSERT_NO_FATAL_FAILURE(expect_pieces(bare, kTokensRead, kPiece));
  ASSERT_NO_FATAL_FAILURE(expect_pieces(bare, kTokensRead, 5));  // the last piece is not full
  ASSERT_NO_FATAL_FAILURE(expect_pieces(bare, 3, 1));
  ASSERT_NO_FATAL_FAILURE(expect_gradient(bare, kPiece));
  Settings parts = two;
  for (const auto& [key, value] : Settings{{"model.short_conv", "qkv"},
                                           {"model.short_conv_bias", true},
                                           {"model.token_shift", "kv"},
                                           {"model.input_shift", "static"},
                                           {"model.stack", "base_conv memory"},
                                           {"model.mlp", "gelu"}})
    parts.emplace_back(key, value);
  SCOPED_TRACE("with convolutions and shifts");
  const Options whole = language_options_of(GetParam(), parts);
  ASSERT_NO_FATAL_FAILURE(expect_pieces(whole, kTokensRead, kPiece));
  ASSERT_NO_FATAL_FAILURE(expect_gradient(whole, kPiece));
}

TEST(Pieces, InTheLayersOfTheirAuthors) {
  int layers = 0;
  for (const Memory& memory : all_memories()) {
    if (!memory.published || memory.states.empty()) continue;
    SCOPED_TRACE(memory.name);
    Settings settings = {{"model.width", 8}, {"model.heads", 2}, {"model.layers", 2}};
    settings.insert(settings.end(), memory.published.set.begin(), memory.published.set.end());
    const Options options = language_options_of(memory.name, settings);
    const int piece =
        options.has("memory.mini_batch") ? static_cast<int>(options.get_int("memory.mini_batch")) : kPiece;
    ASSERT_NO_FATAL_FAILURE(expect_pieces(options, 3 * piece, piece));
    ++layers;
  }
  EXPECT_GT(layers, 20);
}

INSTANTIATE_TEST_SUITE_P(Registry, MemoryInPieces, every_memory(), memory_name);

TEST(Pieces, OfEveryKindOfBlock) {
  for (const auto& [name, settings] : block_kinds()) {
    SCOPED_TRACE(name);
    const Options options = language_options_of("gated_delta", settings);
    const bool whole_only = std::string(name) == "positions" || std::string(name) == "decoder" ||
                            options.get_string("model.stack").find("softmax") != std::string::npos;
    if (whole_only) {
      expect_says(refusal_of(options), "sequences are read whole");
    } else {
      ASSERT_NO_FATAL_FAILURE(expect_pieces(options, kTokensRead, kPiece));
    }
  }
}

// Forms that know no state add what it was before the first token, to what divides, too.
TEST(Pieces, InEveryForm) {
  for (const char* form : {"query", "parallel", "chunk", "recurrent"}) {
    SCOPED_TRACE(form);
    for (const char* memory : {"linear_attention", "peng_gate", "gated_delta"})
      ASSERT_NO_FATAL_FAILURE(
          expect_pieces(language_options_of(memory, {{"memory.form", form}}), kTokensRead, kPiece));
  }
}

// The places of turned queries and keys go on: counted anew in every piece they would read something else.
TEST(Pieces, GoOnWithTheirPlaces) {
  const Options turned = language_options_of("retnet", {{"model.width", 8}, {"model.rotary", true}});
  ASSERT_NO_FATAL_FAILURE(expect_pieces(turned, kTokensRead, kPiece));
}

TEST(Pieces, CutNoMiniBatch) {
  const Options options = language_options_of("ttt_linear", {{"memory.mini_batch", 3}});
  expect_says(refusal_of(options, 4), "give a multiple of it");
  ASSERT_NO_FATAL_FAILURE(expect_pieces(options, kTokensRead, 6));
}

class PiecesOnCuda : public CudaTest {};

TEST_F(PiecesOnCuda, AreReadAsTheWholeOnTheCpu) {
  for (const Memory& memory : all_memories()) {
    if (memory.states.empty()) continue;
    SCOPED_TRACE(memory.name);
    const Options options = language_options_of(memory.name, {{"model.heads", 2},
                                                              {"model.layers", 2},
                                                              {"model.short_conv", "qkv"},
                                                              {"model.input_shift", "static"}});
    ASSERT_NO_FATAL_FAILURE(expect_pieces(options, kTokensRead, kPiece, Device::cuda));
  }
}

// Longer than a chunk, in single precision.
void expect_long_pieces(Device device) {
  for (const char* memory :
       {"linear_attention", "deltanet", "gated_delta", "kda", "rwkv7", "gla", "mamba1", "mamba2", "mlstm"}) {
    SCOPED_TRACE(memory);
    const Options options = language_options_of(memory, {{"model.width", 32}, {"model.heads", 2}});
    ASSERT_NO_FATAL_FAILURE(
        expect_pieces<float>(options, 300, 130, device, device == Device::cuda ? 1e-3 : 1e-4));
  }
}
TEST(Pieces, LongOnes) { expect_long_pieces(Device::cpu); }
TEST_F(PiecesOnCuda, LongOnes) { expect_long_pieces(Device::cuda); }

}  // namespace crosstalk::checks::pieces_test

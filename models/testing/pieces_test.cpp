// A language model that reads a sequence in pieces says what it says of the whole, with every memory that hands a state on;
// the others are refused.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/testing/compare.h"
#include "models/testing/language.h"

namespace crosstalk::checks {
namespace {

using Int = std::int64_t;
constexpr int kTokensRead = 12, kPiece = 4;

OptionValue word(const char* text) { return std::string(text); }

/// Losses of queries at every token.
template <class Real>
std::vector<Real> losses_of(const ModelGraph<Real>& graph, int b) {
  const Tensor<Real> loss = graph.loss.query_loss->value;
  const int Q = graph.batch.Q;
  return {loss.at(0) + b * Q, loss.at(0) + (b + 1) * Q};
}

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

/// Expects what `options` say of a whole sequence of what they say of its pieces, the last of which is filled up.
void expect_pieces(const Options& options, int T, int piece) {
  const ModelShape shape = language_shape(T, T);
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

  const auto pieces = whole.model.pieces(shape.B, {piece, 1, piece});
  for (auto* graph : {pieces->first.get(), pieces->next.get()}) {
    graph->feature_seed->at(0)[0] = 11, graph->feature_seed->at(0)[1] = 0;
    graph->feature_draw->at(0)[0] = 1;
  }
  for (int from = 0; from < T; from += piece) {
    const ModelGraph<double>& graph = from == 0 ? *pieces->first : *pieces->next;
    const int count = std::min(piece, T - from);
    for (int b = 0; b < shape.B; ++b)
      for (int t = 0; t < piece; ++t) {
        const int at = b * piece + t, in_whole = b * T + from + t;
        const bool is_there = t < count;
        const auto i = static_cast<std::size_t>(in_whole);
        graph.batch.tokens->at(0)[at] = is_there ? batch.tokens[i] : 0;
        graph.batch.query->at(0)[at] = is_there ? batch.query[i] : 0;
        graph.batch.position->at(0)[at] = is_there ? t + 1 : 0;
        graph.batch.target->at(0)[at] = is_there ? batch.target[i] : -1;
        if (pieces->places) pieces->places->at(0)[at] = from + t + 1;
      }
    graph.graph.forward({});
    pieces->hand_on({}, from == 0);
    for (int b = 0; b < shape.B; ++b) {
      const std::vector<double> of_whole = losses_of(*whole.graph, b), here = losses_of(graph, b);
      ASSERT_TRUE(close(fmt::format("losses from token {}", from), here.data(), of_whole.data() + from, count,
                        1e-9 * (1 + magnitude(of_whole.data(), T))));
    }
  }
  pieces->first->graph.check_guards();
  pieces->next->graph.check_guards();
}

std::string refusal_of(const Options& options, int piece = kPiece) {
  ModelRun<double> run(options, language_shape(), 1, false);
  try {
    run.model.pieces(1, {piece, 1, 1});
  } catch (const OptionError& error) {
    EXPECT_EQ(error.key, "eval.piece");
    return error.what();
  }
  return "";
}

void expect_says(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "says: " << text;
}

class MemoryInPieces : public ::testing::TestWithParam<std::string> {};

TEST_P(MemoryInPieces, ReadsWhatItReadsOfTheWhole) {
  const Settings two = {{"model.heads", Int{2}}, {"model.layers", Int{2}}};
  const Options bare = language_options_of(GetParam(), two);
  if (find_memory(GetParam())->states.empty()) {
    expect_says(refusal_of(bare), GetParam() + " has none");
    return;
  }
  ASSERT_EQ(refusal_of(bare), "") << "every memory with states takes back what it leaves (Mixer::start)";
  ASSERT_NO_FATAL_FAILURE(expect_pieces(bare, kTokensRead, kPiece));
  ASSERT_NO_FATAL_FAILURE(expect_pieces(bare, kTokensRead, 5));  // the last piece is not full
  ASSERT_NO_FATAL_FAILURE(expect_pieces(bare, 3, 1));
  Settings parts = two;
  for (const auto& [key, value] : Settings{{"model.short_conv", word("qkv")},
                                           {"model.short_conv_bias", true},
                                           {"model.token_shift", word("kv")},
                                           {"model.input_shift", word("static")},
                                           {"model.stack", word("base_conv memory")},
                                           {"model.mlp", word("gelu")}})
    parts.emplace_back(key, value);
  SCOPED_TRACE("with convolutions and shifts");
  ASSERT_NO_FATAL_FAILURE(expect_pieces(language_options_of(GetParam(), parts), kTokensRead, kPiece));
}

TEST(Pieces, InTheLayersOfTheirAuthors) {
  int layers = 0;
  for (const Memory& memory : all_memories()) {
    if (!memory.published || memory.states.empty()) continue;
    SCOPED_TRACE(memory.name);
    Settings settings = {{"model.width", Int{8}}, {"model.heads", Int{2}}, {"model.layers", Int{2}}};
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
                            options.get_string("model.stack").find("softmax") != std::string::npos ||
                            options.get_string("model.stack").find("sliding_window") != std::string::npos;
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
    for (const char* memory : {"linear_attention", "gated_delta"})
      ASSERT_NO_FATAL_FAILURE(
          expect_pieces(language_options_of(memory, {{"memory.form", word(form)}}), kTokensRead, kPiece));
  }
}

// The places of turned queries and keys go on: counted anew in every piece they would read something else.
TEST(Pieces, GoOnWithTheirPlaces) {
  const Options turned = language_options_of("retnet", {{"model.width", Int{8}}, {"model.rotary", true}});
  ASSERT_NO_FATAL_FAILURE(expect_pieces(turned, kTokensRead, kPiece));
}

TEST(Pieces, CutNoMiniBatch) {
  const Options options = language_options_of("ttt_linear", {{"memory.mini_batch", Int{3}}});
  expect_says(refusal_of(options, 4), "give a multiple of it");
  ASSERT_NO_FATAL_FAILURE(expect_pieces(options, kTokensRead, 6));
}

}  // namespace
}  // namespace crosstalk::checks

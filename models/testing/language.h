// Language models of small sizes for tests, and sequences of tokens for them.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "models/testing/model_run.h"

namespace crosstalk::checks {

using Settings = std::vector<std::pair<std::string, OptionValue>>;

constexpr int kTokens = 7, kWidth = 6;

/// Answers are tokens, or (answers > 0) classes of their own.
inline ModelShape language_shape(int T = 6, int Q = 3, int answers = 0, int B = kB) {
  return {0, answers > 0 ? answers : kTokens, false, B, {T, 1, Q}, kTokens};
}

/// Options of a memory in a language model of one layer, "model.NAME" or "memory.NAME" set as told, resolved.
inline Options language_options_of(const std::string& memory, const Settings& settings,
                                   const Vocabulary& vocabulary = language_shape().vocabulary()) {
  const Memory& kind = *find_memory(memory);
  Options options;
  options.set("memory.name", kind.name);
  options.set("model.name", std::string("language"));
  options.set("model.width", std::int64_t{kWidth});
  options.set("model.layers", std::int64_t{1});
  options.set("model.heads", std::int64_t{1});
  fill_defaults(options, "model", model_options());
  fill_defaults(options, "memory", kind.options);
  for (const auto& [name, value] : settings) options.set(name, value);
  resolve_model(options, vocabulary);
  return resolved(kind, options);
}

/// Random tokens; answers due at rising positions, unused slots among them.
inline HandBatch token_batch(RandomStream& random, const ModelShape& s) {
  HandBatch batch(s.B, s.sequence);
  const auto below = [&](int n) {
    return static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(n)));
  };
  const int T = s.sequence.T, Q = s.sequence.Q;
  for (int b = 0; b < s.B; ++b) {
    for (int t = 0; t < T; ++t) batch.write(b, t, {below(s.tokens)});
    int after = 0;
    for (int i = 0; i < Q; ++i) {
      after += 1 + below(T - after - (Q - i) + 1);
      if (i > 0 && below(4) == 0) {
        batch.ask(b, i, 0, -1, 0);
      } else {
        batch.ask(b, i, batch.token(b, after - 1, 0), below(s.values), after);
      }
    }
  }
  return batch;
}

/// Parameters of a size at which every part matters, times `size`, and a batch.
template <class Real>
void give_example(ModelRun<Real>& run, int r, std::uint64_t seed, double size = 1) {
  RandomStream random(seed, RandomDomain::task_train, 7);
  Parameters parameters = run.random_parameters(seed);
  for (auto& [name, values] : parameters) {
    for (double& value : values) value *= size;
  }
  run.set_parameters(r, parameters);
  run.set_batch(r, token_batch(random, run.shape));
  run.set_features(r, static_cast<std::int32_t>(seed), 1);
}

/// Every way of building a block, each with a name for messages.
inline const std::vector<std::pair<std::string, Settings>>& block_kinds() {
  const auto word = [](const char* text) { return OptionValue(std::string(text)); };
  using Int = std::int64_t;
  static const std::vector<std::pair<std::string, Settings>> all = {
      {"plain", {}},
      {"two heads, values of another size",
       {{"model.heads", Int{2}}, {"model.d_key", Int{4}}, {"model.d_value", Int{8}}}},
      {"gelu", {{"model.mlp", word("gelu")}, {"model.mlp_ratio", 1.5}}},
      {"swiglu, rms, biases",
       {{"model.mlp", word("swiglu")}, {"model.norm", word("rms")}, {"model.bias", true}}},
      {"rms, another norm before the head",
       {{"model.norm", word("rms")}, {"model.last_norm", word("layer")}}},
      {"the norm itself", {{"model.mlp", word("identity")}, {"model.layers", Int{2}}}},
      {"the norm itself, another one before the head",
       {{"model.mlp", word("identity")}, {"model.last_norm", word("rms")}}},
      {"dropout",
       {{"model.mlp", word("gelu")},
        {"model.embed_dropout", 0.25},
        {"model.dropout", 0.4},
        {"model.layers", Int{2}}}},
      {"dropout of weights",
       {{"model.weight_dropout", 0.3}, {"model.layers", Int{2}}, {"model.stack", word("memory softmax")}}},
      {"own head", {{"model.tied_head", false}}},
      {"no norm before mixers, an MLP to the answers",
       {{"model.prenorm", false},
        {"model.readout", word("mlp")},
        {"model.mlp_ratio", 1.5},
        {"model.layers", Int{2}}}},
      {"positions", {{"model.positions", word("learned")}, {"model.max_length", Int{9}}}},
      {"decoder", {{"model.decoder", word("last")}, {"model.layers", Int{2}}, {"model.mlp", word("gelu")}}},
      {"base_conv first", {{"model.layers", Int{2}}, {"model.stack", word("base_conv memory")}}},
      {"base_conv last",
       {{"model.layers", Int{2}}, {"model.stack", word("memory base_conv")}, {"model.conv_width", Int{2}}}},
      {"hybrid",
       {{"model.layers", Int{3}},
        {"model.mlp", word("gelu")},
        {"model.stack", word("sliding_window(window=2, short_conv=qkv) delta(beta_max=2) memory(heads=3)")}}},
      {"parts of queries, keys and values",
       {{"model.short_conv", word("qkv")},
        {"model.short_conv_silu", true},
        {"model.token_shift", word("qv")},
        {"model.out_norm", word("rms")},
        {"model.out_gate", word("silu")}}},
      {"shifts of the input",
       {{"model.input_shift", word("static")},
        {"model.input_shift_start", word("rwkv7")},
        {"model.out_gate", word("silu")},
        {"model.layers", Int{2}}}},
      {"shifts of the input that the token decides, a bonus",
       {{"model.input_shift", word("token")}, {"model.out_norm", word("group")}, {"model.bonus", true}}},
      {"a shift that the token decides",
       {{"model.heads", Int{2}},
        {"model.token_shift", word("qkv")},
        {"model.token_shift_law", word("head")}}},
      {"SiLU without a convolution, shared gains, gate of low rank",
       {{"model.heads", Int{2}},
        {"model.silu", word("qkv")},
        {"model.out_act", word("silu")},
        {"model.out_norm", word("rms")},
        {"model.out_norm_gain", word("shared")},
        {"model.out_gate", word("gelu")},
        {"model.out_gate_rank", Int{-1}},
        {"model.biases", word("query value -out_gate")}}},
      {"convolution with bias, inner, one key for two heads, norm behind the gate, skip a head",
       {{"model.heads", Int{2}},
        {"model.d_key", Int{4}},
        {"model.d_value", Int{8}},
        {"model.inner", true},
        {"model.short_conv", word("qkv")},
        {"model.short_conv_bias", true},
        {"model.short_conv_start", word("normal")},
        {"model.silu", word("qv")},
        {"model.key_groups", Int{1}},
        {"model.out_norm", word("rms_all")},
        {"model.out_norm_order", word("after")},
        {"model.out_gate", word("silu")},
        {"model.out_skip", word("head")}}},
      {"norm and turn of queries and keys, gate by two maps, skip a channel",
       {{"model.heads", Int{2}},
        {"model.d_key", Int{8}},
        {"model.d_value", Int{8}},
        {"model.qk_norm", word("head")},
        {"model.rotary", true},
        {"model.rotary_period", Int{3}},
        {"model.feature_scale", true},
        {"model.out_norm", word("group")},
        {"model.out_norm_bias", false},
        {"model.out_norm_eps", 1e-3},
        {"model.out_gate", word("lora")},
        {"model.out_gate_rank", Int{3}},
        {"model.out_skip", word("channel")},
        {"model.out_deviation", word("plain")}}},
      {"values of the first layer",
       {{"model.heads", Int{2}},
        {"model.d_value", Int{8}},
        {"model.value_residual", true},
        {"model.layers", Int{2}}}},
      {"small keys, an output that starts at 0",
       {{"model.heads", Int{2}},
        {"model.d_key", Int{4}},
        {"model.d_value", Int{8}},
        {"model.key_start", 0.1},
        {"model.out_deviation", word("zero")}}},
      {"queries and values of a convolution of the input",
       {{"model.input_conv", word("query value")},
        {"model.short_conv_width", Int{3}},
        {"model.short_conv_bias", true},
        {"model.projection_start", word("small")}}},
      {"xLSTM's block",
       {{"model.heads", Int{2}},
        {"model.d_key", Int{8}},
        {"model.d_value", Int{8}},
        {"model.blocks", Int{4}},
        {"model.short_conv_bias", true},
        {"model.out_norm", word("group")},
        {"model.out_skip", word("convolved")},
        {"model.out_gate", word("silu")},
        {"model.projection_start", word("xavier")}}}};
  return all;
}

}  // namespace crosstalk::checks

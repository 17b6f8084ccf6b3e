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
  options.set("model.name", "language");
  options.set("model.width", std::int64_t{kWidth});
  options.set("model.layers", 1);
  options.set("model.heads", 1);
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
  static const std::vector<std::pair<std::string, Settings>> all = {
      {"plain", {}},
      {"two heads, values of another size", {{"model.heads", 2}, {"model.d_key", 4}, {"model.d_value", 8}}},
      {"gelu", {{"model.mlp", "gelu"}, {"model.mlp_ratio", 1.5}}},
      {"swiglu, rms, biases", {{"model.mlp", "swiglu"}, {"model.norm", "rms"}, {"model.bias", true}}},
      {"rms, another norm before the head", {{"model.norm", "rms"}, {"model.last_norm", "layer"}}},
      {"the norm itself", {{"model.mlp", "identity"}, {"model.layers", 2}}},
      {"the norm itself, another one before the head",
       {{"model.mlp", "identity"}, {"model.last_norm", "rms"}}},
      {"dropout",
       {{"model.mlp", "gelu"}, {"model.embed_dropout", 0.25}, {"model.dropout", 0.4}, {"model.layers", 2}}},
      {"dropout of weights",
       {{"model.weight_dropout", 0.3}, {"model.layers", 2}, {"model.stack", "memory softmax"}}},
      {"own head", {{"model.tied_head", false}}},
      {"no norm before mixers, an MLP to the answers",
       {{"model.prenorm", false}, {"model.readout", "mlp"}, {"model.mlp_ratio", 1.5}, {"model.layers", 2}}},
      {"positions", {{"model.positions", "learned"}, {"model.max_length", 9}}},
      {"decoder", {{"model.decoder", "last"}, {"model.layers", 2}, {"model.mlp", "gelu"}}},
      {"base_conv first", {{"model.layers", 2}, {"model.stack", "base_conv memory"}}},
      {"base_conv last", {{"model.layers", 2}, {"model.stack", "memory base_conv"}, {"model.conv_width", 2}}},
      {"hybrid",
       {{"model.layers", 3},
        {"model.mlp", "gelu"},
        {"model.stack", "sliding_window(window=2, short_conv=qkv) delta(beta_max=2) memory(heads=3)"}}},
      {"parts of queries, keys and values",
       {{"model.short_conv", "qkv"},
        {"model.short_conv_silu", true},
        {"model.token_shift", "qv"},
        {"model.out_norm", "rms"},
        {"model.out_gate", "silu"}}},
      {"shifts of the input",
       {{"model.input_shift", "static"},
        {"model.input_shift_start", "rwkv7"},
        {"model.out_gate", "silu"},
        {"model.layers", 2}}},
      {"shifts of the input that the token decides, a bonus",
       {{"model.input_shift", "token"}, {"model.out_norm", "group"}, {"model.bonus", true}}},
      {"a shift that the token decides",
       {{"model.heads", 2}, {"model.token_shift", "qkv"}, {"model.token_shift_law", "head"}}},
      {"SiLU without a convolution, shared gains, gate of low rank",
       {{"model.heads", 2},
        {"model.silu", "qkv"},
        {"model.out_act", "silu"},
        {"model.out_norm", "rms"},
        {"model.out_norm_gain", "shared"},
        {"model.out_gate", "gelu"},
        {"model.out_gate_rank", -1},
        {"model.biases", "query value -out_gate"}}},
      {"convolution with bias, inner, one key for two heads, norm behind the gate, skip a head",
       {{"model.heads", 2},
        {"model.d_key", 4},
        {"model.d_value", 8},
        {"model.inner", true},
        {"model.short_conv", "qkv"},
        {"model.short_conv_bias", true},
        {"model.short_conv_start", "normal"},
        {"model.silu", "qv"},
        {"model.key_groups", 1},
        {"model.out_norm", "rms_all"},
        {"model.out_norm_order", "after"},
        {"model.out_gate", "silu"},
        {"model.out_skip", "head"}}},
      {"norm and turn of queries and keys, gate by two maps, skip a channel",
       {{"model.heads", 2},
        {"model.d_key", 8},
        {"model.d_value", 8},
        {"model.qk_norm", "head"},
        {"model.rotary", true},
        {"model.rotary_period", 3},
        {"model.feature_scale", true},
        {"model.out_norm", "group"},
        {"model.out_norm_bias", false},
        {"model.out_norm_eps", 1e-3},
        {"model.out_gate", "lora"},
        {"model.out_gate_rank", 3},
        {"model.out_skip", "channel"},
        {"model.out_deviation", "plain"}}},
      {"values of the first layer",
       {{"model.heads", 2}, {"model.d_value", 8}, {"model.value_residual", true}, {"model.layers", 2}}},
      {"small keys, an output that starts at 0",
       {{"model.heads", 2},
        {"model.d_key", 4},
        {"model.d_value", 8},
        {"model.key_start", 0.1},
        {"model.out_deviation", "zero"}}},
      {"queries and values of a convolution of the input",
       {{"model.input_conv", "query value"},
        {"model.short_conv_width", 3},
        {"model.short_conv_bias", true},
        {"model.projection_start", "small"}}},
      {"xLSTM's block",
       {{"model.heads", 2},
        {"model.d_key", 8},
        {"model.d_value", 8},
        {"model.blocks", 4},
        {"model.short_conv_bias", true},
        {"model.out_norm", "group"},
        {"model.out_skip", "convolved"},
        {"model.out_gate", "silu"},
        {"model.projection_start", "xavier"}}}};
  return all;
}

}  // namespace crosstalk::checks

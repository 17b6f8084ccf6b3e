// Language models of small sizes for tests, and sequences of tokens for them.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "models/mixers/stack_text.h"
#include "models/testing/model_run.h"

namespace crosstalk::checks {

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
  for (auto& [name, values] : parameters)
    for (double& value : values) value *= size;
  run.set_parameters(r, parameters);
  run.set_batch(r, token_batch(random, run.shape));
  run.set_features(r, static_cast<std::int32_t>(seed), 1);
}

/// Every way of building a block, each with a name for messages.
inline const std::vector<std::pair<std::string, Settings>>& block_kinds() {
  static const std::vector<std::pair<std::string, Settings>> all = {
      {"plain", {}},
      {"two heads, values of another size", settings_in("heads=2, d_key=4, d_value=8")},
      {"gelu", settings_in("mlp=gelu, mlp_ratio=1.5")},
      {"swiglu, rms, biases", settings_in("mlp=swiglu, norm=rms, bias=true")},
      {"rms, another norm before the head", settings_in("norm=rms, last_norm=layer")},
      {"the norm itself", settings_in("mlp=identity, layers=2")},
      {"the norm itself, another one before the head", settings_in("mlp=identity, last_norm=rms")},
      {"dropout", settings_in("mlp=gelu, embed_dropout=0.25, dropout=0.4, layers=2")},
      {"dropout of weights", settings_in("weight_dropout=0.3, layers=2, stack=memory softmax")},
      {"own head", settings_in("tied_head=false")},
      {"no norm before mixers, an MLP to the answers",
       settings_in("prenorm=false, readout=mlp, mlp_ratio=1.5, layers=2")},
      {"positions", settings_in("positions=learned, max_length=9")},
      {"decoder", settings_in("decoder=last, layers=2, mlp=gelu")},
      {"base_conv first", settings_in("layers=2, stack=base_conv memory")},
      {"base_conv last", settings_in("layers=2, stack=memory base_conv, conv_width=2")},
      {"hybrid",
       {{"model.layers", 3},
        {"model.mlp", "gelu"},
        {"model.stack", "sliding_window(window=2, short_conv=qkv) delta(beta_max=2) memory(heads=3)"}}},
      {"parts of queries, keys and values",
       settings_in("short_conv=qkv, short_conv_silu=true, token_shift=qv, out_norm=rms, out_gate=silu")},
      {"shifts of the input",
       settings_in("input_shift=static, input_shift_start=rwkv7, out_gate=silu, layers=2")},
      {"shifts of the input that the token decides, a bonus",
       settings_in("input_shift=token, out_norm=group, bonus=true")},
      {"a shift that the token decides", settings_in("heads=2, token_shift=qkv, token_shift_law=head")},
      {"SiLU without a convolution, shared gains, gate of low rank",
       settings_in("heads=2, silu=qkv, out_act=silu, out_norm=rms, out_norm_gain=shared, out_gate=gelu, "
                   "out_gate_rank=-1, biases=query value -out_gate")},
      {"convolution with bias, inner, one key for two heads, norm behind the gate, skip a head",
       settings_in("heads=2, d_key=4, d_value=8, inner=true, short_conv=qkv, short_conv_bias=true, "
                   "short_conv_start=normal, silu=qv, key_groups=1, out_norm=rms_all, out_norm_order=after, "
                   "out_gate=silu, out_skip=head")},
      {"norm and turn of queries and keys, gate by two maps, skip a channel",
       settings_in("heads=2, d_key=8, d_value=8, qk_norm=head, rotary=true, rotary_period=3, "
                   "feature_scale=true, out_norm=group, out_norm_bias=false, out_norm_eps=1e-3, "
                   "out_gate=lora, out_gate_rank=3, out_skip=channel, out_deviation=plain")},
      {"values of the first layer", settings_in("heads=2, d_value=8, value_residual=true, layers=2")},
      {"small keys, an output that starts at 0",
       settings_in("heads=2, d_key=4, d_value=8, key_start=0.1, out_deviation=zero")},
      {"queries and values of a convolution of the input",
       settings_in(
           "input_conv=query value, short_conv_width=3, short_conv_bias=true, projection_start=small")},
      {"xLSTM's block",
       settings_in("heads=2, d_key=8, d_value=8, blocks=4, short_conv_bias=true, out_norm=group, "
                   "out_skip=convolved, out_gate=silu, projection_start=xavier")}};
  return all;
}

}  // namespace crosstalk::checks

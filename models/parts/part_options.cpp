// Options of the parts around a memory, and which of them have a meaning together.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <set>

#include "kernels/base/error.h"
#include "kernels/base/text/choice.h"
#include "kernels/base/text/no_effect.h"
#include "models/parts/model_parts.h"
#include "models/parts/parts.h"

namespace crosstalk {
namespace {

const std::vector<std::string> kOf = {"none", "q", "k", "v", "qk", "qv", "kv", "qkv"};

std::string text(const Options& options, const char* name) {
  const std::string key = std::string("model.") + name;
  return options.has(key) ? options.get_string(key) : "none";
}

bool is_default(const Options& options, const std::string& name) {
  return crosstalk::is_default(options, "model", part_options(), name);
}

/// Refuses `names` away from their defaults, which have no effect since `why`.
void refuse(const Options& options, const std::vector<const char*>& names, const std::string& why,
            const std::string& instead) {
  for (const char* name : names) refuse_without_effect(options, "model", part_options(), name, why, instead);
}

void check_biases(const Options& options) {
  std::set<std::string> names;
  for (const NamedBias& one : named_biases(options))
    if (!names.insert(one.name).second)
      throw OptionError(
          "model.biases",
          fmt::format("model.biases names {} twice, and the last word alone counts; name it once", one.name));
}

/// Refuses what a layer of blocks (model.blocks) has no place for.
void check_blocks(const Options& options) {
  if (is_default(options, "blocks")) {
    if (text(options, "out_skip") == "convolved")
      throw OptionError(
          "model.out_skip",
          "model.out_skip = \"convolved\" adds what the convolution of model.blocks gives; set model.blocks too");
    return;
  }
  for (const char* name : {"inner", "input_shift", "input_conv", "key_groups", "key_start"})
    if (!is_default(options, name))
      throw OptionError(
          std::string("model.") + name,
          fmt::format(
              "model.blocks says what queries, keys and values are made of, and leaves no place for model.{}; leave "
              "one of them out",
              name));
  const std::int64_t blocks = options.get_int("model.blocks"), values = options.get_int("model.d_value");
  if (options.get_int("model.d_key") != values || values % blocks != 0)
    throw OptionError(
        "model.blocks",
        fmt::format(
            "model.blocks = {} makes queries, keys and values of as many channels, in blocks: model.d_key = {} and "
            "model.d_value = {} must be one multiple of it",
            blocks, options.get_int("model.d_key"), values));
  if (options.has("memory.writes") && options.get_int("memory.writes") > 1)
    throw OptionError("model.blocks",
                      "model.blocks has no meaning with several writes a token; use memory.writes = 1");
}

/// Parts that need tokens in order, with projections of their own.
const std::vector<const char*> kOfLayers = {
    "input_conv",     "token_shift_law", "input_shift",      "input_shift_start", "bonus",
    "silu",           "inner",           "blocks",           "key_groups",        "qk_norm",
    "rotary",         "biases",          "out_deviation",    "out_skip",          "feature_scale",
    "value_residual", "key_start",       "projection_start", "out_norm_start"};

std::vector<OptionSpec> before_memory() {
  return {
      choice(
          "short_conv", "none",
          "which of queries, keys and values go through a short causal convolution, channel by channel, before the feature map. In the retrieval model "
          "keys alone can: there a token is a whole association, and a convolution mixes its key with those of the associations before it",
          kOf),
      {"short_conv_width", 4, "tokens that the convolution sees, the own one counted", 2, 64},
      {"short_conv_silu", false, "whether SiLU follows the convolution, for all that are convolved"},
      {"short_conv_bias", false, "whether the convolution has a bias a channel"},
      choice(
          "short_conv_start", "uniform",
          "how the convolution starts: weights and bias as U(-1/sqrt(width), 1/sqrt(width)), PyTorch's start (uniform), or weights as "
          "N(0, 0.02^2) and the bias at 0, as models of flash-linear-attention start theirs (normal)",
          {"uniform", "normal"}),
      choice(
          "silu", "none",
          "language model: which of queries, keys and values SiLU is taken of, after the convolution or without one",
          kOf),
      {"input_conv", "",
       "language model: projections, by their names, that see SiLU of a causal convolution of the layer's input, of short_conv_width, _bias and "
       "_start, in place of the input: 'input_gate forget_gate' (sLSTM)"},
      choice(
          "token_shift", "none",
          "which of queries, keys and values are mixed with those of the token before, x + mu (x_before - x), a "
          "mu for every channel; in the retrieval model keys alone",
          kOf),
      choice(
          "token_shift_law", "channel",
          "what mu of token_shift is. channel: learned numbers, one a channel; head: sigmoid(w.token), one a head, which the token decides (FoX Pro: "
          "Lin et al. 2025, arXiv 2503.02130; in the language model)",
          {"channel", "head"}),
      choice(
          "input_shift", "none",
          "language model: what projections of a layer see of its input x. none: x; static: x + mu (x_before - x), a mu of its own for each projection "
          "and channel (RWKV-4, 7); token: mu + W2 tanh(W1 x') in place of mu, x' itself such a mixture (RWKV-6: Peng et al. 2024, arXiv 2404.05892)",
          {"none", "static", "token"}),
      choice(
          "input_shift_start", "uniform",
          "how mu of input_shift starts: U(0, 1), or as ramps over the channels and the depth of the layer, as RWKV-4 and RWKV-6 (rwkv4) or RWKV-7 "
          "start it",
          {"uniform", "rwkv4", "rwkv7"}),
      {"inner", false,
       "language model: queries, keys and gates are projections of the values (after convolution and SiLU), as in Mamba, and not of the token"},
      {"blocks", 0,
       "language model: the block of xLSTM's mLSTM: the layer's input goes up to model.d_value channels; queries and keys are made of SiLU of a "
       "convolution of these (short_conv_width, _bias, _start), values of themselves, by maps of so many neighbouring channels each (there 4), "
       "and gates see queries, keys and values (0: not)",
       0, 64},
      {"key_groups", 0,
       "language model: so many keys and queries, which neighbouring heads share (0: one a head)", 0, 64},
      choice(
          "qk_norm", "none",
          "language model: RMSNorm of queries and keys before the feature map, with gains of a head's channels that all heads share or own ones",
          {"none", "shared", "head"}),
      {"rotary", false, "language model: queries and keys are turned by their positions (RoPE)"},
      {"rotary_base", 1e4, "the base of the angles of rotary", 1.0000001, 1e12},
      {"rotary_period", 0, "positions of rotary are counted modulo this (0: not)", 0, 1 << 20},
      {"feature_scale", false,
       "language model: queries and keys are multiplied by d^(-1/4) before the feature map, d those of a head (Based)"},
      {"value_residual", false,
       "language model: values v of every layer but the first that has this are mixed with those of that one, v + sigmoid(W2 W1 x + b) (v_first - "
       "v), b a ramp around 0.73 at the start (RWKV-7)"},
      {"key_start", 1.0,
       "language model: what the weights of the key projection are multiplied by at the start", 0, 1e6},
      choice(
          "projection_start", "law",
          "language model: how projections of queries, keys and values start: as all weights do (law); as orthogonal matrices, and then the inner "
          "maps of gates of low rank at 0, the outer ones as orthogonal matrices times 0.1 (RWKV-7); with out_gate as U(-b, b), b = 2^(-5/2) sqrt(6 / "
          "(inputs + outputs)), and the output with b = sqrt(6 / (inputs + outputs)) (xavier; RetNet); all but the output as N(0, 2 / (5 width)), "
          "and that as N(0, 4 / (layers^2 width)) (small; xLSTM)",
          {"law", "orthogonal", "xavier", "small"}),
      {"biases", "",
       "language model: projections of a layer with a bias, and, behind a minus, without one, by their names, whatever model.bias and the laws of "
       "gates say: 'query key -beta -out_gate'"}};
}

std::vector<OptionSpec> after_memory() {
  return {
      choice(
          "out_skip", "none",
          "language model: adds D v to what is read, v the value of the token, D a number a head or a channel that starts at 1; convolved: adds D c "
          "behind the norm, c what the convolution of model.blocks gives, D a number a channel",
          {"none", "head", "channel", "convolved"}),
      choice("out_act", "none", "function of what is read, before the norm", {"none", "silu"}),
      choice(
          "out_norm", "none",
          "normalisation of what is read, with learned gains: RMSNorm head by head (rms) or over all heads "
          "(rms_all), LayerNorm over all heads (layer) or head by head (group)",
          {"none", "rms", "layer", "group", "rms_all"}),
      choice(
          "out_norm_gain", "head",
          "gains of out_norm: of every head's channels, of a head's channels that all heads share, or none (off)",
          {"head", "shared", "off"}),
      choice(
          "out_norm_start", "one",
          "language model: where gains of out_norm start: at 1 (one), or at ((layer + 1) / layers)^0.7 (depth; RWKV-7)",
          {"one", "depth"}),
      {"out_norm_bias", true, "whether out_norm = layer or group has biases beside its gains"},
      {"out_norm_eps", 1e-5, "eps of out_norm", 1e-12, 1},
      choice("out_norm_order", "before", "whether the norm comes before the gate or after it",
             {"before", "after"}),
      {"bonus", false,
       "language model: adds (q.(r k)) v to what is read, behind its norm, with key and value of the token itself; r, a number a key channel, starts "
       "at -0.04 (RWKV-7)"},
      choice(
          "out_gate", "none",
          "gate on every channel that is read, by a projection of what asks (in the retrieval model the query), after the norm; lora: W2 sigmoid(W1 x)",
          {"none", "sigmoid", "silu", "gelu", "lora"}),
      {"out_gate_rank", 0,
       "rank of the gate's projection (0: full; -1: the size of a head's values; -2: 5 sqrt(model.width) in multiples of 32, as RWKV-7 has it)",
       -2, 1 << 14},
      choice(
          "out_deviation", "scaled",
          "language model: whether the output projection of a layer starts divided by sqrt(2 layers), where "
          "model.weight_deviation says so (scaled), as the others (plain), or at 0, that of a memory (zero)",
          {"scaled", "plain", "zero"})};
}

}  // namespace

const std::vector<OptionSpec>& part_options() {
  static const std::vector<OptionSpec> options = [] {
    std::vector<OptionSpec> all = before_memory();
    for (const OptionSpec& spec : after_memory()) all.push_back(spec);
    return all;
  }();
  return options;
}

void resolve_parts(const Options& options) {
  const bool convolved = text(options, "short_conv") != "none";
  if (!convolved) refuse(options, {"short_conv_silu"}, "without a convolution", "set model.short_conv too");
  if (!convolved && is_default(options, "input_conv") && is_default(options, "blocks"))
    refuse(options, {"short_conv_width", "short_conv_bias", "short_conv_start"}, "without a convolution",
           "set model.short_conv, model.input_conv or model.blocks too");
  if (!is_default(options, "input_conv") && text(options, "input_shift") != "none")
    throw OptionError(
        "model.input_conv",
        "model.input_conv and model.input_shift both say what projections see in place of a layer's input; leave one out");
  if (const std::string start = text(options, "projection_start"); start == "xavier" || start == "small")
    if (text(options, "out_deviation") == "plain")
      throw OptionError(
          "model.out_deviation",
          fmt::format(
              "model.out_deviation = \"plain\" has no effect with model.projection_start = \"{}\", which "
              "says how the output projection starts; leave it out",
              start));
  check_blocks(options);
  if (text(options, "input_shift") == "none")
    refuse(options, {"input_shift_start"}, "without a shift of the input", "set model.input_shift too");
  else if (options.get_bool("model.inner"))
    throw OptionError(
        "model.input_shift",
        "model.input_shift mixes what projections see, and model.inner has them see the values; leave one out");
  if (text(options, "token_shift") == "none")
    refuse(options, {"token_shift_law"}, "without a shift", "set model.token_shift too");
  if (text(options, "token_shift_law") == "head" && !is_default(options, "key_groups"))
    throw OptionError(
        "model.token_shift_law",
        "model.token_shift_law = \"head\" has a number a head, and model.key_groups shares keys among heads; leave one out");
  const std::string norm = text(options, "out_norm");
  if (norm == "none")
    refuse(options, {"out_norm_gain", "out_norm_bias", "out_norm_eps", "out_norm_order", "out_norm_start"},
           "without a norm", "set model.out_norm too");
  if (norm == "rms" || norm == "rms_all")
    refuse(options, {"out_norm_bias"}, "in RMSNorm, which has none", "use model.out_norm = \"group\"");
  if ((norm == "layer" || norm == "rms_all") && text(options, "out_norm_gain") == "shared")
    throw OptionError("model.out_norm_gain",
                      fmt::format("model.out_norm_gain = \"shared\" has no meaning with model.out_norm = "
                                  "\"{}\", which normalises all heads as one; use \"head\"",
                                  norm));
  const std::string gate = text(options, "out_gate");
  if (gate == "none") refuse(options, {"out_gate_rank"}, "without a gate", "set model.out_gate too");
  if (gate == "lora" && is_default(options, "out_gate_rank"))
    throw OptionError("model.out_gate_rank",
                      "model.out_gate = \"lora\" goes through fewer numbers; set model.out_gate_rank too");
  if (!options.has("model.rotary") || !options.get_bool("model.rotary"))
    refuse(options, {"rotary_base", "rotary_period"}, "without rotary positions", "set model.rotary too");
  check_biases(options);
  if (!options.has("model.name")) return;
  if (options.get_string("model.name") == "language") {
    const std::int64_t groups = options.get_int("model.key_groups");
    if (groups > 0 && heads_of(options) % groups != 0)
      throw OptionError("model.key_groups",
                        fmt::format("model.key_groups = {} does not divide model.heads = {}; give a divisor",
                                    groups, heads_of(options)));
    for (const char* name : {"rotary", "inner", "value_residual"}) {
      const std::string key = std::string("model.") + name;
      if (options.get_bool(key) && options.has("memory.writes") && options.get_int("memory.writes") > 1)
        throw OptionError(
            key, fmt::format(
                     "{} has no meaning with several writes a token; use memory.writes = 1, or leave it out",
                     key));
    }
    if (text(options, "out_skip") != "none" && options.has("memory.writes") &&
        options.get_int("memory.writes") > 1)
      throw OptionError(
          "model.out_skip",
          "model.out_skip has no meaning with several values a token; use memory.writes = 1, or leave it out");
    return;
  }
  for (const char* name : kOfLayers) {
    if (is_default(options, name)) continue;
    throw OptionError(
        std::string("model.") + name,
        fmt::format(
            "model.{} belongs to the layers of the language model; leave it out, or add model.name = \"language\" (and a task of tokens)",
            name));
  }
  if (options.get_string("model.name") != "retrieval") return;
  for (const char* name : {"short_conv", "token_shift"}) {
    const std::string of = text(options, name);
    const auto concerns = [&](char what) { return of != "none" && of.find(what) != std::string::npos; };
    if (concerns('q'))
      throw OptionError(
          std::string("model.") + name,
          fmt::format("model.{} = \"{}\" has no meaning in the retrieval model: its queries stand beside "
                      "the sequence and have no tokens before them; use \"k\"",
                      name, of));
    if (concerns('v'))
      throw OptionError(
          std::string("model.") + name,
          fmt::format("model.{} = \"{}\" has no meaning in the retrieval model: its values are ids, the "
                      "answers themselves, and mixing them would change what is asked; use \"k\"",
                      name, of));
  }
}

}  // namespace crosstalk

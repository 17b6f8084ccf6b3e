// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/language_options.h"

#include <fmt/format.h>

#include <cmath>

#include "kernels/base/error.h"
#include "kernels/base/text/choice.h"
#include "kernels/base/text/no_effect.h"
#include "models/memories/memory_file.h"
#include "models/mixers/stack_text.h"
#include "models/parts/model_parts.h"
#include "models/rules/rule_memory.h"

namespace crosstalk {

void check_head_sizes(const Options& options) {
  const std::int64_t heads = heads_of(options);
  for (const char* key : {"model.d_key", "model.d_value"}) {
    const std::int64_t size = options.get_int(key);
    if (size % heads != 0)
      throw OptionError("model.heads",
                        fmt::format("model.heads = {} does not divide {} = {}; give a divisor", heads,
                                    size == options.get_int("model.width") ? "model.width" : key, size));
  }
}

const std::vector<OptionSpec>& language_options() {
  static const std::vector<OptionSpec> options = [] {
    OptionSpec ratio{"mlp_ratio", 4.0, "hidden units of the MLP, as a multiple of model.width", 0, 64};
    ratio.min_exclusive = true;
    return std::vector<OptionSpec>{
        {"width", 64, "language model: numbers of a token between the layers", 1, 1 << 14},
        {"layers", 2, "language model: blocks, each a mixer and an MLP", 1, 256},
        {"stack", "memory",
         "language model: the mixers of the blocks, repeated in turn: memory (that of the study), base_conv (Zoology's short convolution times a "
         "projection), or the name of any memory, with options of its own or of the parts in parentheses: 'base_conv memory', "
         "'sliding_window(window=16) memory', 'memory(heads=2, short_conv=qkv)'"},
        choice(
            "layer", "bare",
            "language model: what stands around a memory where the study says nothing. bare: the parts at their defaults, which are off; published: the "
            "layer of the memory's authors (crosstalk describe MEMORY), also of memories that the stack names",
            {"bare", "published"}),
        {"d_value", 0, "language model: dimension of values, all heads together (0: model.width)", 0,
         1 << 14},
        {"bias", false, "language model: whether projections of the blocks have biases"},
        {"conv_width", 3, "language model: tokens that base_conv sees, the own one counted", 2, 64},
        choice(
            "mlp", "none",
            "language model: what follows the mixer of a block. none: nothing; identity: x += norm(x), the norm of the stream itself (Zoology's state "
            "mixer of MQAR: Arora et al. 2023, arXiv 2312.04927); gelu, swiglu: x += MLP(norm(x)) (SwiGLU: Shazeer 2020, arXiv 2002.05202)",
            {"none", "identity", "gelu", "swiglu"}),
        ratio,
        choice("norm", "layer", "language model: norm in front of mixers, MLPs and head, with learned gains",
               {"layer", "rms"}),
        choice(
            "last_norm", "same",
            "language model: norm in front of the head, where it is not that of model.norm (layer: Zoology's blocks of Mamba, whose own norms are rms)",
            {"same", "layer", "rms"}),
        {"prenorm", true,
         "language model: whether that norm stands in front of mixers; without it they see the stream as it is (Complex KDA's word problems)"},
        choice(
            "readout", "linear",
            "language model: from the last norm to the answers. linear: a linear map; mlp: two, with GELU between them and model.mlp_ratio times "
            "model.width hidden units with biases, in place of the tied or own head",
            {"linear", "mlp"}),
        {"tied_head", true,
         "language model: whether the embedding is the head too, where answers are tokens; else the head has weights of its own"},
        choice("positions", "none", "language model: learned: a vector a position is added to the embedding",
               {"none", "learned"}),
        {"max_length", 0, "language model: positions that learned positions have vectors for", 0, 1 << 20},
        choice(
            "decoder", "none",
            "language model: what answers are made of. none: the stream at the token at which an answer is due; last: what the last token holds, plus "
            "sines and cosines of the place at which an answer is due, through two layers (the decoder of MAD's compression: Poli et al. 2024, arXiv "
            "2403.17844)",
            {"none", "last"}),
        {"embed_dropout", 0.0, "language model: dropout of embedded tokens (training only)", 0, 0.99},
        {"dropout", 0.0, "language model: dropout of what mixers and MLPs add to the stream (training only)",
         0, 0.99},
        {"weight_dropout", 0.0,
         "language model: dropout of the weights by which a memory that keeps its keys reads its values (attention, training only); others drop "
         "nothing",
         0, 0.99},
        {"weight_deviation", 0.02,
         "language model: weights and embedding start as N(0, this^2), projections back into the stream divided by sqrt(2 layers), biases 0 "
         "(Zoology, GPT-2); 0: U(-1/sqrt(n), 1/sqrt(n)), n inputs, and the embedding N(0, 1)",
         0, 10},
    };
  }();
  return options;
}

bool is_language(const Options& options) {
  return options.has("model.name") && options.get_string("model.name") == "language";
}

void refuse_language_options(const Options& options) {
  for (const OptionSpec& spec : language_options()) {
    const std::string key = "model." + spec.name;
    if (!options.has(key) || options.at(key) == spec.default_value) continue;
    if (spec.name == "layer")
      throw OptionError(
          key,
          fmt::format(
              "model.layer = \"published\" belongs to the language model: model.name = \"{}\" holds the bare recurrence; leave "
              "it out, or add model.name = \"language\" (and a task of tokens)",
              options.has("model.name") ? options.get_string("model.name") : ""));
    const std::string told = fmt::format(
        "{} belongs to the language model; leave it out, or add model.name = \"language\" (and a task of tokens)",
        key);
    if (std::holds_alternative<std::int64_t>(spec.default_value) ||
        std::holds_alternative<double>(spec.default_value))
      throw NoEffect(key, told);
    throw OptionError(key, told);
  }
}

namespace {

/// Numbers of parts that no layer has. What authors set of their layer (model.layer) they may set for more layers than there are.
void refuse_parts_of_no_layer(const Options& options) {
  const auto refuse = [&](const char* name, const std::string& why, const std::string& instead) {
    refuse_without_effect(options, "model", model_options(), name, why, instead);
  };
  const auto is = [&](const char* key, const char* text) { return options.get_string(key) == text; };
  const std::vector<StackEntry> stack = stack_entries(options.get_string("model.stack"), kMostLayers);
  std::int64_t convolutions = 0, memories = 0;
  for (std::int64_t i = 0; i < options.get_int("model.layers"); ++i)
    ++(stack[static_cast<std::size_t>(i) % stack.size()].name == "base_conv" ? convolutions : memories);
  if (convolutions == 0)
    refuse("conv_width", "without a layer base_conv", "name base_conv in model.stack too");
  if ((is("model.mlp", "none") || is("model.mlp", "identity")) && !is("model.readout", "mlp"))
    refuse("mlp_ratio", "without an MLP", "set model.mlp = \"gelu\" or \"swiglu\" too");
  if (memories < 2 && !is("model.layer", "published"))
    refuse("value_residual", "on the first layer with a memory, and there is no other",
           "give model.layers = 2");
}

}  // namespace

void resolve_language(Options& options, const Vocabulary& vocabulary) {
  fill_defaults(options, "model", language_options());
  if (options.get_int("model.embedding") != 0)
    throw OptionError(
        "model.embedding",
        "model.embedding belongs to the retrieval model; embeddings of the language model have model.width numbers");
  const std::int64_t width = options.get_int("model.width");
  for (const char* key : {"model.d_key", "model.d_value"})
    if (options.get_int(key) == 0) options.set(key, width);
  if (vocabulary.values != vocabulary.tokens || options.get_string("model.readout") == "mlp")
    options.set("model.tied_head", false);
  check_head_sizes(options);
  refuse_parts_of_no_layer(options);
  if (options.get_string("model.decoder") != "none" && width % 2 != 0)
    throw OptionError(
        "model.width",
        fmt::format(
            "model.width = {} is odd; model.decoder adds as many sines as cosines, so give an even one",
            width));
  const bool learned = options.get_string("model.positions") == "learned";
  if (learned != (options.get_int("model.max_length") > 0))
    throw OptionError(
        "model.max_length",
        learned ? "model.positions = \"learned\" needs model.max_length, the tokens of the longest sequence"
                : "model.max_length belongs to model.positions = \"learned\"; leave it out");
}

int hidden_units(const Options& options) {
  return static_cast<int>(std::lround(options.get_double("model.mlp_ratio") *
                                      static_cast<double>(options.get_int("model.width"))));
}

std::int64_t language_state(const Options& options, std::int64_t length) {
  std::int64_t floats = 0;
  for (const LanguageLayer& layer : language_layers(options)) {
    const Options& o = layer.options;
    if (layer.conv) {
      floats += o.get_int("model.width") * o.get_int("model.conv_width");
      continue;
    }
    const std::int64_t heads = heads_of(o), values = o.get_int("model.d_value") / heads;
    floats += heads * memory_of(o).state(o, head_d_dot(o), values, length) + parts_state(o, values);
  }
  return floats;
}

}  // namespace crosstalk

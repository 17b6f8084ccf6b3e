// SPDX-License-Identifier: Apache-2.0
#include "models/model_parts.h"

#include <fmt/format.h>

#include <cmath>

#include "kernels/base/error.h"
#include "kernels/base/narrow.h"
#include "kernels/conv/short_conv.h"
#include "models/parts.h"

namespace crosstalk {
namespace {

std::string text(const Options& options, const char* name) {
  const std::string key = std::string("model.") + name;
  return options.has(key) ? options.get_string(key) : "none";
}
bool concerns(const std::string& choice, char what) {
  return choice != "none" && choice.find(what) != std::string::npos;
}
std::int64_t whole(const Options& options, const char* key, std::int64_t otherwise) {
  return options.has(key) ? options.get_int(key) : otherwise;
}

constexpr double kRmsNormEps = 1e-5;
const std::vector<std::string> kOf = {"none", "q", "k", "v", "qk", "qv", "kv", "qkv"};

}  // namespace

const std::vector<OptionSpec>& part_options() {
  static const std::vector<OptionSpec> options = {
      {"short_conv", std::string("none"),
       "which of queries, keys and values go through a short causal convolution, channel by channel, before "
       "the feature map. In the retrieval model keys alone can: there a token is a whole association, and a "
       "convolution mixes its key with those of the associations before it",
       0, 0, kOf},
      {"short_conv_width", std::int64_t{4}, "tokens that the convolution sees, the own one counted", 2, 64},
      {"short_conv_silu", false, "whether SiLU follows the convolution"},
      {"token_shift", std::string("none"),
       "which of queries, keys and values are mixed with those of the token before, x + mu (x_before - x), a "
       "mu for every channel; in the retrieval model keys alone",
       0, 0, kOf},
      {"out_norm",
       std::string("none"),
       "normalisation of what is read, with learned gains: RMSNorm head by head (rms), LayerNorm over all "
       "heads (layer) or head by head (group)",
       0,
       0,
       {"none", "rms", "layer", "group"}},
      {"out_gate",
       std::string("none"),
       "gate on every channel that is read, by a projection of what asks (in the retrieval model the query), "
       "after the norm",
       0,
       0,
       {"none", "sigmoid", "silu"}},
  };
  return options;
}

void resolve_parts(const Options& options) {
  const std::string conv = text(options, "short_conv");
  const auto only_with_conv = [&](const char* key, bool unset) {
    if (conv != "none" || unset) return;
    throw OptionError(key, fmt::format("{} has no effect without a convolution; set model.short_conv too, or "
                                       "leave {} out",
                                       key, key));
  };
  only_with_conv("model.short_conv_width", whole(options, "model.short_conv_width", 4) == 4);
  only_with_conv("model.short_conv_silu",
                 !options.has("model.short_conv_silu") || !options.get_bool("model.short_conv_silu"));
  if (!options.has("model.name") || options.get_string("model.name") != "retrieval") return;
  for (const char* name : {"short_conv", "token_shift"}) {
    const std::string of = text(options, name);
    if (concerns(of, 'q'))
      throw OptionError(
          std::string("model.") + name,
          fmt::format("model.{} = \"{}\" has no meaning in the retrieval model: its queries stand beside "
                      "the sequence and have no tokens before them; use \"k\"",
                      name, of));
    if (concerns(of, 'v'))
      throw OptionError(
          std::string("model.") + name,
          fmt::format("model.{} = \"{}\" has no meaning in the retrieval model: its values are ids, the "
                      "answers themselves, and mixing them would change what is asked; use \"k\"",
                      name, of));
  }
}

std::int64_t parts_state(const Options& options, std::int64_t values) {
  const std::int64_t heads = whole(options, "model.heads", 1), writes = whole(options, "memory.writes", 1);
  const std::int64_t d_key = options.get_int("model.d_key");
  std::int64_t floats = 0;
  for (const auto& [what, size] :
       {std::pair{'q', d_key}, {'k', writes * d_key}, {'v', writes * heads * values}}) {
    if (concerns(text(options, "token_shift"), what)) floats += size;
    if (concerns(text(options, "short_conv"), what))
      floats += (whole(options, "model.short_conv_width", 4) - 1) * size;
  }
  return floats;
}

template <class Real>
Variable<Real>* ModelParts<Real>::convolved(Variable<Real>* x, Variable<Real>* w, bool silu) {
  ShortConv<Real> op;
  op.silu = silu;
  op.x = in(x), op.w = in(w);
  return out(graph_.add(op).y);
}

template <class Real>
Variable<Real>* ModelParts<Real>::shifted(const std::string& what, Variable<Real>* x) {
  const int B = x->value.dim(0), T = x->value.dim(1), C = x->value.dim(2);
  Constant<Real> taps;  // all of the token before, nothing of its own
  taps.number[0] = 1;
  taps.y.value = shaped<Real>(graph_.replicas(), {1, 1, 1, 2});
  const Var<Real> weights = expand(Var<Real>{&graph_, out(graph_.add(taps).y)}, {1, 1, C, 2});
  const auto rows = [&](Variable<Real>* v) { return Var<Real>{&graph_, graph_.view(v, {B, T, 1, C})}; };
  const Var<Real> own = rows(x), before = rows(convolved(x, graph_.view(weights.variable, {C, 2}), false));
  auto* mu = parameter_("token_shift." + what, {C}, Init{Init::Law::uniform, 0, 1});
  const Var<Real> mixed = own + Var<Real>{&graph_, graph_.view(mu, {1, 1, 1, C})} * (before - own);
  return graph_.view(mixed.variable, {B, T, C});
}

template <class Real>
bool ModelParts<Real>::mixes(const std::string& what) const {
  return concerns(text(options_, "token_shift"), what[0]) || concerns(text(options_, "short_conv"), what[0]);
}

template <class Real>
Variable<Real>* ModelParts<Real>::mixed(const std::string& what, Variable<Real>* x) {
  if (concerns(text(options_, "token_shift"), what[0])) x = shifted(what, x);
  if (!concerns(text(options_, "short_conv"), what[0])) return x;
  const int width = narrow<int>(options_, "model.short_conv_width");
  auto* w = parameter_("short_conv." + what, {x->value.dim(2), width},
                       Init::uniform(1 / std::sqrt(static_cast<double>(width))));
  return convolved(x, w, options_.get_bool("model.short_conv_silu"));
}

template <class Real>
Var<Real> ModelParts<Real>::normalised(Mixer<Real>& m, Var<Real> o) {
  const std::string norm = text(options_, "out_norm");
  if (norm == "none") return o;
  if (norm == "rms") {
    o = rms(o, kRmsNormEps);
  } else {
    if (norm == "layer") o = view(o, {m.B, m.Q, 1, m.H * m.V});
    o = {&graph_, normalize(graph_, RowNorm::layer, kLayerNormEps, o.variable)};
    if (norm == "layer") o = view(o, {m.B, m.Q, m.H, m.V});
  }
  const auto channels = [&](const char* name, double start) {
    return Var<Real>{&graph_,
                     graph_.view(parameter_(name, {m.H, m.V}, Init::constant(start)), {1, 1, m.H, m.V})};
  };
  o = channels("out_norm.gain", 1) * o;
  return norm == "rms" ? o : o + channels("out_norm.bias", 0);
}

template <class Real>
Var<Real> ModelParts<Real>::finished(Mixer<Real>& m, Var<Real> o) {
  o = normalised(m, o);
  const std::string gate = text(options_, "out_gate");
  if (gate == "none") return o;
  const Var<Real> x = m.asking("out_gate", m.V);
  return (gate == "silu" ? map(MapKind::silu, x) : sigmoid(x)) * o;
}

template class ModelParts<float>;
template class ModelParts<double>;

}  // namespace crosstalk

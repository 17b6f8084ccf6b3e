// SPDX-License-Identifier: Apache-2.0
#include "models/parts/model_parts.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <set>
#include <sstream>

#include "kernels/base/error.h"
#include "kernels/base/text/narrow.h"
#include "kernels/conv/short_conv.h"
#include "models/engines.h"
#include "models/parts/carried.h"
#include "models/parts/parts.h"
#include "models/parts/ramps.h"

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
bool flag(const Options& options, const char* key) { return options.has(key) && options.get_bool(key); }
double number(const Options& options, const char* key, double otherwise) {
  return options.has(key) ? options.get_double(key) : otherwise;
}

constexpr double kNormEps = 1e-5;
/// The eps of qk_norm.
constexpr double kRmsNormEps = 1e-5;

}  // namespace

std::int64_t key_heads(const Options& options) {
  const std::int64_t groups = whole(options, "model.key_groups", 0);
  return groups > 0 ? groups : heads_of(options);
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

std::vector<NamedBias> named_biases(const Options& options) {
  std::vector<NamedBias> all;
  if (!options.has("model.biases")) return all;
  for (const std::string& word : words_of(options.get_string("model.biases"))) {
    const bool has = word.front() != '-';
    all.push_back({has ? word : word.substr(1), has});
  }
  return all;
}

std::string shown_as(const Options& options, const std::string& input) {
  static const std::set<std::string> others = {
      "keys",          "values",          "operations",     "tokens",
      "query",         "query_position",  "answer",         "output",
      "second_keys",   "inputs",          "outputs",        "query_inputs",
      "query_outputs", "retrieved",       "phi_q",          "phi_k",
      "score_key",     "score_query",     "write_key",      "write_gain",
      "decay",         "log_decay",       "erase_read",     "erase_write",
      "erase_gain",    "read_weights",    "key_overlap",    "positions",
      "half_life",     "singular_values", "effective_rank", "spectrum_positions"};
  const bool law = options.get_string("memory.name") == "rule";
  return law && others.count(input) != 0 ? "token." + input : input;
}

std::int64_t parts_state(const Options& options, std::int64_t values) {
  const std::int64_t heads = whole(options, "model.heads", 1), writes = whole(options, "memory.writes", 1);
  const std::int64_t d_key = options.get_int("model.d_key") / heads * key_heads(options);
  std::int64_t floats = text(options, "input_shift") == "none" ? 0 : options.get_int("model.width");
  if (options.has("model.input_conv") && !options.get_string("model.input_conv").empty())
    floats += (whole(options, "model.short_conv_width", 4) - 1) * options.get_int("model.width");
  if (whole(options, "model.blocks", 0) > 0)
    floats += (whole(options, "model.short_conv_width", 4) - 1) * heads * values;
  for (const auto& [what, size] :
       {std::pair{'q', d_key}, {'k', writes * d_key}, {'v', writes * heads * values}}) {
    if (concerns(text(options, "token_shift"), what)) floats += size;
    if (concerns(text(options, "short_conv"), what))
      floats += (whole(options, "model.short_conv_width", 4) - 1) * size;
  }
  return floats;
}

template <class Real>
Variable<Real>* ModelParts<Real>::convolved(Variable<Real>* x, Variable<Real>* w, bool silu,
                                            Variable<Real>* bias) {
  ShortConv<Real> op;
  op.silu = silu;
  op.x = in(x), op.w = in(w), op.bias = in(bias);
  return out(graph_.add(op).y);
}

template <class Real>
Variable<Real>* ModelParts<Real>::shifted(const std::string& what, Variable<Real>* x, Mixer<Real>* m) {
  const Size B(x->value.dim(0)), T(x->value.dim(1)), C(x->value.dim(2));
  const auto token_before = [&] {
    if (m && m->piece())
      return m->piece()
          ->token_before("token_shift." + what, Var<Real>{&graph_, graph_.view(x, {B, T, 1, C})})
          .variable;
    Constant<Real> taps;  // all of the token before, nothing of its own
    taps.number[0] = 1;
    taps.y.value = shaped<Real>(graph_.replicas(), {1, 1, 1, 2});
    const Var<Real> weights = expand(Var<Real>{&graph_, out(graph_.add(taps).y)}, {1, 1, C, 2});
    return convolved(x, graph_.view(weights.variable, {C, 2}), false);
  };
  const bool by_head = text(options_, "token_shift_law") == "head";
  const int writes = by_head && what != "q" ? m->N : 1, n = by_head ? writes * m->H : 1;
  const auto rows = [&](Variable<Real>* v) { return Var<Real>{&graph_, graph_.view(v, {B, T, n, C / n})}; };
  const Var<Real> own = rows(x), before = rows(token_before());
  const auto mu = [&] {
    if (by_head)
      return view(
          sigmoid(m->for_model([&] { return m->token("shift_" + what, 1, std::nullopt, {}, writes > 1); })),
          {B, T, n, 1});
    auto* numbers = parameter_("token_shift." + what, {C}, Init{Init::Law::uniform, 0, 1});
    return Var<Real>{&graph_, graph_.view(numbers, {1, 1, 1, C})};
  };
  const Var<Real> mixed = own + mu() * (before - own);
  return graph_.view(mixed.variable, {B, T, C});
}

template <class Real>
Variable<Real>* ModelParts<Real>::convolved_as_told(const std::string& what, Variable<Real>* x, bool silu,
                                                    Mixer<Real>* m) {
  const Size B(x->value.dim(0)), T(x->value.dim(1)), C(x->value.dim(2));
  const int width = narrow<int>(options_, "model.short_conv_width");
  const bool biased = flag(options_, "model.short_conv_bias");
  const Init plain = Init::uniform(1 / std::sqrt(static_cast<double>(width)));
  const bool normal = text(options_, "short_conv_start") == "normal";
  auto* weight = parameter_("short_conv." + what, {C, width}, normal ? Init::normal(0.02) : plain);
  auto* bias =
      biased ? parameter_("short_conv." + what + ".bias", {C}, normal ? Init::constant(0) : plain) : nullptr;
  if (m && m->piece()) return carried_conv(graph_, *m->piece(), "short_conv." + what, x, weight, silu, bias);
  // One op on a GPU; the CPU adds the bias last, as it always did.
  if (!biased || graph_.device() == Device::cuda) return convolved(x, weight, silu, bias);
  x = convolved(x, weight, false);
  Var<Real> y =
      Var<Real>{&graph_, graph_.view(x, {B, T, 1, C})} + Var<Real>{&graph_, graph_.view(bias, {1, 1, 1, C})};
  if (silu) y = map(MapKind::silu, y);
  return graph_.view(y.variable, {B, T, C});
}

template <class Real>
bool ModelParts<Real>::mixes(const std::string& what) const {
  return concerns(text(options_, "token_shift"), what[0]) || concerns(text(options_, "short_conv"), what[0]);
}

template <class Real>
Variable<Real>* ModelParts<Real>::mixed(const std::string& what, Variable<Real>* x, Mixer<Real>* m) {
  const bool silu = concerns(text(options_, "silu"), what[0]);
  if (concerns(text(options_, "token_shift"), what[0])) x = shifted(what, x, m);
  if (concerns(text(options_, "short_conv"), what[0]))
    return convolved_as_told(what, x, silu || options_.get_bool("model.short_conv_silu"), m);
  return silu ? map(MapKind::silu, Var<Real>{&graph_, x}).variable : x;
}

template <class Real>
Var<Real> ModelParts<Real>::placed(Mixer<Real>& m, const std::string& what, Var<Real> x) {
  const Size G = x.dim(2), d = x.dim(3);
  if (const std::string norm = text(options_, "qk_norm"); norm != "none") {
    const int rows = norm == "shared" ? 1 : G;
    auto* gain = parameter_("qk_norm." + what, {rows, d}, Init::constant(1));
    x = Var<Real>{&graph_, graph_.view(gain, {1, 1, rows, d})} * rms(x, kRmsNormEps);
  }
  if (flag(options_, "model.rotary"))
    x = rotate(m, x, number(options_, "model.rotary_base", 1e4), what == "k",
               static_cast<int>(whole(options_, "model.rotary_period", 0)));
  if (flag(options_, "model.feature_scale")) x = std::pow(d, -0.25) * x;
  return x;
}

template <class Real>
Var<Real> ModelParts<Real>::skipped(Mixer<Real>& m, Var<Real> o) {
  const std::string skip = text(options_, "out_skip");
  if (skip == "none" || skip == "convolved") return o;
  const int size = skip == "head" ? 1 : m.V;
  auto* D = parameter_("out_skip", {m.H, size}, Init::constant(1));
  return o + Var<Real>{&graph_, graph_.view(D, {1, 1, m.H, size})} * m.at_queries(m.values());
}

template <class Real>
Var<Real> ModelParts<Real>::normalised(Mixer<Real>& m, Var<Real> o) {
  const std::string norm = text(options_, "out_norm");
  if (norm == "none") return o;
  const double eps = number(options_, "model.out_norm_eps", kNormEps);
  const bool whole_row = norm == "layer" || norm == "rms_all", is_rms = norm == "rms" || norm == "rms_all";
  if (whole_row) o = view(o, {m.B, m.Q, 1, m.H * m.V});
  o = is_rms ? rms(o, eps) : Var<Real>{&graph_, normalize(graph_, RowNorm::layer, eps, o.variable)};
  if (whole_row) o = view(o, {m.B, m.Q, m.H, m.V});
  const std::string gain = text(options_, "out_norm_gain");
  const int rows = gain == "shared" ? 1 : m.H;
  const auto channels = [&](const char* name, double start) {
    return Var<Real>{&graph_,
                     graph_.view(parameter_(name, {rows, m.V}, Init::constant(start)), {1, 1, rows, m.V})};
  };
  if (gain != "off") o = channels("out_norm.gain", 1) * o;
  const bool biased = !options_.has("model.out_norm_bias") || options_.get_bool("model.out_norm_bias");
  return is_rms || !biased ? o : o + channels("out_norm.bias", 0);
}

template <class Real>
Var<Real> ModelParts<Real>::gated(Mixer<Real>& m, Var<Real> o) {
  const std::string gate = text(options_, "out_gate");
  if (gate == "none") return o;
  const auto told = static_cast<int>(whole(options_, "model.out_gate_rank", 0));
  constexpr double kGateOfRwkv7 = 5;
  const int rank = told == -2 ? rwkv7_rank(kGateOfRwkv7, m.token_size()) : told < 0 ? m.V : told;
  const bool lora = gate == "lora";
  const Through through{rank, lora ? MapKind::sigmoid : MapKind::affine};
  const Var<Real> x = m.for_model([&] { return m.asking("out_gate", m.V, {}, through); });
  if (lora) return x * o;
  if (gate == "sigmoid") return sigmoid(x) * o;
  return map(gate == "silu" ? MapKind::silu : MapKind::gelu, x) * o;
}

template <class Real>
Var<Real> ModelParts<Real>::with_bonus(Mixer<Real>& m, Var<Real> o, Var<Real> written) {
  if (!flag(options_, "model.bonus")) return o;
  const Var<Real> k = m.at_queries(written ? written : m.keys()), q = m.queries();
  if (k.dim(3) != q.dim(3))
    throw OptionError(
        "model.bonus",
        "model.bonus = true needs keys as they are written; it cannot go with a feature map that changes their size");
  auto* r = parameter_("bonus", {m.H, q.dim(3)}, Init::constant(-0.04));
  const Var<Real> own =
      fold(q * (Var<Real>{&graph_, graph_.view(r, {1, 1, m.H, q.dim(3)})} * k), {m.B, m.Q, m.H, 1});
  return o + own * m.at_queries(m.values());
}

template <class Real>
Var<Real> ModelParts<Real>::finished(Mixer<Real>& m, Var<Real> o, Var<Real> written, Var<Real> convolved) {
  o = skipped(m, o);
  if (text(options_, "out_act") == "silu") o = map(MapKind::silu, o);
  if (text(options_, "out_norm_order") == "after") return with_bonus(m, normalised(m, gated(m, o)), written);
  o = with_bonus(m, normalised(m, o), written);
  if (convolved) {
    auto* D = parameter_("out_skip", {m.H, m.V}, Init::constant(1));
    o = o + Var<Real>{&graph_, graph_.view(D, {1, 1, m.H, m.V})} * m.at_queries(convolved);
  }
  return gated(m, o);
}

template class ModelParts<float>;
template class ModelParts<double>;

}  // namespace crosstalk

// SPDX-License-Identifier: Apache-2.0
#include "models/parts/parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "kernels/base/error.h"
#include "kernels/base/text/no_effect.h"
#include "models/graph/nodes.h"

namespace crosstalk {
namespace {

/// All maps, as FeatureMap counts them.
const std::vector<maps::MapInfo>& map_infos() {
#define CROSSTALK_MAP_INFO(name) maps::name::info(),
  static const std::vector<maps::MapInfo> infos = {CROSSTALK_FEATURE_MAPS(CROSSTALK_MAP_INFO)};
#undef CROSSTALK_MAP_INFO
  return infos;
}

FeatureMap map_named(const std::string& name) {
  const auto& infos = map_infos();
  const auto found =
      std::find_if(infos.begin(), infos.end(), [&](const auto& info) { return info.name == name; });
  if (found == infos.end()) throw std::logic_error("[feature_map] there is no map " + name);
  return static_cast<FeatureMap>(found - infos.begin());
}

FeatureMap map_of(const Options& options) {
  return options.has("memory.feature_map") ? map_named(options.get_string("memory.feature_map"))
                                           : FeatureMap::identity;
}

const maps::MapInfo& info_of(FeatureMap map) { return map_infos()[static_cast<std::size_t>(map)]; }

/// Names of the maps of which `which` is true, "a", "b" or "c".
template <class Which>
std::string names_of_maps(const Which& which) {
  std::vector<std::string> names;
  for (const maps::MapInfo& info : map_infos()) {
    if (which(info)) names.push_back(fmt::format("\"{}\"", info.name));
  }
  const std::string last = names.back();
  names.pop_back();
  return names.empty() ? last : fmt::format("{} or {}", fmt::join(names, ", "), last);
}

bool takes(const maps::MapInfo& info, const std::string& option) {
  return std::any_of(info.options.begin(), info.options.end(),
                     [&](const OptionSpec& spec) { return spec.name == option; });
}

/// The options of all maps, each once.
const std::vector<OptionSpec>& map_options() {
  static const std::vector<OptionSpec> all = [] {
    std::vector<OptionSpec> options;
    for (const maps::MapInfo& info : map_infos()) {
      for (const OptionSpec& spec : info.options) {
        if (std::none_of(options.begin(), options.end(),
                         [&](const auto& known) { return known.name == spec.name; }))
          options.push_back(spec);
      }
    }
    return options;
  }();
  return all;
}

// Derives a map's options and d_dot from each other, and refuses what has no solution or no meaning.
void resolve_feature_map(Options& options) {
  const maps::MapInfo& info = info_of(map_of(options));
  for (const OptionSpec& spec : map_options()) {
    const std::string key = "memory." + spec.name;
    if (takes(info, spec.name) || options.at(key) == spec.default_value) continue;
    throw NoEffect(key, fmt::format("with feature_map \"{}\"", info.name),
                   fmt::format("it belongs to feature_map {}",
                               names_of_maps([&](const auto& other) { return takes(other, spec.name); })));
  }
  maps::MapSetting setting{options, head_d_key(options), options.get_int("memory.d_dot")};
  if (heads_of(options) > 1) setting.d_text = "model.d_key / model.heads";
  options.set("memory.d_dot", info.resolve(setting));
}

// Tells whether a model makes keys and queries; what `crosstalk apply` is given may have been mapped before.
bool in_a_model(const Options& options) { return options.has("model.name"); }

// Refuses sums that divide and can vanish: of features that change sign, of products of features that do.
void refuse_vanishing_sums(const Options& options) {
  if (!in_a_model(options)) return;
  const maps::MapInfo& info = info_of(map_of(options));
  const auto refuse = [&](const char* key, const char* norm, const char* instead, const std::string& others) {
    if (!options.has(key) || options.get_string(key) != norm) return;
    throw OptionError(
        key, fmt::format(
                 "{} = \"{}\" has no meaning with feature_map \"{}\"{}: its features change sign, so the sum "
                 "that divides can vanish; use {}, or feature_map {}",
                 key, norm, info.name,
                 takes(info, "degree") ? fmt::format(" of degree {}", options.get_int("memory.degree")) : "",
                 instead, others));
  };
  if (!info.positive) {
    refuse("memory.key_norm", "sum", "key_norm \"l2\" or \"none\"",
           names_of_maps([](const auto& other) { return other.positive; }));
  }
  if (!info.divides(options)) {
    refuse("memory.read_norm", "attention",
           takes(info, "degree") ? "an even degree, read_norm \"none\"" : "read_norm \"none\"",
           names_of_maps([](const auto& other) { return other.positive; }));
  }
}

}  // namespace

const std::vector<FeatureMapInfo>& feature_map_infos() {
  static const std::vector<FeatureMapInfo> infos = [] {
    std::vector<FeatureMapInfo> all;
    for (const maps::MapInfo& info : map_infos())
      all.push_back({info.name, info.formula, info.d_dot, info.source, info.positive});
    return all;
  }();
  return infos;
}

std::int64_t heads_of(const Options& options) {
  return options.has("model.heads") ? options.get_int("model.heads") : 1;
}

bool has_later_layers(const Options& options) {
  return in_a_model(options) && options.get_string("model.name") == "language" &&
         options.get_int("model.layers") > 1;
}
std::int64_t head_d_key(const Options& options) { return options.get_int("model.d_key") / heads_of(options); }
std::int64_t head_d_dot(const Options& options) {
  return options.has("memory.d_dot") ? options.get_int("memory.d_dot") : head_d_key(options);
}

Part feature_map(const std::string& default_map) {
  OptionSpec map{"feature_map", default_map, "phi, applied to keys and queries"};
  for (const auto& info : map_infos()) map.choices.push_back(info.name);
  std::vector<OptionSpec> options = {map};
  options.insert(options.end(), map_options().begin(), map_options().end());
  options.push_back(
      {"d_dot", 0, "dimension of phi (0: derived; given: solved for nu, features or degree)", 0, 1 << 20});
  return {options, [](Options& o) {
            resolve_feature_map(o);
            refuse_vanishing_sums(o);
          }};
}

Part key_norm(const std::string& default_norm) {
  return {
      {{"key_norm",
        default_norm,
        "normalisation of phi(k) and phi(q): by their sum, by their length, or none",
        0,
        0,
        {"none", "sum", "l2"}}},
      [](Options& o) {
        if (o.get_string("memory.key_norm") != "sum" || o.has("memory.feature_map") || !in_a_model(o)) return;
        throw OptionError(
            "memory.key_norm",
            "memory.key_norm = \"sum\" has no meaning without a positive feature map: keys change sign, so the sum that divides "
            "can vanish; use key_norm \"l2\" or \"none\"");
      }};
}

Part read_norm(const std::string& default_norm, std::vector<std::string> choices) {
  return {{{"read_norm", default_norm,
            "normalisation of what is read: attention divides by z.phi(q), z the sum of keys", 0, 0,
            std::move(choices)}}};
}

Part beta_max(double default_max) {
  OptionSpec spec{
      "beta_max", default_max,
      "beta = beta_max sigmoid(w.token + b): 1 can only overwrite, 2 can also reflect (needed to swap)", 0,
      2};
  spec.min_exclusive = true;
  spec.tried = {1.0, 2.0};
  return {{spec}};
}

Part rate_from() {
  return {{{.name = "rate_from",
            .default_value = 1.0,
            .help = "e^A, the rate of the decay, starts as U(rate_from, 16)",
            .min = 0,
            .max = 16,
            .tried = {0.0, 1.0}}}};
}

Part kernels(const std::vector<std::pair<std::string, std::string>>& names) {
  Part part;
  for (const auto& [name, value] : names) {
    part.options.push_back({name,
                            value,
                            "kernel of the product of query and key",
                            0,
                            0,
                            {"linear", "relu", "relu2", "round", "exp", "cosine_exp", "taylor", "power"}});
  }
  const std::vector<OptionSpec> named = part.options;
  part.options.push_back({"order", 2, "n of the kernels taylor and power", 1, 32, {}, false, {1, 2, 3}});
  part.options.push_back({"digits", 0, "decimals that the kernel round keeps", 0, 6, {}, false, {0, 1}});
  part.options.push_back(
      {"tau", 1.0, "tau of the kernel cosine_exp: exp(tau (cos - 1))", 0, 1e4, {}, false, {1.0, 3.0}});
  part.resolve = [named, all = part.options](Options& o) {
    const std::vector<std::pair<std::string, std::vector<std::string>>> takers = {
        {"order", {"taylor", "power"}}, {"digits", {"round"}}, {"tau", {"cosine_exp"}}};
    for (const auto& [option, kernels] : takers) {
      std::string here;
      bool taken = false;
      for (const OptionSpec& one : named) {
        const std::string& kernel = o.get_string("memory." + one.name);
        here += fmt::format("{}memory.{} = \"{}\"", here.empty() ? "" : " and ", one.name, kernel);
        taken = taken || std::count(kernels.begin(), kernels.end(), kernel) > 0;
      }
      if (!taken)
        refuse_without_effect(o, "memory", all, option, "with " + here,
                              fmt::format("it is of the kernel{} {}: choose that",
                                          kernels.size() > 1 ? "s" : "", fmt::join(kernels, " and ")));
    }
  };
  return part;
}

Part row_norm(const std::string& name, const std::string& default_norm) {
  return {{{name,
            default_norm,
            "what a row of weights is divided by: nothing, or its sum",
            0,
            0,
            {"none", "sum"}}}};
}

template <class Real>
Attention kernel_of(const Mixer<Real>& m, const char* option, const char* norm, double scale) {
  static const std::map<std::string, Kernel> kernels = {
      {"linear", Kernel::identity}, {"relu", Kernel::relu},  {"relu2", Kernel::relu2},
      {"round", Kernel::round},     {"exp", Kernel::exp},    {"cosine_exp", Kernel::exp},
      {"taylor", Kernel::taylor},   {"power", Kernel::power}};
  Attention how;
  how.kernel = kernels.at(m.text(option));
  how.normalised = m.text(norm) == "sum";
  how.scale = scale;
  how.order = m.integer("order");
  how.digits = m.integer("digits");
  if (m.text(option) == "cosine_exp") {  // e^{tau (cos - 1)}
    how.cosine = true;
    how.scale = m.number("tau"), how.offset = -how.scale;
  }
  return how;
}

namespace {

/// phi of a memory, and the random matrix that its rows share.
template <class Real>
struct Phi {
  FeatureMap map;
  const maps::MapInfo& info;
  int number;
  Variable<Real>* omega;

  explicit Phi(Mixer<Real>& m)
      : map(map_of(m.options)),
        info(info_of(map)),
        number(info.number ? info.number(m.options, m.d) : 1),
        omega(info.projection == maps::Projection::random ? m.omega(m.integer("features")) : nullptr) {}

  /// `role` names what is learned: queries and keys are projected each in their way.
  Var<Real> operator()(Mixer<Real>& m, Var<Real> x, const std::string& role) const {
    const bool polynomial = info.projection == maps::Projection::polynomial && m.learned();
    Var<Real> y = mapped(m, polynomial ? projected(m, x, role, "square") : x, role);
    if (polynomial) y = y + std::sqrt(0.5) * projected(m, x * x, role, "linear");
    if (!info.turned) return y;
    return rotate(m, y, 1e4, role != "query", 0, std::acos(-1.0) / (2.0 * m.T));
  }

 private:
  Var<Real> mapped(Mixer<Real>& m, Var<Real> x, const std::string& role) const {
    Variable<Real>* rows = x.variable;
    if (info.unit_rows) rows = normalize(m.graph, RowNorm::l2, m.norm_eps(), rows);
    if (map == FeatureMap::favor) return {&m.graph, feature_map(m.graph, map, number, rows, omega)};
    if (omega) rows = linear<Real>(m.graph, rows, omega, nullptr);
    if (info.projection == maps::Projection::learned && m.learned())
      rows = learned(m, {&m.graph, rows}, role).variable;
    return {&m.graph, feature_map<Real>(m.graph, map, number, rows, nullptr)};
  }

  // A x, A starting as N(0, 1/d), the same for all heads.
  Var<Real> projected(Mixer<Real>& m, Var<Real> x, const std::string& role, const char* name) const {
    const Var<Real> A = m.parameter(info.name + "." + role + "." + name, {m.d, m.d},
                                    Init::normal(1 / std::sqrt(static_cast<double>(m.d))));
    return {&m.graph, linear<Real>(m.graph, x.variable, m.graph.view(A.variable, {m.d, m.d}), nullptr)};
  }
  // x + A x + b with A and b zero at first, the same for all heads: W = I + A starts as the identity.
  Var<Real> learned(Mixer<Real>& m, Var<Real> x, const std::string& role) const {
    const std::string name = info.name + "." + role;
    const Var<Real> A = m.parameter(name + ".weight", {m.d, m.d}, Init::constant(0)),
                    b = m.parameter(name + ".bias", {1, m.d}, Init::constant(0));
    return x + Var<Real>{&m.graph, linear(m.graph, x.variable, m.graph.view(A.variable, {m.d, m.d}),
                                          m.graph.view(b.variable, {m.d}))};
  }
};

template <class Real>
RowNorm norm_of(const Mixer<Real>& m) {
  return m.text("key_norm") == "sum" ? RowNorm::sum : RowNorm::l2;
}

// The 2021 code guards the query's sum only; some features can sum to zero.
template <class Real>
double key_eps(const Mixer<Real>& m, FeatureMap map) {
  if (norm_of(m) != RowNorm::sum) return m.norm_eps();
  const auto vanishes = info_of(map).vanishes;
  return vanishes && vanishes(m.d) ? m.norm_eps() : 0;
}

template <class Real>
Var<Real> norm_rows(Mixer<Real>& m, Var<Real> x, double eps) {
  return normalised(m) ? Var<Real>{&m.graph, normalize(m.graph, norm_of(m), eps, x.variable)} : x;
}

}  // namespace

template <class Real>
bool normalised(const Mixer<Real>& m) {
  return m.has("key_norm") && m.text("key_norm") != "none";
}

template <class Real>
Features<Real> features(Mixer<Real>& m) {
  const Phi<Real> phi(m);
  Var<Real> k = m.keys();
  if (k) k = norm_rows(m, phi(m, k, "key"), normalised(m) ? key_eps(m, phi.map) : 0);
  const Var<Real> q = norm_rows(m, phi(m, m.queries(), "query"), m.norm_eps());
  if (k) m.note("phi_k", k);
  m.note("phi_q", q);
  return {m.query_scale() == 1 ? q : m.query_scale() * q, k};
}

template <class Real>
Var<Real> featured(Mixer<Real>& m, Var<Real> x) {
  return norm_rows(m, Phi<Real>(m)(m, x, "own_key"), m.norm_eps());
}

template <class Real>
Var<Real> normalised_read(Mixer<Real>& m, Var<Real> o) {
  if (m.text("read_norm") != "layernorm") return o;
  return {&m.graph, normalize(m.graph, RowNorm::layer, kLayerNormEps, o.variable)};
}

template <class Real>
Var<Real> beta_gate(Mixer<Real>& m, const std::string& parameter) {
  return m.input("beta", [&] { return sigmoid(m.token(parameter), m.number("beta_max")); });
}

template <class Real>
Var<Real> mamba_law(Mixer<Real>& m, int width, const std::string& called) {
  const double from = m.has("rate_from") ? m.number("rate_from") : 1;
  const Var<Real> rate = exp(m.parameter("A_log" + called, {m.H}, Init::log_uniform(from, 16)));
  const int rank = width > 1 ? m.d : 0;
  return -rate * softplus(m.token("decay" + called, width, Init::inverse_softplus(1e-3, 0.1), rank));
}

template <class Real>
Var<Real> mamba_decay(Mixer<Real>& m, int width) {
  return m.input("log_decay", [&] { return mamba_law(m, width); });
}

#define CROSSTALK_PARTS(Real)                                                         \
  template Features<Real> features(Mixer<Real>&);                                     \
  template Var<Real> featured(Mixer<Real>&, Var<Real>);                               \
  template bool normalised(const Mixer<Real>&);                                       \
  template Var<Real> normalised_read(Mixer<Real>&, Var<Real>);                        \
  template Attention kernel_of(const Mixer<Real>&, const char*, const char*, double); \
  template Var<Real> beta_gate(Mixer<Real>&, const std::string&);                     \
  template Var<Real> mamba_law(Mixer<Real>&, int, const std::string&);                \
  template Var<Real> mamba_decay(Mixer<Real>&, int);
CROSSTALK_PARTS(float)
CROSSTALK_PARTS(double)

}  // namespace crosstalk

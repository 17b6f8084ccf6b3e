// SPDX-License-Identifier: Apache-2.0
#include "models/parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "kernels/base/error.h"
#include "models/graph/nodes.h"

namespace crosstalk {
namespace {

std::int64_t heads_of(const Options& options) {
  return options.has("model.heads") ? options.get_int("model.heads") : 1;
}

const FeatureMapInfo& info_of(const std::string& name) {
  const auto& infos = feature_map_infos();
  return *std::find_if(infos.begin(), infos.end(), [&](const auto& info) { return info.name == name; });
}

FeatureMap map_of(const Options& options) {
  if (!options.has("memory.feature_map")) return FeatureMap::identity;
  const std::string& name = options.get_string("memory.feature_map");
  if (name == "elu1") return FeatureMap::elu1;
  if (name == "relu") return FeatureMap::relu;
  if (name == "tanh") return FeatureMap::tanh;
  if (name == "dpfp") return FeatureMap::dpfp;
  if (name == "favor") {
    return options.get_string("memory.favor_variant") == "positive" ? FeatureMap::favor_positive
                                                                    : FeatureMap::favor_hyperbolic;
  }
  return FeatureMap::identity;
}

bool is_favor(FeatureMap map) {
  return map == FeatureMap::favor_hyperbolic || map == FeatureMap::favor_positive;
}

void only_with(const Options& options, const char* key, bool unset, const char* map) {
  if (!unset) {
    throw OptionError(key, fmt::format("{} belongs to feature_map \"{}\"; the feature map here is \"{}\"",
                                       key, map, options.get_string("memory.feature_map")));
  }
}

// Derives nu, features and d_dot from each other, and refuses what has no solution or no meaning.
void resolve_feature_map(Options& options) {
  const std::string& map = options.get_string("memory.feature_map");
  const std::int64_t d = head_d_key(options);
  std::int64_t nu = options.get_int("memory.nu"), m = options.get_int("memory.features"),
               d_dot = options.get_int("memory.d_dot");
  if (map != "dpfp") only_with(options, "memory.nu", nu == 0, "dpfp");
  if (map != "favor") {
    only_with(options, "memory.features", m == 0, "favor");
    only_with(options, "memory.favor_variant", options.get_string("memory.favor_variant") == "hyperbolic",
              "favor");
    only_with(options, "memory.favor_redraw", options.get_string("memory.favor_redraw") == "every_forward",
              "favor");
  }
  const auto refuse_d_dot = [&](const std::string& what) {
    throw OptionError(
        "memory.d_dot",
        fmt::format("memory.d_dot = {} has no solution with feature_map \"{}\" and {} = {}: {}", d_dot, map,
                    heads_of(options) > 1 ? "model.d_key / model.heads" : "model.d_key", d, what));
  };
  if (map == "dpfp") {
    if (nu == 0) nu = d_dot == 0 ? 1 : d_dot / (2 * d);
    if (d_dot != 0 && d_dot != 2 * d * nu)
      refuse_d_dot(fmt::format("d_dot must be 2 d_key nu = {} nu", 2 * d));
    if (nu < 1 || nu > 2 * d - 1) {
      throw OptionError(
          "memory.nu",
          fmt::format("memory.nu = {} is out of range: DPFP's rolls repeat after 2 d_key - 1 = {}", nu,
                      2 * d - 1));
    }
    d_dot = 2 * d * nu;
    options.set("memory.nu", nu);
  } else if (map == "favor") {
    const std::int64_t per_feature = options.get_string("memory.favor_variant") == "positive" ? 1 : 2;
    if (m == 0) m = d_dot == 0 ? d : d_dot / per_feature;
    if (d_dot != 0 && d_dot != per_feature * m)
      refuse_d_dot(fmt::format("d_dot must be {} features", per_feature));
    d_dot = per_feature * m;
    options.set("memory.features", m);
  } else {
    if (d_dot != 0 && d_dot != d) refuse_d_dot("it must equal d_key");
    d_dot = d;
  }
  options.set("memory.d_dot", d_dot);
}

// Whether a model makes keys and queries; what `crosstalk apply` is given may have been mapped before.
bool in_a_model(const Options& options) { return options.has("model.name"); }

// Refuses sum and attention normalisation over features that may be negative: their sums can vanish.
void refuse_vanishing_sums(const Options& options) {
  if (!in_a_model(options)) return;
  const std::string& map = options.get_string("memory.feature_map");
  if (info_of(map).positive) return;
  for (const char* key : {"memory.key_norm", "memory.read_norm"}) {
    if (!options.has(key)) continue;
    const std::string& norm = options.get_string(key);
    if (norm == "sum" || norm == "attention") {
      throw OptionError(
          key, fmt::format(
                   "{} = \"{}\" has no meaning with feature_map \"{}\": its features change sign, so the sum "
                   "that divides can vanish; use {}, or a positive map (elu1, relu, dpfp, favor)",
                   key, norm, map, norm == "sum" ? "key_norm \"l2\" or \"none\"" : "read_norm \"none\""));
    }
  }
}

}  // namespace

const std::vector<FeatureMapInfo>& feature_map_infos() {
  static const std::vector<FeatureMapInfo> infos = {
      {"identity", "phi(x) = x", "d_key", "Schmidhuber 1991; Yang et al. 2024 (with key_norm l2)", false},
      {"elu1", "phi(x) = elu(x) + 1", "d_key", "Katharopoulos et al. 2020, arXiv 2006.16236", true},
      {"relu", "phi(x) = max(0, x)", "d_key", "common", true},
      {"tanh", "phi(x) = tanh(x)", "d_key", "Schlag, Munkhdalai, Schmidhuber 2021, arXiv 2011.07831", false},
      {"dpfp", "f = [relu(x); relu(-x)]; phi(x) = [f * roll(f, 1); ...; f * roll(f, nu)]", "2 d_key nu",
       "Schlag, Irie, Schmidhuber 2021, arXiv 2102.11174, section 5.3", true},
      {"favor",
       "phi(x) = exp(-|x|^2/2) [exp(O x); exp(-O x)] / sqrt(2 m), O random and orthogonal; variant positive: "
       "exp(O x) / sqrt(m) alone",
       "2 features (hyperbolic), features (positive)", "Choromanski et al. 2021, arXiv 2009.14794", true},
  };
  return infos;
}

std::int64_t head_d_key(const Options& options) { return options.get_int("model.d_key") / heads_of(options); }
std::int64_t head_d_dot(const Options& options) {
  return options.has("memory.d_dot") ? options.get_int("memory.d_dot") : head_d_key(options);
}

Part feature_map(const std::string& default_map) {
  OptionSpec map{"feature_map", default_map, "phi, applied to keys and queries"};
  for (const auto& info : feature_map_infos()) map.choices.push_back(info.name);
  return {{map,
           {"nu", std::int64_t{0}, "DPFP's nu: d_dot = 2 d_key nu (0: 1 for dpfp, or from d_dot)", 0, 4096},
           {"features", std::int64_t{0}, "FAVOR+'s number m of random features (0: d_key, or from d_dot)", 0,
            65536},
           {"favor_variant",
            std::string("hyperbolic"),
            "FAVOR+ estimator: d_dot = 2 m (hyperbolic) or m (positive)",
            0,
            0,
            {"hyperbolic", "positive"}},
           {"favor_redraw",
            std::string("every_forward"),
            "when FAVOR+ draws its features anew: in every forward pass, training and evaluation (Schlag et "
            "al. 2021), or never",
            0,
            0,
            {"every_forward", "fixed"}},
           {"d_dot", std::int64_t{0}, "dimension of phi (0: derived; given: solved for nu or features)", 0,
            1 << 20}},
          [](Options& o) {
            resolve_feature_map(o);
            refuse_vanishing_sums(o);
          }};
}

Part key_norm(const std::string& default_norm) {
  return {{{"key_norm",
            default_norm,
            "normalisation of phi(k) and phi(q): by their sum, by their length, or none",
            0,
            0,
            {"none", "sum", "l2"}}},
          [](Options& o) {
            if (o.get_string("memory.key_norm") != "sum" || o.has("memory.feature_map") || !in_a_model(o))
              return;
            throw OptionError("memory.key_norm",
                              "memory.key_norm = \"sum\" has no meaning without a positive feature map: keys "
                              "change sign, so the "
                              "sum that divides can vanish; use key_norm \"l2\" or \"none\"");
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
  return {{spec}};
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
  part.options.push_back({"order", std::int64_t{2}, "n of the kernels taylor and power", 1, 32});
  part.options.push_back({"digits", std::int64_t{0}, "decimals that the kernel round keeps", 0, 6});
  part.options.push_back({"tau", 1.0, "tau of the kernel cosine_exp: exp(tau (cos - 1))", 0, 1e4});
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
      {"round", Kernel::round},     {"exp", Kernel::exp},    {"cosine_exp", Kernel::cosine_exp},
      {"taylor", Kernel::taylor},   {"power", Kernel::power}};
  Attention how;
  how.kernel = kernels.at(m.text(option));
  how.normalised = m.text(norm) == "sum";
  how.scale = scale;
  how.order = m.integer("order");
  how.digits = m.integer("digits");
  how.tau = m.number("tau");
  return how;
}

namespace {

template <class Real>
Var<Real> mapped_rows(Mixer<Real>& m, FeatureMap map, Var<Real> x, Variable<Real>* omega) {
  const int nu = map == FeatureMap::dpfp ? m.integer("nu") : 1;
  return {&m.graph, feature_map(m.graph, map, nu, x.variable, omega)};
}

template <class Real>
RowNorm norm_of(const Mixer<Real>& m) {
  return m.text("key_norm") == "sum" ? RowNorm::sum : RowNorm::l2;
}

// The 2021 code guards the query's sum only; some features can sum to zero.
template <class Real>
double key_eps(const Mixer<Real>& m, FeatureMap map) {
  if (norm_of(m) != RowNorm::sum) return m.norm_eps();
  const bool odd = m.d % 2 == 1;  // DPFP of +-+ is zero (not of an even number of signs)
  return map != FeatureMap::relu && !(map == FeatureMap::dpfp && odd) ? 0 : m.norm_eps();
}

template <class Real>
Var<Real> norm_rows(Mixer<Real>& m, Var<Real> x, double eps) {
  return normalised(m) ? Var<Real>{&m.graph, normalize(m.graph, norm_of(m), eps, x.variable)} : x;
}

template <class Real>
Variable<Real>* omega_of(Mixer<Real>& m, FeatureMap map) {
  return is_favor(map) ? m.omega(m.integer("features")) : nullptr;
}

}  // namespace

template <class Real>
bool normalised(const Mixer<Real>& m) {
  return m.has("key_norm") && m.text("key_norm") != "none";
}

template <class Real>
Features<Real> features(Mixer<Real>& m) {
  const FeatureMap map = map_of(m.options);
  Variable<Real>* omega = omega_of(m, map);
  const Var<Real> k = norm_rows(m, mapped_rows(m, map, m.keys(), omega), normalised(m) ? key_eps(m, map) : 0);
  const Var<Real> q = norm_rows(m, mapped_rows(m, map, m.queries(), omega), m.norm_eps());
  return {m.query_scale() == 1 ? q : m.query_scale() * q, k};
}

template <class Real>
Var<Real> featured(Mixer<Real>& m, Var<Real> x) {
  const FeatureMap map = map_of(m.options);
  return norm_rows(m, mapped_rows(m, map, x, omega_of(m, map)), m.norm_eps());
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
Var<Real> mamba_decay(Mixer<Real>& m, int width) {
  return m.input("log_decay", [&] {
    const Var<Real> rate = exp(m.parameter("A_log", {m.H}, Init::log_uniform(1, 16)));
    const int rank = width > 1 ? m.d : 0;
    return -(rate * softplus(m.token("decay", width, Init::inverse_softplus(1e-3, 0.1), rank)));
  });
}

#define CROSSTALK_PARTS(Real)                                                         \
  template Features<Real> features(Mixer<Real>&);                                     \
  template Var<Real> featured(Mixer<Real>&, Var<Real>);                               \
  template bool normalised(const Mixer<Real>&);                                       \
  template Var<Real> normalised_read(Mixer<Real>&, Var<Real>);                        \
  template Attention kernel_of(const Mixer<Real>&, const char*, const char*, double); \
  template Var<Real> beta_gate(Mixer<Real>&, const std::string&);                     \
  template Var<Real> mamba_decay(Mixer<Real>&, int);
CROSSTALK_PARTS(float)
CROSSTALK_PARTS(double)

}  // namespace crosstalk

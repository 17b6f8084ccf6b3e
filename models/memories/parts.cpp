// SPDX-License-Identifier: Apache-2.0
#include "models/memories/parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/base/error.h"
#include "kernels/ops/table_recurrence.h"
#include "kernels/ops/table_scores.h"

namespace crosstalk {
namespace {

const FeatureMapInfo& info_of(const std::string& name) {
  const auto& infos = feature_map_infos();
  return *std::find_if(infos.begin(), infos.end(), [&](const auto& info) { return info.name == name; });
}

FeatureMap map_of(const Options& options) {
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

// The random features of FAVOR+, nullptr for other maps.
template <class Real>
Variable<Real>* omega_of(ReadContext<Real>& context, FeatureMap map) {
  if (!is_favor(map)) return nullptr;
  return favor_features(context.graph, context.integer("features"), context.d_key(), context.feature_seed,
                        context.feature_draw, context.feature_purpose);
}

void only_with(const Options& options, const char* key, bool unset, const char* map) {
  if (!unset) {
    throw OptionError(key, fmt::format("{} belongs to feature_map \"{}\"; the feature map here is \"{}\"",
                                       key, map, options.get_string("memory.feature_map")));
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

std::vector<OptionSpec> feature_map_options(const std::string& default_map) {
  OptionSpec map{"feature_map", default_map, "phi, applied to keys and queries"};
  for (const auto& info : feature_map_infos()) map.choices.push_back(info.name);
  return {map,
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
           1 << 20}};
}

OptionSpec beta_max_option() {
  return {"beta_max", std::int64_t{1},
          "beta = beta_max sigmoid(w.token + b): 1 can only overwrite, 2 can also reflect (needed to swap)",
          1, 2};
}

MemoryKind memory_of_features(const std::string& map, const std::string& key_norm,
                              const std::string& read_norm, std::vector<std::string> read_norms) {
  MemoryKind kind;
  kind.options = feature_map_options(map);
  kind.options.push_back({"key_norm",
                          key_norm,
                          "normalisation of phi(k) and phi(q): by their sum, by their length, or none",
                          0,
                          0,
                          {"none", "sum", "l2"}});
  kind.options.push_back({"read_norm", read_norm,
                          "normalisation of what is read: attention divides by z.phi(q), z the sum of keys",
                          0, 0, std::move(read_norms)});
  kind.resolve = [](Options& o) {
    resolve_feature_map(o);
    refuse_vanishing_sums(o);
  };
  kind.d_dot = resolved_d_dot;
  kind.state_size = [](const Options& o, std::int64_t values, std::int64_t) {
    return (values + (o.get_string("memory.read_norm") == "attention" ? 1 : 0)) * resolved_d_dot(o);
  };
  return kind;
}

void resolve_feature_map(Options& options) {
  const std::string& map = options.get_string("memory.feature_map");
  const std::int64_t d = options.get_int("model.d_key");
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
        fmt::format("memory.d_dot = {} has no solution with feature_map \"{}\" and model.d_key = {}: {}",
                    d_dot, map, d, what));
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

void refuse_vanishing_sums(const Options& options) {
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

std::int64_t resolved_d_dot(const Options& options) { return options.get_int("memory.d_dot"); }

namespace {

/// phi and key_norm of the options.
struct FeatureSpec {
  FeatureMap map;
  int nu;
  bool normalised;
  RowNorm norm;
  double key_eps;
};
template <class Real>
FeatureSpec spec_of(const ReadContext<Real>& context) {
  const FeatureMap map = map_of(context.options);
  const std::string& norm = context.text("key_norm");
  double key_eps = kReadEps;
  if (norm == "sum") {  // the 2021 code guards the query's sum only; some features can sum to zero
    const bool odd = context.d_key() % 2 == 1;  // DPFP of +-+ is zero (not of an even number of signs)
    if (map != FeatureMap::relu && !(map == FeatureMap::dpfp && odd)) key_eps = 0;
  }
  return {map, context.integer("nu"), norm != "none", norm == "sum" ? RowNorm::sum : RowNorm::l2, key_eps};
}

template <class Real>
Variable<Real>* query_features(ReadContext<Real>& context, const FeatureSpec& spec, Variable<Real>* omega) {
  auto* query = feature_map(context.graph, spec.map, spec.nu, context.query, omega);
  return spec.normalised ? normalize(context.graph, spec.norm, kReadEps, query) : query;
}

}  // namespace

template <class Real>
Features<Real> features(ReadContext<Real>& context) {
  Graph<Real>& g = context.graph;
  const FeatureSpec spec = spec_of(context);
  Variable<Real>*omega = omega_of(context, spec.map), *key = nullptr;
  constexpr std::int64_t kLargestFused = 2048;  // a warp's features lie in shared memory
  if (omega || !context.fused || resolved_d_dot(context.options) > kLargestFused) {
    key = feature_map(g, spec.map, spec.nu, context.keys(), omega);
    if (spec.normalised) key = normalize(g, spec.norm, spec.key_eps, key);
  } else {
    key = table_features(g, context.batch.tokens, context.key_tables, spec.map, spec.nu,
                         spec.normalised ? &spec.norm : nullptr, spec.key_eps);
  }
  return {key, query_features(context, spec, omega)};
}

template <class Real>
Variable<Real>* table_read(ReadContext<Real>& context, const std::function<Variable<Real>*()>& beta) {
  const FeatureSpec spec = spec_of(context);
  if (!context.fused || !spec.normalised || context.batch.Q != 1 ||
      !table_recurrence_covers(spec.map, context.d_key(), spec.nu))
    return nullptr;
  auto* query = query_features<Real>(context, spec, nullptr);
  return table_recurrent_read(context.graph, context.key_tables, spec.map, spec.nu, spec.norm, spec.key_eps,
                              query, beta(), context.batch);
}

namespace {

// Whether scores are better made from the tables than from keys: in training on CUDA, where there are lists
// of ids, as long as there are fewer queries than make a product of keys pay. FAVOR+ then projects tables,
// not keys.
template <class Real>
bool scored_from_tables(const ReadContext<Real>& context, FeatureMap map, int nu) {
  constexpr int kMostQueries = 4;
  const BatchTensors& batch = context.batch;
  std::int64_t rows = 0;
  for (const auto& table : context.key_tables) {
    if (!table.buckets.order) return false;
    rows += table.rows->value.rows();
  }
  const bool plain = !context.options.has("memory.key_norm") || context.text("key_norm") == "none";
  return plain && batch.Q <= kMostQueries && table_scores_cover(map, context.d_key(), nu) &&
         (!is_favor(map) || rows <= static_cast<std::int64_t>(batch.B) * batch.T);
}

}  // namespace

template <class Real>
Variable<Real>* key_scores(ReadContext<Real>& context, double scale) {
  const bool mapped = context.options.has("memory.feature_map");
  const FeatureMap map = mapped ? map_of(context.options) : FeatureMap::identity;
  const int nu = map == FeatureMap::dpfp ? context.integer("nu") : 1;
  if (scored_from_tables(context, map, nu)) {
    return table_scores(context.graph, scale, map, nu, context.key_tables, omega_of(context, map),
                        context.query, context.batch);
  }
  if (!mapped) return scores(context.graph, scale, context.keys(), context.query, context.batch);
  const auto [key, query] = features(context);
  return scores(context.graph, scale, key, query, context.batch);
}

template <class Real>
Variable<Real>* normalize_read(ReadContext<Real>& context, Variable<Real>* y) {
  return context.text("read_norm") == "layernorm" ? normalize(context.graph, RowNorm::layer, kLayerNormEps, y)
                                                  : y;
}

template Features<float> features(ReadContext<float>&);
template Features<double> features(ReadContext<double>&);
template Variable<float>* table_read(ReadContext<float>&, const std::function<Variable<float>*()>&);
template Variable<double>* table_read(ReadContext<double>&, const std::function<Variable<double>*()>&);
template Variable<float>* key_scores(ReadContext<float>&, double);
template Variable<double>* key_scores(ReadContext<double>&, double);
template Variable<float>* normalize_read(ReadContext<float>&, Variable<float>*);
template Variable<double>* normalize_read(ReadContext<double>&, Variable<double>*);

}  // namespace crosstalk

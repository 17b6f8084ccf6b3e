// The parts that memories are made of: feature map, key normalisation, read normalisation, gate; and what a
// memory gets when it is built. A registered memory is a preset over these parts plus its update rule.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "models/graph/nodes.h"
#include "models/memory.h"

namespace crosstalk {

/// What a memory is built from.
template <class Real>
struct ReadContext {
  Graph<Real>& graph;
  const Options& options;  ///< resolved; the memory's own under "memory."
  const BatchTensors& batch;
  std::vector<Table<Real>> key_tables;  ///< a token's key [d_key] is the sum of the rows that it chooses
  Variable<Real>* query;                ///< [R,B,Q,d_key]
  int values;                           ///< V: values are one-hot, ids in the batch's tokens
  std::function<Variable<Real>*()>
      gate;  ///< makes a scalar gate's logit [R,B,T,1] from the token (own projection)
  const Tensor<std::int32_t>*feature_seed, *feature_draw;  ///< of random feature maps
  std::uint32_t feature_purpose;
  bool fused = false;  ///< fused ops instead of chains of fine ones: they pay on CUDA, not on the CPU

  int d_key() const { return query->value.columns(); }
  /// The keys themselves, [R,B,T,d_key]: a memory that can do without asks key_scores().
  Variable<Real>* keys() { return lookup<Real>(graph, batch.tokens, key_tables, nullptr); }

  const std::string& text(const char* name) const {
    return options.get_string(std::string("memory.") + name);
  }
  int integer(const char* name) const {
    return static_cast<int>(options.get_int(std::string("memory.") + name));
  }
};

/// The options feature_map, nu, features, favor_variant, favor_redraw, d_dot, with the given default map.
std::vector<OptionSpec> feature_map_options(const std::string& default_map);
OptionSpec beta_max_option();

/// A memory whose state has V rows of d_dot numbers (and one more, z, with read_norm attention), still
/// without a name and a graph: feature_map_options(), key_norm and read_norm with these defaults and kinds of
/// read norms, and their checks.
MemoryKind memory_of_features(const std::string& map, const std::string& key_norm,
                              const std::string& read_norm,
                              std::vector<std::string> read_norms = {"none", "attention", "layernorm"});

/// Derives nu, features and d_dot from each other, and refuses what has no solution or no meaning.
void resolve_feature_map(Options& options);
/// Refuses sum and attention normalisation over features that may be negative: their sums can vanish.
void refuse_vanishing_sums(const Options& options);

std::int64_t resolved_d_dot(const Options& options);

/// phi of keys and queries, then key_norm on both.
template <class Real>
struct Features {
  Variable<Real>*key, *query;  ///< [R,B,T,d_dot], [R,B,Q,d_dot]
};
template <class Real>
Features<Real> features(ReadContext<Real>& context);

/// recurrent_read() of features() with write = erase = beta <= 2, straight from the tables of keys: on CUDA,
/// for normalised features that the fused op covers; nullptr where it does not.
template <class Real>
Variable<Real>* table_read(ReadContext<Real>& context, const std::function<Variable<Real>*()>& beta);

/// scale phi(q).phi(k_t), normalised as features() does: [R,B,Q,T], 0 for tokens not seen. Memories without a
/// feature map read their keys as they are.
template <class Real>
Variable<Real>* key_scores(ReadContext<Real>& context, double scale);

/// Applies read_norm "none" or "layernorm" to values read [R,B,Q,V].
template <class Real>
Variable<Real>* normalize_read(ReadContext<Real>& context, Variable<Real>* y);

/// eps of the denominators of reads (Schlag, Irie, Schmidhuber 2021: 1e-6) and of LayerNorm (PyTorch: 1e-5).
inline constexpr double kReadEps = 1e-6, kLayerNormEps = 1e-5;

}  // namespace crosstalk

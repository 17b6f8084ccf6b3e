// A memory as the program sees it: name, options, feature dimension, state size. How it is built into a graph
// is in models/memories/. SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/base/options.h"

namespace crosstalk {

template <class Real>
struct Variable;
template <class Real>
struct ReadContext;  // models/memories/parts.h

/// How the key and query projections of the retrieval model start.
enum class ProjectionInit {
  uniform,  ///< U(-1/sqrt(d_key), 1/sqrt(d_key)) (Schlag, Irie, Schmidhuber 2021, linearAttention.py)
  xavier,   ///< U(-a, a), a = sqrt(6 / (inputs + d_key)) (the same, softmaxAttention.py)
};

/// A registered memory: a preset over parts. Options live under "memory.".
struct MemoryKind {
  std::string name;         ///< "softmax", "linear_attention", "delta", "peng_gate", "fwm"
  std::string summary;      ///< one line
  std::string description;  ///< equations and source
  std::vector<OptionSpec>
      options;  ///< feature_map, nu, d_dot, features, key_norm, read_norm, beta, ...; without "name"
  /// Fills derived options in place and refuses combinations without meaning with the reason (OptionError).
  /// Reads "model.d_key".
  void (*resolve)(Options& options) = nullptr;
  /// Dimension of phi(k); 0 for softmax, which has none.
  std::int64_t (*d_dot)(const Options& options) = nullptr;
  /// Floats kept per sequence at inference with `values` value dimensions after `length` tokens (softmax: a
  /// cache).
  std::int64_t (*state_size)(const Options& options, std::int64_t values, std::int64_t length) = nullptr;
  ProjectionInit projection_init = ProjectionInit::uniform;
  bool gated = false;  ///< uses a scalar gate, a projection of the token
  /// Adds the memory to a graph: keys and queries in, values read [R,B,Q,V] out.
  Variable<float>* (*build_float)(ReadContext<float>& context) = nullptr;
  Variable<double>* (*build_double)(ReadContext<double>& context) = nullptr;
};

const std::vector<MemoryKind>& memory_kinds();
const MemoryKind* find_memory(const std::string& name);

/// Feature maps, for `list feature-maps`.
struct FeatureMapInfo {
  std::string name, formula, d_dot, source;
  bool positive;  ///< features are never negative, so sums of them may divide
};
const std::vector<FeatureMapInfo>& feature_map_infos();

/// Options of the retrieval model under "model." (name, d_key, embedding).
const std::vector<OptionSpec>& model_options();
/// Derives model.embedding = int(1.1 (keys + values)) where it is 0.
void resolve_model(Options& options, std::int64_t keys, std::int64_t values);

}  // namespace crosstalk
